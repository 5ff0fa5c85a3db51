//! What do states, floor and schedule do together? A pool of made-up origins under probes and traffic, on a clock of
//! its own.
//!
//! Ten steps a second. Every step a hundred keys are requested, each of the first usable origin from its own place on;
//! a request that is refused walks on, one that hangs fails after three seconds.

use std::time::{Duration, Instant};

use fastrand::Rng;

use super::answers::Answers;
use super::floor::{self, Case};
use super::schedule::{Kind, Schedule};
use super::{Evidence, Fault, Grade, Policy, Probing, Seen, State, Verdict, Why};

/// How an origin behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Fine,
    /// Takes no connection.
    Refuses,
    /// Takes connections and says nothing.
    Hangs,
    /// Answers requests and says 500 to probes.
    Broken,
}
use Mode::{Broken, Fine, Hangs, Refuses};

pub(super) const HTTP: Probing =
    Probing { interval: Duration::from_secs(2), timeout: Duration::from_secs(1), rise: 2, fall: 3, http: true };
pub(super) const TCP: Probing = Probing { http: false, ..HTTP };
const STEP: Duration = Duration::from_millis(100);
const KEYS: usize = 100;
const READ: Duration = Duration::from_secs(3);

struct Origin {
    mode: Mode,
    state: State,
    schedule: Schedule,
    answers: Answers,
    /// Probes under way: number, kind, begin, end, result.
    probe: Option<(u64, Kind, Instant, Instant, Grade)>,
}

impl Origin {
    fn answered(&self) -> Option<Instant> {
        Some(self.answers.run()?.to)
    }
}

pub(super) struct World {
    policy: Policy,
    origins: Vec<Origin>,
    now: Instant,
    short: bool,
    hanging: Vec<(usize, u32, Instant)>,
    /// Requests that failed, and those made.
    pub(super) failed: usize,
    made: usize,
    pub(super) tries: Vec<usize>,
    ids: u64,
    random: Rng,
}

impl World {
    #[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
    pub(super) fn new(origins: usize, probing: Probing, fail: bool) -> Self {
        let start = Instant::now();
        let mut random = Rng::with_seed(7);
        let mut origin = || Origin {
            mode: Fine,
            state: State::new(true, true),
            schedule: Schedule::new(&probing, random.f64(), start),
            answers: Answers::default(),
            probe: None,
        };
        Self {
            origins: (0..origins).map(|_| origin()).collect(),
            policy: Policy { probing: Some(probing), spare: 0.5, fail, ..Policy::default() },
            now: start,
            short: false,
            hanging: Vec::new(),
            failed: 0,
            made: 0,
            tries: vec![0; origins],
            ids: 0,
            random,
        }
    }

    pub(super) fn set(&mut self, origins: impl IntoIterator<Item = usize>, mode: Mode) {
        origins.into_iter().for_each(|at| self.origins[at].mode = mode);
    }

