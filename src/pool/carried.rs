//! What does a process tell the next one of a pool? Rule U1: the same members, where they are and as they stand.
//!
//! The section of the file is told elsewhere, as text; here is what does not follow from it: origins that leave, that
//! move, that are parked, weights that are grown into, and what was learned of each. The same [`Carried`] serves twice:
//! a pool is compiled as it says, and an equal one takes over what was learned since ([`Pool::restore`]).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::Not;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::handover;
use super::parked::{Before, Stay};
use super::{Member, Origin, Pool};
use crate::age::Age;
use crate::balance::load;
use crate::config::units;
use crate::health::{self, Address, Course, Live, Role};
use crate::resilience::budget;

/// All that is known of a pool and does not stand in its section.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Carried {
    members: Vec<MemberCarried>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) handover: Option<handover::Carried>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parked: Vec<StayCarried>,
    budget: Option<budget::Carried>,
    course: Option<Course<Age>>,
}

/// A member that another process had.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct MemberCarried {
    pub(super) name: String,
    pub(super) shape: Shape,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) successor: Option<SuccessorCarried>,
    known: OriginCarried,
}

/// What a member is to its pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Shape {
    pub(super) address: units::Address,
    pub(super) weight: u32,
    #[serde(default, skip_serializing_if = "Not::not")]
    pub(super) backup: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) role: Role,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) max_in_flight: Option<usize>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) came: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<u32>,
}

/// Where a member is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SuccessorCarried {
    pub(super) address: units::Address,
    pub(super) resolved: Option<SocketAddr>,
    health: health::Carried,
}

/// An origin that is parked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StayCarried {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) until: Age,
    known: OriginCarried,
}

/// What was learned of an origin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OriginCarried {
    health: health::Carried,
    load: load::Carried,
    #[serde(default, skip_serializing_if = "is_default")]
    in_flight: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resolved: Option<SocketAddr>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Carried {
    /// Is it of the same members, standing in the same places? Then a pool that was compiled for the one may take over
    /// what was learned from the other.
    pub fn is_shaped_as(&self, other: &Self) -> bool {
        let member = |one: &MemberCarried| {
            (one.name.clone(), one.shape.clone(), one.successor.as_ref().map(|successor| successor.address.clone()))
        };
        let parked = |one: &StayCarried| (one.name.clone(), one.shape.clone());
        self.members.iter().map(member).eq(other.members.iter().map(member))
            && self.parked.iter().map(parked).eq(other.parked.iter().map(parked))
            && self.handover.is_some() == other.handover.is_some()
    }

    /// Members by name; those that leave are no part of the file any more.
    pub(super) fn members(&self) -> HashMap<&str, &MemberCarried> {
        self.members.iter().map(|member| (&*member.name, member)).collect()
    }

    /// Those that leave.
    pub(super) fn leaving(&self) -> impl Iterator<Item = &MemberCarried> {
        let leaving = self.handover.iter().flat_map(|handover| handover.leaving.iter().map(String::as_str));
        let members = self.members();
        leaving.filter_map(move |name| members.get(name).copied())
    }
}

impl OriginCarried {
    fn of(origin: &Origin, address: &Address, now: Instant) -> Self {
        Self {
            health: origin.health().export(now),
            load: origin.load().export(now),
            in_flight: origin.in_flight(),
            resolved: address.resolved(),
        }
    }

    fn restore(&self, origin: &Origin, now: Instant) {
        origin.health().import(&self.health, now);
        origin.load().import(&self.load, now);
        origin.load().tell_elsewhere(self.in_flight);
    }
}

impl MemberCarried {
    fn of(member: &Member, now: Instant) -> Self {
        let limit = Some(member.max_in_flight).filter(|most| *most < usize::MAX);
        let successor = member.successor.as_ref().map(|successor| SuccessorCarried {
            address: successor.address.written(),
            resolved: successor.address.resolved(),
            health: successor.live.export(now),
        });
        let shape = Shape {
            address: member.address.written(),
            weight: member.weight,
            backup: member.backup,
            role: member.role,
            max_in_flight: limit,
            came: member.came,
            former: member.former_weight(member.weight),
        };
        let known = OriginCarried::of(&member.origin, &member.address, now);
        Self { name: member.name().to_string(), shape, successor, known }
    }

