//! A try ended: what it came to, and whether there is another.
//!
//! Every way an attempt can end comes through [`end`], so that lease, log and counters agree; whether it is repeated is
//! said by `resilience`, after the next origin was found.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use pingora_core::Result;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorSource, ErrorType};
use pingora_http::RequestHeader;
use pingora_proxy::Session;

use super::ctx::{Attempt, Body, Ctx, Running};
use super::dial::looks_again;
use super::forward::{has_untried, next_untried};
use super::grpc::in_time;
use super::request::goes_in_h2;
use super::shared::is_hushed;
use super::watchdog::Late;
use super::wire::Fault;
use super::{Gateway, reject};
use crate::health::Endpoint;
use crate::observe::OriginMeters;
use crate::pool::{Outcome, Pick, Pool, Protocol};
use crate::resilience::failure::{Answer, Stage, classify, is_refused};
use crate::resilience::{self, Class, Decision, Failure, Place, UNPROCESSED};

/// A class of ours as the error Pingora carries; never tried again.
pub(super) fn raise(class: Class) -> Box<Error> {
    let mut error = class.raise();
    error.set_retry(false);
    error
}

/// The same peer, for what is left of the time to connect.
fn once_more(peer: &HttpPeer, left: Duration) -> Box<HttpPeer> {
    let mut peer = Box::new(peer.clone());
    // Zero would be none at all.
    let left = left.max(Duration::from_millis(1));
    peer.options.total_connection_timeout = peer.options.total_connection_timeout.map(|all| all.min(left));
    peer
}

impl Gateway {
    /// No connection came about.
    pub(super) fn not_connected(
        &self,
        session: &Session,
        peer: &HttpPeer,
        ctx: &mut Ctx,
        mut error: Box<Error>,
        now: Instant,
    ) -> Box<Error> {
        if let Some(dial) = ctx.running.as_ref().and_then(|running| running.dial.as_ref()) {
            if looks_again(&error) {
                ctx.again = Some(once_more(peer, dial.left()));
                error.set_retry(true);
                return error;
            }
            dial.ended(Err(error.etype()));
        }
        let class = unless_cut(in_time(classify(&error, Stage::Connecting), ctx, now), ctx);
        let dial = ctx.running.as_ref().and_then(|running| running.dial.as_ref());
        // One connection that failed is one piece of evidence, however many waited for it.
        let is_told = dial.is_some_and(|dial| dial.shares_failure());
        let outcome = if is_told { Outcome::Abandoned } else { outcome(session.req_header(), ctx, class) };
        end(ctx, outcome, class.as_str(), now);
        self.decide(session, ctx, class, error, now)
    }

    /// The try failed on a connection.
    pub(super) fn failed(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut error: Box<Error>,
        reused: bool,
        now: Instant,
    ) -> Box<Error> {
        let Some(running) = &ctx.running else {
            error.set_retry(false);
            return error;
        };
        if running.given_up {
            let status = ctx.attempts.last().and_then(|attempt| attempt.status).unwrap_or_default();
            end(ctx, Outcome::Answered { status }, "status", now);
            error.set_retry(true);
            return error;
        }
        let late = running.watch.as_ref().and_then(super::watchdog::Watch::fired);
        let class = if while_client_owes(ctx.body, &error, late) && owes_more(session) {
            Class::ClientTimeout
        } else {
            classify(&error, Stage::Connected { reused, answer: running.answer, watchdog: late.is_some() })
        };
        // The connection may know better why nothing more came from its client.
        let fault = ctx.wire.as_ref().and_then(|wire| wire.fault()).filter(|_| class == Class::ClientGone);
        let class = in_time(fault.map_or(class, Fault::class), ctx, now);
        let leaves = class == Class::Stale || class == Class::Unprocessed && !is_refused(&error);
        let read = ctx.target().map_or(Duration::MAX, |(route, _)| route.timeouts(ctx.pool).read);
        if leaves || is_hushed(running, class, read, now) {
            self.leave(ctx);
        }
        end(ctx, outcome(session.req_header(), ctx, class), class.as_str(), now);
        self.decide(session, ctx, class, error, now)
    }

    /// An answer of this status came: is it given up for another try?
    ///
    /// # Errors
    /// It is: the error is to be tried again.
    pub(super) fn unwanted(&self, session: &Session, status: u16, ctx: &mut Ctx, now: Instant) -> Result<()> {
        let method = &session.req_header().method;
        if !ctx.target().is_some_and(|(route, _)| route.retry.looks_at_statuses(method)) {
            return Ok(());
        }
        if !next(session, ctx, (Failure::Status(status), false), now) {
            return Ok(());
        }
        if let Some(running) = &mut ctx.running {
            running.given_up = true;
        }
        let mut error = Error::new_up(ErrorType::HTTPStatus(status));
        error.set_retry(true);
        Err(error)
    }

    fn decide(
        &self,
        session: &Session,
        ctx: &mut Ctx,
        class: Class,
        mut error: Box<Error>,
        now: Instant,
    ) -> Box<Error> {
        let again = next(session, ctx, (Failure::Class(class), is_refused(&error)), now);
        ctx.error = (!again).then_some(class);
        error.set_retry(again);
        error
    }
}

