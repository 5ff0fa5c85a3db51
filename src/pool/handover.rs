//! Who serves while a pool is replaced? Rule J3: when too little of the new pool is proven, the origins that go stay
//! until those that come have their share.
//!
//! A key goes to its new owner once that takes it, and until then to where it went before: the ring of the pool before
//! is kept for as long. Whatever is asked in between finds one of the two, so nothing is lost, and each key moves once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::carried::MemberCarried;
use super::member::Origins;
use super::parked::Before;
use super::{Member, Pool};
use crate::age::Age;
use crate::balance::{Factor, Ring, handed_shares, ring};
use crate::health::{self, Live, Policy, Role};

/// The pool before, as long as it is needed.
#[derive(Debug)]
pub(super) struct Handover {
    ring: Ring,
    /// The members of that ring, by their numbers in the pool.
    members: Vec<usize>,
    since: Instant,
    newcomers: Vec<usize>,
    /// Members from this number on are those that leave.
    stay: usize,
}

/// A replacement as another process began it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Carried {
    since: Age,
    /// The ring before: names and weights.
    ring: Vec<(String, u32)>,
    /// The members of that ring, as far as they are members now.
    members: Vec<Option<String>>,
    newcomers: Vec<String>,
    pub(super) leaving: Vec<String>,
}

/// No weight in a file is greater.
const WEIGHT: u32 = 1000;

impl Handover {
    /// The replacement that goes on in a pool of these members, or that they begin.
    pub(super) fn after(
        before: Before<'_>,
        members: &mut Vec<Member>,
        origins: &Origins<'_>,
        policy: &Policy,
    ) -> Option<Self> {
        match before.carried {
            Some(carried) => Self::again(carried, members, origins),
            None => Self::prepare(before.pool?, members, policy, origins.now),
        }
    }

    /// What a change from `previous` to these members takes, if it takes anything: the origins that go become members
    /// too.
    pub(super) fn prepare(previous: &Pool, members: &mut Vec<Member>, policy: &Policy, now: Instant) -> Option<Self> {
        let before = &previous.handover;
        let is_over = match before {
            Some(_) => previous.roster.ripe(now) == Some(health::Ripe::HandedOver),
            None => is_enough(members, policy),
        };
        if is_over {
            return None;
        }
        let (ring, old) = match before {
            Some(before) => (before.ring.clone(), before.members.clone()),
            None => (previous.ring.clone(), (0..previous.members.len()).collect()),
        };
        let old: Vec<&Member> = old.iter().filter_map(|number| previous.members.get(*number)).collect();
        let mut numbers: HashMap<Arc<str>, usize> =
            members.iter().enumerate().map(|(number, member)| (Arc::clone(member.name()), number)).collect();
        let newcomers = (0..members.len()).filter(|number| is_new(members.get(*number), &old)).collect();
        let stay = members.len();
        for member in old.iter().filter(|member| !member.backup) {
            numbers.entry(Arc::clone(member.name())).or_insert_with(|| {
                members.push(member.leaving());
                members.len() - 1
            });
        }
        let since = before.as_ref().map_or(now, |before| before.since);
        // A backup is on no ring that is kept: its number stands for nobody.
        let number = |member: &&Member| numbers.get(member.name()).copied().unwrap_or(usize::MAX);
        let members_of_ring = old.iter().map(number).collect();
        // Where nobody goes, a key of somebody unproven walks on to where it was.
        (members.len() > stay).then_some(Self { ring, members: members_of_ring, since, newcomers, stay })
    }

    /// One that another process began: those that leave become members again.
    fn again(carried: &super::Carried, members: &mut Vec<Member>, origins: &Origins<'_>) -> Option<Self> {
        let told = carried.handover.as_ref()?;
        let known: HashSet<Arc<str>> = members.iter().map(|member| Arc::clone(member.name())).collect();
        let (stay, leaving) = (members.len(), carried.leaving().filter(|one| !known.contains(&*one.name)));
        members.extend(leaving.map(|one| Member::told(one, origins)));
        let numbers: HashMap<&str, usize> =
            members.iter().enumerate().map(|(number, member)| (&**member.name(), number)).collect();
        let number = |name: &String| numbers.get(&**name).copied();
        let weights: Vec<(&str, u32)> =
            told.ring.iter().map(|(name, weight)| (&**name, (*weight).min(WEIGHT))).collect();
        Some(Self {
            ring: Ring::new(&weights),
            members: told.members.iter().map(|name| name.as_ref().and_then(number).unwrap_or(usize::MAX)).collect(),
            since: told.since.at(origins.now),
            newcomers: told.newcomers.iter().filter_map(number).collect(),
            stay,
        })
    }

