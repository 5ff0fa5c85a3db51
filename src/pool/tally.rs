//! How do attempts at an origin go? Totals since it is known, and error ratio and times of about the last minute.
//!
//! Totals are exact. The recent figures are for people looking at `/status`: they are taken under a lock that is only
//! tried, so that no attempt ever waits, and one that meets another there goes uncounted in them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;

/// Half of the time that recent figures look back at most.
const SPAN: Duration = Duration::from_secs(30);
/// Times are told apart down to this.
const GRAIN: Duration = Duration::from_micros(100);
/// Times above this count as this much.
const LONGEST: u64 = 3600 * 10_000;

/// Counts of attempts.
#[derive(Debug, Default)]
pub struct Tally {
    attempts: AtomicU64,
    errors: AtomicU64,
    recent: Mutex<Recent>,
}

/// The last minute, as far as anything happened in it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// Attempts that ended.
    pub attempts: u64,
    /// Part of the attempts that failed or were answered with 5xx.
    pub error_ratio: Option<f64>,
    /// Half of the answers took no longer to their header.
    pub p50: Option<Duration>,
    /// All but one in a hundred answers took no longer to their header.
    pub p99: Option<Duration>,
    /// Answers that came from the origin's own cache.
    pub hits: u64,
    /// Those that did, or might have.
    pub lookups: u64,
}

impl Tally {
    /// All attempts that came to an end.
    pub fn attempts(&self) -> u64 {
        self.attempts.load(Relaxed)
    }

    /// Those that failed or were answered with 5xx.
    pub fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }

    /// The last minute.
    pub fn summary(&self, now: Instant) -> Summary {
        Self::summary_of([self], now)
    }

    /// The last minute of several together.
    pub fn summary_of<'a>(tallies: impl IntoIterator<Item = &'a Self>, now: Instant) -> Summary {
        let mut all = Span::default();
        for tally in tallies {
            let mut recent = tally.recent.lock();
            recent.turn(now);
            all.add(&recent.this);
            all.add(&recent.last);
        }
        all.summary()
    }

    /// An attempt ended; `took`: time to the answer's header, if one came; `hit`: did it come from the origin's own
    /// cache, as far as that is known?
    pub(super) fn record(&self, error: bool, took: Option<Duration>, hit: Option<bool>, now: Instant) {
        self.attempts.fetch_add(1, Relaxed);
        self.errors.fetch_add(u64::from(error), Relaxed);
        if let Some(mut recent) = self.recent.try_lock() {
            recent.turn(now);
            recent.this.record(error, took, hit);
        }
    }
}

/// Two spans, the older one whole: what is told covers one to two of them.
#[derive(Debug, Default)]
struct Recent {
    began: Option<Instant>,
    this: Span,
    last: Span,
}

#[derive(Debug, Default)]
struct Span {
    attempts: u64,
    errors: u64,
    hits: u64,
    lookups: u64,
    /// Made with the first answer: an origin without traffic costs nothing.
    times: Option<Histogram<u32>>,
}

impl Recent {
    fn turn(&mut self, now: Instant) {
        let age = self.began.map_or(Duration::MAX, |began| now.saturating_duration_since(began));
        if age < SPAN {
            return;
        }
        let this = std::mem::take(&mut self.this);
        self.last = if age < SPAN * 2 { this } else { Span::default() };
        self.began = Some(now);
    }
}

impl Span {
    fn add(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.errors += other.errors;
        self.hits += other.hits;
        self.lookups += other.lookups;
        match (&mut self.times, &other.times) {
            // Equal bounds: adding cannot fail.
            (Some(times), Some(more)) => _ = times.add(more),
            (None, Some(more)) => self.times = Some(more.clone()),
            (_, None) => {}
        }
    }

    fn summary(&self) -> Summary {
        let at = |q| {
            let times = self.times.as_ref()?;
            Some(GRAIN * u32::try_from(times.value_at_quantile(q)).unwrap_or(u32::MAX))
        };
        let error_ratio = (self.attempts > 0).then(|| self.errors as f64 / self.attempts as f64);
        Summary {
            attempts: self.attempts,
            error_ratio,
            p50: at(0.5),
            p99: at(0.99),
            hits: self.hits,
            lookups: self.lookups,
        }
    }

    fn record(&mut self, error: bool, took: Option<Duration>, hit: Option<bool>) {
        self.attempts += 1;
        self.errors += u64::from(error);
        self.lookups += u64::from(hit.is_some());
        self.hits += u64::from(hit == Some(true));
        let Some(took) = took else { return };
        // One digit: within 6 % at a kilobyte an origin.
        let new = || Histogram::new_with_max(LONGEST, 1).ok();
        if self.times.is_none() {
            self.times = new();
        }
        if let Some(times) = &mut self.times {
            times.saturating_record((took.as_micros() / GRAIN.as_micros()).max(1) as u64);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    #[test]
    fn nothing_happened_says_nothing() {
        assert_eq!(Tally::default().summary(Instant::now()), Summary::default());
    }

    #[test]
    fn summary_tells_ratio_median_and_tail() {
        let (tally, now) = (Tally::default(), Instant::now());
        for ms in (1..=99).chain(1..=99) {
            tally.record(false, Some(Duration::from_millis(ms)), None, now);
        }
        tally.record(true, Some(Duration::from_secs(2)), None, now);
        tally.record(true, None, None, now);
        let summary = tally.summary(now);
        assert_eq!(summary.error_ratio, Some(0.01));
        let (p50, p99) = (summary.p50.unwrap().as_millis(), summary.p99.unwrap().as_millis());
        assert!((45..=55).contains(&p50), "{p50}");
        assert!((92..=106).contains(&p99), "{p99}");
        assert_eq!((tally.attempts(), tally.errors()), (200, 2));
    }

    #[test]
    fn several_are_summed_up_as_one() {
        let (tallies, now) = ([Tally::default(), Tally::default(), Tally::default()], Instant::now());
        for ms in 1..=100 {
            tallies[ms % 2].record(ms == 100, Some(Duration::from_millis(ms as u64)), None, now);
        }
        let summary = Tally::summary_of(&tallies, now);
        assert_eq!((summary.attempts, summary.error_ratio), (100, Some(0.01)));
        let p50 = summary.p50.unwrap().as_millis();
        assert!((45..=55).contains(&p50), "{p50}");
        assert_eq!(Tally::summary_of([], now), Summary::default());
    }

    #[test]
    fn recent_figures_are_forgotten_after_two_spans_and_totals_are_not() {
        let (tally, now) = (Tally::default(), Instant::now());
        tally.record(true, Some(GRAIN), Some(true), now);
        assert_eq!((tally.summary(now).hits, tally.summary(now).lookups), (1, 1));
        assert_eq!(tally.summary(now + SPAN).error_ratio, Some(1.0));
        assert_eq!(tally.summary(now + SPAN * 2).error_ratio, None);
        assert_eq!(tally.attempts(), 1);
        tally.record(false, Some(GRAIN), Some(false), now + SPAN * 10);
        assert_eq!(tally.summary(now + SPAN * 10).lookups, 1);
        assert_eq!(tally.summary(now + SPAN * 10).error_ratio, Some(0.0));
    }
}
