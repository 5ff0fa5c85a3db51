//! Who is to be probed and judged together: the origins of one pool as a snapshot has them.

use std::sync::Arc;
use std::time::Instant;

use super::floor::{self, Case, Ruling};
use super::probe::HttpProbe;
use super::{Address, Change, Live, Policy, Verdict};

/// The origins of a pool.
#[derive(Debug)]
pub struct Roster {
    /// The pool.
    pub pool: Arc<str>,
    /// What holds for them.
    pub policy: Policy,
    /// How they are asked over HTTP; `None`: a TCP connect is enough.
    pub http: Option<HttpProbe>,
    /// They.
    pub targets: Vec<Target>,
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
    /// Where it is.
    pub address: Address,
    /// Its health.
    pub live: Arc<Live>,
}

/// What came of judging a pool.
#[derive(Debug, Default)]
pub struct Judged {
    /// Whose verdict changed, with their numbers in the roster.
    pub changes: Vec<(usize, Change)>,
    /// The pool is short of origins.
    pub short: bool,
    /// Time alone may change a verdict.
    pub restless: bool,
}

impl Roster {
    /// Judges the pool and publishes the verdicts; `short`: it was short of origins before.
    pub fn judge(&self, short: bool, now: Instant) -> Judged {
        let case = |one: &Target| {
            let case = one.live.case(one.weight, one.address.is_known(), &self.policy, short, now);
            Case { backup: one.backup, ..case }
        };
        let cases: Vec<Case> = self.targets.iter().map(case).collect();
        let rulings = floor::judge(&cases, &self.policy);
        let stand = |(one, ruling): (&Target, &Ruling)| (ruling.verdict, one.backup);
        let short = floor::is_short(self.targets.iter().zip(&rulings).map(stand), &self.policy);
        let mut judged = Judged { short, ..Judged::default() };
        for (number, (target, ruling)) in self.targets.iter().zip(&rulings).enumerate() {
            let (change, restless) = target.live.settle(ruling, &self.policy, now);
            // A name may be resolved at any time.
            judged.restless |= restless || !ruling.known;
            let Some((from, why)) = change else { continue };
            let (pool, origin) = (Arc::clone(&self.pool), Arc::clone(&target.name));
            judged.changes.push((number, Change { pool, origin, from, to: ruling.verdict, why }));
        }
        judged
    }

    /// Is the pool short of origins, as they stand now?
    pub fn is_short(&self) -> bool {
        floor::is_short(self.targets.iter().map(|target| (target.live.verdict(), target.backup)), &self.policy)
    }

    /// How many of them stand so.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.targets.iter().filter(|target| target.live.verdict() == verdict).count()
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
            Target { name: Arc::from(number.to_string()), weight: 1, backup: false, address, live }
        };
        Roster {
            pool: Arc::from("p"),
            policy: Policy { probing: Some(TCP), spare: 0.5, fail: false },
            http: None,
            targets: addresses.iter().enumerate().map(target).collect(),
        }
    }

    fn ip() -> units::Address {
        units::Address::Ip("127.0.0.1:1".parse().unwrap())
    }

    #[test]
    fn change_is_told_once_and_shown_at_once() {
        let roster = roster(&[ip(), ip()]);
        let board = Arc::new(Board::new(2));
        roster.targets.iter().enumerate().for_each(|(number, target)| target.live.show_on(&board, number));
        let now = Instant::now();
        assert!(roster.judge(false, now).changes.is_empty());
        roster.targets[1].live.take(Evidence::Confirm(Grade::Bad(Fault::Refused)), now);
        let judged = roster.judge(false, now);
        let [(1, change)] = &judged.changes[..] else { panic!("{judged:?}") };
        assert!(change.is_ejection());
        assert_eq!((change.from, change.to, change.why.reason()), (Verdict::Up, Verdict::Down, "refused"));
        assert_eq!((board.usable(), board.holds(1), judged.restless, judged.short), (1, false, true, false));
        assert!(roster.judge(false, now).changes.is_empty());
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
            roster.judge(false, now);
            (roster.count(Verdict::Down), roster.count(Verdict::Kept), roster.is_short())
        };
        assert_eq!(out(true), (2, 0, false), "both that serve go, for the backups can");
        assert_eq!(out(false), (3, 0, false), "the backups go, and one that serves");
    }

    #[test]
    fn name_that_is_not_resolved_is_down_until_it_is() {
        let roster = roster(&[ip(), units::Address::Name("a.example".to_owned(), 80)]);
        let now = Instant::now();
        assert!(roster.judge(false, now).changes.is_empty(), "it begins so");
        assert_eq!(roster.targets[1].live.report().why, Why::Unresolved);
        let Address::Name(name) = &roster.targets[1].address else { panic!("no name") };
        name.answered(&["127.0.0.1:2".parse().unwrap()]);
        let judged = roster.judge(false, now);
        assert_eq!(judged.changes.iter().map(|(_, change)| change.to).collect::<Vec<_>>(), [Verdict::Up]);
        assert_eq!(roster.count(Verdict::Up), 2);
    }
}
