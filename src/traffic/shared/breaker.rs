//! Is it worth asking? After several failures in a row nobody asks for a while, then one as a trial.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// So many in a row.
pub(super) const FAILURES: u32 = 3;
/// For so long.
const PAUSE: Duration = Duration::from_secs(1);

/// Counts failures. Orderings are relaxed: that a few more ask does no harm.
pub(super) struct Breaker {
    born: Instant,
    failures: AtomicU32,
    /// Nobody asks before, in milliseconds since it was born.
    until: AtomicU64,
}

impl Breaker {
    pub(super) fn new(now: Instant) -> Self {
        Self { born: now, failures: AtomicU32::new(0), until: AtomicU64::new(0) }
    }

    /// May one ask `now`? After a pause only the first may, until it is known what came of it.
    pub(super) fn admits(&self, now: Instant) -> bool {
        if self.failures.load(Relaxed) < FAILURES {
            return true;
        }
        let (until, now) = (self.until.load(Relaxed), self.millis(now));
        now >= until && self.until.compare_exchange(until, now.saturating_add(pause()), Relaxed, Relaxed).is_ok()
    }

    /// How many in a row were not answered.
    pub(super) fn failures(&self) -> u32 {
        self.failures.load(Relaxed)
    }

    /// What came of it.
    pub(super) fn note(&self, answered: bool, now: Instant) {
        if answered {
            self.failures.store(0, Relaxed);
        } else if self.failures.fetch_add(1, Relaxed).saturating_add(1) == FAILURES {
            self.until.store(self.millis(now).saturating_add(pause()), Relaxed);
        }
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.born).as_millis()).unwrap_or(u64::MAX / 2)
    }
}

fn pause() -> u64 {
    u64::try_from(PAUSE.as_millis()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    #[test]
    fn after_failures_in_a_row_one_at_a_time_tries() {
        let start = Instant::now();
        let breaker = Breaker::new(start);
        for answered in [false, false, true, false, false] {
            assert!(breaker.admits(start));
            breaker.note(answered, start);
        }
        assert!(breaker.admits(start));
        breaker.note(false, start);
        assert!(!breaker.admits(start + PAUSE / 2));
        assert_eq!([breaker.admits(start + PAUSE), breaker.admits(start + PAUSE)], [true, false]);
        breaker.note(false, start + PAUSE);
        assert_eq!([breaker.admits(start + PAUSE), breaker.admits(start + 2 * PAUSE)], [false, true]);
        breaker.note(true, start + 2 * PAUSE);
        assert!(breaker.admits(start + 2 * PAUSE) && breaker.admits(start + 2 * PAUSE));
    }
}
