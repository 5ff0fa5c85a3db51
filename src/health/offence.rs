//! How long does an origin wait that was out before? Rule H4 and, for one that hangs behind a kernel that answers
//! probes, H2(c).
//!
//! The first time there is no wait, or ten seconds for a hang; each further time within ten minutes doubles it, up to
//! five minutes.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Offences further apart than this have nothing to do with each other.
const MEMORY: Duration = Duration::from_secs(600);
const LONGEST: Duration = Duration::from_secs(300);

/// What an origin did before.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Offences<T = Instant> {
    /// The wait for the first one.
    #[serde(skip)]
    first: Duration,
    /// The wait for the second one.
    #[serde(skip)]
    second: Duration,
    /// How many there were before the last one, each within [`MEMORY`] of the one before.
    before: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<T>,
}

impl<T> Default for Offences<T> {
    fn default() -> Self {
        Self { first: Duration::ZERO, second: Duration::ZERO, before: 0, last: None }
    }
}

impl<T> Offences<T> {
    /// Was there none?
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The same with other times.
    pub(super) fn retimed<U>(self, time: &impl Fn(T) -> U) -> Offences<U> {
        Offences { first: self.first, second: self.second, before: self.before, last: self.last.map(time) }
    }

    /// What was done, with the waits of these.
    pub(super) fn under<U>(self, waits: &Offences<U>) -> Self {
        Self { first: waits.first, second: waits.second, ..self }
    }
}

impl Offences {
    /// Ejections: none, 1 s, 2 s, 4 s …
    pub(super) const EJECTIONS: Self = Self::new(Duration::ZERO, Duration::from_secs(1));
    /// Hangs: 10 s, 20 s, 40 s …
    pub(super) const HANGS: Self = Self::new(Duration::from_secs(10), Duration::from_secs(20));

    const fn new(first: Duration, second: Duration) -> Self {
        Self { first, second, before: 0, last: None }
    }

    /// It happened again: answers when the wait is over.
    pub(super) fn again(&mut self, now: Instant) -> Instant {
        let soon = self.last.is_some_and(|last| now.saturating_duration_since(last) <= MEMORY);
        self.before = if soon { self.before.saturating_add(1) } else { 0 };
        self.last = Some(now);
        now + self.wait()
    }

    fn wait(&self) -> Duration {
        match self.before.checked_sub(1) {
            None => self.first,
            Some(doublings) => self.second.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST),
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let now = Instant::now();
        let waits = |mut offences: Offences| {
            (0..12).map(|_| offences.again(now).duration_since(now).as_secs()).collect::<Vec<_>>()
        };
        assert_eq!(waits(Offences::EJECTIONS), [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(waits(Offences::HANGS), [10, 20, 40, 80, 160, 300, 300, 300, 300, 300, 300, 300]);
    }

    #[test]
    fn ten_quiet_minutes_are_a_new_start() {
        let now = Instant::now();
        let mut offences = Offences::EJECTIONS;
        offences.again(now);
        offences.again(now);
        let later = now + MEMORY + Duration::from_millis(1);
        assert_eq!(offences.again(later), later);
    }
}
