//! Does the state machine agree with the rules written down plainly? A reference that keeps whole histories and counts
//! in them, run beside the real one over random evidence; and what must hold whatever the evidence.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::answers::Answers;
use super::floor;
use super::{Evidence, Fault, Grade, Policy, Probing, Seen, State, Verdict};

const RISE: usize = 2;
const FALL: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Event {
    Probe(Grade),
    Confirm(Grade),
    Answered,
    /// A request on this key went out so many milliseconds ago.
    TimedOut(u32, u64),
    Connected,
    Stalled,
    Nothing,
}

/// One origin in plain words; times are milliseconds.
#[derive(Debug, Clone, Default)]
struct Plain {
    history: Vec<(u64, Event)>,
    /// Counting of probes began anew here, by the length of the history then.
    counted_from: usize,
    /// The same for time-outs.
    listened_from: usize,
    stalled: Option<u64>,
    out: bool,
    kept: bool,
    due: Option<u64>,
    refused: bool,
    hung: bool,
    hung_until: u64,
    held_until: Option<u64>,
    ejections: Vec<u64>,
    hangs: Vec<u64>,
}

impl Plain {
    fn grades(&self) -> impl DoubleEndedIterator<Item = (u64, Grade)> + '_ {
        self.history[self.counted_from..].iter().filter_map(|(at, event)| match event {
            Event::Probe(grade) => Some((*at, *grade)),
            _ => None,
        })
    }

    /// Trailing probes of a kind: how many, and when the first of them came.
    fn trailing(&self, wanted: fn(Grade) -> bool) -> (usize, Option<u64>) {
        let run: Vec<_> = self.grades().rev().take_while(|(_, grade)| wanted(*grade)).collect();
        (run.len(), run.last().map(|(at, _)| (*at).max(self.stalled.filter(|stall| stall >= at).unwrap_or(0))))
    }

    fn good(&self) -> (usize, Option<u64>) {
        self.trailing(|grade| grade == Grade::Good)
    }

    fn bad(&self) -> (usize, Option<u64>) {
        self.trailing(|grade| matches!(grade, Grade::Bad(_)))
    }

    /// From the first of the trailing good probes to the last of all.
    fn good_run(&self) -> Option<(u64, u64)> {
        let good: Vec<_> = self.grades().rev().take_while(|(_, grade)| *grade == Grade::Good).collect();
        Some((good.last()?.0, good.first()?.0))
    }

    /// The latest of the bad probes in a row: when the first of them came, and when the last was asked for at the latest.
    fn bad_run(&self) -> Option<(u64, u64)> {
        let is_bad = |(_, grade): &(u64, Grade)| matches!(grade, Grade::Bad(_));
        let bad: Vec<_> = self.grades().rev().skip_while(|one| !is_bad(one)).take_while(is_bad).collect();
        let (first, (last, grade)) = (bad.last()?.0, bad.first()?);
        let took = if *grade == Grade::Bad(Fault::Timeout) { 1000 } else { 0 };
        Some((first, (last - took).max(first)))
    }

    /// The trailing answers, of which none came more than five seconds after the one before.
    fn answering(&self) -> Option<(u64, u64)> {
        let mut answers = self.history.iter().rev().filter(|(_, event)| matches!(event, Event::Answered));
        let last = answers.next()?.0;
        let first =
            answers.map(|(at, _)| *at).try_fold(last, |first, at| if first - at > 5000 { Err(first) } else { Ok(at) });
        Some((first.unwrap_or_else(|first| first), last))
    }

    fn last(&self, wanted: impl Fn(&Event) -> bool) -> Option<u64> {
        self.history.iter().rev().find(|(_, event)| wanted(event)).map(|(at, _)| *at)
    }

    fn answered(&self) -> Option<u64> {
        self.last(|event| matches!(event, Event::Answered))
    }

    fn passes(&self) -> bool {
        let mut probes = self.history.iter().rev().filter(|(_, event)| matches!(event, Event::Probe(_)));
        matches!(probes.next(), Some((_, Event::Probe(Grade::Good))))
    }

    fn recover(&mut self) {
        (self.due, self.refused, self.hung, self.held_until) = (None, false, false, None);
        self.listened_from = self.history.len();
    }

    fn take(&mut self, now: u64, event: Event) {
        self.history.push((now, event));
        match event {
            Event::Probe(grade) => self.refused &= grade.fault().is_some_and(|fault| !fault.connected()),
            Event::Confirm(Grade::Bad(Fault::Refused | Fault::Unreachable)) => {
                self.due.get_or_insert(now);
                self.refused = true;
                self.counted_from = self.history.len();
            }
            Event::Connected => {
                self.recover();
                self.counted_from = self.history.len();
            }
            Event::Stalled => {
                self.stalled = Some(now);
                self.listened_from = self.history.len();
            }
            _ => {}
        }
    }

    fn weigh(&mut self, now: u64, short: bool) {
        if self.bad().0 >= FALL {
            self.due.get_or_insert(now);
        }
        let well = self.good().0 >= if short { 1 } else { RISE }
            && (!self.hung || now >= self.hung_until)
            && (short || self.held_until.is_none_or(|until| now >= until));
        let answers = self.kept && self.hung && self.answered() > self.due;
        if self.due.is_some() && (well || answers) {
            self.recover();
        }
    }

    /// Rule H2(c), but for the other origin: when the last request timed out.
    fn hangs(&self, now: u64, http: bool) -> Option<u64> {
        let good = self.last(|event| matches!(event, Event::Probe(Grade::Good))).filter(|_| http);
        let heard = self.answered().max(self.stalled).max(good);
        // Time-outs that still count, since there was neither an answer nor a gap of more than ten seconds.
        let mut counted: Vec<(u64, u32, u64)> = Vec::new();
        for (at, event) in &self.history[self.listened_from..] {
            let Event::TimedOut(key, ago) = event else { continue };
            let out = at.saturating_sub(*ago);
            if self.stalled.is_some_and(|stalled| out < stalled) {
                continue;
            }
            let answered = self.history.iter().filter(|(then, event)| matches!(event, Event::Answered) && then <= at);
            let answered = answered.map(|(then, _)| *then).max();
            let latest: Vec<_> = newest_of_each_key(&counted);
            if latest.iter().all(|(ended, ..)| at - ended > 10_000 || answered > Some(*ended)) {
                counted.clear();
            }
            counted.push((*at, *key, out));
        }
        let latest = newest_of_each_key(&counted);
        let recent = latest.iter().map(|(ended, ..)| *ended).filter(|at| now - at <= 10_000 && Some(*at) > heard);
        let first_out = counted.iter().map(|(.., out)| *out).min();
        let silent = recent.clone().count() >= 5 && first_out.max(heard).is_some_and(|since| now - since >= 10_000);
        recent.max().filter(|_| silent && !self.hung)
    }

    /// Rule H2(b), but for the other origin.
    fn silent(&self, now: u64, http: bool) -> bool {
        let lives = |event: &Event| match event {
            Event::Probe(Grade::Bad(fault)) => fault.answered(),
            Event::Probe(_) => true,
            _ => false,
        };
        let (bad, since) = self.bad();
        let heard = self.answered().max(self.stalled).max(self.last(lives).filter(|_| http)).max(since);
        bad > 0 && heard.is_some_and(|heard| now - heard >= 10_000)
    }

    fn hold(&mut self, out: bool, kept: bool, now: u64) -> Verdict {
        if out && !self.out && self.held_until.is_none() {
            self.held_until = Some(Self::wait(&mut self.ejections, now, 0, 1000));
        }
        (self.out, self.kept) = (out, kept);
        match (out, kept) {
            (true, _) => Verdict::Down,
            (false, true) => Verdict::Kept,
            (false, false) => Verdict::Up,
        }
    }

    fn wait(times: &mut Vec<u64>, now: u64, first: u64, second: u64) -> u64 {
        times.push(now);
        let gaps = times.windows(2).rev().take_while(|pair| pair[1] - pair[0] <= 600_000).count() as u32;
        now + if gaps == 0 { first } else { (second << (gaps - 1).min(20)).min(300_000) }
    }
}

