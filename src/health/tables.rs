//! What becomes of a pool whose origins fail in different ways, many or few, one after another? Rules H2, H3 and H5 as
//! tables, each cell a run of [`simulation`](super::simulation).

use super::simulation::Mode::{self, Broken, Fine, Hangs, Refuses};
use super::simulation::{HTTP, TCP, World};
use super::{Probing, Verdict, Why};

/// After half a minute in `first` and another in `then`, how does a pool of so many stand: up, kept, down, and the
/// part of requests that fail, in percent?
#[track_caller]
fn check(probing: Probing, origins: usize, phases: &[(usize, usize, Mode)], expected: ([usize; 3], usize)) {
    let mut world = World::new(origins, probing, false);
    world.run(15.0);
    assert_eq!(world.outcome(), ([origins, 0, 0], 0), "all is well at first");
    for (from, to, mode) in phases {
        world.set(*from..*to, *mode);
        world.run(30.0);
    }
    let before = world.verdicts();
    assert_eq!(world.outcome(), expected, "{origins} origins, {phases:?}: {before:?}");
}

#[test]
fn refusal_ejects_everyone_it_is_true_of() {
    for (origins, refusing, expected) in [
        (1, 1, ([0, 0, 1], 100)),
        (2, 1, ([1, 0, 1], 0)),
        (2, 2, ([0, 0, 2], 100)),
        (3, 1, ([2, 0, 1], 0)),
        (3, 2, ([1, 0, 2], 0)),
        (3, 3, ([0, 0, 3], 100)),
        (10, 1, ([9, 0, 1], 0)),
        (10, 5, ([5, 0, 5], 0)),
        (10, 9, ([1, 0, 9], 0)),
        (10, 10, ([0, 0, 10], 100)),
    ] {
        check(HTTP, origins, &[(0, refusing, Refuses)], expected);
        check(TCP, origins, &[(0, refusing, Refuses)], expected);
    }
}

#[test]
fn silence_ejects_as_long_as_another_passes_its_probes() {
    for (origins, hanging, expected) in [
        (1, 1, ([0, 1, 0], 100)),
        (2, 1, ([1, 0, 1], 0)),
        (2, 2, ([0, 2, 0], 100)),
        (3, 1, ([2, 0, 1], 0)),
        (3, 2, ([1, 0, 2], 0)),
        (3, 3, ([0, 3, 0], 100)),
        (10, 1, ([9, 0, 1], 0)),
        (10, 5, ([5, 0, 5], 0)),
        (10, 6, ([4, 0, 6], 0)),
        (10, 9, ([1, 0, 9], 0)),
        (10, 10, ([0, 10, 0], 100)),
    ] {
        check(HTTP, origins, &[(0, hanging, Hangs)], expected);
    }
}

#[test]
fn broken_health_page_ejects_within_the_floor_and_only_beside_good_ones() {
    for (origins, broken, expected) in [
        (1, 1, ([0, 1, 0], 0)),
        (2, 1, ([1, 0, 1], 0)),
        (2, 2, ([0, 2, 0], 0)),
        (3, 1, ([2, 0, 1], 0)),
        (3, 2, ([1, 1, 1], 0)),
        (3, 3, ([0, 3, 0], 0)),
        (10, 1, ([9, 0, 1], 0)),
        (10, 5, ([5, 0, 5], 0)),
        (10, 6, ([4, 6, 0], 0)),
        (10, 9, ([1, 9, 0], 0)),
        (10, 10, ([0, 10, 0], 0)),
    ] {
        check(HTTP, origins, &[(0, broken, Broken)], expected);
    }
}

#[test]
fn one_kind_after_another_and_the_other_way_round() {
    for (origins, half, first, then, expected) in [
        (10, 5, Hangs, Refuses, ([0, 5, 5], 100)),
        (10, 5, Refuses, Hangs, ([0, 5, 5], 100)),
        (10, 5, Broken, Refuses, ([0, 5, 5], 0)),
        (10, 5, Refuses, Broken, ([0, 5, 5], 0)),
        (10, 5, Hangs, Broken, ([0, 5, 5], 0)),
        (10, 5, Broken, Hangs, ([0, 5, 5], 0)),
        (2, 1, Hangs, Refuses, ([0, 1, 1], 100)),
        (2, 1, Refuses, Hangs, ([0, 1, 1], 100)),
        (2, 1, Broken, Refuses, ([0, 1, 1], 0)),
        (2, 1, Refuses, Broken, ([0, 1, 1], 0)),
        (3, 1, Broken, Refuses, ([0, 1, 2], 0)),
        (3, 2, Refuses, Broken, ([0, 1, 2], 0)),
    ] {
        check(HTTP, origins, &[(0, half, first), (half, origins, then)], expected);
    }
}

#[test]
fn hung_process_behind_tcp_probes_goes_within_the_floor_and_waits_twice_as_long_each_time() {
    let mut world = World::new(3, TCP, false);
    world.run(5.0);
    world.set(0..1, Hangs);
    let out = |world: &World| world.verdicts()[0].0 == Verdict::Down;
    let first = world.until(30.0, out);
    assert!((9.9..=10.2).contains(&first), "{first}");
    assert_eq!(world.verdicts()[0].1, Why::Hung);
    let waits: Vec<_> = (0..4)
        .map(|_| {
            let wait = world.until(400.0, |world| !out(world));
            world.until(60.0, out);
            wait.round()
        })
        .collect();
    assert_eq!(waits, [10.0, 20.0, 40.0, 80.0]);
    world.set(0..1, Fine);
    world.until(165.0, |world| world.count(Verdict::Up) == 3);
    let mut all = World::new(3, TCP, false);
    all.set(0..3, Hangs);
    all.run(60.0);
    assert_eq!(all.count(Verdict::Up), 3, "nobody answers: it may be the network");
}

