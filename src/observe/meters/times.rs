//! How long tries at an origin took, or at all origins of a great pool taken together.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::super::metrics::All;
use super::super::series::Histogram;

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
