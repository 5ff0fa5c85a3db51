//! Which origin of a pool is to shed load? Rule H7: at most one in each window, and only one that does much worse than
//! the rest.
//!
//! What one sheds the others get. So nobody sheds anything when the rest is not well, or when others gave up much
//! already: an overloaded pool is left as it is, for moving its load around makes every cache miss and helps nobody.
//! Pure, but for [`Watch`], which carries it out; time is an argument.

use std::time::{Duration, Instant};

use super::course::window;
use super::passive::Signs;
use super::policy::Overload;
use super::{Policy, Target};

/// How long a window is.
const WINDOW: Duration = Duration::from_secs(5);
/// A window with fewer answers, or of fewer keys, says nothing.
const ANSWERS: u32 = 20;
const KEYS: u32 = 10;
/// What fewer clients got says more of them than of the origin.
const CLIENTS: u32 = 3;
/// Whoever is above this is overloaded, whoever is below that is well.
const MUCH: f64 = 0.1;
const LITTLE: f64 = 0.025;
/// What a probe that is answered as overloaded stands for.
const PROBE: f64 = 0.5;
/// Nobody sheds anything while this part of the pool's weight is hidden.
const HIDDEN: f64 = 0.1;
/// No answer is slow that takes no longer, and the median of the pool is that of the time before.
const QUICK: Duration = Duration::from_millis(20);
const BEFORE: Duration = Duration::from_secs(10);

/// How an origin did in a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Strain {
    /// There were enough answers to go by.
    enough: bool,
    /// The part of them that says that it has too much to do, whoever got them.
    all: f64,
    /// The same without what concerned few clients alone.
    ratio: f64,
}

/// An origin among the others of its pool.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sight {
    pub(super) strain: Strain,
    /// Its weight in the pool.
    pub(super) weight: f64,
    /// What others have of that for now.
    pub(super) hidden: f64,
    /// It serves, and has something left to give.
    pub(super) can_step: bool,
}

impl Strain {
    /// Of these answers; `probed`: the last probe of the window was answered as overloaded.
    pub(super) fn of(answers: &Signs, probed: bool) -> Self {
        let said = if probed { PROBE } else { 0.0 };
        let busy = if answers.keys > 0 { answers.busy / f64::from(answers.keys) } else { 0.0 };
        let ratio = if answers.clients >= CLIENTS { busy } else { 0.0 };
        Self { enough: answers.count >= ANSWERS && answers.keys >= KEYS, all: busy.max(said), ratio: ratio.max(said) }
    }

    /// Is nothing known against it?
    fn is_calm(&self) -> bool {
        self.all < LITTLE
    }
}

/// Who sheds load after this window, and how overloaded it is?
fn whom(pool: &[Sight]) -> Option<(usize, f64)> {
    let overloaded = |sight: &Sight| sight.can_step && sight.strain.enough && sight.strain.ratio > MUCH;
    let all = pool.iter().enumerate().filter(|(_, sight)| overloaded(sight));
    let (at, one) = all.max_by(|(_, a), (_, b)| a.strain.ratio.total_cmp(&b.strain.ratio))?;
    let sum = |of: fn(&Sight) -> f64| pool.iter().map(of).sum::<f64>();
    let much = sum(|sight| sight.hidden) >= sum(|sight| sight.weight) * HIDDEN;
    (!much && mates_are_well(pool, at)).then_some((at, one.strain.ratio))
}

/// Are at least half of the others well, though they take all of their share?
fn mates_are_well(pool: &[Sight], at: usize) -> bool {
    pool.get(at).is_some_and(|one| Mates::of(pool).but(one).are_well())
}

/// How many of some origins take part, and how they are. Counted once for a pool: of ten thousand each has as many others.
#[derive(Debug, Clone, Copy, Default)]
struct Mates {
    all: usize,
    /// Though they take all of their share: whoever is well for what it gave up itself says nothing of the room there is.
    well: usize,
    strained: usize,
}

impl Mates {
    fn of<'s>(some: impl IntoIterator<Item = &'s Sight>) -> Self {
        let mut mates = Self::default();
        for Sight { strain, hidden, .. } in some.into_iter().filter(|sight| sight.weight > 0.0) {
            mates.all += 1;
            mates.well += usize::from(*hidden <= 0.0 && strain.enough && strain.is_calm());
            mates.strained += usize::from(strain.enough && !strain.is_calm());
        }
        mates
    }

    /// All of them but this one.
    fn but(self, one: &Sight) -> Self {
        let own = Self::of([one]);
        Self { all: self.all - own.all, well: self.well - own.well, strained: self.strained - own.strained }
    }

    fn are_well(self) -> bool {
        self.all > 0 && self.well * 2 >= self.all
    }

    /// Is it the pool that is overloaded, and not the one beside these? Then what that one shed is its own to answer.
    fn are_no_better(self) -> bool {
        !self.are_well() && self.all > 0 && self.strained * 2 >= self.all
    }
}

