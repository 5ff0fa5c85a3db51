//! What becomes of origins whose answers say that they are overloaded, or that they fail? H7 and `outlier_detection` over a
//! roster that is judged every tenth of a second, on a clock of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::policy::{Outlier, Overload};
use super::simulation::HTTP;
use super::{Address, Course, Evidence, Grade, Heard, Live, Policy, Role, Roster, Target, Verdict};
use crate::config::units;

/// What an origin does to the requests of a second.
#[derive(Clone, Copy)]
struct Doing {
    requests: u32,
    /// So many of them are answered with 503 or not in time, so many with 500.
    busy: u32,
    failed: u32,
    ms: u64,
    /// What probes come to.
    probe: Grade,
    /// Different keys and clients.
    keys: u32,
    clients: u8,
}

const FINE: Doing = Doing { requests: 50, busy: 0, failed: 0, ms: 5, probe: Grade::Good, keys: 1000, clients: 20 };

struct World {
    roster: Roster,
    course: Course,
    start: Instant,
    now: Instant,
    doing: Vec<Doing>,
    told: Vec<String>,
    sent: u32,
}

impl World {
    #[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
    fn new(origins: usize, overload: Option<Overload>, outlier: Option<Outlier>) -> Self {
        let now = Instant::now();
        let target = |name: usize| {
            let address = Address::compile(&units::Address::Ip("127.0.0.1:1".parse().unwrap()), None);
            let (name, live) = (Arc::from(name.to_string()), Arc::new(Live::new(true, true)));
            Target { name, weight: 1, backup: false, role: Role::Serves, address, live }
        };
        let policy = Policy { probing: Some(HTTP), spare: 0.5, overload, outlier, ..Policy::default() };
        let targets = (0..origins).map(target).collect();
        Self {
            roster: Roster::new(Arc::from("p"), policy, targets),
            course: Course::default(),
            start: now,
            now,
            doing: vec![FINE; origins],
            told: Vec::new(),
            sent: 0,
        }
    }

    fn overload(origins: usize) -> Self {
        Self::new(origins, Some(Overload::default()), None)
    }

    fn outliers(origins: usize, outlier: Outlier) -> Self {
        Self::new(origins, None, Some(outlier))
    }

    fn run(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.now += Duration::from_millis(100);
            self.happens();
            let judged = self.roster.judge(&mut self.course, self.now);
            self.told.extend(judged.changes.iter().map(|(_, change)| format!("{} {}", change.origin, change.to)));
        }
    }

    fn happens(&mut self) {
        let passed = (self.now - self.start).as_millis();
        for (target, doing) in self.roster.targets.iter().zip(&self.doing) {
            if passed.is_multiple_of(1000) {
                target.live.take(Evidence::Probe(doing.probe), self.now);
                if target.live.verdict().usable() {
                    serve(target, doing, &mut self.sent, self.now);
                }
            }
        }
    }

    fn part(&self, origin: usize) -> f64 {
        (self.roster.targets[origin].live.factor().part() * 100.0).round() / 100.0
    }

    fn parts(&self) -> Vec<f64> {
        (0..self.roster.targets.len()).map(|origin| self.part(origin)).collect()
    }

    fn why(&self, origin: usize) -> (Verdict, String) {
        let report = self.roster.targets[origin].live.report();
        (report.verdict, report.why.to_string())
    }

    fn verdicts(&self) -> Vec<Verdict> {
        self.roster.targets.iter().map(|target| target.live.verdict()).collect()
    }
}

/// As requests are: an answer's header, and then its end.
fn serve(target: &Target, doing: &Doing, sent: &mut u32, now: Instant) {
    let part = |of: u32, number: u32| number * of / doing.requests < (number + 1) * of / doing.requests;
    for number in 0..doing.requests {
        *sent += 1;
        let key = (*sent % doing.keys).wrapping_mul(0x9e37_79b9);
        let client = [10, 0, 0, (*sent % u32::from(doing.clients)) as u8].into();
        let (busy, failed) = (part(doing.busy, number), part(doing.failed, number));
        let took = Duration::from_millis(doing.ms);
        target.live.heard(&Heard { key, client, busy, took });
        target.live.answered(now);
        target.live.tally().record(busy || failed, Some(took), None, now);
        target.live.ended(failed);
    }
}