#[test]
fn hung_process_behind_tcp_probes_is_kept_when_the_floor_is_reached() {
    let mut world = World::new(10, TCP, false);
    world.run(15.0);
    world.set(0..6, Hangs);
    world.until(20.0, |world| world.count(Verdict::Down) == 5 && world.count(Verdict::Kept) == 1);
    world.set(0..6, Fine);
    world.until(15.0, |world| world.count(Verdict::Up) == 10);
}

#[test]
fn five_hang_and_are_kept_within_one_probe_once_the_others_refuse() {
    let mut world = World::new(10, HTTP, false);
    world.run(15.0);
    world.set(0..5, Hangs);
    world.run(30.0);
    assert_eq!(world.count(Verdict::Down), 5);
    world.set(5..10, Refuses);
    let took = world.until(2.0, |world| world.count(Verdict::Kept) == 5);
    assert!(took <= HTTP.interval.as_secs_f64(), "{took}");
    assert_eq!(world.count(Verdict::Up), 0);
}

#[test]
fn dead_origin_is_out_at_once_and_back_soon() {
    let mut world = World::new(2, TCP, false);
    world.run(5.0);
    world.set(0..1, Refuses);
    world.tries[0] = 0;
    assert!(world.until(1.0, |world| world.count(Verdict::Down) == 1) <= 0.2);
    world.run(3.0);
    assert_eq!((world.failed, world.tries[0] < 200), (0, true), "{}", world.tries[0]);
    world.set(0..1, Fine);
    assert!(world.until(2.0, |world| world.count(Verdict::Up) == 2) <= 1.2);
}

#[test]
fn pool_that_was_all_dead_is_back_with_the_first_request() {
    let mut world = World::new(3, TCP, false);
    world.run(5.0);
    world.set(0..3, Refuses);
    world.until(1.0, |world| world.count(Verdict::Down) == 3);
    world.run(60.0);
    world.set(1..2, Fine);
    assert!(world.until(1.0, |world| world.count(Verdict::Up) == 1) <= 0.1);
    assert_eq!(world.verdicts()[1], (Verdict::Up, Why::Connected));
}

#[test]
fn nobody_that_answers_is_left_out_when_all_health_pages_break() {
    let mut world = World::new(10, HTTP, false);
    world.run(15.0);
    world.set(0..10, Broken);
    for _ in 0..600 {
        world.run(0.1);
        assert_eq!((world.count(Verdict::Down), world.failed), (0, 0));
    }
}

/// Ten pause for so long, each a little later than the one before it, and so they wake.
#[test]
fn pause_in_step_puts_nobody_out() {
    for (probing, seconds) in [2.5, 10.0, 11.0, 20.0, 40.0].into_iter().flat_map(|long| [(HTTP, long), (TCP, long)]) {
        for apart in [0.0, 0.1] {
            let mut world = World::new(10, probing, false);
            world.run(15.0);
            for mode in [Hangs, Fine] {
                (0..10).for_each(|at| {
                    world.set(at..at + 1, mode);
                    world.run(apart);
                });
                for _ in 0..(if mode == Hangs { seconds - 10.0 * apart } else { 20.0 } * 10.0) as usize {
                    world.run(0.1);
                    assert_eq!(world.count(Verdict::Down), 0, "{seconds} s, {apart} s apart: {:?}", world.verdicts());
                }
            }
            assert_eq!(world.outcome(), ([10, 0, 0], 0));
        }
    }
}

#[test]
fn health_page_that_is_mended_puts_nobody_out() {
    let mut world = World::new(10, HTTP, false);
    world.run(15.0);
    world.set(0..10, Broken);
    world.run(30.0);
    world.set(0..10, Fine);
    for _ in 0..50 {
        world.run(0.1);
        assert_eq!(world.count(Verdict::Down), 0, "{:?}", world.verdicts());
    }
    assert_eq!(world.outcome(), ([10, 0, 0], 0));
}

#[test]
fn panic_fail_takes_the_last_ones_out_and_lets_the_first_good_probe_in() {
    let mut world = World::new(3, HTTP, true);
    world.run(15.0);
    world.set(0..2, Broken);
    world.run(30.0);
    assert_eq!(world.outcome(), ([1, 1, 1], 0), "never while an origin is usable");
    world.set(2..3, Broken);
    world.run(10.0);
    assert_eq!(world.outcome(), ([0, 0, 3], 100));
    world.set(1..2, Fine);
    // Long out, so that it is probed every interval only; while nobody is in, one good probe is enough.
    world.until(2.1, |world| world.count(Verdict::Up) == 1);
}

#[test]
fn flapping_origin_waits_longer_each_time() {
    let mut world = World::new(3, HTTP, false);
    world.run(15.0);
    let out = |world: &World| world.verdicts()[0].0 == Verdict::Down;
    let waits: Vec<_> = (0..6)
        .map(|_| {
            world.set(0..1, Refuses);
            world.until(3.0, out);
            world.set(0..1, Fine);
            world.until(60.0, |world| !out(world)).round()
        })
        .collect();
    // Two good probes take a second; the waits are none, 1, 2, 4, 8 and 16 s.
    assert_eq!(waits, [1.0, 1.0, 2.0, 4.0, 8.0, 16.0]);
}
