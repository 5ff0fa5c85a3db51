//! How busy is an origin? What the algorithms that go by load know of it, and what they keep of it between two picks.
//!
//! One `Load` an origin and process, whatever the number of shards and snapshots. Counts are atomics that order nothing
//! else, hence `Relaxed`; the average of answers has a lock, held for a few instructions; credit is written only under the
//! lock of the pool's [`Turns`](super::Turns).

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::ewma::Ewma;
use super::failures::Failures;

/// What an origin is doing.
#[derive(Debug)]
pub struct Load {
    in_flight: AtomicUsize,
    failures: Failures,
    credit: AtomicI64,
    latency: Mutex<Option<Ewma>>,
}

impl Load {
    /// Of an origin that is known from now on.
    pub fn new(now: Instant) -> Self {
        Self {
            in_flight: AtomicUsize::new(0),
            failures: Failures::new(now),
            credit: AtomicI64::new(0),
            latency: Mutex::new(None),
        }
    }

    /// Attempts under way: requests, or streams where several share a connection.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    /// An attempt begins.
    pub fn enter(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// An attempt begins, unless `most` are under way; says whether it does. However many begin at once, there are never
    /// more.
    #[must_use]
    pub fn enter_below(&self, most: usize) -> bool {
        let one_more = |count: usize| (count < most).then_some(count.saturating_add(1));
        self.in_flight.fetch_update(Relaxed, Relaxed, one_more).is_ok()
    }

    /// An attempt is over; answers whether it was the last one. Before or after all that others do in one order
    /// (`SeqCst`), so that whoever waits for the last one misses none.
    pub fn leave(&self) -> bool {
        self.in_flight.fetch_sub(1, SeqCst) == 1
    }

    /// Attempts under way, and those that failed within the last second: rule R5.
    pub(super) fn weighed(&self, now: Instant) -> usize {
        self.in_flight().saturating_add(self.failures.count(now))
    }

    /// An attempt failed: it counts as under way for one second more.
    pub fn failed(&self, now: Instant) {
        self.failures.record(now);
    }

    pub(super) fn took(&self, sample: Duration, decay: Duration, now: Instant) {
        let mut latency = self.latency.lock();
        *latency = Some(latency.map_or(Ewma::first(sample, now), |average| average.with(sample, decay, now)));
    }

    /// Seconds to an answer; `None`: there was none for a while.
    pub(super) fn latency(&self, decay: Duration, now: Instant) -> Option<f64> {
        let latency = *self.latency.lock();
        latency.and_then(|average| average.read(decay, now))
    }

    pub(super) fn credit(&self) -> &AtomicI64 {
        &self.credit
    }
}

/// Loads of origins that do nothing yet.
#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
pub(super) fn loads(members: usize) -> Vec<Load> {
    let now = Instant::now();
    (0..members).map(|_| Load::new(now)).collect()
}

/// All of them as candidates.
#[cfg(test)]
pub(super) fn candidates<'l>(loads: &'l [Load], weights: &'l [u64]) -> impl Iterator<Item = super::Candidate<'l>> {
    let candidate =
        |(member, (load, weight)): (usize, (&'l Load, &u64))| super::Candidate { member, weight: *weight, load };
    loads.iter().zip(weights).enumerate().map(candidate)
}