#[test]
fn h7_one_that_is_overloaded_sheds_keeps_to_it_and_takes_its_share_back() {
    let mut world = World::overload(10);
    world.run(10.0);
    world.doing[3] = Doing { busy: 20, ..FINE };
    world.run(6.0);
    assert!((0.55..=0.65).contains(&world.part(3)), "{}", world.part(3));
    let (verdict, why) = world.why(3);
    assert_eq!(verdict, Verdict::Overloaded);
    assert!(
        why.starts_with("takes ") && why.contains("% of what it answered said that it has too much to do"),
        "{why}"
    );
    world.doing[3] = FINE;
    world.run(5.0);
    let shed = world.part(3);
    world.run(20.0);
    assert_eq!(world.part(3), shed, "it keeps to it");
    world.run(65.0);
    assert!((shed + 0.1..0.99).contains(&world.part(3)), "half of the way: {}", world.part(3));
    world.run(70.0);
    assert_eq!((world.part(3), world.why(3)), (1.0, (Verdict::Up, "probes pass".to_owned())));
    assert_eq!(world.told, ["3 overloaded", "3 up"]);
    assert!(world.parts().iter().all(|part| *part == 1.0));
}

#[test]
fn h7_overload_of_all_sheds_nothing() {
    let mut world = World::overload(10);
    world.doing.fill(Doing { busy: 15, probe: Grade::Overloaded, ..FINE });
    world.run(60.0);
    assert_eq!(world.parts(), [1.0; 10]);
    assert!(world.told.is_empty(), "{:?}", world.told);
    world.doing.fill(Doing { busy: 15, ..FINE });
    world.doing[..4].fill(FINE);
    world.run(60.0);
    assert_eq!(world.parts(), [1.0; 10], "four of nine mates are not half of them");
}

#[test]
fn h7_what_one_shed_is_its_own_again_when_all_are_overloaded() {
    let mut world = World::overload(10);
    world.doing[3] = Doing { busy: 20, ..FINE };
    world.run(11.0);
    assert!(world.part(3) < 0.7);
    world.doing.fill(Doing { busy: 15, ..FINE });
    world.run(16.0);
    assert_eq!(world.parts(), [1.0; 10]);
}

#[test]
fn h7_few_keys_and_few_clients_shed_nothing() {
    let mut world = World::overload(4);
    world.doing[0] = Doing { busy: 50, keys: 5, ..FINE };
    world.doing[1] = Doing { busy: 50, clients: 2, ..FINE };
    world.run(60.0);
    assert_eq!(world.parts(), [1.0; 4]);
}

#[test]
fn h7_a_probe_that_says_overloaded_sheds_half_and_the_floor_is_kept() {
    let mut world = World::overload(10);
    world.doing[0].probe = Grade::Overloaded;
    world.run(11.0);
    assert_eq!(world.part(0), 0.25, "two windows");
    world.run(20.0);
    assert_eq!(world.part(0), 0.1);
    world.run(300.0);
    assert_eq!((world.part(0), world.verdicts()[0]), (0.1, Verdict::Overloaded), "as long as it says so");
}

#[test]
fn h7_no_more_is_shed_once_much_is_hidden() {
    let mut world = World::overload(10);
    for one in 0..3 {
        world.doing[one] = Doing { busy: 45 - one as u32, ..FINE };
    }
    world.run(300.0);
    let parts = world.parts();
    assert_eq!((parts[0], parts[2]), (0.1, 1.0), "{parts:?}");
    assert!((0.3..=0.6).contains(&parts[1]), "the last step begins below a tenth: {parts:?}");
    assert_eq!(parts[3..], [1.0; 7]);
    let mut world = World::overload(4);
    world.doing[0] = Doing { busy: 45, ..FINE };
    world.run(300.0);
    assert_eq!(world.parts(), [0.5, 1.0, 1.0, 1.0], "one step of one in four hides an eighth");
}

