//! One metric family and its series, as a collector of the `prometheus` crate.
//!
//! Why not the crate's own vectors: they find a series by a hash of the label values written one after the
//! other, so that pool `a` with origin `bc` and pool `ab` with origin `c` would share one counter; and their
//! histogram pays two more atomic operations for an observation than ours.
//!
//! A series is an `Arc`, resolved once and then only added to. All orderings are relaxed: each number stands
//! alone and nothing is published through it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto;

/// A kind of series: counter, gauge or histogram.
pub(super) trait Series: Clone + Send + Sync + 'static {
    /// How Prometheus calls it.
    const KIND: proto::MetricType;

    /// A series at its start.
    fn start(bounds: &'static [u64]) -> Self;

    /// Does it only grow?
    const GROWS: bool;

    /// Everything that it counts; nothing of one that falls as well.
    fn numbers(&self) -> Vec<u64>;

    /// Adds as many of each, if there are as many.
    fn add_numbers(&self, numbers: &[u64]);

    /// Writes the present value into `metric`.
    fn fill(&self, metric: &mut proto::Metric);
}

/// A number that only grows.
#[derive(Debug, Clone)]
pub(super) struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds one.
    pub(super) fn increment(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// The count so far.
    pub(super) fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Series for Counter {
    const KIND: proto::MetricType = proto::MetricType::COUNTER;
    const GROWS: bool = true;

    fn numbers(&self) -> Vec<u64> {
        vec![self.value()]
    }

    fn add_numbers(&self, numbers: &[u64]) {
        if let [n] = numbers {
            self.add(*n);
        }
    }

    fn start(_: &'static [u64]) -> Self {
        Self(Arc::default())
    }

    fn fill(&self, metric: &mut proto::Metric) {
        let mut counter = proto::Counter::default();
        counter.set_value(self.value() as f64);
        metric.set_counter(counter);
    }
}

/// A whole number that rises and falls.
#[derive(Debug, Clone)]
pub(super) struct Level(Arc<AtomicI64>);

impl Level {
    /// Adds `n`, which may be negative.
    pub(super) fn add(&self, n: i64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Replaces the value.
    pub(super) fn set(&self, n: i64) {
        self.0.store(n, Relaxed);
    }

    /// The present value.
    pub(super) fn value(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

impl Series for Level {
    const KIND: proto::MetricType = proto::MetricType::GAUGE;
    const GROWS: bool = false;

    fn numbers(&self) -> Vec<u64> {
        Vec::new()
    }

    fn add_numbers(&self, _: &[u64]) {}

    fn start(_: &'static [u64]) -> Self {
        Self(Arc::default())
    }

    fn fill(&self, metric: &mut proto::Metric) {
        let mut gauge = proto::Gauge::default();
        gauge.set_value(self.value() as f64);
        metric.set_gauge(gauge);
    }
}

/// A ratio or another number that is not whole.
#[derive(Debug, Clone)]
pub(super) struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Replaces the value.
    pub(super) fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }

    /// The present value.
    pub(super) fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }
}

impl Series for Gauge {
    const KIND: proto::MetricType = proto::MetricType::GAUGE;
    const GROWS: bool = false;

    fn numbers(&self) -> Vec<u64> {
        Vec::new()
    }

    fn add_numbers(&self, _: &[u64]) {}

    fn start(_: &'static [u64]) -> Self {
        Self(Arc::default())
    }

    fn fill(&self, metric: &mut proto::Metric) {
        let mut gauge = proto::Gauge::default();
        gauge.set_value(self.value());
        metric.set_gauge(gauge);
    }
}

/// How long something took: counts by upper bound, and the sum.
#[derive(Debug, Clone)]
pub(super) struct Histogram(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    /// Upper bounds in microseconds, ascending.
    bounds: &'static [u64],
    /// One count for each bound and one for all above.
    counts: Box<[AtomicU64]>,
    sum_micros: AtomicU64,
}

impl Histogram {
    /// Counts one more.
    pub(super) fn observe(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = self.0.bounds.partition_point(|bound| *bound < micros);
        if let Some(count) = self.0.counts.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        self.0.sum_micros.fetch_add(micros, Relaxed);
    }
}

impl Series for Histogram {
    const KIND: proto::MetricType = proto::MetricType::HISTOGRAM;
    const GROWS: bool = true;

    /// The counts, and last the sum.
    fn numbers(&self) -> Vec<u64> {
        self.0.counts.iter().chain([&self.0.sum_micros]).map(|count| count.load(Relaxed)).collect()
    }

    fn add_numbers(&self, numbers: &[u64]) {
        let all = self.0.counts.iter().chain([&self.0.sum_micros]);
        if numbers.len() == self.0.counts.len() + 1 {
            all.zip(numbers).for_each(|(count, n)| _ = count.fetch_add(*n, Relaxed));
        }
    }

    fn start(bounds: &'static [u64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Buckets { bounds, counts, sum_micros: AtomicU64::new(0) }))
    }

    fn fill(&self, metric: &mut proto::Metric) {
        let mut total = 0;
        let mut buckets = Vec::with_capacity(self.0.bounds.len());
        for (bound, count) in self.0.bounds.iter().zip(&self.0.counts) {
            total += count.load(Relaxed);
            let mut bucket = proto::Bucket::default();
            bucket.set_upper_bound(seconds(*bound));
            bucket.set_cumulative_count(total);
            buckets.push(bucket);
        }
        let above = self.0.counts.last().map_or(0, |count| count.load(Relaxed));
        let mut histogram = proto::Histogram::default();
        histogram.set_sample_count(total + above);
        histogram.set_sample_sum(seconds(self.0.sum_micros.load(Relaxed)));
        histogram.set_bucket(buckets);
        metric.set_histogram(histogram);
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Name and labels of a family: what [`Family::new`] needs.
pub(super) struct Named {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) labels: &'static [&'static str],
    /// Upper bounds of a histogram in microseconds; empty for every other kind.
    pub(super) bounds: &'static [u64],
}

/// All series of one name.
pub(super) struct Family<S>(Arc<Inner<S>>);

/// Values of labels, in the order of the labels.
pub(super) type Labels = Box<[Box<str>]>;

struct Inner<S> {
    named: Named,
    desc: Desc,
    series: Mutex<BTreeMap<Labels, S>>,
}

impl<S> Clone for Family<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Series> Family<S> {
    /// A family without series.
    pub(super) fn new(named: Named) -> Result<Self, prometheus::Error> {
        let labels = named.labels.iter().map(|label| String::from(*label)).collect();
        let desc = Desc::new(named.name.into(), named.help.into(), labels, HashMap::new())?;
        Ok(Self(Arc::new(Inner { named, desc, series: Mutex::default() })))
    }

    /// The series with these label values, in the order of the labels; made when it is not there yet.
    pub(super) fn with(&self, values: &[&str]) -> S {
        debug_assert_eq!(values.len(), self.0.named.labels.len(), "{}", self.0.named.name);
        let values = values.iter().map(|value| Box::from(*value)).collect();
        self.0.series.lock().entry(values).or_insert_with(|| S::start(self.0.named.bounds)).clone()
    }

    /// Forgets all series.
    pub(super) fn clear(&self) {
        self.0.series.lock().clear();
    }

    /// Name and labels.
    pub(super) fn named(&self) -> &Named {
        &self.0.named
    }

    /// Shows each series to `look`.
    pub(super) fn each(&self, mut look: impl FnMut(&[Box<str>], &S)) {
        self.0.series.lock().iter().for_each(|(values, series)| look(values, series));
    }

    /// Takes all series whose first label values are these out of what is shown.
    pub(super) fn remove_under(&self, values: &[&str]) {
        let first: Labels = values.iter().map(|value| Box::from(*value)).collect();
        let mut series = self.0.series.lock();
        let under = series.range(first.clone()..).map(|(values, _)| values).take_while(|one| one.starts_with(&first));
        let under: Vec<Labels> = under.cloned().collect();
        under.iter().for_each(|values| _ = series.remove(values));
    }

    /// Takes the series with these label values out of what is shown.
    pub(super) fn remove(&self, values: &[&str]) {
        let values: Box<[Box<str>]> = values.iter().map(|value| Box::from(*value)).collect();
        self.0.series.lock().remove(&values);
    }
}

impl<S: Series> Collector for Family<S> {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0.desc]
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let named = &self.0.named;
        let metrics =
            self.0.series.lock().iter().map(|(values, series)| metric(named.labels, values, series)).collect();
        let mut family = proto::MetricFamily::default();
        family.set_name(named.name.into());
        family.set_help(named.help.into());
        family.set_field_type(S::KIND);
        family.set_metric(metrics);
        vec![family]
    }
}

