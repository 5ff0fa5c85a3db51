//! How do attempts at an origin go? Totals since it is known, and errors and times of the last minute.
//!
//! Totals are exact. What is recent is kept in spans of a few seconds under a lock that attempts only try, so that none
//! ever waits, and one that meets another there goes uncounted. A [`Window`] adds spans up, of one origin or of many.

use std::collections::VecDeque;
use std::ops::Not;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::times::{BUCKETS, Times, middle};
use crate::age::Age;

/// The length of a span.
const SPAN: Duration = Duration::from_secs(5);
/// Spans that began longer ago are forgotten.
const MEMORY: Duration = Duration::from_secs(60);
/// There are no more spans of a minute, however often one was cut.
const SPANS: usize = 64;
/// A greater count was never counted, and sums of it might be too great.
const MOST: u64 = 1 << 48;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Counted", into = "Counted")]
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

    /// How far back what is remembered of the last minute goes; `None`: nothing is.
    pub fn reach(&self, now: Instant) -> Option<Duration> {
        let began = self.recent.lock().spans.iter().map(|span| span.began).min()?;
        Some(now.saturating_duration_since(began)).filter(|back| *back <= MEMORY)
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

    /// What is known, as seen `now`.
    pub(super) fn export(&self, now: Instant) -> Carried {
        let recent = self.recent.lock();
        let spans = recent.spans.iter().filter(|span| now.saturating_duration_since(span.began) < MEMORY);
        Carried {
            attempts: self.attempts(),
            errors: self.errors(),
            spans: spans.map(|span| span.retimed(&|at| Age::of(at, now))).collect(),
            cut: recent.cut,
        }
    }

    /// This is known, and nothing else.
    pub(super) fn import(&self, carried: &Carried, now: Instant) {
        let bounded = |count: u64| count.min(MOST);
        self.attempts.store(bounded(carried.attempts), Relaxed);
        self.errors.store(bounded(carried.errors), Relaxed);
        let spans = carried.spans.iter().take(SPANS).map(|span| span.retimed(&|age: Age| age.at(now)));
        *self.recent.lock() = Recent { spans: spans.collect(), cut: carried.cut };
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

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Span<T = Instant> {
    #[serde(rename = "at")]
    began: T,
    #[serde(rename = "n")]
    attempts: u64,
    #[serde(rename = "e", default, skip_serializing_if = "is_zero")]
    errors: u64,
    #[serde(rename = "h", default, skip_serializing_if = "is_zero")]
    hits: u64,
    #[serde(rename = "l", default, skip_serializing_if = "is_zero")]
    lookups: u64,
    #[serde(rename = "t", default)]
    times: Times,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a process tells the next of an origin's attempts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Carried {
    attempts: u64,
    errors: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    spans: Vec<Span<Age>>,
    #[serde(default, skip_serializing_if = "Not::not")]
    cut: bool,
}

impl<T: Copy> Span<T> {
    fn retimed<U>(&self, time: &impl Fn(T) -> U) -> Span<U> {
        let [attempts, errors, hits, lookups] =
            [self.attempts, self.errors, self.hits, self.lookups].map(|count| count.min(MOST));
        Span { began: time(self.began), attempts, errors, hits, lookups, times: self.times.clone().sound() }
    }
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

/// A window as it is handed over: of its times those that there are.
#[derive(Serialize, Deserialize)]
struct Counted {
    attempts: u64,
    errors: u64,
    hits: u64,
    lookups: u64,
    times: Vec<(u8, u64)>,
}

impl From<Window> for Counted {
    fn from(window: Window) -> Self {
        let Window { attempts, errors, hits, lookups, times } = window;
        let times = (0..=u8::MAX).zip(times).filter(|(_, count)| *count > 0).collect();
        Self { attempts, errors, hits, lookups, times }
    }
}

impl From<Counted> for Window {
    fn from(counted: Counted) -> Self {
        let Counted { attempts, errors, hits, lookups, times } = counted;
        let [attempts, errors, hits, lookups] = [attempts, errors, hits, lookups].map(|count| count.min(MOST));
        let mut window = Self { attempts, errors, hits, lookups, ..Self::default() };
        for (bucket, count) in times {
            window.times.get_mut(usize::from(bucket)).into_iter().for_each(|sum| *sum = count.min(MOST));
        }
        window
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
