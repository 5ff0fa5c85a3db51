//! Who has least to do for its weight? By a look at all of them, or at two drawn at random.
//!
//! All: the shortest queue there is, at the price of one look at everybody. Two: nearly as short, and many gateways that
//! do not see each other's requests do not all rush to the one that is idle. Weights count twice there: in the draw, and in
//! what a load means.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use fastrand::Rng;
use smallvec::SmallVec;

use super::Candidate;
use super::random::draw;

/// An answer takes at least this long, or many in flight would weigh nothing.
const SHORTEST: f64 = 1e-6;
/// The typical time to an answer is that of so many.
const SURVEYED: usize = 64;

/// Whoever has least in flight for its weight; of several, any, by weight.
pub(super) fn least_in_flight<'l>(
    candidates: impl Iterator<Item = Candidate<'l>>,
    now: Instant,
    random: &mut Rng,
) -> Option<usize> {
    let mut least: Option<(u128, Candidate<'l>)> = None;
    let mut tied = 0_u64;
    for candidate in candidates.filter(|candidate| candidate.weight > 0) {
        let load = candidate.load.weighed(now) as u128;
        // In units of the other's weight: no division.
        let order = least.map_or(std::cmp::Ordering::Less, |(least, chosen)| {
            (load * u128::from(chosen.weight)).cmp(&(least * u128::from(candidate.weight)))
        });
        tied = match order {
            std::cmp::Ordering::Less => candidate.weight,
            std::cmp::Ordering::Equal => tied.saturating_add(candidate.weight),
            std::cmp::Ordering::Greater => continue,
        };
        if random.u64(..tied) < candidate.weight {
            least = Some((load, candidate));
        }
    }
    least.map(|(_, candidate)| candidate.member)
}

/// Two drawn by weight; the one that would have less in flight for its weight.
pub(super) fn two_choices<'l, I: Iterator<Item = Candidate<'l>>>(
    candidates: impl Fn() -> I,
    now: Instant,
    random: &mut Rng,
) -> Option<usize> {
    better_of_two(candidates, |one| (one.load.weighed(now) as f64 + 1.0) / one.weight as f64, random)
}

/// Two drawn by weight; the one that promises the earlier answer: its time to an answer, times what it would have in
/// flight for its weight. Of whom nothing is known the typical time of the others is expected.
pub(super) fn peak_ewma<'l, I: Iterator<Item = Candidate<'l>>>(
    candidates: impl Fn() -> I,
    decay: Duration,
    now: Instant,
    random: &mut Rng,
) -> Option<usize> {
    let known = |one: Candidate<'l>| one.load.latency(decay, now);
    let typical = OnceCell::new();
    let expected = || *typical.get_or_init(|| median(candidates().filter_map(known)).unwrap_or(1.0));
    let cost = |one: &Candidate<'l>| {
        let seconds = known(*one).unwrap_or_else(expected).max(SHORTEST);
        seconds * (one.load.in_flight() as f64 + 1.0) / one.weight as f64
    };
    better_of_two(&candidates, cost, random)
}

