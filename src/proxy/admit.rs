//! Before the origin: is this a request we take, and which route takes it?
//!
//! Nothing has been chosen and nothing was sent when this runs. Order: the connection's settings, limits and form of
//! the request, its path, its route, who asks.

use std::sync::Arc;
use std::time::Instant;

use http::{Method, Version, header};
use pingora_http::RequestHeader;
use pingora_proxy::Session;

use super::ctx::{Body, Caller, Ctx, Id};
use super::form;
use super::grpc::{deadline, is_grpc};
use super::limit;
use super::mirror;
use super::request::{Host, asks_to_switch, goes_in_h2, origin_form, streams, with_facts};
use super::wire::{End, Wire};
use crate::resilience::Class;
use crate::routing;
use crate::snapshot::{Action, Route, Snapshot};
use crate::template::path;
use crate::traffic::{Noted, crumbs};

/// The first hook of a request: from here on the connection's answers are ours to give.
pub(super) fn begin(session: &mut Session, ctx: &mut Ctx) {
    let wire = Wire::of(session);
    ctx.host = Host::of(session.req_header(), wire.as_ref().map_or("http", |wire| wire.scheme()));
    let Some(wire) = wire else { return };
    ctx.serving = Some(wire.hook_ran());
    if let Some(target) = wire.own_target() {
        // Its own bytes go on; what Pingora parsed was spelt alike but for them, so that it cannot fail.
        let _ = session.req_header_mut().set_raw_path(&target);
    }
    if let Some(first_byte) = wire.began() {
        ctx.began = first_byte;
    }
    let limits = wire.limits();
    if session.is_http2() {
        crumbs::join(session.req_header_mut());
        // A window that stays shut shows on the stream alone: the connection writes on.
        session.set_write_timeout(Some(limits.send_timeout));
    } else {
        session.as_downstream_mut().set_pipelining_enabled(true);
        if session.req_header().version == Version::HTTP_10 {
            // It takes the first status for the last, and asks for none before it (RFC 9110, sections 10.1.1 and 15.2).
            session.as_downstream_mut().set_ignore_info_resp(true);
            session.req_header_mut().remove_header(&header::EXPECT);
        }
        // Pingora has switched it off for HTTP/1.0, `Connection: close` and a length beside chunks: that stays.
        let alive = session.as_downstream().get_keepalive().is_some() && !wire.must_close();
        session.set_keepalive(alive.then(|| limits.keepalive.as_secs().max(1)));
        // Both are watched by the connection, by progress; Pingora's own 60 s would cut longer bodies short.
        session.set_read_timeout(Some(limits.body_timeout.saturating_mul(2)));
        session.set_write_timeout(None);
    }
    ctx.caller = caller(&wire, session.req_header(), ctx);
    ctx.wire = Some(wire);
}

/// Who asks, as the networks in force have it.
fn caller(wire: &Wire, request: &RequestHeader, ctx: &Ctx) -> Caller {
    let connected = wire.caller().ip().to_canonical();
    match ctx.snapshot.as_deref().map(Snapshot::callers) {
        Some(callers) if callers.trust(connected) => {
            Caller { connected, client: callers.client(connected, &request.headers), trusted: true }
        }
        _ => Caller { connected, client: connected, trusted: false },
    }
}

/// How far a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admitted {
    /// All was looked at.
    Fully,
    /// Others count for its limits, too, and are to be asked: with [`admit_together`].
    SoFar,
}

/// Takes the request, or says why not.
pub(super) fn admit(session: &mut Session, ctx: &mut Ctx, clock: fn() -> Instant) -> Result<Admitted, Class> {
    let snapshot = ctx.snapshot.clone().ok_or(Class::NoRoute)?;
    if session.req_header().method == Method::CONNECT {
        return Err(Class::MethodNotAllowed);
    }
    let noted = Noted::of(&session.req_header().headers);
    ctx.noted = noted;
    form::check(session, ctx, snapshot.request_limits(), noted)?.settle(session)?;
    let request = session.req_header();
    let number = with_facts(request, ctx, |facts| {
        let merged = path::merged(facts.path()).map_err(|_| Class::BadRequest)?;
        let asked = routing::Request {
            host: facts.host,
            path: &merged.path,
            method: &request.method,
            headers: &request.headers,
            query: facts.query().unwrap_or_default(),
            scheme: facts.scheme,
            listener: ctx.listener(),
        };
        let number = snapshot.find(&asked).ok_or(Class::NoRoute)?;
        let route = snapshot.route(number).ok_or(Class::NoRoute)?;
        if merged.encoded_slash && !route.encoded_slash { Err(Class::BadRequest) } else { Ok(number) }
    })?;
    ctx.streams = asks_for_stream(request, noted);
    if ctx.streams && is_grpc(&request.headers) {
        ctx.deadline = deadline(&request.headers, ctx.began);
    }
    let route = snapshot.route(number).ok_or(Class::NoRoute)?;
    if noted.id
        && let Some(kept) = route.forwarding.kept_id(&request.headers)
    {
        ctx.id = Id::Kept(kept.into());
    }
    take(request, ctx, &snapshot, number);
    ctx.mirror = mirror::drawn(route, &request.headers);
    if !route.access.admits(ctx.client()) {
        return Err(Class::Denied);
    }
    if limit::waits(route) {
        return Ok(Admitted::SoFar);
    }
    hold(session, ctx, route, clock).map(|()| Admitted::Fully)
}

