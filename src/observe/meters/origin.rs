//! Tries, connections, probes and ejections of one origin, and what it is like now.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::super::metrics::All;
use super::super::series::{Gauge, Level};
use super::level;
use super::times::Times;
use super::words::{OTHER, Words};

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
    "deadline",
    "closed_early",
    "invalid_response",
    "client_gone",
    "client_timeout",
    "drain_timeout",
    "body_too_large",
    "bad_request",
    "local_limit",
    OTHER,
];

/// What a probe can find.
const PROBE_RESULTS: &[&str] = &["good", "overloaded", "bad", OTHER];

/// What an origin says of its own cache.
const CACHE_RESULTS: &[&str] = &["hit", "miss", OTHER];

/// What a connection to an origin was.
const CONNECTION_KINDS: &[&str] = &["opened", "reused"];

/// Counts the tries and probes at one origin.
pub struct OriginMeters {
    counts: Arc<Counts>,
    times: Arc<Times>,
}

/// What is counted of one origin, and what it is like: the series with its name.
pub(in crate::observe) struct Counts {
    all: Arc<All>,
    name: [Box<str>; 2],
    attempts: Words,
    connections: Words,
    probes: Words,
    cache: Words,
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
    /// The part of the circle it takes now.
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
    /// `times` may be shared by the whole pool.
    pub(in crate::observe) fn new(counts: Arc<Counts>, times: Arc<Times>) -> Self {
        Self { counts, times }
    }

    /// A try ended: `ok`, `status`, or an error class.
    pub fn attempted(&self, outcome: &'static str, took: Duration) {
        let Counts { all, name: [pool, origin], attempts, .. } = &*self.counts;
        attempts.increment(outcome, |outcome| all.attempts.with(&[pool, origin, outcome]));
        self.times.attempted(took);
    }

    /// A connection was opened for a try.
    pub fn opened(&self, took: Duration) {
        self.counts.connection("opened");
        self.times.connected(took);
    }

    /// A try took a connection that was there already.
    pub fn reused(&self) {
        self.counts.connection("reused");
    }

    /// It answered from its cache (`hit`), had to fetch (`miss`), or said something else.
    pub fn cached(&self, result: &'static str) {
        let Counts { all, name: [pool, origin], cache, .. } = &*self.counts;
        cache.increment(result, |result| all.origin_cache.with(&[pool, origin, result]));
    }

    /// A probe ended `good`, `overloaded` or `bad`.
    pub fn probed(&self, result: &'static str) {
        let Counts { all, name: [pool, origin], probes, .. } = &*self.counts;
        probes.increment(result, |result| all.probes.with(&[pool, origin, result]));
    }

    /// The origin was taken out; `reason` is a word of a short list.
    pub fn ejected(&self, reason: &'static str) {
        let Counts { all, name: [pool, origin], .. } = &*self.counts;
        all.ejections.with(&[pool, origin, reason]).increment();
    }

    /// Shows what was seen when somebody looked.
    pub fn show(&self, view: &OriginView) {
        let gauges = self.counts.gauges.get_or_init(|| OriginGauges::of(&self.counts.all, &self.counts.name));
        gauges.up.set(view.up.into());
        gauges.in_flight.set(level(view.in_flight));
        gauges.active.set(level(view.active));
        gauges.idle.set(level(view.idle));
        gauges.configured.set(view.weight);
        gauges.effective.set(view.effective);
        gauges.share.set(view.share);
    }
}

impl Counts {
    pub(in crate::observe) fn new(all: &Arc<All>, pool: &str, origin: &str) -> Self {
        Self {
            all: Arc::clone(all),
            name: [pool.into(), origin.into()],
            attempts: Words::new(OUTCOMES),
            connections: Words::new(CONNECTION_KINDS),
            probes: Words::new(PROBE_RESULTS),
            cache: Words::new(CACHE_RESULTS),
            gauges: OnceLock::new(),
        }
    }

    fn connection(&self, kind: &'static str) {
        let [pool, origin] = &self.name;
        self.connections.increment(kind, |kind| self.all.upstream_connections_total.with(&[pool, origin, kind]));
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

impl Drop for Counts {
    fn drop(&mut self) {
        let (all, [pool, origin]) = (&self.all, &self.name);
        all.by_origin.leave(&self.name, self, || {
            // Some were counted by another process, and not here.
            [&all.attempts, &all.upstream_connections_total, &all.probes, &all.origin_cache, &all.ejections]
                .iter()
                .for_each(|family| family.remove_under(&[pool, origin]));
            all.origin_up.remove(&[pool, origin]);
            all.in_flight.remove(&[pool, origin]);
            all.ring_share.remove(&[pool, origin]);
            ["active", "idle"].iter().for_each(|state| all.upstream_connections.remove(&[pool, origin, state]));
            ["configured", "effective"].iter().for_each(|kind| all.origin_weight.remove(&[pool, origin, kind]));
        });
    }
}
