//! Who is to be probed and judged together: the origins of one pool as a snapshot has them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::course::{Course, Pace, Standing};
use super::floor::{self, Case, Ruling};
use super::probe::HttpProbe;
use super::{Address, Brake, Change, Handover, Live, Memory, Policy, Ripe, Seen, Verdict};
use crate::trust::Trust;

/// The origins of a pool.
#[derive(Debug)]
pub struct Roster {
    /// The pool.
    pub pool: Arc<str>,
    /// What holds for them.
    pub policy: Policy,
    /// How they are asked over HTTP; `None`: a connection is enough.
    pub http: Option<HttpProbe>,
    /// How TLS is spoken to them, if it is.
    pub tls: Option<Arc<Trust>>,
    /// They: the members in their order, then new addresses of some of them.
    pub targets: Vec<Target>,
    /// The pool is being replaced.
    pub handover: Option<Handover>,
    /// Whether growth stands still for a reason of somebody else's.
    pub brake: Arc<Brake>,
    /// What is known of the pool since the last time it was judged.
    pub memory: Arc<Memory>,
}

/// What an origin is to its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It serves.
    #[default]
    Serves,
    /// It is drained, for so long.
    Drains(Duration),
    /// It is in the file no more, and serves until those that come have its keys.
    Leaves,
    /// It is the new address of an origin that serves at the old one until this is proven; no member by itself.
    Succeeds,
}

/// One origin.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name.
    pub name: Arc<str>,
    /// Its units of weight.
    pub weight: u32,
    /// It serves only while no other may be asked.
    pub backup: bool,
    /// What it is to the pool.
    pub role: Role,
    /// Where it is.
    pub address: Address,
    /// Its health.
    pub live: Arc<Live>,
}

/// What came of judging a pool.
#[derive(Debug, Default)]
pub struct Judged {
    /// Whose verdict changed, or whose growth is held or not held any more, with their numbers in the roster.
    pub changes: Vec<(usize, Change)>,
    /// Time alone may change a verdict.
    pub restless: bool,
    /// Something waits for a new snapshot.
    pub ripe: bool,
}

impl Target {
    /// What the judge has to know besides its evidence.
    fn seen(&self) -> Seen {
        let (known, answers) = (self.address.is_known(), self.live.answers());
        Seen { weight: self.weight, backup: self.backup, role: self.role, known, answers }
    }
}

impl Roster {
    /// Origins that are asked by TCP and of which nothing is known yet.
    pub fn new(pool: Arc<str>, policy: Policy, targets: Vec<Target>) -> Self {
        let (brake, memory) = (Arc::default(), Arc::default());
        Self { pool, policy, http: None, tls: None, targets, handover: None, brake, memory }
    }

    /// Judges the pool and publishes the verdicts; `course`: what is known of it since the last time.
    pub fn judge(&self, course: &mut Course, now: Instant) -> Judged {
        let policy = &self.policy;
        let case = |one: &Target| one.live.case(&one.seen(), policy, course.is_short(), now);
        let cases: Vec<Case> = self.targets.iter().map(case).collect();
        let rulings = floor::judge(&cases, policy);
        let needed = course.needs_all(now);
        course.note(self.is_short_by(|number| rulings.get(number).map(|ruling| ruling.verdict)), now);
        let needed = needed || course.needs_all(now);
        let settle = |(one, ruling): (&Target, &Ruling)| one.live.settle(ruling, &one.seen(), policy, needed, now);
        let standings: Vec<Standing> = self.targets.iter().zip(&rulings).map(settle).collect();
        let pace = Pace::of(&standings);
        course.relieve(&self.targets, policy, now);
        let looked = course.look(&self.targets, &standings, policy, &self.brake, now);
        let mut judged = Judged::default();
        for (number, (target, ruling)) in self.targets.iter().zip(&rulings).enumerate() {
            let (change, restless) = target.live.go_on(pace, looked.get(number).copied(), policy, now);
            // A name may be resolved at any time.
            judged.restless |= restless || !ruling.known;
            let Some((from, to, why)) = change.filter(|_| target.role != Role::Succeeds) else { continue };
            let (pool, origin) = (Arc::clone(&self.pool), Arc::clone(&target.name));
            judged.changes.push((number, Change { pool, origin, from, to, why }));
        }
        judged.ripe = self.ripe(now).is_some();
        judged.restless |= self.handover.is_some();
        judged
    }

    /// The same with what it remembers.
    pub fn judge_again(&self, now: Instant) -> Judged {
        self.judge(&mut self.memory.lock(), now)
    }

    /// What waits for a new snapshot?
    pub fn ripe(&self, now: Instant) -> Option<Ripe> {
        let quiet = self.handover.is_none() && self.targets.last().is_none_or(|last| last.role != Role::Succeeds);
        if quiet { None } else { Ripe::of(&self.targets, self.handover.as_ref(), &self.policy, now) }
    }

