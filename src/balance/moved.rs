//! What does a change of the pool move? The exact part of the hash circle whose owner differs between two rings,
//! from whom to whom, and the least any placement could move between the same shares.
//!
//! Exact means arcs, not samples: both rings are walked once, point by point. Origins are the same when their
//! names are; positions in the lists mean nothing.

use std::collections::{BTreeMap, HashMap};

use super::ring::{CIRCLE, Ring};

/// The difference between two rings; all numbers are parts of the hash circle.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// The part whose owner differs.
    pub ratio: f64,
    /// The least that must move to get from the shares before to the shares after.
    pub least_possible: f64,
    /// From whom to whom, the greatest first.
    pub pairs: Vec<Pair>,
    /// What each origin of either ring owned and owns, by name.
    pub shares: BTreeMap<String, Shares>,
}

/// A part of the circle that goes from one origin to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The owner before.
    pub from: String,
    /// The owner after.
    pub to: String,
    /// How much of the circle.
    pub share: f64,
}

/// The share of one origin.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Shares {
    /// On the first ring.
    pub before: f64,
    /// On the second ring.
    pub after: f64,
}

impl Moved {
    /// The part that moves, without what goes away from origins that `free` names.
    pub fn but_from(&self, free: impl Fn(&str) -> bool) -> f64 {
        let given_up: f64 = self.pairs.iter().filter(|pair| free(&pair.from)).map(|pair| pair.share).sum();
        (self.ratio - given_up).max(0.0)
    }
}

/// Compares the ring `before` a change with the one `after` it. Nothing moves from or to a ring without points.
pub fn moved(before: &Ring, after: &Ring) -> Moved {
    let shares = shares(before, after);
    if before == after {
        return Moved { ratio: 0.0, least_possible: 0.0, pairs: Vec::new(), shares };
    }
    let (names, ids) = numbered(before, after);
    let mut arcs = Vec::new();
    each_stretch(before, after, |stretch| {
        let (from, to) = (ids.0[stretch.before], ids.1[stretch.after]);
        if from != to {
            arcs.push((from, to, stretch.length));
        }
    });
    let arcs = summed(arcs);
    let mut pairs: Vec<Pair> = arcs.iter().map(|(from, to, length)| pair(names[*from], names[*to], *length)).collect();
    pairs.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| (&a.from, &a.to).cmp(&(&b.from, &b.to))));
    let ratio = part(arcs.iter().map(|(_, _, length)| length).sum());
    let gains = shares.values().map(|share| (share.after - share.before).max(0.0));
    // A sum of rounded parts may come out a hair above the exact one; more than what moved it cannot be.
    let least_possible = f64::min(gains.sum(), ratio);
    Moved { ratio, least_possible, pairs, shares }
}

fn pair(from: &str, to: &str, length: u64) -> Pair {
    Pair { from: from.to_owned(), to: to.to_owned(), share: part(length) }
}

/// The lengths of equal pairs added up.
fn summed(mut arcs: Vec<(usize, usize, u64)>) -> Vec<(usize, usize, u64)> {
    arcs.sort_unstable_by_key(|(from, to, _)| (*from, *to));
    arcs.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        kept.2 += if same { next.2 } else { 0 };
        same
    });
    arcs
}

fn part(length: u64) -> f64 {
    length as f64 / CIRCLE as f64
}

/// One number for each name, and for the members of each ring the numbers of their names.
fn numbered<'r>(before: &'r Ring, after: &'r Ring) -> (Vec<&'r str>, (Vec<usize>, Vec<usize>)) {
    let mut names = Vec::new();
    let mut known = HashMap::new();
    let mut number = |ring: &'r Ring| {
        let mut one = |name: &'r str| {
            *known.entry(name).or_insert_with(|| {
                names.push(name);
                names.len() - 1
            })
        };
        (0..ring.len()).map(|member| one(ring.name(member).unwrap_or_default())).collect()
    };
    let ids = (number(before), number(after));
    (names, ids)
}

fn shares(before: &Ring, after: &Ring) -> BTreeMap<String, Shares> {
    let mut shares: BTreeMap<String, Shares> = BTreeMap::new();
    let mut enter = |ring: &Ring, set: fn(&mut Shares) -> &mut f64| {
        for (member, share) in ring.shares().into_iter().enumerate() {
            *set(shares.entry(ring.name(member).unwrap_or_default().to_owned()).or_default()) += share;
        }
    };
    enter(before, |shares| &mut shares.before);
    enter(after, |shares| &mut shares.after);
    shares
}

/// A stretch of the circle without a point of either ring inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) length: u64,
    /// Its last hash.
    pub(super) end: u32,
    /// Who owns it on either ring.
    pub(super) before: usize,
    pub(super) after: usize,
}

