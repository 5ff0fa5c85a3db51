//! Which of two has less to do? Two choices at random, the less loaded one wins: for requests without a key.
//!
//! Two looks instead of all keep many gateways from rushing to the same idle origin, and still avoid the loaded
//! ones. Weights count twice: in the draw, and in what a load means.

use fastrand::Rng;

/// Draws two different members by weight and answers the one with less load for its weight (the first drawn if
/// they are equal). A member of weight 0 is never drawn; `None` if there is no other.
///
/// `load` is what a member has in flight, and is asked of the two drawn members only.
pub fn two_choices(
    members: usize,
    weight: impl Fn(usize) -> u32,
    load: impl Fn(usize) -> usize,
    random: &mut Rng,
) -> Option<usize> {
    let total: u64 = (0..members).map(|member| u64::from(weight(member))).sum();
    let first = draw(members, &weight, total, random)?;
    let others = |member: usize| if member == first { 0 } else { weight(member) };
    let Some(second) = draw(members, others, total - u64::from(weight(first)), random) else { return Some(first) };
    // What each would have in flight with this request, in units of the other's weight: no division.
    let cost = |member: usize, other: usize| (load(member) as u128 + 1) * u128::from(weight(other));
    Some(if cost(first, second) <= cost(second, first) { first } else { second })
}

/// One member, with a chance in proportion to its weight.
fn draw(members: usize, weight: impl Fn(usize) -> u32, total: u64, random: &mut Rng) -> Option<usize> {
    let mut rest = if total > 0 { random.u64(..total) } else { return None };
    (0..members).find(|member| {
        let weight = u64::from(weight(*member));
        let found = rest < weight;
        rest = rest.saturating_sub(weight);
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(weights: &[u32], loads: &[usize], times: usize) -> Vec<usize> {
        let mut random = Rng::with_seed(7);
        let mut counts = vec![0; weights.len()];
        for _ in 0..times {
            counts[two_choices(weights.len(), |at| weights[at], |at| loads[at], &mut random).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn nobody_is_chosen_from_nobody() {
        let mut random = Rng::with_seed(7);
        assert_eq!(two_choices(0, |_| 1, |_| 0, &mut random), None);
        assert_eq!(two_choices(3, |_| 0, |_| 0, &mut random), None);
    }

    #[test]
    fn the_only_one_is_chosen_however_loaded() {
        assert_eq!(choices(&[0, 3, 0], &[0, 99, 0], 10), [0, 10, 0]);
    }

    #[test]
    fn equal_members_share_equally() {
        assert!(choices(&[1; 4], &[0; 4], 4000).iter().all(|count| (800..1200).contains(count)));
    }

    #[test]
    fn the_most_loaded_is_never_chosen() {
        assert_eq!(choices(&[1; 3], &[9, 0, 0], 1000)[0], 0);
    }

    #[test]
    fn a_load_weighs_less_on_a_heavier_member() {
        assert_eq!(choices(&[10, 1], &[4, 1], 1000), [1000, 0]);
    }
}

#[cfg(test)]
mod properties {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn never_the_worse_of_two_different_ones(
            members in proptest::collection::vec((0_u32..5, 0_usize..9), 1..20),
            seed in any::<u64>(),
        ) {
            let asked = RefCell::new(Vec::new());
            let load = |at: usize| {
                asked.borrow_mut().push(at);
                members[at].1
            };
            let chosen = two_choices(members.len(), |at| members[at].0, load, &mut fastrand::Rng::with_seed(seed));
            let mut asked = asked.into_inner();
            asked.sort_unstable();
            asked.dedup();
            let able = members.iter().filter(|(weight, _)| *weight > 0).count();
            prop_assert_eq!(chosen.is_some(), able > 0);
            prop_assert_eq!(asked.len(), if able > 1 { 2 } else { 0 });
            let cost = |at: usize| (members[at].1 as f64 + 1.0) / f64::from(members[at].0);
            if let Some(chosen) = chosen {
                prop_assert!(members[chosen].0 > 0);
                prop_assert!(asked.iter().all(|other| cost(chosen) <= cost(*other) + 1e-9));
            }
        }
    }
}
