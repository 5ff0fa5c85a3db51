//! Origins a reload dropped: for ten minutes they are probed and kept as they were, without a request, so that going
//! back puts them in service at once. Rule C4.
//!
//! They stand beside their pool, not in it: no floor counts them, no ring and no board shows them, and what is held of
//! them is what the judge of a roster of their own holds. `parked` is said of them because of where they stand.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::config::{self, units};
use crate::health::{Address, Live, Memory, Policy, Role, Roster, Target};

use super::carried::{Carried, StayCarried};
use super::member::Origins;
use super::{Origin, Pool};
use crate::trust::Former;

/// How long they stay.
const STAY: Duration = Duration::from_secs(600);

/// The parked origins of one pool.
#[derive(Debug, Clone)]
pub struct Parked {
    pool: Arc<str>,
    stays: Vec<Stay>,
    roster: Arc<Roster>,
    /// Of a pool that is gone.
    section: Option<Arc<config::Pool>>,
    /// Connections open to all origins the pool ever had.
    pub(super) open: Arc<AtomicUsize>,
}

/// A pool that is gone, as a process tells the next of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gone {
    /// Its name.
    pub pool: String,
    parked: Vec<StayCarried>,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct Stay {
    /// What is known of it.
    pub origin: Arc<Origin>,
    /// Its units of weight when it was dropped.
    pub weight: u32,
    /// Was it a backup, was it drained?
    pub(super) backup: bool,
    pub(super) role: Role,
    /// Where it is.
    pub address: Address,
    /// When it is forgotten.
    pub until: Instant,
}

impl Parked {
    /// Those beside the pool of this roster, whose members are `kept`.
    pub(super) fn after(roster: &Roster, kept: &HashSet<&str>, origins: &Origins<'_>) -> Option<Self> {
        match origins.before.carried {
            Some(carried) => Self::told(roster, &carried.parked, kept, origins),
            None => Self::beside(roster, origins.before, kept, origins.now),
        }
    }

    /// Those that another process parked.
    fn told(roster: &Roster, told: &[StayCarried], kept: &HashSet<&str>, origins: &Origins<'_>) -> Option<Self> {
        let stay = |one: &StayCarried| {
            let (shape, address) = (&one.shape, one.address());
            Stay {
                origin: origins.fresh(&one.name, Live::new(true, address.is_known()), Role::Serves),
                weight: shape.weight,
                backup: shape.backup,
                role: shape.role,
                address,
                until: one.until.at(origins.now).min(origins.now + STAY),
            }
        };
        let stays: Vec<Stay> = told.iter().filter(|one| !kept.contains(&*one.name)).map(stay).collect();
        let (pool, open) = (Arc::clone(&roster.pool), Arc::clone(origins.open));
        (!stays.is_empty()).then(|| Self {
            pool,
            roster: apart(roster, &stays, Arc::default()),
            section: None,
            stays,
            open,
        })
    }

    /// Those of `before` that are not in `kept`, and those parked already; `None` without any. They are probed as
    /// `roster` says.
    fn beside(roster: &Roster, before: Before<'_>, kept: &HashSet<&str>, now: Instant) -> Option<Self> {
        let dropped = before.pool.into_iter().flat_map(Pool::members).map(|member| Stay {
            origin: Arc::clone(member.origin()),
            weight: member.weight(),
            backup: member.is_backup(),
            role: if member.role == Role::Leaves { Role::Serves } else { member.role },
            address: member.address().clone(),
            until: now + STAY,
        });
        let parked = before.parked.into_iter().flat_map(|parked| parked.stays(now)).cloned();
        let stays: Vec<Stay> = dropped.chain(parked).filter(|stay| !kept.contains(&**stay.origin.name())).collect();
        let open = before.open()?;
        let memory = before.parked.map(|parked| Arc::clone(&parked.roster.memory)).unwrap_or_default();
        (!stays.is_empty()).then(|| Self {
            pool: Arc::clone(&roster.pool),
            roster: apart(roster, &stays, memory),
            section: None,
            stays,
            open,
        })
    }

    /// All origins of a pool that is gone, whose section was this.
    pub fn whole(pool: &Pool, section: &config::Pool, now: Instant) -> Option<Self> {
        let section = Some(Arc::new(section.clone()));
        Self::beside(pool.roster(), Before::running(pool), &HashSet::new(), now)
            .map(|parked| Self { section, ..parked })
    }

    /// What is known of those of a pool that is gone, as seen `now`.
    pub fn export(&self, now: Instant) -> Option<Gone> {
        let parked: Vec<_> = self.stays(now).map(|stay| StayCarried::of(stay, now)).collect();
        (!parked.is_empty()).then(|| Gone { pool: self.pool.to_string(), parked })
    }

    /// The section of the pool that is gone.
    pub fn section(&self) -> Option<&config::Pool> {
        self.section.as_deref()
    }

