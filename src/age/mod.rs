//! How long ago was that? An instant means nothing to another process, so what one hands to the next says ages.
//!
//! An [`Age`] is put together with the clock of whoever reads it. Always holds: whatever stands in what was handed over,
//! the instants and durations it gives can be reckoned with, since none is more than [`LONGEST`] away.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Longer ago, or later, is taken for this: more than any rule remembers, and far from the end of any clock.
const LONGEST: Duration = Duration::from_secs(400 * 24 * 3600);

/// How long ago something was, in nanoseconds, so that nothing shrinks by being told; below zero: it is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Age(i64);

impl Age {
    /// Of something at this instant, seen from `now`.
    pub fn of(at: Instant, now: Instant) -> Self {
        match now.checked_duration_since(at) {
            Some(past) => Self(nanos(past)),
            None => Self(-nanos(at.saturating_duration_since(now))),
        }
    }

    /// When that was, or will be, seen from `now`.
    pub fn at(self, now: Instant) -> Instant {
        let distance = bounded(self.0.unsigned_abs());
        let at = if self.0 < 0 { now.checked_add(distance) } else { now.checked_sub(distance) };
        at.unwrap_or(now)
    }
}

fn nanos(length: Duration) -> i64 {
    i64::try_from(length.min(LONGEST).as_nanos()).unwrap_or(i64::MAX)
}

fn bounded(nanos: u64) -> Duration {
    Duration::from_nanos(nanos).min(LONGEST)
}

/// How a duration is handed over: in nanoseconds.
pub mod length {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// As a number of nanoseconds.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(length: &Duration, to: S) -> Result<S::Ok, S::Error> {
        super::nanos(*length).serialize(to)
    }

    /// From a number of nanoseconds.
    ///
    /// # Errors
    /// It is no such number.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(super::bounded)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_instant_is_as_far_away_on_another_clock(nanos in -1_000_000_000_000_000_i64..1_000_000_000_000_000) {
            let (one, other) = (Instant::now(), Instant::now() + Duration::from_secs(12_345));
            let age = Age(nanos);
            prop_assert_eq!(Age::of(age.at(one), one), age);
            prop_assert_eq!(Age::of(age.at(other), other), age);
        }

        #[test]
        fn no_number_is_too_great_for_the_clock(nanos in any::<i64>(), length in any::<u64>()) {
            let now = Instant::now();
            let at = Age(nanos).at(now);
            prop_assert_eq!(at < now, nanos > 0);
            prop_assert_eq!(at > now, nanos < 0);
            prop_assert!(now + bounded(length) >= now && now.checked_sub(bounded(length)).is_some());
        }
    }
}
