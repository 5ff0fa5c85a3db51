//! Origins serving the same thing, and what was learned of them.
//!
//! A [`Pool`] is compiled from its section of the file and never changes; what is learned of an origin is in its
//! [`Origin`], which the next snapshot takes over by name. [`Pool::pick`] chooses, [`Pick::lease`] makes the choice
//! an attempt that counts.

pub mod carried;
pub mod cause;
mod connecting;
pub mod discovery;
mod handover;
mod lease;
mod member;
mod origin;
mod parked;
mod part;
mod pick;
pub mod plan;
mod reason;
mod room;
mod settings;
mod side;
mod sockets;
mod trial;

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::balance::ring::host_and_port;
use crate::balance::{Balancer, Base, Ring, Turns};
use crate::config::{self, Complaint, Invalid};
use crate::health::probe::HttpProbe;
use crate::health::{Board, Policy, Roster};
use crate::resilience::Budget;
use crate::template::Key;
use crate::trust::Trust;

pub use carried::Carried;
pub use connecting::{Connecting, Turn};
pub use lease::{Lease, Outcome};
pub use member::{Member, Successor};
pub use origin::Origin;
pub use parked::{Gone, Parked, Stay};
pub use pick::{Ask, Pick};
pub use reason::{Pass, Reason};
pub use settings::{Connections, Protocol, Settings, Timeouts};
pub use trial::Trial;

use handover::Handover;
use member::{Origins, targets};
use parked::Before;
use side::{Backups, Side, board, fingerprint, ring_of};

/// A compiled pool.
#[derive(Debug)]
pub struct Pool {
    name: Arc<str>,
    members: Vec<Member>,
    key: Key,
    ring: Ring,
    fingerprint: String,
    /// Requests are placed by a key.
    hashes: bool,
    /// Chooses for requests without one.
    balancer: Balancer,
    /// `balance.bounded_load`.
    bounded: Option<f64>,
    /// Some member has a limit in flight.
    limited: bool,
    /// Its turns, those of every pool of this name since the start.
    turns: Arc<Turns>,
    board: Arc<Board>,
    backups: Option<Backups>,
    roster: Arc<Roster>,
    /// It takes the place of another one.
    handover: Option<Handover>,
    settings: Settings,
    budget: Arc<Budget>,
    /// `panic: keep`.
    walks_in_panic: bool,
    /// Connections open to all origins this pool ever had.
    open: Arc<AtomicUsize>,
    parked: Option<Parked>,
}

impl Pool {
    /// Compiles the section of pool `name`. `previous` is the same pool in the snapshot before: its origins keep what
    /// was learned of them, and origins new to it have to prove themselves first.
    pub fn compile(
        name: &str,
        written: &config::Pool,
        previous: Option<&Self>,
        now: Instant,
    ) -> Result<Self, Vec<Complaint>> {
        Self::assemble(name, written, previous.map(Before::running).unwrap_or_default(), now)
    }

    /// The same as [`compile`](Self::compile) for a section that has not changed: its files are not read again.
    pub fn compile_on(
        name: &str,
        written: &config::Pool,
        previous: &Self,
        now: Instant,
    ) -> Result<Self, Vec<Complaint>> {
        Self::assemble(name, written, Before { stays: true, ..Before::running(previous) }, now)
    }

    /// The same for a pool that was gone: it is new, but for those of its origins that are still parked.
    pub fn compile_again(
        name: &str,
        written: &config::Pool,
        parked: &Parked,
        now: Instant,
    ) -> Result<Self, Vec<Complaint>> {
        Self::assemble(name, written, Before::gone(parked), now)
    }

    /// The same as another process had it, which told so.
    ///
    /// # Errors
    /// The section does not compile here.
    pub fn compile_carried(
        name: &str,
        written: &config::Pool,
        carried: &Carried,
        now: Instant,
    ) -> Result<Self, Vec<Complaint>> {
        let pool = Self::assemble(name, written, Before::carried(carried), now)?;
        pool.restore(carried, now);
        Ok(pool)
    }

