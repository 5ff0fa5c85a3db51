//! Retries of a pool, and what its ring and origins are like now.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::metrics::All;
use super::level;
use super::words::{OTHER, Words};

/// What a further try can be for.
const RETRY_REASONS: &[&str] = &["connect", "stale", "reset", "timeout", "status", OTHER];

/// What can forbid a further try.
const SUPPRESSED_REASONS: &[&str] = &["budget", "tries", "within", "body", "method", "no_origin", OTHER];

/// What a question for the origins of a pool can come to.
const DNS_RESULTS: &[&str] = &["found", "empty", "no_name", "failed", OTHER];

/// Counts what concerns a pool as a whole.
pub struct PoolMeters {
    all: Arc<All>,
    name: Box<str>,
    retries: Words,
    suppressed: Words,
    dns: Words,
    shown: Mutex<Shown>,
}

/// Labels of gauges that were set and have to go again.
#[derive(Default)]
struct Shown {
    fingerprint: String,
    states: BTreeSet<&'static str>,
    away: BTreeSet<&'static str>,
}

/// What a pool is like at the moment it is looked at.
#[derive(Debug, Clone, Copy)]
pub struct PoolView<'a> {
    /// How many origins are in each state.
    pub states: &'a [(&'static str, usize)],
    /// Are more out than `min_healthy` allows, or is somebody in service that should not be?
    pub short: bool,
    /// The fingerprint of its ring.
    pub fingerprint: &'a str,
    /// The part of the circle that changed its owner by the last change.
    pub moved: f64,
    /// The part of the keys seen before and after it that did.
    pub observed: f64,
    /// The part of the recent keys that is away from its owner, by why.
    pub away: &'a [(&'static str, f64)],
}

impl PoolMeters {
    pub(in crate::observe) fn new(all: &Arc<All>, pool: &str) -> Self {
        let (retries, suppressed) = (Words::new(RETRY_REASONS), Words::new(SUPPRESSED_REASONS));
        retries.show(|reason| all.retries.with(&[pool, reason]));
        suppressed.show(|reason| all.retries_suppressed.with(&[pool, reason]));
        let dns = Words::new(DNS_RESULTS);
        Self { all: Arc::clone(all), name: pool.into(), retries, suppressed, dns, shown: Mutex::default() }
    }

    /// A further try is made, for `connect`, `stale`, `reset`, `timeout` or `status`.
    pub fn retried(&self, reason: &'static str) {
        self.retries.increment(reason, |reason| self.all.retries.with(&[&self.name, reason]));
    }

    /// A further try was forbidden, by `budget`, `tries`, `within`, `body`, `method` or `no_origin`.
    pub fn suppressed(&self, reason: &'static str) {
        self.suppressed.increment(reason, |reason| self.all.retries_suppressed.with(&[&self.name, reason]));
    }

    /// A question for its origins came to `found`, `empty`, `no_name` or `failed`.
    pub fn asked_dns(&self, result: &'static str) {
        self.dns.increment(result, |result| self.all.dns_answers.with(&[&self.name, result]));
    }

    /// Shows what was seen when somebody looked.
    pub fn show(&self, view: &PoolView<'_>) {
        let (all, pool) = (&self.all, &self.name);
        let (mut shown, generation) = (self.shown.lock(), all.generation());
        if shown.fingerprint != view.fingerprint {
            all.ring_info.remove(&[pool, &shown.fingerprint, &generation]);
            shown.fingerprint = view.fingerprint.into();
        }
        all.ring_info.with(&[pool, view.fingerprint, &generation]).set(1);
        for (state, count) in view.states {
            shown.states.insert(state);
            all.origins.with(&[pool, state]).set(level(*count));
        }
        all.pool_short.with(&[pool]).set(view.short.into());
        for (kind, moved) in [("planned", view.moved), ("observed", view.observed)] {
            all.keys_moved.with(&[pool, kind]).set(moved);
        }
        for (reason, ratio) in view.away {
            shown.away.insert(reason);
            all.keys_displaced.with(&[pool, reason]).set(*ratio);
        }
    }
}

impl Drop for PoolMeters {
    fn drop(&mut self) {
        let (all, pool) = (&self.all, &self.name);
        all.by_pool.leave(&self.name, self, || {
            let shown = self.shown.lock();
            [&all.retries, &all.retries_suppressed, &all.dns_answers]
                .iter()
                .for_each(|family| family.remove_under(&[pool]));
            shown.states.iter().for_each(|state| all.origins.remove(&[pool, state]));
            all.ring_info.remove(&[pool, &shown.fingerprint, &all.generation()]);
            all.pool_short.remove(&[pool]);
            ["planned", "observed"].iter().for_each(|kind| all.keys_moved.remove(&[pool, kind]));
            shown.away.iter().for_each(|reason| all.keys_displaced.remove(&[pool, reason]));
        });
    }
}
