//! How far towards a new pool may one change go? The greatest part of the way that moves no more than a limit.
//!
//! A pool differs from another in its origins: some are new, some gone, some of another weight. These differences are
//! taken one after the other, what moves nothing and then the smallest first, as long as what they move together stays
//! within the limit; of the first that does not fit, as much of its weight as fits. Each try is a ring of its own, and a
//! dozen tries or two are enough for any pool.

use std::collections::{HashMap, HashSet};

use super::moved::moved;
use super::ring::Ring;

/// A part of the way.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What changes, in the order in which it was taken.
    pub edits: Vec<Edit>,
    /// The part of the circle it moves.
    pub moved: f64,
}

/// One origin that gets another weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Its name.
    pub name: String,
    /// Its weight before; 0: it is new.
    pub from: u32,
    /// Its weight after; 0: it goes.
    pub to: u32,
}

/// What a change is measured by.
#[derive(Debug, Clone, Copy)]
pub struct Scale<'a> {
    /// The ring it starts from.
    pub start: &'a Ring,
    /// Whose keys may go anywhere: nobody has them now.
    pub free: &'a HashSet<&'a str>,
}

impl Scale<'_> {
    /// The part of the circle that `ring` takes from origins that have it now.
    pub fn moved(&self, ring: &Ring) -> f64 {
        moved(self.start, ring).but_from(|name| self.free.contains(name))
    }
}

/// The greatest step from `before` towards `after` that moves at most `limit` of the circle; `None` when not even the
/// smallest does. Members are names and weights.
pub fn greatest(before: &[(&str, u32)], after: &[(&str, u32)], limit: f64, scale: Scale<'_>) -> Option<Step> {
    let way = Way::between(before, after, limit, scale);
    // The whole is known not to fit by whoever asks, but need not be.
    let whole = largest(way.edits.len(), |count| way.moves(count, None) <= limit);
    let partial = way.edits.get(whole).and_then(|next| way.partial(whole, next));
    let moved = way.moves(whole, partial.as_ref());
    let edits: Vec<Edit> = way.edits.iter().take(whole).cloned().chain(partial).collect();
    (!edits.is_empty() && moved <= limit).then_some(Step { edits, moved })
}

struct Way<'a> {
    /// The members before.
    before: &'a [(&'a str, u32)],
    /// All differences, in the order in which they are taken.
    edits: Vec<Edit>,
    limit: f64,
    scale: Scale<'a>,
}

impl<'a> Way<'a> {
    fn between(before: &'a [(&'a str, u32)], after: &[(&str, u32)], limit: f64, scale: Scale<'a>) -> Self {
        let new: HashMap<&str, u32> = after.iter().copied().collect();
        let old: HashSet<&str> = before.iter().map(|(name, _)| *name).collect();
        let kept = before.iter().map(|(name, from)| (*name, *from, new.get(name).copied().unwrap_or(0)));
        let added = after.iter().filter(|(name, _)| !old.contains(name)).map(|(name, to)| (*name, 0, *to));
        let differ = added.chain(kept).filter(|(_, from, to)| from != to);
        let mut edits: Vec<Edit> = differ.map(|(name, from, to)| Edit { name: name.to_owned(), from, to }).collect();
        let costs = |edit: &Edit| edit.to > edit.from || !scale.free.contains(edit.name.as_str());
        // Stable: newcomers before others, each in the order of its pool.
        edits.sort_by_key(|edit| (costs(edit), edit.from.abs_diff(edit.to)));
        Self { before, edits, limit, scale }
    }

    /// What the first `count` edits and a partial one move; a pool that would be left without origins counts as moved.
    fn moves(&self, count: usize, partial: Option<&Edit>) -> f64 {
        let edits = || self.edits.iter().take(count).chain(partial);
        let changed: HashMap<&str, u32> = edits().map(|edit| (edit.name.as_str(), edit.to)).collect();
        let old = self.before.iter().map(|(name, weight)| (*name, changed.get(name).copied().unwrap_or(*weight)));
        let new = edits().filter(|edit| edit.from == 0).map(|edit| (edit.name.as_str(), edit.to));
        let members: Vec<(&str, u32)> = old.chain(new).filter(|(_, weight)| *weight > 0).collect();
        if members.is_empty() { 1.0 } else { self.scale.moved(&Ring::new(&members)) }
    }

    /// As much of the weight of `next` as fits behind the first `count` edits.
    fn partial(&self, count: usize, next: &Edit) -> Option<Edit> {
        let at = |units: usize| {
            let units = u32::try_from(units).unwrap_or(u32::MAX);
            let to = if next.to > next.from { next.from + units } else { next.from - units };
            Edit { to, ..next.clone() }
        };
        // The last unit is the whole edit, which does not fit.
        let most = (next.from.abs_diff(next.to) as usize).saturating_sub(1);
        let units = largest(most, |units| self.moves(count, Some(&at(units))) <= self.limit);
        (units > 0).then(|| at(units))
    }
}

