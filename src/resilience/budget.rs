//! How many retries may a pool afford? One bucket per pool and process (rule T3).
//!
//! Each first attempt puts in `ratio`, each second `floor`; a retry takes one. The bucket never holds more than ten
//! seconds of `floor` and `ratio` of the first attempts of the last ten seconds, and starts with one second of
//! `floor`. So retries over any time are at most what was held, plus `ratio` of the requests, plus `floor` for each
//! second, however many threads ask. Every request comes by here, hence atomics; each is a count of its own that
//! orders nothing else, hence `Relaxed`.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::age::Age;
use crate::config::pool::RetryBudget;

/// One retry in units of the bucket. With this many, a rate a second is units a nanosecond.
const RETRY: f64 = 1e9;
/// Seconds of `floor` that fit, and how long a first attempt lifts the limit.
const WINDOW: u64 = 10;
/// One more than seconds looked at: the slot being taken over is never one that still counts.
const SLOTS: usize = WINDOW as usize + 1;
/// No bucket holds more retries, and no second has more first attempts.
const MOST: f64 = 1e9;
/// The part of a slot that counts.
const COUNT: u64 = u32::MAX as u64;

/// A bucket of retries.
#[derive(Debug)]
pub struct Budget {
    config: RetryBudget,
    /// What it counts time from: long enough ago that whatever it remembers was since.
    began: Instant,
    /// Units held; the limit is applied when some are drawn, and once a second.
    held: AtomicI64,
    /// Up to when `floor` was put in: nanoseconds since `began`.
    filled: AtomicU64,
    /// First attempts by second: its number in the upper half, its count in the lower.
    firsts: [AtomicU64; SLOTS],
}

/// What a process tells the next of a bucket.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Carried {
    /// Retries held.
    held: f64,
    /// Up to when `floor` was put in.
    filled: Age,
    /// First attempts by second: when each began, and how many there were.
    firsts: Vec<(Age, u32)>,
}

impl Budget {
    /// The bucket for `config`: `previous` itself while nothing changed, else a new one with what it held.
    pub fn compile(config: &RetryBudget, previous: Option<&Arc<Self>>, now: Instant) -> Arc<Self> {
        match previous {
            Some(same) if same.config == *config => Arc::clone(same),
            Some(old) => Arc::new(old.with(config)),
            None => Arc::new(Self::new(config, now)),
        }
    }

