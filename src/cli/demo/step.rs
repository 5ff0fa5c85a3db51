//! What did a step show? Its figures, what they mean in words, and whether they are what was promised.
//!
//! Always holds: a promise that was not kept is named; no figure is left out because of it.

use serde::Serialize;

use super::census::{Census, Owners};
use super::table::ratio;

/// What happens in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    Steady,
    /// This origin dies.
    Dies(usize),
    /// It returns.
    Returns(usize),
    /// The pool grows from so many origins to so many.
    Grows(usize, usize),
}

/// Numbers of what happened between the start and the end of a step.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Window {
    pub(super) seconds: f64,
    pub(super) answered: u64,
    /// As clients saw it.
    pub(super) failed: u64,
    pub(super) hits: u64,
    pub(super) misses: u64,
    pub(super) queries: u64,
    pub(super) retries: u64,
    /// As the gateway saw it.
    pub(super) refused: u64,
}

/// Who owned the keys, and who would have by other rules.
#[derive(Debug)]
pub(super) struct Compared<'a> {
    pub(super) before: &'a Owners,
    pub(super) after: &'a Census,
    /// As the ring has it.
    pub(super) ring: Owners,
    /// By `hash % n`, before and after.
    pub(super) modulo: (Owners, Owners),
}

/// The figures of a step; serialises as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    pub(super) step: &'static str,
    pub(super) seconds: f64,
    pub(super) requests: u64,
    pub(super) failures: u64,
    /// Answers other than 2xx, as the gateway's metrics have them.
    pub(super) gateway_failures: u64,
    pub(super) retries: u64,
    /// Hits of the origins' caches among all requests they served; null without any.
    pub(super) hit_ratio: Option<f64>,
    pub(super) database_queries: u64,
    /// Keys asked for before and after: the others below are out of these.
    pub(super) keys: usize,
    pub(super) moved: usize,
    pub(super) moved_ratio: f64,
    pub(super) least_possible: f64,
    pub(super) modulo_moved: usize,
    pub(super) modulo_moved_ratio: f64,
    /// Keys that were not where the ring has them.
    pub(super) astray: usize,
    pub(super) told: String,
    pub(super) broken: Vec<String>,
}

impl Change {
    /// The word for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Dies(_) => "dies",
            Self::Returns(_) => "returns",
            Self::Grows(..) => "grows",
        }
    }

    /// The origins that serve before and after it, when there are `all` at first.
    pub(super) fn members(self, all: usize) -> (Vec<usize>, Vec<usize>) {
        let without = |gone: usize| (0..all).filter(|member| *member != gone).collect();
        match self {
            Self::Steady => ((0..all).collect(), (0..all).collect()),
            Self::Dies(one) => ((0..all).collect(), without(one)),
            Self::Returns(one) => (without(one), (0..all).collect()),
            Self::Grows(from, to) => ((0..from).collect(), (0..to).collect()),
        }
    }
}

impl Step {
    /// The figures of `change`; `names` are those of all origins.
    pub(super) fn new(change: Change, names: &[String], window: &Window, compared: &Compared<'_>) -> Self {
        let Compared { before, after, ring, modulo } = compared;
        let shared = before.shared(&after.owners);
        let keys = shared.iter().filter(|known| **known).count();
        let part = |of: usize| of as f64 / keys.max(1) as f64;
        let (old, new) = (before.only(&shared), after.owners.only(&shared));
        let moved = old.moved(&new);
        let modulo_moved = modulo.0.only(&shared).moved(&modulo.1);
        let mut step = Self {
            step: change.word(),
            seconds: window.seconds,
            requests: window.answered + window.failed + after.asked as u64,
            failures: window.failed + after.failed as u64,
            gateway_failures: window.refused,
            retries: window.retries,
            hit_ratio: ratio(window.hits, window.misses),
            database_queries: window.queries,
            keys,
            moved,
            moved_ratio: part(moved),
            least_possible: part(old.least(&new)),
            modulo_moved,
            modulo_moved_ratio: part(modulo_moved),
            astray: after.owners.moved(ring),
            told: String::new(),
            broken: Vec::new(),
        };
        step.told = step.words(change, names);
        if keys < shared.len() {
            step.told += &format!("\nThere was time to ask for {keys} of {} keys.", shared.len());
        }
        step.broken = step.judged(change, window);
        step
    }