/// The first drawn if they cost the same.
fn better_of_two<'l, I: Iterator<Item = Candidate<'l>>>(
    candidates: impl Fn() -> I,
    cost: impl Fn(&Candidate<'l>) -> f64,
    random: &mut Rng,
) -> Option<usize> {
    let first = draw(candidates(), random)?;
    let second = draw(candidates().filter(|other| other.member != first.member), random);
    let better = second.filter(|second| cost(second) < cost(&first)).unwrap_or(first);
    Some(better.member)
}

fn median(times: impl Iterator<Item = f64>) -> Option<f64> {
    let mut times: SmallVec<[f64; SURVEYED]> = times.take(SURVEYED).collect();
    let middle = times.len() / 2;
    (!times.is_empty()).then(|| *times.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::super::Load;
    use super::super::load::{candidates, loads};
    use super::*;

    const DECAY: Duration = Duration::from_secs(10);

    fn busy(in_flight: &[usize]) -> Vec<Load> {
        let loads = loads(in_flight.len());
        loads.iter().zip(in_flight).for_each(|(load, count)| (0..*count).for_each(|_| load.enter()));
        loads
    }

    /// How often each is chosen.
    fn counts(times: usize, members: usize, mut choose: impl FnMut(&mut Rng) -> Option<usize>) -> Vec<usize> {
        let (mut random, mut counts) = (Rng::with_seed(7), vec![0; members]);
        (0..times).for_each(|_| counts[choose(&mut random).unwrap()] += 1);
        counts
    }

    fn two(weights: &[u64], in_flight: &[usize], times: usize) -> Vec<usize> {
        let (loads, now) = (busy(in_flight), Instant::now());
        counts(times, weights.len(), |random| two_choices(|| candidates(&loads, weights), now, random))
    }

    fn all(weights: &[u64], in_flight: &[usize], times: usize) -> Vec<usize> {
        let (loads, now) = (busy(in_flight), Instant::now());
        counts(times, weights.len(), |random| least_in_flight(candidates(&loads, weights), now, random))
    }

    #[test]
    fn nobody_is_chosen_from_nobody() {
        let (loads, now, mut random) = (loads(2), Instant::now(), Rng::with_seed(7));
        let nobody = || candidates(&loads, &[0, 0]);
        assert_eq!(two_choices(nobody, now, &mut random), None);
        assert_eq!(least_in_flight(nobody(), now, &mut random), None);
        assert_eq!(peak_ewma(nobody, DECAY, now, &mut random), None);
    }

    #[test]
    fn the_only_one_is_chosen_however_loaded() {
        assert_eq!(two(&[0, 3, 0], &[0, 99, 0], 10), [0, 10, 0]);
        assert_eq!(all(&[0, 3, 0], &[0, 99, 0], 10), [0, 10, 0]);
    }

    #[test]
    fn equals_share_equally_and_others_by_weight() {
        assert!(two(&[1; 4], &[0; 4], 4000).iter().all(|count| (800..1200).contains(count)));
        assert!(all(&[1; 4], &[5; 4], 4000).iter().all(|count| (800..1200).contains(count)));
        let idle = all(&[3, 1], &[0, 0], 4000);
        assert!((2800..3200).contains(&idle[0]), "{idle:?}");
    }

    #[test]
    fn the_most_loaded_is_never_chosen() {
        assert_eq!(two(&[1; 3], &[9, 0, 0], 1000)[0], 0);
        assert_eq!(all(&[1; 3], &[1, 9, 2], 1000), [1000, 0, 0]);
    }

    #[test]
    fn a_load_weighs_less_on_a_heavier_one() {
        assert_eq!(two(&[10, 1], &[4, 1], 1000), [1000, 0]);
        assert_eq!(all(&[10, 1], &[4, 1], 1000), [1000, 0]);
    }

    #[test]
    fn a_failed_try_weighs_for_one_more_second() {
        let (loads, start) = (loads(2), Instant::now());
        loads[0].failed(start);
        for choose in [
            |loads: &[Load], now, random: &mut Rng| two_choices(|| candidates(loads, &[1, 1]), now, random),
            |loads: &[Load], now, random: &mut Rng| least_in_flight(candidates(loads, &[1, 1]), now, random),
        ] {
            let at = |ms| start + Duration::from_millis(ms);
            assert_eq!(counts(100, 2, |random| choose(&loads, at(1000), random)), [0, 100]);
            assert!(counts(100, 2, |random| choose(&loads, at(1200), random))[0] > 20);
        }
    }

    fn by_latency(loads: &[Load], now: Instant) -> Vec<usize> {
        let weights = vec![1; loads.len()];
        counts(1000, loads.len(), |random| peak_ewma(|| candidates(loads, &weights), DECAY, now, random))
    }

    #[test]
    fn the_slower_of_two_is_chosen_only_when_the_other_has_more_to_do() {
        let (loads, now) = (loads(2), Instant::now());
        loads[0].took(Duration::from_millis(10), DECAY, now);
        loads[1].took(Duration::from_millis(35), DECAY, now);
        assert_eq!(by_latency(&loads, now), [1000, 0]);
        (0..3).for_each(|_| loads[0].enter());
        assert_eq!(by_latency(&loads, now), [0, 1000]);
    }

    #[test]
    fn newcomer_is_expected_to_be_like_the_others() {
        let (loads, now) = (loads(4), Instant::now());
        for (load, ms) in loads.iter().zip([10, 20, 90]) {
            load.took(Duration::from_millis(ms), DECAY, now);
        }
        let counts = by_latency(&loads, now);
        assert_eq!(counts[2], 0, "{counts:?}");
        assert!(counts[3] > 0, "as fast as the second: {counts:?}");
        loads[3].enter();
        loads[3].enter();
        loads[3].enter();
        loads[3].enter();
        assert_eq!(by_latency(&loads, now)[3], 0);
    }

    #[test]
    fn where_nothing_is_known_the_less_loaded_of_two_is_chosen() {
        let now = Instant::now();
        assert_eq!(by_latency(&busy(&[1, 0]), now), [0, 1000]);
    }

    #[test]
    fn answers_in_no_time_do_not_make_any_load_bearable() {
        let (loads, now) = (busy(&[5, 0]), Instant::now());
        loads.iter().for_each(|load| load.took(Duration::ZERO, DECAY, now));
        assert_eq!(by_latency(&loads, now), [0, 1000]);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod properties {
    use std::cell::RefCell;

    use proptest::prelude::*;

    use super::super::load::{candidates, loads};
    use super::*;

    proptest! {
        #[test]
        fn two_choices_are_of_two_different_ones_and_never_the_worse(
            members in proptest::collection::vec((0_u64..5, 0_u32..9), 1..20),
            seed in any::<u64>(),
        ) {
            let loads = loads(members.len());
            let weights: Vec<u64> = members.iter().map(|(weight, _)| *weight).collect();
            let asked = RefCell::new(Vec::new());
            let cost = |one: &Candidate<'_>| {
                asked.borrow_mut().push(one.member);
                (f64::from(members[one.member].1) + 1.0) / one.weight as f64
            };
            let chosen = better_of_two(|| candidates(&loads, &weights), cost, &mut fastrand::Rng::with_seed(seed));
            let mut asked = asked.into_inner();
            asked.sort_unstable();
            asked.dedup();
            let able = weights.iter().filter(|weight| **weight > 0).count();
            prop_assert_eq!(chosen.is_some(), able > 0);
            prop_assert_eq!(asked.len(), if able > 1 { 2 } else { 0 });
            let cost = |at: usize| (f64::from(members[at].1) + 1.0) / members[at].0 as f64;
            if let Some(chosen) = chosen {
                prop_assert!(weights[chosen] > 0);
                prop_assert!(asked.iter().all(|other| cost(chosen) <= cost(*other)));
            }
        }

        #[test]
        fn least_in_flight_leaves_nobody_with_less(
            members in proptest::collection::vec((0_u64..5, 0_usize..9), 1..20),
            seed in any::<u64>(),
        ) {
            let (loads, now) = (loads(members.len()), Instant::now());
            let weights: Vec<u64> = members.iter().map(|(weight, _)| *weight).collect();
            for (load, (_, count)) in loads.iter().zip(&members) {
                (0..*count).for_each(|_| load.enter());
            }
            let chosen = least_in_flight(candidates(&loads, &weights), now, &mut fastrand::Rng::with_seed(seed));
            prop_assert_eq!(chosen.is_some(), weights.iter().any(|weight| *weight > 0));
            if let Some(chosen) = chosen {
                let (weight, load) = members[chosen];
                prop_assert!(weight > 0);
                let no_less = |(w, l): &(u64, usize)| *w == 0 || load as u64 * *w <= *l as u64 * weight;
                prop_assert!(members.iter().all(no_less), "{} of {:?}", chosen, members);
            }
        }
    }
}
