//! How long does an origin take to answer? A moving average that believes bad news at once and good news slowly.
//!
//! A sample above the average replaces it, one below draws it down the more, the longer ago the last one was; and while
//! nothing is heard the average falls, so that whoever was slow is tried again. After `decay` without a sample nothing is
//! known at all. Pure: the clock is an argument. Always holds: never above the largest sample.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// An average of seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Ewma<T = Instant> {
    seconds: f64,
    at: T,
}

/// No answer takes longer.
const LONGEST: f64 = 1e6;

impl<T> Ewma<T> {
    /// The same with another time.
    pub(super) fn retimed<U>(self, time: impl Fn(T) -> U) -> Ewma<U> {
        Ewma { seconds: self.seconds.clamp(0.0, LONGEST), at: time(self.at) }
    }
}

impl Ewma {
    pub(super) fn first(sample: Duration, now: Instant) -> Self {
        Self { seconds: sample.as_secs_f64(), at: now }
    }

    /// With one more sample.
    pub(super) fn with(self, sample: Duration, decay: Duration, now: Instant) -> Self {
        let kept = self.kept(decay, now);
        let sample = sample.as_secs_f64();
        let drawn_down = self.seconds * kept + sample * (1.0 - kept);
        // A peak takes the place of the average; of two at once, the clock stays with the later one.
        Self { seconds: if sample > self.seconds { sample } else { drawn_down }, at: self.at.max(now) }
    }

    /// Seconds; `None`: too long ago.
    pub(super) fn read(self, decay: Duration, now: Instant) -> Option<f64> {
        let age = now.saturating_duration_since(self.at);
        (age < decay).then(|| self.seconds * self.kept(decay, now))
    }

    /// The part of it that is left by now.
    fn kept(self, decay: Duration, now: Instant) -> f64 {
        (-now.saturating_duration_since(self.at).as_secs_f64() / decay.as_secs_f64()).exp()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    const DECAY: Duration = Duration::from_secs(10);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_peak_is_taken_at_once_and_good_news_slowly() {
        let start = Instant::now();
        let peak = Ewma::first(ms(10), start).with(ms(500), DECAY, start + ms(1));
        assert_eq!(peak.read(DECAY, start + ms(1)), Some(0.5));
        let better = peak.with(ms(10), DECAY, start + ms(101));
        let seconds = better.read(DECAY, start + ms(101)).unwrap();
        assert!((0.49..0.5).contains(&seconds), "{seconds}");
        let long_after = better.with(ms(10), DECAY, start + ms(30_101)).read(DECAY, start + ms(30_101)).unwrap();
        assert!((0.01..0.04).contains(&long_after), "{long_after}");
    }

    #[test]
    fn silence_makes_it_fall_and_at_last_forget() {
        let start = Instant::now();
        let average = Ewma::first(ms(800), start);
        let after = |ms| average.read(DECAY, start + Duration::from_millis(ms));
        assert_eq!(after(0), Some(0.8));
        assert!((0.48..0.49).contains(&after(5000).unwrap()));
        assert!((0.29..0.30).contains(&after(9999).unwrap()));
        assert_eq!(after(10_000), None);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn never_above_the_largest_sample_at_a_peak_at_once_and_falling_with_time(
            samples in proptest::collection::vec((0_u64..5_000_000, 0_u64..20_000_000), 1..50),
            decay in 1_000_u64..30_000_000,
        ) {
            let decay = Duration::from_micros(decay);
            let (mut now, mut largest, mut average) = (Instant::now(), 0.0_f64, None::<Ewma>);
            for (sample, pause) in samples {
                let sample = Duration::from_micros(sample);
                now += Duration::from_micros(pause);
                let before = average.and_then(|average| average.read(decay, now));
                let with = average.map_or(Ewma::first(sample, now), |average| average.with(sample, decay, now));
                largest = largest.max(sample.as_secs_f64());
                let read = with.read(decay, now).unwrap();
                prop_assert!(read <= largest + 1e-9);
                prop_assert!(read >= sample.as_secs_f64() - 1e-9, "a sample is never read as less");
                prop_assert!(before.is_none_or(|before| read >= before.min(sample.as_secs_f64()) - 1e-9));
                let later = [0, 1, 2, 5].map(|part| with.read(decay, now + decay * part / 6).unwrap());
                prop_assert!(later.is_sorted_by(|one, next| one >= next), "{:?}", later);
                prop_assert_eq!(with.read(decay, now + decay), None);
                average = Some(with);
            }
        }
    }
}
