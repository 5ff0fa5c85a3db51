//! Towards the origin and back: the key and the pick of a try, its connection, and what passes either way.
//!
//! A key is rendered once a request, an origin picked once a try. `read`, `stream` and `total` are the watchdog's, where
//! a connection serves one request at a time: always in HTTP/1, and in HTTP/2 for a request with a body.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Version, header};
use pingora_core::protocols::Digest;
use pingora_core::upstreams::peer::{HttpPeer, HttpUpstreamRequestPolicy};
use pingora_core::{ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::Session;
use smallvec::SmallVec;

use super::answer::{self, Kind};
use super::ctx::{Attempt, Body, Ctx, Placement, Running};
use super::dial::dial;
use super::peer::{lacks_h2, say_how_it_goes, shares, speak_h2, took};
use super::request::{
    ask_for_no_other_switch, asks_to_switch, authority, goes_in_h2, host_line, origin_form, own_name, streams,
    with_facts,
};
use super::shared::Shared;
use super::{Gateway, certificate, grpc, kept, reject};
use crate::balance;
use crate::pool::{Ask, Member, Pick, Pool, Timeouts};
use crate::resilience::Class;
use crate::resilience::failure::Answer;
use crate::snapshot::Upstream;
use crate::template::Keyed;
use crate::traffic::headers::{self, Sender};
use crate::traffic::{Answered, Cached, lookalikes};

/// A connection to an origin, just taken from the pool or opened.
pub(super) struct Connected<'a> {
    pub(super) reused: bool,
    pub(super) peer: &'a HttpPeer,
    pub(super) fd: RawFd,
    pub(super) digest: Option<&'a Digest>,
}

impl Gateway {
    /// Picks an origin and begins an attempt at it.
    pub(super) fn peer(&self, session: &Session, ctx: &mut Ctx, now: Instant) -> Result<Box<HttpPeer>, Class> {
        if ctx.placement.is_none() {
            ctx.placement = Some(place(session.req_header(), ctx).ok_or(Class::NoOrigin)?);
        }
        let pick = match ctx.next.take() {
            Some(pick) => pick,
            None => next_untried(ctx, now).ok_or_else(|| nobody(ctx, now))?,
        };
        let (route, upstream) = ctx.target().ok_or(Class::NoOrigin)?;
        let meters = Arc::clone(upstream.meters.get(pick.member).ok_or(Class::NoOrigin)?);
        let connection = pick.origin.next_connection();
        let timeouts = grpc::left(route.timeouts(ctx.pool), ctx, now)?;
        let mut peer = self.connect_to(&pick, &upstream.pool, &timeouts)?;
        if goes_in_h2(session.req_header(), &upstream.pool) {
            speak_h2(&mut peer.options, ctx, &timeouts);
        }
        let group = peer.group_key;
        let loan = self.keep(&mut peer, &upstream.pool, &pick.origin, connection);
        let connecting = upstream.pool.members().get(pick.member).and_then(Member::connecting);
        let dial = dial(&mut peer, connecting, Some(&self.flights), loan, timeouts.connect);
        if !headers::concern_one_hop(&session.req_header().headers) {
            peer.options.http_upstream_request_policy = HttpUpstreamRequestPolicy::preserve();
        }
        if ctx.attempts.is_empty() {
            if !ctx.has_body() && !ctx.streams {
                // A header alone: a socket takes it at once, and the watchdog's silence holds for it too.
                peer.options.write_timeout = None;
            }
            upstream.pool.budget().first_attempt(now);
            ctx.tries = 1;
        }
        if !ctx.tried.contains(&pick.member) {
            ctx.tried.push(pick.member);
        }
        ctx.attempts.push(Attempt::new(&pick, meters, now));
        let lease = pick.lease(now);
        let lease = lease.asked_by(ctx.client());
        ctx.limits.start_over();
        ctx.running = Some(Running::new(lease, connection, group, dial));
        Ok(peer)
    }

