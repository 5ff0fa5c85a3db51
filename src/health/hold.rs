//! Is growth to stand still for now? Rule J4: while a newcomer does worse than the rest of its pool, and while the pool
//! itself does worse than before.
//!
//! A database that all share slows keys that moved and keys that stayed alike, and then only the pool as a whole shows
//! it: this was the first incident. Few answers say nothing, and neither does a difference of a few milliseconds.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::policy::SlowStart;
use super::tally::Window;

/// Fewer answers say nothing.
const ENOUGH: u64 = 20;
/// A smaller difference between median times says nothing.
const NOTABLE: Duration = Duration::from_millis(5);
/// A smaller difference between error ratios says nothing of a pool.
const NOTABLE_RATIO: f64 = 0.01;
/// A pool does worse at this multiple of what it did before.
const WORSE: f64 = 2.0;

/// Why growth stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// Of its answers so many in a thousand are errors.
    Errors(u32),
    /// Its median time, and that of the others.
    Slow(Duration, Duration),
    /// Of the pool's answers so many in a thousand are errors, and so many were before the change.
    PoolErrors(u32, u32),
    /// The pool's median time, and that before the change.
    PoolSlow(Duration, Duration),
    /// A change that waits to be confirmed does harm to keys that it moved and to those that stayed.
    All,
    /// Of the pool's recent keys so many in a thousand moved, and so many may.
    Moved(u32, u32),
}

impl Held {
    /// Does a newcomer that did so hold its own growth, beside the `rest` of its pool?
    pub(super) fn by_itself(own: &Window, rest: &Window, slow: &SlowStart) -> Option<Self> {
        let ratio = own.error_ratio().filter(|_| own.attempts() >= ENOUGH);
        if let (Some(ratio), Some(most)) = (ratio, slow.error_ratio)
            && ratio > most
        {
            return Some(Self::Errors(per_mille(ratio)));
        }
        let (own, rest) = (median(own)?, median(rest)?);
        (is_slower(own, rest, slow.latency?)).then_some(Self::Slow(own, rest))
    }

    /// Does a pool that does so `now` hold all growth in it, when it did so `before`?
    pub(super) fn by_pool(now: &Window, before: &Window) -> Option<Self> {
        let enough = now.attempts().min(before.attempts()) >= ENOUGH;
        if let (true, Some(ratio), Some(was)) = (enough, now.error_ratio(), before.error_ratio())
            && ratio > was * WORSE
            && ratio > was + NOTABLE_RATIO
        {
            return Some(Self::PoolErrors(per_mille(ratio), per_mille(was)));
        }
        let (now, before) = (median(now)?, median(before)?);
        (is_slower(now, before, WORSE)).then_some(Self::PoolSlow(now, before))
    }

    /// May it hold for a limited time only? Errors, and the pool, hold for as long as they last.
    pub(super) fn wears_off(self) -> bool {
        matches!(self, Self::Slow(..))
    }
}

fn median(window: &Window) -> Option<Duration> {
    window.quantile(0.5).filter(|_| window.answers() >= ENOUGH)
}

fn is_slower(one: Duration, other: Duration, times: f64) -> bool {
    one > other.mul_f64(times) && one > other + NOTABLE
}

