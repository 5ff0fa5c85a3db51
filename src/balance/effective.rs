//! What part of the circle does each member take now? From the ring and the part that each of its points takes.
//!
//! A key goes to the first point from its hash on that takes it, and `u` says nothing about where on the circle a key
//! is: of the keys before a point with the part `f` that many are taken there, the next point with a greater part takes
//! those in between, and so on. What nobody takes falls to the first member that is usable. Keys of somebody new stay
//! with those that were there before.

use super::moved::each_stretch;
use super::ring::{CIRCLE, Ring};
use super::share::Factor;

/// How a member stands.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    /// May keys that nobody takes go to it?
    pub usable: bool,
    /// With which change it came: members of a smaller number were there before.
    pub came: u32,
    /// It is to have keys that it does not take yet, and until then those that were there before have them.
    pub new: bool,
}

/// The part of the circle each member takes; the sum is 1, or 0 where nobody takes anything.
///
/// `part` is what a member takes of the keys before a point of its own.
pub fn effective_shares(
    ring: &Ring,
    part: impl Fn(usize, u32) -> Factor,
    stands: impl Fn(usize) -> Standing,
) -> Vec<f64> {
    let stands: Vec<Standing> = (0..ring.len()).map(stands).collect();
    let point = |(hash, member): (u32, usize)| {
        let stands = *stands.get(member)?;
        let part = part(member, hash);
        let counts = !part.is_none() || stands.usable || stands.new;
        counts.then_some(Point { hash, member, part, stands })
    };
    let points: Vec<Point> = ring.points().filter_map(point).collect();
    let mut shares = vec![0_u128; ring.len()];
    let mut ahead = Everybody::of(&stands);
    // Once around to know what lies ahead of the last point, and once to count.
    points.iter().rev().for_each(|point| ahead.pass(point));
    for (at, point) in points.iter().enumerate().rev() {
        ahead.pass(point);
        let before = at.checked_sub(1).or(points.len().checked_sub(1)).and_then(|before| points.get(before));
        let arc = before.map_or(0, |before| u64::from(point.hash.wrapping_sub(before.hash)));
        ahead.share_out(point, if arc == 0 { CIRCLE } else { arc }, &mut shares);
    }
    let whole = (u128::from(CIRCLE) * u128::from(Factor::FULL.to_bits())) as f64;
    shares.into_iter().map(|share| share as f64 / whole).collect()
}

/// The part of the circle each member takes while one ring takes the place of another: `part` of its own goes to a new
/// owner, the rest to whom `former` names for a hash. Members of the new ring come first in the list of so many.
pub fn handed_shares(
    (old, new): (&Ring, &Ring),
    members: usize,
    part: impl Fn(usize) -> Factor,
    former: impl Fn(u32) -> Option<usize>,
) -> Vec<f64> {
    let mut shares = vec![0.0; members];
    each_stretch(old, new, |stretch| {
        let (length, taken) = (stretch.length as f64 / CIRCLE as f64, part(stretch.after).part());
        let rest = former(stretch.end).unwrap_or(stretch.after);
        for (member, share) in [(stretch.after, taken), (rest, 1.0 - taken)] {
            shares.get_mut(member).into_iter().for_each(|sum| *sum += length * share);
        }
    });
    shares
}

struct Point {
    hash: u32,
    member: usize,
    part: Factor,
    stands: Standing,
}

/// Who takes the keys before a point: of all members, and of those that were there before somebody new.
struct Everybody {
    all: Ahead,
    /// By the change with which somebody new came.
    before: Vec<(u32, Ahead)>,
    /// The nearest that is usable.
    usable: Option<usize>,
}

impl Everybody {
    fn of(members: &[Standing]) -> Self {
        let mut changes: Vec<u32> = members.iter().filter(|one| one.new).map(|one| one.came).collect();
        changes.sort_unstable();
        changes.dedup();
        let before = changes.into_iter().map(|came| (came, Ahead::default())).collect();
        Self { all: Ahead::default(), before, usable: None }
    }

    /// Goes back to before `point`.
    fn pass(&mut self, point: &Point) {
        self.all.pass(point);
        let older = self.before.iter_mut().filter(|(came, _)| point.stands.came < *came);
        older.for_each(|(_, ahead)| ahead.pass(point));
        if point.stands.usable {
            self.usable = Some(point.member);
        }
    }

    fn share_out(&self, point: &Point, arc: u64, shares: &mut [u128]) {
        let before = self.before.iter().find(|(came, _)| point.stands.new && *came == point.stands.came);
        let (own, ahead) = match before {
            Some((_, before)) => (Some((point.part, point.member)), before),
            None => (None, &self.all),
        };
        let rest = self.usable.map(|member| (Factor::FULL, member));
        let mut taken = Factor::NONE;
        for (part, member) in own.into_iter().chain(ahead.takers.iter().rev().copied()).chain(rest) {
            if let Some(share) = shares.get_mut(member) {
                *share += u128::from(arc) * u128::from(part.to_bits().saturating_sub(taken.to_bits()));
            }
            taken = taken.max(part);
        }
    }
}

