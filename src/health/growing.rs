//! How does a pool grow? Rules J1, J2 and J4 over a roster that is judged every tenth of a second, on a clock of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Address, Course, Evidence, Fault, Grade, Live, Policy, Probing, Role, Roster, SlowStart, Target, Verdict};
use crate::config::units;

pub(super) const SLOW: SlowStart =
    SlowStart { window: Duration::from_secs(60), from: 0.1, error_ratio: Some(0.05), latency: Some(3.0) };
const PROBING: Probing =
    Probing { interval: Duration::from_secs(2), timeout: Duration::from_secs(1), rise: 2, fall: 3, http: true };

/// What an origin does to the requests of a second: how many, how long they take, how many of them fail.
type Answers = (u32, u64, u32);

pub(super) struct World {
    pub(super) roster: Roster,
    course: Course,
    start: Instant,
    pub(super) now: Instant,
    pub(super) answers: Vec<Answers>,
    /// Whose probes fail.
    bad: Vec<bool>,
    /// What was told.
    pub(super) told: Vec<String>,
}

fn target(name: usize, live: Live) -> Target {
    let address = Address::compile(&units::Address::Ip("127.0.0.1:1".parse().unwrap()), None);
    let (name, live) = (Arc::from(name.to_string()), Arc::new(live));
    Target { name, weight: 1, backup: false, role: Role::Serves, address, live }
}

impl World {
    #[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
    pub(super) fn new(origins: usize) -> Self {
        let now = Instant::now();
        let policy = Policy { probing: Some(PROBING), spare: 0.5, slow_start: Some(SLOW), ..Policy::default() };
        let targets = (0..origins).map(|name| target(name, Live::new(true, true))).collect();
        Self {
            roster: Roster::new(Arc::from("p"), policy, targets),
            course: Course::default(),
            start: now,
            now,
            answers: vec![(50, 10, 0); origins],
            bad: vec![false; origins],
            told: Vec::new(),
        }
    }

    /// A reload adds one.
    pub(super) fn join(&mut self) -> usize {
        let number = self.roster.targets.len();
        self.roster.targets.push(target(number, Live::new(false, true)));
        self.answers.push((50, 10, 0));
        self.bad.push(false);
        number
    }

    pub(super) fn run(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.now += Duration::from_millis(100);
            self.happens();
            let judged = self.roster.judge(&mut self.course, self.now);
            self.told.extend(judged.changes.iter().map(|(_, change)| format!("{} {}", change.origin, change.to)));
        }
    }

    /// Probes every half second, requests every second.
    fn happens(&self) {
        let passed = (self.now - self.start).as_millis();
        for (target, (answers, bad)) in self.roster.targets.iter().zip(self.answers.iter().zip(&self.bad)) {
            if passed.is_multiple_of(500) {
                let grade = if *bad { Grade::Bad(Fault::Refused) } else { Grade::Good };
                target.live.take(Evidence::Probe(grade), self.now);
            }
            if passed.is_multiple_of(1000) && target.live.verdict().usable() {
                serve(&target.live, *answers, self.now);
            }
        }
    }

    /// Runs until something holds; answers how long it took.
    fn until(&mut self, holds: impl Fn(&Self) -> bool) -> f64 {
        let from = self.now;
        while !holds(self) {
            self.run(0.1);
            assert!(self.now - from < Duration::from_secs(600), "{:?}", self.told);
        }
        (self.now - from).as_secs_f64()
    }

    pub(super) fn part(&self, origin: usize) -> f64 {
        self.roster.targets[origin].live.factor().part()
    }

    pub(super) fn verdict(&self, origin: usize) -> Verdict {
        self.roster.targets[origin].live.verdict()
    }

    pub(super) fn why(&self, origin: usize) -> String {
        self.roster.targets[origin].live.report().why.to_string()
    }

    /// These go out by three bad probes, and stay out for so long.
    fn outage(&mut self, origins: &[usize], seconds: f64) {
        origins.iter().for_each(|origin| self.bad[*origin] = true);
        self.until(|world| origins.iter().all(|origin| !world.roster.targets[*origin].live.verdict().usable()));
        self.run(seconds);
        origins.iter().for_each(|origin| self.bad[*origin] = false);
    }
}

pub(super) fn serve(live: &Live, (count, ms, errors): Answers, now: Instant) {
    for number in 0..count {
        live.tally().record(number < errors, Some(Duration::from_millis(ms)), None, now);
    }
}

