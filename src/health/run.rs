//! How did the latest probes of an origin go? Results in a row, and since when they are the same.
//!
//! `Overloaded` ends a run of either kind: it is alive, and it is not what was asked for.

use std::time::Instant;

use super::evidence::{Fault, Grade};

/// The current run of equal results.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    good: u32,
    bad: u32,
    /// When the first result of the run came.
    since: Option<Instant>,
    last: Option<(Grade, Instant)>,
    last_good: Option<Instant>,
    last_answer: Option<Instant>,
}

impl Run {
    pub(super) fn record(&mut self, grade: Grade, at: Instant) {
        let same = match grade {
            Grade::Good => self.good > 0,
            Grade::Bad(_) => self.bad > 0,
            Grade::Overloaded => false,
        };
        if !same {
            (self.good, self.bad, self.since) = (0, 0, Some(at));
        }
        match grade {
            Grade::Good => {
                self.good = self.good.saturating_add(1);
                self.last_good = Some(at);
            }
            Grade::Bad(_) => self.bad = self.bad.saturating_add(1),
            Grade::Overloaded => {}
        }
        if grade.fault().is_none_or(Fault::answered) {
            self.last_answer = Some(at);
        }
        self.last = Some((grade, at));
    }

    /// Counts from the start again; the last result is still known.
    pub(super) fn restart(&mut self) {
        (self.good, self.bad, self.since) = (0, 0, None);
    }

    /// Time before `at` says nothing: the run is as young as that.
    pub(super) fn forget_time_before(&mut self, at: Instant) {
        self.since = self.since.map(|since| since.max(at));
    }

    /// Good results in a row.
    pub(super) fn good(&self) -> u32 {
        self.good
    }

    /// Bad results in a row.
    pub(super) fn bad(&self) -> u32 {
        self.bad
    }

    pub(super) fn last(&self) -> Option<(Grade, Instant)> {
        self.last
    }

    pub(super) fn last_good(&self) -> Option<Instant> {
        self.last_good
    }

    /// When a probe was last answered, whatever the answer said.
    pub(super) fn last_answer(&self) -> Option<Instant> {
        self.last_answer
    }

    /// The fault of the latest probe.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.last.and_then(|(grade, _)| grade.fault())
    }

    /// Did the latest probe pass? One that was never run did not.
    pub(super) fn passes(&self) -> bool {
        matches!(self.last, Some((Grade::Good, _)))
    }

    /// Every probe since when passed?
    pub(super) fn good_since(&self) -> Option<Instant> {
        if self.good > 0 { self.since } else { None }
    }

    /// Every probe since when was bad?
    pub(super) fn bad_since(&self) -> Option<Instant> {
        if self.bad > 0 { self.since } else { None }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_run_counts_equal_results_and_ends_with_another() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let bad = Grade::Bad(Fault::Timeout);
        let mut run = Run::default();
        assert!(!run.passes(), "a probe never run did not pass");
        for (second, grade, good_and_bad) in [
            (0, Grade::Good, (1, 0)),
            (1, Grade::Good, (2, 0)),
            (2, bad, (0, 1)),
            (3, bad, (0, 2)),
            (4, Grade::Overloaded, (0, 0)),
            (5, bad, (0, 1)),
        ] {
            run.record(grade, at(second));
            assert_eq!((run.good(), run.bad()), good_and_bad, "at {second} s");
        }
        assert_eq!(run.bad_since(), Some(at(5)));
        assert_eq!((run.good_since(), run.last_good()), (None, Some(at(1))));
    }
}