    /// Those of a pool that is gone, whose section was this, as another process parked them; `None`: nothing can be made
    /// of it here.
    pub fn again(gone: &Gone, section: &config::Pool, now: Instant) -> Option<Self> {
        let pool = Pool::compile(&gone.pool, section, None, now).ok()?;
        let (name, open, section) = (Arc::from(&*gone.pool), Arc::default(), Some(Arc::new(section.clone())));
        let origins = Origins { pool: &name, before: Before::default(), open: &open, now };
        let parked = Self::told(pool.roster(), &gone.parked, &HashSet::new(), &origins)?;
        let parked = Self { section, ..parked };
        parked.restore(gone, now);
        Some(parked)
    }

    /// What another process learned of them since.
    pub fn restore(&self, gone: &Gone, now: Instant) {
        for one in &gone.parked {
            let stays = self.stays.iter().filter(|stay| **stay.origin.name() == *one.name);
            stays.for_each(|stay| one.restore(&stay.origin, now));
        }
    }

    /// The pool's name.
    pub fn pool(&self) -> &Arc<str> {
        &self.pool
    }

    /// Those that are not forgotten yet.
    pub fn stays(&self, now: Instant) -> impl Iterator<Item = &Stay> {
        self.stays.iter().filter(move |stay| now < stay.until)
    }

    /// Who is to be probed, as long as anybody stays.
    pub fn roster(&self, now: Instant) -> Option<&Arc<Roster>> {
        self.stays(now).next().map(|_| &self.roster)
    }

    /// The one of this name, if it is still where `written` says.
    pub(super) fn find(&self, name: &str, written: &units::Address, now: Instant) -> Option<&Stay> {
        let mut stays = self.stays(now);
        stays.find(|stay| **stay.origin.name() == *name && stay.is_at(written))
    }
}

impl Stay {
    fn is_at(&self, written: &units::Address) -> bool {
        Address::compile(written, Some(&self.address)).is_at(&self.address)
    }
}

/// What a pool takes over from: itself before, or what is parked of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before<'a> {
    pub(super) pool: Option<&'a Pool>,
    pub(super) parked: Option<&'a Parked>,
    pub(super) carried: Option<&'a Carried>,
    /// Nothing is read again that was read for it.
    pub(super) stays: bool,
}

impl<'a> Before<'a> {
    /// A pool that runs, with what is parked beside it.
    pub(super) fn running(pool: &'a Pool) -> Self {
        Self { pool: Some(pool), parked: pool.parked(), carried: None, stays: false }
    }

    /// A pool that is gone.
    pub(super) fn gone(parked: &'a Parked) -> Self {
        Self { pool: None, parked: Some(parked), carried: None, stays: false }
    }

    /// What of its TLS is taken over.
    pub(super) fn trust(&self) -> Former<'a> {
        Former { trust: self.pool.and_then(|pool| pool.settings.tls.as_ref()), stays: self.stays }
    }

    /// Did nobody serve yet?
    pub(super) fn has_nobody(&self) -> bool {
        self.pool.is_none_or(|pool| pool.members().is_empty())
    }

    /// Its counter of connections.
    pub(super) fn open(&self) -> Option<Arc<AtomicUsize>> {
        let running = self.pool.map(|pool| &pool.open);
        running.or_else(|| self.parked.map(|parked| &parked.open)).map(Arc::clone)
    }
}