#[test]
fn j1_newcomer_gets_nothing_until_it_is_proven_and_then_grows_over_the_window() {
    let mut world = World::new(3);
    world.run(5.0);
    let new = world.join();
    world.bad[new] = true;
    world.run(30.0);
    assert_eq!((world.verdict(new), world.part(new)), (Verdict::Joining, 0.0));
    world.bad[new] = false;
    world.until(|world| world.verdict(new) == Verdict::Ramping);
    assert!((world.part(new) - 0.1).abs() < 0.01);
    world.run(30.0);
    assert!((world.part(new) - 0.55).abs() < 0.01, "{}", world.part(new));
    assert!(world.why(new).contains("% of its share, all of it in "), "{}", world.why(new));
    let rest = world.until(|world| world.verdict(new) == Verdict::Up);
    assert!((29.0..=31.0).contains(&rest), "{rest}");
    assert_eq!((world.part(new), world.why(new).as_str()), (1.0, "probes pass"));
    assert_eq!(world.told, ["3 ramping", "3 up"]);
}

#[test]
fn j1_nothing_grows_at_the_start() {
    let mut world = World::new(3);
    world.run(5.0);
    assert!((0..3).all(|origin| world.part(origin) == 1.0) && world.told.is_empty(), "{:?}", world.told);
}

#[test]
fn j2_origin_that_was_out_grows_for_as_long_as_it_was() {
    for (outage, first) in [(6.0, 0.85), (30.0, 0.45), (300.0, 0.1)] {
        let mut world = World::new(4);
        world.run(5.0);
        world.outage(&[1], outage);
        let more = world.until(|world| world.verdict(1) == Verdict::Ramping);
        let out: f64 = outage + more;
        assert!((world.part(1) - first).abs() < 0.06, "{} after {out} s", world.part(1));
        let length = world.until(|world| world.verdict(1) == Verdict::Up);
        assert!((length - out.min(60.0)).abs() < 1.0, "{length} s after {out} s");
    }
}

#[test]
fn j2_pool_that_was_out_as_a_whole_is_back_at_full() {
    let mut world = World::new(10);
    world.run(5.0);
    let all: Vec<usize> = (0..10).collect();
    for origin in &all {
        world.roster.targets[*origin].live.take(Evidence::Confirm(Grade::Bad(Fault::Refused)), world.now);
        world.bad[*origin] = true;
    }
    world.run(20.0);
    assert!(all.iter().all(|origin| world.verdict(*origin) == Verdict::Down), "{:?}", world.told);
    // They come back one after the other.
    for origin in &all {
        world.bad[*origin] = false;
        world.run(0.5);
    }
    world.until(|world| all.iter().all(|origin| world.verdict(*origin) == Verdict::Up));
    assert!(!world.told.iter().any(|told| told.ends_with("ramping")), "{:?}", world.told);
}

#[test]
fn j2_nobody_grows_while_less_than_half_of_the_pool_is_at_full() {
    let mut world = World::new(4);
    world.run(5.0);
    world.outage(&[0, 1], 60.0);
    world.until(|world| world.verdict(0) == Verdict::Ramping && world.verdict(1) == Verdict::Ramping);
    world.run(5.0);
    assert!(world.part(0) < 0.25);
    world.bad[2] = true;
    world.roster.targets[2].live.take(Evidence::Confirm(Grade::Bad(Fault::Refused)), world.now);
    world.run(0.1);
    assert_eq!([0, 1, 2].map(|origin| world.verdict(origin)), [Verdict::Up, Verdict::Up, Verdict::Down]);
    assert_eq!([world.part(0), world.part(1)], [1.0, 1.0]);
}

#[test]
fn j1_pool_may_grow_to_many_times_its_size_step_by_step() {
    let mut world = World::new(1);
    world.run(5.0);
    let new: Vec<usize> = (0..4).map(|_| world.join()).collect();
    world.run(10.0);
    assert!(new.iter().all(|origin| world.verdict(*origin) == Verdict::Ramping), "{:?}", world.told);
}

