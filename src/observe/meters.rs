//! What a snapshot holds to count with: series of one route, pool, origin or listener, resolved at first use.
//!
//! On the way of a request counting is an index and a relaxed addition: no hashing of labels, no lock, and an
//! allocation only the very first time a series is touched. Dropping meters takes their series out of what is shown.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use super::metrics::All;
use super::series::{Counter, Gauge, Histogram, Level};

/// Methods with a label of their own; every other one is `other`.
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", OTHER];

/// How a try can end, the frequent first; the error classes are those of the access log.
const OUTCOMES: &[&str] = &[
    "ok",
    "status",
    "connect_refused",
    "connect_timeout",
    "tls_failed",
    "stale",
    "reset",
    "response_timeout",
    "closed_early",
    "invalid_response",
    "client_gone",
    "client_timeout",
    "body_too_large",
    "bad_request",
    "local_limit",
    OTHER,
];

/// What a further try can be for.
const RETRY_REASONS: &[&str] = &["connect", "stale", "reset", "timeout", "status", OTHER];

/// What can forbid a further try.
const SUPPRESSED_REASONS: &[&str] = &["budget", "tries", "within", "body", "method", "no_origin", OTHER];

/// What a probe can find.
const PROBE_RESULTS: &[&str] = &["good", "overloaded", "bad", OTHER];

/// What a connection to an origin was.
const CONNECTION_KINDS: &[&str] = &["opened", "reused"];

/// Stands for every word that is in no list.
const OTHER: &str = "other";

/// Counters of one family by the word in its last label, resolved at first use.
struct Words {
    words: &'static [&'static str],
    counters: Box<[OnceLock<Counter>]>,
}

impl Words {
    fn new(words: &'static [&'static str]) -> Self {
        Self { words, counters: words.iter().map(|_| OnceLock::new()).collect() }
    }

    /// The counter of `word`, of the last word of the list when it is not in it.
    fn increment(&self, word: &str, resolve: impl FnOnce(&'static str) -> Counter) {
        let index = self.words.iter().position(|known| *known == word).unwrap_or(self.words.len() - 1);
        if let (Some(counter), Some(word)) = (self.counters.get(index), self.words.get(index)) {
            counter.get_or_init(|| resolve(word)).increment();
        }
    }

    fn used(&self) -> impl Iterator<Item = &'static str> {
        self.words.iter().zip(&self.counters).filter(|(_, counter)| counter.get().is_some()).map(|(word, _)| *word)
    }
}

/// Counts the requests of a route that go to one pool.
pub struct RouteMeters {
    all: Arc<All>,
    name: [Box<str>; 2],
    /// By method and hundred of the status: a page of a hundred counters, made when the first of them is needed.
    pages: Box<[OnceLock<Page>]>,
    times: Arc<RouteTimes>,
}

type Page = Box<[OnceLock<Counter>]>;

/// Hundreds of statuses with a page for each method: 1xx to 5xx, and one for what no status is.
const HUNDREDS: usize = 6;