pub(super) fn per_mille(ratio: f64) -> u32 {
    (ratio * 1000.0).round() as u32
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |per_mille: u32| f64::from(per_mille) / 10.0;
        let ms = |time: Duration| time.as_micros() as f64 / 1000.0;
        match *self {
            Self::Errors(now) => write!(f, "{}% of its answers are errors", percent(now)),
            Self::Slow(own, rest) => {
                write!(f, "its median is {:.1} ms, that of the others {:.1} ms", ms(own), ms(rest))
            }
            Self::PoolErrors(now, before) => {
                write!(f, "{}% of the pool's answers are errors, {}% before the change", percent(now), percent(before))
            }
            Self::All => f.write_str("keys that moved and keys that stayed fare worse than before the change"),
            Self::Moved(now, most) => {
                write!(f, "{}% of the recent keys moved, {}% may", percent(now), percent(most))
            }
            Self::PoolSlow(now, before) => {
                write!(f, "the pool's median is {:.1} ms, {:.1} ms before the change", ms(now), ms(before))
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::health::tally::Tally;

    const SLOW: SlowStart =
        SlowStart { window: Duration::from_secs(60), from: 0.1, error_ratio: Some(0.05), latency: Some(3.0) };

    /// So many answers of so many milliseconds, with errors besides.
    fn window(answers: u32, ms: u64, errors: u32) -> Window {
        let (tally, now) = (Tally::default(), Instant::now());
        (0..answers).for_each(|_| tally.record(false, Some(Duration::from_millis(ms)), None, now));
        (0..errors).for_each(|_| tally.record(true, None, None, now));
        let mut window = Window::default();
        tally.add_to(&mut window, Duration::ZERO, now);
        window
    }

    fn own(own: (u32, u64, u32), rest: (u32, u64, u32)) -> Option<&'static str> {
        let window = |(answers, ms, errors)| window(answers, ms, errors);
        word(Held::by_itself(&window(own), &window(rest), &SLOW))
    }

    fn pool(now: (u32, u64, u32), before: (u32, u64, u32)) -> Option<&'static str> {
        let window = |(answers, ms, errors)| window(answers, ms, errors);
        word(Held::by_pool(&window(now), &window(before)))
    }

    fn word(held: Option<Held>) -> Option<&'static str> {
        held.map(|held| match held {
            Held::Errors(_) | Held::PoolErrors(..) => "errors",
            Held::Slow(..) | Held::PoolSlow(..) => "slow",
            Held::All => "all",
            Held::Moved(..) => "moved",
        })
    }

    #[test]
    fn newcomer_holds_itself_by_errors_or_by_its_time() {
        let rest = (100, 10, 0);
        assert_eq!(own((95, 10, 5), rest), None, "as many as may be");
        assert_eq!(own((94, 10, 6), rest), Some("errors"));
        assert_eq!(own((100, 28, 0), rest), None);
        assert_eq!(own((100, 40, 0), rest), Some("slow"));
        assert_eq!(own((100, 40, 50), (5, 10, 0)), Some("errors"), "whatever the rest does");
    }

    #[test]
    fn few_answers_and_small_differences_say_nothing() {
        assert_eq!(own((0, 10, 19), (100, 10, 0)), None);
        assert_eq!(own((19, 900, 0), (100, 10, 0)), None);
        assert_eq!(own((100, 900, 0), (19, 10, 0)), None);
        assert_eq!(own((100, 5, 0), (100, 1, 0)), None, "four milliseconds");
        assert_eq!(own((100, 8, 0), (100, 1, 0)), Some("slow"));
    }

    #[test]
    fn pool_holds_its_growth_above_twice_what_it_did_before() {
        assert_eq!(pool((970, 10, 30), (990, 10, 10)), Some("errors"));
        assert_eq!(pool((985, 10, 15), (990, 10, 10)), None);
        assert_eq!(pool((995, 10, 5), (1000, 10, 0)), None, "half a percent is none");
        assert_eq!(pool((980, 10, 20), (1000, 10, 0)), Some("errors"));
        assert_eq!(pool((100, 19, 0), (100, 10, 0)), None);
        assert_eq!(pool((100, 24, 0), (100, 10, 0)), Some("slow"));
        assert_eq!(pool((100, 24, 0), (19, 10, 0)), None, "nothing to compare with");
    }

    #[test]
    fn what_is_off_holds_nothing() {
        let off = SlowStart { error_ratio: None, latency: None, ..SLOW };
        assert_eq!(Held::by_itself(&window(100, 900, 900), &window(100, 1, 0), &off), None);
    }

    #[test]
    fn reasons_are_told_in_words() {
        assert_eq!(Held::Errors(73).to_string(), "7.3% of its answers are errors");
        assert_eq!(Held::Moved(123, 50).to_string(), "12.3% of the recent keys moved, 5% may");
        let slow = Held::PoolSlow(Duration::from_micros(40_500), Duration::from_millis(9));
        assert_eq!(slow.to_string(), "the pool's median is 40.5 ms, 9.0 ms before the change");
    }
}
