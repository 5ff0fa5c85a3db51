//! All is over: the request is counted, logged, and its connection told where the next one begins.

use std::time::{Instant, SystemTime};

use http::Version;
use pingora_proxy::Session;
use smallvec::SmallVec;

use super::Gateway;
use super::again::{end, has_header, succeeded};
use super::ctx::{Attempt, Ctx};
use super::request::with_facts;
use super::{grpc, reject};
use crate::health::Endpoint;
use crate::observe::sample::{Away, Sighting, Url};
use crate::observe::trace::Context;
use crate::observe::{self, Peer, Record};
use crate::pool::{Outcome, Reason};
use crate::resilience::Class;
use crate::template::Facts;

/// Where statuses begin that are the server's fault.
const SERVER_ERROR: u16 = 500;

impl Gateway {
    /// The last hook of a request.
    pub(super) fn finish(&self, session: &mut Session, ctx: &mut Ctx, now: Instant) {
        if ctx.error.is_none() && has_header(ctx) {
            // An answer without a body, or one whose end the client's side saw first.
            succeeded(ctx, now);
        }
        end(ctx, Outcome::Abandoned, Class::ClientGone.as_str(), now);
        let status = self.status(session, ctx);
        let took = now.saturating_duration_since(ctx.began);
        let method = session.req_header().method.as_str();
        match (&ctx.route_tail, &ctx.snapshot) {
            (Some(tail), _) => tail.meters.answered(method, status, took),
            (None, Some(snapshot)) => snapshot.unrouted().answered(method, status, took),
            (None, None) => {}
        }
        tried(ctx, status, now);
        if ctx.error.is_some() || !ctx.route_tail.as_ref().is_some_and(|tail| tail.unlogged) {
            self.log(session, ctx, status, now);
        }
        self.leave_spans(session, ctx, status, now);
        sample(session, ctx, now);
        if let (Some(wire), Some(http1)) = (&ctx.wire, session.as_downstream().as_http1()) {
            wire.request_finished(http1.get_headers_raw_bytes().len(), session.as_downstream().body_bytes_read());
        }
        ctx.serving = None;
    }

    /// What the client saw; 499 when it saw nothing.
    fn status(&self, session: &Session, ctx: &Ctx) -> u16 {
        if let Some(status) = grpc::stands_for(session, ctx.error) {
            return status;
        }
        let written = session.response_written().map(|head| head.status);
        let gone =
            matches!(ctx.error, Some(Class::ClientGone)) && written.is_none_or(|status| !reject::is_final(status));
        if gone { reject::client_gone().as_u16() } else { written.unwrap_or_else(reject::client_gone).as_u16() }
    }

    fn log(&self, session: &Session, ctx: &Ctx, status: u16, now: Instant) {
        let request = session.req_header();
        let other_form = !matches!(request.raw_path().first(), Some(b'/' | b'*'));
        let http1 = session.as_downstream().as_http1().filter(|_| other_form);
        let raw = http1.map(|http1| http1.get_headers_raw_bytes()).unwrap_or_default();
        let refused = ctx.wire.as_ref().filter(|_| ctx.error == Some(Class::BadRequest));
        let odd = refused.and_then(|wire| wire.odd_line());
        let absolute = || (!raw.is_empty()).then(|| first_line(&raw));
        with_facts(request, ctx, |facts| {
            so_far(session, ctx, facts, (status, now), |record| {
                self.log.write(&Record { request_line: odd.as_deref().or_else(absolute), ..*record });
            });
        });
    }
}

