//! How long tries at an origin took, or at all origins of a great pool taken together.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::super::metrics::All;
use super::super::series::Histogram;

/// Upper bounds of answer times in microseconds.
pub(in crate::observe) const ANSWERS: &[u64] = &[
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000,
];

/// Upper bounds of connect times in microseconds.
pub(in crate::observe) const CONNECTS: &[u64] =
    &[100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000];

/// The histograms of one origin, or of one pool.
pub(in crate::observe) struct Times {
    all: Arc<All>,
    /// Pool and origin, as they are labelled.
    name: [Box<str>; 2],
    attempts: OnceLock<Histogram>,
    connects: OnceLock<Histogram>,
}

impl Times {
    pub(in crate::observe) fn new(all: &Arc<All>, pool: &str, origin: &str) -> Self {
        let name = [pool.into(), origin.into()];
        Self { all: Arc::clone(all), name, attempts: OnceLock::new(), connects: OnceLock::new() }
    }

    /// A try took so long.
    pub(super) fn attempted(&self, took: Duration) {
        let [pool, origin] = &self.name;
        self.attempts.get_or_init(|| self.all.attempt_duration.with(&[pool, origin])).observe(took);
    }

    /// A connection took so long.
    pub(super) fn connected(&self, took: Duration) {
        let [pool, origin] = &self.name;
        self.connects.get_or_init(|| self.all.connect_duration.with(&[pool, origin])).observe(took);
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        let (all, [pool, origin]) = (&self.all, &self.name);
        all.times_by_origin.leave(&self.name, self, || {
            all.attempt_duration.remove(&[pool, origin]);
            all.connect_duration.remove(&[pool, origin]);
        });
    }
}
