//! Whose turn is it? Smooth weighted round robin: each turn everybody gains its weight, and whoever has gained most is
//! chosen and pays for all.
//!
//! Over one cycle everybody is chosen exactly by its weight, and a heavy one not in one burst: 5:1:1 gives a a b a c a a.
//! What was gained is kept with each origin and survives a reload; whoever may not be chosen gains nothing meanwhile.
//! One lock a pool, held for one look at its candidates, makes one order of the picks of all shards.

use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;

use super::Candidate;

/// The turns of a pool, one for the whole process: a snapshot hands them to the next.
#[derive(Debug, Default)]
pub struct Turns(Mutex<()>);

impl Turns {
    /// Whose turn it is; of several, the first's.
    pub(super) fn next<'l>(&self, candidates: impl Iterator<Item = Candidate<'l>>) -> Option<usize> {
        let _one_at_a_time = self.0.lock();
        let mut total = 0_i64;
        let mut first: Option<(i64, Candidate<'l>)> = None;
        for candidate in candidates {
            let weight = i64::try_from(candidate.weight).unwrap_or(i64::MAX);
            let credit = candidate.load.credit().load(Relaxed).saturating_add(weight);
            candidate.load.credit().store(credit, Relaxed);
            total = total.saturating_add(weight);
            if first.is_none_or(|(most, _)| credit > most) {
                first = Some((credit, candidate));
            }
        }
        let (credit, chosen) = first?;
        chosen.load.credit().store(credit.saturating_sub(total), Relaxed);
        Some(chosen.member)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::super::Load;
    use super::super::load::{candidates, loads};
    use super::*;

    /// Whose turn it is, `times` times, among those that have a weight.
    pub(super) fn turns(turns: &Turns, loads: &[Load], weights: &[u64], times: usize) -> Vec<usize> {
        let able = || candidates(loads, weights).filter(|candidate| candidate.weight > 0);
        (0..times).map(|_| turns.next(able()).unwrap()).collect()
    }

    fn named(turns: &[usize]) -> String {
        turns.iter().map(|member| ["a", "b", "c", "d"][*member]).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn five_to_one_to_one_is_smooth_and_begins_with_the_first() {
        let (order, loads) = (Turns::default(), loads(3));
        assert_eq!(named(&turns(&order, &loads, &[5, 1, 1], 7)), "a a b a c a a");
        assert_eq!(named(&turns(&order, &loads, &[5, 1, 1], 7)), "a a b a c a a", "and again");
    }

    #[test]
    fn equal_weights_are_one_after_the_other_whatever_their_unit() {
        let (order, loads) = (Turns::default(), loads(4));
        assert_eq!(named(&turns(&order, &loads, &[1000 << 32; 4], 8)), "a b c d a b c d");
    }

    #[test]
    fn who_is_out_for_a_while_gains_nothing_by_it() {
        let (order, loads) = (Turns::default(), loads(3));
        turns(&order, &loads, &[1, 1, 1], 4);
        assert_eq!(named(&turns(&order, &loads, &[1, 0, 1], 6)), "c c a c a c");
        let after = turns(&order, &loads, &[1, 1, 1], 6);
        assert!((0..3).all(|member| after.iter().filter(|turn| **turn == member).count() == 2), "{after:?}");
    }

    #[test]
    fn nobody_is_chosen_from_nobody() {
        assert_eq!(Turns::default().next(std::iter::empty()), None);
    }

    #[test]
    fn turns_of_many_threads_make_one_order() {
        let (order, loads) = (Turns::default(), loads(3));
        let counts = std::thread::scope(|scope| {
            let picking = (0..4).map(|_| scope.spawn(|| turns(&order, &loads, &[5, 1, 1], 700))).collect::<Vec<_>>();
            let all: Vec<usize> = picking.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            [0, 1, 2].map(|member| all.iter().filter(|turn| **turn == member).count())
        });
        assert_eq!(counts, [2000, 400, 400]);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::super::load::loads;
    use super::tests::turns;
    use super::*;

    fn longest_run(turns: &[usize], member: usize) -> usize {
        turns.split(|turn| *turn != member).map(<[usize]>::len).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn one_cycle_has_exact_shares_and_no_long_bursts(weights in proptest::collection::vec(1_u64..30, 2..12)) {
            let total: u64 = weights.iter().sum();
            let (order, loads) = (Turns::default(), loads(weights.len()));
            let cycle = turns(&order, &loads, &weights, total as usize);
            for (member, weight) in weights.iter().enumerate() {
                prop_assert_eq!(cycle.iter().filter(|turn| **turn == member).count() as u64, *weight);
                // Longer than the shares make necessary, but never twice as long.
                let needed = weight.div_ceil(total - weight) as usize;
                prop_assert!(longest_run(&cycle.repeat(2), member) <= 2 * needed, "{:?}", cycle);
            }
            prop_assert_eq!(turns(&order, &loads, &weights, total as usize), cycle, "the next cycle is the same");
        }

        #[test]
        fn nobody_is_two_requests_ahead_of_its_share_or_behind_it(
            weights in proptest::collection::vec(1_u64..30, 2..12),
        ) {
            let total: u64 = weights.iter().sum();
            let cycle = turns(&Turns::default(), &loads(weights.len()), &weights, total as usize);
            let mut counts = vec![0_u64; weights.len()];
            for (made, turn) in (1..).zip(cycle) {
                counts[turn] += 1;
                for (count, weight) in counts.iter().zip(&weights) {
                    let due = made as f64 * *weight as f64 / total as f64;
                    prop_assert!((*count as f64 - due).abs() < 2.0);
                }
            }
        }
    }
}
