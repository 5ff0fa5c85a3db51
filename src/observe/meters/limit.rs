//! Requests beyond one limit of a route.

use std::sync::{Arc, OnceLock};

use super::super::metrics::{All, Metrics};
use super::super::series::Counter;

impl Metrics {
    /// The meters of a limit of a route.
    pub fn limit(&self, route: &str, limit: &str) -> Arc<LimitMeters> {
        self.all().by_limit.get([route.into(), limit.into()], || LimitMeters::new(self.all(), route, limit))
    }

    /// The meters of a limit that is shared with other processes.
    pub fn shared_limit(&self, limit: &str) -> Arc<SharedMeters> {
        self.all().by_shared.get(limit.into(), || SharedMeters::new(self.all(), limit))
    }
}

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

/// Counts how often a limit that is shared with other processes was counted here alone.
pub struct SharedMeters {
    all: Arc<All>,
    limit: Box<str>,
    errors: OnceLock<Counter>,
}

impl SharedMeters {
    pub(in crate::observe) fn new(all: &Arc<All>, limit: &str) -> Self {
        Self { all: Arc::clone(all), limit: limit.into(), errors: OnceLock::new() }
    }

    /// Once more.
    pub fn unanswered(&self) {
        self.errors.get_or_init(|| self.all.shared_errors.with(&[&self.limit])).increment();
    }
}

impl Drop for SharedMeters {
    fn drop(&mut self) {
        self.all.by_shared.leave(&self.limit, self, || self.all.shared_errors.remove(&[&self.limit]));
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