    /// What it means.
    fn words(&self, change: Change, names: &[String]) -> String {
        let name = |origin: usize| names.get(origin).map_or("", String::as_str);
        let Self { keys, moved, modulo_moved: modulo, astray, .. } = self;
        match change {
            _ if *astray > 0 => format!("{moved} of {keys} keys moved; {astray} are not where the ring has them."),
            Change::Steady => format!("Each of the {keys} keys has one owner, and kept it."),
            Change::Dies(one) => format!(
                "{} died, its cache with it. Its {moved} keys went to their successors,\n\
                 those of others stayed where they are. hash % n would have moved {modulo} of {keys}.",
                name(one)
            ),
            Change::Returns(one) => format!(
                "{} is back with an empty cache, and its {moved} keys are with it: every key\n\
                 is where it was at first. hash % n would have moved {modulo} once more.",
                name(one)
            ),
            Change::Grows(from, to) => format!(
                "{} joined by a reload, once the probes had passed.\n\
                 {moved} keys moved, all to the newcomers. hash % n would have moved {modulo} of {keys}.",
                if to == from + 1 {
                    name(from).to_owned()
                } else {
                    format!("{} to {}", name(from), name(to.saturating_sub(1)))
                }
            ),
        }
    }

    /// The promises it broke.
    fn judged(&self, change: Change, window: &Window) -> Vec<String> {
        let mut broken = Vec::new();
        let mut unless = |kept: bool, what: String| {
            if !kept {
                broken.push(what);
            }
        };
        unless(self.failures == 0, format!("{} requests failed", self.failures));
        unless(self.gateway_failures == 0, format!("the gateway answered {} with an error", self.gateway_failures));
        unless(self.astray == 0, format!("{} keys are not where the ring has them", self.astray));
        unless(window.answered > 0, "no request of the load was answered".to_owned());
        unless(self.keys > 0, "no key was asked for in time".to_owned());
        let needless = self.moved_ratio - self.least_possible;
        unless(needless <= f64::EPSILON, format!("{:.1} % of the keys moved without need", needless * 100.0));
        unless(change != Change::Steady || self.moved == 0, format!("{} keys moved for nothing", self.moved));
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASHES: [u32; 6] = [0, 1, 2, 3, 4, 5];

    fn names() -> Vec<String> {
        (1..5).map(|number| format!("cache-{number}")).collect()
    }

    /// The step in which the second of three dies, its keys being taken as `after` says.
    fn died(after: &[usize], window: Window) -> Step {
        let (before, ring) = (owners(&[0, 1, 2, 0, 1, 2]), owners(&[0, 2, 2, 0, 0, 2]));
        let (old, new) = Change::Dies(1).members(3);
        let modulo = (Owners::by_modulo(&old, &HASHES), Owners::by_modulo(&new, &HASHES));
        let after = Census { owners: owners(after), asked: after.len(), failed: 0 };
        Step::new(Change::Dies(1), &names(), &window, &Compared { before: &before, after: &after, ring, modulo })
    }

    fn owners(list: &[usize]) -> Owners {
        Owners(list.iter().map(|owner| Some(*owner)).collect())
    }

    const FINE: Window =
        Window { seconds: 1.0, answered: 100, failed: 0, hits: 90, misses: 10, queries: 10, retries: 3, refused: 0 };

    #[test]
    fn a_step_as_promised_is_told_with_its_figures() {
        let step = died(&[0, 2, 2, 0, 0, 2], FINE);
        assert_eq!(step.broken, Vec::<String>::new());
        assert_eq!((step.moved, step.astray, step.requests), (2, 0, 106));
        assert_eq!((step.hit_ratio, step.retries), (Some(0.9), 3));
        assert_eq!((step.moved_ratio, step.least_possible), (1.0 / 3.0, 1.0 / 3.0));
        assert!(step.modulo_moved > step.moved, "{step:?}");
        assert!(step.told.starts_with("cache-2 died"), "{}", step.told);
        assert!(step.told.lines().all(|line| line.len() < 78), "{}", step.told);
    }

    #[test]
    fn every_promise_that_is_broken_is_named() {
        let check = |step: Step, words: &str| assert!(step.broken.join("; ").contains(words), "{:?}", step.broken);
        let kept = [0, 2, 2, 0, 0, 2];
        check(died(&kept, Window { failed: 2, ..FINE }), "2 requests failed");
        check(died(&kept, Window { refused: 1, ..FINE }), "the gateway answered 1 with an error");
        check(died(&kept, Window { answered: 0, ..FINE }), "no request of the load was answered");
        check(died(&[2, 2, 2, 0, 0, 2], FINE), "1 keys are not where the ring has them");
    }

    #[test]
    fn who_serves_follows_from_what_happens() {
        assert_eq!(Change::Dies(1).members(3), (vec![0, 1, 2], vec![0, 2]));
        assert_eq!(Change::Returns(1).members(3), (vec![0, 2], vec![0, 1, 2]));
        assert_eq!(Change::Grows(2, 4).members(2), (vec![0, 1], vec![0, 1, 2, 3]));
    }
}