    fn assemble(name: &str, written: &config::Pool, before: Before<'_>, now: Instant) -> Result<Self, Vec<Complaint>> {
        let Parts { key, http, tls } = Parts::compile(name, written, before)?;
        let name = before.pool.map_or_else(|| Arc::from(name), |previous| Arc::clone(&previous.name));
        let open = before.open().unwrap_or_default();
        let origins = Origins { pool: &name, before, open: &open, now };
        let mut members = origins.compile(written);
        let balancer = Balancer::compile(&written.balance);
        let ring = if balancer.is_none() { ring_of(&members, false) } else { Ring::new(&[]) };
        let policy = Policy::compile(written);
        let handover = Handover::after(before, &mut members, &origins, &policy);
        for (number, member) in members.iter_mut().enumerate() {
            member.base = member.former.map(|weight| Base::new(&ring, number, weight));
        }
        let fingerprint = fingerprint(&key, &members, &ring, balancer);
        let (board, backups) = (board(&members, false), Backups::of(&members, balancer));
        let roster = Roster {
            pool: Arc::clone(&name),
            policy,
            http,
            tls: tls.clone(),
            targets: targets(&members),
            handover: handover.as_ref().map(Handover::told),
            brake: before.pool.map(|previous| Arc::clone(&previous.roster.brake)).unwrap_or_default(),
            memory: before.pool.map(|previous| Arc::clone(&previous.roster.memory)).unwrap_or_default(),
        };
        let kept: HashSet<&str> = members.iter().map(|member| &**member.name()).collect();
        Ok(Self {
            parked: Parked::after(&roster, &kept, &origins),
            roster: Arc::new(roster),
            handover,
            limited: members.iter().any(|member| member.max_in_flight < usize::MAX),
            name,
            members,
            key,
            ring,
            fingerprint,
            hashes: balancer.is_none(),
            balancer: balancer.unwrap_or(Balancer::TwoChoices),
            bounded: written.balance.bounded_load.on().copied(),
            turns: before.pool.map(|previous| Arc::clone(&previous.turns)).unwrap_or_default(),
            board,
            backups,
            settings: Settings::compile(written, tls),
            budget: Budget::compile(&written.retry_budget, before.pool.map(|previous| &previous.budget), now),
            walks_in_panic: written.health.panic == config::pool::Panic::Keep,
            open,
        })
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its origins, in the order of the file. A member's number is its position here, and on the ring.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member of this number.
    pub fn member(&self, number: usize) -> Option<&Member> {
        self.members.get(number)
    }

    /// The word of its algorithm.
    pub fn algorithm(&self) -> &'static str {
        if self.hashes { "hash" } else { self.balancer.as_str() }
    }

    /// What a request is placed by; `None`: by no key, the algorithm chooses.
    pub fn key(&self) -> Option<&Key> {
        self.hashes.then_some(&self.key)
    }

    /// 16 hex digits that are equal wherever keys are placed equally.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// How requests are placed, in words that are equal where keys are made the same way.
    pub fn keying(&self) -> [String; 4] {
        let [key, args, on_missing] = self.key().map_or_else(Default::default, |key| {
            [key.text().to_owned(), key.args_text(), key.on_missing_text().to_owned()]
        });
        [self.algorithm().to_owned(), key, args, on_missing]
    }

    /// Are keys made the same way here and in `other`? If not, all of them move.
    pub fn keys_as(&self, other: &Self) -> bool {
        self.keying() == other.keying()
    }

    /// Who is to have keys, by name and weight: nobody where no key places, and nowhere a backup, or one that is drained or
    /// leaves.
    pub fn placed(&self) -> impl Iterator<Item = (&Arc<str>, u32)> {
        let serving = self.members.iter().filter(|member| self.hashes && !member.backup && member.is_placed());
        serving.map(|member| (member.name(), member.weight))
    }

