//! Which origin does the next attempt of a request go to? Rule R3.
//!
//! The passes are tried in their order, over origins this request has not tried yet. Taking none of the locks and
//! allocating nothing, a pick reads the ring, the board and, for requests without a key, counts in flight.

use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;

use crate::balance::least::two_choices;
use crate::health::{Endpoint, Verdict};

use super::{Lease, Member, Origin, Pool};

/// Points looked at one after the other: a microsecond's worth.
const NEAR: usize = 1024;

/// What a pick is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The key's place on the circle; `None`: without a key, spread over the pool.
    pub hash: Option<u32>,
    /// Members this request has tried.
    pub tried: &'a [usize],
}

/// An origin to go to.
#[derive(Debug, Clone)]
pub struct Pick {
    /// Its number in the pool.
    pub member: usize,
    /// Its live state.
    pub origin: Arc<Origin>,
    /// Where it is.
    pub endpoint: Endpoint,
    /// The pass that took it.
    pub pass: Pass,
    /// Why it is this one.
    pub reason: Reason,
    /// What was hashed, or drawn if there was nothing to hash: tells requests apart.
    pub(super) key: u32,
}

/// The passes of rule R3. While every origin takes its full share and none has a limit in flight, passes 1 to 3 are
/// one, and no origin is a backup.
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
    /// The first not tried yet after an owner that was tried.
    OwnerTried,
    /// It was tried on a connection that had gone stale.
    Repeat,
    /// There is no key: the less loaded of two.
    Spread,
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
            Self::OwnerTried => "owner_tried",
            Self::Repeat => "repeat",
            Self::Spread => "spread",
            Self::Panic => "panic",
        }
    }
}

impl Pool {
    /// The origin for the next attempt, or `None`: no origin may be asked (any more).
    pub fn pick(&self, ask: &Ask<'_>, random: &mut Rng) -> Option<Pick> {
        if self.board.usable() > 0 {
            return self.usable(ask, random);
        }
        if self.walks_in_panic { self.panicking(ask, random) } else { None }
    }

    /// The member `member` once more, for a try that goes back to where the last one was.
    pub fn repeat(&self, member: usize, hash: Option<u32>, random: &mut Rng) -> Option<Pick> {
        let ask = Ask { hash, tried: &[] };
        self.picked(member, Pass::Own, Reason::Repeat, &ask, random)
    }

    fn usable(&self, ask: &Ask<'_>, random: &mut Rng) -> Option<Pick> {
        let free = |member: usize| self.board.holds(member) && !ask.tried.contains(&member) && self.is_known(member);
        let (member, reason) = match ask.hash {
            Some(hash) => self.owner_or_next(hash, free, ask.tried)?,
            None => (self.spread(free, random)?, Reason::Spread),
        };
        self.picked(member, Pass::Own, reason, ask, random)
    }

    /// Proven origins first, then newcomers that were not proven yet.
    fn panicking(&self, ask: &Ask<'_>, random: &mut Rng) -> Option<Pick> {
        let left = |member: usize| !ask.tried.contains(&member) && self.is_known(member);
        let joining = |member: usize| self.member(member).is_some_and(|m| m.origin.verdict() == Verdict::Joining);
        let mut find = |wanted: &dyn Fn(usize) -> bool| match ask.hash {
            Some(hash) => self.first(hash, wanted, || 0..self.members.len()),
            None => self.spread(wanted, random),
        };
        let member = find(&|member| left(member) && !joining(member)).or_else(|| find(&left))?;
        self.picked(member, Pass::Panic, Reason::Panic, ask, random)
    }

    /// The first member from `hash` on that is wanted: point by point, and where few of many are wanted, or few heavy
    /// ones hold most points, by measuring the distance of each candidate.
    fn first<C: Iterator<Item = usize>>(
        &self,
        hash: u32,
        wanted: impl Fn(usize) -> bool,
        candidates: impl Fn() -> C,
    ) -> Option<usize> {
        let far = || self.ring.first_of(hash, candidates().filter(|member| wanted(*member)));
        self.ring.near(hash, NEAR, &wanted).or_else(far)
    }

    /// The less loaded of two.
    fn spread(&self, wanted: impl Fn(usize) -> bool, random: &mut Rng) -> Option<usize> {
        let weight = |member: usize| if wanted(member) { self.member(member).map_or(0, Member::weight) } else { 0 };
        let load = |member: usize| self.member(member).map_or(0, |member| member.origin.in_flight());
        two_choices(self.members.len(), weight, load, random)
    }

    fn owner_or_next(&self, hash: u32, free: impl Fn(usize) -> bool, tried: &[usize]) -> Option<(usize, Reason)> {
        let owner = self.ring.owner(hash)?;
        if free(owner) {
            return Some((owner, Reason::Owner));
        }
        let next = self.first(hash, free, || self.board.members())?;
        Some((next, if tried.contains(&owner) { Reason::OwnerTried } else { Reason::OwnerOut }))
    }

    fn picked(&self, member: usize, pass: Pass, reason: Reason, ask: &Ask<'_>, random: &mut Rng) -> Option<Pick> {
        let Member { origin, address, .. } = self.member(member)?;
        let key = ask.hash.unwrap_or_else(|| random.u32(..));
        Some(Pick { member, origin: Arc::clone(origin), endpoint: address.endpoint()?, pass, reason, key })
    }

    fn is_known(&self, member: usize) -> bool {
        self.member(member).is_some_and(|member| member.address.is_known())
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config;
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
        while let Some(pick) = pool.pick(&Ask { hash: Some(hash), tried: &tried }, &mut Rng::with_seed(0)) {
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
            let pick = |hash| pool.pick(&Ask { hash: Some(hash), tried: &[] }, &mut Rng::with_seed(0));
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
            pool.pick(&Ask { hash: Some(7), tried }, &mut Rng::with_seed(0))
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
        assert!(pool.pick(&Ask { hash: Some(1), tried: &[] }, &mut Rng::with_seed(0)).is_none());
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
            let pick = pool.pick(&Ask { hash: None, tried: &[] }, &mut random).unwrap();
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
        let pick = |tried: &[usize]| pool.pick(&Ask { hash: None, tried }, &mut Rng::with_seed(0)).map(|p| p.member);
        assert_eq!(pick(&[0]), Some(2));
        assert_eq!(pick(&[2]), Some(0));
        assert_eq!(pick(&[0, 2]), None);
    }
}