/// What a failure says of its origin. One of a pool of HTTP/2 need not speak HTTP/1.1, in which a switch is asked for: a client
/// that asks would put it out.
fn outcome(request: &RequestHeader, ctx: &Ctx, class: Class) -> Outcome {
    let unreached = matches!(class, Class::ConnectRefused | Class::ConnectTimeout);
    let is_odd = |pool: &Pool| pool.settings().protocol == Protocol::Http2 && !goes_in_h2(request, pool);
    if !unreached && ctx.target().is_some_and(|(_, upstream)| is_odd(&upstream.pool)) {
        Outcome::Abandoned
    } else if class == Class::Unprocessed && ctx.unprocessed >= UNPROCESSED {
        // Connections that end in good order do not explain it any more.
        Outcome::Failed(Class::Reset)
    } else {
        Outcome::Failed(class)
    }
}

/// Whatever it was, when the process waits for nothing any more there is no other try.
fn unless_cut(class: Class, ctx: &Ctx) -> Class {
    if ctx.wire.as_ref().is_some_and(|wire| wire.is_cut()) { Class::DrainTimeout } else { class }
}

/// Did time run out while the client owed some of its body? A shared HTTP/2 connection has no watch that would know.
fn while_client_owes(body: Body, error: &Error, late: Option<Late>) -> bool {
    let unwatched = late.is_none() && *error.esource() == ErrorSource::Upstream;
    late == Some(Late::Client) || unwatched && body == Body::Owed && *error.etype() == ErrorType::ReadTimedout
}

/// Is nothing of the body there to be read? What is read here goes into the buffer for replays like all before.
fn owes_more(session: &mut Session) -> bool {
    let read = pin!(session.downstream_session.read_request_body());
    read.poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

/// Is there another try? If so, it is in `ctx.next` where it goes. `refused`: its origin refused this request alone.
fn next(session: &Session, ctx: &mut Ctx, (failure, refused): (Failure, bool), now: Instant) -> bool {
    let Some((route, upstream)) = ctx.target() else { return false };
    let first = ctx.attempts.first().map_or(now, |attempt| attempt.began);
    let ask = resilience::Ask {
        method: &session.req_header().method,
        failure,
        tries: ctx.tries,
        since_first: now.saturating_duration_since(first),
        replayable: !session.as_ref().retry_buffer_truncated(),
        response_started: session.response_written().is_some_and(|head| reject::is_final(head.status)),
        untried_left: has_untried(ctx, now),
        stale_used: ctx.stale_used,
        unprocessed: ctx.unprocessed,
        refused,
    };
    let meters = &upstream.tail.meters;
    match route.retry.decide(&ask, upstream.pool.budget(), now) {
        Decision::Again { place, reason, free } => {
            let same = || {
                let (member, placement) = (ctx.tried.last()?, ctx.placement.as_ref()?);
                upstream.pool.repeat(*member, placement.hash, &mut fastrand::Rng::new())
            };
            // None is found here only if the last one went out of service since it was looked for.
            let next = if place == Place::Same { same() } else { next_untried(ctx, now) };
            let Some(next) = next else { return false };
            meters.retried(reason.as_str());
            let unprocessed = failure == Failure::Class(Class::Unprocessed);
            // Of one origin: what the last one did says nothing about the next.
            ctx.unprocessed = if place == Place::Same { ctx.unprocessed + u32::from(unprocessed) } else { 0 };
            ctx.stale_used |= place == Place::Same && !unprocessed;
            ctx.tries += u32::from(!free);
            ctx.next = Some(next);
            true
        }
        Decision::Stop(why) => {
            if let Some(why) = why {
                meters.suppressed(why.as_str());
            }
            false
        }
    }
}

/// The answer came to its end.
pub(super) fn succeeded(ctx: &mut Ctx, now: Instant) {
    if let Some(loan) = ctx.loan() {
        loan.answer_is_whole();
    }
    if let Some(status) = ctx.attempts.last().and_then(|attempt| attempt.status) {
        end(ctx, Outcome::Answered { status }, "ok", now);
    }
}

/// The attempt under way is over.
pub(super) fn end(ctx: &mut Ctx, outcome: Outcome, word: &'static str, now: Instant) {
    let Some(Running { lease, watch, .. }) = ctx.running.take() else { return };
    drop(watch);
    lease.finish(outcome, now);
    if let Some(attempt) = ctx.attempt() {
        attempt.response_time = now.saturating_duration_since(attempt.began);
        attempt.outcome = word;
        attempt.meters.attempted(word, attempt.response_time);
    }
}

impl Attempt {
    /// A try that begins now.
    pub(super) fn new(pick: &Pick, meters: Arc<OriginMeters>, now: Instant) -> Self {
        Self {
            meters,
            origin: Arc::clone(pick.origin.name()),
            endpoint: Endpoint::clone(&pick.endpoint),
            reason: pick.reason,
            began: now,
            status: None,
            connect_time: None,
            response_time: std::time::Duration::ZERO,
            reused: false,
            outcome: "",
            cache: None,
        }
    }

    /// It has a connection.
    pub(super) fn connected(&mut self, reused: bool, took: std::time::Duration) {
        self.reused = reused;
        if reused {
            self.meters.reused();
        } else {
            self.meters.opened(took);
            self.connect_time = Some(took);
        }
    }

    /// Did it have one? Without, the origin saw nothing of the request.
    pub(super) fn had_connection(&self) -> bool {
        self.reused || self.connect_time.is_some()
    }
}

/// Has the running attempt a header?
pub(super) fn has_header(ctx: &Ctx) -> bool {
    ctx.running.as_ref().is_some_and(|running| running.answer == Answer::Header)
}