    /// A bucket that holds one second of `floor`.
    pub fn new(config: &RetryBudget, now: Instant) -> Self {
        let began = now.checked_sub(Duration::from_secs(SLOTS as u64)).unwrap_or(now);
        Self {
            config: *config,
            began,
            held: AtomicI64::new((config.floor.0 * RETRY) as i64),
            filled: AtomicU64::new(now.saturating_duration_since(began).as_nanos() as u64),
            firsts: array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// The first attempt of a request begins.
    pub fn first_attempt(&self, now: Instant) {
        let second = self.since_began(now) / RETRY as u64;
        let count = |slot: u64| if slot >> 32 == second { slot + 1 } else { second << 32 | 1 };
        let before = self.firsts[second as usize % SLOTS].fetch_update(Relaxed, Relaxed, |slot| Some(count(slot)));
        if before.is_ok_and(|slot| slot >> 32 != second) {
            // Else a pool that never fails would pile up units until they wrap.
            self.held.fetch_min(self.limit(second), Relaxed);
        }
        self.held.fetch_add((self.config.ratio.ratio() * RETRY) as i64, Relaxed);
    }

    /// Takes a retry out, if one is held.
    pub fn draw(&self, now: Instant) -> bool {
        let elapsed = self.since_began(now);
        self.fill(elapsed);
        let limit = self.limit(elapsed / RETRY as u64);
        let drawn = self.held.fetch_update(Relaxed, Relaxed, |held| {
            let left = held.min(limit) - RETRY as i64;
            (left >= 0).then_some(left)
        });
        drawn.is_ok()
    }

    /// What it holds, as seen `now`.
    pub fn export(&self, now: Instant) -> Carried {
        let at = |nanos: u64| Age::of(self.began + Duration::from_nanos(nanos), now);
        let second = self.since_began(now) / RETRY as u64;
        let counts = |slot: &u64| slot & COUNT > 0 && second.saturating_sub(slot >> 32) < WINDOW;
        let firsts = self.firsts.iter().map(|slot| slot.load(Relaxed)).filter(counts);
        // Of a longer time without a retry no more counts.
        let longest = self.since_began(now).saturating_sub(WINDOW * RETRY as u64);
        let filled = self.filled.load(Relaxed).clamp(longest, self.since_began(now));
        Carried {
            held: self.held.load(Relaxed) as f64 / RETRY,
            filled: at(filled),
            firsts: firsts.map(|slot| (at((slot >> 32) * RETRY as u64), (slot & COUNT) as u32)).collect(),
        }
    }

    /// This is what it holds.
    pub fn import(&self, carried: &Carried, now: Instant) {
        let nanos = |age: Age| self.since_began(age.at(now).min(now));
        self.held.store((carried.held.clamp(-MOST, MOST) * RETRY) as i64, Relaxed);
        self.filled.store(nanos(carried.filled), Relaxed);
        self.firsts.iter().for_each(|slot| slot.store(0, Relaxed));
        for (age, count) in carried.firsts.iter().take(SLOTS) {
            // The middle of its second, which begins elsewhere here.
            let second = (nanos(*age) + RETRY as u64 / 2) / RETRY as u64;
            let slot = second << 32 | u64::from(*count).min(MOST as u64);
            self.firsts[second as usize % SLOTS].fetch_max(slot, Relaxed);
        }
    }

    /// The same bucket under another config.
    fn with(&self, config: &RetryBudget) -> Self {
        let copy = |of: &AtomicU64| AtomicU64::new(of.load(Relaxed));
        Self {
            config: *config,
            began: self.began,
            held: AtomicI64::new(self.held.load(Relaxed)),
            filled: copy(&self.filled),
            firsts: array::from_fn(|slot| copy(&self.firsts[slot])),
        }
    }

    /// Puts in `floor` for the time since the last call. `fetch_max` gives each span to one caller only.
    fn fill(&self, elapsed: u64) {
        let before = self.filled.fetch_max(elapsed, Relaxed);
        // More than the window would not fit, and could overflow.
        let span = elapsed.saturating_sub(before).min(WINDOW * RETRY as u64);
        self.held.fetch_add((self.config.floor.0 * span as f64) as i64, Relaxed);
    }

    fn limit(&self, second: u64) -> i64 {
        let recent = |slot: &u64| second.saturating_sub(slot >> 32) < WINDOW;
        let slots = self.firsts.iter().map(|slot| slot.load(Relaxed)).filter(recent);
        let firsts: u64 = slots.map(|slot| slot & COUNT).sum();
        ((self.config.floor.0 * WINDOW as f64 + self.config.ratio.ratio() * firsts as f64) * RETRY) as i64
    }

    fn since_began(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_nanos() as u64
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::units::{Percent, Rate};

    fn config(percent: f64, floor: f64) -> RetryBudget {
        RetryBudget { ratio: Percent(percent), floor: Rate(floor) }
    }

    fn drawn(budget: &Budget, now: Instant) -> usize {
        (0..100_000).take_while(|_| budget.draw(now)).count()
    }

    #[test]
    fn it_starts_with_one_second_of_floor() {
        let now = Instant::now();
        assert_eq!(drawn(&Budget::new(&config(20.0, 10.0), now), now), 10);
    }

    #[test]
    fn each_first_attempt_adds_its_ratio() {
        let now = Instant::now();
        let budget = Budget::new(&config(20.0, 0.0), now);
        (0..1000).for_each(|_| budget.first_attempt(now));
        assert_eq!(drawn(&budget, now), 200);
        assert!(!budget.draw(now));
    }

    #[test]
    fn b49_a_thousand_failing_requests_make_at_most_1200_attempts_and_the_floor() {
        let start = Instant::now();
        let budget = Budget::new(&config(20.0, 10.0), start);
        let mut attempts = 0;
        for request in 0..1000 {
            let now = start + Duration::from_millis(request);
            budget.first_attempt(now);
            attempts += 1 + usize::from(budget.draw(now));
        }
        // One second of floor at the start and one over the second it took.
        assert_eq!(attempts, 1000 + 200 + 10 + 9);
    }

    #[test]
    fn quiet_time_fills_ten_seconds_of_floor_and_no_more() {
        let now = Instant::now();
        let budget = Budget::new(&config(20.0, 10.0), now);
        assert_eq!(drawn(&budget, now), 10);
        assert_eq!(drawn(&budget, now + Duration::from_secs(3)), 30);
        assert_eq!(drawn(&budget, now + Duration::from_secs(365 * 24 * 3600)), 100);
    }

    #[test]
    fn what_first_attempts_added_is_gone_after_ten_seconds() {
        let now = Instant::now();
        let budget = Budget::new(&config(20.0, 0.0), now);
        (0..1000).for_each(|_| budget.first_attempt(now));
        assert!(budget.draw(now + Duration::from_millis(9900)));
        assert!(!budget.draw(now + Duration::from_millis(10_100)));
    }

    #[test]
    fn nothing_written_means_no_retry() {
        let now = Instant::now();
        let budget = Budget::new(&config(0.0, 0.0), now);
        (0..1000).for_each(|_| budget.first_attempt(now));
        assert!(!budget.draw(now + Duration::from_secs(60)));
    }

    #[test]
    fn a_reload_keeps_what_was_held() {
        let now = Instant::now();
        let first = Budget::compile(&config(20.0, 10.0), None, now);
        (0..8).for_each(|_| assert!(first.draw(now)));
        assert!(Arc::ptr_eq(&first, &Budget::compile(&config(20.0, 10.0), Some(&first), now)));
        let changed = Budget::compile(&config(20.0, 50.0), Some(&first), now);
        assert_eq!(drawn(&changed, now), 2);
    }

    fn elsewhere(budget: &Budget, config: &RetryBudget, here: Instant, there: Instant) -> Budget {
        let told = serde_json::to_string(&budget.export(here)).unwrap();
        let other = Budget::new(config, there);
        other.import(&serde_json::from_str(&told).unwrap(), there);
        other
    }

    #[test]
    fn another_process_goes_on_with_what_was_held_and_forgets_it_as_soon() {
        let (start, there, config) = (Instant::now(), Instant::now() + Duration::from_secs(77_777), config(20.0, 0.0));
        let at = |ms: u64| start + Duration::from_millis(ms);
        let budget = Budget::new(&config, start);
        (0..1000).for_each(|_| budget.first_attempt(start));
        assert_eq!((0..50).filter(|_| budget.draw(at(4_000))).count(), 50);
        let moved = || elsewhere(&budget, &config, at(5_500), there);
        assert_eq!(drawn(&moved(), there), 150);
        assert_eq!(drawn(&moved(), there + Duration::from_millis(3_900)), 150);
        assert_eq!(drawn(&moved(), there + Duration::from_millis(6_000)), 0, "ten seconds after the attempts");
        let again = elsewhere(&moved(), &config, there, start);
        assert_eq!(drawn(&again, start), 150);
    }

    #[test]
    fn floor_goes_on_from_where_it_was_put_in() {
        let (start, there, config) = (Instant::now(), Instant::now() + Duration::from_secs(5), config(20.0, 10.0));
        let budget = Budget::new(&config, start);
        drawn(&budget, start);
        let moved = elsewhere(&budget, &config, start + Duration::from_secs(2), there);
        assert_eq!(drawn(&moved, there + Duration::from_secs(1)), 30);
    }

    #[test]
    fn whatever_is_told_it_can_be_reckoned_with() {
        let now = Instant::now();
        for text in [
            r#"{"held":1e300,"filled":-9223372036854775808,"firsts":[[9223372036854775807,4294967295],[0,4294967295]]}"#,
            r#"{"held":-1e300,"filled":9223372036854775807,"firsts":[]}"#,
        ] {
            let budget = Budget::new(&config(20.0, 10.0), now);
            budget.import(&serde_json::from_str(text).unwrap(), now);
            (0..10).for_each(|_| budget.first_attempt(now));
            assert!(drawn(&budget, now + Duration::from_secs(1)) <= 100_000);
        }
    }

    #[test]
    fn threads_together_draw_what_there_is() {
        let now = Instant::now();
        let budget = Budget::new(&config(10.0, 100.0), now);
        let total: usize = std::thread::scope(|scope| {
            let one = || {
                (0..1000).for_each(|_| budget.first_attempt(now));
                drawn(&budget, now)
            };
            let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(total, 100 + 400);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod properties {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::config::units::{Percent, Rate};

    proptest! {
        #[test]
        fn retries_never_exceed_ratio_plus_floor(
            percent in 0u32..=100, floor in 0u32..50,
            steps in prop::collection::vec((0u64..3_000_000, any::<bool>()), 1..400),
        ) {
            let start = Instant::now();
            let budget = Budget::new(
                &RetryBudget { ratio: Percent(f64::from(percent)), floor: Rate(f64::from(floor)) }, start);
            let (mut at, mut firsts, mut retries) = (Duration::ZERO, 0u32, 0u32);
            let mut history: Vec<(Duration, bool)> = Vec::new();
            for (pause, first) in steps {
                at += Duration::from_micros(pause);
                if first {
                    firsts += 1;
                    budget.first_attempt(start + at);
                    history.push((at, true));
                } else if budget.draw(start + at) {
                    retries += 1;
                    history.push((at, false));
                }
                let share = f64::from(percent) / 100.0;
                let allowed = f64::from(floor) * (1.0 + at.as_secs_f64()) + share * f64::from(firsts);
                prop_assert!(f64::from(retries) <= allowed + 1e-6);
            }
            // And no burst is larger than what the bucket may hold.
            let share = f64::from(percent) / 100.0;
            for (index, (end, _)) in history.iter().enumerate() {
                let second = |of: &Duration| of.as_secs();
                let burst = history[..=index].iter().rev().take_while(|(t, _)| t == end).filter(|(_, f)| !f).count();
                let recent = history[..=index].iter().filter(|(t, f)| *f && second(end) - second(t) < 10).count();
                prop_assert!(burst as f64 <= f64::from(floor) * 10.0 + share * recent as f64 + 1e-6);
            }
        }
    }
}