/// When the window of a pool began; handed from roster to roster.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch {
    began: Option<Instant>,
}

impl Watch {
    /// Looks at a pool whose window may be over, and has one of its origins shed what it is to.
    pub(super) fn look(&mut self, pool: &[Target], policy: &Policy, now: Instant) {
        pool.iter().for_each(|one| one.live.passive().watch(policy));
        let Some(rule) = &policy.overload else {
            self.began = None;
            return;
        };
        let passed = now.saturating_duration_since(*self.began.get_or_insert(now));
        if passed < WINDOW {
            return;
        }
        let began = self.began.replace(now).unwrap_or(now);
        let sights: Vec<Sight> = pool.iter().map(|one| one.live.sight(one, rule, began)).collect();
        let (stepped, all) = (whom(&sights), Mates::of(&sights));
        for (number, (one, sight)) in pool.iter().zip(&sights).enumerate() {
            match stepped.filter(|(at, _)| *at == number) {
                Some((_, ratio)) => one.live.shed(|shed| shed.step(ratio, rule, now)),
                None if sight.weight > 0.0 && all.but(sight).are_no_better() => {
                    one.live.shed(|shed| shed.step_back(rule));
                }
                None if sight.weight > 0.0 => {
                    one.live.shed(|shed| shed.pass(passed, sight.strain.is_calm(), rule, now));
                }
                None => {}
            }
        }
        bear(pool, rule, now);
    }
}