impl RouteMeters {
    pub(super) fn new(all: &Arc<All>, route: &str, pool: &str) -> Self {
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

    /// Method, hundred and rest of every counter in use.
    fn used(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let pages = self.pages.iter().enumerate().filter_map(|(index, page)| Some((index, page.get()?)));
        pages.flat_map(|(index, page)| {
            let used = page.iter().enumerate().filter(|(_, counter)| counter.get().is_some());
            used.map(move |(rest, _)| (index / HUNDREDS, index % HUNDREDS, rest))
        })
    }
}

fn code_label(hundred: usize, rest: usize) -> String {
    if hundred == 0 { OTHER.into() } else { (hundred * 100 + rest).to_string() }
}

impl Drop for RouteMeters {
    fn drop(&mut self) {
        self.all.by_route.leave(&self.name, self, || {
            let [route, pool] = &self.name;
            for (method, hundred, rest) in self.used() {
                self.all.requests.remove(&[route, pool, METHODS[method], &code_label(hundred, rest)]);
            }
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

/// Counts the tries and probes at one origin.
pub struct OriginMeters {
    all: Arc<All>,
    name: [Box<str>; 2],
    attempts: Words,
    connections: Words,
    probes: Words,
    ejections: Mutex<BTreeSet<&'static str>>,
    attempt_duration: OnceLock<Histogram>,
    connect_duration: OnceLock<Histogram>,
    gauges: OnceLock<OriginGauges>,
}

/// What an origin is like at the moment it is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct OriginView {
    /// May it get requests?
    pub up: bool,
    /// Requests it is working on.
    pub in_flight: usize,
    /// Connections to it with a request on them.
    pub active: usize,
    /// Connections to it that wait for one.
    pub idle: usize,
    /// Its weight in the file.
    pub weight: f64,
    /// Its weight at work.
    pub effective: f64,
    /// The part of the circle it owns.
    pub share: f64,
}

struct OriginGauges {
    up: Level,
    in_flight: Level,
    active: Level,
    idle: Level,
    configured: Gauge,
    effective: Gauge,
    share: Gauge,
}

impl OriginMeters {
    pub(super) fn new(all: &Arc<All>, pool: &str, origin: &str) -> Self {
        Self {
            all: Arc::clone(all),
            name: [pool.into(), origin.into()],
            attempts: Words::new(OUTCOMES),
            connections: Words::new(CONNECTION_KINDS),
            probes: Words::new(PROBE_RESULTS),
            ejections: Mutex::default(),
            attempt_duration: OnceLock::new(),
            connect_duration: OnceLock::new(),
            gauges: OnceLock::new(),
        }
    }

    /// A try ended: `ok`, `status`, or an error class.
    pub fn attempted(&self, outcome: &'static str, took: Duration) {
        let [pool, origin] = &self.name;
        self.attempts.increment(outcome, |outcome| self.all.attempts.with(&[pool, origin, outcome]));
        self.attempt_duration.get_or_init(|| self.all.attempt_duration.with(&[pool, origin])).observe(took);
    }

    /// A connection was opened for a try.
    pub fn opened(&self, took: Duration) {
        let [pool, origin] = &self.name;
        self.connection("opened");
        self.connect_duration.get_or_init(|| self.all.connect_duration.with(&[pool, origin])).observe(took);
    }

    /// A try took a connection that was there already.
    pub fn reused(&self) {
        self.connection("reused");
    }

    fn connection(&self, kind: &'static str) {
        let [pool, origin] = &self.name;
        self.connections.increment(kind, |kind| self.all.upstream_connections_total.with(&[pool, origin, kind]));
    }

    /// A probe ended `good`, `overloaded` or `bad`.
    pub fn probed(&self, result: &'static str) {
        let [pool, origin] = &self.name;
        self.probes.increment(result, |result| self.all.probes.with(&[pool, origin, result]));
    }

    /// The origin was taken out; `reason` is a word of a short list.
    pub fn ejected(&self, reason: &'static str) {
        let [pool, origin] = &self.name;
        self.ejections.lock().insert(reason);
        self.all.ejections.with(&[pool, origin, reason]).increment();
    }

    /// Shows what was seen when somebody looked.
    pub fn show(&self, view: &OriginView) {
        let gauges = self.gauges.get_or_init(|| OriginGauges::of(&self.all, &self.name));
        gauges.up.set(view.up.into());
        gauges.in_flight.set(level(view.in_flight));
        gauges.active.set(level(view.active));
        gauges.idle.set(level(view.idle));
        gauges.configured.set(view.weight);
        gauges.effective.set(view.effective);
        gauges.share.set(view.share);
    }
}

impl OriginGauges {
    fn of(all: &All, [pool, origin]: &[Box<str>; 2]) -> Self {
        Self {
            up: all.origin_up.with(&[pool, origin]),
            in_flight: all.in_flight.with(&[pool, origin]),
            active: all.upstream_connections.with(&[pool, origin, "active"]),
            idle: all.upstream_connections.with(&[pool, origin, "idle"]),
            configured: all.origin_weight.with(&[pool, origin, "configured"]),
            effective: all.origin_weight.with(&[pool, origin, "effective"]),
            share: all.ring_share.with(&[pool, origin]),
        }
    }
}

fn level(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Drop for OriginMeters {
    fn drop(&mut self) {
        let (all, [pool, origin]) = (&self.all, &self.name);
        all.by_origin.leave(&self.name, self, || {
            self.attempts.used().for_each(|outcome| all.attempts.remove(&[pool, origin, outcome]));
            self.connections.used().for_each(|kind| all.upstream_connections_total.remove(&[pool, origin, kind]));
            self.probes.used().for_each(|result| all.probes.remove(&[pool, origin, result]));
            self.ejections.lock().iter().for_each(|reason| all.ejections.remove(&[pool, origin, reason]));
            all.attempt_duration.remove(&[pool, origin]);
            all.connect_duration.remove(&[pool, origin]);
            all.origin_up.remove(&[pool, origin]);
            all.in_flight.remove(&[pool, origin]);
            all.ring_share.remove(&[pool, origin]);
            ["active", "idle"].iter().for_each(|state| all.upstream_connections.remove(&[pool, origin, state]));
            ["configured", "effective"].iter().for_each(|kind| all.origin_weight.remove(&[pool, origin, kind]));
        });
    }
}

/// Counts what concerns a pool as a whole.
pub struct PoolMeters {
    all: Arc<All>,
    name: Box<str>,
    retries: Words,
    suppressed: Words,
    shown: Mutex<Shown>,
}

/// Labels of gauges that were set and have to go again.
#[derive(Default)]
struct Shown {
    fingerprint: String,
    states: BTreeSet<&'static str>,
}

/// What a pool is like at the moment it is looked at.
#[derive(Debug, Clone, Copy)]
pub struct PoolView<'a> {
    /// How many origins are in each state.
    pub states: &'a [(&'static str, usize)],
    /// Is the floor at work, or nobody up?
    pub short: bool,
    /// The fingerprint of its ring.
    pub fingerprint: &'a str,
    /// The part of the circle that changed its owner by the last change.
    pub moved: f64,
}

impl PoolMeters {
    pub(super) fn new(all: &Arc<All>, pool: &str) -> Self {
        Self {
            all: Arc::clone(all),
            name: pool.into(),
            retries: Words::new(RETRY_REASONS),
            suppressed: Words::new(SUPPRESSED_REASONS),
            shown: Mutex::default(),
        }
    }