    /// Where it is.
    pub(super) fn address(&self) -> Address {
        Address::compile(&self.shape.address, None).found_at(self.known.resolved)
    }
}

impl SuccessorCarried {
    /// Where that is.
    pub(super) fn address(&self) -> Address {
        Address::compile(&self.address, None).found_at(self.resolved)
    }

    fn restore(&self, live: &Live, now: Instant) {
        live.import(&self.health, now);
    }
}

impl StayCarried {
    pub(super) fn of(stay: &Stay, now: Instant) -> Self {
        let shape = Shape {
            address: stay.address.written(),
            weight: stay.weight,
            backup: stay.backup,
            role: stay.role,
            max_in_flight: None,
            came: 0,
            former: None,
        };
        let known = OriginCarried::of(&stay.origin, &stay.address, now);
        Self { name: stay.origin.name().to_string(), shape, until: Age::of(stay.until, now), known }
    }

    /// Where it is.
    pub(super) fn address(&self) -> Address {
        Address::compile(&self.shape.address, None).found_at(self.known.resolved)
    }

    pub(super) fn restore(&self, origin: &Origin, now: Instant) {
        self.known.restore(origin, now);
    }
}

impl Pool {
    /// What is known of it, as seen `now`.
    pub fn export(&self, now: Instant) -> Carried {
        let parked = self.parked.iter().flat_map(|parked| parked.stays(now));
        Carried {
            members: self.members.iter().map(|member| MemberCarried::of(member, now)).collect(),
            handover: self.handover.as_ref().map(|handover| handover.export(&self.members, now)),
            parked: parked.map(|stay| StayCarried::of(stay, now)).collect(),
            budget: Some(self.budget.export(now)),
            course: Some(self.roster.memory.export(now)),
        }
    }

    /// What was learned elsewhere of its origins is known here, as seen `now`. To be called before anything judges them.
    pub fn restore(&self, carried: &Carried, now: Instant) {
        let told = carried.members();
        for member in &self.members {
            let Some(one) = told.get(&**member.name()) else { continue };
            one.known.restore(&member.origin, now);
            if let (Some(here), Some(there)) = (&member.successor, &one.successor) {
                there.restore(&here.live, now);
            }
        }
        let parked = self.parked.iter().flat_map(|parked| parked.stays(now));
        let parked: HashMap<&str, &Arc<Origin>> = parked.map(|stay| (&**stay.origin.name(), &stay.origin)).collect();
        for one in &carried.parked {
            parked.get(&*one.name).into_iter().for_each(|origin| one.restore(origin, now));
        }
        carried.budget.iter().for_each(|budget| self.budget.import(budget, now));
        carried.course.iter().for_each(|course| self.roster.memory.import(course, now));
    }

    /// Attempts under way at each origin, by name, as far as there are any; those of a process before this one count.
    pub fn under_way(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        let all = |member: &Member| Some(member.origin.in_flight()).filter(|all| *all > 0);
        self.members.iter().filter_map(move |member| Some((member.name(), all(member)?)))
    }

    /// So many are under way at each in a process that is leaving; at others none is any more.
    pub fn tell_elsewhere(&self, attempts: impl Fn(&str) -> usize) {
        self.members.iter().for_each(|member| member.origin.load().tell_elsewhere(attempts(member.name())));
    }
}

