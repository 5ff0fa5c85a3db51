//! Is the connection dead that this request shares with others?
//!
//! A connection that nobody closed looks like an origin that is slow. Network gear that forgot it, and an origin whose
//! machine lives while its process does not, acknowledge or drop what is sent and never answer. Whoever times out or is
//! given up by its client there knows nothing but its own silence: what tells is that nothing came for anybody, when such a
//! request ends, and when one comes to a connection on which others have waited for long.
//! What is not even acknowledged the kernel ends by itself ([`keep_alive`]).

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pingora_core::Error;
use pingora_core::protocols::l4::ext::TcpKeepalive;
use pingora_core::protocols::{Digest, SocketDigest};
use pingora_core::upstreams::peer::HttpPeer;

use super::Gateway;
use super::ctx::{Ctx, Running};
use super::dial::look_again;
use super::forward::Connected;
use crate::resilience::Class;
use crate::resilience::failure::Answer;

/// A shorter silence says nothing, however short the time was that a client gave its call.
const SILENCE: Duration = Duration::from_secs(1);

/// A request on a connection that others may be on.
#[derive(Debug)]
pub(super) struct Shared {
    socket: Option<Arc<SocketDigest>>,
    since: Instant,
    waits: Option<Waits>,
}

/// Who waits for an answer on the shared connections of a shard, by descriptor. A descriptor is used again only after its
/// connection closed, and a new connection begins anew.
#[derive(Debug, Default)]
pub(super) struct Pulses(Mutex<Vec<Option<Arc<Pulse>>>>);

/// How many wait on one connection, and since when somebody did or it was last heard of.
#[derive(Debug)]
struct Pulse(Mutex<(usize, Instant)>);

/// A request that waits for the header of its answer.
#[derive(Debug)]
struct Waits(Arc<Pulse>);

impl Pulses {
    /// A request goes on a connection. `None`: others have waited there for `limit`, and nothing came for that long;
    /// `silent` says how long, and is asked only if it may be so.
    fn enter(
        &self,
        (fd, reused): (RawFd, bool),
        limit: Duration,
        now: Instant,
        silent: impl FnOnce() -> Option<Duration>,
    ) -> Option<Waits> {
        let pulse = self.of(fd, reused, now);
        let mut state = pulse.0.lock();
        let (waiting, since) = &mut *state;
        if *waiting > 0 && now.saturating_duration_since(*since) >= limit {
            if silent().is_some_and(|silent| silent >= limit) {
                return None;
            }
            *since = now;
        }
        if *waiting == 0 {
            *since = now;
        }
        *waiting += 1;
        drop(state);
        Some(Waits(pulse))
    }

    fn of(&self, fd: RawFd, reused: bool, now: Instant) -> Arc<Pulse> {
        let fresh = || Arc::new(Pulse(Mutex::new((0, now))));
        let Ok(place) = usize::try_from(fd) else { return fresh() };
        let mut all = self.0.lock();
        if all.len() <= place {
            all.resize(place + 1, None);
        }
        let known = all[place].as_ref().filter(|_| reused).cloned();
        Arc::clone(all[place].insert(known.unwrap_or_else(fresh)))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.0.lock().0 -= 1;
    }
}

impl Shared {
    /// A request that begins on this connection now. `None`: nothing came on it for `limit`, although others wait.
    pub(super) fn enter(pulses: &Pulses, held: &Connected<'_>, limit: Duration, now: Instant) -> Option<Self> {
        let socket = held.digest.and_then(|digest: &Digest| digest.socket_digest.clone());
        let silent = || silence(socket.as_deref()?);
        let waits = pulses.enter((held.fd, held.reused), limit, now, silent)?;
        Some(Self { socket, since: now, waits: Some(waits) })
    }

    /// Its answer began.
    pub(super) fn answered(&mut self) {
        self.waits = None;
    }

    /// Did nothing come since the request began, for whomever?
    fn is_silent(&self, now: Instant) -> bool {
        let Some(silent) = self.socket.as_deref().and_then(silence) else { return false };
        silent >= SILENCE && silent >= now.saturating_duration_since(self.since)
    }
}

/// For how long nothing came. A socket without TCP is one of this machine, whose end is told.
fn silence(socket: &SocketDigest) -> Option<Duration> {
    Some(Duration::from_millis(socket.tcp_info()?.tcpi_last_data_recv.into()))
}

/// Is it to be believed, after a failure of this class, that nobody is at the other end of its connection?
pub(super) fn is_hushed(running: &Running, class: Class, now: Instant) -> bool {
    let unanswered =
        matches!(class, Class::ResponseTimeout | Class::Deadline | Class::ClientGone | Class::ClientTimeout);
    let shared = running.shared.as_ref().filter(|_| unanswered && running.answer == Answer::Nothing);
    shared.is_some_and(|shared| shared.is_silent(now))
}

impl Gateway {
    /// The connection that was taken from the pool is to be believed dead: another one is looked for, nothing was sent.
    pub(super) fn elsewhere(&self, ctx: &mut Ctx, peer: &HttpPeer) -> Box<Error> {
        self.leave(ctx);
        let group = ctx.target().zip(ctx.running.as_ref());
        let group = group.map(|((_, upstream), running)| self.group(running.lease.origin(), upstream.pool.settings()));
        let mut peer = Box::new(peer.clone());
        if let (Some(group), Some(running)) = (group, &mut ctx.running) {
            (peer.group_key, running.group) = (group, group);
        }
        ctx.again = Some(peer);
        look_again()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_connection_is_left_when_somebody_waits_and_nothing_comes() {
        let (pulses, start) = (Pulses::default(), Gateway::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let enter = |fd, reused, now, silent: u64| {
            pulses.enter((fd, reused), LIMIT, at(now), || Some(Duration::from_secs(silent)))
        };
        let first = enter(7, false, 0, 0).unwrap();
        let second = enter(7, true, 29, 29).expect("not for long enough");
        assert!(enter(7, true, 31, 31).is_none());
        assert!(enter(8, false, 31, 31).is_some(), "another connection");
        drop(enter(7, true, 32, 1).expect("something came"));
        assert!(enter(7, true, 61, 30).is_some(), "it is asked after again when as much time is over");
        assert!(enter(7, true, 62, 31).is_none());
        drop((first, second));
        drop(enter(7, true, 200, 169).expect("nobody waits on it"));
        let _waits = enter(7, true, 201, 170).unwrap();
        assert!(enter(7, false, 300, 269).is_some(), "a new connection on its descriptor");
        assert!(pulses.enter((7, true), LIMIT, at(400), || None).is_some(), "who cannot be asked is believed");
    }
}