    /// A further try is made, for `connect`, `stale`, `reset`, `timeout` or `status`.
    pub fn retried(&self, reason: &'static str) {
        self.retries.increment(reason, |reason| self.all.retries.with(&[&self.name, reason]));
    }

    /// A further try was forbidden, by `budget`, `tries`, `within`, `body`, `method` or `no_origin`.
    pub fn suppressed(&self, reason: &'static str) {
        self.suppressed.increment(reason, |reason| self.all.retries_suppressed.with(&[&self.name, reason]));
    }

    /// Shows what was seen when somebody looked.
    pub fn show(&self, view: &PoolView<'_>) {
        let (all, pool) = (&self.all, &self.name);
        let mut shown = self.shown.lock();
        if shown.fingerprint != view.fingerprint {
            all.ring_info.remove(&[pool, &shown.fingerprint, GENERATION]);
            shown.fingerprint = view.fingerprint.into();
        }
        all.ring_info.with(&[pool, view.fingerprint, GENERATION]).set(1);
        for (state, count) in view.states {
            shown.states.insert(state);
            all.origins.with(&[pool, state]).set(level(*count));
        }
        all.pool_short.with(&[pool]).set(view.short.into());
        all.keys_moved.with(&[pool, "planned"]).set(view.moved);
    }
}

/// One process so far, and no upgrade.
const GENERATION: &str = "1";

impl Drop for PoolMeters {
    fn drop(&mut self) {
        let (all, pool) = (&self.all, &self.name);
        all.by_pool.leave(&self.name, self, || {
            let shown = self.shown.lock();
            self.retries.used().for_each(|reason| all.retries.remove(&[pool, reason]));
            self.suppressed.used().for_each(|reason| all.retries_suppressed.remove(&[pool, reason]));
            shown.states.iter().for_each(|state| all.origins.remove(&[pool, state]));
            all.ring_info.remove(&[pool, &shown.fingerprint, GENERATION]);
            all.pool_short.remove(&[pool]);
            all.keys_moved.remove(&[pool, "planned"]);
        });
    }
}

/// Counts the client connections of one listener.
pub struct ListenerMeters {
    all: Arc<All>,
    address: Box<str>,
    open: Level,
}

impl ListenerMeters {
    pub(super) fn new(all: &Arc<All>, address: &str) -> Self {
        Self { all: Arc::clone(all), address: address.into(), open: all.connections.with(&[address]) }
    }

