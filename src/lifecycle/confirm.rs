//! When does a change that waits for a confirm go back by itself? Rules C4 and C5.
//!
//! The time to confirm begins when the last newcomer serves: before that there is nothing to judge. One that does not
//! come in at all is waited for a minute. Pure: the clock and what is seen are arguments.

use std::time::{Duration, Instant};

/// How long a newcomer that is not proven keeps the time from beginning.
const PATIENCE: Duration = Duration::from_secs(60);

/// A change that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    /// When it came into force.
    since: Instant,
    within: Duration,
    /// When everybody was there.
    complete: Option<Instant>,
}

impl Clock {
    /// It came into force now, and is to be confirmed within this.
    pub(super) fn new(within: Duration, now: Instant) -> Self {
        Self { since: now, within, complete: None }
    }

    /// What it was given.
    pub(super) fn within(&self) -> Duration {
        self.within
    }

    /// Looks again, whether a newcomer is `joining` still; answers whether the time is over.
    pub(super) fn is_over(&mut self, joining: bool, now: Instant) -> bool {
        let waits = joining && now.saturating_duration_since(self.since) < PATIENCE;
        if self.complete.is_none() && !waits {
            self.complete = Some(now);
        }
        self.left(now).is_some_and(|left| left.is_zero())
    }

    /// How much time is left; `None` as long as it has not begun.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let complete = self.complete?;
        Some(self.within.saturating_sub(now.saturating_duration_since(complete)))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn without_newcomers_the_time_runs_from_the_start() {
        let start = Instant::now();
        let mut clock = Clock::new(seconds(10), start);
        assert_eq!(clock.left(start), None);
        assert!(!clock.is_over(false, start) && !clock.is_over(false, start + seconds(9)));
        assert_eq!(clock.left(start + seconds(4)), Some(seconds(6)));
        assert!(clock.is_over(false, start + seconds(10)));
    }

    #[test]
    fn the_time_begins_with_the_last_newcomer_and_does_not_stop_again() {
        let start = Instant::now();
        let mut clock = Clock::new(seconds(10), start);
        for (second, joining, over) in [
            (0, true, false),
            (50, true, false),
            (51, false, false),
            (55, true, false),
            (60, false, false),
            (61, true, true),
        ] {
            assert_eq!(clock.is_over(joining, start + seconds(second)), over, "at {second} s");
        }
    }

    #[test]
    fn a_newcomer_that_never_comes_is_waited_for_a_minute() {
        let start = Instant::now();
        let mut clock = Clock::new(seconds(10), start);
        assert!(!clock.is_over(true, start + seconds(59)) && !clock.is_over(true, start + seconds(60)));
        assert!(clock.is_over(true, start + seconds(70)));
    }
}
