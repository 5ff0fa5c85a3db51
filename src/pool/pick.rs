//! Which origin does the next attempt of a request go to? Rule R3.
//!
//! The passes are tried in their order, over origins this request has not tried yet. A pick by key takes no lock and
//! allocates nothing: it reads the ring, the board and, where there are limits, counts in flight. What it answers holds a
//! place at the origin already, so that no limit is ever exceeded, whoever picks at the same time.

use std::cell::Cell;
use std::time::Instant;

use fastrand::Rng;

use crate::balance::{Balancer, Candidate, Ring};
use crate::health::{Endpoint, Verdict};

use super::lease::Slot;
use super::reason::{Pass, Reason};
use super::room::Room;
use super::{Lease, Member, Pool, Side};

/// Points looked at one after the other: a microsecond's worth.
const NEAR: usize = 1024;
/// How often is looked again when others took the last place meanwhile.
const LOOKS: usize = 16;

/// What a pick is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The key's place on the circle; `None`: without a key, spread over the pool.
    pub hash: Option<u32>,
    /// Members this request has tried.
    pub tried: &'a [usize],
    /// When.
    pub now: Instant,
}

/// An origin to go to.
#[derive(Debug)]
pub struct Pick {
    /// Its number in the pool.
    pub member: usize,
    /// The place there, and its live state.
    pub origin: Slot,
    /// Where it is.
    pub endpoint: Endpoint,
    /// The pass that took it.
    pub pass: Pass,
    /// Why it is this one.
    pub reason: Reason,
    /// The algorithm that is to learn from the attempt.
    pub(super) balancer: Balancer,
    /// What was hashed, or drawn if there was nothing to hash: tells requests apart.
    pub(super) key: u32,
}

impl Pick {
    /// Begins the attempt.
    pub fn lease(self, now: Instant) -> Lease {
        Lease::new(self, now)
    }
}

/// A member that a request is placed at, before it is known how much room there is.
type Placed = (usize, Pass, Reason);

/// A member, before there is a place at it.
struct Choice {
    member: usize,
    pass: Pass,
    reason: Reason,
    /// Attempts that may be under way there, this one among them.
    most: usize,
}

impl Pool {
    /// The origin for the next attempt, or `None`: no origin may be asked (any more).
    pub fn pick(&self, ask: &Ask<'_>, random: &mut Rng) -> Option<Pick> {
        for _ in 0..LOOKS {
            let choice = self.choose(ask, random)?;
            if let Some(pick) = self.take(&choice, ask.hash, random) {
                return Some(pick);
            }
        }
        None
    }

    /// Is there an origin for a next attempt? Takes nobody's turn for an attempt that may not come.
    pub fn has_next(&self, ask: &Ask<'_>) -> bool {
        self.is_anybody_left(ask, |member| self.member(member).is_some_and(Room::is_below_limit))
    }

    /// Where a pick found nobody: only because everybody has as much in flight as it may? Rule R6.
    pub fn is_saturated(&self, ask: &Ask<'_>) -> bool {
        self.limited && self.is_anybody_left(ask, |_| true)
    }

    /// The member `member` once more, for a try that goes back to where the last one was and keeps its place.
    pub fn repeat(&self, member: usize, hash: Option<u32>, random: &mut Rng) -> Option<Pick> {
        let choice = Choice { member, pass: Pass::Own, reason: Reason::Repeat, most: usize::MAX };
        self.take(&choice, hash, random)
    }

    fn choose(&self, ask: &Ask<'_>, random: &mut Rng) -> Option<Choice> {
        if self.is_all_out() {
            let mut sides = self.sides().filter(|_| self.walks_in_panic);
            return sides.find_map(|side| self.panicking(side, ask, random));
        }
        let mut sides = self.sides().map(|side| self.usable(side, ask, random));
        sides.next()?.or_else(|| {
            let backup = sides.next()??;
            let reason = if self.is_full(ask) { Reason::BackupFull } else { Reason::Backup };
            Some(Choice { pass: Pass::Backup, reason, ..backup })
        })
    }

    /// Would one that is no backup be asked if it had room?
    fn is_full(&self, ask: &Ask<'_>) -> bool {
        let mut usable = self.sides().take(1).flat_map(|side| side.board.members());
        self.limited && usable.any(|member| self.is_left(member, ask))
    }

    /// Is nobody usable, not even a backup?
    fn is_all_out(&self) -> bool {
        self.sides().all(|side| side.board.usable() == 0)
    }

    fn usable(&self, side: Side<'_>, ask: &Ask<'_>, random: &mut Rng) -> Option<Choice> {
        if side.board.usable() == 0 {
            return None;
        }
        let left = |member: usize| self.is_left(member, ask);
        if !self.limited && self.bounded.is_none() {
            let (member, pass, reason) = self.placed_among(side, left, ask, random)?;
            return Some(Choice { member, pass, reason, most: usize::MAX });
        }
        let room = Room::of(self, side);
        let below_both = |member: usize| left(member) && room.below_both(member);
        if let Some((member, pass, reason)) = self.placed_among(side, below_both, ask, random) {
            let most = self.member(member).map_or(0, |member| room.most(member));
            return Some(Choice { member, pass, reason, most });
        }
        let (member, reason) = self.anyone_of(side, |at| left(at) && room.below_limit(at), ask, random)?;
        let most = self.member(member)?.max_in_flight;
        Some(Choice { member, pass: Pass::Usable, reason, most })
    }