    /// Its origins as they are probed and judged.
    pub fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }

    /// Origins it had until not long ago.
    pub fn parked(&self) -> Option<&Parked> {
        self.parked.as_ref()
    }

    /// The ring its members make; without points if it places by no key.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The same without those that are drained: a key of theirs is placed as if they were gone.
    pub fn placement(&self) -> Cow<'_, Ring> {
        if self.members.iter().all(Member::is_placed) {
            return Cow::Borrowed(&self.ring);
        }
        Cow::Owned(Ring::new(&self.placed().map(|(name, weight)| (&**name, weight)).collect::<Vec<_>>()))
    }

    /// Does it take the place of another one that still serves?
    pub fn is_replaced(&self) -> bool {
        self.handover.is_some()
    }

    /// What holds for attempts.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The budget of its retries.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// How many members are usable, backups not counted.
    pub fn usable_members(&self) -> usize {
        self.board.usable()
    }

    /// Lets so many connections be open before none is kept idle, for a pool whose section leaves that to us.
    pub fn keep_idle(&mut self, most: usize) {
        self.settings.connections.keepalive = most;
    }

    /// May a connection be kept idle after its answer? Not while more are open than `connections.keepalive`.
    pub fn keeps_idle(&self) -> bool {
        self.open.load(Relaxed) <= self.most_idle()
    }

    /// How many connections may be open when one is kept idle.
    pub fn most_idle(&self) -> usize {
        self.settings.connections.keepalive
    }
}

/// What of a pool may be wrong: its key, its probe, the files of its TLS, and names that are one on the ring.
struct Parts {
    key: Key,
    http: Option<HttpProbe>,
    tls: Option<Arc<Trust>>,
}

impl Parts {
    fn compile(name: &str, written: &config::Pool, before: Before<'_>) -> Result<Self, Vec<Complaint>> {
        let mut twins = twins(name, written);
        let (key, http) = (Key::compile(written), HttpProbe::compile(written));
        match (key, http, Trust::compile(written, before.trust())) {
            (Ok(key), Ok(http), Ok(tls)) if twins.is_empty() => {
                let http = http.map(|http| http.under(tls.as_ref()));
                Ok(Self { key, http, tls })
            }
            (key, http, tls) => {
                twins.extend(key.err().into_iter().flatten().chain(http.err()).chain(tls.err().into_iter().flatten()));
                Err(twins)
            }
        }
    }
}