/// Shows `look` what is known of a request by `now`, answered with `status`.
pub(super) fn so_far(
    session: &Session,
    ctx: &Ctx,
    facts: &Facts<'_>,
    (status, now): (u16, Instant),
    look: impl FnOnce(&Record<'_>),
) {
    let attempts: SmallVec<[observe::Attempt<'_>; 2]> = ctx.attempts.iter().map(|one| shown(one, now)).collect();
    look(&Record {
        facts: *facts,
        request_line: None,
        protocol: protocol(session.req_header().version),
        time: SystemTime::now(),
        status,
        bytes_sent: sent(session, ctx),
        bytes_received: session.body_bytes_read() as u64,
        request_time: now.saturating_duration_since(ctx.began),
        request_id: ctx.id.as_str(),
        route: ctx.route_tail.as_ref().map(|tail| &*tail.name),
        pool: ctx.pool_tail.as_ref().map(|tail| &*tail.name),
        ring: ctx.pool_tail.as_ref().map(|tail| &*tail.fingerprint),
        key: key(ctx),
        attempts: &attempts,
        error: ctx.error.map(Class::as_str),
        limited: ctx.limits.name(),
        trace: ctx.trace.as_ref().map(Context::trace),
    });
}

/// The key it was placed by.
pub(super) fn key(ctx: &Ctx) -> Option<&[u8]> {
    ctx.placement.as_ref().filter(|placed| placed.hash.is_some()).map(|placed| &*placed.key)
}

/// While a change may go back: how a key fares, by what its client saw.
fn tried(ctx: &Ctx, status: u16, now: Instant) {
    let Some(trial) = ctx.pool_tail.as_ref().and_then(|tail| tail.trial.as_ref()) else { return };
    let Some(hash) = ctx.placement.as_ref().and_then(|placed| placed.hash) else { return };
    let ours = [
        Class::ClientGone,
        Class::ClientTimeout,
        Class::DrainTimeout,
        Class::Deadline,
        Class::BodyTooLarge,
        Class::LocalLimit,
    ];
    if ctx.error.is_none_or(|class| !ours.contains(&class)) {
        let took = ctx.headed.map(|headed| headed.saturating_duration_since(ctx.began));
        trial.record(hash, status >= SERVER_ERROR, took, now);
    }
}

/// Where the key of this request went, for the sample of its pool.
fn sample(session: &Session, ctx: &Ctx, now: Instant) {
    let (Some(tail), Some(placement), Some(first)) = (&ctx.pool_tail, &ctx.placement, ctx.attempts.first()) else {
        return;
    };
    let Some(hash) = placement.hash else { return };
    let sighting = Sighting { hash, key: &placement.key, origin: &first.origin, away: away(first.reason) };
    let url = || with_facts(session.req_header(), ctx, |facts| Url::of(facts.host, facts.target));
    tail.sample.see(&sighting, now, url);
}

/// Why a key did not go to its owner.
fn away(reason: Reason) -> Option<Away> {
    match reason {
        Reason::Owner | Reason::OwnerTried | Reason::Repeat | Reason::Spread | Reason::Balanced(_) => None,
        // When all are out, the walk begins with the owner.
        Reason::Panic => None,
        Reason::OwnerOut | Reason::Backup => Some(Away::Down),
        Reason::OwnerFull | Reason::BackupFull => Some(Away::Spill),
        Reason::OwnerPartial | Reason::Former => Some(Away::Ramp),
        Reason::OwnerOverloaded => Some(Away::Overload),
        Reason::OwnerDraining => Some(Away::Drain),
    }
}

/// Bytes of the answer's body that left for the client.
fn sent(session: &Session, ctx: &Ctx) -> u64 {
    let unsent = ctx.wire.as_ref().filter(|wire| !wire.is_h2()).map_or(0, |wire| u64::from(wire.unsent()));
    (session.body_bytes_sent() as u64).saturating_sub(unsent)
}

fn shown(attempt: &Attempt, now: Instant) -> observe::Attempt<'_> {
    observe::Attempt {
        origin: &attempt.origin,
        address: match &attempt.endpoint {
            Endpoint::Ip(address) => Peer::Ip(*address),
            Endpoint::Unix(path) => path.to_str().map_or(Peer::Unknown, Peer::Unix),
        },
        status: attempt.status,
        connect_time: attempt.connect_time,
        // One that is under way took so long until now.
        response_time: match attempt.outcome {
            "" => now.saturating_duration_since(attempt.began),
            _ => attempt.response_time,
        },
        reused: attempt.reused,
        outcome: attempt.outcome,
        cache: attempt.cache,
    }
}

fn first_line(raw: &[u8]) -> &[u8] {
    let line = raw.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}
