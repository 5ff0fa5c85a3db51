//! When is an origin probed? Rules H1 and H4.
//!
//! One probe of an origin runs at a time. In service it is probed every `interval`; out or joining every half second
//! at first, so that it is back soon. A refusal asks for a confirming connect at once, in place of whatever runs. All
//! probes of the process share one [`Pace`].

use std::time::{Duration, Instant};

use super::Probing;

/// Between probes of an origin that is out or joining.
const QUICK: Duration = Duration::from_millis(500);
/// So many of them are quick.
const QUICK_PROBES: u32 = 20;
/// A confirming connect follows another no sooner.
const CONFIRM_GAP: Duration = Duration::from_millis(200);
/// The first probes of a round are spread over this, if the interval is no shorter.
const FIRST: Duration = Duration::from_millis(200);

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// To learn how the origin is, by the pool's own kind of probe.
    Regular,
    /// To learn whether it really takes no connection.
    Confirm,
}

/// The probes of one origin.
#[derive(Debug, Clone)]
pub struct Schedule {
    next: Instant,
    /// Probes since it is out or joining.
    quick: u32,
    running: Option<(u64, Kind)>,
    confirm: bool,
    confirmed: Option<Instant>,
}

impl Schedule {
    /// The schedule of an origin first heard of `now`. `chance`, here as below, is a number in [0, 1) that keeps
    /// probes of many origins and gateways from falling together.
    pub fn new(probing: &Probing, chance: f64, now: Instant) -> Self {
        Self { next: now + FIRST.min(probing.interval).mul_f64(chance), ..Self::idle(now) }
    }

    /// The schedule of an origin that is not probed.
    pub fn idle(now: Instant) -> Self {
        Self { next: now, quick: 0, running: None, confirm: false, confirmed: None }
    }

    /// The same under settings that may have changed: nobody waits longer than they say.
    pub fn adopt(mut self, probing: &Probing, now: Instant) -> Self {
        self.next = self.next.min(now + probing.interval);
        self
    }

    /// The regular probe is due at this time instead.
    pub fn put_off(&mut self, until: Instant) {
        self.next = until;
    }

    /// What is due `now`?
    pub fn due(&self, now: Instant) -> Option<Kind> {
        match self.running {
            Some((_, Kind::Confirm)) => None,
            _ if self.confirm && self.may_confirm(now) => Some(Kind::Confirm),
            Some(_) => None,
            None => (now >= self.next).then_some(Kind::Regular),
        }
    }

    /// When something is due; `None`: when the running probe has ended.
    pub fn next(&self) -> Option<Instant> {
        match (self.running, self.confirmed.filter(|_| self.confirm)) {
            (Some(_), _) => None,
            (None, Some(last)) => Some(self.next.min(last + CONFIRM_GAP)),
            (None, None) => Some(self.next),
        }
    }

    /// A refusal wants to be confirmed: at once, or as soon as there were not five in a second.
    pub fn ask(&mut self) {
        self.confirm = true;
    }

    /// Probe `id` started; answers the one it takes the place of.
    pub fn started(&mut self, id: u64, kind: Kind, now: Instant) -> Option<u64> {
        if kind == Kind::Confirm {
            self.confirm = false;
            self.confirmed = Some(now);
        }
        self.running.replace((id, kind)).map(|(id, _)| id)
    }

    /// Probe `id`, begun at `began`, ended; `serving`: the origin is in service. Answers whether it still counts.
    pub fn ended(&mut self, id: u64, began: Instant, serving: bool, probing: &Probing, chance: f64) -> bool {
        let Some((_, kind)) = self.running.take_if(|(running, _)| *running == id) else { return false };
        if kind == Kind::Regular {
            self.quick = if serving { 0 } else { self.quick.saturating_add(1) };
            self.next = began + self.gap(serving, probing, chance);
        }
        true
    }