    /// Passes 1 and 2, over those that are free for one more: by the key's place, and without a key whom the algorithm
    /// chooses.
    fn placed_among(
        &self,
        side: Side<'_>,
        free: impl Fn(usize) -> bool,
        ask: &Ask<'_>,
        random: &mut Rng,
    ) -> Option<Placed> {
        match ask.hash {
            None => self.unplaced(side, free, ask, random).map(|(member, reason)| (member, Pass::Own, reason)),
            Some(hash) if self.handover.is_some() && !side.backups => {
                self.handing_over(side, hash, &free, ask).or_else(|| {
                    // No ring knows those that serve: keys were not placed before.
                    let (member, _) = self.unplaced(side, &free, ask, random)?;
                    Some((member, Pass::Below, Reason::Former))
                })
            }
            Some(hash) if side.board.is_even() => {
                let (member, reason) = self.owner_or_next(side, hash, free, ask)?;
                Some((member, Pass::Own, reason))
            }
            Some(hash) => self.by_parts(side, hash, free, ask),
        }
    }

    /// Pass 3: whoever comes first, whether it takes the key or not.
    fn anyone_of(
        &self,
        side: Side<'_>,
        free: impl Fn(usize) -> bool,
        ask: &Ask<'_>,
        random: &mut Rng,
    ) -> Option<(usize, Reason)> {
        let Some(hash) = ask.hash else { return self.unplaced(side, free, ask, random) };
        let handover = self.handover.as_ref().filter(|_| !side.backups);
        let former = handover.and_then(|handover| handover.former(self, hash, &free));
        former.map(|former| (former, Reason::Former)).or_else(|| self.owner_or_next(side, hash, free, ask))
    }

    /// Whom the algorithm chooses of those that may have any request, by the weight that they have now.
    fn unplaced(
        &self,
        side: Side<'_>,
        free: impl Fn(usize) -> bool,
        ask: &Ask<'_>,
        random: &mut Rng,
    ) -> Option<(usize, Reason)> {
        let reason = if self.hashes { Reason::Spread } else { Reason::Balanced(self.balancer) };
        let weight = |member: usize| {
            let at_work = self.member(member).map_or(0, Member::weight_at_work);
            if side.board.holds(member) { at_work.max(1) } else { at_work }
        };
        let candidates = || self.at_work(side).filter(|member| free(*member)).map(|member| (member, weight(member)));
        self.balanced(candidates, ask, random).map(|member| (member, reason))
    }

    fn owner_or_next(
        &self,
        side: Side<'_>,
        hash: u32,
        free: impl Fn(usize) -> bool,
        ask: &Ask<'_>,
    ) -> Option<(usize, Reason)> {
        let (owner, wanted) = (side.ring.owner(hash)?, |member: usize| side.board.holds(member) && free(member));
        if wanted(owner) {
            return Some((owner, Reason::Owner));
        }
        let next = first(side.ring, hash, wanted, || side.board.members())?;
        Some((next, self.why_not(owner, hash, ask)))
    }

    /// Passes 1 and 2 apart, for some take a part of their keys only: the first that takes the key, else the first that
    /// is usable.
    fn by_parts(&self, side: Side<'_>, hash: u32, free: impl Fn(usize) -> bool, ask: &Ask<'_>) -> Option<Placed> {
        let owner = side.ring.owner(hash)?;
        let usable = |member: usize| side.board.holds(member) && free(member);
        let (member, pass) = match self.first_taker(side, hash, &free) {
            Some(member) => (member, Pass::Own),
            None => (first(side.ring, hash, usable, || side.board.members())?, Pass::Below),
        };
        Some((member, pass, if owner == member { Reason::Owner } else { self.why_not(owner, hash, ask) }))
    }

    /// A pool that takes the place of another: the new owner if it takes the key, else where it went before.
    fn handing_over(&self, side: Side<'_>, hash: u32, free: impl Fn(usize) -> bool, ask: &Ask<'_>) -> Option<Placed> {
        let takes = |member, point| self.takes_at(side, (member, point), hash) && free(member);
        if let Some(owner) = side.ring.near_point(hash, 1, takes) {
            return Some((owner, Pass::Own, Reason::Owner));
        }
        let former = self.handover.as_ref().and_then(|handover| handover.former(self, hash, &free));
        former.map(|former| (former, Pass::Own, Reason::Former)).or_else(|| self.by_parts(side, hash, free, ask))
    }

    /// The first that takes the key, as far as its share goes: point by point, since a raised weight makes a difference
    /// between them, and then by distance.
    ///
    /// A key that somebody new is to have stays with those that were there before until then: whoever came with the new
    /// one, or after, leaves it alone, so that it moves once.
    fn first_taker(&self, side: Side<'_>, hash: u32, free: impl Fn(usize) -> bool) -> Option<usize> {
        let older_than = Cell::new(u32::MAX);
        let takes = |number: usize, point: u32| {
            let Some(member) = self.member(number).filter(|member| member.came < older_than.get()) else {
                return false;
            };
            let takes = self.takes_at(side, (number, point), hash);
            // Nobody is older than those that were there from the start.
            if !takes && member.came > 0 && member.origin.health().is_new() {
                older_than.set(member.came);
            }
            takes && free(number)
        };
        let distance = |number: usize| {
            let member = self.member(number).filter(|_| free(number))?;
            let point = member.taking_point(hash, |hash| side.ring.point_after(number, hash))?;
            (member.came < older_than.get()).then_some((point.wrapping_sub(hash), number))
        };
        let far = || {
            let candidates = side.board.members().chain(side.board.partial_members());
            candidates.filter_map(distance).min().map(|(_, number)| number)
        };
        side.ring.near_point(hash, NEAR, takes).or_else(far)
    }

    /// Does this member take the key at this point of it?
    fn takes_at(&self, side: Side<'_>, (number, point): (usize, u32), hash: u32) -> bool {
        let part = || self.member(number).is_some_and(|member| member.part_at(point).takes(hash));
        side.board.is_full(number) || side.board.is_partial(number) && part()
    }