    /// A connection is held: the watch over the attempt begins.
    ///
    /// # Errors
    /// It cannot be used.
    pub(super) fn connected(&self, ctx: &mut Ctx, held: &Connected<'_>, now: Instant) -> Result<()> {
        let h2 = held.peer.options.alpn.get_min_http_version() == 2;
        let shared = h2 && shares(ctx);
        let Some((route, upstream)) = ctx.target() else { return Ok(()) };
        let settings = upstream.pool.settings();
        let lacks_h2 = h2 && lacks_h2(settings, held.digest);
        if let Some(dial) = ctx.running.as_ref().and_then(|running| running.dial.as_ref()).filter(|_| !held.reused) {
            dial.ended(if lacks_h2 { Err(&ErrorType::TLSHandshakeFailure) } else { Ok(()) });
        }
        if lacks_h2 {
            return Err(super::again::raise(Class::TlsFailed));
        }
        let (timeouts, limits, took) = (*route.timeouts(ctx.pool), settings.connections, took(settings, held.digest));
        let group = ctx.running.as_ref().map(|running| self.group(running.lease.origin(), settings));
        let (served, age) = self.connections.count(held.fd, held.reused, now);
        let last =
            limits.max_requests.is_some_and(|most| served >= most) || limits.max_age.is_some_and(|most| age >= most);
        let end = timeouts.total.and_then(|total| Some(ctx.attempts.first()?.began + total));
        let end = end.into_iter().chain(ctx.deadline).min();
        if let Some(attempt) = ctx.attempt() {
            attempt.connected(held.reused, took.unwrap_or_else(|| now.saturating_duration_since(attempt.began)));
        }
        let Some(running) = ctx.running.as_mut() else { return Ok(()) };
        running.lease.connected(now);
        if !held.reused {
            running.lease.origin().connection_has(running.connection, held.fd);
        }
        running.last_on_connection = last && !h2;
        // An HTTP/2 connection has other requests on it: it is passed over from now on, and ends when it is idle.
        if last && h2 && Some(running.group) == group {
            running.lease.origin().hide_idle(self.shard);
        }
        running.shared = shared.then(|| Shared::begin(held.digest, now));
        if !shared {
            running.watch = Some(self.watchdog.watch(held.fd, silence(ctx.streams, &timeouts), end, now));
            owe(ctx, now);
        }
        Ok(())
    }

    /// An answer's header came from the origin.
    pub(super) fn answered(
        &self,
        session: &Session,
        head: &mut ResponseHeader,
        ctx: &mut Ctx,
        now: Instant,
    ) -> Result<()> {
        let noted = Answered::of(&head.headers);
        let kind = answer::kind(session, head, noted)?;
        let Some(running) = ctx.running.as_mut() else { return Ok(()) };
        if let Some(watch) = &running.watch {
            watch.heard(now);
        }
        if kind == Kind::Interim {
            return answer::interim(head, noted, ctx, now);
        }
        running.answer = Answer::Header;
        if let Some(loan) = running.loan().filter(|_| ctx.is_bare) {
            loan.answer_is_whole();
        }
        let status = head.status.as_u16();
        running.lease.answered(status, now);
        ctx.headed = Some(now);
        if let Some(attempt) = ctx.attempt() {
            attempt.status = Some(status);
        }
        cached(&head.headers, ctx);
        if noted.keep_alive {
            kept::compare(&head.headers, ctx);
        }
        self.unwanted(session, status, ctx, now)?;
        headers::towards_client(head, noted);
        if streams(&head.headers) || kind == Kind::Switch {
            ctx.streams = true;
        }
        relax(session.req_header(), ctx);
        Ok(())
    }
}

/// What the origin says of its own cache.
fn cached(headers: &HeaderMap, ctx: &mut Ctx) {
    let said = ctx.target().and_then(|(_, upstream)| upstream.cache.as_ref()?.read(headers));
    let (Some(said), Some(running)) = (said, ctx.running.as_mut()) else { return };
    if said != Cached::Other {
        running.lease.looked_up(said == Cached::Hit);
    }
    if let Some(attempt) = ctx.attempt() {
        attempt.cache = Some(said.as_str());
        attempt.meters.cached(said.as_str());
    }
}