/// The five keys that timed out last, with when they did.
fn newest_of_each_key(counted: &[(u64, u32, u64)]) -> Vec<(u64, u32, u64)> {
    let mut newest: Vec<(u64, u32, u64)> = Vec::new();
    for entry in counted.iter().rev() {
        if newest.len() < 5 && newest.iter().all(|(_, key, _)| *key != entry.1) {
            newest.push(*entry);
        }
    }
    newest
}

/// Did both go on at some moment?
fn meet(one: (u64, u64), other: (u64, u64)) -> bool {
    one.0 <= other.1 && other.0 <= one.1
}

/// What holds for a pool, and whether it is short.
struct Rules {
    http: bool,
    spare: f64,
    fail: bool,
    short: bool,
}

impl Rules {
    /// The rules over a whole pool, each count made from scratch.
    fn judge(&mut self, pool: &mut [Plain], now: u64) -> Vec<Verdict> {
        pool.iter_mut().for_each(|one| one.weigh(now, self.short));
        let seen = pool.to_vec();
        let (mut down, mut kept) = self.due(pool, now);
        kept.sort_by_key(|at| (!pool[*at].out, pool[*at].due, *at));
        let spare = (pool.len() as f64 * self.spare + 1e-9) as usize;
        for at in kept.clone() {
            let others: Vec<_> = (0..pool.len()).filter(|one| *one != at && !down.contains(one)).collect();
            let failed = seen[at].bad_run().filter(|_| !seen[at].out && !pool[at].hung);
            let passes = |one: &Plain| match failed {
                Some(failed) => one.good_run().is_some_and(|good| meet(good, failed)),
                None => one.passes(),
            };
            let passing = others.iter().filter(|one| passes(&seen[**one])).count();
            if !others.is_empty() && 2 * passing >= others.len() && down.len() < spare {
                down.push(at);
                kept.retain(|one| *one != at);
            }
        }
        if self.fail && down.len() + kept.len() == pool.len() {
            down.append(&mut kept);
        }
        self.short = !kept.is_empty() || down.len() > spare;
        pool.iter_mut().enumerate().map(|(at, one)| one.hold(down.contains(&at), kept.contains(&at), now)).collect()
    }

