//! May this origin be used? Evidence in, verdict out: pure state, the clock is an argument.
//!
//! [`State`] keeps what was learned of one origin and what follows from it alone; the [`floor`] of its pool then says
//! who goes and who is kept. *Hard* evidence (no connection, silence while others answer) ejects whatever the floor
//! says, *soft* evidence (bad probes) only within it, and failures of our own are evidence against nobody. Nothing here
//! logs, counts or sleeps: changes are returned as facts. The [`Prober`] drives all of it on one thread; [`Live`] is
//! what the data plane sees of it, [`Board`] the same for a whole pool at a glance.

pub mod address;
mod answers;
mod bell;
pub mod board;
mod brake;
pub mod carried;
pub mod course;
mod drain;
pub mod evidence;
pub mod floor;
#[cfg(test)]
mod growing;
pub mod handover;
mod hang;
mod hold;
pub mod live;
#[cfg(test)]
mod model;
mod offence;
mod outlier;
mod overload;
mod passive;
pub mod policy;
pub mod probe;
pub mod prober;
mod ramp;
#[cfg(test)]
mod relief;
mod reserve;
pub mod roster;
mod run;
pub mod schedule;
mod seen;
mod share;
#[cfg(test)]
mod shared;
mod shed;
#[cfg(test)]
mod simulation;
pub mod span;
#[cfg(test)]
mod tables;
pub mod tally;
mod times;
mod turn;
pub mod verdict;

use std::ops::Not;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use address::{Address, Endpoint};
pub use bell::Bell;
pub use board::Board;
pub use brake::Brake;
pub use carried::Carried;
pub use course::{Course, Memory};
pub use evidence::{Evidence, Fault, Grade};
pub use handover::{Handover, Ripe};
pub use hold::Held;
pub use live::{Live, Report};
pub use outlier::Failing;
pub use passive::Heard;
pub use policy::{Policy, Probing, SlowStart};
pub use prober::{Fact, Prober};
pub use roster::{Role, Roster, Target};
pub use seen::Seen;
pub use span::Span;
pub use tally::{Summary, Tally};
pub use verdict::{Change, Verdict, Why};

use answers::LATELY;
use course::Place;
use floor::{Case, Due, Ruling};
use hang::{Hang, SILENCE};
use offence::Offences;
use outlier::Outlier;
use overload::{Sight, Strain};
use passive::Ended;
use policy::Overload;
use run::Run;
use share::Share;

use crate::balance::Factor;

/// What was learned of one origin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State<T = Instant> {
    verdict: Verdict,
    why: Why,
    /// Passed `rise` probes, or was assumed to.
    #[serde(default, skip_serializing_if = "Not::not")]
    proven: bool,
    #[serde(default, skip_serializing_if = "Run::is_empty")]
    run: Run<T>,
    /// Gathered within seconds, and gathered again.
    #[serde(skip)]
    hang: Hang,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trouble: Option<Trouble<T>>,
    /// What failed requests make of it.
    #[serde(default, skip_serializing_if = "Outlier::is_empty")]
    outlier: Outlier<T>,
    #[serde(default, skip_serializing_if = "Offences::is_empty")]
    ejections: Offences<T>,
    #[serde(default, skip_serializing_if = "Offences::is_empty")]
    hangs: Offences<T>,
    share: Share<T>,
    /// Nothing before this instant counts: we were held up ourselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    heard_from: Option<T>,
}

/// Why an origin is due out, until it is well again.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Trouble<T = Instant> {
    since: T,
    /// It refused, and again when asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<Fault>,
    /// Requests hang there; not to come back before this, since probes by TCP pass all along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hung: Option<T>,
    /// When it is let in again at the earliest, once it was out for this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<T>,
}

impl State {
    /// An origin that is assumed up, or has to prove itself first; `known`: its address is.
    pub fn new(proven: bool, known: bool) -> Self {
        let (verdict, why) = match (known, proven) {
            (false, _) => (Verdict::Down, Why::Unresolved),
            (true, true) => (Verdict::Up, Why::Assumed),
            (true, false) => (Verdict::Joining, Why::NotProven { good: 0, rise: 0 }),
        };
        Self {
            verdict,
            why,
            proven,
            run: Run::default(),
            hang: Hang::default(),
            trouble: None,
            outlier: Outlier::default(),
            ejections: Offences::EJECTIONS,
            hangs: Offences::HANGS,
            share: Share::new(!proven),
            heard_from: None,
        }
    }

    /// What is held of it, and why.
    pub fn verdict(&self) -> (Verdict, Why) {
        self.share.shown(self.verdict).unwrap_or((self.verdict, self.why))
    }

    /// The part of its share it may take, and that of the points beyond the weight it had before it was raised.
    pub fn factors(&self) -> (Factor, Factor) {
        if self.verdict.usable() { self.share.factors() } else { (Factor::NONE, Factor::NONE) }
    }

