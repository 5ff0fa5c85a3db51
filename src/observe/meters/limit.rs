//! Requests beyond one limit of a route.

use std::sync::{Arc, OnceLock};

use super::super::metrics::All;
use super::super::series::Counter;

/// Counts the requests that one limit of a route turned away, or would have.
pub struct LimitMeters {
    all: Arc<All>,
    name: [Box<str>; 2],
    limited: OnceLock<Counter>,
}

impl LimitMeters {
    pub(in crate::observe) fn new(all: &Arc<All>, route: &str, limit: &str) -> Self {
        Self { all: Arc::clone(all), name: [route.into(), limit.into()], limited: OnceLock::new() }
    }

    /// One more.
    pub fn limited(&self) {
        let [route, limit] = &self.name;
        self.limited.get_or_init(|| self.all.limited.with(&[route, limit])).increment();
    }
}

impl Drop for LimitMeters {
    fn drop(&mut self) {
        self.all.by_limit.leave(&self.name, self, || {
            let [route, limit] = &self.name;
            self.all.limited.remove(&[route, limit]);
        });
    }
}
