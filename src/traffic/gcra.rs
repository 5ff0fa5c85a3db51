//! May one more request come now? The generic cell rate algorithm: a bucket that leaks, kept as one moment in time.
//!
//! What is kept of a key is when it will be even again: each request puts that off by the time between two requests of
//! the rate, and one comes too early that would come before even by more than the burst. That is nginx's `limit_req` with
//! `burst` and `nodelay`. Pure: moments are nanoseconds since any start, and the clock is an argument.

use std::time::Duration;

/// The longest burst that is told apart from none: some thirty years.
const LONGEST: f64 = 1e18;

/// A rate and its burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gcra {
    /// Between two requests.
    interval: u64,
    /// How much before even one may come.
    tolerance: u64,
}

impl Gcra {
    /// So many a second, and so many at once beyond that.
    pub(super) fn new(per_second: f64, burst: u32) -> Self {
        let interval = (1e9 / per_second).round().clamp(1.0, LONGEST);
        let tolerance = (interval * f64::from(burst)).min(LONGEST);
        Self { interval: interval as u64, tolerance: tolerance as u64 }
    }

    /// Interval and tolerance in microseconds, by which Redis counts.
    pub(super) fn in_micros(&self) -> [u64; 2] {
        [self.interval.div_ceil(1000), self.tolerance.div_ceil(1000)]
    }

    /// One that is `even` at that moment asks `now`: when it is even then, or how long it would have to wait.
    pub(super) fn ask(&self, even: u64, now: u64) -> Result<u64, u64> {
        // Nobody owes more than these limits let them, whatever the limits were before.
        let even = even.clamp(now, now.saturating_add(self.most()));
        match (even - now).checked_sub(self.tolerance) {
            None | Some(0) => Ok(even.saturating_add(self.interval)),
            Some(wait) => Err(wait),
        }
    }

    /// A request that was let in is not to count.
    pub(super) fn give_back(&self, even: u64) -> u64 {
        even.saturating_sub(self.interval)
    }

    /// How far from even anybody can be.
    pub(super) fn most(&self) -> u64 {
        self.tolerance.saturating_add(self.interval)
    }

    /// How long it takes from there to even.
    pub(super) fn window(&self) -> Duration {
        Duration::from_nanos(self.most())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// How many of `count` requests at these moments get in.
    fn admitted(gcra: Gcra, moments: impl IntoIterator<Item = u64>) -> usize {
        let mut even = 0;
        moments.into_iter().filter(|now| gcra.ask(even, *now).map(|next| even = next).is_ok()).count()
    }

    #[test]
    fn as_many_as_the_burst_and_one_come_at_once() {
        for burst in [0, 1, 20] {
            assert_eq!(admitted(Gcra::new(10.0, burst), [SECOND; 100]), burst as usize + 1);
        }
    }

    #[test]
    fn the_rate_holds_over_time() {
        let moments = (0..10_000).map(|ms| SECOND + ms * 1_000_000);
        assert_eq!(admitted(Gcra::new(10.0, 20), moments), 21 + 99);
    }

    #[test]
    fn the_wait_is_what_it_takes() {
        let gcra = Gcra::new(2.0, 1);
        let even = gcra.ask(gcra.ask(0, SECOND).unwrap(), SECOND).unwrap();
        let wait = gcra.ask(even, SECOND).unwrap_err();
        assert_eq!(wait, SECOND / 2);
        assert!(gcra.ask(even, SECOND + wait - 1).is_err() && gcra.ask(even, SECOND + wait).is_ok());
        assert!(gcra.ask(gcra.give_back(even), SECOND).is_ok());
    }

    #[test]
    fn stricter_limits_make_nobody_wait_longer_than_they_say() {
        let even = (0..20).try_fold(0, |even, _| Gcra::new(1.0, 100).ask(even, SECOND)).unwrap();
        assert_eq!(Gcra::new(1.0, 0).ask(even, SECOND), Err(SECOND));
    }

    #[test]
    fn the_slowest_rate_with_the_greatest_burst_is_no_trap() {
        let gcra = Gcra::new(1.0 / 86_400.0, 1_000_000);
        assert_eq!(admitted(gcra, [u64::MAX / 4; 100]), 100);
    }
}

#[cfg(test)]
mod properties {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// A bucket that holds `burst + 1` tokens, one more each interval, looked at in whole nanoseconds.
    struct Bucket {
        tokens: u128,
        full: u128,
        interval: u128,
        at: u64,
    }

    impl Bucket {
        fn take(&mut self, now: u64) -> bool {
            self.tokens = (self.tokens + u128::from(now - self.at)).min(self.full);
            self.at = now;
            let enough = self.tokens >= self.interval;
            self.tokens -= if enough { self.interval } else { 0 };
            enough
        }
    }

    proptest! {
        #[test]
        fn it_lets_in_what_a_bucket_of_tokens_would(
            per_second in 1u32..5000,
            burst in 0u32..40,
            steps in prop::collection::vec(0u64..400_000_000, 1..200),
        ) {
            let gcra = Gcra::new(f64::from(per_second), burst);
            let interval = u128::from(gcra.interval);
            let full = interval * u128::from(burst + 1);
            let mut bucket = Bucket { tokens: full, full, interval, at: 0 };
            let (mut even, mut now, mut recent) = (0, 0, VecDeque::new());
            for step in steps {
                now += step;
                let asked = gcra.ask(even, now);
                prop_assert_eq!(asked.is_ok(), bucket.take(now));
                match asked {
                    Ok(next) => {
                        even = next;
                        recent.push_back(now);
                    }
                    // As soon as it says, and not before.
                    Err(wait) => {
                        prop_assert!(gcra.ask(even, now + wait).is_ok());
                        prop_assert!(gcra.ask(even, now + wait - 1).is_err());
                    }
                }
                // In no stretch of time more than its rate and the burst.
                while recent.front().is_some_and(|first| now - first >= gcra.interval) {
                    recent.pop_front();
                }
                prop_assert!(recent.len() <= burst as usize + 1);
            }
        }
    }
}