/// Origins of two names that make the same points of the ring: one of them would never get a key. A name written
/// twice is told by `config`.
fn twins(pool: &str, written: &config::Pool) -> Vec<Complaint> {
    let mut first = HashMap::new();
    let mut found = Vec::new();
    if written.balance.algorithm != config::pool::Algorithm::Hash {
        return found;
    }
    for (number, name) in written.origins.iter().map(|origin| &*origin.name).enumerate() {
        match first.entry(host_and_port(name)) {
            Entry::Vacant(free) => _ = free.insert((number, name)),
            Entry::Occupied(taken) if taken.get().1 != name => {
                let (other, its_name) = taken.get();
                let what = format!("\"{name}\" and \"{its_name}\" (pools.{pool}.origins[{other}]) are one on the ring");
                found.push(Invalid::new(what, "give one of them another name").at(format!("origins[{number}]")));
            }
            Entry::Occupied(_) => {}
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::config::units::{Auto, Duration, Off, Percent, Rate};
    use crate::config::{pool as written, units};
    use crate::health::{Course, Verdict, Why};

    /// A section that names these origins, all of weight 1; names that are no addresses are at one port each.
    pub(super) fn section(names: &[&str]) -> config::Pool {
        let seconds = |n| Duration(std::time::Duration::from_secs(n));
        let origin = |name: &&str| written::Origin {
            address: units::Address::Ip(format!("127.0.0.1:{}", port(name)).parse().unwrap()),
            name: (*name).to_owned(),
            weight: 1,
            backup: false,
            max_in_flight: None,
            state: written::State::Serve,
            drain_over: Off::Off,
            portless: false,
        };
        let probe = written::Probe { interval: seconds(2), timeout: seconds(1), http: None, rise: 2, fall: 3 };
        config::Pool {
            balance: written::Balance { key: "{path}".to_owned(), ..written::Balance::default() },
            args: written::Args::All,
            origins: names.iter().map(origin).collect(),
            protocol: written::Protocol::Http1,
            tls: Off::Off,
            host: written::Host::Preserve,
            timeouts: written::Timeouts::default(),
            connections: written::Connections {
                keepalive: Auto::Fixed(2),
                keepalive_timeout: seconds(15),
                max_requests: Off::On(1000),
                max_age: Off::Off,
                max_in_flight: Off::Off,
                max_connecting: Off::Off,
            },
            retry_budget: written::RetryBudget { ratio: Percent(20.0), floor: Rate(10.0) },
            health: written::Health { probe: Off::On(probe), ..written::Health::default() },
            discovery: Off::Off,
            slow_start: Off::On(written::SlowStart::default()),
            guard: Off::Off,
            cache_status: Off::Off,
        }
    }

    fn port(name: &str) -> u32 {
        1024 + name.bytes().fold(0, |sum, byte| (sum * 31 + u32::from(byte)) % 50_000)
    }

    pub(super) fn compiled(section: &config::Pool, previous: Option<&Pool>) -> Pool {
        Pool::compile("p", section, previous, Instant::now()).unwrap()
    }

    pub(super) fn pool(names: &[&str]) -> Pool {
        compiled(&section(names), None)
    }

    pub(super) fn only_origin(pool: &Pool) -> &Arc<Origin> {
        pool.members()[0].origin()
    }

    pub(super) fn pick_any(pool: &Pool) -> Pick {
        pool.pick(&Ask { hash: None, tried: &[], now: Instant::now() }, &mut Rng::with_seed(1)).unwrap()
    }

    fn verdicts(pool: &Pool) -> Vec<(&str, &str)> {
        pool.members().iter().map(|member| (&**member.name(), member.origin().verdict().as_str())).collect()
    }

    #[test]
    fn everything_is_assumed_up_at_start() {
        let pool = pool(&["a", "b"]);
        assert_eq!(verdicts(&pool), [("a", "up"), ("b", "up")]);
        assert_eq!(pool.usable_members(), 2);
    }

    #[test]
    fn origin_new_to_a_running_pool_is_joining_unless_there_are_no_probes() {
        let old = pool(&["a"]);
        let grown = compiled(&section(&["b", "a"]), Some(&old));
        assert_eq!(verdicts(&grown), [("b", "joining"), ("a", "up")]);
        assert_eq!(grown.usable_members(), 1);
        let mut unprobed = section(&["a", "b"]);
        unprobed.health.probe = Off::Off;
        let grown = compiled(&unprobed, Some(&old));
        grown.roster().judge(&mut Course::default(), Instant::now());
        assert_eq!(verdicts(&grown), [("a", "up"), ("b", "ramping")]);
        unprobed.slow_start = Off::Off;
        assert_eq!(verdicts(&compiled(&unprobed, Some(&old))), [("a", "up"), ("b", "up")]);
    }

    #[test]
    fn reload_keeps_what_was_learned_whatever_else_it_changes() {
        let old = pool(&["a", "b"]);
        old.members()[0].origin().health().publish(Verdict::Down);
        let mut changed = section(&["b", "a"]);
        changed.origins[1].weight = 7;
        let new = compiled(&changed, Some(&old));
        assert!(Arc::ptr_eq(old.members()[0].origin(), new.members()[1].origin()));
        assert_eq!(verdicts(&new), [("b", "up"), ("a", "down")]);
        assert_eq!((new.members()[1].weight(), new.usable_members()), (7, 1));
        old.members()[0].origin().health().publish(Verdict::Up);
        assert_eq!((old.usable_members(), new.usable_members()), (2, 2), "both snapshots see one state");
    }

    #[test]
    fn no_connection_is_kept_idle_above_keepalive_even_across_a_reload() {
        let old = pool(&["a"]);
        let new = compiled(&section(&["a", "b"]), Some(&old));
        (0..2).for_each(|_| new.members()[0].origin().connection_opened());
        assert!(new.keeps_idle());
        new.members()[1].origin().connection_opened();
        assert!(!new.keeps_idle() && !old.keeps_idle());
        new.members()[0].origin().connection_closed(0);
        assert!(new.keeps_idle());
    }

    #[test]
    fn fingerprint_is_that_of_the_placement_and_not_of_the_order_in_the_file() {
        let (one, other) = (pool(&["a", "b"]), pool(&["b", "a"]));
        assert_eq!(one.fingerprint(), other.fingerprint());
        assert_ne!(one.fingerprint(), pool(&["a", "c"]).fingerprint());
        let mut keyed = section(&["a", "b"]);
        keyed.balance.key = "{host}{path}".to_owned();
        let keyed = compiled(&keyed, None);
        assert_ne!(one.fingerprint(), keyed.fingerprint());
        assert!(one.keys_as(&other) && !one.keys_as(&keyed));
    }

    #[test]
    fn names_that_share_their_points_are_refused_and_both_named() {
        let told = |names: &[&str]| match Pool::compile("p", &section(names), None, Instant::now()) {
            Ok(_) => Vec::new(),
            Err(complaints) => complaints.into_iter().map(|one| format!("{}: {}", one.path, one.found)).collect(),
        };
        let twins = r#"origins[1]: "a:" and "a" (pools.p.origins[0]) are one on the ring"#;
        assert_eq!(told(&["a", "a:", "b"]), [twins]);
        let sockets = r#"origins[2]: "UNIX:/x" and "unix:/x" (pools.p.origins[0]) are one on the ring"#;
        let path = r#"origins[3]: "/x" and "unix:/x" (pools.p.origins[0]) are one on the ring"#;
        assert_eq!(told(&["unix:/x", "b", "UNIX:/x", "/x"]), [sockets, path]);
        assert_eq!(told(&["a", "a:80", "a:080", "A", "unix:a:80"]), [""; 0]);
    }

    #[test]
    fn a_pool_without_a_key_shares_by_weight_and_has_a_fingerprint_of_its_own() {
        let mut section = section(&["a", "b"]);
        section.origins[1].weight = 3;
        let hash = compiled(&section, None);
        section.balance.algorithm = written::Algorithm::RoundRobin;
        let (robin, again) = (compiled(&section, None), compiled(&section, None));
        assert_eq!((hash.algorithm(), robin.algorithm()), ("hash", "round_robin"));
        assert!(robin.key().is_none() && robin.ring().is_empty());
        assert_eq!(robin.effective_shares(), [0.25, 0.75]);
        assert_eq!(robin.fingerprint(), again.fingerprint());
        section.balance.algorithm = written::Algorithm::Random;
        let random = compiled(&section, None);
        assert!(robin.fingerprint() != hash.fingerprint() && robin.fingerprint() != random.fingerprint());
        assert!(robin.keys_as(&again) && !robin.keys_as(&hash) && !robin.keys_as(&random));
    }

    #[test]
    fn backups_stand_outside_of_ring_fingerprint_and_shares() {
        let without = pool(&["a", "b"]);
        let mut section = section(&["a", "s", "b"]);
        section.origins[1].backup = true;
        for algorithm in [written::Algorithm::Hash, written::Algorithm::Random] {
            section.balance.algorithm = algorithm;
            let with = compiled(&section, None);
            assert_eq!(with.effective_shares()[1], 0.0);
            assert!((with.effective_shares().iter().sum::<f64>() - 1.0).abs() < 1e-9);
            assert_eq!(with.usable_members(), 2);
            assert_eq!(with.fingerprint() == without.fingerprint(), algorithm == written::Algorithm::Hash);
        }
    }

    #[test]
    fn turns_go_on_across_a_reload() {
        let mut section = section(&["a", "b", "c"]);
        section.balance.algorithm = written::Algorithm::RoundRobin;
        let old = compiled(&section, None);
        assert_eq!([pick_any(&old).member, pick_any(&old).member], [0, 1]);
        let new = compiled(&section, Some(&old));
        assert_eq!([pick_any(&new).member, pick_any(&old).member, pick_any(&new).member], [2, 0, 1]);
        section.origins.swap(0, 2);
        let turned = compiled(&section, Some(&new));
        assert_eq!(pick_any(&turned).origin.name().as_ref(), "c", "what was gained belongs to the name");
    }

    #[test]
    fn j5_drained_origin_gets_nothing_from_the_start_and_its_removal_moves_nothing() {
        let before = pool(&["a", "b", "c"]);
        let mut section = section(&["a", "b", "c"]);
        section.origins[1].state = written::State::Drain;
        let drained = compiled(&section, Some(&before));
        let without = compiled(&self::section(&["a", "c"]), Some(&drained));
        assert_ne!(before.fingerprint(), drained.fingerprint());
        assert_eq!(drained.fingerprint(), without.fingerprint());
        assert_eq!(drained.placement().shares(), without.ring().shares());
        assert_eq!(drained.ring(), before.ring(), "the ring stays as it is");
        let taker = |pool: &Pool, hash: u32| {
            let pick =
                pool.pick(&Ask { hash: Some(hash), tried: &[], now: Instant::now() }, &mut Rng::with_seed(0)).unwrap();
            Arc::clone(pick.origin.name())
        };
        for hash in (0..500_u32).map(|n| n.wrapping_mul(0x9e37_79b9)) {
            let now = taker(&drained, hash);
            assert!(*now != *"b" && now == taker(&without, hash), "also before it was judged");
        }
        drained.roster().judge(&mut Course::default(), Instant::now());
        let report = drained.members()[1].origin().health().report();
        assert_eq!((report.verdict, report.why), (Verdict::Draining, Why::Drained));
        let kept = compiled(&section, Some(&drained));
        assert_eq!(verdicts(&kept), [("a", "up"), ("b", "draining"), ("c", "up")], "it survives a reload");
        let fresh = compiled(&section, None);
        assert_eq!(verdicts(&fresh), [("a", "up"), ("b", "draining"), ("c", "up")]);
    }

    #[test]
    fn j5_drain_over_time_sheds_keys_once_each_and_never_gets_one_back() {
        let (start, mut course) = (Instant::now(), Course::default());
        let before = pool(&["a", "b", "c"]);
        let mut section = section(&["a", "b", "c"]);
        (section.origins[1].state, section.origins[1].drain_over) =
            (written::State::Drain, Off::On(Duration(std::time::Duration::from_secs(100))));
        let pool = compiled(&section, Some(&before));
        let hashes: Vec<u32> = (0..1000_u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
        let takers = |pool: &Pool| -> Vec<usize> {
            let pick = |hash: &u32| {
                pool.pick(&Ask { hash: Some(*hash), tried: &[], now: Instant::now() }, &mut Rng::with_seed(0)).unwrap()
            };
            hashes.iter().map(|hash| pick(hash).member).collect()
        };
        let mut owners = takers(&before);
        for seconds in [0, 25, 50, 75, 100] {
            pool.roster().judge(&mut course, start + std::time::Duration::from_secs(seconds));
            let now = takers(&pool);
            let part = pool.members()[1].origin().health().factor().part();
            assert!((part - (1.0 - seconds as f64 / 100.0)).abs() < 1e-6, "{part} after {seconds} s");
            assert!(owners.iter().zip(&now).all(|(was, is)| was == is || (*was == 1 && *is != 1)), "{seconds} s");
            owners = now;
        }
        assert!(owners.iter().all(|owner| *owner != 1));
        section.origins[1].state = written::State::Serve;
        let again = compiled(&section, Some(&pool));
        again.roster().judge(&mut course, start + std::time::Duration::from_secs(101));
        assert_eq!(verdicts(&again)[1], ("b", "ramping"), "as one that was out for as long");
    }

    #[test]
    fn a_key_that_does_not_compile_is_a_complaint_at_its_place() {
        let mut wrong = section(&["a"]);
        wrong.balance.key = "{pahT}".to_owned();
        let complaints = Pool::compile("p", &wrong, None, Instant::now()).unwrap_err();
        assert_eq!(complaints.iter().map(|one| &*one.path).collect::<Vec<_>>(), ["balance.key"]);
    }
}
