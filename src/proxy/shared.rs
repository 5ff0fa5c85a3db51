//! Is the connection dead that this request shares with others?
//!
//! A connection that nobody closed looks like an origin that is slow. Network gear that forgot it, and an origin whose
//! machine lives while its process does not, acknowledge or drop what is sent and never answer. Whoever times out or is
//! given up by its client there knows nothing but its own silence: what tells is that nothing came for anybody.
//! What is not even acknowledged the kernel ends by itself ([`keep_alive`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use pingora_core::protocols::l4::ext::TcpKeepalive;
use pingora_core::protocols::{Digest, SocketDigest};

use super::Gateway;
use super::ctx::{Ctx, Running};
use crate::resilience::Class;
use crate::resilience::failure::Answer;

/// A shorter silence says nothing, however short the time was that a client gave its call.
const SILENCE: Duration = Duration::from_secs(1);

/// A request on a connection that others may be on.
#[derive(Debug)]
pub(super) struct Shared {
    socket: Arc<SocketDigest>,
    since: Instant,
}

impl Shared {
    /// A request that begins now.
    pub(super) fn of(digest: Option<&Digest>, now: Instant) -> Option<Self> {
        let socket = Arc::clone(digest?.socket_digest.as_ref()?);
        Some(Self { socket, since: now })
    }

    /// Did nothing come since the request began, for whomever?
    fn is_silent(&self, now: Instant) -> bool {
        // A socket without TCP is one of this machine, whose end is told.
        let Some(info) = self.socket.tcp_info() else { return false };
        let silent = Duration::from_millis(u64::from(info.tcpi_last_data_recv));
        silent >= SILENCE && silent >= now.saturating_duration_since(self.since)
    }
}

/// Is it to be believed, after a failure of this class, that nobody is at the other end of its connection?
pub(super) fn is_hushed(running: &Running, class: Class, now: Instant) -> bool {
    let unanswered =
        matches!(class, Class::ResponseTimeout | Class::Deadline | Class::ClientGone | Class::ClientTimeout);
    let shared = running.shared.as_ref().filter(|_| unanswered && running.answer == Answer::Nothing);
    shared.is_some_and(|shared| shared.is_silent(now))
}

impl Gateway {
    /// The connection of the attempt under way, and those as old, take no further request. Once: a hundred that fail
    /// on one connection leave the one that was made since alone.
    pub(super) fn leave(&self, ctx: &Ctx) {
        let (Some(running), Some((_, upstream))) = (&ctx.running, ctx.target()) else { return };
        let origin = running.lease.origin();
        if running.group == self.group(origin, upstream.pool.settings()) {
            origin.hide_idle(self.shard);
        }
    }
}

/// What of a shared connection is not acknowledged for so long is lost, with all that is on it. As long as gRPC's own.
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// The kernel asks after a silent connection, and ends one whose other end is gone.
pub(super) fn keep_alive() -> TcpKeepalive {
    TcpKeepalive { idle: UNACKNOWLEDGED, interval: UNACKNOWLEDGED / 4, count: 4, user_timeout: UNACKNOWLEDGED }
}