    pub(super) fn run(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.now += STEP;
            self.probe();
            self.request();
            self.judge();
        }
    }

    /// Runs until something holds, at most `seconds`; answers how long it took.
    pub(super) fn until(&mut self, seconds: f64, holds: impl Fn(&Self) -> bool) -> f64 {
        let from = self.now;
        while !holds(self) {
            self.run(STEP.as_secs_f64());
            assert!(
                self.now - from <= Duration::from_secs_f64(seconds),
                "not within {seconds} s: {:?}",
                self.verdicts()
            );
        }
        (self.now - from).as_secs_f64()
    }

    pub(super) fn verdicts(&self) -> Vec<(Verdict, Why)> {
        self.origins.iter().map(|origin| origin.state.verdict()).collect()
    }

    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.verdicts().iter().filter(|(held, _)| *held == verdict).count()
    }

    /// Up, kept and down, and the part of the requests of five more seconds that fail, in percent.
    pub(super) fn outcome(&mut self) -> ([usize; 3], usize) {
        let counts = [Verdict::Up, Verdict::Kept, Verdict::Down].map(|verdict| self.count(verdict));
        (self.failed, self.made) = (0, 0);
        self.run(5.0);
        (counts, self.failed * 100 / self.made)
    }

    fn probe(&mut self) {
        let Self { now, random, ids, policy, .. } = self;
        let (now, probing) = (*now, policy.probing.unwrap());
        for origin in &mut self.origins {
            if let Some(kind) = origin.schedule.due(now) {
                *ids += 1;
                origin.schedule.started(*ids, kind, now);
                let connect = kind == Kind::Confirm || !probing.http;
                let (grade, takes) = match origin.mode {
                    Refuses => (Grade::Bad(Fault::Refused), Duration::ZERO),
                    _ if connect => (Grade::Good, Duration::ZERO),
                    Fine => (Grade::Good, Duration::ZERO),
                    Hangs => (Grade::Bad(Fault::Timeout), probing.timeout),
                    Broken => (Grade::Bad(Fault::Status(500)), Duration::ZERO),
                };
                origin.probe = Some((*ids, kind, now, now + takes, grade));
            }
            if let Some((id, kind, began, _, grade)) = origin.probe.take_if(|(.., end, _)| *end <= now) {
                let serving = origin.state.verdict().0.usable();
                assert!(origin.schedule.ended(id, began, serving, &probing, random.f64()));
                let evidence = match kind {
                    Kind::Regular => Evidence::Probe(grade),
                    Kind::Confirm => Evidence::Confirm(grade),
                };
                if kind == Kind::Regular && grade.fault().is_some_and(Fault::is_refusal) {
                    origin.schedule.ask();
                }
                origin.state.take(evidence, origin.answered(), now);
            }
        }
    }

    fn request(&mut self) {
        let late: Vec<_> = self.hanging.extract_if(.., |(.., since)| *since + READ <= self.now).collect();
        for (at, key, since) in late {
            self.failed += 1;
            let origin = &mut self.origins[at];
            origin.state.take(Evidence::TimedOut { key, since }, origin.answered(), self.now);
        }
        for key in 0..KEYS {
            self.made += 1;
            let members = self.origins.len();
            let anyone = self.origins.iter().any(|origin| origin.state.verdict().0.usable());
            let panic = !anyone && !self.policy.fail;
            let walk = (0..members).map(|step| (key + step) % members);
            let mut usable = walk.filter(|at| panic || self.origins[*at].state.verdict().0.usable());
            let reached = usable.find(|at| {
                self.tries[*at] += 1;
                self.origins[*at].mode != Refuses
            });
            drop(usable);
            let refused: Vec<_> =
                (0..members).map(|step| (key + step) % members).take_while(|at| Some(*at) != reached).collect();
            for at in refused {
                let origin = &mut self.origins[at];
                if origin.mode == Refuses && origin.state.verdict().0.usable() {
                    origin.schedule.ask();
                }
            }
            self.finish(key, reached, panic);
        }
    }

    fn finish(&mut self, key: usize, reached: Option<usize>, panic: bool) {
        let Some(at) = reached else {
            self.failed += 1;
            return;
        };
        let origin = &mut self.origins[at];
        if panic {
            origin.state.take(Evidence::Connected, origin.answered(), self.now);
        }
        match origin.mode {
            Hangs => self.hanging.push((at, key as u32, self.now)),
            _ => origin.answers.note(self.now),
        }
    }

    fn judge(&mut self) {
        let Self { policy, now, short, random, .. } = self;
        let seen = |origin: &Origin| Seen { weight: 1, known: true, answers: origin.answers.run(), ..Seen::default() };
        let cases: Vec<Case> =
            self.origins.iter_mut().map(|one| one.state.case(&seen(one), policy, *short, *now)).collect();
        let rulings = floor::judge(&cases, policy);
        *short = floor::is_short(rulings.iter().map(|ruling| (ruling.verdict, false)), policy);
        for (origin, ruling) in self.origins.iter_mut().zip(&rulings) {
            let before = origin.state.verdict().0;
            origin.state.settle(ruling, &Seen::default(), policy, false, *now);
            if before.usable() && !ruling.verdict.usable() {
                origin.schedule.hurry(&policy.probing.unwrap(), random.f64(), *now);
            }
        }
    }
}