/// A roster of their own, in which nobody is kept for the sake of the others.
fn apart(roster: &Roster, stays: &[Stay], memory: Arc<Memory>) -> Arc<Roster> {
    let target = |stay: &Stay| Target {
        name: Arc::clone(stay.origin.name()),
        weight: stay.weight,
        backup: stay.backup,
        role: stay.role,
        address: stay.address.clone(),
        live: Arc::clone(stay.origin.health()),
    };
    let policy = Policy { spare: 1.0, fail: true, ..roster.policy.clone() };
    let pool = Arc::from(format!("{}, parked", roster.pool));
    let apart = Roster::new(pool, policy, stays.iter().map(target).collect());
    Arc::new(Roster { http: roster.http.clone(), tls: roster.tls.clone(), memory, ..apart })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::super::tests::{compiled, pool, section};
    use super::*;
    use crate::config;
    use crate::config::units::Address as Written;
    use crate::health::{Course, Verdict};

    fn names(pool: &Pool, now: Instant) -> Vec<&str> {
        pool.parked().into_iter().flat_map(|parked| parked.stays(now)).map(|stay| &**stay.origin.name()).collect()
    }

    #[test]
    fn c4_dropped_origins_are_parked_until_they_are_back_or_forgotten() {
        let (old, now) = (pool(&["a", "b", "c"]), Instant::now());
        let dropped = Arc::clone(old.members()[1].origin());
        dropped.health().publish(Verdict::Kept);
        let smaller = Pool::compile("p", &section(&["a", "c"]), Some(&old), now).unwrap();
        assert_eq!(names(&smaller, now), ["b"]);
        let roster = smaller.parked().unwrap().roster(now).unwrap();
        assert_eq!((roster.targets.len(), &*roster.pool), (1, "p, parked"));
        let smallest = Pool::compile("p", &section(&["a"]), Some(&smaller), now + STAY / 2).unwrap();
        assert_eq!(names(&smallest, now + STAY / 2), ["c", "b"], "each for its own time");
        assert_eq!(names(&smallest, now + STAY), ["c"]);
        assert!(smallest.parked().unwrap().roster(now + STAY * 2).is_none(), "and then they are left alone");
        let back = Pool::compile("p", &section(&["a", "b", "c"]), Some(&smallest), now + STAY / 2).unwrap();
        assert!(Arc::ptr_eq(back.members()[1].origin(), &dropped) && back.parked().is_none());
        assert_eq!((back.usable_members(), dropped.verdict()), (3, Verdict::Kept), "as it was, in one store");
        let late = Pool::compile("p", &section(&["a", "b", "c"]), Some(&smallest), now + STAY).unwrap();
        assert_eq!(late.members()[1].origin().verdict(), Verdict::Joining, "forgotten");
    }

    #[test]
    fn c4_who_comes_back_at_another_address_is_somebody_else() {
        let old = pool(&["a", "b"]);
        let smaller = compiled(&section(&["a"]), Some(&old));
        let mut elsewhere = section(&["a", "b"]);
        elsewhere.origins[1].address = Written::Ip("127.0.0.9:9".parse().unwrap());
        let back = compiled(&elsewhere, Some(&smaller));
        assert_eq!(back.members()[1].origin().verdict(), Verdict::Joining);
        assert!(back.parked().is_none(), "there is one of a name");
    }

    #[test]
    fn j2_c4_who_is_added_again_grows_as_one_that_was_out_and_who_is_gone_back_to_is_as_it_was() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let old = Pool::compile("p", &section(&["a", "b", "c"]), None, start).unwrap();
        let b = Arc::clone(old.members()[1].origin());
        let smaller = Pool::compile("p", &section(&["a", "c"]), Some(&old), start).unwrap();
        let back = |back: bool, seconds| {
            let pool = Pool::compile("p", &section(&["a", "b", "c"]), Some(&smaller), at(seconds)).unwrap();
            pool.take_over(back, at(seconds));
            pool.roster().judge(&mut Course::default(), at(seconds));
            let shown = (b.verdict(), (b.health().factor().part() * 100.0).round());
            b.health().park(at(seconds));
            shown
        };
        b.health().park(start);
        assert_eq!(back(true, 30), (Verdict::Up, 100.0));
        assert_eq!(back(false, 60), (Verdict::Ramping, 50.0), "half of the window");
        smaller.parked().unwrap().roster(at(90)).unwrap().judge(&mut Course::default(), at(90));
        assert_eq!(back(true, 90), (Verdict::Ramping, 50.0), "neither grown nor lost meanwhile");
        assert_eq!(back(false, 96), (Verdict::Ramping, 40.0), "a tenth of the window more");
        assert_eq!(back(false, 500), (Verdict::Ramping, 10.0));
    }

    #[test]
    fn j5_who_was_dropped_and_is_added_to_be_drained_gets_nothing() {
        let (old, now) = (pool(&["a", "b"]), Instant::now());
        let smaller = compiled(&section(&["a"]), Some(&old));
        old.members()[1].origin().health().park(now);
        let mut drained = section(&["a", "b"]);
        (drained.origins[1].state, drained.origins[1].drain_over) =
            (config::pool::State::Drain, units::Off::On(units::Duration(Duration::from_secs(60))));
        let pool = compiled(&drained, Some(&smaller));
        pool.take_over(false, now);
        pool.roster().judge(&mut Course::default(), now);
        let shown = pool.members()[1].origin().health();
        assert_eq!((shown.verdict(), shown.factor().is_none()), (Verdict::Draining, true));
    }

    #[test]
    fn c4_a_pool_that_is_gone_comes_back_as_it_was() {
        let (old, now) = (pool(&["a", "b"]), Instant::now());
        old.members()[0].origin().health().publish(Verdict::Down);
        old.members()[0].origin().connection_opened();
        let gone = Parked::whole(&old, &section(&["a"]), now).unwrap();
        let back = Pool::compile_again("p", &section(&["a", "b", "c"]), &gone, now).unwrap();
        let held: Vec<_> = back.members().iter().map(|member| member.origin().verdict()).collect();
        assert_eq!(held, [Verdict::Down, Verdict::Up, Verdict::Up], "a pool that is new is assumed up");
        (0..2).for_each(|_| back.members()[2].origin().connection_opened());
        assert!(!back.keeps_idle(), "all connections of the pool are counted");
    }
}
