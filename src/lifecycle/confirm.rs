//! When does a change that waits for a confirm go back by itself? Rules C4 and C5.
//!
//! The time to confirm begins when the last newcomer has all of its share: before that there is more to come. One that
//! does not come in at all is waited for a minute, one whose growth is held for twice the time it takes. Pure: the clock
//! and what is seen are arguments.

use std::time::{Duration, Instant};

/// How long a newcomer that is not proven keeps the time from beginning.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far in is a change?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Somebody is not proven yet, and nobody grows.
    Joining,
    /// Somebody grows into its share.
    Growing,
    /// Everybody has all of it.
    In,
}

/// A change that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    /// When it came into force.
    since: Instant,
    within: Duration,
    /// How long growth takes if nothing holds it.
    growth: Duration,
    /// When everybody was there.
    complete: Option<Instant>,
}

impl Clock {
    /// It came into force now, and is to be confirmed within this from when its `growth`, which takes so long, is over.
    pub(super) fn new(within: Duration, growth: Duration, now: Instant) -> Self {
        Self { since: now, within, growth, complete: None }
    }

    /// What it was given.
    pub(super) fn within(&self) -> Duration {
        self.within
    }

    /// Looks again, at how far in the change is; answers whether the time is over.
    pub(super) fn is_over(&mut self, stage: Stage, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since);
        let waits = match stage {
            Stage::Joining => passed < PATIENCE,
            Stage::Growing => passed < PATIENCE + self.growth * 2,
            Stage::In => false,
        };
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
        let mut clock = Clock::new(seconds(10), seconds(60), start);
        assert_eq!(clock.left(start), None);
        assert!(!clock.is_over(Stage::In, start) && !clock.is_over(Stage::In, start + seconds(9)));
        assert_eq!(clock.left(start + seconds(4)), Some(seconds(6)));
        assert!(clock.is_over(Stage::In, start + seconds(10)));
    }

    #[test]
    fn the_time_begins_with_the_last_full_share_and_does_not_stop_again() {
        let start = Instant::now();
        let mut clock = Clock::new(seconds(10), seconds(60), start);
        for (second, stage, over) in [
            (0, Stage::Joining, false),
            (50, Stage::Joining, false),
            (51, Stage::Growing, false),
            (111, Stage::Growing, false),
            (112, Stage::In, false),
            (116, Stage::Growing, false),
            (121, Stage::In, false),
            (122, Stage::Joining, true),
        ] {
            assert_eq!(clock.is_over(stage, start + seconds(second)), over, "at {second} s");
        }
    }

    #[test]
    fn a_newcomer_that_never_comes_is_waited_for_a_minute() {
        let start = Instant::now();
        let mut clock = Clock::new(seconds(10), seconds(60), start);
        assert!(
            !clock.is_over(Stage::Joining, start + seconds(59)) && !clock.is_over(Stage::Joining, start + seconds(60))
        );
        assert!(clock.is_over(Stage::Joining, start + seconds(70)));
    }

    #[test]
    fn a_newcomer_whose_growth_is_held_is_waited_for_twice_its_time_more() {
        let start = Instant::now();
        let mut clock = Clock::new(seconds(10), seconds(60), start);
        assert!(
            !clock.is_over(Stage::Growing, start + seconds(179))
                && !clock.is_over(Stage::Growing, start + seconds(180))
        );
        assert!(clock.is_over(Stage::Growing, start + seconds(190)));
    }
}