#[test]
fn j4_newcomer_with_errors_is_held_until_they_end() {
    let mut world = World::new(3);
    world.run(60.0);
    let new = world.join();
    world.answers[new] = (50, 10, 5);
    world.until(|world| world.why(new).starts_with("held: "));
    let part = world.part(new);
    assert!(part < 0.2, "{part}");
    world.run(300.0);
    assert_eq!(world.part(new), part, "errors hold without limit");
    assert!(world.why(new).starts_with("held: 10% of its answers are errors; takes 1"), "{}", world.why(new));
    world.answers[new] = (50, 10, 0);
    let heard = world.until(|world| world.part(new) > part);
    assert!((8.0..=20.0).contains(&heard), "{heard}");
    world.until(|world| world.verdict(new) == Verdict::Up);
    assert_eq!(world.told, ["3 ramping", "3 ramping", "3 ramping", "3 up"]);
}

#[test]
fn j4_slow_newcomer_is_held_for_the_window_in_all() {
    let mut world = World::new(3);
    world.run(60.0);
    let new = world.join();
    world.answers[new] = (50, 80, 0);
    world.until(|world| world.verdict(new) == Verdict::Ramping);
    world.until(|world| world.why(new).contains("held: its median is 7"));
    let held = world.until(|world| !world.why(new).starts_with("held: "));
    assert!((59.0..=62.0).contains(&held), "{held}");
    let rest = world.until(|world| world.verdict(new) == Verdict::Up);
    assert!((50.0..=60.0).contains(&rest), "{rest}");
}

#[test]
fn j4_few_answers_hold_nobody() {
    let mut world = World::new(3);
    world.run(60.0);
    let new = world.join();
    world.answers[new] = (0, 10, 0);
    world.until(|world| world.verdict(new) == Verdict::Ramping);
    let length = world.until(|world| world.verdict(new) == Verdict::Up);
    assert!((59.0..=61.0).contains(&length), "{length}");
}

#[test]
fn j4_all_growth_pauses_while_the_pool_does_worse_than_before_the_change() {
    for worse in [(50, 90, 0), (50, 10, 2)] {
        let mut world = World::new(3);
        world.run(60.0);
        let new = world.join();
        world.until(|world| world.verdict(new) == Verdict::Ramping);
        world.run(10.0);
        // What all of them share slows down, for keys that moved and for those that stayed.
        world.answers.iter_mut().for_each(|answers| *answers = worse);
        world.until(|world| world.why(new).starts_with("held: ") && world.why(new).contains("before the change"));
        let part = world.part(new);
        assert!(part < 0.5, "{part}");
        world.run(200.0);
        assert_eq!(world.part(new), part, "for as long as it lasts");
        world.answers.iter_mut().for_each(|answers| *answers = (50, 10, 0));
        let heard = world.until(|world| world.part(new) > part);
        assert!(heard <= 32.0, "{heard}");
        world.until(|world| world.verdict(new) == Verdict::Up);
    }
}

#[test]
fn j4_errors_from_before_it_went_out_hold_nobody() {
    let mut world = World::new(4);
    world.run(5.0);
    world.answers[1] = (50, 10, 50);
    world.outage(&[1], 2.0);
    world.answers[1] = (50, 10, 0);
    world.until(|world| world.verdict(1) == Verdict::Ramping);
    let length = world.until(|world| world.verdict(1) == Verdict::Up);
    assert!(length < 6.0, "{length}");
    assert_eq!(world.told.iter().filter(|told| *told == "1 ramping").count(), 1, "{:?}", world.told);
}

#[test]
fn c5_growth_stands_still_while_a_change_is_found_to_harm_every_key() {
    let mut world = World::new(3);
    world.run(60.0);
    let new = world.join();
    world.until(|world| world.verdict(new) == Verdict::Ramping);
    world.run(5.0);
    world.roster.brake.harm(true);
    world.until(|world| world.why(new).starts_with("held: keys that moved and keys that stayed"));
    let part = world.part(new);
    world.run(200.0);
    assert_eq!((world.part(new), part < 0.5), (part, true));
    world.roster.brake.harm(false);
    world.until(|world| world.verdict(new) == Verdict::Up);
}

#[test]
fn c3_growth_stands_still_while_more_moved_than_may() {
    let mut world = World::new(3);
    world.run(60.0);
    let new = world.join();
    world.until(|world| world.verdict(new) == Verdict::Ramping);
    world.run(5.0);
    world.roster.brake.overrun(Some((0.123, 0.05)));
    world.until(|world| world.why(new).starts_with("held: 12.3% of the recent keys moved, 5% may; takes "));
    let part = world.part(new);
    world.run(200.0);
    assert_eq!((world.part(new), part < 0.5), (part, true));
    world.roster.brake.overrun(None);
    world.until(|world| world.verdict(new) == Verdict::Up);
}