    /// The origin is out now: it is looked after sooner.
    pub fn hurry(&mut self, probing: &Probing, chance: f64, now: Instant) {
        self.quick = 0;
        self.next = self.next.min(now + self.gap(false, probing, chance));
    }

    /// Forgets what runs, to begin it again; answers its number.
    pub fn repeat(&mut self, now: Instant) -> Option<u64> {
        let (id, kind) = self.running.take()?;
        match kind {
            Kind::Regular => self.next = now,
            Kind::Confirm => self.confirm = true,
        }
        Some(id)
    }

    fn may_confirm(&self, now: Instant) -> bool {
        self.confirmed.is_none_or(|last| now.saturating_duration_since(last) >= CONFIRM_GAP)
    }

    /// Never longer than configured, so that whoever counts on an interval is right.
    fn gap(&self, serving: bool, probing: &Probing, chance: f64) -> Duration {
        let quick = !serving && self.quick < QUICK_PROBES;
        let gap = if quick { probing.interval.min(QUICK) } else { probing.interval };
        gap.mul_f64(0.9 + 0.1 * chance)
    }
}

/// How many probes a process may start: at most 500 in any second, and no more at once than end in time. Where the
/// machine has no time for them, as many late ones would be begun again for ever.
#[derive(Debug)]
pub struct Pace {
    tokens: f64,
    at: Instant,
    /// How many may run at once.
    room: usize,
    /// When it was made smaller; probes begun before say nothing about what it is now.
    shrunk: Option<Instant>,
}

impl Pace {
    /// No more start at once.
    pub const AT_ONCE: usize = 50;
    const BURST: f64 = Self::AT_ONCE as f64;
    const RATE: f64 = 450.0;
    /// Any number of hanging origins may be waited for,
    const MOST: usize = 100_000;
    /// and on the slowest machine some are asked.
    const LEAST: usize = 8;

    /// A full bucket.
    pub fn new(now: Instant) -> Self {
        Self { tokens: Self::BURST, at: now, room: Self::MOST, shrunk: None }
    }

