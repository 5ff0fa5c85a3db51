//! Where and how is the origin of a try connected to?
//!
//! Whatever makes one connection unlike another has a part in its group: the origin, its shard's epoch, and the trust it
//! is made under. `connect` is one time for the turn, the connection and the handshake of TLS.

use std::sync::Arc;
use std::time::Duration;

use http::header;
use pingora_core::protocols::Digest;
use pingora_core::upstreams::peer::{HttpPeer, PeerOptions, Tracer};
use pingora_http::RequestHeader;

use super::ctx::Ctx;
use super::dial::Counted;
use super::forward::silence;
use super::idle::{Loan, Terms};
use super::{Gateway, shared};
use crate::health::Endpoint;
use crate::pool::{Origin, Pick, Pool, Settings, Timeouts};
use crate::resilience::{Class, UNPROCESSED};

/// Streams on one HTTP/2 connection to an origin at most.
const STREAMS: usize = 100;
/// What of one answer may be held for a client that reads slowly, and of all on a connection. Pingora's 8 MiB for each would
/// be held for every such client.
const WINDOWS: (u32, u32) = (256 << 10, 32 << 20);

impl Gateway {
    /// Connections of this group may be reused for a request to `origin`.
    pub(super) fn group(&self, origin: &Origin, settings: &Settings) -> u64 {
        let trust = settings.tls.as_ref().map_or(0, |trust| trust.identity());
        origin.connection_group(self.shard) ^ trust
    }

    /// A connection to who was picked.
    pub(super) fn connect_to(&self, pick: &Pick, pool: &Pool, timeouts: &Timeouts) -> Result<Box<HttpPeer>, Class> {
        let settings = pool.settings();
        let sni = settings.tls.as_ref().map(|trust| trust.sni().to_owned());
        let (tls, sni) = (sni.is_some(), sni.unwrap_or_default());
        let mut peer = match &pick.endpoint {
            Endpoint::Ip(address) => HttpPeer::new(*address, tls, sni),
            Endpoint::Unix(path) => {
                let path = path.to_str().ok_or(Class::ConnectRefused)?;
                HttpPeer::new_uds(path, tls, sni).map_err(|_| Class::ConnectRefused)?
            }
        };
        peer.group_key = self.group(&pick.origin, settings);
        if let Some(trust) = &settings.tls {
            trust.govern(&mut peer);
            peer.options.total_connection_timeout = Some(timeouts.connect);
        }
        let options = &mut peer.options;
        options.connection_timeout = Some(timeouts.connect);
        // None for reads: the watchdog's silence holds, without a timer for every read.
        options.write_timeout = Some(timeouts.send);
        Ok(Box::new(peer))
    }

    /// Who keeps the connection of this number between requests? The shard, and lends it, if it is HTTP/1 without TLS; or
    /// Pingora.
    pub(super) fn keep(
        &self,
        peer: &mut HttpPeer,
        pool: &Pool,
        origin: &Arc<Origin>,
        connection: u64,
    ) -> Option<Arc<Loan>> {
        if peer.is_tls() || peer.options.alpn.get_min_http_version() == 2 {
            kept_by_pingora(peer, pool, origin, connection);
            return None;
        }
        Some(Loan::of(peer, &self.idle, Terms::of(pool), origin, connection))
    }
}

/// The connection of this number waits in Pingora's pool between requests.
pub(super) fn kept_by_pingora(peer: &mut HttpPeer, pool: &Pool, origin: &Arc<Origin>, connection: u64) {
    let time = if pool.keeps_idle() { pool.settings().connections.keepalive_timeout } else { Duration::ZERO };
    peer.options.idle_timeout = Some(time);
    peer.options.tracer = Some(Tracer(Box::new(Counted(Arc::clone(origin), connection))));
}

/// A body without a length goes in chunks: whoever lends the connection is told.
pub(super) fn say_how_it_goes(out: &RequestHeader, ctx: &Ctx) {
    // A body that was sent before is sent once more.
    if (ctx.has_body() || ctx.attempts.len() > 1) && !out.headers.contains_key(header::CONTENT_LENGTH) {
        ctx.loan().inspect(|loan| loan.send_chunks());
    }
}

/// HTTP/2. Streams share a connection, which no watchdog may cut: the time-out is Pingora's. It runs from the request's
/// header on, so that a body would have to be sent within it: a request with one gets a connection that is not shared,
/// unless it may stream for long.
pub(super) fn speak_h2(options: &mut PeerOptions, ctx: &Ctx, timeouts: &Timeouts) {
    over_h2(options, timeouts.send);
    if shares(ctx) {
        options.read_timeout = Some(silence(ctx.streams, timeouts));
    }
    if !shares(ctx) || ctx.unprocessed >= UNPROCESSED {
        options.max_h2_streams = 1;
    }
}

/// Is this a request that no watchdog watches over HTTP/2, since others may be on its connection?
pub(super) fn shares(ctx: &Ctx) -> bool {
    !ctx.has_body() || ctx.streams
}

/// HTTP/2 on connections that are shared, where a write may take as long as `send`.
pub(super) fn over_h2(options: &mut PeerOptions, send: Duration) {
    options.h2_stream_window_size = Some(WINDOWS.0);
    options.h2_connection_window_size = Some(WINDOWS.1);
    options.set_http_version(2, 2);
    options.max_h2_streams = STREAMS;
    options.tcp_keepalive = Some(shared::keep_alive(send));
}

/// Pingora goes on in HTTP/1.1 on a connection whose origin did not agree to HTTP/2. We do not: nothing was sent yet, and
/// the pool says what is spoken.
pub(super) fn lacks_h2(settings: &Settings, digest: Option<&Digest>) -> bool {
    settings.tls.as_ref().is_some_and(|trust| trust.lacks_h2(digest))
}

/// How long it took to make the connection, if the layers it consists of say so: TLS does not say it.
pub(super) fn took(settings: &Settings, digest: Option<&Digest>) -> Option<Duration> {
    let socket = digest.filter(|_| settings.tls.is_none())?.timing_digest.first()?.as_ref()?;
    socket.establishment_duration
}