    /// As another process has to know it.
    pub(super) fn export(&self, members: &[Member], now: Instant) -> Carried {
        let name = |number: usize| members.get(number).map(|member| member.name().to_string());
        let points = |number: usize| self.ring.points_of(number).div_ceil(ring::POINTS as usize) as u32;
        let leaving = members.get(self.stay..).unwrap_or_default().iter();
        Carried {
            since: Age::of(self.since, now),
            ring: (0..self.ring.len())
                .filter_map(|number| Some((self.ring.name(number)?.to_owned(), points(number))))
                .collect(),
            members: self.members.iter().map(|number| name(*number)).collect(),
            newcomers: self.newcomers.iter().filter_map(|number| name(*number)).collect(),
            leaving: leaving.map(|member| member.name().to_string()).collect(),
        }
    }

    /// As the judge has to know it.
    pub(super) fn told(&self) -> health::Handover {
        health::Handover { since: self.since, newcomers: self.newcomers.clone() }
    }

    /// What each member takes of the circle now: the new owners by their part, those before them all the rest.
    pub(super) fn shares(&self, pool: &Pool) -> Vec<f64> {
        let part = |member: usize| {
            let member =
                pool.members.get(member).filter(|_| pool.board.is_full(member) || pool.board.is_partial(member));
            member.map_or(Factor::NONE, |member| member.origin.health().factor())
        };
        let former = |hash| {
            let mut walk = self.ring.walk(hash).filter_map(|old| self.members.get(old).copied());
            walk.find(|number| pool.board.holds(*number))
        };
        handed_shares((&self.ring, &pool.ring), pool.members.len(), part, former)
    }

    /// Where a key goes that its new owner does not take: by the ring before, to one of those wanted.
    pub(super) fn former(&self, pool: &Pool, hash: u32, wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let walk = || self.ring.walk(hash).filter_map(|old| self.members.get(old).copied());
        let usable = |number: &usize| pool.board.holds(*number) && wanted(*number);
        let takes =
            |number: &usize| pool.member(*number).is_some_and(|member| member.origin.health().factor().takes(hash));
        walk().find(|number| usable(number) && takes(number)).or_else(|| walk().find(usable))
    }
}

impl Member {
    /// The same in a pool that it goes from.
    fn leaving(&self) -> Self {
        let role = if self.role == Role::Serves { Role::Leaves } else { self.role };
        Self {
            backup: self.backup,
            max_in_flight: self.max_in_flight,
            connecting: self.connecting.clone(),
            came: self.came,
            ..Self::settled(Arc::clone(&self.origin), self.weight, role, self.address.clone())
        }
    }
}

impl Member {
    /// One that left another process's pool.
    fn told(carried: &MemberCarried, origins: &Origins<'_>) -> Self {
        let (shape, address) = (&carried.shape, carried.address());
        let origin = origins.fresh(&carried.name, Live::new(true, address.is_known()), shape.role);
        Self {
            backup: shape.backup,
            max_in_flight: shape.max_in_flight.unwrap_or(usize::MAX),
            came: shape.came,
            ..Self::settled(origin, shape.weight.min(WEIGHT), shape.role, address)
        }
    }
}

/// Is so much of the new pool proven and in service that it can do without those that go?
fn is_enough(members: &[Member], policy: &Policy) -> bool {
    let placed = || members.iter().filter(|member| member.is_placed() && !member.backup);
    let proven = |member: &&Member| member.origin.verdict().usable() && member.origin.health().is_proven();
    policy.is_enough(weight(placed().filter(proven)), weight(placed()))
}