    /// May another probe start, beside so many that run?
    pub fn take(&mut self, running: usize, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + passed * Self::RATE).min(Self::BURST);
        self.at = self.at.max(now);
        let may = self.tokens >= 1.0 && running < self.room;
        if may {
            self.tokens -= 1.0;
        }
        may
    }

    /// A probe ended in time.
    pub fn in_time(&mut self) {
        self.room = (self.room + 1).min(Self::MOST);
    }

    /// A probe that began then was not ended in time; so many still run.
    pub fn late(&mut self, began: Instant, running: usize, now: Instant) {
        if self.shrunk.is_none_or(|shrunk| began >= shrunk) {
            self.room = (self.room.min(running) / 2).max(Self::LEAST);
            self.shrunk = Some(now);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;
    use crate::health::simulation::TCP;

    /// Seconds at which regular probes start, when each takes no time.
    fn starts(serving: bool, probes: usize) -> Vec<f64> {
        let start = Instant::now();
        let mut schedule = Schedule::new(&TCP, 0.0, start);
        let mut starts = Vec::new();
        for id in 0..probes as u64 {
            let now = schedule.next().unwrap();
            assert_eq!(schedule.due(now), Some(Kind::Regular));
            schedule.started(id, Kind::Regular, now);
            assert_eq!(schedule.due(now + TCP.interval * 9), None, "one at a time");
            assert!(schedule.ended(id, now, serving, &TCP, 1.0));
            starts.push(now.duration_since(start).as_secs_f64());
        }
        starts
    }

    #[test]
    fn origin_in_service_is_probed_every_interval() {
        assert_eq!(starts(true, 4), [0.0, 2.0, 4.0, 6.0]);
    }

    #[test]
    fn origin_out_or_joining_is_probed_every_half_second_twenty_times() {
        let starts = starts(false, 24);
        assert_eq!(starts[..3], [0.0, 0.5, 1.0]);
        assert_eq!(starts[19..], [9.5, 11.5, 13.5, 15.5, 17.5]);
    }

    #[test]
    fn chance_never_makes_a_gap_longer() {
        let schedule = Schedule::new(&TCP, 0.0, Instant::now());
        assert_eq!(schedule.gap(true, &TCP, 0.0), Duration::from_millis(1800));
        assert_eq!(schedule.gap(true, &TCP, 1.0), TCP.interval);
    }

    #[test]
    fn refusal_is_confirmed_at_once_and_in_place_of_what_runs() {
        let now = Instant::now();
        let mut schedule = Schedule::new(&TCP, 0.0, now);
        schedule.started(1, Kind::Regular, now);
        schedule.ask();
        assert_eq!(schedule.due(now), Some(Kind::Confirm));
        assert_eq!(schedule.started(2, Kind::Confirm, now), Some(1));
        assert!(!schedule.ended(1, now, true, &TCP, 0.0), "its result comes too late");
        assert!(schedule.ended(2, now, true, &TCP, 0.0));
    }

    #[test]
    fn at_most_five_refusals_a_second_are_confirmed() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&TCP, 0.0, start);
        let mut confirmed = 0;
        for ms in 0..1000 {
            let now = start + Duration::from_millis(ms);
            schedule.ask();
            if schedule.due(now) == Some(Kind::Confirm) {
                schedule.started(ms, Kind::Confirm, now);
                schedule.ended(ms, now, true, &TCP, 0.0);
                confirmed += 1;
            }
        }
        assert_eq!(confirmed, 5);
        let later = start + Duration::from_millis(1000);
        schedule.ask();
        assert_eq!(schedule.due(later), Some(Kind::Confirm), "a refusal that has to wait is not forgotten");
    }

    #[test]
    fn what_runs_during_a_stall_is_begun_again() {
        let now = Instant::now();
        let mut schedule = Schedule::new(&TCP, 0.0, now);
        schedule.started(1, Kind::Regular, now);
        let later = now + Duration::from_secs(10);
        assert_eq!(schedule.repeat(later), Some(1));
        assert_eq!(schedule.due(later), Some(Kind::Regular));
        assert!(!schedule.ended(1, now, true, &TCP, 0.0));
    }

    #[test]
    fn origin_that_went_out_is_looked_after_sooner() {
        let now = Instant::now();
        let mut schedule = Schedule::new(&TCP, 0.0, now);
        schedule.started(1, Kind::Regular, now);
        schedule.ended(1, now, true, &TCP, 1.0);
        schedule.hurry(&TCP, 1.0, now);
        assert_eq!(schedule.next(), Some(now + QUICK));
    }

    #[test]
    fn no_second_sees_more_than_five_hundred_probes() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let at = |tenth: u64| start + Duration::from_micros(tenth * 100);
        let begun: Vec<u64> = (0..30_000).filter(|tenth| pace.take(0, at(*tenth))).collect();
        for first in 0..begun.len() {
            let within = begun[first..].iter().take_while(|tenth| **tenth < begun[first] + 10_000).count();
            assert!(within <= 500, "{within} probes within a second");
        }
        assert!(begun.len() > 1300, "and it is used: {}", begun.len());
    }

    #[test]
    fn late_probes_make_room_for_fewer_once_and_ends_in_time_for_more() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut pace = Pace::new(start);
        assert!(pace.take(9_999, at(0)));
        for _ in 0..300 {
            pace.late(at(100), 400, at(2_000));
        }
        assert!(!pace.take(200, at(2_000)) && pace.take(199, at(2_000)), "all of one time are one sign");
        pace.late(at(2_000), 200, at(4_000));
        assert!(!pace.take(100, at(4_000)) && pace.take(99, at(4_000)));
        (0..20).for_each(|_| pace.in_time());
        assert!(!pace.take(120, at(5_000)) && pace.take(119, at(5_000)));
        for second in 6..60 {
            pace.late(at(second * 1000), 100, at(second * 1000));
        }
        assert!(pace.take(7, at(60_000)), "some are always asked");
    }
}
