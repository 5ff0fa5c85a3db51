//! How does one origin come into its share? Rules J1 and J2: in a straight line over time, standing still while it is
//! held.
//!
//! Pure: time is an argument. A newcomer begins with a first part, an origin that was out with what its outage left of
//! the part it had. Always holds: while the origin is in service its part never shrinks, and after its time it is all.

use std::ops::Not;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Held;
use super::policy::SlowStart;
use crate::age::length;

/// How far an origin came into its share.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Ramp<T = Instant> {
    /// `None`: it has all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    growth: Option<Growth<T>>,
    /// It never had all of it yet.
    #[serde(default, skip_serializing_if = "Not::not")]
    newcomer: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    away: Option<Away<T>>,
}

/// Growth from a first part of the share to all of it.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Growth<T = Instant> {
    first: f64,
    /// From the first part to all.
    #[serde(with = "length")]
    length: Duration,
    /// Of that, the time that was not held.
    #[serde(with = "length")]
    grown: Duration,
    /// How long it was held for a reason that wears off.
    #[serde(with = "length")]
    waited: Duration,
    /// How long it may be at most.
    #[serde(with = "length")]
    most: Duration,
    /// When it was looked at last.
    at: T,
    began: T,
}

/// What an origin had when it went out of service.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Away<T = Instant> {
    since: T,
    part: f64,
    /// Until it would have had all.
    #[serde(with = "length")]
    left: Duration,
}

impl<T> Default for Ramp<T> {
    fn default() -> Self {
        Self { growth: None, newcomer: false, away: None }
    }
}

impl<T> Ramp<T> {
    /// Has it all of its share, and was it not away?
    pub(super) fn is_done(&self) -> bool {
        self.growth.is_none() && self.away.is_none() && !self.newcomer
    }

    /// The same with other times.
    pub(super) fn retimed<U>(self, time: &impl Fn(T) -> U) -> Ramp<U> {
        Ramp {
            growth: self.growth.filter(|growth| !growth.length.is_zero()).map(|growth| growth.retimed(time)),
            newcomer: self.newcomer,
            away: self.away.map(|away| Away { since: time(away.since), part: unit(away.part), left: away.left }),
        }
    }
}

impl<T> Growth<T> {
    fn retimed<U>(self, time: &impl Fn(T) -> U) -> Growth<U> {
        let Self { first, length, grown, waited, most, at, began } = self;
        Growth { first: unit(first), length, grown, waited, most, at: time(at), began: time(began) }
    }
}

fn unit(part: f64) -> f64 {
    part.clamp(0.0, 1.0)
}

impl Ramp {
    /// The part of the share it may take.
    pub(super) fn part(&self) -> f64 {
        self.growth.map_or(1.0, |growth| growth.part())
    }

    /// How long until that is all, if nothing holds it.
    pub(super) fn left(&self) -> Duration {
        self.growth.map_or(Duration::ZERO, |growth| growth.length.saturating_sub(growth.grown))
    }

    /// Since when it grows; `None`: it does not.
    pub(super) fn since(&self) -> Option<Instant> {
        self.growth.map(|growth| growth.began)
    }

    /// Does it grow for the first time?
    pub(super) fn is_newcomer(&self) -> bool {
        self.newcomer && self.growth.is_some()
    }

    /// It takes requests for the first time.
    pub(super) fn join(&mut self, slow: &SlowStart, now: Instant) {
        *self = Self { growth: Growth::begin(slow.from, slow.window, slow, now), newcomer: true, away: None };
    }

    /// It went out of service.
    pub(super) fn leave(&mut self, now: Instant) {
        self.away = Some(Away { since: now, part: self.part(), left: self.left() });
        self.growth = None;
    }

    /// It is in service again; with all of its share if there is no `slow` start for it.
    pub(super) fn come_back(&mut self, slow: Option<&SlowStart>, now: Instant) {
        let Some(Away { since, part, left }) = self.away.take() else { return };
        let Some(slow) = slow else { return self.finish() };
        let outage = now.saturating_duration_since(since);
        let lost = outage.as_secs_f64() / slow.window.as_secs_f64();
        let length = left.saturating_add(outage).min(slow.window);
        self.growth = Growth::begin((part - lost).max(slow.from), length, slow, now);
    }

    /// It serves again after it gave its share up from `since` on, and has this part of it left.
    pub(super) fn resume(&mut self, since: Instant, left: f64, slow: Option<&SlowStart>, now: Instant) {
        if let Some(away) = &mut self.away {
            away.since = away.since.min(since);
            return;
        }
        let had = self.part() * left;
        self.away = Some(Away { since, part: self.part(), left: self.left() });
        self.come_back(slow, now);
        if let Some(growth) = &mut self.growth {
            growth.first = growth.first.max(had);
        }
    }

