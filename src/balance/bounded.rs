//! How much of a pool's load may one origin have? Rule R4: consistent hashing with bounded loads.
//!
//! A hot key fills its owner; above the cap further requests go on along the ring, to the same successor each time, so
//! that at most one origin more has to learn the key. A cap follows the load of the whole pool, and is never below
//! [`FLOOR`]: with a handful of requests in flight the difference between origins is chance. Always holds: as the factor is
//! above one, somebody is below its cap.

use super::Candidate;

/// No cap is lower.
pub const FLOOR: usize = 16;

/// The load of a pool at one moment, to be shared out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounded {
    factor: f64,
    in_flight: usize,
    weight: f64,
}

impl Bounded {
    /// Over all origins that may be used, with a factor above one.
    pub fn over<'l>(candidates: impl Iterator<Item = Candidate<'l>>, factor: f64) -> Self {
        let none = Self { factor, in_flight: 0, weight: 0.0 };
        candidates.fold(none, |sum, one| Self {
            in_flight: sum.in_flight.saturating_add(one.load.in_flight()),
            weight: sum.weight + one.weight as f64,
            ..sum
        })
    }

    /// How many may be in flight at an origin of this weight, in the unit of the others.
    pub fn cap(&self, weight: u64) -> usize {
        let share = if self.weight > 0.0 { weight as f64 / self.weight } else { 1.0 };
        ((self.factor * (self.in_flight as f64 + 1.0) * share).ceil() as usize).max(FLOOR)
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::{candidates, loads};
    use super::*;

    /// Caps of these weights with so many in flight in all.
    fn caps(factor: f64, in_flight: usize, weights: &[u64]) -> Vec<usize> {
        let loads = loads(weights.len());
        (0..in_flight).for_each(|_| loads[0].enter());
        let bounded = Bounded::over(candidates(&loads, weights), factor);
        weights.iter().map(|weight| bounded.cap(*weight)).collect()
    }

    #[test]
    fn a_cap_is_a_little_more_than_the_share_of_all_and_the_next_one() {
        assert_eq!(caps(1.25, 199, &[1, 1, 1, 1]), [63; 4]);
        assert_eq!(caps(2.0, 99, &[3, 1]), [150, 50]);
        assert_eq!(caps(1.5, 99, &[1 << 40, 3 << 40]), [38, 113]);
    }

    #[test]
    fn no_cap_is_below_sixteen() {
        assert_eq!(caps(1.25, 0, &[1, 1]), [16, 16]);
        assert_eq!(caps(1.25, 40, &[1, 100]), [16, 51]);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::super::load::{candidates, loads};
    use super::*;

    proptest! {
        #[test]
        fn somebody_is_always_below_its_cap(
            members in proptest::collection::vec((1_u64..1000, 0_usize..200), 1..30),
            factor in 1.0_f64..4.0,
        ) {
            let loads = loads(members.len());
            let weights: Vec<u64> = members.iter().map(|(weight, _)| *weight).collect();
            for (load, (_, count)) in loads.iter().zip(&members) {
                (0..*count).for_each(|_| load.enter());
            }
            let bounded = Bounded::over(candidates(&loads, &weights), factor);
            let below = |(weight, count): &(u64, usize)| *count < bounded.cap(*weight);
            prop_assert!(members.iter().any(below), "{:?} in {:?}", bounded, members);
        }
    }
}
