//! Who belongs to a pool? The origins as a snapshot has them, each with what was learned of the origin of its name.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use super::Origin;
use super::carried::{Carried, MemberCarried};
use super::connecting::Connecting;
use super::parked::Before;
use crate::balance::Base;
use crate::config;
use crate::config::pool::State;
use crate::config::units::Off;
use crate::health::{Address, Live, Role, Target};

/// An origin as this snapshot has it.
#[derive(Debug)]
pub struct Member {
    pub(super) origin: Arc<Origin>,
    pub(super) weight: u32,
    pub(super) role: Role,
    pub(super) address: Address,
    pub(super) backup: bool,
    /// Attempts under way there at most.
    pub(super) max_in_flight: usize,
    /// Connections are made in turn.
    pub(super) connecting: Option<Connecting>,
    /// Which change of the pool it came with, from 0; who came together has the same number.
    pub(super) came: u32,
    /// The weight before it was raised, while the rest is grown into, and the points that it gave.
    pub(super) former: Option<u32>,
    pub(super) base: Option<Base>,
    /// It was raised with this snapshot.
    pub(super) raised: bool,
    /// It is somewhere else than in the snapshot before, where it has proven itself.
    pub(super) moves: bool,
    /// It was parked in the snapshot before.
    pub(super) returns: bool,
    /// Where it is to be once that place is proven: rule J6.
    pub(super) successor: Option<Successor>,
}

/// Another address of an origin, which has to prove itself first.
#[derive(Debug, Clone)]
pub struct Successor {
    /// Where it is.
    pub address: Address,
    /// Its health.
    pub live: Arc<Live>,
}

impl Member {
    /// One that nothing is about to change: neither its weight nor its place.
    pub(super) fn settled(origin: Arc<Origin>, weight: u32, role: Role, address: Address) -> Self {
        Self {
            origin,
            weight,
            role,
            address,
            backup: false,
            max_in_flight: usize::MAX,
            connecting: None,
            came: 0,
            former: None,
            base: None,
            raised: false,
            moves: false,
            returns: false,
            successor: None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        self.origin.name()
    }

    /// Its live state.
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Its units of weight.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The turns in which connections to it are made, if they are.
    pub fn connecting(&self) -> Option<&Connecting> {
        self.connecting.as_ref()
    }

    /// Does it serve only while no other may be asked?
    pub fn is_backup(&self) -> bool {
        self.backup
    }

    /// Where it is to be once that place is proven.
    pub fn successor(&self) -> Option<&Successor> {
        self.successor.as_ref()
    }

    /// Does it belong to the placement that is wanted: is it to keep its keys?
    pub fn is_placed(&self) -> bool {
        self.role == Role::Serves
    }

    /// Is it written to be drained?
    pub(super) fn is_drained(&self) -> bool {
        matches!(self.role, Role::Drains(_))
    }

    /// Its weight on the ring of the backups, or on that of the others.
    pub(super) fn placed_weight(&self, backups: bool) -> u32 {
        if self.backup == backups { self.weight } else { 0 }
    }

    /// Does it get no new request from when its snapshot is published?
    pub(super) fn is_barred(&self) -> bool {
        self.role == Role::Drains(Duration::ZERO)
    }
}

/// What members are compiled from, beside their section.
pub(super) struct Origins<'a> {
    pub(super) pool: &'a Arc<str>,
    /// What is known of them.
    pub(super) before: Before<'a>,
    /// Connections open to the pool.
    pub(super) open: &'a Arc<AtomicUsize>,
    pub(super) now: Instant,
}

