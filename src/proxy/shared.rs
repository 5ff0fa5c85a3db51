//! Is the connection dead that this request shares with others?
//!
//! A connection that nobody closed looks like an origin that is slow. Network gear that forgot it, and an origin whose
//! machine lives while its process does not, acknowledge or drop what is sent and never answer. Whoever times out or is
//! given up by its client there knows nothing but its own silence: what tells is that nothing came for anybody, when such a
//! request ends, and when one comes to a connection on which others have waited for longer than any of them has to. A
//! stream may be silent for long, its header included: as long as one waits, nothing but its own end tells.
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

/// A shorter silence says nothing.
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

/// How many wait on one connection, since when somebody did or it was last heard of, and the longest silence that one of
/// them takes for none.
#[derive(Debug)]
struct Pulse(Mutex<(usize, Instant, Duration)>);

/// A request that waits for the header of its answer.
#[derive(Debug)]
struct Waits(Arc<Pulse>);

impl Pulses {
    /// A request that may have to wait for `limit` goes on a connection. `None`: others have waited there for longer than
    /// any of them has to, and nothing came; `silent` says for how long, and is asked only if it may be so.
    fn enter(
        &self,
        (fd, reused): (RawFd, bool),
        limit: Duration,
        now: Instant,
        silent: impl FnOnce() -> Option<Duration>,
    ) -> Option<Waits> {
        let pulse = self.of(fd, reused, now);
        let mut state = pulse.0.lock();
        let (waiting, since, longest) = &mut *state;
        if *waiting > 0 && now.saturating_duration_since(*since) >= *longest {
            if silent().is_some_and(|silent| silent >= *longest) {
                return None;
            }
            *since = now;
        }
        if *waiting == 0 {
            (*since, *longest) = (now, limit);
        }
        *longest = limit.max(*longest);
        *waiting += 1;
        drop(state);
        Some(Waits(pulse))
    }

    fn of(&self, fd: RawFd, reused: bool, now: Instant) -> Arc<Pulse> {
        let fresh = || Arc::new(Pulse(Mutex::new((0, now, Duration::ZERO))));
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
    /// A request that begins on this connection now, and whose answer may be silent for `limit`. `None`: nothing came on
    /// it for longer than any of those who wait has to expect.
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
    /// The connection that was taken from the pool is to be believed dead: another one is looked for, nothing was sent.
    pub(super) fn elsewhere(&self, ctx: &mut Ctx, peer: &HttpPeer) -> Box<Error> {
        self.leave(ctx);
        let group = ctx.target().zip(ctx.running.as_ref());
        let group = group.map(|((_, upstream), running)| self.group(running.lease.origin(), upstream.pool.settings()));
        let mut peer = Box::new(peer.clone());
        if let (Some(group), Some(running)) = (group, &mut ctx.running) {
            (peer.group_key, running.group) = (group, group);
            running.dial.iter().for_each(|dial| dial.looks_for(&peer));
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

    #[test]
    fn one_that_may_wait_for_longer_keeps_its_connection_for_the_others() {
        let (pulses, start) = (Pulses::default(), Gateway::now());
        let enter = |limit, now, silent: u64| {
            let (limit, now) = (Duration::from_secs(limit), start + Duration::from_secs(now));
            pulses.enter((7, true), limit, now, || Some(Duration::from_secs(silent)))
        };
        let stream = enter(3600, 0, 0).unwrap();
        let short = enter(1, 100, 100).expect("a stream that says nothing");
        assert!(enter(1, 3599, 3599).is_some());
        assert!(enter(1, 3600, 3600).is_none());
        drop((stream, short));
        let _short = enter(1, 4000, 0).unwrap();
        let _long = enter(60, 4000, 0).unwrap();
        drop(enter(1, 4059, 59).expect("one may wait for a minute"));
        assert!(enter(1, 4060, 60).is_none());
    }

    #[test]
    fn a_write_may_take_as_long_as_its_pool_says() {
        let seconds = Duration::from_secs;
        assert_eq!([10, 60].map(|send| keep_alive(seconds(send)).user_timeout), [20, 60].map(seconds));
    }
}