    /// Who is due out: by hard evidence, and by soft.
    fn due(&self, pool: &mut [Plain], now: u64) -> (Vec<usize>, Vec<usize>) {
        let all = pool.to_vec();
        let other =
            |me: usize, holds: &dyn Fn(&Plain) -> bool| all.iter().enumerate().any(|(at, one)| at != me && holds(one));
        let answers = |one: &Plain| one.answered().is_some_and(|at| now - at < 10_000) && !one.refused;
        let answers_since = |one: &Plain| one.answering().filter(|run| now - run.1 < 5000 && !one.refused);
        let passes_long = |one: &Plain| one.good().1.is_some_and(|since| now - since >= 10_000);
        let (mut hard, mut soft) = (Vec::new(), Vec::new());
        for (at, one) in pool.iter_mut().enumerate() {
            let awake = |timed_out: u64| {
                other(at, &|one| answers_since(one).is_some_and(|(since, _)| since + 2500 <= timed_out))
            };
            if one.hangs(now, self.http).is_some_and(awake) {
                let until = Plain::wait(&mut one.hangs, now, 10_000, 20_000);
                one.due.get_or_insert(now);
                (one.hung, one.hung_until) = (true, if self.http { now } else { until });
                (one.counted_from, one.listened_from) = (one.history.len(), one.history.len());
            }
            let beside = |one: &Plain| {
                let runs = one.good_run().zip(all[at].bad_run());
                passes_long(one) && runs.is_some_and(|(good, bad)| meet(good, bad))
            };
            let silent = all[at].due.is_some() && all[at].silent(now, self.http) && other(at, &beside);
            let hung = one.hung && self.http && other(at, &answers);
            match (one.due, one.refused || silent || hung) {
                (Some(_), true) => hard.push(at),
                (Some(_), false) => soft.push(at),
                (None, _) => {}
            }
        }
        (hard, soft)
    }
}