fn weight<'a>(members: impl Iterator<Item = &'a Member>) -> u64 {
    members.map(|member| u64::from(member.weight)).sum()
}

/// Was it none of the pool before?
fn is_new(member: Option<&Member>, before: &[&Member]) -> bool {
    member.is_some_and(|member| {
        member.is_placed() && !member.backup && !before.iter().any(|old| Arc::ptr_eq(&old.origin, &member.origin))
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use fastrand::Rng;

    use super::*;
    use crate::health::{Course, Ripe, Verdict};
    use crate::pool::tests::{compiled, pool, section};
    use crate::pool::{Ask, Reason};

    fn hashes() -> impl Iterator<Item = u32> {
        (0..600_u32).map(|n| n.wrapping_mul(0x9e37_79b9))
    }

    /// Who takes each key, and why.
    fn takers(pool: &Pool) -> Vec<(Arc<str>, Reason)> {
        let pick = |hash| {
            pool.pick(&Ask { hash: Some(hash), tried: &[], now: Instant::now() }, &mut Rng::with_seed(0)).unwrap()
        };
        hashes().map(pick).map(|pick| (Arc::clone(pick.origin.name()), pick.reason)).collect()
    }

    fn prove(pool: &Pool, names: &[&str], now: Instant) {
        for member in pool.members().iter().filter(|member| names.contains(&&**member.name())) {
            member.origin().health().connected(now);
        }
    }

    fn verdicts(pool: &Pool) -> Vec<&'static str> {
        pool.members().iter().map(|member| member.origin().verdict().as_str()).collect()
    }

    #[test]
    fn j3_replaced_pool_serves_by_the_ring_before_until_each_newcomer_takes_its_keys() {
        let (start, mut course) = (Instant::now(), Course::default());
        let old = pool(&["a", "b", "c"]);
        let first = takers(&old);
        let new = compiled(&section(&["d", "e", "f"]), Some(&old));
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        new.roster().judge(&mut course, start);
        assert_eq!(verdicts(&new), ["joining", "joining", "joining", "leaving", "leaving", "leaving"]);
        assert!(takers(&new).iter().zip(&first).all(|(now, was)| now.0 == was.0 && now.1 == Reason::Former));
        let mut before = takers(&new);
        prove(&new, &["d"], start);
        for seconds in [0, 20, 40, 60] {
            new.roster().judge(&mut course, at(seconds));
            let part = new.members()[0].origin().health().factor();
            let now = takers(&new);
            for ((hash, was), (is, _)) in hashes().zip(&before).zip(&now) {
                let own = new.ring().owner(hash) == Some(0) && part.takes(hash);
                assert_eq!(&**is, if own { "d" } else { &*was.0 }, "at {seconds} s");
            }
            before = now;
        }
        assert_eq!(new.roster().ripe(at(60)), None, "one of three is not enough");
        prove(&new, &["e"], at(60));
        new.roster().judge(&mut course, at(60));
        new.roster().judge(&mut course, at(119));
        assert_eq!(new.roster().ripe(at(119)), None, "it grows yet");
        new.roster().judge(&mut course, at(121));
        assert_eq!(new.roster().ripe(at(121)), Some(Ripe::HandedOver));
        let last = Pool::compile("p", &section(&["d", "e", "f"]), Some(&new), at(121)).unwrap();
        assert_eq!(verdicts(&last), ["up", "up", "joining"]);
        assert!(!last.is_replaced());
    }

    #[test]
    fn j3_replacement_goes_on_over_a_reload_and_can_be_taken_back() {
        let (start, mut course) = (Instant::now(), Course::default());
        let old = pool(&["a", "b", "c"]);
        let first: Vec<_> = takers(&old).into_iter().map(|(name, _)| name).collect();
        let new = compiled(&section(&["d", "e", "f"]), Some(&old));
        prove(&new, &["d", "e", "f"], start);
        new.roster().judge(&mut course, start);
        let again = compiled(&section(&["d", "e", "f"]), Some(&new));
        assert!(again.is_replaced(), "they grow yet");
        assert_eq!(takers(&again), takers(&new));
        let back = compiled(&section(&["a", "b", "c"]), Some(&again));
        back.roster().judge(&mut course, start);
        assert_eq!((verdicts(&back), back.is_replaced()), (vec!["up", "up", "up"], false));
        assert_eq!(takers(&back).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), first);
    }

    #[test]
    fn j3_origins_go_at_once_where_enough_of_the_pool_is_proven_and_none_stays_where_none_goes() {
        let old = pool(&["a", "b", "c"]);
        let names = |pool: &Pool| pool.members().len();
        assert_eq!(names(&compiled(&section(&["a", "b", "d"]), Some(&old))), 3);
        assert_eq!(names(&compiled(&section(&["a", "d", "e"]), Some(&old))), 5, "a third of it is not enough");
        assert_eq!(names(&compiled(&section(&["a", "b", "c", "d", "e", "f", "g", "h"]), Some(&old))), 8);
        old.members()[0].origin().health().publish(Verdict::Down);
        assert_eq!(names(&compiled(&section(&["a", "b", "d"]), Some(&old))), 4, "a does not serve");
    }

    #[test]
    fn j3_shares_and_requests_without_a_key_know_those_that_leave() {
        let (start, mut course) = (Instant::now(), Course::default());
        let old = pool(&["a", "b"]);
        let new = compiled(&section(&["c", "d", "e"]), Some(&old));
        new.roster().judge(&mut course, start);
        assert_eq!(new.effective_shares()[..3], [0.0; 3]);
        let spread = new.pick(&Ask { hash: None, tried: &[], now: Instant::now() }, &mut Rng::with_seed(1)).unwrap();
        assert!(spread.member >= 3);
        prove(&new, &["c"], start);
        for seconds in [0, 30] {
            new.roster().judge(&mut course, start + Duration::from_secs(seconds));
        }
        let mut found = vec![0.0; 5];
        for hash in hashes() {
            let pick =
                new.pick(&Ask { hash: Some(hash), tried: &[], now: Instant::now() }, &mut Rng::with_seed(0)).unwrap();
            found[pick.member] += 1.0 / 600.0;
        }
        let shares = new.effective_shares();
        assert!(shares.iter().zip(&found).all(|(share, found)| (share - found).abs() < 0.05), "{shares:?} {found:?}");
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn j3_a_request_that_tried_the_former_owner_goes_on() {
        let old = pool(&["a", "b"]);
        let new = compiled(&section(&["c", "d", "e"]), Some(&old));
        new.roster().judge(&mut Course::default(), Instant::now());
        for hash in hashes() {
            let mut tried = Vec::new();
            while let Some(pick) =
                new.pick(&Ask { hash: Some(hash), tried: &tried, now: Instant::now() }, &mut Rng::with_seed(0))
            {
                tried.push(pick.member);
            }
            let walk: Vec<_> = old.ring().walk(hash).map(|member| member + 3).collect();
            assert_eq!(tried, walk);
        }
    }

    #[test]
    fn j3_a_pool_without_a_key_is_replaced_as_well_and_backups_go_at_once() {
        let (start, mut course) = (Instant::now(), Course::default());
        let mut old = section(&["a", "b", "s"]);
        old.balance.algorithm = crate::config::pool::Algorithm::RoundRobin;
        old.origins[2].backup = true;
        let mut new = section(&["c", "d"]);
        new.balance.algorithm = old.balance.algorithm;
        let old = compiled(&old, None);
        let pool = compiled(&new, Some(&old));
        pool.roster().judge(&mut course, start);
        assert_eq!(verdicts(&pool), ["joining", "joining", "leaving", "leaving"]);
        let ask = Ask { hash: None, tried: &[], now: start };
        let picks = |count| (0..count).map(|_| pool.pick(&ask, &mut Rng::with_seed(0)).unwrap().member);
        assert_eq!(picks(4).collect::<Vec<_>>(), [2, 3, 2, 3]);
        prove(&pool, &["c", "d"], start);
        pool.roster().judge(&mut course, start);
        pool.roster().judge(&mut course, start + Duration::from_secs(61));
        pool.roster().judge(&mut course, start + Duration::from_secs(61));
        assert_eq!(pool.roster().ripe(start + Duration::from_secs(61)), Some(Ripe::HandedOver));
    }
}
