//! What does a process tell the next one of an origin's health? Rule U1: all that was learned, with ages for instants.
//!
//! The same types as in memory, with another kind of time. Evidence of hangs stays behind: it is of the last seconds and
//! comes again. What was handed over is taken as it says, but never so that it could not be reckoned with.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::offence::Offences;
use super::{Live, Span, State, Trouble, tally};
use crate::age::Age;

/// What is known of the health of one origin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Carried {
    state: State<Age>,
    /// Since when requests were answered without a long gap, and when the last one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answers: Option<(Age, Age)>,
    #[serde(default)]
    tally: tally::Carried,
}

impl<T> State<T> {
    /// The same with other times.
    fn retimed<U>(self, time: &impl Fn(T) -> U) -> State<U> {
        State {
            verdict: self.verdict,
            why: self.why,
            proven: self.proven,
            run: self.run.retimed(time),
            hang: self.hang,
            trouble: self.trouble.map(|trouble| trouble.retimed(time)),
            outlier: self.outlier.retimed(time),
            ejections: self.ejections.retimed(time).under(&Offences::EJECTIONS),
            hangs: self.hangs.retimed(time).under(&Offences::HANGS),
            share: self.share.retimed(time),
            heard_from: self.heard_from.map(time),
        }
    }
}

impl<T> Trouble<T> {
    fn retimed<U>(self, time: &impl Fn(T) -> U) -> Trouble<U> {
        Trouble { since: time(self.since), refusal: self.refusal, hung: self.hung.map(time), held: self.held.map(time) }
    }
}

impl Live {
    /// What is known of it, as seen `now`.
    pub fn export(&self, now: Instant) -> Carried {
        Carried {
            state: self.state().retimed(&|at| Age::of(at, now)),
            answers: self.answers().map(|run| (Age::of(run.from, now), Age::of(run.to, now))),
            tally: self.tally().export(now),
        }
    }

