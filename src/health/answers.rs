//! When were requests to an origin answered lately? The last time, and since when without a long gap.
//!
//! Written with every answer, by every shard; read by the judge. Nothing else hangs on either number, and answers that
//! meet are milliseconds apart: `Relaxed`, but that who sees the end of a run sees its beginning as well.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::hang::SILENCE;
use super::span::Span;

/// Who answered within this answers still; a longer time without an answer ends a run of them.
pub(super) const LATELY: Duration = Duration::from_secs(SILENCE.as_secs() / 2);

/// Answers of one origin.
#[derive(Debug, Default)]
pub(super) struct Answers {
    first: OnceLock<Instant>,
    /// Milliseconds from the first one of all to the first one of the run,
    since: AtomicU64,
    /// and to the last one.
    last: AtomicU64,
}

impl Answers {
    /// A request was answered.
    pub(super) fn note(&self, now: Instant) {
        let first = self.first.get_or_init(|| now);
        let at = now.saturating_duration_since(*first).as_millis() as u64;
        let last = self.last.load(Relaxed);
        if Duration::from_millis(at.saturating_sub(last)) > LATELY {
            self.since.store(at, Relaxed);
        }
        if at != last {
            self.last.store(at, Release);
        }
    }

    /// This was the run of another process, which this one goes on with.
    pub(super) fn resume(&self, run: Span) {
        let first = *self.first.get_or_init(|| run.from);
        let since = |at: Instant| at.saturating_duration_since(first).as_millis() as u64;
        self.since.store(since(run.from), Relaxed);
        self.last.store(since(run.to), Release);
    }

    /// The run that the last one belongs to, to the millisecond below.
    pub(super) fn run(&self) -> Option<Span> {
        let first = *self.first.get()?;
        let to = Duration::from_millis(self.last.load(Acquire));
        let from = Duration::from_millis(self.since.load(Relaxed)).min(to);
        Some(Span { from: first + from, to: first + to })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_as_long_as_no_gap_is_long() {
        let (answers, start) = (Answers::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(answers.run(), None);
        for (ms, from) in [(0, 0), (5_000, 0), (10_000, 0), (15_001, 15_001), (15_001, 15_001), (17_500, 15_001)] {
            answers.note(at(ms));
            assert_eq!(answers.run(), Some(Span { from: at(from), to: at(ms) }));
        }
    }
}