    /// Counts a connection for as long as the answer lives.
    pub fn connection(&self) -> ConnectionOpen {
        self.open.add(1);
        ConnectionOpen(self.open.clone())
    }
}

impl Drop for ListenerMeters {
    fn drop(&mut self) {
        self.all.by_listener.leave(&self.address, self, || self.all.connections.remove(&[&self.address]));
    }
}

/// A client connection that is open.
#[derive(Debug)]
#[must_use = "the connection counts as open until this is dropped"]
pub struct ConnectionOpen(Level);

impl Drop for ConnectionOpen {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn metrics() -> Metrics {
        Metrics::new().unwrap()
    }

    fn lines(metrics: &Metrics, holding: &str) -> Vec<String> {
        let text = metrics.encode().unwrap();
        text.lines().filter(|line| line.contains(holding) && !line.starts_with('#')).map(String::from).collect()
    }

    #[test]
    fn requests_are_counted_by_route_pool_method_and_code() {
        let metrics = metrics();
        let route = metrics.route("api", Some("origin"));
        route.answered("GET", 200, MS);
        route.answered("GET", 200, MS);
        route.answered("BREW", 418, MS);
        route.answered("GET", 799, MS);
        let shown = lines(&metrics, "moorgate_requests_total");
        assert_eq!(
            shown,
            [
                "moorgate_requests_total{route=\"api\",pool=\"origin\",method=\"GET\",code=\"200\"} 2",
                "moorgate_requests_total{route=\"api\",pool=\"origin\",method=\"GET\",code=\"other\"} 1",
                "moorgate_requests_total{route=\"api\",pool=\"origin\",method=\"other\",code=\"418\"} 1",
            ]
        );
        assert_eq!(
            lines(&metrics, "moorgate_request_duration_seconds_count{route=\"api\"}")[0].split(' ').next_back(),
            Some("4")
        );
    }

    #[test]
    fn a_request_without_a_route_has_dashes_for_names() {
        let metrics = metrics();
        metrics.unrouted().answered("GET", 404, MS);
        let kept = metrics.unrouted();
        kept.answered("GET", 404, MS);
        assert_eq!(
            lines(&metrics, "moorgate_requests_total"),
            ["moorgate_requests_total{route=\"-\",pool=\"-\",method=\"GET\",code=\"404\"} 1"]
        );
    }