#[test]
fn h7_slow_answers_count_where_that_is_written() {
    for (slow, part) in [(None, 1.0), (Some(3.0), 0.5)] {
        let mut world = World::overload(4);
        world.roster.policy.overload = Some(Overload { slow, ..Overload::default() });
        world.run(6.0);
        world.doing[2].ms = 200;
        world.run(40.0);
        assert_eq!(world.part(2), part);
        world.doing[2].ms = 18;
        world.run(200.0);
        assert_eq!(world.part(2), 1.0, "more than three times as long, but not long");
    }
}

#[test]
fn h7_switched_off_everybody_has_all_of_its_share() {
    let mut world = World::overload(4);
    world.doing[0] = Doing { busy: 50, ..FINE };
    world.run(11.0);
    assert!(world.part(0) < 1.0);
    world.roster.policy.overload = None;
    world.run(0.1);
    assert_eq!(world.parts(), [1.0; 4]);
}

#[test]
fn h6_what_was_counted_while_the_judge_was_held_up_does_not_count() {
    let mut world = World::overload(4);
    world.run(10.0);
    world.doing[0] = Doing { busy: 50, ..FINE };
    world.run(4.0);
    world.roster.targets.iter().for_each(|target| target.live.take(Evidence::Stalled, world.now));
    world.doing[0] = FINE;
    world.run(20.0);
    assert_eq!(world.parts(), [1.0; 4]);
}

#[test]
fn an_outlier_goes_within_the_floor_and_comes_back_after_its_time() {
    let mut world = World::outliers(3, Outlier { cooldown: Duration::from_secs(20), ..Outlier::default() });
    world.run(3.0);
    world.doing[1].failed = 50;
    world.run(1.0);
    let (verdict, why) = world.why(1);
    assert_eq!((verdict, why.as_str()), (Verdict::Down, "50 requests in a row failed; it is out for 20 s more"));
    world.doing[1].failed = 0;
    world.run(19.0);
    assert_eq!(world.verdicts(), [Verdict::Up, Verdict::Down, Verdict::Up]);
    world.run(2.0);
    assert_eq!(world.verdicts(), [Verdict::Up; 3]);
    world.doing[1].failed = 50;
    world.run(2.0);
    world.doing[1].failed = 0;
    world.run(35.0);
    assert_eq!(world.verdicts()[1], Verdict::Down, "twice as long the second time");
    world.run(5.0);
    assert_eq!(world.verdicts()[1], Verdict::Up);
    assert_eq!(world.told, ["1 down", "1 up", "1 down", "1 up"]);
}

#[test]
fn an_error_ratio_puts_out_as_well() {
    let mut world = World::outliers(4, Outlier::default());
    world.doing[2].failed = 24;
    world.run(15.0);
    assert_eq!(world.verdicts(), [Verdict::Up; 4]);
    world.doing[2].failed = 30;
    world.run(15.0);
    assert_eq!(world.verdicts()[2], Verdict::Down);
    assert!(world.why(2).1.contains("% of its requests failed"), "{:?}", world.why(2));
}

/// B39.
#[test]
fn outliers_never_go_below_the_floor_and_when_all_fail_nobody_is_out() {
    let mut world = World::outliers(3, Outlier::default());
    world.run(2.0);
    world.doing[0].failed = 50;
    world.run(2.0);
    assert_eq!(world.verdicts(), [Verdict::Down, Verdict::Up, Verdict::Up]);
    world.doing[1].failed = 50;
    world.run(2.0);
    let usable = |world: &World| world.verdicts().iter().filter(|verdict| verdict.usable()).count();
    assert!(usable(&world) >= 2, "{:?}", world.verdicts());
    world.doing[2].failed = 50;
    world.run(5.0);
    assert_eq!(world.verdicts(), [Verdict::Kept; 3], "all are bad");
    world.doing.fill(FINE);
    world.run(40.0);
    assert_eq!(world.verdicts(), [Verdict::Up; 3]);
}

#[test]
fn pools_that_are_not_probed_have_outliers_too() {
    let mut world = World::outliers(4, Outlier::default());
    world.roster.policy.probing = None;
    world.doing[0].failed = 50;
    world.run(3.0);
    assert_eq!(world.verdicts(), [Verdict::Down, Verdict::Up, Verdict::Up, Verdict::Up]);
    world.doing[0].failed = 0;
    world.run(31.0);
    assert_eq!(world.verdicts(), [Verdict::Up; 4]);
}
