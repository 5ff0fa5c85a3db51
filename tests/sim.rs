//! What are the rules about health and overload for? Pools in trouble, with stepping and without.
//!
//! The scenes of `benches/sim`, under the real ring, pick and state machine. A rule that is made simpler than it is has to
//! get past these: most of them were found by what happened without them.

#![allow(clippy::panic, reason = "a scene that cannot be set up fails")]

#[path = "../benches/sim/origin.rs"]
mod origin;
#[path = "../benches/sim/scene.rs"]
mod scene;
#[path = "../benches/sim/world.rs"]
mod world;

use scene::{ALL, Outcome};

/// The scene of this name, without stepping and with it.
fn beside(name: &str) -> [Outcome; 2] {
    let scene = ALL.iter().find(|scene| scene.name == name).unwrap_or_else(|| panic!("no scene is called {name}"));
    [scene.play(false, 7), scene.play(true, 7)]
}

#[test]
fn h7_overload_of_all_is_left_as_it_is() {
    for name in ["1.3 x load on all of 3", "1.3 x load on all of 4", "1.3 x load on all of 10"] {
        let [off, on] = beside(name);
        assert!(on.during.goodput() > 0.9 * off.during.goodput(), "{name}: {on:?} against {off:?}");
        let away = on.during.part(on.during.away);
        assert!(away <= 0.05, "{name}: {away} of all requests went elsewhere");
        assert_eq!(on.during.out, 0, "{name}: overload is not death");
        assert!(on.after.goodput() > off.after.goodput() - 0.01, "{name}: {on:?} against {off:?}");
    }
}

/// What the others get from it they can do.
#[test]
fn h7_one_slow_origin_gives_fewer_503_with_the_rule_than_without() {
    for (name, part) in [("one of 10 at 40 % speed", 0.5), ("one of 4 at 40 % speed", 0.75)] {
        let [off, on] = beside(name);
        let busy = |outcome: &Outcome| outcome.during.part(outcome.during.busy);
        assert!(busy(&off) > 0.03 && off.during.away == 0, "{name}: {off:?}");
        assert!(busy(&on) < part * busy(&off), "{name}: {on:?} against {off:?}");
        assert!(on.during.goodput() > off.during.goodput(), "{name}: {on:?} against {off:?}");
        assert_eq!(on.during.out, 0, "{name}: overload is not death");
        assert!(on.after.goodput() > off.after.goodput() - 0.02, "{name}: {on:?} against {off:?}");
    }
}

#[test]
fn h2_h3_pause_in_step_ejects_nobody_and_moves_nothing() {
    for name in ["all 10 pause for 2.5 s", "all 10 pause for 10 s", "all 10 pause for 40 s"] {
        for outcome in beside(name) {
            assert_eq!((outcome.during.out, outcome.after.out), (0, 0), "{name}");
            assert_eq!((outcome.during.away, outcome.after.away), (0, 0), "{name}: nobody else does better");
            assert!(outcome.after.goodput() > 0.95, "{name}: {outcome:?}");
        }
    }
}

#[test]
fn h2_some_that_hang_are_left_out_and_the_rest_serves_for_them() {
    for outcome in beside("3 of 10 hang") {
        assert_eq!(outcome.during.out, 3);
        assert!(outcome.during.goodput() > 0.9, "{outcome:?}");
        assert!(outcome.after.goodput() > 0.99, "{outcome:?}");
    }
}

#[test]
fn h2_most_that_hang_are_left_out_when_a_request_shows_that_they_do() {
    for outcome in beside("7 of 10 hang") {
        assert_eq!(outcome.during.out, 7);
        assert!(outcome.during.goodput() > 0.7, "{outcome:?}");
        assert!(outcome.after.goodput() > 0.99, "{outcome:?}");
    }
}

#[test]
fn h3_probes_that_ask_for_a_wrong_path_change_nothing() {
    for outcome in beside("probes ask for a wrong path") {
        assert_eq!((outcome.during.out, outcome.during.away), (0, 0));
        assert!(outcome.during.goodput() > 0.995, "{outcome:?}");
    }
}