fn metric<S: Series>(labels: &[&str], values: &[Box<str>], series: &S) -> proto::Metric {
    let pairs = labels.iter().zip(values).map(|(label, value)| {
        let mut pair = proto::LabelPair::default();
        pair.set_name((*label).into());
        pair.set_value(value.to_string());
        pair
    });
    let mut metric = proto::Metric::default();
    metric.set_label(pairs.collect());
    series.fill(&mut metric);
    metric
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters() -> Family<Counter> {
        Family::new(Named { name: "t_total", help: "h", labels: &["pool", "origin"], bounds: &[] }).unwrap()
    }

    fn histogram(took: &[u64]) -> proto::Histogram {
        let histogram = Histogram::start(&[1_000, 10_000]);
        took.iter().for_each(|micros| histogram.observe(Duration::from_micros(*micros)));
        let mut metric = proto::Metric::default();
        histogram.fill(&mut metric);
        metric.get_histogram().clone()
    }

    #[test]
    fn label_values_that_read_alike_when_joined_are_two_series() {
        let family = counters();
        family.with(&["a", "bc"]).increment();
        assert_eq!(family.with(&["ab", "c"]).value(), 0);
        assert_eq!(family.collect()[0].get_metric().len(), 2);
    }

    #[test]
    fn the_same_label_values_are_one_series() {
        let family = counters();
        family.with(&["a", "b"]).add(2);
        assert_eq!(family.with(&["a", "b"]).value(), 2);
    }

    #[test]
    fn a_removed_series_is_shown_no_more_and_starts_anew() {
        let family = counters();
        family.with(&["a", "b"]).increment();
        family.remove(&["a", "b"]);
        assert!(family.collect()[0].get_metric().is_empty());
        assert_eq!(family.with(&["a", "b"]).value(), 0);
    }

    #[test]
    fn a_bound_belongs_to_its_own_bucket() {
        let shown = histogram(&[1_000, 1_001, 10_000, 10_001]);
        let counts: Vec<_> = shown.get_bucket().iter().map(|b| (b.upper_bound(), b.cumulative_count())).collect();
        assert_eq!(counts, [(0.001, 1), (0.01, 3)]);
        assert_eq!(shown.get_sample_count(), 4);
        assert!((shown.get_sample_sum() - 0.022_002).abs() < 1e-9);
    }

    #[test]
    fn a_gauge_shows_what_was_set_last() {
        let gauge = Gauge::start(&[]);
        gauge.set(0.25);
        assert!((gauge.value() - 0.25).abs() < f64::EPSILON);
        let level = Level::start(&[]);
        level.set(5);
        level.add(-2);
        assert_eq!(level.value(), 3);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counts_of_a_histogram_rise_and_sum_up(took in proptest::collection::vec(0u64..100_000_000, 0..200)) {
            let histogram = Histogram::start(&[100, 1_000, 50_000, 1_000_000]);
            took.iter().for_each(|micros| histogram.observe(Duration::from_micros(*micros)));
            let mut metric = proto::Metric::default();
            histogram.fill(&mut metric);
            let shown = metric.get_histogram();
            let counts: Vec<_> = shown.get_bucket().iter().map(|b| b.cumulative_count()).collect();
            prop_assert!(counts.is_sorted());
            prop_assert_eq!(shown.get_sample_count(), took.len() as u64);
            for bucket in shown.get_bucket() {
                let below = took.iter().filter(|m| **m as f64 / 1e6 <= bucket.upper_bound()).count();
                prop_assert_eq!(bucket.cumulative_count(), below as u64);
            }
        }
    }
}
