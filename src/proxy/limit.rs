//! Is this request within the limits of its route? They are asked in their order: how often, how many at a time, how long a
//! body; what is left of it then is how fast its answer may go.
//!
//! Only a route with a limit that is shared with other processes waits for the answer of who counts for them.
//!
//! Before anything else is known of a body its length is held against the limit, if it is told; then every piece of it,
//! anew for each try, since what is sent again passes here again.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use pingora_core::Result;
use pingora_http::RequestHeader;
use pingora_proxy::Session;
use smallvec::SmallVec;

use super::again::raise;
use super::ctx::{Ctx, Running};
use super::reject::switches_protocol;
use super::request::with_facts;
use crate::pool::Protocol;
use crate::resilience::Class;
use crate::snapshot::{RateLimit, Route, RouteLimits, Upstream};
use crate::traffic::{Asked, Over, Pace, Seat};

/// What the limit of a body is called, and how it is answered.
const BODY: &str = "body";
const TOO_LONG: u16 = 413;

/// What of a request's limits is needed while it is served.
#[derive(Debug)]
pub(super) struct Held {
    /// The limit that turned it away, or would have.
    pub(super) over: Option<Box<Over>>,
    /// Bytes a body may have.
    body: u64,
    /// Bytes of it that passed in this try.
    passed: u64,
    /// It counts as under way.
    seat: Option<Seat>,
    /// Bytes of its answer in a second, and how it keeps to them once it has begun.
    bandwidth: Option<u64>,
    pace: Option<Pace>,
    /// Bytes of it that were handed on.
    answered: u64,
}

impl Default for Held {
    fn default() -> Self {
        Self { over: None, body: u64::MAX, passed: 0, seat: None, bandwidth: None, pace: None, answered: 0 }
    }
}

impl Held {
    /// The name of the limit, for the log.
    pub(super) fn name(&self) -> Option<&str> {
        self.over.as_ref().map(|over| &*over.limit)
    }

    /// A try begins: a body starts over.
    pub(super) fn start_over(&mut self) {
        self.passed = 0;
    }
}

/// Is the request to wait for other processes' word on the limits of its route?
pub(super) fn waits(route: &Route) -> bool {
    route.limits.as_ref().is_some_and(|limits| limits.is_shared)
}

/// Holds a request whose limits are shared to how often it may come.
pub(super) async fn hold_together(
    request: &RequestHeader,
    ctx: &mut Ctx,
    route: &Route,
    clock: fn() -> Instant,
) -> Result<(), Class> {
    match &route.limits {
        Some(limits) => often_together(request, ctx, limits, clock).await,
        None => Ok(()),
    }
}

/// Holds the request to the limits of its route, but for those that are shared.
pub(super) fn hold(request: &RequestHeader, ctx: &mut Ctx, route: &Route, clock: fn() -> Instant) -> Result<(), Class> {
    let Some(limits) = &route.limits else { return Ok(()) };
    if !limits.is_shared && !limits.rates.is_empty() {
        often(request, ctx, limits, clock())?;
    }
    if let Some(concurrency) = &limits.concurrency {
        let (seat, over) = with_facts(request, ctx, |facts| concurrency.is.ask(facts));
        ctx.limits.seat = seat;
        if let Some(over) = over {
            concurrency.meters.limited();
            ctx.limits.over = Some(Box::new(over));
        }
        if ctx.limits.seat.is_none() {
            return Err(Class::Limited);
        }
    }
    ctx.limits.bandwidth = limits.bandwidth;
    let Some(body) = &limits.body else { return Ok(()) };
    ctx.limits.body = body.is;
    let told = length(&request.headers);
    if told.is_some_and(|told| told > body.is) { Err(too_long(ctx, limits)) } else { Ok(()) }
}

/// Does it come too soon for one of the limits? Then it counts for none of them.
fn often(request: &RequestHeader, ctx: &mut Ctx, limits: &RouteLimits, now: Instant) -> Result<(), Class> {
    let mut counted = SmallVec::<[_; 4]>::new();
    for limit in &limits.rates {
        let tag = with_facts(request, ctx, |facts| limit.is.tag(facts));
        let Err(over) = limit.is.ask(tag, now) else {
            counted.push((&limit.is, tag));
            continue;
        };
        if is_beyond(limit, over, ctx) {
            counted.iter().for_each(|(rate, tag)| rate.give_back(*tag));
            return Err(Class::Limited);
        }
    }
    Ok(())
}

