//! How do attempts at an origin go? Totals since it is known, and errors and times of the last minute.
//!
//! Totals are exact. What is recent is kept in spans of a few seconds under a lock that attempts only try, so that none
//! ever waits, and one that meets another there goes uncounted. A [`Window`] adds spans up, of one origin or of many.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::times::{BUCKETS, Times, middle};

/// The length of a span.
const SPAN: Duration = Duration::from_secs(5);
/// Spans that began longer ago are forgotten.
const MEMORY: Duration = Duration::from_secs(60);

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

/// What happened in some time, at one origin or at several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Window {
    attempts: u64,
    errors: u64,
    hits: u64,
    lookups: u64,
    times: [u64; BUCKETS],
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
        let mut window = Window::default();
        tallies.into_iter().for_each(|tally| tally.add_to(&mut window, MEMORY, now));
        Summary {
            attempts: window.attempts(),
            error_ratio: window.error_ratio(),
            p50: window.quantile(0.5),
            p99: window.quantile(0.99),
            hits: window.hits,
            lookups: window.lookups,
        }
    }

    /// An attempt ended; `took`: time to the answer's header, if one came; `hit`: did it come from the origin's own
    /// cache, as far as that is known?
    pub fn record(&self, error: bool, took: Option<Duration>, hit: Option<bool>, now: Instant) {
        self.attempts.fetch_add(1, Relaxed);
        self.errors.fetch_add(u64::from(error), Relaxed);
        if let Some(mut recent) = self.recent.try_lock() {
            recent.span(now).record(error, took, hit);
        }
    }

    /// Adds what happened within `back` before `now`, to the span below.
    pub(super) fn add_to(&self, window: &mut Window, back: Duration, now: Instant) {
        for span in self.recent.lock().spans.iter().filter(|span| now.saturating_duration_since(span.began) <= back) {
            window.add(span);
        }
    }

    /// A new span begins with the next attempt.
    pub(super) fn cut(&self) {
        self.recent.lock().cut = true;
    }
}

/// Spans, the oldest first.
#[derive(Debug, Default)]
struct Recent {
    spans: VecDeque<Span>,
    cut: bool,
}

#[derive(Debug)]
struct Span {
    began: Instant,
    attempts: u64,
    errors: u64,
    hits: u64,
    lookups: u64,
    times: Times,
}

impl Recent {
    /// The span of this moment.
    fn span(&mut self, now: Instant) -> &mut Span {
        let goes_on = |span: &Span| now.saturating_duration_since(span.began) < SPAN;
        if self.cut || !self.spans.back().is_some_and(goes_on) {
            self.spans.retain(|span| now.saturating_duration_since(span.began) < MEMORY);
            let times = Times::default();
            self.spans.push_back(Span { began: now, attempts: 0, errors: 0, hits: 0, lookups: 0, times });
            self.cut = false;
        }
        let last = self.spans.len().saturating_sub(1);
        &mut self.spans[last]
    }
}

impl Span {
    fn record(&mut self, error: bool, took: Option<Duration>, hit: Option<bool>) {
        self.attempts += 1;
        self.errors += u64::from(error);
        self.lookups += u64::from(hit.is_some());
        self.hits += u64::from(hit == Some(true));
        if let Some(took) = took {
            self.times.record(took);
        }
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { attempts: 0, errors: 0, hits: 0, lookups: 0, times: [0; BUCKETS] }
    }
}

impl Window {
    fn add(&mut self, span: &Span) {
        self.attempts += span.attempts;
        self.errors += span.errors;
        self.hits += span.hits;
        self.lookups += span.lookups;
        for (bucket, count) in span.times.counts() {
            self.times.get_mut(bucket).into_iter().for_each(|sum| *sum += count);
        }
    }

    /// All but a part of it.
    pub(super) fn without(&self, part: &Self) -> Self {
        let mut rest = self.clone();
        rest.attempts = rest.attempts.saturating_sub(part.attempts);
        rest.errors = rest.errors.saturating_sub(part.errors);
        rest.hits = rest.hits.saturating_sub(part.hits);
        rest.lookups = rest.lookups.saturating_sub(part.lookups);
        rest.times.iter_mut().zip(&part.times).for_each(|(all, part)| *all = all.saturating_sub(*part));
        rest
    }

    pub(super) fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Attempts that got a header.
    pub(super) fn answers(&self) -> u64 {
        self.times.iter().sum()
    }

    pub(super) fn error_ratio(&self) -> Option<f64> {
        (self.attempts > 0).then(|| self.errors as f64 / self.attempts as f64)
    }

    /// This part of the answers took no longer to their header.
    pub(super) fn quantile(&self, part: f64) -> Option<Duration> {
        let wanted = ((self.answers() as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.times.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map(middle)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    fn back(tally: &Tally, seconds: u64, now: Instant) -> (u64, Option<f64>) {
        let mut window = Window::default();
        tally.add_to(&mut window, Duration::from_secs(seconds), now);
        (window.attempts(), window.error_ratio())
    }

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
        assert!((46..=54).contains(&p50), "{p50}");
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
    fn a_minute_is_remembered_and_totals_are_not_forgotten() {
        let (tally, now) = (Tally::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        tally.record(true, Some(SPAN), Some(true), now);
        let summary = tally.summary(at(60));
        assert_eq!((summary.error_ratio, summary.hits, summary.lookups), (Some(1.0), 1, 1));
        assert_eq!(tally.summary(at(61)).error_ratio, None);
        (0..600).for_each(|second| tally.record(false, None, None, at(second)));
        assert_eq!((tally.attempts(), tally.recent.lock().spans.len()), (601, 12));
    }

    #[test]
    fn window_holds_the_spans_that_began_in_it_and_a_cut_begins_one() {
        let (tally, now) = (Tally::default(), Instant::now());
        let at = |seconds| now + Duration::from_secs(seconds);
        (0..10).for_each(|_| tally.record(true, None, None, at(0)));
        tally.record(false, None, None, at(4));
        assert_eq!(back(&tally, 3, at(4)), (0, None), "one span, which began before");
        tally.cut();
        (0..4).for_each(|_| tally.record(false, None, None, at(4)));
        assert_eq!(back(&tally, 3, at(6)), (4, Some(0.0)));
        assert_eq!(back(&tally, 30, at(6)), (15, Some(10.0 / 15.0)));
    }

    #[test]
    fn rest_of_a_pool_is_all_but_one() {
        let (one, other, now) = (Tally::default(), Tally::default(), Instant::now());
        (0..30).for_each(|_| one.record(true, Some(Duration::from_millis(100)), None, now));
        (0..30).for_each(|_| other.record(false, Some(Duration::from_millis(3)), None, now));
        let (mut all, mut part, mut rest) = (Window::default(), Window::default(), Window::default());
        [&one, &other].iter().for_each(|tally| tally.add_to(&mut all, SPAN, now));
        one.add_to(&mut part, SPAN, now);
        other.add_to(&mut rest, SPAN, now);
        assert_eq!(all.without(&part), rest);
    }
}
