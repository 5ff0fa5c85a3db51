//! Is the connection dead that this request shares with others?
//!
//! A connection that nobody closed looks like an origin that is slow. Network gear that forgot it, and an origin whose
//! machine lives while its process does not, acknowledge or drop what is sent and never answer. Whoever times out or is
//! given up by its client there knows nothing but its own silence: what tells, when such a request ends, is that nothing came
//! for anybody. One that waits still tells nothing: a stream may be silent for long, its header included.
//! What is not even acknowledged the kernel ends by itself ([`keep_alive`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use pingora_core::protocols::l4::ext::TcpKeepalive;
use pingora_core::protocols::{Digest, SocketDigest};

use super::Gateway;
use super::ctx::{Ctx, Running};
use crate::resilience::Class;
use crate::resilience::failure::Answer;

/// A shorter silence says nothing.
const SILENCE: Duration = Duration::from_secs(1);

/// A request on a connection that others may be on.
#[derive(Debug)]
pub(super) struct Shared {
    socket: Option<Arc<SocketDigest>>,
    since: Instant,
}

impl Shared {
    /// A request that begins on this connection now.
    pub(super) fn begin(digest: Option<&Digest>, now: Instant) -> Self {
        Self { socket: digest.and_then(|digest| digest.socket_digest.clone()), since: now }
    }

    /// Did nothing come since the request began, for whomever, and for that long at least?
    fn is_silent(&self, least: Duration, now: Instant) -> bool {
        let Some(silent) = self.socket.as_deref().and_then(silence) else { return false };
        silent >= least && silent >= now.saturating_duration_since(self.since)
    }
}

/// For how long nothing came. A socket without TCP is one of this machine, whose end is told.
fn silence(socket: &SocketDigest) -> Option<Duration> {
    Some(Duration::from_millis(socket.tcp_info()?.tcpi_last_data_recv.into()))
}

/// Is it to be believed, after a failure of this class, that nobody is at the other end of its connection? An origin may take
/// `read` for an answer, however short the time is that a client gives it.
pub(super) fn is_hushed(running: &Running, class: Class, read: Duration, now: Instant) -> bool {
    let least = match class {
        Class::ResponseTimeout => SILENCE,
        Class::Deadline | Class::ClientGone | Class::ClientTimeout => SILENCE.max(read),
        _ => return false,
    };
    let shared = running.shared.as_ref().filter(|_| running.answer == Answer::Nothing);
    shared.is_some_and(|shared| shared.is_silent(least, now))
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

/// What of a shared connection is not acknowledged for so long is lost, with all that is on it. As long as gRPC's own. To
/// the kernel a peer is as deaf that reads nothing (a window of 0): a write may take longer where `send` says so.
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// The kernel asks after a silent connection, and ends one whose other end is gone, or takes nothing for longer than `send`.
pub(super) fn keep_alive(send: Duration) -> TcpKeepalive {
    let user_timeout = UNACKNOWLEDGED.max(send);
    TcpKeepalive { idle: UNACKNOWLEDGED, interval: UNACKNOWLEDGED / 4, count: 4, user_timeout }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_may_take_as_long_as_its_pool_says() {
        let seconds = Duration::from_secs;
        assert_eq!([10, 60].map(|send| keep_alive(seconds(send)).user_timeout), [20, 60].map(seconds));
    }
}
