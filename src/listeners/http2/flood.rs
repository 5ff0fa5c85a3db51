//! How many frames that ask for nothing may a client send?
//!
//! SETTINGS, PRIORITY, WINDOW_UPDATE, PING and the like cost us as long as they come. A client has a stock of them that
//! comes back with time; what it asks for, what it sends and what it is sent fill it up, since those are what such
//! frames belong to. So a client at work is never cut, whatever its habits. Time is only looked at when the stock is out.
//! A request that is begun and reset costs more than one that is not, and is held to a stock of its own: a client may ask
//! and give up as often as its deadlines make it, within reason. Streams that are reset before we even looked at them, DATA
//! without data and headers without end are the `h2` library's to count.

use std::time::Duration;

use tokio::time::Instant;

use super::frames::{DATA, Frame, HEADERS, RST_STREAM};

/// Frames that ask for nothing: so many at once, and so many a second.
const BURST: u64 = 2000;
const A_SECOND: u64 = 200;

/// Streams that are given up: so many at once, and so many a second. A hundred streams, each with a deadline of a tenth of
/// a second, come to that at an origin that is silent.
const RESETS: u64 = 2000;
const RESETS_A_SECOND: u64 = 1000;

/// What a request is worth, and a piece of its body.
const REQUEST: u64 = 20;
const PIECE: u64 = 2;

/// A piece of an answer is worth the two updates, of the stream's window and the connection's, that the most eager of
/// clients answers it with, and so many bytes are worth one more.
const UPDATES: u64 = 2;
const BYTES: usize = 64;

/// So many are left, and come back with time.
#[derive(Debug)]
struct Stock {
    left: u64,
    most: u64,
    a_second: u64,
    filled: Instant,
}

/// What a client may still send that asks for nothing, or takes back what it asked for.
#[derive(Debug)]
pub(super) struct Budget {
    frames: Stock,
    resets: Stock,
}

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Self { frames: Stock::new(BURST, A_SECOND, now), resets: Stock::new(RESETS, RESETS_A_SECOND, now) }
    }

    /// `frame` goes to the client. Acknowledgements are not worth what they answer.
    pub(super) fn sent(&mut self, frame: Frame) {
        if frame.kind == DATA && frame.length > 0 {
            self.frames.earn(UPDATES + (frame.length / BYTES) as u64);
        }
    }

    /// A frame came: false when there were too many like it.
    pub(super) fn takes(&mut self, frame: Frame, now: impl FnOnce() -> Instant) -> bool {
        match (frame.kind, frame.length) {
            (HEADERS, _) => self.frames.earn(REQUEST),
            (DATA, 1..) => self.frames.earn(PIECE),
            (RST_STREAM, _) => return self.resets.take(now),
            _ => return self.frames.take(now),
        }
        true
    }
}

impl Stock {
    fn new(most: u64, a_second: u64, now: Instant) -> Self {
        Self { left: most, most, a_second, filled: now }
    }

    /// One of them is used up: false when none was left.
    fn take(&mut self, now: impl FnOnce() -> Instant) -> bool {
        if self.left == 0 {
            self.fill(now());
        }
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        true
    }

    fn earn(&mut self, frames: u64) {
        self.left = self.left.saturating_add(frames).min(self.most);
    }

    fn fill(&mut self, now: Instant) {
        let since: Duration = now.saturating_duration_since(self.filled);
        self.filled = now;
        self.earn(u64::try_from(since.as_millis()).unwrap_or(u64::MAX).saturating_mul(self.a_second) / 1000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(budget: &mut Budget, kind: u8, length: usize, frames: u64, now: Instant) -> bool {
        (0..frames).all(|_| budget.takes(Frame { kind, flags: 0, stream: 0, length }, || now))
    }

    #[test]
    fn what_asks_for_nothing_ends_and_comes_back_with_time() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        assert!(spent(&mut budget, 4, 6, BURST, now));
        assert!(!spent(&mut budget, 8, 4, 1, now));
        let later = now + Duration::from_secs(1);
        assert!(spent(&mut budget, 2, 5, A_SECOND, later));
        assert!(!spent(&mut budget, 0, 0, 1, later), "an empty piece is none");
    }

    #[test]
    fn requests_taken_back_end_and_come_back_with_time() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        let mut taken_back = |now| spent(&mut budget, 1, 20, 1, now) && spent(&mut budget, 3, 4, 1, now);
        assert_eq!((0..9999).take_while(|_| taken_back(now)).count() as u64, RESETS);
        let later = now + Duration::from_secs(1);
        assert_eq!((0..9999).take_while(|_| taken_back(later)).count() as u64, RESETS_A_SECOND);
    }

    #[test]
    fn a_client_at_work_is_never_cut() {
        let now = Instant::now();
        let mut budget = Budget::new(now);
        let sent = |length| Frame { kind: DATA, flags: 0, stream: 1, length };
        for _ in 0..10_000 {
            assert!(spent(&mut budget, 1, 20, 1, now) && spent(&mut budget, 8, 4, 20, now), "requests");
            assert!(spent(&mut budget, 0, 1, 1, now) && spent(&mut budget, 6, 8, 2, now), "a body");
            budget.sent(sent(16_384));
            assert!(spent(&mut budget, 8, 4, 250, now), "room for an answer");
        }
        // the acknowledgements of a flood earn nothing
        let acknowledged = (0..100_000).take_while(|_| {
            budget.sent(Frame { kind: 6, flags: 1, stream: 0, length: 8 });
            spent(&mut budget, 6, 8, 1, now)
        });
        assert!(acknowledged.count() <= BURST as usize);
    }
}