/// How long the answer may be silent, now that its type is known.
fn relax(request: &RequestHeader, ctx: &Ctx) {
    let (Some(Running { watch: Some(watch), .. }), Some((route, upstream))) = (&ctx.running, ctx.target()) else {
        return;
    };
    if goes_in_h2(request, &upstream.pool) {
        // What Pingora has not handed on yet does not lie in the socket: a client that takes its time is not to look
        // like an origin that is silent. Its own limit comes first.
        let client = ctx.wire.as_ref().map_or(Duration::ZERO, |wire| wire.limits().send_timeout);
        watch.allow(silence(ctx.streams, route.timeouts(ctx.pool)) + client);
    } else if ctx.streams {
        watch.allow(route.timeouts(ctx.pool).stream);
    }
}

pub(super) fn silence(streams: bool, timeouts: &Timeouts) -> Duration {
    if streams { timeouts.stream } else { timeouts.read }
}

/// The key of a request; `None` without a pool.
fn place(request: &RequestHeader, ctx: &Ctx) -> Option<Placement> {
    ctx.target().map(|(_, upstream)| placed(request, ctx, &upstream.pool))
}

/// The key a request has in `pool`.
pub(super) fn placed(request: &RequestHeader, ctx: &Ctx, pool: &Pool) -> Placement {
    let Some(template) = pool.key() else { return Placement { key: SmallVec::new(), hash: None } };
    let mut key = Vec::with_capacity(128);
    let keyed = with_facts(request, ctx, |facts| template.render(facts, &mut key));
    let hash = (keyed == Keyed::Key).then(|| balance::hash(&key));
    Placement { key: key.into(), hash }
}

/// The origin for the next try.
pub(super) fn next_untried(ctx: &Ctx, now: Instant) -> Option<Pick> {
    let (_, Upstream { pool, .. }) = ctx.target()?;
    pool.pick(&ask(ctx, now)?, &mut fastrand::Rng::new())
}

/// Is there one?
pub(super) fn has_untried(ctx: &Ctx, now: Instant) -> bool {
    ctx.target().zip(ask(ctx, now)).is_some_and(|((_, upstream), ask)| upstream.pool.has_next(&ask))
}

/// Why there is none.
fn nobody(ctx: &Ctx, now: Instant) -> Class {
    let saturated =
        ctx.target().zip(ask(ctx, now)).is_some_and(|((_, upstream), ask)| upstream.pool.is_saturated(&ask));
    if saturated { Class::Saturated } else { Class::NoOrigin }
}

fn ask(ctx: &Ctx, now: Instant) -> Option<Ask<'_>> {
    Some(Ask { hash: ctx.placement.as_ref()?.hash, tried: &ctx.tried, now })
}

/// The request's header for this try: Host, forwarding headers, and origin form; everything else as it came.
pub(super) fn request_header(session: &Session, out: &mut RequestHeader, ctx: &Ctx) -> Result<()> {
    let Some((route, upstream)) = ctx.target() else { return Ok(()) };
    let client = session.req_header();
    let asked = host_line(client);
    if !matches!(client.raw_path().first(), Some(b'/' | b'*')) {
        out.set_raw_path(&origin_form(client))?;
        if !client.headers.contains_key(header::HOST) {
            // HTTP/1.0: the host stood in the target alone.
            out.insert_header(header::HOST, authority(client))?;
        }
    }
    let sender = Sender {
        peer: ctx.caller.connected,
        client: ctx.caller.client,
        trusted: ctx.caller.trusted,
        scheme: ctx.scheme(),
        host: asked.as_deref(),
        request_id: ctx.id.as_bytes(),
    };
    if ctx.noted.upgrade {
        ask_for_no_other_switch(client, out);
    }
    if ctx.read_ahead {
        // the client was told to go on by us
        out.remove_header(&header::EXPECT);
    }
    let host = ctx.tried.last().and_then(|member| upstream.hosts.get(*member)?.as_ref());
    route.forwarding.towards_origin(out, &sender, host);
    ctx.wire.iter().for_each(|wire| certificate::tell(wire, out));
    if asked.is_none() && host.is_none() {
        // HTTP/1.0 may name none, and 1.1 may not do without.
        out.insert_header(header::HOST, own_name(ctx))?;
    }
    if ctx.noted.underscore {
        let edits = route.changes.request.as_ref();
        lookalikes::take_out(out, |name| edits.is_some_and(|edits| edits.names(name)));
    }
    if let Some(target) = &ctx.rewritten {
        out.set_raw_path(target)?;
    }
    super::trace::towards_origin(out, ctx);
    super::edit::towards_origin(session, out, ctx);
    say_how_it_goes(out, ctx);
    // One that switches serves no other anyway, and the two words stand in one header.
    if ctx.running.as_ref().is_some_and(|running| running.last_on_connection) && !asks_to_switch(client) {
        out.insert_header(header::CONNECTION, HeaderValue::from_static("close"))?;
    }
    Ok(())
}

