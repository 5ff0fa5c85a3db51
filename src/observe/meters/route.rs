//! Requests by route, pool, method and status; answer times by route.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::super::metrics::All;
use super::super::series::{Counter, Histogram};
use super::words::OTHER;

/// Methods with a label of their own; every other one is `other`.
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", OTHER];

/// Counts the requests of a route that go to one pool.
pub struct RouteMeters {
    all: Arc<All>,
    name: [Box<str>; 2],
    /// By method and hundred of the status: a page of a hundred counters, made when the first of them is needed.
    pages: Box<[OnceLock<Page>]>,
    times: Arc<RouteTimes>,
}

impl std::fmt::Debug for RouteMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RouteMeters").field(&self.name).finish()
    }
}

type Page = Box<[OnceLock<Counter>]>;

/// Hundreds of statuses with a page for each method: 1xx to 5xx, and one for what no status is.
const HUNDREDS: usize = 6;

impl RouteMeters {
    pub(in crate::observe) fn new(all: &Arc<All>, route: &str, pool: &str) -> Self {
        let times = all.times_by_route.get(route.into(), || RouteTimes::new(all, route));
        let pages = (0..METHODS.len() * HUNDREDS).map(|_| OnceLock::new()).collect();
        Self { all: Arc::clone(all), name: [route.into(), pool.into()], pages, times }
    }

    /// A request was answered.
    pub fn answered(&self, method: &str, code: u16, took: Duration) {
        let method = METHODS.iter().position(|known| *known == method).unwrap_or(METHODS.len() - 1);
        let (hundred, rest) = match code {
            100..=599 => (usize::from(code / 100), usize::from(code % 100)),
            _ => (0, 0),
        };
        if let Some(page) = self.pages.get(method * HUNDREDS + hundred) {
            let page = page.get_or_init(|| (0..100).map(|_| OnceLock::new()).collect());
            let counter = page.get(rest).map(|counter| counter.get_or_init(|| self.resolve(method, hundred, rest)));
            counter.into_iter().for_each(Counter::increment);
        }
        self.times.answers.get_or_init(|| self.all.request_duration.with(&[&self.times.route])).observe(took);
    }

    fn resolve(&self, method: usize, hundred: usize, rest: usize) -> Counter {
        let [route, pool] = &self.name;
        self.all.requests.with(&[route, pool, METHODS[method], &code_label(hundred, rest)])
    }
}

fn code_label(hundred: usize, rest: usize) -> String {
    if hundred == 0 { OTHER.into() } else { (hundred * 100 + rest).to_string() }
}

impl Drop for RouteMeters {
    fn drop(&mut self) {
        self.all.by_route.leave(&self.name, self, || {
            let [route, pool] = &self.name;
            self.all.requests.remove_under(&[route, pool]);
        });
    }
}

/// How long the answers of a route took, whatever pool they came from.
pub struct RouteTimes {
    all: Arc<All>,
    route: Box<str>,
    answers: OnceLock<Histogram>,
}

impl RouteTimes {
    fn new(all: &Arc<All>, route: &str) -> Self {
        Self { all: Arc::clone(all), route: route.into(), answers: OnceLock::new() }
    }
}

impl Drop for RouteTimes {
    fn drop(&mut self) {
        self.all.times_by_route.leave(&self.route, self, || self.all.request_duration.remove(&[&self.route]));
    }
}