/// How long an answer may take until the end of the next window.
fn bear(pool: &[Target], rule: &Overload, now: Instant) {
    let patience = rule.slow.and_then(|times| {
        let all = window(pool, BEFORE, now);
        let median = all.quantile(0.5).filter(|_| all.answers() >= u64::from(ANSWERS))?;
        Some(median.mul_f64(times).max(QUICK))
    });
    pool.iter().for_each(|one| one.live.passive().bear(patience));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strain(ratio: f64) -> Strain {
        Strain { enough: true, all: ratio, ratio }
    }

    /// Origins of equal weight: how overloaded each is, and the part of its share it has.
    fn pool<const N: usize>(all: [(f64, f64); N]) -> [Sight; N] {
        all.map(|(ratio, part)| Sight { strain: strain(ratio), weight: 1.0, hidden: 1.0 - part, can_step: part > 0.1 })
    }

    #[track_caller]
    fn check<const N: usize>(all: [(f64, f64); N], expected: Option<usize>) {
        assert_eq!(whom(&pool(all)).map(|(at, _)| at), expected);
    }

    const FINE: (f64, f64) = (0.0, 1.0);

    #[test]
    fn only_the_one_that_does_worst_sheds_and_only_if_it_does_badly() {
        check([FINE, (0.11, 1.0), FINE, FINE], Some(1));
        check([FINE, (0.1, 1.0), FINE, FINE], None);
        check([FINE, (0.2, 1.0), (0.3, 1.0), FINE, FINE], Some(2));
        assert_eq!(whom(&pool([FINE, (0.4, 1.0)])), Some((1, 0.4)));
    }

    #[test]
    fn nobody_sheds_anything_when_the_rest_is_not_well() {
        check([(0.3, 1.0); 10], None);
        check([(0.4, 1.0), (0.03, 1.0), (0.03, 1.0), FINE], None);
        check([(0.4, 1.0), (0.03, 1.0), FINE, FINE], Some(0));
        check([(0.9, 1.0), (0.5, 1.0)], None);
        check([(0.9, 1.0)], None);
        check([(0.4, 1.0), (0.0, 0.9), (0.05, 1.0)], None);
        check([(0.4, 1.0), (0.0, 0.9), FINE], Some(0));
    }

    #[test]
    fn one_is_no_outlier_while_most_of_the_others_are_overloaded() {
        let first_is_none = |pool: &[Sight]| Mates::of(pool).but(&pool[0]).are_no_better();
        let no_outlier = |all: [(f64, f64); 4]| first_is_none(&pool(all));
        assert!(no_outlier([(0.3, 0.5), (0.3, 1.0), (0.3, 1.0), (0.3, 1.0)]));
        assert!(no_outlier([(0.0, 0.5), (0.3, 1.0), (0.03, 1.0), FINE]));
        assert!(!no_outlier([(0.3, 0.5), (0.3, 1.0), FINE, FINE]));
        assert!(first_is_none(&pool([(0.0, 0.8), (0.3, 1.0), (0.0, 0.5)])), "the third is well for what it shed");
        assert!(!first_is_none(&[Sight { weight: 1.0, ..Sight::default() }; 3]), "nothing is known");
    }

    #[test]
    fn nobody_sheds_anything_while_much_is_hidden() {
        check([(0.4, 1.0), FINE, FINE, (0.0, 0.5)], None);
        check([(0.4, 1.0), FINE, FINE, (0.0, 0.7)], Some(0));
        check([(0.4, 0.5), FINE, FINE, FINE], None);
        check([(0.4, 0.5), FINE, FINE, FINE, FINE, FINE], Some(0));
        check([(0.4, 0.5), FINE, FINE, FINE, FINE], None);
        check([(0.4, 0.1), (0.2, 1.0), FINE, FINE, FINE, FINE, FINE, FINE, FINE, FINE], Some(1));
        let mut one_is_out = pool([(0.4, 1.0), FINE, FINE, FINE]);
        one_is_out[3] = Sight { weight: 1.0, hidden: 1.0, ..Sight::default() };
        assert_eq!(whom(&one_is_out), None);
    }

    #[test]
    fn few_answers_keys_and_clients_say_nothing_against_anybody() {
        let answers = Signs { count: 100, keys: 20, busy: 10.0, clients: 3 };
        let of = |answers: Signs| Strain::of(&answers, false);
        assert_eq!(of(answers), Strain { enough: true, all: 0.5, ratio: 0.5 });
        assert!(!of(Signs { count: 19, ..answers }).enough && !of(Signs { keys: 9, ..answers }).enough);
        let few = of(Signs { clients: 2, ..answers });
        assert!(few.ratio == 0.0 && !few.is_calm(), "nor that it is well");
    }

    #[test]
    fn an_overloaded_probe_counts_as_half() {
        let answers = Signs { count: 100, keys: 20, busy: 0.0, clients: 0 };
        assert_eq!(Strain::of(&answers, true).ratio, 0.5);
        assert_eq!(Strain::of(&Signs { busy: 16.0, clients: 9, ..answers }, true).ratio, 0.8);
        assert!(!Strain::of(&Signs::default(), true).is_calm());
        assert!(Strain::of(&Signs::default(), false).is_calm(), "who has no answers may have more of them");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn sight()(ratio in 0.0..1.0_f64, enough: bool, weight in 1..5_u32, part in 0.1..=1.0_f64, out in prop::bool::weighted(0.1)) -> Sight {
            let weight = f64::from(weight);
            let part = if out { 0.0 } else { part };
            let ratio = if ratio < 0.5 { 0.0 } else { ratio };
            Sight { strain: Strain { enough, all: ratio, ratio }, weight, hidden: weight * (1.0 - part), can_step: part > 0.1 }
        }
    }

    proptest! {
        #[test]
        fn all_but_one_are_the_others(pool in prop::collection::vec(sight(), 1..12), at: prop::sample::Index) {
            let one = at.index(pool.len());
            let others = pool.iter().enumerate().filter(|(other, _)| *other != one).map(|(_, sight)| sight);
            let (mates, others) = (Mates::of(&pool).but(&pool[one]), Mates::of(others));
            prop_assert_eq!((mates.all, mates.well, mates.strained), (others.all, others.well, others.strained));
        }

        #[test]
        fn whoever_sheds_is_the_worst_and_others_are_well_and_have_their_share(pool in prop::collection::vec(sight(), 1..12)) {
            let Some((at, ratio)) = whom(&pool) else { return Ok(()) };
            prop_assert!(pool[at].can_step && ratio > MUCH);
            prop_assert!(pool.iter().all(|one| !one.can_step || !one.strain.enough || one.strain.ratio <= ratio));
            let mates: Vec<_> = pool.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, one)| one).collect();
            let well = mates.iter().filter(|mate| mate.strain.enough && mate.strain.all < LITTLE && mate.hidden <= 0.0).count();
            prop_assert!(well * 2 >= mates.len() && !mates.is_empty());
            let weight: f64 = pool.iter().map(|one| one.weight).sum();
            prop_assert!(pool.iter().map(|one| one.hidden).sum::<f64>() < weight * HIDDEN);
        }
    }
}