    /// It is known as it was exported, elsewhere and seen `now`; what was known here is forgotten. Shows it at once.
    pub fn import(&self, carried: &Carried, now: Instant) {
        self.tally().import(&carried.tally, now);
        if let Some((from, to)) = carried.answers {
            self.resume_answers(Span { from: from.at(now), to: to.at(now) });
        }
        self.begin_as(carried.state.clone().retimed(&|age: Age| age.at(now)));
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod properties {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::config::units;
    use crate::health::policy::{Outlier, Overload};
    use crate::health::{
        Address, Evidence, Fault, Grade, Heard, Policy, Probing, Role, Roster, SlowStart, Target, Verdict,
    };

    const PROBING: Probing =
        Probing { interval: Duration::from_secs(2), timeout: Duration::from_secs(1), rise: 2, fall: 3, http: true };
    const SLOW: SlowStart =
        SlowStart { window: Duration::from_secs(20), from: 0.1, error_ratio: Some(0.05), latency: Some(3.0) };
    const ORIGINS: usize = 4;

    /// What befalls an origin.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Probe(Grade),
        Confirm,
        Connected,
        Stalled,
        /// So many requests that take so many milliseconds, and so many of them fail.
        Serves(u32, u64, u32),
        Role(Role),
        Raised,
        Parked,
        Back,
        Nothing,
    }

    fn event() -> impl Strategy<Value = Event> {
        let bad = prop_oneof![Just(Fault::Refused), Just(Fault::Timeout), Just(Fault::Status(500))];
        let role = prop_oneof![
            3 => Just(Role::Serves),
            1 => Just(Role::Drains(Duration::from_secs(9))),
            1 => Just(Role::Drains(Duration::ZERO)),
            1 => Just(Role::Leaves)
        ];
        prop_oneof![
            8 => Just(Event::Probe(Grade::Good)),
            5 => bad.prop_map(|fault| Event::Probe(Grade::Bad(fault))),
            1 => Just(Event::Probe(Grade::Overloaded)),
            1 => Just(Event::Confirm),
            1 => Just(Event::Connected),
            1 => Just(Event::Stalled),
            6 => (1_u32..40, 1_u64..200, 0_u32..4).prop_map(|(count, took, failed)| Event::Serves(count, took, failed)),
            2 => role.prop_map(Event::Role),
            1 => Just(Event::Raised),
            1 => Just(Event::Parked),
            1 => Just(Event::Back),
            4 => Just(Event::Nothing),
        ]
    }

    /// Steps of so many tenths of a second, after each of which something befalls somebody.
    fn course() -> impl Strategy<Value = Vec<(u64, usize, Event)>> {
        proptest::collection::vec((1_u64..30, 0..ORIGINS, event()), 1..60)
    }

    fn roster() -> Roster {
        let target = |number: usize| {
            let address = Address::compile(&units::Address::Ip(([127, 0, 0, 1], 1).into()), None);
            let live = Arc::new(Live::new(number < 2, true));
            Target { name: number.to_string().into(), weight: 1, backup: false, role: Role::Serves, address, live }
        };
        Roster::new(
            Arc::from("p"),
            Policy { probing: Some(PROBING), spare: 0.5, slow_start: Some(SLOW), ..Policy::default() },
            (0..ORIGINS).map(target).collect(),
        )
    }

    fn befall(roster: &mut Roster, who: usize, event: Event, now: Instant) {
        let target = &mut roster.targets[who];
        match event {
            Event::Probe(grade) => target.live.take(Evidence::Probe(grade), now),
            Event::Confirm => target.live.take(Evidence::Confirm(Grade::Bad(Fault::Refused)), now),
            Event::Connected => target.live.take(Evidence::Connected, now),
            Event::Stalled => target.live.take(Evidence::Stalled, now),
            Event::Serves(count, took, failed) => {
                target.live.answered(now);
                let took = Duration::from_millis(took);
                (0..count).for_each(|one| target.live.tally().record(one < failed, Some(took), Some(true), now));
            }
            Event::Role(role) => target.role = role,
            Event::Raised => target.live.raise(&SLOW, now),
            Event::Parked => target.live.park(now),
            Event::Back => target.live.come_back(Some(&SLOW), now),
            Event::Nothing => {}
        }
        roster.judge_again(now);
    }

    /// What requests to one origin come to in a second, while the others do well.
    #[derive(Debug, Clone, Copy)]
    enum Doing {
        Well,
        Busy,
        Fails,
    }

    fn troubles() -> impl Strategy<Value = Vec<(u64, usize, Doing)>> {
        let doing = prop_oneof![Just(Doing::Well), Just(Doing::Busy), Just(Doing::Fails)];
        proptest::collection::vec((1_u64..12, 0..ORIGINS, doing), 1..8)
    }

    /// The same with the rules that go by what requests come to.
    fn watched() -> Roster {
        let mut roster = roster();
        let recover = Duration::from_secs(10);
        roster.policy.overload = Some(Overload { recover, ..Overload::default() });
        let (cooldown, max_cooldown) = (Duration::from_secs(30), Duration::from_secs(60));
        roster.policy.outlier = Some(Outlier { cooldown, max_cooldown, ..Outlier::default() });
        roster.targets.iter_mut().for_each(|one| one.live = Arc::new(Live::new(true, true)));
        roster
    }

    fn happens(roster: &Roster, who: usize, doing: Doing, now: Instant) {
        for (number, target) in roster.targets.iter().enumerate() {
            target.live.take(Evidence::Probe(Grade::Good), now);
            let doing = if number == who { doing } else { Doing::Well };
            for n in 0..if target.live.verdict().usable() { 40_u32 } else { 0 } {
                let (key, client) = (n.wrapping_mul(0x9e37_79b9), [10, 0, 0, n as u8].into());
                let busy = matches!(doing, Doing::Busy) && n % 2 == 0;
                target.live.heard(&Heard { key, client, busy, took: Duration::from_millis(5) });
                target.live.answered(now);
                target.live.tally().record(matches!(doing, Doing::Fails), Some(Duration::from_millis(5)), None, now);
                target.live.ended(matches!(doing, Doing::Fails));
            }
        }
        roster.judge_again(now);
    }

    fn told(roster: &Roster, now: Instant) -> String {
        let all: Vec<Carried> = roster.targets.iter().map(|target| target.live.export(now)).collect();
        serde_json::to_string(&(all, roster.memory.export(now))).unwrap()
    }

    fn hear(roster: &Roster, told: &str, now: Instant) {
        let (all, course): (Vec<Carried>, crate::health::Course<Age>) = serde_json::from_str(told).unwrap();
        roster.targets.iter().zip(&all).for_each(|(target, carried)| target.live.import(carried, now));
        roster.memory.import(&course, now);
    }

    fn shown(roster: &Roster) -> Vec<impl PartialEq + std::fmt::Debug> {
        let shown = |target: &Target| {
            let (live, report) = (&target.live, target.live.report());
            (report.verdict, report.why, live.factor(), live.factor_beyond(), live.is_new(), live.is_proven())
        };
        roster.targets.iter().map(shown).collect()
    }

    proptest! {
        /// Whoever takes over judges on as the one before would have, whatever happened and whatever happens.
        #[test]
        fn a_successor_goes_on_as_its_predecessor_would(before in course(), after in course(), apart in 0_u64..100_000_000) {
            let (mut here, mut now) = (roster(), Instant::now());
            for (tenths, who, event) in before {
                now += Duration::from_millis(tenths * 100);
                befall(&mut here, who, event, now);
            }
            let (mut there, clock) = (roster(), Duration::from_millis(apart));
            for (target, one) in there.targets.iter_mut().zip(&here.targets) {
                target.role = one.role;
            }
            hear(&there, &told(&here, now), now + clock);
            prop_assert_eq!(shown(&here), shown(&there));
            prop_assert_eq!(told(&here, now), told(&there, now + clock));
            for (tenths, who, event) in after {
                now += Duration::from_millis(tenths * 100);
                befall(&mut here, who, event, now);
                befall(&mut there, who, event, now + clock);
                prop_assert_eq!(shown(&here), shown(&there));
            }
            let rest = now + Duration::from_secs(1);
            prop_assert_eq!(told(&here, rest), told(&there, rest + clock));
        }

        /// What requests made of an origin goes over. How the last window went does not: it is looked at again.
        #[test]
        fn what_was_shed_and_who_is_out_for_its_failures_goes_over(before in troubles(), apart in 0_u64..100_000_000) {
            let (here, mut now) = (watched(), Instant::now());
            // What the last seconds were like is forgotten by both.
            for (seconds, who, doing) in before.into_iter().chain([(12, 0, Doing::Well)]) {
                for _ in 0..seconds {
                    now += Duration::from_secs(1);
                    happens(&here, who, doing, now);
                }
            }
            let (there, clock) = (watched(), Duration::from_millis(apart));
            hear(&there, &told(&here, now), now + clock);
            prop_assert_eq!(shown(&here), shown(&there));
            prop_assert_eq!(told(&here, now), told(&there, now + clock));
            for _ in 0..150 {
                now += Duration::from_secs(1);
                happens(&here, 0, Doing::Well, now);
                happens(&there, 0, Doing::Well, now + clock);
                for (one, other) in here.targets.iter().zip(&there.targets) {
                    prop_assert_eq!(one.live.verdict().usable(), other.live.verdict().usable());
                    let apart = one.live.factor().part() - other.live.factor().part();
                    prop_assert!(apart.abs() < 0.12, "more than what comes back in a window: {}", apart);
                }
            }
            prop_assert!(there.targets.iter().all(|one| one.live.verdict() == Verdict::Up && one.live.factor().part() >= 1.0));
        }

        /// What is read is taken as far as it can be, and nothing that is read makes judging fail.
        #[test]
        fn garbage_is_refused_or_reckoned_with(course in course(), at in any::<prop::sample::Index>(), by in any::<u64>()) {
            let (mut here, mut now) = (roster(), Instant::now());
            for (tenths, who, event) in course {
                now += Duration::from_millis(tenths * 100);
                befall(&mut here, who, event, now);
            }
            let text = told(&here, now);
            let numbers: Vec<_> = text.match_indices(|c: char| c.is_ascii_digit()).map(|(at, _)| at).collect();
            let at = numbers[at.index(numbers.len())];
            let changed = format!("{}{by}{}", &text[..at], &text[at + 1..]);
            let Ok((all, memory)) = serde_json::from_str::<(Vec<Carried>, crate::health::Course<Age>)>(&changed) else {
                return Ok(());
            };
            let mut there = roster();
            there.targets.iter().zip(&all).for_each(|(target, carried)| target.live.import(carried, now));
            there.memory.import(&memory, now);
            for tenths in 0..100 {
                befall(&mut there, 0, Event::Probe(Grade::Good), now + Duration::from_millis(tenths * 100));
            }
            prop_assert!(there.targets.iter().all(|target| (0.0..=1.0).contains(&target.live.factor().part())));
            let _ = told(&there, now);
        }
    }
}