    /// The latest probe's result, and when it came.
    pub fn last_probe(&self) -> Option<(Grade, Instant)> {
        self.run.last()
    }

    /// Takes evidence that came `now`; `answered`: when a request was last answered. Nothing follows from it before the
    /// pool is judged.
    pub fn take(&mut self, evidence: Evidence, answered: Option<Instant>, now: Instant) {
        match evidence {
            Evidence::Probe(grade) => self.probed(grade, now),
            Evidence::Confirm(Grade::Bad(fault)) if fault.is_refusal() => {
                self.run.restart();
                self.trouble(now).refusal = Some(fault);
            }
            // It took the connection after all, or said nothing in time: no refusal that is confirmed.
            Evidence::Confirm(_) => {}
            Evidence::TimedOut { key, since } => {
                if since >= self.heard_from.unwrap_or(since) && !self.is_hung() {
                    self.hang.timed_out(key, since, answered, now);
                }
            }
            Evidence::Connected => {
                self.recover(Why::Connected);
                self.outlier.clear();
                self.proven = true;
                self.run.restart();
            }
            Evidence::Stalled => {
                self.heard_from = Some(now);
                self.hang.forget();
                self.run.forget_time_before(now);
            }
        }
    }

    /// Takes requests that ended; answers whether what was counted of them is to be forgotten.
    fn weigh_requests(&mut self, ended: Ended, policy: &Policy, now: Instant) -> bool {
        self.outlier.weigh(ended, policy.outlier.as_ref(), now)
    }

    /// How it stands among the others of its pool where one may have to shed load.
    fn sight(&self, strain: Strain, target: &Target, rule: &Overload) -> Sight {
        self.share.sight(strain, self.verdict, target, rule)
    }

    /// What the judge of the pool needs to know. `short`: the pool is short of origins, so that nobody waits.
    pub fn case(&mut self, seen: &Seen, policy: &Policy, short: bool, now: Instant) -> Case {
        match &policy.probing {
            Some(probing) => self.weigh(probing, seen.answered(), short, now),
            None => {
                self.proven = true;
                self.recover(Why::Assumed);
            }
        }
        let answered = seen.answered().max(self.heard_from);
        let lasts = |since: Instant, long: Duration| now.saturating_duration_since(since) >= long;
        let long = |since: Instant| lasts(since, SILENCE);
        let http = policy.probing.is_some_and(|probing| probing.http);
        let heard = answered.max(self.run.last_good().filter(|_| http));
        let silent_since = self.run.bad_since().max(self.run.last_answer().filter(|_| http)).max(answered);
        Case {
            weight: seen.weight,
            backup: seen.backup,
            known: seen.known,
            proven: self.proven,
            outside: seen.role != Role::Serves,
            out: !self.verdict.usable(),
            due: self.due(silent_since.is_some_and(long)),
            hangs: self.hang.silent(heard, now).filter(|_| !self.is_hung()),
            failed: policy.probing.and_then(|probing| self.run.bad_run(probing.timeout)),
            passes: (policy.probing.is_none() || self.run.passes()) && self.outlier.due().is_none(),
            passed: self.run.good_run(),
            passes_long: self.run.good_since().is_some_and(long),
            answers: seen.answered().is_some_and(|at| !long(at)),
            answers_since: seen.answers.filter(|run| !lasts(run.to, LATELY)).map(|run| run.from),
        }
    }

    /// Why it is due out; `silent`: nothing was heard of it for long.
    fn due(&self, silent: bool) -> Option<Due> {
        let by_requests = self.outlier.due().map(|since| Due { since, refused: false, quiet: false, hung: false });
        let by_itself = self.trouble.map(|trouble| Due {
            since: trouble.since,
            refused: trouble.refusal.is_some(),
            quiet: self.run.bad_since().is_some() && silent,
            hung: trouble.hung.is_some(),
        });
        by_itself.or(by_requests)
    }

    /// Takes the ruling over; answers where that leaves it among the others. `needed`: whoever comes back is needed
    /// whole.
    fn settle(&mut self, ruling: &Ruling, seen: &Seen, policy: &Policy, needed: bool, now: Instant) -> Place {
        if ruling.hangs {
            let http = policy.probing.is_some_and(|probing| probing.http);
            let until = self.hangs.again(now);
            self.hang.forget();
            self.run.restart();
            // An HTTP probe that passes proves more than a wait.
            self.trouble(now).hung = Some(if http { now } else { until });
        }
        let before = self.verdict;
        self.verdict = ruling.verdict;
        self.dismissed(before, ruling.verdict, policy, now);
        let failing = self.outlier.why(now).filter(|_| matches!(ruling.verdict, Verdict::Kept | Verdict::Down));
        self.why = match failing.filter(|_| self.trouble.is_none() && ruling.known) {
            Some((failing, left)) => Why::Failing { failing, left },
            None => self.reason(ruling, policy),
        };
        if before.usable()
            && ruling.verdict == Verdict::Down
            && let Some(trouble) = &mut self.trouble
            && trouble.held.is_none()
        {
            trouble.held = Some(self.ejections.again(now));
        }
        // A backup serves when nobody else can: there is nobody to spare it.
        let slow = policy.slow_start.as_ref().filter(|_| !seen.backup);
        self.share.take_role(seen.role, slow, now);
        self.share.ruled(before.usable(), ruling.verdict.usable(), slow, needed, now);
        if seen.backup { Place::Outside } else { self.share.place(self.verdict, self.proven) }
    }