impl Origins<'_> {
    /// The members as written.
    pub(super) fn compile(&self, written: &config::Pool) -> Vec<Member> {
        let before = || self.before.pool.iter().flat_map(|previous| &previous.members);
        let known: HashMap<&str, &Member> = before().map(|member| (&**member.name(), member)).collect();
        let grows = written.slow_start.on().is_some();
        let told = self.before.carried.map(Carried::members).unwrap_or_default();
        // Everything is assumed up at start and in a pool that is new or had nobody yet. Without probes a newcomer is as good as proven, but may
        // have to grow.
        let next = before().map(|member| member.came).max().map_or(0, |latest| latest.saturating_add(1));
        let probed = written.health.probe.on().is_some();
        let assumed = self.before.has_nobody() || !grows && !probed;
        let member = |one: &config::pool::Origin| {
            let old = known.get(&*one.name);
            let stay = self.before.parked.filter(|_| old.is_none());
            let stay = stay.and_then(|parked| parked.find(&one.name, &one.address, self.now));
            let told = told.get(&*one.name).copied();
            let Place { address, successor, moves } = match (stay, told) {
                (Some(stay), _) => Place::stays(stay.address.clone()),
                (None, Some(told)) => Place::told(one, told),
                (None, None) => Place::of(one, old.copied(), probed),
            };
            let role = role(one);
            let known = old.map(|old| &old.origin).or(stay.map(|stay| &stay.origin)).map(Arc::clone);
            let fresh = || self.fresh(&one.name, Live::new(assumed, address.is_known()), role);
            let (origin, returns) = (known.unwrap_or_else(fresh), stay.is_some());
            let weight = one.weight.into();
            let former = old.filter(|_| grows).and_then(|old| old.former_weight(weight));
            let former =
                former.or(told.filter(|_| grows).and_then(|told| told.shape.former)).filter(|former| *former < weight);
            let raised = former.is_some() && old.is_some_and(|old| weight > old.weight);
            let came = old.map(|old| old.came).or(told.map(|told| told.shape.came)).unwrap_or(next);
            let (backup, max_in_flight) = (one.backup, limit(one, written));
            let connecting = written.connections.max_connecting.on();
            let connecting =
                connecting.map(|most| Connecting::of(*most as usize, old.and_then(|old| old.connecting.as_ref())));
            Member {
                origin,
                weight,
                role,
                address,
                backup,
                max_in_flight,
                connecting,
                came,
                former,
                base: None,
                raised,
                moves,
                returns,
                successor,
            }
        };
        written.origins.iter().map(member).collect()
    }

    /// An origin of which nothing is known.
    pub(super) fn fresh(&self, name: &str, live: Live, role: Role) -> Arc<Origin> {
        if role != Role::Serves {
            live.begin_drained(self.now);
        }
        Arc::new(Origin::new(Arc::clone(self.pool), Arc::from(name), live, Arc::clone(self.open), self.now))
    }
}

/// Where an origin is, and where it is to be.
struct Place {
    address: Address,
    successor: Option<Successor>,
    moves: bool,
}

impl Place {
    fn stays(address: Address) -> Self {
        Self { address, successor: None, moves: false }
    }

    /// As another process had it: where it is, and where it is to be once that is proven.
    fn told(written: &config::pool::Origin, told: &MemberCarried) -> Self {
        if told.shape.address == written.address {
            return Self::stays(told.address());
        }
        let pending = told.successor.as_ref().filter(|pending| pending.address == written.address);
        let Some(pending) = pending else { return Self::stays(Address::compile(&written.address, None)) };
        let address = pending.address();
        let live = Arc::new(Live::new(false, address.is_known()));
        Self { address: told.address(), successor: Some(Successor { address, live }), moves: false }
    }

    /// An origin moves once its new address is proven; at once if it was never proven where it is, or where nothing is
    /// ever proven.
    fn of(written: &config::pool::Origin, old: Option<&Member>, probed: bool) -> Self {
        let Some(old) = old else { return Self::stays(Address::compile(&written.address, None)) };
        let pending = old.successor.as_ref();
        let new = Address::compile(&written.address, Some(&old.address));
        if new.is_at(&old.address) {
            return Self::stays(old.address.clone());
        }
        let same = pending.filter(|pending| pending.address.is_at(&new));
        match same {
            Some(same) if same.live.verdict().usable() => {
                Self { address: same.address.clone(), successor: None, moves: true }
            }
            _ if !probed || !old.origin.health().is_proven() => Self::stays(new),
            Some(same) => Self { address: old.address.clone(), successor: Some(same.clone()), moves: false },
            None => {
                let live = Arc::new(Live::new(false, new.is_known()));
                Self { address: old.address.clone(), successor: Some(Successor { address: new, live }), moves: false }
            }
        }
    }
}

/// How many attempts may be under way at an origin.
fn limit(origin: &config::pool::Origin, pool: &config::Pool) -> usize {
    let most = origin.max_in_flight.unwrap_or(pool.connections.max_in_flight);
    most.on().map_or(usize::MAX, |most| *most as usize)
}