/// The same where some are counted for other processes, too. Nobody waits for long: who is not answered counts here.
async fn often_together(
    request: &RequestHeader,
    ctx: &mut Ctx,
    limits: &RouteLimits,
    clock: fn() -> Instant,
) -> Result<(), Class> {
    let mut counted = SmallVec::<[_; 4]>::new();
    for limit in &limits.rates {
        let (tag, key) = with_facts(request, ctx, |facts| (limit.is.tag(facts), limit.is.shared_key(facts)));
        let asked = match &key {
            Some(key) => limit.is.ask_server(key, clock).await,
            None => Asked::Nothing,
        };
        if let (Some(shared), Asked::Nothing) = (&limit.shared, asked) {
            shared.unanswered();
        }
        let Err(over) = limit.is.ask_after(tag, asked, clock()) else {
            counted.push((&limit.is, tag, key, asked));
            continue;
        };
        if is_beyond(limit, over, ctx) {
            for (rate, tag, key, asked) in counted {
                rate.give_back(tag);
                rate.give_back_at_server(key, asked);
            }
            return Err(Class::Limited);
        }
    }
    Ok(())
}

/// Takes down that the request is beyond a limit: is it turned away for that?
fn is_beyond(limit: &RateLimit, over: Over, ctx: &mut Ctx) -> bool {
    limit.meters.limited();
    ctx.limits.over = Some(Box::new(over));
    !limit.is.is_dry_run()
}

/// How long the body is, if that is told.
pub(super) fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_long(ctx: &mut Ctx, limits: &RouteLimits) -> Class {
    if let Some(body) = &limits.body {
        body.meters.limited();
        ctx.limits.over = Some(Box::new(Over::of(BODY, TOO_LONG)));
    }
    Class::BodyTooLarge
}

/// A piece of the request's body, on its way to the origin.
///
/// # Errors
/// With it the body is too long.
pub(super) fn piece(session: &Session, body: Option<&Bytes>, ctx: &mut Ctx) -> Result<()> {
    within_body(session, body, ctx).map_err(|class| {
        let in_h2 = |upstream: &Upstream| upstream.pool.settings().protocol == Protocol::Http2;
        let error = raise(class);
        // On the way to an origin of HTTP/2 Pingora waits on for an answer after any error but the client's own.
        if ctx.target().is_some_and(|(_, upstream)| in_h2(upstream)) { error.into_down() } else { error }
    })
}

/// The same for a body that goes to no origin.
///
/// # Errors
/// With this piece it is too long.
pub(super) fn within_body(session: &Session, body: Option<&Bytes>, ctx: &mut Ctx) -> Result<(), Class> {
    if ctx.limits.body == u64::MAX {
        return Ok(());
    }
    let held = &mut ctx.limits;
    held.passed += body.map_or(0, |piece| piece.len() as u64);
    // What passes a tunnel is no body.
    if held.passed <= held.body || session.was_upgraded() {
        return Ok(());
    }
    let snapshot = ctx.snapshot.clone();
    let limits =
        snapshot.as_deref().zip(ctx.route).and_then(|(snapshot, route)| snapshot.route(route)?.limits.as_deref());
    Err(limits.map_or(Class::BodyTooLarge, |limits| too_long(ctx, limits)))
}

/// The final header is about to go: a connection of its own keeps the pace of what follows.
pub(super) fn begin_answer(session: &Session, status: StatusCode, ctx: &Ctx) {
    let (Some(per_second), Some(wire)) = (ctx.limits.bandwidth, &ctx.wire) else { return };
    if !session.is_http2() && !switches_protocol(status) {
        wire.limit_bandwidth(per_second);
    }
}

/// A piece of the answer's body, on its way to the client: how long it has to wait (HTTP/2). Pingora writes pieces that
/// come at once together, so that only what has gone counts. While nothing is asked of the origin its silence is ours.
pub(super) fn pause(
    session: &Session,
    body: Option<&Bytes>,
    ctx: &mut Ctx,
    clock: fn() -> Instant,
) -> Option<Duration> {
    let per_second = ctx.limits.bandwidth?;
    let length = body.map_or(0, Bytes::len);
    if length == 0 || session.was_upgraded() {
        return None;
    }
    let now = clock();
    ctx.limits.answered += length as u64;
    let sent = if session.is_http2() { session.body_bytes_sent() as u64 } else { ctx.limits.answered };
    let wait = ctx.limits.pace.get_or_insert_with(|| Pace::new(per_second, now)).wait(sent, now)?;
    if let Some(Running { watch: Some(watch), .. }) = &ctx.running {
        watch.heard(now + wait);
    }
    session.is_http2().then_some(wait)
}