    /// It goes, or does not, for the requests that fail.
    fn dismissed(&mut self, before: Verdict, ruled: Verdict, policy: &Policy, now: Instant) {
        let Some(rule) = policy.outlier.as_ref().filter(|_| self.outlier.due().is_some()) else { return };
        match ruled {
            Verdict::Down if before.usable() => self.outlier.ejected(rule, now),
            Verdict::Kept => self.outlier.kept(),
            _ => {}
        }
    }

    /// Since when it grows into its share; `None`: it does not, or is out.
    fn grows_since(&self) -> Option<Instant> {
        self.share.grows_since().filter(|_| self.verdict.usable())
    }

    /// Did it pass its probes once, or was it assumed to?
    pub fn is_proven(&self) -> bool {
        self.proven
    }

    /// It is somewhere else from now on, which has proven itself: what was learned of the old place says nothing.
    pub fn moved(&mut self) {
        self.recover(Why::Passing);
        self.outlier.clear();
        self.run = Run::default();
        self.proven = true;
    }

    /// May time alone change what follows from what is known?
    pub fn is_restless(&self) -> bool {
        self.trouble.is_some() || self.outlier.due().is_some() || !self.hang.is_empty() || self.share.is_restless()
    }

    fn probed(&mut self, grade: Grade, now: Instant) {
        self.run.record(grade, now);
        if let Some(trouble) = &mut self.trouble
            && grade.fault().is_none_or(Fault::connected)
        {
            trouble.refusal = None;
        }
    }

    /// What follows from its own evidence: is it proven, due out, or well again?
    fn weigh(&mut self, probing: &Probing, answered: Option<Instant>, short: bool, now: Instant) {
        if self.run.good() >= probing.rise {
            self.proven = true;
        }
        if self.proven && self.run.bad() >= probing.fall {
            self.trouble(now);
        }
        let Some(trouble) = self.trouble else { return };
        let needed = if short { 1 } else { probing.rise };
        let waited = |until: Option<Instant>| until.is_none_or(|until| now >= until);
        let well = self.run.good() >= needed && waited(trouble.hung) && (short || waited(trouble.held));
        // One that hangs and is kept may prove itself by what it is kept for.
        let answers = self.verdict == Verdict::Kept && self.is_hung() && answered > Some(trouble.since);
        if well || answers {
            self.recover(Why::Passing);
        }
    }

    fn is_hung(&self) -> bool {
        self.trouble.is_some_and(|trouble| trouble.hung.is_some())
    }

    fn recover(&mut self, why: Why) {
        self.trouble = None;
        self.hang.forget();
        self.why = why;
    }

    fn trouble(&mut self, now: Instant) -> &mut Trouble {
        self.trouble.get_or_insert(Trouble { since: now, refusal: None, hung: None, held: None })
    }

    fn reason(&self, ruling: &Ruling, policy: &Policy) -> Why {
        match (ruling.verdict, self.trouble) {
            (Verdict::Joining, _) => {
                let rise = policy.probing.map_or(0, |probing| probing.rise);
                Why::NotProven { good: self.run.good(), rise }
            }
            (Verdict::Down, _) if !ruling.known => Why::Unresolved,
            (_, Some(Trouble { refusal: Some(fault), .. })) => Why::NoConnection(fault),
            (_, Some(Trouble { hung: Some(_), .. })) => Why::Hung,
            (_, Some(_)) if ruling.silent => Why::Silent,
            (_, Some(_)) => self.bad_probes(),
            (_, None) if policy.probing.is_none() => Why::Unprobed,
            (_, None) if self.why == Why::Connected && !self.run.passes() => Why::Connected,
            (_, None) if self.run.last().is_none() => Why::Assumed,
            (_, None) => Why::Passing,
        }
    }

