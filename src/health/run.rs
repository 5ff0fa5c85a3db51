//! How did the latest probes of an origin go? Results in a row, and since when they are the same.
//!
//! `Overloaded` ends a run of either kind: it is alive, and it is not what was asked for.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::evidence::{Fault, Grade};
use super::span::Span;

/// The current run of equal results.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Run<T = Instant> {
    #[serde(default, skip_serializing_if = "is_zero")]
    good: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    bad: u32,
    /// When the first result of the run came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<T>,
    /// Time before this says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heard_from: Option<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<(Grade, T)>,
    /// The latest run of bad ones: when the first of it came, and what the last one was and when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worst: Option<(T, Fault, T)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_good: Option<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_answer: Option<T>,
}

impl<T> Default for Run<T> {
    fn default() -> Self {
        Self {
            good: 0,
            bad: 0,
            since: None,
            heard_from: None,
            last: None,
            worst: None,
            last_good: None,
            last_answer: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl<T> Run<T> {
    /// Did no probe end yet?
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none() && self.last.is_none() && self.heard_from.is_none()
    }

    /// The same with other times.
    pub(super) fn retimed<U>(self, time: &impl Fn(T) -> U) -> Run<U> {
        Run {
            good: self.good,
            bad: self.bad,
            since: self.since.map(time),
            heard_from: self.heard_from.map(time),
            last: self.last.map(|(grade, at)| (grade, time(at))),
            worst: self.worst.map(|(first, fault, at)| (time(first), fault, time(at))),
            last_good: self.last_good.map(time),
            last_answer: self.last_answer.map(time),
        }
    }
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
            Grade::Bad(fault) => {
                let first = self.worst.filter(|_| self.bad > 0).map_or(at, |(first, ..)| first);
                self.worst = Some((first, fault, at));
                self.bad = self.bad.saturating_add(1);
            }
            Grade::Overloaded => {}
        }
        if grade.fault().is_none_or(Fault::answered) {
            self.last_answer = Some(at);
        }
        self.last = Some((grade, at));
    }

    /// Counts from the start again; the last result is still known.
    pub(super) fn restart(&mut self) {
        (self.good, self.bad, self.since, self.worst) = (0, 0, None, None);
    }

    /// Time before `at` says nothing: the run is as young as that.
    pub(super) fn forget_time_before(&mut self, at: Instant) {
        self.heard_from = Some(at);
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
        self.counts_since().filter(|_| self.good > 0)
    }

    /// Every probe since when was bad?
    pub(super) fn bad_since(&self) -> Option<Instant> {
        self.counts_since().filter(|_| self.bad > 0)
    }

    fn counts_since(&self) -> Option<Instant> {
        self.since.map(|since| self.heard_from.map_or(since, |heard| heard.max(since)))
    }

    /// From the first good one to the last, as long as none that followed was otherwise.
    pub(super) fn good_run(&self) -> Option<Span> {
        let (from, (_, to)) = (self.since.filter(|_| self.good > 0)?, self.last?);
        Some(Span { from, to })
    }

    /// The latest run of bad ones, from when the first of them came to when the last was asked for: who fails by taking
    /// all of its `timeout` failed from its beginning on.
    pub(super) fn bad_run(&self, timeout: Duration) -> Option<Span> {
        let (from, last, at) = self.worst?;
        let asked = if last.waited() { at.checked_sub(timeout).unwrap_or(from) } else { at };
        Some(Span { from, to: asked.max(from) })
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

    #[test]
    fn runs_reach_from_their_first_result_to_when_the_last_was_asked_for() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let span = |from, to| Some(Span { from: at(from), to: at(to) });
        let mut run = Run::default();
        assert_eq!((run.good_run(), run.bad_run(SECOND)), (None, None));
        let bad = |fault| Grade::Bad(fault);
        for (second, grade, good, worst) in [
            (3, Grade::Good, span(3, 3), None),
            (5, Grade::Good, span(3, 5), None),
            (8, bad(Fault::Timeout), None, span(8, 8)),
            (11, bad(Fault::Timeout), None, span(8, 10)),
            (13, bad(Fault::Status(500)), None, span(8, 13)),
            (15, Grade::Good, span(15, 15), span(8, 13)),
            (18, bad(Fault::ConnectTimeout), None, span(18, 18)),
        ] {
            run.record(grade, at(second));
            assert_eq!((run.good_run(), run.bad_run(SECOND)), (good, worst), "at {second} s");
        }
        run.forget_time_before(at(20));
        assert_eq!((run.bad_since(), run.bad_run(SECOND)), (Some(at(20)), span(18, 18)));
        run.restart();
        assert_eq!((run.bad_since(), run.bad_run(SECOND)), (None, None));
    }

    const SECOND: Duration = Duration::from_secs(1);
}
