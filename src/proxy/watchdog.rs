//! How long may an origin be silent? Pingora fixes the read time-out of an attempt when it starts; this enforces
//! `read`, its switch to `stream`, and `total` by shutting the running attempt's socket down.
//!
//! Silence counts only while it is the origin's turn: once the body is out, or while bytes of it wait to be taken. While
//! the client owes some of its body its own patience runs, and what an origin has sent that nobody reads is no silence.
//! One watchdog per shard. Its timer runs on the shard's own thread, the thread on which attempts begin and end, so
//! the descriptor it shuts down still belongs to the attempt that registered it: a [`Watch`] is dropped before its
//! connection goes back to the pool. HTTP/2 attempts that share a connection are not watched (their stream has a
//! time-out of its own).

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::socket;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::pressure::{Gauge, Pressure};
use super::wire::Wire;

/// How late a time-out may be found, and how often a busy watchdog looks.
const TICK: Duration = Duration::from_millis(20);

/// A client is too slow that takes its patience for so many bytes of a body.
const STEP: usize = 16 * 1024;

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
    gauge: Gauge,
}

/// Who was too slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    /// It was the origin's turn.
    Origin,
    /// The client owed some of its body, and the origin took all there was.
    Client,
}

#[derive(Debug)]
struct Slot {
    /// `None`: free.
    fd: Option<RawFd>,
    silence: Duration,
    heard: Instant,
    end: Option<Instant>,
    /// The client still owes some of its body.
    upload: Option<Upload>,
    fired: Option<Late>,
}

/// How fast a body comes.
#[derive(Debug)]
struct Upload {
    patience: Duration,
    /// The client's connection, where it says whether it is being waited for (HTTP/1).
    client: Option<Arc<Wire>>,
    /// Since when the current [`STEP`] is awaited, and what of it came.
    since: Instant,
    bytes: usize,
}

impl Slot {
    /// Is it worth to ask the socket? Nearly never.
    fn is_due(&self, now: Instant) -> bool {
        self.is_silent(now) || self.is_over(now) || self.upload.as_ref().is_some_and(|upload| upload.is_slow(now))
    }

    fn is_silent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) >= self.silence
    }

    fn is_over(&self, now: Instant) -> bool {
        self.end.is_some_and(|end| now >= end)
    }

    /// Who is too late, with the socket like this; whatever is not held against anybody starts anew.
    fn judge(&mut self, socket: Pressure, now: Instant) -> Option<Late> {
        let upload = self.upload.as_ref();
        let slow = upload.is_some_and(|upload| upload.is_slow(now));
        let owed = upload.is_some_and(|upload| upload.client.as_ref().is_none_or(|wire| wire.awaits_body()));
        let turn = if owed && socket.takes { Late::Client } else { Late::Origin };
        if self.is_over(now) {
            return Some(turn);
        }
        let late = match turn {
            _ if socket.holds => false,
            Late::Client => slow,
            Late::Origin => self.is_silent(now),
        };
        if socket.holds || turn == Late::Client {
            self.heard = now;
        }
        if let Some(upload) = self.upload.as_mut().filter(|_| slow) {
            upload.begin(now);
        }
        late.then_some(turn)
    }
}

impl Upload {
    fn is_slow(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= self.patience
    }

    fn begin(&mut self, now: Instant) {
        (self.since, self.bytes) = (now, 0);
    }

    fn came(&mut self, bytes: usize, now: Instant) {
        self.bytes += bytes;
        if self.bytes >= STEP {
            self.begin(now);
        }
    }
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
        let slot = Slot { fd: Some(fd), silence, heard: now, end, upload: None, fired: None };
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
        let Slots { all, gauge, .. } = &mut *self.slots.lock();
        for slot in all {
            let Some(fd) = slot.fd.filter(|_| slot.fired.is_none() && slot.is_due(now)) else { continue };
            slot.fired = slot.judge(gauge.read(fd), now);
            if slot.fired.is_some() {
                // An origin that has just closed is no longer connected: the attempt ends by itself then.
                let _ = socket::shutdown(fd, socket::Shutdown::Both);
            }
        }
    }
}

impl Watch {
    /// Something came from the origin: the silence starts anew.
    pub fn heard(&self, now: Instant) {
        self.change(|slot| slot.heard = now);
    }

    /// The client owes its body from now on, each 16 KiB of it within `patience`. An HTTP/1 `client` knows whether it is
    /// being waited for; of an HTTP/2 stream it is assumed as long as the origin's socket takes bytes.
    pub fn owed(&self, patience: Duration, client: Option<Arc<Wire>>, now: Instant) {
        self.change(|slot| slot.upload = Some(Upload { patience, client, since: now, bytes: 0 }));
    }

    /// A piece of the body is on its way to the origin.
    pub fn sent(&self, bytes: usize, now: Instant) {
        self.change(|slot| {
            slot.heard = now;
            if let Some(upload) = &mut slot.upload {
                upload.came(bytes, now);
            }
        });
    }