fn role(written: &config::pool::Origin) -> Role {
    match (written.state, written.drain_over) {
        (State::Serve, _) => Role::Serves,
        (State::Drain, Off::Off) => Role::Drains(Duration::ZERO),
        (State::Drain, Off::On(over)) => Role::Drains(over.0),
    }
}

/// Who is probed and judged together: the members, and after them the places some are to move to.
pub(super) fn targets(members: &[Member]) -> Vec<Target> {
    let member = |member: &Member| Target {
        name: Arc::clone(member.name()),
        weight: member.weight,
        backup: member.backup,
        role: member.role,
        address: member.address.clone(),
        live: Arc::clone(member.origin.health()),
    };
    let successor = |member: &Member| {
        let Successor { address, live } = member.successor.as_ref()?;
        let (address, live) = (address.clone(), Arc::clone(live));
        let (name, weight, backup) = (Arc::clone(member.name()), member.weight, member.backup);
        Some(Target { name, weight, backup, role: Role::Succeeds, address, live })
    };
    members.iter().map(member).chain(members.iter().filter_map(successor)).collect()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;
    use crate::config::units;
    use crate::health::{Course, Ripe, Verdict};
    use crate::pool::Pool;
    use crate::pool::tests::{compiled, pool, section};

    fn at(port: u16) -> config::Pool {
        let mut section = section(&["a", "b"]);
        section.origins[0].address = units::Address::Ip(([127, 0, 0, 9], port).into());
        section
    }

    fn address(pool: &Pool) -> String {
        pool.members()[0].address().endpoint().unwrap().to_string()
    }

    #[test]
    fn j6_origin_moves_when_its_new_address_is_proven_and_without_a_ramp() {
        let (old, mut course, now) = (pool(&["a", "b"]), Course::default(), Instant::now());
        let moving = compiled(&at(9), Some(&old));
        moving.roster().judge(&mut course, now);
        assert_eq!((address(&moving), moving.roster().ripe(now)), (address(&old), None));
        let again = compiled(&at(9), Some(&moving));
        let live = |pool: &Pool| Arc::clone(&pool.members()[0].successor().unwrap().live);
        assert!(Arc::ptr_eq(&live(&moving), &live(&again)), "what was learned of it is kept");
        live(&again).connected(now);
        assert!(again.roster().judge(&mut course, now).ripe);
        assert_eq!(again.roster().ripe(now), Some(Ripe::Moved));
        let moved = compiled(&at(9), Some(&again));
        moved.take_over(false, now);
        moved.roster().judge(&mut course, now);
        assert_eq!((address(&moved).as_str(), moved.members()[0].origin().verdict()), ("127.0.0.9:9", Verdict::Up));
        assert_eq!((moved.roster().ripe(now), moved.roster().targets.len()), (None, 2));
        assert!(Arc::ptr_eq(moved.members()[0].origin(), old.members()[0].origin()), "nothing learned is forgotten");
    }

    #[test]
    fn j6_origin_that_is_to_stay_after_all_or_to_go_elsewhere_begins_anew() {
        let old = pool(&["a", "b"]);
        let moving = compiled(&at(9), Some(&old));
        let elsewhere = compiled(&at(10), Some(&moving));
        assert_eq!(elsewhere.members()[0].successor().unwrap().address.endpoint().unwrap().to_string(), "127.0.0.9:10");
        let stays = compiled(&section(&["a", "b"]), Some(&elsewhere));
        assert!(stays.members()[0].successor().is_none() && address(&stays) == address(&old));
    }

    #[test]
    fn j6_origin_moves_at_once_where_nothing_is_proven() {
        let mut unprobed = at(9);
        unprobed.health.probe = Off::Off;
        assert_eq!(address(&compiled(&unprobed, Some(&pool(&["a", "b"])))), "127.0.0.9:9");
        let joining = compiled(&section(&["a", "b"]), Some(&pool(&["b"])));
        assert_eq!(address(&compiled(&at(9), Some(&joining))), "127.0.0.9:9");
    }

    #[test]
    fn new_address_counts_neither_as_a_member_nor_as_an_origin_that_is_out() {
        let (old, mut course, now) = (pool(&["a", "b"]), Course::default(), Instant::now());
        let moving = compiled(&at(9), Some(&old));
        moving.roster().judge(&mut course, now);
        assert_eq!((moving.roster().count(Verdict::Up), moving.roster().count(Verdict::Joining)), (2, 0));
        assert!(!course.is_short() && moving.fingerprint() == old.fingerprint());
    }
}
