//! Copies of requests, by what became of them.

use std::sync::Arc;

use super::super::metrics::{All, Metrics};
use super::words::{OTHER, Words};

impl Metrics {
    /// The meters of copies of a route's requests that are meant for `pool`.
    pub fn mirror(&self, route: &str, pool: &str) -> Arc<MirrorMeters> {
        self.all().by_mirror.get([route.into(), pool.into()], || MirrorMeters::new(self.all(), route, pool))
    }
}

/// What can become of a copy.
const RESULTS: &[&str] = &["sent", "failed", "dropped", "too_large", "unfinished", OTHER];

/// Counts the copies of a route's requests that are meant for one pool.
pub struct MirrorMeters {
    all: Arc<All>,
    name: [Box<str>; 2],
    results: Words,
}

impl MirrorMeters {
    pub(in crate::observe) fn new(all: &Arc<All>, route: &str, pool: &str) -> Self {
        let results = Words::new(RESULTS);
        results.show(|result| all.mirrored.with(&[route, pool, result]));
        Self { all: Arc::clone(all), name: [route.into(), pool.into()], results }
    }

    /// A copy was `sent` (and answered), `failed`, was `dropped` for there were too many, was `too_large`, or its request
    /// was `unfinished`.
    pub fn mirrored(&self, result: &'static str) {
        let [route, pool] = &self.name;
        self.results.increment(result, |result| self.all.mirrored.with(&[route, pool, result]));
    }
}

impl Drop for MirrorMeters {
    fn drop(&mut self) {
        self.all.by_mirror.leave(&self.name, self, || {
            let [route, pool] = &self.name;
            self.all.mirrored.remove_under(&[route, pool]);
        });
    }
}