/// The client's patience with its own body begins, if it owes any.
pub(super) fn owe(ctx: &Ctx, now: Instant) {
    let Some(wire) = ctx.wire.as_ref().filter(|_| ctx.body == Body::Owed) else { return };
    if let Some(Running { watch: Some(watch), .. }) = &ctx.running {
        let limit = wire.limits().body_timeout;
        if wire.is_h2() {
            watch.owed(limit, None, now);
        } else {
            // The connection itself counts better, as long as it is asked for more.
            watch.owed(limit * 2, Some(Arc::clone(wire)), now);
        }
    }
}

/// A piece of the request's body.
pub(super) fn request_body(
    session: &Session,
    body: &mut Option<Bytes>,
    end: bool,
    ctx: &mut Ctx,
    clock: fn() -> Instant,
) {
    // Nearly every request: there is no body, and nobody waited for one.
    if end && body.is_none() && ctx.body == Body::Sent {
        return;
    }
    let now = clock();
    // An empty last piece would be written as a second terminating chunk and spoil the connection for the next
    // request (github.com/cloudflare/pingora/issues/935).
    if end && body.as_ref().is_some_and(Bytes::is_empty) {
        *body = None;
    }
    let first = ctx.body == Body::Held && !end;
    ctx.body = if end || ctx.body == Body::Sent { Body::Sent } else { Body::Owed };
    if first {
        owe(ctx, now);
    }
    if let Some(Running { watch: Some(watch), .. }) = &ctx.running {
        if end { watch.all_sent(now) } else { watch.sent(body.as_ref().map_or(0, Bytes::len), now) }
    }
    if let Some(wire) = ctx.wire.as_ref().filter(|_| end || session.was_upgraded()) {
        wire.body_ended();
    }
}

/// The final header on its way to the client.
pub(super) fn response_header(session: &mut Session, head: &mut ResponseHeader, ctx: &mut Ctx, clock: fn() -> Instant) {
    // Ours, whatever the origin's was (RFC 9110, section 2.5).
    head.set_version(Version::HTTP_11);
    if !reject::is_final(head.status) {
        // Pingora gives a connection up that is answered before its body came, with an interim answer too.
        ctx.alive = ctx.alive.or_else(|| session.as_downstream().get_keepalive());
        return;
    }
    if let Some(alive) = ctx.alive {
        session.set_keepalive(Some(alive));
    }
    super::hold::begin(session, head, ctx);
    super::limit::begin_answer(session, head.status, ctx);
    super::edit::towards_client(session, head, ctx, clock);
    super::encode::begin(session, head, ctx);
    if session.req_header().version == Version::HTTP_10 && head.remove_header(&header::TRANSFER_ENCODING).is_some() {
        // 1.0 knows no chunks: such an answer ends with its connection.
        session.set_keepalive(None);
    }
    if !session.is_http2() && ctx.wire.as_ref().is_some_and(|wire| wire.must_close()) {
        session.set_keepalive(None);
    }
    if reject::switches_protocol(head.status)
        && let (Some(kind), Some(wire)) = (head.headers.get(header::UPGRADE), &ctx.wire)
        && kind.as_bytes().eq_ignore_ascii_case(b"websocket")
    {
        wire.websocket_begins();
        // A tunnel owes nothing: its client may be silent for as long as its origin may.
        session.set_read_timeout(None);
    }
    ctx.settle();
}

/// A piece of the answer's body came from the origin.
///
/// # Errors
/// The time for it is over.
pub(super) fn response_body(ctx: &mut Ctx, end: bool, now: Instant) -> Result<()> {
    if end {
        super::again::succeeded(ctx, now);
        return Ok(());
    }
    if let Some(Running { watch: Some(watch), .. }) = &ctx.running {
        watch.heard(now);
    }
    grpc::still_in_time(ctx, now)
}
