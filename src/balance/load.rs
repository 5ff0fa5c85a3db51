//! How busy is an origin? What the algorithms that go by load know of it, and what they keep of it between two picks.
//!
//! One `Load` an origin and process, whatever the number of shards and snapshots. Counts are atomics that order nothing
//! else, hence `Relaxed`; the average of answers has a lock, held for a few instructions; credit is written only under the
//! lock of the pool's [`Turns`](super::Turns).

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::ewma::Ewma;
use super::failures::Failures;
use crate::age::Age;

/// More attempts, or more credit, nobody has: sums of them stay sums.
const MOST: usize = u32::MAX as usize;
const CREDIT: i64 = 1 << 60;

/// What an origin is doing.
#[derive(Debug)]
pub struct Load {
    in_flight: AtomicUsize,
    /// Attempts of another process, as it told last.
    elsewhere: AtomicUsize,
    failures: Failures,
    credit: AtomicI64,
    latency: Mutex<Option<Ewma>>,
}

impl Load {
    /// Of an origin that is known from now on.
    pub fn new(now: Instant) -> Self {
        Self {
            in_flight: AtomicUsize::new(0),
            elsewhere: AtomicUsize::new(0),
            failures: Failures::new(now),
            credit: AtomicI64::new(0),
            latency: Mutex::new(None),
        }
    }

    /// Attempts under way: requests, or streams where several share a connection. Those of a process that is leaving count.
    pub fn in_flight(&self) -> usize {
        self.own().saturating_add(self.elsewhere.load(Relaxed))
    }

    /// Those of this process alone.
    pub fn own(&self) -> usize {
        self.in_flight.load(Relaxed)
    }

    /// So many are under way in a process that is leaving.
    pub fn tell_elsewhere(&self, attempts: usize) {
        self.elsewhere.store(attempts.min(MOST), Relaxed);
    }

    /// An attempt begins.
    pub fn enter(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    /// An attempt begins, unless `most` are under way; says whether it does. However many begin at once, there are never
    /// more.
    #[must_use]
    pub fn enter_below(&self, most: usize) -> bool {
        let most = most.saturating_sub(self.elsewhere.load(Relaxed));
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

    /// What is known of it, as seen `now`.
    pub fn export(&self, now: Instant) -> Carried {
        let latency = *self.latency.lock();
        let latency = latency.map(|average| average.retimed(|at| Age::of(at, now)));
        Carried { credit: self.credit.load(Relaxed), latency }
    }

    /// This is known, and nothing else.
    pub fn import(&self, carried: &Carried, now: Instant) {
        self.credit.store(carried.credit.clamp(-CREDIT, CREDIT), Relaxed);
        *self.latency.lock() = carried.latency.map(|average| average.retimed(|age: Age| age.at(now)));
    }

    pub(super) fn credit(&self) -> &AtomicI64 {
        &self.credit
    }
}

/// What a process tells the next of an origin: its turn, and how long it took to answer. Who failed within the last second
/// is soon known again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Carried {
    #[serde(default)]
    credit: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    latency: Option<Ewma<Age>>,
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

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    const DECAY: Duration = Duration::from_secs(10);

    #[test]
    fn what_is_under_way_elsewhere_counts_against_the_limit_and_is_taken_away_again() {
        let load = Load::new(Instant::now());
        load.tell_elsewhere(3);
        assert_eq!([(); 3].map(|()| load.enter_below(5)), [true, true, false]);
        assert_eq!((load.in_flight(), load.own()), (5, 2));
        load.tell_elsewhere(0);
        assert!(load.enter_below(5));
        assert_eq!(load.in_flight(), 3);
        assert!([(); 3].map(|()| load.leave()) == [false, false, true], "the last of ours");
    }

    #[test]
    fn another_process_knows_turn_and_time_as_they_were() {
        let (here, there) = (Instant::now(), Instant::now() + Duration::from_secs(4321));
        let load = Load::new(here);
        load.credit().store(-7, Relaxed);
        load.took(Duration::from_millis(800), DECAY, here);
        let seen = here + Duration::from_secs(3);
        let told = serde_json::to_string(&load.export(seen)).unwrap();
        let other = Load::new(there);
        other.import(&serde_json::from_str(&told).unwrap(), there);
        assert_eq!(other.credit().load(Relaxed), -7);
        let (was, is) = (load.latency(DECAY, seen).unwrap(), other.latency(DECAY, there).unwrap());
        assert!((was - is).abs() < 1e-6, "{was} {is}");
        assert_eq!(other.latency(DECAY, there + Duration::from_secs(7)), None);
    }
}
