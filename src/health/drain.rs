//! How does an origin give its share up? Rule J5: in a straight line over time, or at once, and it gets no part back
//! while it is drained.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// A drain under way, or over.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Drain<T = Instant> {
    part: f64,
    at: T,
    began: T,
}

impl<T> Drain<T> {
    /// The same with other times.
    pub(super) fn retimed<U>(self, time: &impl Fn(T) -> U) -> Drain<U> {
        Drain { part: self.part.clamp(0.0, 1.0), at: time(self.at), began: time(self.began) }
    }
}

impl Drain {
    /// It has all of its share yet.
    pub(super) fn begin(now: Instant) -> Self {
        Self { part: 1.0, at: now, began: now }
    }

    /// It has nothing from the start.
    pub(super) fn done(now: Instant) -> Self {
        Self { part: 0.0, ..Self::begin(now) }
    }

    /// The part that is left.
    pub(super) fn part(&self) -> f64 {
        self.part
    }

    /// Is nothing left?
    pub(super) fn is_over(&self) -> bool {
        self.part <= 0.0
    }

    /// Since when it is drained.
    pub(super) fn since(&self) -> Instant {
        self.began
    }

    /// Time passed; all of a share takes `over`.
    pub(super) fn go_on(&mut self, over: Duration, now: Instant) {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.at = self.at.max(now);
        self.part = if over.is_zero() { 0.0 } else { (self.part - passed / over.as_secs_f64()).max(0.0) };
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    #[test]
    fn share_goes_in_a_straight_line_and_never_comes_back() {
        let (start, over) = (Instant::now(), Duration::from_secs(10));
        let mut drain = Drain::begin(start);
        let mut part = |seconds, over| {
            drain.go_on(over, start + Duration::from_secs(seconds));
            (drain.part() * 100.0).round()
        };
        assert_eq!([part(0, over), part(3, over), part(5, over)], [100.0, 70.0, 50.0]);
        assert_eq!(part(6, over * 10), 49.0, "a reload gave it more time from here on");
        assert_eq!([part(7, Duration::ZERO), part(8, over)], [0.0, 0.0]);
    }

    #[test]
    fn nothing_is_left_of_one_that_was_always_drained() {
        let drain = Drain::done(Instant::now());
        assert!(drain.is_over() && drain.part() == 0.0);
    }
}