    /// Why did the owner not get its key?
    fn why_not(&self, owner: usize, hash: u32, ask: &Ask<'_>) -> Reason {
        let Some(member) = self.member(owner) else { return Reason::OwnerOut };
        let health = member.origin.health();
        match owner {
            _ if ask.tried.contains(&owner) => Reason::OwnerTried,
            _ if health.factor_beyond().takes(hash) && member.address.is_known() => Reason::OwnerFull,
            _ if health.verdict() == Verdict::Draining => Reason::OwnerDraining,
            _ if health.verdict() == Verdict::Overloaded => Reason::OwnerOverloaded,
            _ if health.factor().is_none() || !member.address.is_known() => Reason::OwnerOut,
            _ => Reason::OwnerPartial,
        }
    }

    /// Proven origins first, then newcomers that were not proven yet.
    fn panicking(&self, side: Side<'_>, ask: &Ask<'_>, random: &mut Rng) -> Option<Choice> {
        let (room, all) = (Room::of(self, side), || 0..self.members.len());
        let left = |member: usize| self.is_left_in_panic(member, ask) && room.below_limit(member);
        let is_here = |member: usize| self.member(member).is_some_and(|member| member.backup == side.backups);
        let joining = |member: usize| self.member(member).is_some_and(|m| m.origin.verdict() == Verdict::Joining);
        let weight = |member: usize| (member, self.member(member).map_or(0, |member| u64::from(member.weight)));
        let mut find = |wanted: &dyn Fn(usize) -> bool| match ask.hash {
            Some(hash) => first(side.ring, hash, wanted, all),
            None => self.balanced(|| all().filter(|at| is_here(*at) && wanted(*at)).map(weight), ask, random),
        };
        let member = find(&|member| left(member) && !joining(member)).or_else(|| find(&left))?;
        let most = self.member(member)?.max_in_flight;
        Some(Choice { member, pass: Pass::Panic, reason: Reason::Panic, most })
    }

    /// Whom the pool's algorithm chooses of these, each with its weight.
    fn balanced<C: Iterator<Item = (usize, u64)>>(
        &self,
        of: impl Fn() -> C,
        ask: &Ask<'_>,
        random: &mut Rng,
    ) -> Option<usize> {
        let candidate = |(member, weight): (usize, u64)| {
            let load = self.member(member).filter(|_| weight > 0)?.origin.load();
            Some(Candidate { member, weight, load })
        };
        self.balancer.choose(|| of().filter_map(candidate), &self.turns, ask.now, random)
    }

    /// The place, unless it went to another meanwhile.
    fn take(&self, choice: &Choice, hash: Option<u32>, random: &mut Rng) -> Option<Pick> {
        let Choice { member, pass, reason, most } = *choice;
        let Member { origin, address, .. } = self.member(member)?;
        let (endpoint, origin) = (address.endpoint()?, Slot::take(origin, most)?);
        let key = hash.unwrap_or_else(|| random.u32(..));
        Some(Pick { member, origin, endpoint, pass, reason, balancer: self.balancer, key })
    }

    /// Is anybody left who could be asked and of whom this holds as well?
    fn is_anybody_left(&self, ask: &Ask<'_>, also: impl Fn(usize) -> bool) -> bool {
        if self.is_all_out() {
            let left = |member: usize| self.is_left_in_panic(member, ask) && also(member);
            return self.walks_in_panic && (0..self.members.len()).any(left);
        }
        let left = |member: usize| self.is_left(member, ask) && also(member);
        self.sides().any(|side| side.board.members().any(left))
    }

    /// As if all were up: one that is drained has what it has not given up yet, and nothing else, however the others are.
    fn is_left_in_panic(&self, number: usize, ask: &Ask<'_>) -> bool {
        let part = |member: &Member| member.origin.health().factor();
        let has = |member: &Member| ask.hash.map_or(!part(member).is_none(), |hash| part(member).takes(hash));
        self.is_left(number, ask) && self.member(number).is_some_and(|member| !member.is_drained() || has(member))
    }

    fn is_left(&self, member: usize, ask: &Ask<'_>) -> bool {
        !ask.tried.contains(&member) && self.member(member).is_some_and(|member| member.address.is_known())
    }
}