/// The rest of it, for a request that waits for the answer of who counts for others, too.
pub(super) async fn admit_together(session: &mut Session, ctx: &mut Ctx, clock: fn() -> Instant) -> Result<(), Class> {
    let snapshot = ctx.snapshot.clone().ok_or(Class::NoRoute)?;
    let route = ctx.route.and_then(|number| snapshot.route(number)).ok_or(Class::NoRoute)?;
    limit::hold_together(session.req_header(), ctx, route, clock).await?;
    hold(session, ctx, route, clock)
}

/// Holds the request to the limits of its route, and sees what goes on of it.
fn hold(session: &mut Session, ctx: &mut Ctx, route: &Route, clock: fn() -> Instant) -> Result<(), Class> {
    let request = session.req_header();
    limit::hold(request, ctx, route, clock)?;
    if let Some(rewrite) = &route.changes.rewrite {
        ctx.rewritten = Some(rewrite.target(&origin_form(request)).map_err(form::class)?.into());
    }
    // Over HTTP/2 a target reaches an origin as UTF-8 or not at all: Pingora would refuse it once a connection is held.
    if !request.raw_path_is_utf8() && ctx.target().is_some_and(|(_, to)| goes_in_h2(request, &to.pool)) {
        return Err(Class::BadRequest);
    }
    expect_body(session, ctx)
}

/// What the client owes beside the header, if anything.
fn expect_body(session: &mut Session, ctx: &mut Ctx) -> Result<(), Class> {
    if !session.as_downstream_mut().is_body_empty() {
        ctx.body = if form::waits_for_continue(session.req_header()) { Body::Held } else { Body::Owed };
        // Streams share a connection, which cannot tell whose body is late: the watchdog can.
        if let Some(wire) = ctx.wire.as_ref().filter(|wire| !wire.is_h2()) {
            follow_body(session, wire)?;
        }
    }
    Ok(())
}

/// From now on the connection watches over the body: how fast it comes, and where it ends.
fn follow_body(session: &mut Session, wire: &Wire) -> Result<(), Class> {
    let end = limit::length(&session.req_header().headers).map_or(End::Chunked, End::Length);
    let followed = wire.body_wanted(end);
    if end == End::Chunked && followed != Some(true) {
        // What Pingora takes for the end need not be it: nothing behind it is read as a request.
        session.set_keepalive(None);
    }
    followed.map(|_| ()).ok_or(Class::BadRequest)
}

/// The request is not taken: its connection ends, and is read on for a while, so that a client that is still sending sees
/// its answer.
pub(super) fn leave_body(session: &mut Session, ctx: &Ctx) {
    let Some(wire) = ctx.wire.as_ref().filter(|wire| !wire.is_h2()) else { return };
    if !session.as_downstream_mut().is_body_empty() {
        let _ = follow_body(session, wire);
        session.set_keepalive(None);
    }
}

fn take(request: &RequestHeader, ctx: &mut Ctx, snapshot: &Snapshot, number: usize) {
    let Some(route) = snapshot.route(number) else { return };
    ctx.route = Some(number);
    ctx.route_tail = Some(Arc::clone(&route.tail));
    match &route.action {
        Action::Pool(pool) => choose(ctx, snapshot, *pool),
        Action::Split(split) => {
            // None: no pool has a share, and `itself` says so.
            let Some(leg) = with_facts(request, ctx, |facts| split.choose(facts)) else { return };
            ctx.route_tail = Some(Arc::clone(&leg.tail));
            choose(ctx, snapshot, leg.pool);
        }
        Action::Respond(_) | Action::Ready | Action::Redirect(_) => {}
    }
}

/// From here on this is the pool of the request: every try, its record, and its log line.
fn choose(ctx: &mut Ctx, snapshot: &Snapshot, pool: usize) {
    ctx.pool = Some(pool);
    ctx.pool_tail = snapshot.upstream(pool).map(|upstream| Arc::clone(&upstream.tail));
}

/// Does the request ask for something that is silent for long by nature? The answer's type has the last word.
fn asks_for_stream(request: &RequestHeader, noted: Noted) -> bool {
    let accepts =
        |kind: &[u8]| request.headers.get(header::ACCEPT).is_some_and(|accept| accept.as_bytes().starts_with(kind));
    noted.upgrade && asks_to_switch(request)
        || noted.kind && streams(&request.headers)
        || noted.accept && accepts(b"text/event-stream")
}
