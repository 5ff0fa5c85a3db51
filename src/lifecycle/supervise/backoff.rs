//! How long after a crash is the next process started? At once, unless those before it did not live for long.

use std::time::Duration;

/// The wait after the second crash in a row; twice as long after each further one.
const FIRST: Duration = Duration::from_millis(100);
/// No wait is longer.
const LONGEST: Duration = Duration::from_secs(10);
/// A process that lived for so long did not crash in a row.
const STEADY: Duration = Duration::from_secs(30);

/// The crashes in a row so far.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    crashes: u32,
}

impl Backoff {
    /// The wait after one more crash, of a process that lived for so long.
    pub(super) fn crashed(&mut self, lived: Duration) -> Duration {
        if lived >= STEADY {
            self.crashes = 0;
        }
        let wait = match self.crashes {
            0 => Duration::ZERO,
            more => FIRST.saturating_mul(1 << (more - 1).min(16)).min(LONGEST),
        };
        self.crashes = self.crashes.saturating_add(1);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_in_a_row_wait_longer_and_longer() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..10).map(|_| backoff.crashed(Duration::from_secs(1)).as_millis()).collect();
        assert_eq!(waits, [0, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(backoff.crashed(STEADY), Duration::ZERO, "it was well for a while");
        assert_eq!(backoff.crashed(Duration::ZERO), FIRST);
        backoff.crashes = u32::MAX;
        assert_eq!(backoff.crashed(Duration::ZERO), LONGEST);
    }
}