    /// Was it held for so long that a reason that wears off holds it no more?
    pub(super) fn was_held_out(&self) -> bool {
        self.growth.is_some_and(|growth| growth.waited >= growth.most)
    }

    /// Time passed, held or not.
    pub(super) fn go_on(&mut self, slow: Option<&SlowStart>, held: Option<Held>, now: Instant) {
        let Some(growth) = &mut self.growth else { return };
        let Some(slow) = slow else { return self.finish() };
        growth.shorten(slow.window);
        let passed = now.saturating_duration_since(growth.at);
        growth.at = growth.at.max(now);
        match held {
            None => growth.grown += passed,
            Some(held) => growth.waited += if held.wears_off() { passed } else { Duration::ZERO },
        }
        if growth.grown >= growth.length {
            self.finish();
        }
    }

    /// Time passed in which it neither grew nor was held.
    pub(super) fn rest(&mut self, now: Instant) {
        if let Some(growth) = &mut self.growth {
            growth.at = growth.at.max(now);
        }
    }

    /// It may take all of its share from now on.
    pub(super) fn finish(&mut self) {
        (self.growth, self.newcomer) = (None, false);
    }
}

impl Growth {
    /// `None` where there is nothing left to grow.
    fn begin(first: f64, length: Duration, slow: &SlowStart, now: Instant) -> Option<Self> {
        let grows = first < 1.0 && !length.is_zero();
        let (grown, waited, most) = (Duration::ZERO, Duration::ZERO, slow.window);
        grows.then_some(Self { first, length, grown, waited, most, at: now, began: now })
    }

    fn part(&self) -> f64 {
        self.first + (1.0 - self.first) * self.progress()
    }

    fn progress(&self) -> f64 {
        (self.grown.as_secs_f64() / self.length.as_secs_f64()).min(1.0)
    }