fn grade() -> impl Strategy<Value = Grade> {
    prop_oneof![
        4 => Just(Grade::Good),
        1 => Just(Grade::Overloaded),
        1 => Just(Grade::Bad(Fault::Refused)),
        3 => Just(Grade::Bad(Fault::Timeout)),
        1 => Just(Grade::Bad(Fault::Status(500))),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => grade().prop_map(Event::Probe),
        1 => grade().prop_map(Event::Confirm),
        3 => Just(Event::Answered),
        8 => (0..8_u32, 0..12_000_u64).prop_map(|(key, ago)| Event::TimedOut(key, ago)),
        1 => Just(Event::Connected),
        1 => Just(Event::Stalled),
        1 => Just(Event::Nothing),
    ]
}

fn real(event: Event, now: Instant) -> Option<Evidence> {
    Some(match event {
        Event::Probe(grade) => Evidence::Probe(grade),
        Event::Confirm(grade) => Evidence::Confirm(grade),
        Event::TimedOut(key, ago) => Evidence::TimedOut { key, since: now - Duration::from_millis(ago) },
        Event::Connected => Evidence::Connected,
        Event::Stalled => Evidence::Stalled,
        Event::Answered | Event::Nothing => return None,
    })
}

#[derive(Debug, Clone)]
struct Run {
    origins: usize,
    http: bool,
    min_healthy: u32,
    fail: bool,
    events: Vec<(usize, u64, Event)>,
}

fn runs() -> impl Strategy<Value = Run> {
    let gaps = prop_oneof![3 => Just(0_u64), 6 => 1..400_u64, 1 => 1_000..15_000_u64];
    let events = proptest::collection::vec((any::<prop::sample::Index>(), gaps, event()), 1..300);
    (1..6_usize, any::<bool>(), 0..=100_u32, any::<bool>(), events).prop_map(
        |(origins, http, min_healthy, fail, events)| {
            let events = events.into_iter().map(|(at, gap, event)| (at.index(origins), gap, event)).collect();
            Run { origins, http, min_healthy, fail, events }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    #[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
    fn states_and_floor_agree_with_the_rules_in_plain_words(run in runs()) {
        let probing = Probing {
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            rise: RISE as u32,
            fall: FALL as u32,
            http: run.http,
        };
        let spare = 1.0 - f64::from(run.min_healthy) / 100.0;
        let policy = Policy { probing: Some(probing), spare, fail: run.fail, ..Policy::default() };
        // Far enough from the start that "ago" never goes before it.
        let (start, mut clock) = (Instant::now(), 20_000_u64);
        let mut states: Vec<_> = (0..run.origins).map(|_| (State::new(true, true), Answers::default())).collect();
        let mut plain = vec![Plain::default(); run.origins];
        let mut short = false;
        let mut rules = Rules { http: run.http, spare, fail: run.fail, short };
        for (step, (at, gap, event)) in run.events.iter().enumerate() {
            clock += gap;
            let now = start + Duration::from_millis(clock);
            let (state, answers) = &mut states[*at];
            if matches!(event, Event::Answered) {
                answers.note(now);
            }
            if let Some(evidence) = real(*event, now) {
                state.take(evidence, answers.run().map(|run| run.to), now);
            }
            plain[*at].take(clock, *event);

            let seen = |answers: &Answers| Seen { weight: 1, known: true, answers: answers.run(), ..Seen::default() };
            let cases: Vec<_> =
                states.iter_mut().map(|(state, answers)| state.case(&seen(answers), &policy, short, now)).collect();
            let rulings = floor::judge(&cases, &policy);
            short = floor::is_short(rulings.iter().map(|ruling| (ruling.verdict, false)), &policy);
            states.iter_mut().zip(&rulings).for_each(|((state, _), ruling)| { state.settle(ruling, &Seen::default(), &policy, false, now); });
            let held: Vec<_> = states.iter().map(|(state, _)| state.verdict().0).collect();
            let expected = rules.judge(&mut plain, clock);
            prop_assert_eq!(held, expected, "after step {}", step);
        }
    }
}
