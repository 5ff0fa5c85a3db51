//! How long may an origin be silent? Pingora fixes the read time-out of an attempt when it starts; this enforces
//! `read`, its switch to `stream`, and `total` by shutting the running attempt's socket down.
//!
//! One watchdog per shard. Its timer runs on the shard's own thread, the thread on which attempts begin and end, so
//! the descriptor it shuts down still belongs to the attempt that registered it: a [`Watch`] is dropped before its
//! connection goes back to the pool. HTTP/2 attempts share a connection and are not watched (their stream has a
//! time-out of its own).

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How late a time-out may be found, and how often a busy watchdog looks.
const TICK: Duration = Duration::from_millis(20);

/// The attempts of a shard that are under way.
#[derive(Debug, Default)]
pub struct Watchdog {
    slots: Mutex<Slots>,
    /// Woken when the first attempt registers.
    busy: Notify,
}

#[derive(Debug, Default)]
struct Slots {
    all: Vec<Slot>,
    free: Vec<usize>,
    used: usize,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// `None`: free.
    fd: Option<RawFd>,
    silence: Duration,
    heard: Instant,
    end: Option<Instant>,
    fired: bool,
}

/// One watched attempt; dropping it ends the watch.
#[derive(Debug)]
#[must_use = "dropping a watch ends it"]
pub struct Watch {
    dog: Arc<Watchdog>,
    slot: usize,
}

impl Watchdog {
    /// Watches the attempt on `fd`: it may be silent for `silence`, and has to be over at `end`.
    pub fn watch(self: &Arc<Self>, fd: RawFd, silence: Duration, end: Option<Instant>, now: Instant) -> Watch {
        let slot = Slot { fd: Some(fd), silence, heard: now, end, fired: false };
        let mut slots = self.slots.lock();
        let index = if let Some(index) = slots.free.pop() {
            slots.all[index] = slot;
            index
        } else {
            slots.all.push(slot);
            slots.all.len() - 1
        };
        slots.used += 1;
        if slots.used == 1 {
            self.busy.notify_one();
        }
        Watch { dog: self.clone(), slot: index }
    }

    /// Shuts down what is overdue, for as long as the shard lives. Has to run on the shard's own thread.
    #[expect(clippy::disallowed_methods, reason = "the shard's clock is read here")]
    pub async fn run(self: Arc<Self>) {
        loop {
            if self.slots.lock().used == 0 {
                self.busy.notified().await;
            }
            tokio::time::sleep(TICK).await;
            self.look(Instant::now());
        }
    }

    fn look(&self, now: Instant) {
        for slot in &mut self.slots.lock().all {
            let Some(fd) = slot.fd else { continue };
            let silent = now.saturating_duration_since(slot.heard) >= slot.silence;
            if !slot.fired && (silent || slot.end.is_some_and(|end| now >= end)) {
                slot.fired = true;
                // An origin that has just closed is no longer connected: the attempt ends by itself then.
                let _ = socket::shutdown(fd, socket::Shutdown::Both);
            }
        }
    }
}

impl Watch {
    /// Something went either way: the silence starts anew.
    pub fn heard(&self, now: Instant) {
        self.dog.slots.lock().all[self.slot].heard = now;
    }

    /// From now on the origin may be silent for `silence`.
    pub fn allow(&self, silence: Duration) {
        self.dog.slots.lock().all[self.slot].silence = silence;
    }

    /// Was the attempt ended by this watch?
    pub fn fired(&self) -> bool {
        self.dog.slots.lock().all[self.slot].fired
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut slots = self.dog.slots.lock();
        slots.all[self.slot].fd = None;
        slots.free.push(self.slot);
        slots.used -= 1;
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a starting point in time")]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn a_silent_attempt_is_shut_down_and_one_that_was_heard_is_not() {
        let dog = Arc::new(Watchdog::default());
        let (quiet, mut far) = pair();
        let (lively, _other) = pair();
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let one = dog.watch(quiet.as_raw_fd(), second, None, start);
        let two = dog.watch(lively.as_raw_fd(), second, None, start);
        two.heard(start + second);
        dog.look(start + second + TICK);
        assert!(one.fired());
        assert!(!two.fired());
        assert_eq!(far.read(&mut [0; 1]).unwrap(), 0, "the origin sees the end");
    }

    #[test]
    fn a_stream_gets_its_longer_silence_and_total_ends_it_all_the_same() {
        let dog = Arc::new(Watchdog::default());
        let (socket, _far) = pair();
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let watch = dog.watch(socket.as_raw_fd(), second, Some(start + 10 * second), start);
        watch.allow(60 * second);
        dog.look(start + 5 * second);
        assert!(!watch.fired());
        dog.look(start + 10 * second);
        assert!(watch.fired());
    }

    #[test]
    fn a_finished_watch_leaves_its_descriptor_alone_and_its_place_is_used_again() {
        let dog = Arc::new(Watchdog::default());
        let (socket, _far) = pair();
        let start = Instant::now();
        drop(dog.watch(socket.as_raw_fd(), Duration::ZERO, None, start));
        dog.look(start + Duration::from_secs(1));
        assert!(socket.peer_addr().is_ok(), "still connected");
        let again = dog.watch(socket.as_raw_fd(), Duration::from_secs(9), None, start);
        assert_eq!(dog.slots.lock().all.len(), 1);
        assert!(!again.fired());
    }
}