/// Tells every stretch of the circle cut at the points of both rings.
pub(super) fn each_stretch(before: &Ring, after: &Ring, mut tell: impl FnMut(Stretch)) {
    let (mut old, mut new) = (before.points().peekable(), after.points().peekable());
    let (Some(first_old), Some(first_new)) = (old.peek().copied(), new.peek().copied()) else { return };
    let mut from = 0_u64;
    loop {
        let (here, there) = (old.peek().copied(), new.peek().copied());
        // Behind the last point of a ring its first one owns what is left.
        let (before, after) = (here.unwrap_or(first_old).1, there.unwrap_or(first_new).1);
        let Some(end) = here.into_iter().chain(there).map(|(hash, _)| hash).min() else {
            return tell(Stretch { length: CIRCLE - from, end: u32::MAX, before, after });
        };
        tell(Stretch { length: u64::from(end) + 1 - from, end, before, after });
        from = u64::from(end) + 1;
        old.next_if(|(hash, _)| *hash == end);
        new.next_if(|(hash, _)| *hash == end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(members: &[(&str, u32)]) -> Ring {
        Ring::new(members)
    }

    #[test]
    fn nothing_moves_between_equal_rings() {
        let moved = moved(&ring(&[("a:1", 1), ("b:1", 2)]), &ring(&[("b:1", 2), ("a:1", 1)]));
        assert_eq!((moved.ratio, moved.least_possible, moved.pairs.len()), (0.0, 0.0, 0));
        assert_eq!(moved.shares["a:1"].before, moved.shares["a:1"].after);
    }

    #[test]
    fn b1_a_new_origin_takes_its_share_and_no_more() {
        let moved = moved(
            &ring(&[("a:1", 1), ("b:1", 1), ("c:1", 1)]),
            &ring(&[("a:1", 1), ("b:1", 1), ("c:1", 1), ("d:1", 1)]),
        );
        assert!((0.20..0.30).contains(&moved.ratio), "{}", moved.ratio);
        assert_eq!(moved.ratio, moved.shares["d:1"].after);
        assert!((moved.ratio - moved.least_possible).abs() < 1e-12);
        assert!(moved.pairs.iter().all(|pair| pair.to == "d:1"));
    }

    #[test]
    fn b2_a_removed_origin_gives_up_its_share_and_no_more() {
        let moved = moved(&ring(&[("a:1", 1), ("b:1", 1), ("c:1", 1)]), &ring(&[("a:1", 1), ("b:1", 1)]));
        assert_eq!(moved.ratio, moved.shares["c:1"].before);
        assert!(moved.pairs.iter().all(|pair| pair.from == "c:1"));
    }

    #[test]
    fn what_goes_away_from_some_can_be_left_out() {
        let (before, after) = (ring(&[("a:1", 1), ("b:1", 1), ("c:1", 1)]), ring(&[("c:1", 1), ("d:1", 1)]));
        let moved = moved(&before, &after);
        let but_a = moved.but_from(|name| name == "a:1");
        assert!((moved.ratio - but_a - moved.shares["a:1"].before).abs() < 1e-9, "{but_a} of {}", moved.ratio);
        assert_eq!((moved.but_from(|_| false), moved.but_from(|_| true)), (moved.ratio, 0.0));
    }

    #[test]
    fn weights_on_another_scale_move_more_than_they_must() {
        let of = |weight| ring(&["a:1", "b:1", "c:1", "d:1"].map(|name| (name, weight)));
        let moved = moved(&of(1), &of(20));
        assert!(moved.least_possible < 0.15 && moved.ratio > 0.5, "{} of {}", moved.least_possible, moved.ratio);
    }

    #[test]
    fn everything_moves_between_strangers() {
        let moved = moved(&ring(&[("a:1", 1)]), &ring(&[("b:1", 1)]));
        assert_eq!((moved.ratio, moved.least_possible), (1.0, 1.0));
        assert_eq!(moved.pairs, [Pair { from: "a:1".into(), to: "b:1".into(), share: 1.0 }]);
    }

    #[test]
    fn a_ring_without_points_moves_nothing() {
        assert_eq!(moved(&ring(&[]), &ring(&[("b:1", 1)])).ratio, 0.0);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn rings() -> impl Strategy<Value = Ring> {
        proptest::collection::btree_map(0_u8..12, 1_u32..4, 1..8).prop_map(|members| {
            let members: Vec<_> = members.into_iter().map(|(n, weight)| (format!("10.0.0.{n}:80"), weight)).collect();
            Ring::new(&members.iter().map(|(name, weight)| (name.as_str(), *weight)).collect::<Vec<_>>())
        })
    }

    proptest! {
        #[test]
        fn the_parts_agree(before in rings(), after in rings(), hashes in proptest::collection::vec(any::<u32>(), 400)) {
            let result = moved(&before, &after);
            prop_assert!((result.pairs.iter().map(|pair| pair.share).sum::<f64>() - result.ratio).abs() < 1e-9);
            prop_assert!(result.least_possible <= result.ratio);
            for (name, shares) in &result.shares {
                let sum = |of: fn(&Pair) -> &String| -> f64 {
                    result.pairs.iter().filter(|pair| of(pair) == name).map(|pair| pair.share).sum()
                };
                let change = sum(|pair| &pair.to) - sum(|pair| &pair.from);
                prop_assert!((shares.after - shares.before - change).abs() < 1e-9);
            }
            let differs = |hash: &&u32| {
                let name = |ring: &Ring| ring.owner(**hash).and_then(|at| ring.name(at)).map(str::to_owned);
                name(&before) != name(&after)
            };
            let sampled = hashes.iter().filter(differs).count() as f64 / hashes.len() as f64;
            prop_assert!((sampled - result.ratio).abs() < 0.15, "{sampled} of a sample, {} of the circle", result.ratio);
        }
    }
}