    /// Is the pool short of origins, as they stand now?
    pub fn is_short(&self) -> bool {
        self.is_short_by(|number| self.targets.get(number).map(|target| target.live.verdict()))
    }

    /// The same with other verdicts; only those that serve count.
    fn is_short_by(&self, verdict: impl Fn(usize) -> Option<Verdict>) -> bool {
        let serving = self.targets.iter().enumerate().filter(|(_, target)| target.role == Role::Serves);
        floor::is_short(serving.filter_map(|(number, target)| Some((verdict(number)?, target.backup))), &self.policy)
    }

    /// How many of them stand so.
    pub fn count(&self, verdict: Verdict) -> usize {
        let members = self.targets.iter().filter(|target| target.role != Role::Succeeds);
        members.filter(|target| target.live.verdict() == verdict).count()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;
    use crate::config::units;
    use crate::health::simulation::TCP;
    use crate::health::{Board, Evidence, Fault, Grade, Why};

    fn roster(addresses: &[units::Address]) -> Roster {
        let target = |(number, address): (usize, &units::Address)| {
            let address = Address::compile(address, None);
            let live = Arc::new(Live::new(true, address.is_known()));
            Target { name: Arc::from(number.to_string()), weight: 1, backup: false, role: Role::Serves, address, live }
        };
        Roster::new(
            Arc::from("p"),
            Policy { probing: Some(TCP), spare: 0.5, ..Policy::default() },
            addresses.iter().enumerate().map(target).collect(),
        )
    }

    fn ip() -> units::Address {
        units::Address::Ip("127.0.0.1:1".parse().unwrap())
    }

    #[test]
    fn change_is_told_once_and_shown_at_once() {
        let roster = roster(&[ip(), ip()]);
        let board = Arc::new(Board::new(2));
        roster.targets.iter().enumerate().for_each(|(number, target)| target.live.show_on(&board, number));
        let (now, mut course) = (Instant::now(), Course::default());
        assert!(roster.judge(&mut course, now).changes.is_empty());
        roster.targets[1].live.take(Evidence::Confirm(Grade::Bad(Fault::Refused)), now);
        let judged = roster.judge(&mut course, now);
        let [(1, change)] = &judged.changes[..] else { panic!("{judged:?}") };
        assert!(change.is_ejection());
        assert_eq!((change.from, change.to, change.why.reason()), (Verdict::Up, Verdict::Down, "refused"));
        assert_eq!((board.usable(), board.holds(1), judged.restless, course.is_short()), (1, false, true, false));
        assert!(roster.judge(&mut course, now).changes.is_empty());
    }

    /// Two that serve and two backups: the floor of one half is two while the backups pass, and one when they do not.
    #[test]
    fn backups_that_pass_count_under_the_floor_and_others_do_not() {
        let now = Instant::now();
        let out = |backups_pass: bool| {
            let mut roster = roster(&[ip(), ip(), ip(), ip()]);
            roster.targets[2..].iter_mut().for_each(|target| target.backup = true);
            let probed = |number: usize, grade: Grade| {
                (0..3).for_each(|_| roster.targets[number].live.take(Evidence::Probe(grade), now));
            };
            let bad = Grade::Bad(Fault::Status(500));
            probed(2, if backups_pass { Grade::Good } else { bad });
            probed(3, if backups_pass { Grade::Good } else { bad });
            probed(0, bad);
            probed(1, if backups_pass { bad } else { Grade::Good });
            roster.judge(&mut Course::default(), now);
            (roster.count(Verdict::Down), roster.count(Verdict::Kept), roster.is_short())
        };
        assert_eq!(out(true), (2, 0, false), "both that serve go, for the backups can");
        assert_eq!(out(false), (3, 0, false), "the backups go, and one that serves");
    }

    #[test]
    fn name_that_is_not_resolved_is_down_until_it_is() {
        let roster = roster(&[ip(), units::Address::Name("a.example".to_owned(), 80)]);
        let (now, mut course) = (Instant::now(), Course::default());
        assert!(roster.judge(&mut course, now).changes.is_empty(), "it begins so");
        assert_eq!(roster.targets[1].live.report().why, Why::Unresolved);
        let Address::Name(name) = &roster.targets[1].address else { panic!("no name") };
        name.answered(&["127.0.0.1:2".parse().unwrap()]);
        let judged = roster.judge(&mut course, now);
        assert_eq!(judged.changes.iter().map(|(_, change)| change.to).collect::<Vec<_>>(), [Verdict::Up]);
        assert_eq!(roster.count(Verdict::Up), 2);
    }
}
