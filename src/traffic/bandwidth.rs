//! How fast may an answer go to its client?
//!
//! What an answer did not use of its rate it may catch up on for a moment only ([`CREDIT`]): an origin that was silent for
//! a minute does not buy a minute's worth of bytes at once. Where its connection is its own it goes in [`slices`](fn@slice),
//! so that it flows; a stream of HTTP/2 goes piece by piece, as its origin sends. Pure: the clock is an argument.

use std::time::{Duration, Instant};

/// How much an answer may be ahead of its rate after a pause.
const CREDIT: Duration = Duration::from_millis(100);

/// Slices in a second, and the least that is worth a write.
const SLICES: u64 = 20;
const LEAST: u64 = 4096;

/// What goes at once of so many bytes a second.
pub fn slice(per_second: u64) -> usize {
    usize::try_from((per_second / SLICES).max(LEAST)).unwrap_or(usize::MAX)
}

/// The pace of one answer.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    per_second: u64,
    /// Bytes that went, as of `looked`.
    sent: u64,
    /// When they are paid for.
    due: Instant,
    looked: Instant,
}

impl Pace {
    /// An answer that begins `now`, of so many bytes a second.
    pub fn new(per_second: u64, now: Instant) -> Self {
        Self { per_second: per_second.max(1), sent: 0, due: now, looked: now }
    }

    /// So many bytes went so far: how long the next ones have to wait.
    pub fn wait(&mut self, sent: u64, now: Instant) -> Option<Duration> {
        let earliest = self.looked.checked_sub(CREDIT).unwrap_or(self.looked);
        let further = sent.saturating_sub(self.sent) as f64 / self.per_second as f64;
        self.due = self.due.max(earliest) + Duration::from_secs_f64(further);
        (self.sent, self.looked) = (sent, now);
        self.due.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }

    /// So many further bytes went: when the next ones may.
    pub fn went(&mut self, bytes: usize, now: Instant) -> Instant {
        self.wait(self.sent.saturating_add(bytes as u64), now);
        self.due
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// How long so many pieces of this size take, when each is there at once.
    fn takes(per_second: u64, pieces: u64, bytes: u64) -> Duration {
        let start = Instant::now();
        let (mut pace, mut now) = (Pace::new(per_second, start), start);
        for piece in 0..pieces {
            now += pace.wait(piece * bytes, now).unwrap_or_default();
        }
        now - start
    }

    #[test]
    fn an_answer_takes_its_time_whatever_its_pieces() {
        for (pieces, bytes) in [(16, 65_536), (1024, 1024), (1 << 20, 1)] {
            let took = takes(MIB / 2, pieces, bytes).as_secs_f64();
            let last = bytes as f64 / (MIB as f64 / 2.0);
            assert!((took - (2.0 - last)).abs() < 0.01, "{pieces} x {bytes}: {took}");
        }
    }

    #[test]
    fn what_goes_in_slices_flows() {
        let start = Instant::now();
        for (per_second, of) in [(MIB, 52_428), (1000, 4096), (u64::MAX, usize::MAX)] {
            assert!(slice(per_second) >= of.min(1 << 40), "{per_second}");
        }
        let (mut pace, mut now, mut went) = (Pace::new(MIB, start), start, 0);
        while went < 2 * MIB as usize {
            let least = (now - start).as_secs_f64() * MIB as f64;
            assert!((went as f64 - least).abs() < slice(MIB) as f64 + 2.0, "{went} after {:?}", now - start);
            went += slice(MIB);
            now = pace.went(slice(MIB), now);
        }
    }

    #[test]
    fn pieces_that_go_together_wait_together() {
        let start = Instant::now();
        let mut pace = Pace::new(1000, start);
        assert!((0..4).all(|_| pace.wait(0, start).is_none()), "the first go at once");
        assert_eq!(pace.wait(4000, start), Some(Duration::from_secs(4)));
        let next = start + Duration::from_secs(4);
        assert!((0..4).all(|_| pace.wait(4000, next).is_none()));
    }

    #[test]
    fn a_pause_buys_a_moment_only() {
        let start = Instant::now();
        let mut pace = Pace::new(1000, start);
        assert_eq!(pace.wait(0, start), None);
        let later = start + Duration::from_secs(60);
        assert_eq!(pace.wait(0, later), None);
        let wait = pace.wait(300, later).unwrap();
        assert!((wait.as_secs_f64() - 0.2).abs() < 1e-6, "{wait:?}");
    }
}
