//! Which origin does the next attempt of a request go to? Rule R3.
//!
//! The passes are tried in their order, over origins this request has not tried yet. A pick by key takes no lock and
//! allocates nothing: it reads the ring, the board and, where there are limits, counts in flight. What it answers holds a
//! place at the origin already, so that no limit is ever exceeded, whoever picks at the same time.

use std::time::Instant;

use fastrand::Rng;

use crate::balance::{Balancer, Candidate, Ring};
use crate::health::{Endpoint, Verdict};

use super::lease::Slot;
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

/// The passes of rule R3. While every origin takes its full share, passes 1 and 2 are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Pass {
    /// Usable, takes the key, below its limits.
    Own = 1,
    /// Usable, below its limits.
    Below = 2,
    /// Usable, below its limit in flight.
    Usable = 3,
    /// A backup.
    Backup = 4,
    /// Nobody is usable, and `panic: keep` tries all of them.
    Panic = 5,
}

/// Why an origin was picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It owns the key.
    Owner,
    /// The first that may be used after an owner that may not.
    OwnerOut,
    /// The first with room for one more after an owner that has as much in flight as it may.
    OwnerFull,
    /// The first not tried yet after an owner that was tried.
    OwnerTried,
    /// It was tried on a connection that had gone stale.
    Repeat,
    /// Its key is missing: the less loaded of two.
    Spread,
    /// The pool's algorithm chose it.
    Balanced(Balancer),
    /// No other may be asked: a backup.
    Backup,
    /// Nobody is usable.
    Panic,
}

impl Pick {
    /// Begins the attempt.
    pub fn lease(self, now: Instant) -> Lease {
        Lease::new(self, now)
    }
}

impl Pass {
    /// Its number in the rule.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

impl Reason {
    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::OwnerOut => "owner_out",
            Self::OwnerFull => "owner_full",
            Self::OwnerTried => "owner_tried",
            Self::Repeat => "repeat",
            Self::Spread => "spread",
            Self::Balanced(balancer) => balancer.as_str(),
            Self::Backup => "backup",
            Self::Panic => "panic",
        }
    }
}

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
            Some(Choice { pass: Pass::Backup, reason: Reason::Backup, ..backup })
        })
    }

    /// Is nobody usable, not even a backup?
    fn is_all_out(&self) -> bool {
        self.sides().all(|side| side.board.usable() == 0)
    }

    fn usable(&self, side: Side<'_>, ask: &Ask<'_>, random: &mut Rng) -> Option<Choice> {
        if side.board.usable() == 0 {
            return None;
        }
        let free = |member: usize| side.board.holds(member) && self.is_left(member, ask);
        if !self.limited && self.bounded.is_none() {
            let (member, reason) = self.among(side, free, ask, random)?;
            return Some(Choice { member, pass: Pass::Own, reason, most: usize::MAX });
        }
        let room = Room::of(self, side);
        if let Some((member, reason)) = self.among(side, |at| free(at) && room.below_both(at), ask, random) {
            let most = self.member(member).map_or(0, |member| room.most(member));
            return Some(Choice { member, pass: Pass::Own, reason, most });
        }
        let (member, reason) = self.among(side, |at| free(at) && room.below_limit(at), ask, random)?;
        let most = self.member(member)?.max_in_flight;
        Some(Choice { member, pass: Pass::Usable, reason, most })
    }

    /// The owner of the key or whoever comes next, among those wanted; without a key, whom the algorithm chooses of them.
    fn among(
        &self,
        side: Side<'_>,
        wanted: impl Fn(usize) -> bool,
        ask: &Ask<'_>,
        random: &mut Rng,
    ) -> Option<(usize, Reason)> {
        let Some(hash) = ask.hash else {
            let reason = if self.hashes { Reason::Spread } else { Reason::Balanced(self.balancer) };
            let member = self.balanced(|| side.board.members().filter(|member| wanted(*member)), ask, random)?;
            return Some((member, reason));
        };
        let owner = side.ring.owner(hash)?;
        if wanted(owner) {
            return Some((owner, Reason::Owner));
        }
        let next = first(side.ring, hash, wanted, || side.board.members())?;
        let reason = match owner {
            _ if ask.tried.contains(&owner) => Reason::OwnerTried,
            _ if side.board.holds(owner) && self.is_known(owner) => Reason::OwnerFull,
            _ => Reason::OwnerOut,
        };
        Some((next, reason))
    }

    /// Proven origins first, then newcomers that were not proven yet.
    fn panicking(&self, side: Side<'_>, ask: &Ask<'_>, random: &mut Rng) -> Option<Choice> {
        let (room, all) = (Room::of(self, side), || 0..self.members.len());
        let left = |member: usize| self.is_left(member, ask) && room.below_limit(member);
        let is_here = |member: usize| self.member(member).is_some_and(|member| member.backup == side.backups);
        let joining = |member: usize| self.member(member).is_some_and(|m| m.origin.verdict() == Verdict::Joining);
        let mut find = |wanted: &dyn Fn(usize) -> bool| match ask.hash {
            Some(hash) => first(side.ring, hash, wanted, all),
            None => self.balanced(|| all().filter(|member| is_here(*member) && wanted(*member)), ask, random),
        };
        let member = find(&|member| left(member) && !joining(member)).or_else(|| find(&left))?;
        let most = self.member(member)?.max_in_flight;
        Some(Choice { member, pass: Pass::Panic, reason: Reason::Panic, most })
    }

    /// Whom the pool's algorithm chooses of these.
    fn balanced<C: Iterator<Item = usize>>(
        &self,
        of: impl Fn() -> C,
        ask: &Ask<'_>,
        random: &mut Rng,
    ) -> Option<usize> {
        let candidate = |member: usize| {
            let Member { origin, weight, .. } = self.member(member)?;
            Some(Candidate { member, weight: u64::from(*weight), load: origin.load() })
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
        let left = |member: usize| self.is_left(member, ask) && also(member);
        if self.is_all_out() {
            return self.walks_in_panic && (0..self.members.len()).any(left);
        }
        self.sides().any(|side| side.board.members().any(left))
    }

    fn is_left(&self, member: usize, ask: &Ask<'_>) -> bool {
        !ask.tried.contains(&member) && self.is_known(member)
    }

    fn is_known(&self, member: usize) -> bool {
        self.member(member).is_some_and(|member| member.address.is_known())
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
            (0..4).for_each(|place| (0..in_flight[place]).for_each(|_| load(place).leave()));
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