    /// Takes no longer than `window`, from where it is.
    fn shorten(&mut self, window: Duration) {
        if window < self.length {
            self.grown = window.mul_f64(self.progress());
            self.length = window;
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    const SLOW: SlowStart = SlowStart { window: Duration::from_secs(60), from: 0.1, error_ratio: None, latency: None };

    struct Clock(Instant);

    impl Clock {
        fn at(&self, seconds: f64) -> Instant {
            self.0 + Duration::from_secs_f64(seconds)
        }
    }

    fn parts(ramp: &mut Ramp, clock: &Clock, seconds: &[f64]) -> Vec<f64> {
        let mut part = |second: &f64| {
            ramp.go_on(Some(&SLOW), None, clock.at(*second));
            (ramp.part() * 1000.0).round() / 1000.0
        };
        seconds.iter().map(&mut part).collect()
    }

    #[test]
    fn newcomer_grows_in_a_straight_line_over_the_window() {
        let (clock, mut ramp) = (Clock(Instant::now()), Ramp::default());
        ramp.join(&SLOW, clock.at(0.0));
        assert!(ramp.is_newcomer());
        assert_eq!(parts(&mut ramp, &clock, &[0.0, 6.0, 30.0, 59.9, 60.0, 90.0]), [0.1, 0.19, 0.55, 0.999, 1.0, 1.0]);
        assert!(!ramp.is_newcomer() && ramp.since().is_none());
    }

    #[test]
    fn origin_that_was_out_grows_for_as_long_as_it_was() {
        for (outage, first, length) in [(3.0, 0.95, 3.0), (30.0, 0.5, 30.0), (60.0, 0.1, 60.0), (3600.0, 0.1, 60.0)] {
            let (clock, mut ramp) = (Clock(Instant::now()), Ramp::default());
            ramp.leave(clock.at(0.0));
            ramp.come_back(Some(&SLOW), clock.at(outage));
            let shown = parts(&mut ramp, &clock, &[outage, outage + length / 2.0, outage + length]);
            assert_eq!(shown, [first, first + (1.0 - first) / 2.0, 1.0], "after {outage} s");
        }
    }

    #[test]
    fn newcomer_that_was_out_goes_on_where_its_outage_leaves_it() {
        let (clock, mut ramp) = (Clock(Instant::now()), Ramp::default());
        ramp.join(&SLOW, clock.at(0.0));
        assert_eq!(parts(&mut ramp, &clock, &[20.0]), [0.4]);
        ramp.leave(clock.at(20.0));
        ramp.come_back(Some(&SLOW), clock.at(26.0));
        assert_eq!((parts(&mut ramp, &clock, &[26.0]), ramp.left().as_secs()), (vec![0.3], 46));
    }

    #[test]
    fn without_slow_start_all_comes_at_once_also_in_the_middle() {
        let (clock, mut ramp) = (Clock(Instant::now()), Ramp::default());
        ramp.leave(clock.at(0.0));
        ramp.come_back(None, clock.at(50.0));
        assert_eq!((ramp.part(), ramp.since()), (1.0, None));
        ramp.join(&SLOW, clock.at(51.0));
        ramp.go_on(None, None, clock.at(52.0));
        assert_eq!((ramp.part(), ramp.since()), (1.0, None));
    }

    #[test]
    fn origin_that_serves_again_has_no_less_than_it_had() {
        let clock = Clock(Instant::now());
        for (drained, left, first) in [(20.0, 0.9, 0.9), (20.0, 0.0, 0.667), (600.0, 0.0, 0.1)] {
            let mut ramp = Ramp::default();
            ramp.resume(clock.at(0.0), left, Some(&SLOW), clock.at(drained));
            assert_eq!(parts(&mut ramp, &clock, &[drained]), [first]);
        }
        let mut newcomer = Ramp::default();
        newcomer.join(&SLOW, clock.at(0.0));
        newcomer.resume(clock.at(1.0), 0.0, Some(&SLOW), clock.at(2.0));
        assert_eq!((newcomer.part(), newcomer.left().as_secs()), (0.1, 60));
    }

    #[test]
    fn slowness_holds_for_the_window_in_all_and_errors_without_limit() {
        let (clock, mut ramp) = (Clock(Instant::now()), Ramp::default());
        ramp.join(&SLOW, clock.at(0.0));
        let slow = Held::Slow(Duration::from_millis(90), Duration::from_millis(9));
        for (second, held) in [(40.0, Some(slow)), (45.0, None), (90.0, Some(Held::Errors(90))), (109.0, Some(slow))] {
            ramp.go_on(Some(&SLOW), held, clock.at(second));
            assert!(!ramp.was_held_out(), "at {second} s");
        }
        ramp.go_on(Some(&SLOW), Some(slow), clock.at(110.0));
        assert!(ramp.was_held_out());
        assert_eq!((ramp.part() * 1000.0).round(), 175.0, "five seconds of growth in all");
    }

    #[test]
    fn shorter_window_hastens_what_grows_without_a_jump() {
        let (clock, mut ramp) = (Clock(Instant::now()), Ramp::default());
        ramp.join(&SLOW, clock.at(0.0));
        assert_eq!(parts(&mut ramp, &clock, &[30.0]), [0.55]);
        let short = SlowStart { window: Duration::from_secs(4), ..SLOW };
        ramp.go_on(Some(&short), None, clock.at(30.0));
        assert_eq!(((ramp.part() * 100.0).round(), ramp.left().as_secs()), (55.0, 2));
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod properties {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Pass(u64, bool),
        Leave,
        ComeBack,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..20_000_u64, any::<bool>()).prop_map(|(ms, held)| Step::Pass(ms, held)),
            1 => Just(Step::Leave),
            1 => Just(Step::ComeBack),
        ]
    }

    proptest! {
        #[test]
        fn part_grows_while_in_service_stands_while_held_and_is_all_in_the_end(
            window in 1_000..100_000_u64,
            from in 0.01..=1.0,
            steps in proptest::collection::vec(step(), 1..60),
        ) {
            let slow = SlowStart { window: Duration::from_millis(window), from, error_ratio: None, latency: None };
            let (mut now, mut ramp, mut serving) = (Instant::now(), Ramp::default(), true);
            ramp.join(&slow, now);
            for step in steps {
                let before = ramp.part();
                match step {
                    Step::Pass(ms, held) if serving => {
                        now += Duration::from_millis(ms);
                        ramp.go_on(Some(&slow), held.then_some(Held::Errors(1)), now);
                        prop_assert!(ramp.part() >= before - 1e-9);
                        prop_assert!(!held || (ramp.part() - before).abs() < 1e-9);
                    }
                    Step::Pass(ms, _) => now += Duration::from_millis(ms),
                    Step::Leave if serving => {
                        ramp.leave(now);
                        serving = false;
                    }
                    Step::ComeBack if !serving => {
                        ramp.come_back(Some(&slow), now);
                        serving = true;
                    }
                    Step::Leave | Step::ComeBack => {}
                }
                prop_assert!(!serving || (from..=1.0).contains(&ramp.part()), "{}", ramp.part());
                prop_assert!(ramp.left() <= slow.window);
            }
            ramp.come_back(Some(&slow), now);
            ramp.go_on(Some(&slow), None, now + ramp.left());
            prop_assert_eq!(ramp.part(), 1.0);
        }
    }
}