/// From the nearest on, each with a greater part than all nearer ones; the nearest last.
#[derive(Default)]
struct Ahead {
    takers: Vec<(Factor, usize)>,
}

impl Ahead {
    fn pass(&mut self, point: &Point) {
        while self.takers.last().is_some_and(|(part, _)| *part <= point.part) {
            self.takers.pop();
        }
        if !point.part.is_none() {
            self.takers.push((point.part, point.member));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash;
    use super::*;

    fn ring(members: usize) -> Ring {
        let names: Vec<String> = (0..members).map(|n| format!("10.0.0.{n}:80")).collect();
        Ring::new(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>())
    }

    fn stands(_: usize) -> Standing {
        Standing { usable: true, came: 0, new: false }
    }

    #[test]
    fn what_somebody_new_does_not_take_yet_is_with_those_before() {
        let ring = ring(6);
        let stands = |member: usize| Standing { usable: member != 5, came: u32::from(member > 2), new: member > 2 };
        let part = |member: usize, _| Factor::new([1.0, 1.0, 1.0, 0.2, 0.5, 0.0][member]);
        let shares = effective_shares(&ring, part, stands);
        for (member, part) in [(3, 0.2), (4, 0.5), (5, 0.0)] {
            let own = ring.shares()[member] * part;
            assert!((shares[member] - own).abs() < 1e-9, "{} instead of {own}", shares[member]);
        }
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn where_everybody_takes_all_the_shares_are_those_of_the_ring() {
        let ring = ring(5);
        assert_eq!(effective_shares(&ring, |_, _| Factor::FULL, stands), ring.shares());
    }

    #[test]
    fn a_part_of_a_share_is_that_part() {
        let ring = ring(5);
        let part = |member: usize, _| Factor::new(if member == 2 { 0.25 } else { 1.0 });
        let shares = effective_shares(&ring, part, stands);
        assert!((shares[2] - ring.shares()[2] / 4.0).abs() < 1e-9);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn nobody_takes_anything_of_a_ring_without_points_or_takers() {
        assert_eq!(effective_shares(&ring(0), |_, _| Factor::FULL, stands), [0.0; 0]);
        assert_eq!(
            effective_shares(&ring(3), |_, _| Factor::NONE, |member| Standing { usable: false, ..stands(member) }),
            [0.0; 3]
        );
        assert_eq!(effective_shares(&ring(1), |_, _| Factor::new(0.1), stands), [1.0]);
    }

    #[test]
    fn handed_shares_go_from_one_ring_to_the_other() {
        let (old, new) = (Ring::new(&[("a:1", 1), ("b:1", 1)]), Ring::new(&[("c:1", 1), ("a:1", 1)]));
        // On the new ring: c is 0, a is 1; b of the old one comes after.
        let numbers = [1, 2];
        let former = |hash| old.owner(hash).map(|member| numbers[member]);
        let at = |part: f64| handed_shares((&old, &new), 3, |member| Factor::new([part, 1.0][member]), former);
        let (none, half, all) = (at(0.0), at(0.5), at(1.0));
        assert!((all[0] - new.shares()[0]).abs() < 1e-9 && (all[1] - new.shares()[1]).abs() < 1e-9 && all[2] < 1e-9);
        assert!(none[0] < 1e-9 && none[1] > old.shares()[0], "a takes what is its own on either ring");
        for shares in [&none, &half, &all] {
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        }
        assert!((half[0] - all[0] / 2.0).abs() < 1e-9);
    }

    #[test]
    fn shares_are_what_keys_find() {
        let ring = ring(6);
        let parts = [1.0, 0.3, 0.0, 0.7, 0.3, 0.05];
        let usable = |member: usize| parts[member] > 0.0 && member != 5;
        let shares = effective_shares(
            &ring,
            |member, _| Factor::new(parts[member]),
            |member| Standing { usable: usable(member), ..stands(member) },
        );
        let mut found = [0.0; 6];
        for n in 0..100_000 {
            let hash = hash(format!("/obj/{n}").as_bytes());
            let taker = ring.walk(hash).find(|member| Factor::new(parts[*member]).takes(hash));
            found[taker.or_else(|| ring.walk(hash).find(|member| usable(*member))).unwrap()] += 1e-5;
        }
        assert!(shares.iter().zip(found).all(|(share, found)| (share - found).abs() < 0.005), "{shares:?} {found:?}");
    }
}
