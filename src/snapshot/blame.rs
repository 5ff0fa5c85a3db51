//! Is it the change that went wrong? Rule C5, from figures alone.
//!
//! Only what the keys that moved suffer and the keys that stayed do not is held against a change: an origin or a
//! database that fails for all of them would fail without it as well. Figures of few requests say nothing.

use crate::config::pool::Guard;
use crate::config::units::Percent;
use crate::health::Summary;

/// Requests before anything is said.
const REQUESTS: u64 = 100;
/// Of one kind, for its part of errors to say something.
const ERRORS: u64 = 20;
/// The same for its tail: of fewer it is their maximum.
const TIMES: u64 = 100;
/// Times that differ by less are equal.
const EQUAL: f64 = 0.005;

/// How requests fared.
#[derive(Debug, Clone, Copy)]
pub struct Fares {
    /// The whole pool before the change.
    pub before: Summary,
    /// Keys that moved, since.
    pub moved: Summary,
    /// Keys that stayed, since.
    pub stayed: Summary,
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blame {
    /// Nothing.
    Nobody,
    /// The change did it: why.
    Change(String),
    /// All keys suffer, and did not before: why.
    All(String),
}

/// A figure that a guard limits.
struct Figure<'a> {
    name: &'static str,
    limit: f64,
    of: &'a dyn Fn(&Summary) -> Option<f64>,
    print: fn(f64) -> String,
}

impl Fares {
    /// Held to a guard.
    pub fn blame(&self, guard: &Guard) -> Blame {
        if self.moved.attempts + self.stayed.attempts < REQUESTS {
            return Blame::Nobody;
        }
        let errors = |of: &Summary| of.error_ratio.filter(|_| of.attempts >= ERRORS);
        let times = |of: &Summary| of.p99.filter(|_| of.attempts >= TIMES).map(|time| time.as_secs_f64());
        let errors = guard.error_ratio.on().map(|limit| Figure {
            name: "errors",
            limit: limit.ratio(),
            of: &errors,
            print: Percent::told,
        });
        let latency = guard.latency.on().zip(times(&self.before)).map(|(limit, before)| Figure {
            name: "p99",
            limit: (before * limit.0).max(before + EQUAL),
            of: &times,
            print: |seconds| format!("{:.1} ms", seconds * 1000.0),
        });
        let found: Vec<Blame> = errors.iter().chain(&latency).map(|figure| self.one(figure)).collect();
        let change = found.iter().find(|blame| matches!(blame, Blame::Change(_)));
        change.or_else(|| found.iter().find(|blame| **blame != Blame::Nobody)).cloned().unwrap_or(Blame::Nobody)
    }

    fn one(&self, figure: &Figure<'_>) -> Blame {
        let breaks = |summary: &Summary| (figure.of)(summary).is_some_and(|value| value > figure.limit);
        let broke = breaks(&self.before);
        let told = |summary: &Summary| (figure.of)(summary).map_or_else(|| "unknown".to_owned(), figure.print);
        let why = format!(
            "{} of keys that moved: {}, of those that stayed: {}, before: {}, limit {}",
            figure.name,
            told(&self.moved),
            told(&self.stayed),
            told(&self.before),
            (figure.print)(figure.limit)
        );
        // Keys that stayed and are few tell what the pool did before, as far as anything does.
        let others = if (figure.of)(&self.stayed).is_some() { breaks(&self.stayed) } else { broke };
        match (breaks(&self.moved), others) {
            (true, false) => Blame::Change(why),
            (true, true) if !broke => Blame::All(why),
            _ => Blame::Nobody,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::units::{Off, Percent, Times};

    const GUARD: Guard =
        Guard { max_moved: Percent(45.0), error_ratio: Off::On(Percent(5.0)), latency: Off::On(Times(3.0)) };

    fn fare(attempts: u64, error_ratio: f64, p99: u64) -> Summary {
        let p99 = Some(Duration::from_millis(p99));
        Summary { attempts, error_ratio: Some(error_ratio), p50: p99, p99, ..Summary::default() }
    }

    fn word(before: Summary, moved: Summary, stayed: Summary) -> &'static str {
        match (Fares { before, moved, stayed }).blame(&GUARD) {
            Blame::Nobody => "nobody",
            Blame::Change(_) => "change",
            Blame::All(_) => "all",
        }
    }

    #[test]
    fn c5_only_what_keys_that_stayed_do_not_suffer_is_held_against_the_change() {
        let (well, nothing) = (fare(1000, 0.0, 10), Summary::default());
        for (before, moved, stayed, expected) in [
            (well, well, well, "nobody"),
            (well, fare(200, 0.06, 10), well, "change"),
            (well, fare(200, 0.05, 10), well, "nobody"),
            (well, fare(200, 0.0, 31), well, "change"),
            (well, fare(200, 0.0, 30), well, "nobody"),
            (well, fare(200, 0.5, 10), fare(1000, 0.5, 10), "all"),
            (well, fare(200, 0.0, 500), fare(1000, 0.0, 400), "all"),
            (fare(1000, 0.2, 10), fare(200, 0.5, 10), fare(1000, 0.5, 10), "nobody"),
            (well, well, fare(1000, 0.5, 500), "nobody"),
            (well, fare(200, 0.5, 500), fare(1000, 0.5, 10), "change"),
            (well, fare(200, 0.5, 10), nothing, "change"),
            (fare(1000, 0.2, 10), fare(200, 0.5, 10), nothing, "nobody"),
            (nothing, fare(200, 0.0, 9000), well, "nobody"),
            (nothing, fare(200, 0.5, 10), well, "change"),
        ] {
            assert_eq!(word(before, moved, stayed), expected, "{before:?} {moved:?} {stayed:?}");
        }
    }

    #[test]
    fn c5_few_requests_say_nothing() {
        let well = fare(1000, 0.0, 10);
        assert_eq!(word(well, fare(30, 1.0, 900), fare(69, 0.0, 10)), "nobody", "99 in all");
        assert_eq!(word(well, fare(30, 1.0, 10), fare(70, 0.0, 10)), "change");
        assert_eq!(word(well, fare(19, 1.0, 10), well), "nobody", "one kind alone is too few");
        assert_eq!(word(well, fare(99, 0.0, 900), well), "nobody", "the tail of so few is their maximum");
    }

    #[test]
    fn c5_times_that_hardly_differ_are_equal() {
        let quick = fare(1000, 0.0, 1);
        assert_eq!(word(quick, fare(200, 0.0, 6), quick), "nobody");
        assert_eq!(word(quick, fare(200, 0.0, 7), quick), "change");
    }

    #[test]
    fn c5_a_guard_that_is_off_is_not_asked() {
        let guard = Guard { error_ratio: Off::Off, latency: Off::Off, ..GUARD };
        let fares = Fares { before: fare(1000, 0.0, 1), moved: fare(200, 1.0, 900), stayed: fare(1000, 0.0, 1) };
        assert_eq!(fares.blame(&guard), Blame::Nobody);
        let Blame::Change(why) = fares.blame(&GUARD) else { panic!("nobody") };
        assert_eq!(why, "errors of keys that moved: 100.0%, of those that stayed: 0.0%, before: 0.0%, limit 5.0%");
    }
}