/// The first member from `hash` on that is wanted: point by point, and where few of many are wanted, or few heavy ones
/// hold most points, by measuring the distance of each candidate.
fn first<C: Iterator<Item = usize>>(
    ring: &Ring,
    hash: u32,
    wanted: impl Fn(usize) -> bool,
    candidates: impl Fn() -> C,
) -> Option<usize> {
    let far = || ring.first_of(hash, candidates().filter(|member| wanted(*member)));
    ring.near(hash, NEAR, &wanted).or_else(far)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::balance::{Factor, u};
    use crate::config;
    use crate::config::units::Off;
    use crate::pool::tests::{compiled, pool, section};

    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

    fn set(pool: &Pool, verdicts: &[Verdict]) {
        for (member, verdict) in pool.members().iter().zip(verdicts) {
            member.origin().health().publish(*verdict);
        }
    }

    /// Everybody a request would try, in order, with the last reason.
    fn tried(pool: &Pool, hash: u32) -> (Vec<usize>, Option<Reason>) {
        let (mut tried, mut reason) = (Vec::new(), None);
        while let Some(pick) =
            pool.pick(&Ask { hash: Some(hash), tried: &tried, now: Instant::now() }, &mut Rng::with_seed(0))
        {
            reason = Some(pick.reason);
            tried.push(pick.member);
        }
        (tried, reason)
    }

    fn hashes() -> impl Iterator<Item = u32> {
        (0..200_u32).map(|n| n.wrapping_mul(0x9e37_79b9))
    }

    #[test]
    fn tries_follow_the_ring_over_usable_origins() {
        use Verdict::{Down, Joining, Kept, Up};
        let pool = pool(&NAMES);
        set(&pool, &[Up, Down, Kept, Joining, Up]);
        for hash in hashes() {
            let walk: Vec<_> = pool.ring().walk(hash).filter(|member| [0, 2, 4].contains(member)).collect();
            assert_eq!(tried(&pool, hash).0, walk);
        }
    }

    #[test]
    fn great_pool_with_one_left_and_one_that_holds_most_points_are_picked_from_alike() {
        let names: Vec<String> = (0..3000).map(|number| format!("o{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let great = pool(&names);
        set(&great, &[Verdict::Down; 3000]);
        great.member(1234).unwrap().origin().health().publish(Verdict::Up);
        assert!(hashes().all(|hash| tried(&great, hash).0 == [1234]));
        let mut section = section(&["a", "b", "c"]);
        section.origins[0].weight = 1000;
        let heavy = compiled(&section, None);
        for hash in hashes() {
            assert_eq!(tried(&heavy, hash).0, heavy.ring().walk(hash).collect::<Vec<_>>());
        }
    }

    /// A walk passes thousands of points a pick here, a hundred thousand picks would take minutes: the bound is far from
    /// both.
    #[test]
    fn s1_ten_thousand_origins_of_which_one_or_none_is_left_are_not_walked_for_each_request() {
        let names: Vec<String> = (0..10_000).map(|number| format!("o{number}")).collect();
        let mut section = section(&names.iter().map(String::as_str).collect::<Vec<_>>());
        section.health.panic = config::pool::Panic::Fail;
        let (failing, began) = (compiled(&section, None), Instant::now());
        section.health.panic = config::pool::Panic::Keep;
        let keeping = compiled(&section, None);
        let picks = |pool: &Pool| {
            let pick = |hash| pool.pick(&Ask { hash: Some(hash), tried: &[], now: began }, &mut Rng::with_seed(0));
            let picked: Vec<_> = (0..20_000_u32).map(|n| pick(n.wrapping_mul(0x9e37_79b9)).map(|p| p.member)).collect();
            picked
        };
        for pool in [&failing, &keeping] {
            set(pool, &[Verdict::Down; 10_000]);
        }
        assert!(picks(&failing).iter().all(Option::is_none));
        assert!(picks(&keeping).iter().all(Option::is_some));
        keeping.member(1234).unwrap().origin().health().publish(Verdict::Up);
        assert!(picks(&keeping).iter().all(|member| *member == Some(1234)));
        assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    }

    #[test]
    fn reason_says_why_it_is_not_the_owner() {
        let pool = pool(&NAMES);
        let owner = pool.ring().owner(7).unwrap();
        let reason = |tried: &[usize]| {
            pool.pick(&Ask { hash: Some(7), tried, now: Instant::now() }, &mut Rng::with_seed(0))
                .map(|pick| (pick.pass.number(), pick.reason))
        };
        assert_eq!(reason(&[]), Some((1, Reason::Owner)));
        assert_eq!(reason(&[owner]), Some((1, Reason::OwnerTried)));
        pool.member(owner).unwrap().origin().health().publish(Verdict::Down);
        assert_eq!(reason(&[]), Some((1, Reason::OwnerOut)));
        set(&pool, &[Verdict::Down; 5]);
        assert_eq!(reason(&[]), Some((5, Reason::Panic)));
    }

    #[test]
    fn panic_keep_tries_the_proven_in_ring_order_and_then_newcomers() {
        use Verdict::{Down, Joining};
        let pool = pool(&NAMES);
        set(&pool, &[Down, Joining, Down, Joining, Down]);
        for hash in hashes() {
            let of = |wanted: [usize; 3]| pool.ring().walk(hash).filter(move |member| wanted.contains(member));
            let expected: Vec<_> = of([0, 2, 4]).chain(of([1, 3, 3])).collect();
            assert_eq!(tried(&pool, hash), (expected, Some(Reason::Panic)));
        }
    }

    #[test]
    fn h5_panic_asks_a_drained_origin_for_nothing_but_the_keys_it_has_left() {
        use Verdict::{Down, Draining};
        let pool = changed(|section| section.origins[1].state = config::pool::State::Drain);
        let walk = |hash: u32| pool.ring().walk(hash);
        for (verdict, part) in [(Draining, 0.0), (Down, 0.0), (Draining, 0.5)] {
            set(&pool, &[Down; 4]);
            pool.member(1).unwrap().origin().health().publish_part(verdict, Factor::new(part));
            for hash in hashes() {
                let has = Factor::new(part).takes(hash);
                let expected: Vec<_> = walk(hash).filter(|member| *member != 1 || has).collect();
                assert_eq!(tried(&pool, hash).0, expected, "{verdict:?} at {part}");
                let ask = Ask { hash: Some(hash), tried: &[0, 2, 3], now: Instant::now() };
                assert_eq!(pool.has_next(&ask), has);
            }
        }
    }

    #[test]
    fn panic_fail_tries_nobody() {
        let mut section = section(&NAMES);
        section.health.panic = config::pool::Panic::Fail;
        let pool = compiled(&section, None);
        set(&pool, &[Verdict::Down; 5]);
        assert!(pool.pick(&Ask { hash: Some(1), tried: &[], now: Instant::now() }, &mut Rng::with_seed(0)).is_none());
        set(&pool, &[Verdict::Kept]);
        assert_eq!(tried(&pool, 1).0, [0], "one that is kept is usable");
    }

    #[test]
    fn nobody_is_tried_in_panic_while_a_usable_origin_was_tried() {
        let pool = pool(&NAMES);
        set(&pool, &[Verdict::Down, Verdict::Down, Verdict::Up, Verdict::Down, Verdict::Down]);
        assert!(hashes().all(|hash| tried(&pool, hash).0 == [2]));
    }

    #[test]
    fn origin_whose_name_is_not_resolved_is_not_tried_even_in_panic() {
        let mut section = section(&["a", "b"]);
        section.origins[0].address = config::units::Address::Name("a".to_owned(), 80);
        let pool = compiled(&section, None);
        assert!(hashes().all(|hash| tried(&pool, hash).0 == [1]));
        set(&pool, &[Verdict::Down; 2]);
        assert!(hashes().all(|hash| tried(&pool, hash).0 == [1]));
    }

    #[test]
    fn request_without_a_key_goes_to_the_less_loaded_of_two() {
        let pool = pool(&["a", "b", "c"]);
        let mut random = Rng::with_seed(3);
        let now = Instant::now();
        let mut leases = Vec::new();
        for _ in 0..300 {
            let pick = pool.pick(&Ask { hash: None, tried: &[], now }, &mut random).unwrap();
            assert_eq!(pick.reason, Reason::Spread);
            leases.push(pick.lease(now));
        }
        for member in pool.members() {
            assert!((95..=105).contains(&member.origin().in_flight()), "{}", member.origin().in_flight());
        }
    }

    #[test]
    fn request_without_a_key_avoids_what_it_tried_and_what_is_out() {
        let pool = pool(&["a", "b", "c"]);
        set(&pool, &[Verdict::Up, Verdict::Down, Verdict::Up]);
        let pick = |tried: &[usize]| {
            let ask = Ask { hash: None, tried, now: Instant::now() };
            pool.pick(&ask, &mut Rng::with_seed(0)).map(|pick| pick.member)
        };
        assert_eq!(pick(&[0]), Some(2));
        assert_eq!(pick(&[2]), Some(0));
        assert_eq!(pick(&[0, 2]), None);
    }

    /// A pool of four origins `a` to `d`, changed.
    fn changed(change: impl Fn(&mut config::Pool)) -> Pool {
        let mut section = section(&["a", "b", "c", "d"]);
        change(&mut section);
        compiled(&section, None)
    }

    fn asked(pool: &Pool, hash: Option<u32>, tried: &[usize]) -> Option<Pick> {
        pool.pick(&Ask { hash, tried, now: Instant::now() }, &mut Rng::with_seed(5))
    }

    fn told(pick: &Pick) -> (usize, u8, &'static str) {
        (pick.member, pick.pass.number(), pick.reason.as_str())
    }

    #[test]
    fn r4_a_hot_key_spills_to_the_same_successor_and_no_further_than_it_has_to() {
        let pool = changed(|section| section.balance.bounded_load = Off::On(1.25));
        let walk: Vec<usize> = pool.ring().walk(7).collect();
        let picks: Vec<Pick> = (0..200).map(|_| asked(&pool, Some(7), &[]).unwrap()).collect();
        let counts: Vec<usize> = walk.iter().map(|member| pool.member(*member).unwrap().origin().in_flight()).collect();
        assert_eq!(counts.iter().sum::<usize>(), 200);
        assert!(counts.iter().all(|count| *count <= 63), "{counts:?}");
        assert!(counts.is_sorted_by(|one, next| one >= next), "nearer ones are filled first: {counts:?}");
        let spilled = picks.iter().find(|pick| pick.member != walk[0]).unwrap();
        assert_eq!(told(spilled), (walk[1], 1, "owner_full"));
        drop(picks);
        assert_eq!(told(&asked(&pool, Some(7), &[]).unwrap()), (walk[0], 1, "owner"));
    }

    #[test]
    fn r4_sixteen_at_one_origin_are_nothing() {
        let pool = changed(|section| section.balance.bounded_load = Off::On(1.01));
        let picks: Vec<Pick> = (0..16).map(|_| asked(&pool, Some(7), &[]).unwrap()).collect();
        assert!(picks.iter().all(|pick| pick.reason == Reason::Owner));
        assert_eq!(asked(&pool, Some(7), &[]).unwrap().reason, Reason::OwnerFull);
    }

    #[test]
    fn r6_a_limit_is_held_whoever_picks_at_the_same_time() {
        let pool = changed(|section| section.connections.max_in_flight = Off::On(10));
        let all: Vec<Pick> = std::thread::scope(|scope| {
            let picking = |thread: u32| {
                let pool = &pool;
                scope.spawn(move || (0..20).filter_map(|n| asked(pool, Some(thread * n), &[])).collect::<Vec<_>>())
            };
            let threads: Vec<_> = (0..4).map(picking).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(pool.members().iter().all(|member| member.origin().in_flight() <= 10));
        assert_eq!(all.len(), 40, "every place is taken");
        let ask = Ask { hash: Some(1), tried: &[], now: Instant::now() };
        assert!(pool.is_saturated(&ask) && !pool.has_next(&ask));
        drop(all);
        assert!(asked(&pool, Some(1), &[]).is_some() && pool.has_next(&ask));
    }

    #[test]
    fn r6_an_origins_own_limit_goes_before_the_pools() {
        let pool = changed(|section| {
            section.connections.max_in_flight = Off::On(2);
            section.origins[0].max_in_flight = Some(Off::On(1));
            section.origins[1].max_in_flight = Some(Off::Off);
            section.balance.algorithm = config::pool::Algorithm::RoundRobin;
        });
        let picks: Vec<Pick> = (0..20).map(|_| asked(&pool, None, &[]).unwrap()).collect();
        let counts: Vec<usize> = pool.members().iter().map(|member| member.origin().in_flight()).collect();
        assert_eq!((counts, picks.len()), (vec![1, 15, 2, 2], 20));
    }

    /// Rule R3 in constellations of four origins: who is down, what is in flight, and where the first try goes.
    #[test]
    fn r3_the_order_of_a_pick() {
        let pool = changed(|section| {
            section.balance.bounded_load = Off::On(1.5);
            section.connections.max_in_flight = Off::On(40);
        });
        let walk: Vec<usize> = pool.ring().walk(7).collect();
        let check = |down: &[usize], in_flight: [usize; 4], expected: Option<(usize, u8, &str)>| {
            let load = |place: usize| pool.member(walk[place]).unwrap().origin().load();
            for place in 0..4 {
                let verdict = if down.contains(&place) { Verdict::Down } else { Verdict::Up };
                pool.member(walk[place]).unwrap().origin().health().publish(verdict);
                (0..in_flight[place]).for_each(|_| load(place).enter());
            }
            let found = asked(&pool, Some(7), &[]).map(|pick| told(&pick));
            let expected = expected.map(|(place, pass, reason)| (walk[place], pass, reason));
            assert_eq!(found, expected, "{down:?} down, {in_flight:?} in flight");
            (0..4).for_each(|place| (0..in_flight[place]).for_each(|_| _ = load(place).leave()));
        };
        check(&[], [0, 0, 0, 0], Some((0, 1, "owner")));
        check(&[], [15, 0, 0, 0], Some((0, 1, "owner")));
        check(&[], [16, 0, 0, 0], Some((1, 1, "owner_full")));
        check(&[], [16, 16, 0, 0], Some((2, 1, "owner_full")));
        check(&[], [20, 20, 20, 20], Some((0, 1, "owner")));
        check(&[0], [0, 0, 0, 0], Some((1, 1, "owner_out")));
        check(&[0], [0, 30, 0, 0], Some((2, 1, "owner_out")));
        check(&[1], [30, 0, 0, 0], Some((2, 1, "owner_full")));
        check(&[1, 2, 3], [30, 0, 0, 0], Some((0, 1, "owner")));
        check(&[1, 2, 3], [40, 0, 0, 0], None);
        check(&[], [40, 40, 40, 39], Some((3, 1, "owner_full")));
        check(&[], [40, 40, 40, 40], None);
        check(&[0, 1, 2, 3], [0, 0, 0, 0], Some((0, 5, "panic")));
        check(&[0, 1, 2, 3], [40, 0, 0, 0], Some((1, 5, "panic")));
        check(&[0, 1, 2, 3], [40, 40, 40, 40], None);
    }

    /// Rule R3 where origins take a part of their keys: what each takes, what is in flight, and where the first try goes.
    /// Of the first three passes the first looks at parts and limits, the second at limits, the third at the hard one.
    #[test]
    fn r3_the_order_of_a_pick_where_some_take_a_part() {
        let pool = changed(|section| {
            section.balance.bounded_load = Off::On(1.5);
            section.connections.max_in_flight = Off::On(40);
        });
        let hash = hashes().find(|hash| (0.4..0.6).contains(&u(*hash))).unwrap();
        let walk: Vec<usize> = pool.ring().walk(hash).collect();
        let check = |parts: [f64; 4], in_flight: [usize; 4], expected: Option<(usize, u8, &str)>| {
            let load = |place: usize| pool.member(walk[place]).unwrap().origin().load();
            for place in 0..4 {
                let verdict = if parts[place] > 0.0 { Verdict::Ramping } else { Verdict::Down };
                pool.member(walk[place]).unwrap().origin().health().publish_part(verdict, Factor::new(parts[place]));
                (0..in_flight[place]).for_each(|_| load(place).enter());
            }
            let found = asked(&pool, Some(hash), &[]).map(|pick| told(&pick));
            let expected = expected.map(|(place, pass, reason)| (walk[place], pass, reason));
            assert_eq!(found, expected, "{parts:?} with {in_flight:?} in flight");
            (0..4).for_each(|place| (0..in_flight[place]).for_each(|_| _ = load(place).leave()));
        };
        check([0.7, 1.0, 1.0, 1.0], [0, 0, 0, 0], Some((0, 1, "owner")));
        check([0.3, 1.0, 1.0, 1.0], [0, 0, 0, 0], Some((1, 1, "owner_partial")));
        check([0.3, 0.3, 1.0, 1.0], [0, 0, 0, 0], Some((2, 1, "owner_partial")));
        check([0.7, 1.0, 1.0, 1.0], [16, 0, 0, 0], Some((1, 1, "owner_full")));
        check([0.3, 1.0, 1.0, 1.0], [0, 40, 0, 0], Some((2, 1, "owner_partial")));
        check([0.3, 0.3, 0.3, 0.3], [0, 0, 0, 0], Some((0, 2, "owner")));
        check([0.3, 0.3, 0.3, 0.3], [40, 0, 0, 0], Some((1, 2, "owner_partial")));
        check([0.3, 1.0, 0.3, 0.3], [0, 40, 0, 0], Some((0, 2, "owner")));
        check([0.0, 0.3, 1.0, 1.0], [0, 0, 0, 0], Some((2, 1, "owner_out")));
        check([0.0, 0.3, 0.0, 0.0], [0, 0, 0, 0], Some((1, 2, "owner_out")));
        check([0.3, 0.3, 0.3, 0.3], [40, 40, 40, 40], None);
        check([0.0, 0.0, 0.0, 0.0], [0, 0, 0, 0], Some((0, 5, "panic")));
    }

    #[test]
    fn r3_backups_are_asked_after_all_passes_of_the_others_and_take_all_of_their_keys() {
        let pool = changed(|section| {
            section.origins[3].backup = true;
            section.connections.max_in_flight = Off::On(2);
        });
        for member in &pool.members()[..3] {
            member.origin().health().publish_part(Verdict::Ramping, Factor::new(0.001));
        }
        let picks: Vec<Pick> = (0..9).filter_map(|_| asked(&pool, Some(7), &[])).collect();
        let passes: Vec<u8> = picks.iter().map(|pick| pick.pass.number()).collect();
        assert_eq!(passes, [2, 2, 2, 2, 2, 2, 4, 4]);
        assert_eq!((told(&picks[6]), picks[6].reason), ((3, 4, "backup"), Reason::BackupFull));
        for member in &pool.members()[..3] {
            member.origin().health().publish(Verdict::Down);
        }
        drop(picks);
        assert_eq!(asked(&pool, Some(7), &[]).map(|pick| pick.reason), Some(Reason::Backup));
    }

    #[test]
    fn owner_with_a_part_of_its_share_takes_the_keys_below_it_and_the_rest_walk_on() {
        let pool = pool(&NAMES);
        let low = Factor::new(0.3);
        pool.member(1).unwrap().origin().health().publish_part(Verdict::Up, low);
        for hash in hashes() {
            let walk: Vec<_> = pool.ring().walk(hash).collect();
            let (pass, reason) = {
                let pick = pool
                    .pick(&Ask { hash: Some(hash), tried: &[], now: Instant::now() }, &mut Rng::with_seed(0))
                    .unwrap();
                let expected = *walk.iter().find(|member| **member != 1 || low.takes(hash)).unwrap();
                assert_eq!(pick.member, expected);
                (pick.pass, pick.reason)
            };
            let shed = walk[0] == 1 && !low.takes(hash);
            assert_eq!((pass, reason), (Pass::Own, if shed { Reason::OwnerPartial } else { Reason::Owner }));
            // A request that tried all others comes to it in the end, whatever its share.
            let mut order: Vec<_> = walk.clone();
            if !low.takes(hash) {
                order.retain(|member| *member != 1);
                order.push(1);
            }
            assert_eq!(tried(&pool, hash).0, order);
        }
    }

    #[test]
    fn whoever_comes_first_takes_a_key_that_nobody_takes() {
        let pool = pool(&NAMES);
        for member in pool.members() {
            member.origin().health().publish_part(Verdict::Up, Factor::new(0.2));
        }
        for hash in hashes() {
            let pick =
                pool.pick(&Ask { hash: Some(hash), tried: &[], now: Instant::now() }, &mut Rng::with_seed(0)).unwrap();
            let pass = if Factor::new(0.2).takes(hash) { Pass::Own } else { Pass::Below };
            assert_eq!((Some(pick.member), pick.pass, pick.reason), (pool.ring().owner(hash), pass, Reason::Owner));
        }
    }

    #[test]
    fn request_without_a_key_goes_to_an_origin_by_the_weight_it_has_now() {
        let pool = pool(&["a", "b", "c"]);
        pool.member(1).unwrap().origin().health().publish_part(Verdict::Up, Factor::new(0.1));
        let (mut random, now, mut leases) = (Rng::with_seed(3), Instant::now(), Vec::new());
        for _ in 0..2100 {
            leases
                .push(pool.pick(&Ask { hash: None, tried: &[], now: Instant::now() }, &mut random).unwrap().lease(now));
        }
        let counts: Vec<_> = pool.members().iter().map(|member| member.origin().in_flight()).collect();
        assert!((80..=120).contains(&counts[1]) && counts[0].abs_diff(counts[2]) < 50, "{counts:?}");
    }

    /// Pass 3: the others are at their limits, so the owner goes above its cap.
    #[test]
    fn r3_a_cap_gives_way_where_nobody_else_has_room() {
        let pool = changed(|section| {
            section.balance.bounded_load = Off::On(1.5);
            section.origins.iter_mut().for_each(|origin| origin.max_in_flight = Some(Off::On(2)));
            section.origins[0].max_in_flight = Some(Off::On(18));
        });
        let hash = hashes().find(|hash| pool.ring().owner(*hash) == Some(0)).unwrap();
        let picks: Vec<Pick> = (0..24).filter_map(|_| asked(&pool, Some(hash), &[])).collect();
        let passes: Vec<u8> = picks.iter().map(|pick| pick.pass.number()).collect();
        assert_eq!(passes, [vec![1; 16 + 3 * 2], vec![3; 2]].concat());
        assert_eq!(told(picks.last().unwrap()), (0, 3, "owner"));
        assert!(asked(&pool, Some(hash), &[]).is_none());
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod properties {
    use proptest::prelude::*;

    use super::*;
    use crate::config::units::Off;
    use crate::pool::tests::{compiled, section};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn bounded_load_takes_the_first_on_the_ring_that_is_below_its_cap(
            members in proptest::collection::vec((1_u16..4, 0_usize..60, prop::bool::weighted(0.8)), 2..7),
            factor in 1.01_f64..3.0,
            hash in any::<u32>(),
        ) {
            let mut section = section(&["a", "b", "c", "d", "e", "f"][..members.len()]);
            section.balance.bounded_load = Off::On(factor);
            for (origin, (weight, ..)) in section.origins.iter_mut().zip(&members) {
                origin.weight = *weight;
            }
            let pool = compiled(&section, None);
            for (member, (_, in_flight, up)) in pool.members().iter().zip(&members) {
                (0..*in_flight).for_each(|_| member.origin().load().enter());
                member.origin().health().publish(if *up { Verdict::Up } else { Verdict::Down });
            }
            let up = || members.iter().filter(|(.., up)| *up);
            let load: usize = up().map(|(_, in_flight, _)| in_flight).sum();
            let weights: f64 = up().map(|(weight, ..)| f64::from(*weight)).sum();
            let is_below = |member: &usize| {
                let (weight, in_flight, up) = members[*member];
                let cap = (factor * (load + 1) as f64 * f64::from(weight) / weights).ceil();
                up && (in_flight as f64) < cap.max(16.0)
            };
            let expected = pool.ring().walk(hash).find(is_below);
            let pick = pool.pick(&Ask { hash: Some(hash), tried: &[], now: Instant::now() }, &mut fastrand::Rng::with_seed(0));
            match up().next() {
                Some(_) => prop_assert_eq!(pick.map(|pick| pick.member), expected),
                None => prop_assert_eq!(pick.map(|pick| pick.pass), Some(Pass::Panic)),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod properties_of_parts {
    use fastrand::Rng;
    use proptest::prelude::{
        Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, prop_assume, prop_oneof, proptest,
    };

    use super::*;
    use crate::balance::{Factor, u};
    use crate::pool::tests::pool;

    /// What each of a few origins takes: nothing, a part, or all.
    fn parts() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec(prop_oneof![2 => Just(1.0), 2 => 0.0..=1.0, 1 => Just(0.0)], 1..7)
    }

    fn set(pool: &Pool, parts: &[f64]) {
        for (member, part) in pool.members().iter().zip(parts) {
            let verdict = if *part > 0.0 { Verdict::Up } else { Verdict::Down };
            member.origin().health().publish_part(verdict, Factor::new(*part));
        }
    }

    fn compiled(members: usize) -> Pool {
        pool(&["a", "b", "c", "d", "e", "f", "g"][..members])
    }

    fn taker(pool: &Pool, hash: u32) -> Option<usize> {
        pool.pick(&Ask { hash: Some(hash), tried: &[], now: Instant::now() }, &mut Rng::with_seed(0))
            .map(|pick| pick.member)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn r2_a_pick_is_the_first_on_the_walk_that_takes_the_key_or_else_the_first_usable(
            parts in parts(),
            hashes in proptest::collection::vec(any::<u32>(), 100),
        ) {
            let pool = compiled(parts.len());
            let (ring, print) = (pool.ring().clone(), pool.fingerprint().to_owned());
            set(&pool, &parts);
            for hash in hashes {
                let walk: Vec<_> = pool.ring().walk(hash).collect();
                let takes = |member: &&usize| u(hash) < parts[**member];
                let usable = |member: &&usize| parts[**member] > 0.0;
                let first = walk.iter().find(takes).or_else(|| walk.iter().find(usable)).or(walk.first());
                prop_assert_eq!(taker(&pool, hash), first.copied());
            }
            prop_assert_eq!((pool.ring(), pool.fingerprint()), (&ring, &*print), "the ring never changes");
        }

        #[test]
        fn r2_what_an_origin_sheds_never_lands_on_one_as_low_while_another_takes_it(
            parts in parts(),
            hashes in proptest::collection::vec(any::<u32>(), 100),
        ) {
            let pool = compiled(parts.len());
            set(&pool, &parts);
            prop_assume!(parts.contains(&1.0));
            for hash in hashes {
                let (owner, taker) = (pool.ring().owner(hash).unwrap(), taker(&pool, hash).unwrap());
                prop_assert!(owner == taker || parts[taker] > parts[owner]);
            }
        }

        #[test]
        fn r2_a_key_that_moved_to_a_growing_origin_never_moves_back(
            others in parts(),
            mut growth in proptest::collection::vec(0.0..=1.0, 1..8),
            hashes in proptest::collection::vec(any::<u32>(), 100),
        ) {
            let mut parts = others;
            let newcomer = parts.len();
            parts.push(0.0);
            let pool = compiled(parts.len());
            growth.sort_by(f64::total_cmp);
            let map = |pool: &Pool| hashes.iter().map(|hash| taker(pool, *hash)).collect::<Vec<_>>();
            set(&pool, &parts);
            prop_assume!(pool.usable_members() > 0);
            let mut before = map(&pool);
            for part in growth {
                parts[newcomer] = part;
                set(&pool, &parts);
                let after = map(&pool);
                for ((from, to), hash) in before.iter().zip(&after).zip(&hashes) {
                    // Whoever took a key that nobody takes is not its owner by right.
                    let by_right = from.is_some_and(|from| u(*hash) < parts[from]);
                    prop_assert!(from == to || *to == Some(newcomer) || !by_right, "{from:?} to {to:?}");
                    prop_assert!(*from != Some(newcomer) || !by_right || from == to);
                }
                before = after;
            }
        }
    }

    #[test]
    fn r2_shares_follow_the_part_exactly() {
        let pool = compiled(4);
        let keys: Vec<u32> = (0..40_000).map(|n| crate::balance::hash(format!("/obj/{n}").as_bytes())).collect();
        let owned = keys.iter().filter(|hash| pool.ring().owner(**hash) == Some(2)).count() as f64;
        for part in [0.01, 0.1, 0.25, 0.5, 0.75, 1.0] {
            set(&pool, &[1.0, 1.0, part, 1.0]);
            let taken = keys.iter().filter(|hash| taker(&pool, **hash) == Some(2)).count() as f64;
            let below = keys.iter().filter(|hash| pool.ring().owner(**hash) == Some(2) && u(**hash) < part).count();
            assert_eq!(taken, below as f64);
            assert!((taken / owned - part).abs() < 0.02, "{} instead of {part}", taken / owned);
        }
    }
}