    #[test]
    fn series_of_a_departed_origin_go() {
        let metrics = metrics();
        let (gone, stays) = (metrics.origin("p", "gone"), metrics.origin("p", "stays"));
        for origin in [&gone, &stays] {
            origin.attempted("ok", MS);
            origin.opened(MS);
            origin.reused();
            origin.probed("good");
            origin.ejected("refused");
            origin.show(&OriginView { up: true, ..OriginView::default() });
        }
        assert!(!lines(&metrics, "gone").is_empty());
        drop(gone);
        assert_eq!(lines(&metrics, "gone"), [""; 0]);
        assert_eq!(
            lines(&metrics, "moorgate_attempts_total"),
            ["moorgate_attempts_total{pool=\"p\",origin=\"stays\",outcome=\"ok\"} 1"]
        );
    }

    #[test]
    fn series_held_by_a_newer_snapshot_stay() {
        let metrics = metrics();
        let old = metrics.origin("p", "a");
        old.attempted("ok", MS);
        let new = metrics.origin("p", "a");
        drop(old);
        new.attempted("ok", MS);
        assert_eq!(
            lines(&metrics, "moorgate_attempts_total"),
            ["moorgate_attempts_total{pool=\"p\",origin=\"a\",outcome=\"ok\"} 2"]
        );
    }

    #[test]
    fn a_route_that_goes_to_another_pool_keeps_its_times() {
        let metrics = metrics();
        let old = metrics.route("r", Some("a"));
        old.answered("GET", 200, MS);
        let new = metrics.route("r", Some("b"));
        new.answered("GET", 200, MS);
        drop(old);
        assert_eq!(lines(&metrics, "moorgate_requests_total").len(), 1);
        assert_eq!(
            lines(&metrics, "_seconds_count{route=\"r\"}"),
            ["moorgate_request_duration_seconds_count{route=\"r\"} 2"]
        );
        drop(new);
        assert_eq!(lines(&metrics, "route=\"r\""), [""; 0]);
    }

    #[test]
    fn an_unknown_outcome_is_other() {
        let metrics = metrics();
        let origin = metrics.origin("p", "a");
        origin.attempted("on fire", MS);
        assert_eq!(
            lines(&metrics, "moorgate_attempts_total"),
            ["moorgate_attempts_total{pool=\"p\",origin=\"a\",outcome=\"other\"} 1"]
        );
    }

    #[test]
    fn a_pool_shows_one_fingerprint_and_leaves_nothing() {
        let metrics = metrics();
        let pool = metrics.pool("p");
        pool.retried("connect");
        pool.suppressed("budget");
        let states = [("up", 2), ("down", 1)];
        pool.show(&PoolView { states: &states, short: false, fingerprint: "aa", moved: 0.0 });
        pool.show(&PoolView { states: &states, short: true, fingerprint: "bb", moved: 0.25 });
        assert_eq!(
            lines(&metrics, "ring_info"),
            ["moorgate_ring_info{pool=\"p\",fingerprint=\"bb\",generation=\"1\"} 1"]
        );
        assert_eq!(lines(&metrics, "moorgate_pool_short"), ["moorgate_pool_short{pool=\"p\"} 1"]);
        assert_eq!(lines(&metrics, "keys_moved"), ["moorgate_keys_moved_ratio{pool=\"p\",kind=\"planned\"} 0.25"]);
        drop(pool);
        assert_eq!(lines(&metrics, "pool=\"p\""), [""; 0]);
    }

    #[test]
    fn a_connection_counts_while_it_is_open() {
        let metrics = metrics();
        let listener = metrics.listener("0.0.0.0:80");
        let open = listener.connection();
        assert_eq!(lines(&metrics, "moorgate_connections"), ["moorgate_connections{listener=\"0.0.0.0:80\"} 1"]);
        drop(open);
        assert_eq!(lines(&metrics, "moorgate_connections"), ["moorgate_connections{listener=\"0.0.0.0:80\"} 0"]);
        drop(listener);
        assert_eq!(lines(&metrics, "moorgate_connections"), [""; 0]);
    }
}
