//! What does one origin that is not like the others do to a pool, under each algorithm? A model of four origins, each
//! with one queue, in exact time: requests come one a millisecond, and whoever is chosen answers after its time for each
//! request before this one and for this one.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::load::loads;
use super::*;

/// Units of time in a millisecond: the least that makes every time here a whole number.
const MS: u64 = 6;

/// An origin.
#[derive(Clone, Copy)]
struct Model {
    /// Units it takes for one request.
    service: u64,
    /// Requests it works on at a time.
    workers: usize,
    fails: bool,
}

/// A request on its way: when it ends, and how long it will have taken.
type Running = VecDeque<(u64, u64)>;

/// What became of the requests.
struct Outcome {
    /// Units each waited for its turn at the origin, over all of them.
    waits: Vec<u64>,
    by_origin: [usize; 4],
}

impl Outcome {
    fn longest_wait(&self) -> u64 {
        self.waits.iter().max().unwrap() / MS
    }

    fn waits_of_200_ms(&self) -> usize {
        self.waits.iter().filter(|wait| **wait >= 200 * MS).count()
    }
}

#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
fn play(balancer: Balancer, origins: [Model; 4], seconds: u64) -> Outcome {
    let (turns, loads, mut random) = (Turns::default(), loads(4), Rng::with_seed(11));
    let begun = Instant::now();
    let mut free: [Vec<u64>; 4] = origins.map(|origin| vec![0; origin.workers]);
    let mut running: [Running; 4] = Default::default();
    let mut outcome = Outcome { waits: Vec::new(), by_origin: [0; 4] };
    for ms in 0..seconds * 1000 {
        let now = begun + Duration::from_millis(ms);
        for ((queue, load), origin) in running.iter_mut().zip(&loads).zip(origins) {
            while let Some((_, took)) = queue.pop_front_if(|(end, _)| *end <= ms * MS) {
                load.leave();
                balancer.took(load, Duration::from_micros(took * 1000 / MS), origin.fails, now);
                if origin.fails {
                    load.failed(now);
                }
            }
        }
        let all = || loads.iter().enumerate().map(|(member, load)| Candidate { member, weight: 1, load });
        let chosen = balancer.choose(all, &turns, now, &mut random).unwrap();
        let worker = free[chosen].iter_mut().min().unwrap();
        let begins = (*worker).max(ms * MS);
        *worker = begins + origins[chosen].service;
        loads[chosen].enter();
        running[chosen].push_back((*worker, *worker - ms * MS));
        outcome.waits.push(begins - ms * MS);
        outcome.by_origin[chosen] += 1;
    }
    outcome
}

/// Three that answer 400 requests a second, and one that answers 150.
fn one_is_slow(balancer: Balancer) -> Outcome {
    let fast = Model { service: 5 * MS / 2, workers: 1, fails: false };
    play(balancer, [Model { service: 40, ..fast }, fast, fast, fast], 10)
}

/// Three that take 20 ms, and one that answers 503 in one.
fn one_fails_fast(balancer: Balancer) -> Outcome {
    let good = Model { service: 20 * MS, workers: 64, fails: false };
    play(balancer, [Model { service: MS, workers: 64, fails: true }, good, good, good], 10)
}

const PEAK_EWMA: Balancer = Balancer::PeakEwma { decay: Duration::from_secs(10) };

#[test]
fn in_turn_a_quarter_of_all_requests_waits_at_the_slow_one() {
    let outcome = one_is_slow(Balancer::RoundRobin);
    assert_eq!(outcome.waits.len(), 10_000);
    assert_eq!((outcome.longest_wait(), outcome.waits_of_200_ms()), (6664, 2425));
}

#[test]
fn least_in_flight_keeps_nobody_waiting() {
    let outcome = one_is_slow(Balancer::LeastInFlight);
    assert!(outcome.longest_wait() <= 1, "{} ms", outcome.longest_wait());
    assert_eq!(outcome.waits_of_200_ms(), 0);
}

#[test]
fn two_choices_keep_nobody_waiting_for_long() {
    for balancer in [Balancer::TwoChoices, PEAK_EWMA] {
        let outcome = one_is_slow(balancer);
        assert!(outcome.longest_wait() <= 60, "{balancer:?}: {} ms", outcome.longest_wait());
        assert_eq!(outcome.waits_of_200_ms(), 0, "{balancer:?}");
    }
}

#[test]
fn who_goes_by_load_gives_one_that_fails_fast_less_than_its_share() {
    for balancer in [Balancer::LeastInFlight, Balancer::TwoChoices, PEAK_EWMA] {
        let outcome = one_fails_fast(balancer);
        assert!(outcome.by_origin[0] * 10 < 10_000, "{balancer:?}: {:?}", outcome.by_origin);
        assert!(outcome.by_origin[0] > 0, "{balancer:?}: it is asked again now and then");
    }
}