    /// While it recovers the run is of good ones; what brought it here is still the reason.
    fn bad_probes(&self) -> Why {
        match (self.run.fault(), self.why) {
            (Some(last), _) => Why::BadProbes { count: self.run.bad(), last },
            (None, why) => why,
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use super::answers::Answers;
    use super::simulation::HTTP;
    use super::*;

    /// Two origins that are judged together; the second one does well in every way.
    struct Pair {
        policy: Policy,
        states: [State; 2],
        answers: Answers,
        now: Instant,
    }

    impl Pair {
        fn new(proven: bool) -> Self {
            let policy = Policy { probing: Some(HTTP), spare: 0.5, ..Policy::default() };
            let states = [State::new(proven, true), State::new(true, true)];
            Self { policy, states, answers: Answers::default(), now: Instant::now() }
        }

        fn wait(&mut self, seconds: u64) -> &mut Self {
            (0..seconds).for_each(|_| {
                self.answers.note(self.now);
                self.now += Duration::from_secs(1);
            });
            self
        }

        fn learn(&mut self, evidence: Evidence) -> (Verdict, Why) {
            self.states[0].take(evidence, None, self.now);
            self.states[1].take(Evidence::Probe(Grade::Good), Some(self.now), self.now);
            self.answers.note(self.now);
            let answers = [None, self.answers.run()];
            let seen = answers.map(|answers| Seen { weight: 1, known: true, answers, ..Seen::default() });
            let [one, other] = &mut self.states;
            let cases = [(one, seen[0]), (other, seen[1])]
                .map(|(state, seen)| state.case(&seen, &self.policy, false, self.now));
            let rulings = floor::judge(&cases, &self.policy);
            self.states.iter_mut().zip(&rulings).for_each(|(state, ruling)| {
                state.settle(ruling, &Seen::default(), &self.policy, false, self.now);
            });
            self.states[0].verdict()
        }
    }

    const BAD: Evidence = Evidence::Probe(Grade::Bad(Fault::Timeout));
    const GOOD: Evidence = Evidence::Probe(Grade::Good);
    const OVERLOADED: Evidence = Evidence::Probe(Grade::Overloaded);

    #[test]
    fn newcomer_serves_after_rise_good_probes_in_a_row_and_overloaded_is_not_good() {
        let mut pair = Pair::new(false);
        let learned = [BAD, GOOD, OVERLOADED, GOOD, GOOD].map(|evidence| pair.learn(evidence).0);
        let joining = Verdict::Joining;
        assert_eq!(learned, [joining, joining, joining, joining, Verdict::Up]);
        assert_eq!(Pair::new(false).learn(GOOD).1, Why::NotProven { good: 1, rise: 2 });
    }

    #[test]
    fn overloaded_is_not_dead() {
        let mut pair = Pair::new(true);
        assert!((0..50).all(|_| pair.wait(2).learn(OVERLOADED).0 == Verdict::Up));
        let learned = [BAD, BAD, OVERLOADED, BAD, BAD].map(|evidence| pair.learn(evidence).0);
        assert_eq!(learned, [Verdict::Up; 5], "three in a row it takes");
    }

    #[test]
    fn refusal_counts_once_it_is_confirmed() {
        let mut pair = Pair::new(true);
        for said in [Grade::Good, Grade::Bad(Fault::ConnectTimeout), Grade::Overloaded] {
            assert_eq!(pair.learn(Evidence::Confirm(said)).0, Verdict::Up, "{said:?}");
        }
        let learned = pair.learn(Evidence::Confirm(Grade::Bad(Fault::Unreachable)));
        assert_eq!(learned, (Verdict::Down, Why::NoConnection(Fault::Unreachable)));
    }

    #[test]
    fn stall_of_our_own_is_not_the_death_of_others() {
        let mut pair = Pair::new(true);
        let sent = pair.now;
        pair.wait(11).learn(Evidence::Stalled);
        for key in 0..20 {
            pair.learn(Evidence::TimedOut { key, since: sent });
        }
        assert_eq!(pair.wait(10).learn(GOOD).0, Verdict::Up);
    }

    #[test]
    fn time_outs_while_nothing_answers_put_it_out_and_good_probes_bring_it_back() {
        let mut pair = Pair::new(true);
        let sent = pair.now;
        pair.wait(10);
        let learned: Vec<_> = (0..5).map(|key| pair.learn(Evidence::TimedOut { key, since: sent }).0).collect();
        assert_eq!(learned, [Verdict::Up, Verdict::Up, Verdict::Up, Verdict::Up, Verdict::Down]);
        assert_eq!(pair.learn(GOOD), (Verdict::Down, Why::Hung));
        assert_eq!(pair.learn(GOOD), (Verdict::Up, Why::Passing));
    }

    #[test]
    fn without_probes_everything_is_up() {
        let mut pair = Pair::new(false);
        pair.policy.probing = None;
        assert_eq!(pair.learn(Evidence::Confirm(Grade::Bad(Fault::Refused))), (Verdict::Up, Why::Unprobed));
    }
}
