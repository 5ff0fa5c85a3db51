//! How many tries failed within the last second?
//!
//! An origin that fails fast has little in flight, so that whoever goes by that alone sends it ever more; rule R5 counts
//! a failed try for one second more. Times are kept in slots of a tenth of a second: none is forgotten early, and none
//! kept for more than a tenth too long. No lock; the numbers order nothing else, hence `Relaxed`.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Length of a slot.
const SLOT: Duration = Duration::from_millis(100);
/// Slots that are looked back at besides the one under way: one second.
const SPAN: u64 = 10;
/// More than are looked at, and a power of two.
const SLOTS: usize = 16;
/// Bits of a slot that count; those above say which slot it is.
const COUNT: u32 = 24;

/// The failed tries of an origin.
#[derive(Debug)]
pub(super) struct Failures {
    begun: Instant,
    /// Number of the slot of the last one, and one more; 0 before the first: a pick that finds this old looks no further.
    latest: AtomicU64,
    slots: [AtomicU64; SLOTS],
}

impl Failures {
    pub(super) fn new(now: Instant) -> Self {
        Self { begun: now, latest: AtomicU64::new(0), slots: array::from_fn(|_| AtomicU64::new(0)) }
    }

    pub(super) fn record(&self, now: Instant) {
        let number = self.number(now);
        let one_more = |slot: u64| match (slot >> COUNT).cmp(&number) {
            std::cmp::Ordering::Less => Some(number << COUNT | 1),
            std::cmp::Ordering::Equal => Some(slot.saturating_add(1).min(number << COUNT | ((1 << COUNT) - 1))),
            // Whoever reports it was held up for so long that the slot is taken again.
            std::cmp::Ordering::Greater => None,
        };
        let _ = self.slot(number).fetch_update(Relaxed, Relaxed, one_more);
        self.latest.fetch_max(number + 1, Relaxed);
    }

    /// Those of the last second.
    pub(super) fn count(&self, now: Instant) -> usize {
        let (number, latest) = (self.number(now), self.latest.load(Relaxed));
        if latest == 0 || latest + SPAN <= number {
            return 0;
        }
        let recent = |slot: &AtomicU64| Some(slot.load(Relaxed)).filter(|slot| (slot >> COUNT) + SPAN >= number);
        let count: u64 = self.slots.iter().filter_map(recent).map(|slot| slot & ((1 << COUNT) - 1)).sum();
        usize::try_from(count).unwrap_or(usize::MAX)
    }

    fn number(&self, now: Instant) -> u64 {
        (now.saturating_duration_since(self.begun).as_millis() / SLOT.as_millis()) as u64
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.slots[number as usize % SLOTS]
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    #[test]
    fn nothing_failed_counts_nothing() {
        let now = Instant::now();
        let failures = Failures::new(now);
        assert_eq!((failures.count(now), failures.count(now + SLOT * 1000)), (0, 0));
    }

    #[test]
    fn a_failure_counts_for_a_second_and_hardly_longer() {
        let begun = Instant::now();
        for offset in [0, 37, 99, 100, 950, 123_456] {
            let (failures, at) = (Failures::new(begun), begun + Duration::from_millis(offset));
            failures.record(at);
            failures.record(at);
            let after = |ms| failures.count(at + Duration::from_millis(ms));
            assert_eq!([after(0), after(500), after(1000), after(1100)], [2, 2, 2, 0], "at {offset} ms");
        }
    }

    #[test]
    fn one_reported_late_is_not_lost_and_one_far_too_late_does_no_harm() {
        let begun = Instant::now();
        let failures = Failures::new(begun);
        failures.record(begun + Duration::from_secs(10));
        failures.record(begun + Duration::from_millis(9900));
        failures.record(begun + Duration::from_millis(8400));
        assert_eq!(failures.count(begun + Duration::from_secs(10)), 2);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn counted_are_all_of_the_last_second_and_none_older_than_one_and_a_tenth(
            pauses in proptest::collection::vec(0_u64..700, 1..200),
        ) {
            let begun = Instant::now();
            let (failures, mut at, mut times) = (Failures::new(begun), 0, Vec::new());
            for pause in pauses {
                at += pause;
                failures.record(begun + Duration::from_millis(at));
                times.push(at);
                let within = |ms| times.iter().filter(|time| **time + ms >= at).count();
                let count = failures.count(begun + Duration::from_millis(at));
                prop_assert!(within(1000) <= count && count <= within(1100), "{} at {}", count, at);
            }
        }
    }
}