impl<'a> Before<'a> {
    /// A pool of another process.
    pub(super) fn carried(carried: &'a Carried) -> Self {
        Self { carried: Some(carried), ..Self::default() }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use fastrand::Rng;

    use super::*;
    use crate::config;
    use crate::health::{Evidence, Fault, Grade, Ripe, Verdict};
    use crate::pool::tests::{compiled, only_origin, pick_any, pool, section};
    use crate::pool::{Ask, Reason};

    /// The pool as another process has it that was told what this one is `here`; its clock says `there`.
    fn elsewhere(pool: &Pool, section: &config::Pool, here: Instant, there: Instant) -> Pool {
        let told = serde_json::to_string(&pool.export(here)).unwrap();
        Pool::compile_carried("p", section, &serde_json::from_str(&told).unwrap(), there).unwrap()
    }

    fn told(pool: &Pool, now: Instant) -> serde_json::Value {
        serde_json::to_value(pool.export(now)).unwrap()
    }

    fn takers(pool: &Pool) -> Vec<(Arc<str>, Reason)> {
        let hashes = (0..600_u32).map(|n| n.wrapping_mul(0x9e37_79b9));
        let ask = |hash| Ask { hash: Some(hash), tried: &[], now: Instant::now() };
        let pick = |hash| pool.pick(&ask(hash), &mut Rng::with_seed(0)).unwrap();
        hashes.map(pick).map(|pick| (Arc::clone(pick.origin.name()), pick.reason)).collect()
    }

    fn prove(pool: &Pool, names: &[&str], now: Instant) {
        for member in pool.members().iter().filter(|member| names.contains(&&**member.name())) {
            member.origin().health().connected(now);
        }
    }

    fn judge(pool: &Pool, now: Instant) {
        pool.roster().judge_again(now);
    }

    #[test]
    fn p4_a_pool_that_is_replaced_goes_on_being_replaced_in_another_process() {
        let (start, there) = (Instant::now(), Instant::now() + Duration::from_secs(9_999));
        let at = |seconds: u64| Duration::from_secs(seconds);
        let old = pool(&["a", "b", "c"]);
        let next = section(&["d", "e", "f"]);
        let here = compiled(&next, Some(&old));
        prove(&here, &["d", "e"], start);
        [0, 20].into_iter().for_each(|seconds| judge(&here, start + at(seconds)));
        let moved = elsewhere(&here, &next, start + at(20), there + at(20));
        assert!(moved.is_replaced());
        assert_eq!(takers(&moved), takers(&here));
        assert!(takers(&moved).iter().any(|(_, reason)| *reason == Reason::Former));
        assert_eq!(told(&moved, there + at(20)), told(&here, start + at(20)));
        for seconds in [30, 45, 61] {
            judge(&here, start + at(seconds));
            judge(&moved, there + at(seconds));
            assert_eq!(takers(&moved), takers(&here), "after {seconds} s");
        }
        judge(&moved, there + at(82));
        assert_eq!(moved.roster().ripe(there + at(82)), Some(Ripe::HandedOver));
        assert_eq!(moved.fingerprint(), here.fingerprint());
        let last = compiled(&next, Some(&moved));
        assert_eq!(last.members().len(), 3);
    }

    #[test]
    fn p4_parked_origins_come_back_as_they_were_in_another_process() {
        let (start, there) = (Instant::now(), Instant::now() + Duration::from_secs(77));
        let later = Duration::from_secs(30);
        let both = pool(&["a", "b", "c"]);
        both.members()[1].origin().health().take(Evidence::Confirm(Grade::Bad(Fault::Refused)), start);
        judge(&both, start);
        let two = section(&["a", "c"]);
        let here = compiled(&two, Some(&both));
        here.take_over(false, start);
        both.members()[1].origin().health().park(start);
        let moved = elsewhere(&here, &two, start + later, there + later);
        assert_eq!(told(&moved, there + later), told(&here, start + later));
        let back = |pool: &Pool, now: Instant| {
            let back = Pool::compile("p", &section(&["a", "b", "c"]), Some(pool), now).unwrap();
            back.take_over(true, now);
            let states: Vec<_> = back.members().iter().map(|member| member.origin().verdict()).collect();
            (states, back.parked().is_none())
        };
        let states = vec![Verdict::Up, Verdict::Down, Verdict::Up];
        assert_eq!(back(&here, start + later), (states.clone(), true));
        assert_eq!(back(&moved, there + later), (states, true));
        let late = Duration::from_secs(601);
        assert_eq!(moved.parked().unwrap().stays(there + late).count(), 0, "ten minutes in all");
    }

    #[test]
    fn p4_an_origin_that_is_to_move_serves_where_it_is_in_another_process() {
        let (start, there) = (Instant::now(), Instant::now() + Duration::from_secs(5));
        let mut next = section(&["a", "b"]);
        let old = compiled(&next, None);
        next.origins[0].address = units::Address::Ip("127.0.0.2:9".parse().unwrap());
        let here = compiled(&next, Some(&old));
        here.members()[0].successor().unwrap().live.take(Evidence::Probe(Grade::Good), start);
        let moved = elsewhere(&here, &next, start, there);
        assert_eq!(told(&moved, there), told(&here, start));
        let (was, is) = (&here.members()[0], &moved.members()[0]);
        assert!(is.address().is_at(was.address()) && !is.address().is_at(&is.successor().unwrap().address));
        is.successor().unwrap().live.take(Evidence::Probe(Grade::Good), there);
        judge(&moved, there);
        assert_eq!(moved.roster().ripe(there), Some(Ripe::Moved), "two good probes, one of them there");
    }

    #[test]
    fn p4_a_raised_weight_is_grown_into_in_another_process() {
        let (start, there) = (Instant::now(), Instant::now() + Duration::from_secs(5));
        let mut next = section(&["a", "b"]);
        let old = compiled(&next, None);
        next.origins[0].weight = 5;
        let here = compiled(&next, Some(&old));
        here.take_over(false, start);
        judge(&here, start + Duration::from_secs(10));
        let moved = elsewhere(&here, &next, start + Duration::from_secs(10), there);
        assert_eq!(takers(&moved), takers(&here));
        assert_eq!(told(&moved, there), told(&here, start + Duration::from_secs(10)));
        assert!(moved.members()[0].effective_weight() < 3.0, "{}", moved.members()[0].effective_weight());
    }

    #[test]
    fn a_name_is_where_it_was_resolved_to() {
        let (mut written, now) = (section(&["a"]), Instant::now());
        written.origins[0].address = units::Address::Name("a.example".to_owned(), 80);
        let here = compiled(&written, None);
        let at = Some("127.0.0.1:80".parse().unwrap());
        let _ = here.members()[0].address().clone().found_at(at);
        judge(&here, now);
        let moved = elsewhere(&here, &written, now, now);
        assert_eq!(moved.members()[0].address().resolved(), at);
        assert_eq!(only_origin(&moved).verdict(), Verdict::Up);
    }

    #[test]
    fn what_is_under_way_elsewhere_is_told_and_told_again() {
        let (written, now) = (section(&["a"]), Instant::now());
        let here = compiled(&written, None);
        let leases: Vec<_> = (0..3).map(|_| pick_any(&here).lease(now)).collect();
        let moved = elsewhere(&here, &written, now, now);
        let count = || (only_origin(&moved).in_flight(), only_origin(&moved).load().own());
        assert_eq!(count(), (3, 0));
        assert_eq!(elsewhere(&moved, &written, now, now).members()[0].origin().in_flight(), 3, "told on to a third");
        drop(leases);
        assert_eq!(here.under_way().count(), 0);
        moved.tell_elsewhere(|_| 0);
        assert_eq!(count(), (0, 0));
    }

    #[test]
    fn what_was_learned_since_is_taken_over_by_a_pool_of_the_same_shape() {
        let (written, now) = (section(&["a", "b"]), Instant::now());
        let here = compiled(&written, None);
        let first = here.export(now);
        let moved = elsewhere(&here, &written, now, now);
        here.members()[0].origin().health().take(Evidence::Confirm(Grade::Bad(Fault::Refused)), now);
        judge(&here, now);
        let last = here.export(now);
        assert!(first.is_shaped_as(&last));
        moved.restore(&last, now);
        assert_eq!(moved.usable_members(), 1);
        let other = compiled(&section(&["a", "b", "c"]), Some(&here));
        assert!(!first.is_shaped_as(&other.export(now)));
    }
}