    /// The last piece is: from now on it is the origin's turn.
    pub fn all_sent(&self, now: Instant) {
        self.change(|slot| (slot.heard, slot.upload) = (now, None));
    }

    /// From now on the origin may be silent for `silence`.
    pub fn allow(&self, silence: Duration) {
        self.change(|slot| slot.silence = silence);
    }

    /// Who was too late, if the attempt was ended by this watch.
    pub fn fired(&self) -> Option<Late> {
        self.dog.slots.lock().all[self.slot].fired
    }

    fn change(&self, with: impl FnOnce(&mut Slot)) {
        with(&mut self.dog.slots.lock().all[self.slot]);
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
    use std::io::{Read, Write};
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
        assert_eq!(one.fired(), Some(Late::Origin));
        assert_eq!(two.fired(), None);
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
        assert_eq!(watch.fired(), None);
        dog.look(start + 10 * second);
        assert_eq!(watch.fired(), Some(Late::Origin));
    }

    /// A second of silence allowed, ten of patience with the client, whose body is owed since `start`.
    fn uploading(dog: &Arc<Watchdog>, socket: &TcpStream, start: Instant, end: Option<Instant>) -> Watch {
        let watch = dog.watch(socket.as_raw_fd(), Duration::from_secs(1), end, start);
        watch.owed(Duration::from_secs(10), None, start);
        watch
    }

    fn full(socket: &mut TcpStream) {
        socket.set_nonblocking(true).unwrap();
        while socket.write(&[0; 65536]).is_ok() {}
    }

    #[test]
    fn the_silence_of_an_origin_does_not_count_while_the_client_owes_its_body() {
        let dog = Arc::new(Watchdog::default());
        let (socket, _far) = pair();
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let watch = uploading(&dog, &socket, start, None);
        (1..10).for_each(|n| dog.look(start + n * second));
        assert_eq!(watch.fired(), None);
        watch.all_sent(start + 10 * second);
        dog.look(start + 10 * second + second / 2);
        assert_eq!(watch.fired(), None, "its turn has only begun");
        dog.look(start + 11 * second);
        assert_eq!(watch.fired(), Some(Late::Origin));
    }

    #[test]
    fn a_client_has_its_patience_for_each_step_of_its_body() {
        let dog = Arc::new(Watchdog::default());
        let (socket, _far) = pair();
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let watch = uploading(&dog, &socket, start, None);
        watch.sent(STEP, start + 9 * second);
        dog.look(start + 18 * second);
        watch.sent(STEP - 1, start + 18 * second);
        assert_eq!(watch.fired(), None);
        dog.look(start + 19 * second);
        assert_eq!(watch.fired(), Some(Late::Client), "less than a step came");
    }

    #[test]
    fn an_origin_that_stops_taking_the_body_is_silent() {
        let dog = Arc::new(Watchdog::default());
        let (mut socket, _far) = pair();
        full(&mut socket);
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let watch = uploading(&dog, &socket, start, None);
        watch.sent(1, start + second);
        dog.look(start + second + second / 2);
        assert_eq!(watch.fired(), None);
        dog.look(start + 2 * second);
        assert_eq!(watch.fired(), Some(Late::Origin));
    }

    #[test]
    fn a_client_is_not_charged_with_the_time_its_bytes_were_not_taken() {
        let dog = Arc::new(Watchdog::default());
        let (mut socket, mut far) = pair();
        full(&mut socket);
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let watch = uploading(&dog, &socket, start, None);
        watch.allow(60 * second);
        dog.look(start + 10 * second);
        far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        while far.read(&mut [0; 65536]).is_ok() {}
        dog.look(start + 19 * second);
        assert_eq!(watch.fired(), None);
        dog.look(start + 20 * second);
        assert_eq!(watch.fired(), Some(Late::Client));
    }

    #[test]
    fn what_an_origin_said_and_nobody_reads_is_no_silence() {
        let dog = Arc::new(Watchdog::default());
        let (mut socket, mut far) = pair();
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let watch = dog.watch(socket.as_raw_fd(), second, None, start);
        far.write_all(b"x").unwrap();
        socket.peek(&mut [0; 1]).unwrap();
        dog.look(start + second);
        assert_eq!(watch.fired(), None);
        socket.read_exact(&mut [0; 1]).unwrap();
        dog.look(start + 2 * second);
        assert_eq!(watch.fired(), Some(Late::Origin));
    }

    #[test]
    fn total_ends_an_upload_and_says_whose_turn_it_was() {
        let dog = Arc::new(Watchdog::default());
        let start = Instant::now();
        let end = start + Duration::from_secs(3);
        let (open, _far) = pair();
        let (mut stuck, _other) = pair();
        full(&mut stuck);
        let one = uploading(&dog, &open, start, Some(end));
        let two = uploading(&dog, &stuck, start, Some(end));
        two.allow(Duration::from_secs(60));
        dog.look(end);
        assert_eq!((one.fired(), two.fired()), (Some(Late::Client), Some(Late::Origin)));
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
        assert_eq!(again.fired(), None);
    }
}