/// The largest number up to `most` that passes, if all below it do; 0 passes.
fn largest(most: usize, passes: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = (low + high).div_ceil(2);
        match passes(middle) {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const EIGHT: [(&str, u32); 8] =
        [("a:1", 1), ("b:1", 1), ("c:1", 1), ("d:1", 1), ("e:1", 1), ("f:1", 1), ("g:1", 1), ("h:1", 1)];

    fn step(before: &[(&str, u32)], after: &[(&str, u32)], limit: f64) -> Option<Step> {
        greatest(before, after, limit, Scale { start: &Ring::new(before), free: &HashSet::new() })
    }

    fn named(step: Option<Step>) -> Vec<(String, u32, u32)> {
        step.into_iter().flat_map(|step| step.edits).map(|edit| (edit.name, edit.from, edit.to)).collect()
    }

    fn told(edits: &[(&str, u32, u32)]) -> Vec<(String, u32, u32)> {
        edits.iter().map(|(name, from, to)| ((*name).to_owned(), *from, *to)).collect()
    }

    #[test]
    fn as_many_newcomers_as_fit_are_taken() {
        let mut twelve = EIGHT.to_vec();
        twelve.extend([("i:1", 1), ("j:1", 1), ("k:1", 1), ("l:1", 1)]);
        let greatest = step(&EIGHT, &twelve, 0.25).unwrap();
        assert_eq!(named(Some(greatest.clone())), told(&[("i:1", 0, 1), ("j:1", 0, 1)]));
        assert!((0.15..=0.25).contains(&greatest.moved), "{}", greatest.moved);
        assert_eq!(named(step(&EIGHT, &twelve, 1.0)).len(), 4);
        assert_eq!(step(&EIGHT, &twelve, 0.01), None);
    }

    #[test]
    fn of_a_heavy_one_as_much_weight_as_fits_is_taken() {
        let after = [EIGHT.as_slice(), &[("z:1", 8)]].concat();
        let greatest = step(&EIGHT, &after, 0.3).unwrap();
        let [edit] = greatest.edits.as_slice() else { panic!("{greatest:?}") };
        assert_eq!((edit.name.as_str(), edit.from), ("z:1", 0));
        assert!((2..=4).contains(&edit.to) && greatest.moved <= 0.3, "{greatest:?}");
        let heavier = [EIGHT.as_slice(), &[("z:1", edit.to + 1)]].concat();
        assert!(moved(&Ring::new(&EIGHT), &Ring::new(&heavier)).ratio > 0.3);
    }

    #[test]
    fn one_that_goes_may_go_by_weight() {
        let before = [("a:1", 10), ("b:1", 10)];
        let greatest = step(&before, &[("b:1", 10)], 0.2).unwrap();
        let [edit] = greatest.edits.as_slice() else { panic!("{greatest:?}") };
        assert!(edit.name == "a:1" && edit.from == 10 && (1..10).contains(&edit.to), "{edit:?}");
    }

    #[test]
    fn small_differences_come_before_great_ones() {
        let after = [("a:1", 5), ("b:1", 6), ("c:1", 100)];
        let greatest = step(&[("a:1", 5), ("b:1", 5)], &after, 0.1);
        assert_eq!(named(greatest)[0], ("b:1".to_owned(), 5, 6));
    }

    #[test]
    fn whoever_has_no_keys_now_goes_first_and_costs_nothing() {
        let after = [("a:1", 1), ("z:1", 1)];
        let (start, free) = (Ring::new(&EIGHT[..3]), HashSet::from(["b:1", "c:1"]));
        let greatest = greatest(&EIGHT[..3], &after, 0.0, Scale { start: &start, free: &free }).unwrap();
        assert_eq!((named(Some(greatest.clone())), greatest.moved), (told(&[("b:1", 1, 0), ("c:1", 1, 0)]), 0.0));
    }

    #[test]
    fn a_step_is_measured_from_where_keys_were() {
        let (start, free) = (Ring::new(&EIGHT[..4]), HashSet::new());
        let scale = Scale { start: &start, free: &free };
        assert_eq!(named(greatest(&EIGHT[..5], &EIGHT[..7], 0.4, scale)), told(&[("f:1", 0, 1)]));
        assert_eq!(greatest(&EIGHT[..7], &EIGHT, 0.2, scale), None, "that is used up");
    }

    #[test]
    fn nothing_is_left_to_do_between_equal_pools() {
        assert_eq!(step(&EIGHT, &EIGHT, 0.0), None);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn pools() -> impl Strategy<Value = Vec<(String, u32)>> {
        proptest::collection::btree_map(0_u8..9, 1_u32..6, 1..7)
            .prop_map(|members| members.into_iter().map(|(n, weight)| (format!("10.0.0.{n}:80"), weight)).collect())
    }

    fn borrowed(members: &[(String, u32)]) -> Vec<(&str, u32)> {
        members.iter().map(|(name, weight)| (name.as_str(), *weight)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_step_stays_within_the_limit_and_on_the_way(before in pools(), after in pools(), limit in 0.0..1.0) {
            let (before, after) = (borrowed(&before), borrowed(&after));
            let (start, free) = (Ring::new(&before), HashSet::new());
            let Some(step) = greatest(&before, &after, limit, Scale { start: &start, free: &free }) else {
                return Ok(());
            };
            prop_assert!(step.moved <= limit, "{step:?} above {limit}");
            let weight = |pool: &[(&str, u32)], name: &str| {
                pool.iter().find(|(known, _)| *known == name).map_or(0, |(_, weight)| *weight)
            };
            let mut reached: Vec<(&str, u32)> = before.clone();
            for edit in &step.edits {
                let (from, to) = (weight(&before, &edit.name), weight(&after, &edit.name));
                prop_assert_eq!(from, edit.from);
                prop_assert!((from.min(to)..=from.max(to)).contains(&edit.to), "{edit:?}");
                reached.retain(|(name, _)| *name != edit.name);
                if edit.to > 0 {
                    reached.push((edit.name.as_str(), edit.to));
                }
            }
            let of_rings = moved(&start, &Ring::new(&reached)).ratio;
            prop_assert!((of_rings - step.moved).abs() < 1e-9, "{of_rings} and {}", step.moved);
        }
    }
}
