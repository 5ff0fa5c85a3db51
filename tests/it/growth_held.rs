//! When does growth stand still, and does it go on? Rules J4 and C3, seen from outside.

use std::time::{Duration, Instant};

use crate::growing::{origins, pool};
use crate::rig::{self, Gateway, keys, map, on};

/// What has to pass before growth goes on, and the growth itself, on a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn part(gateway: &Gateway, name: &str) -> f64 {
    gateway.origin("p", name)["weight"]["effective"].as_f64().unwrap()
}

fn why(gateway: &Gateway, name: &str) -> String {
    gateway.origin("p", name)["why"].as_str().unwrap().to_owned()
}

/// Waits until it is said so of an origin; answers all that is said.
fn await_why(gateway: &Gateway, name: &str, said: &str) -> String {
    let found = rig::within(LONG, || Some(why(gateway, name)).filter(|why| why.contains(said)));
    found.unwrap_or_else(|| panic!("{name} is not said to be {said:?}, but {}", why(gateway, name)))
}

fn await_up(gateway: &Gateway, name: &str) {
    let up = rig::within(LONG, || (gateway.origin("p", name)["state"] == "up").then_some(()));
    assert!(up.is_some(), "{name} does not come up: {}", why(gateway, name));
}

/// It takes as much for as long as that many requests take.
fn assert_stands(gateway: &Gateway, name: &str, said: &str, pass: impl Fn()) {
    let before = part(gateway, name);
    pass();
    let (after, why) = (part(gateway, name), why(gateway, name));
    assert!(why.contains(said), "it goes on: {why}");
    assert!((after - before).abs() < 1e-9, "{before} became {after}");
}

#[test]
fn j4_a_newcomer_that_answers_with_errors_stands_still_as_long_as_it_does() {
    let all = origins(4);
    let text = pool("slow_start: { window: 8s, from: 20%, hold: { error_ratio: 10%, latency: off } }");
    let mut gateway = rig::gateway(&text).origins(&all[..3]).start();
    let load = rig::load(gateway.address()).start();
    load.further(400);
    // As many as make it stop, and so few that some hundred good ones weigh them up.
    all[3].script([on("/obj/*").answer(500).times(30)]);
    gateway.knows([&all[3]]);
    gateway.change(&text);
    let said = await_why(&gateway, "o3", "of its answers are errors");
    assert!(said.starts_with("held: ") && said.contains("% of its share"), "{said}");
    assert_eq!(gateway.origin("p", "o3")["state"], "ramping");
    assert_stands(&gateway, "o3", "of its answers are errors", || load.further(200));
    assert!(part(&gateway, "o3") < 0.6, "it was held too late: {}", part(&gateway, "o3"));
    await_up(&gateway, "o3");
    let output = gateway.output();
    for line in ["origin o3 is ramping: held: ", "origin o3 is ramping: takes ", "origin o3 is up"] {
        assert!(output.contains(line), "{line:?} in\n{output}");
    }
    let tally = load.stop();
    assert!(tally.by_status.keys().all(|status| [200, 500].contains(status)), "{tally:?}");
}

#[test]
fn j4_a_newcomer_that_is_slow_stands_still_for_the_window_in_all() {
    let all = origins(4);
    let text = pool("slow_start: { window: 6s, from: 30%, hold: { error_ratio: off, latency: 3x } }");
    let mut gateway = rig::gateway(&text).origins(&all[..3]).start();
    let load = rig::load(gateway.address()).clients(16).start();
    load.further(400);
    // Far above what a busy machine makes of an answer.
    all[3].script([on("/obj/*").delay(200).answer(200)]);
    gateway.knows([&all[3]]);
    gateway.change(&text);
    gateway.await_state("p", "o3", "ramping");
    let since = Instant::now();
    let said = await_why(&gateway, "o3", "its median is 2");
    assert!(said.starts_with("held: ") && said.contains("that of the others"), "{said}");
    await_up(&gateway, "o3");
    assert!(since.elapsed() >= Duration::from_secs(10), "held for {:?} less its six", since.elapsed());
    load.stop().assert_all_good();
}

#[test]
fn j4_all_growth_stands_still_while_the_pool_does_worse_than_before() {
    let all = origins(4);
    let text = pool("slow_start: { window: 20s, from: 10% }");
    let mut gateway = rig::gateway(&text).origins(&all[..3]).start();
    let load = rig::load(gateway.address()).clients(32).start();
    load.further(400);
    gateway.knows([&all[3]]);
    gateway.change(&text);
    gateway.await_state("p", "o3", "ramping");
    // The disk that all of them share.
    all.iter().for_each(|origin| origin.script([on("/obj/*").delay(150).answer(200)]));
    let said = await_why(&gateway, "o3", "the pool's median is 1");
    assert!(said.starts_with("held: ") && said.contains("before the change"), "{said}");
    assert_stands(&gateway, "o3", "the pool's median is", || load.further(200));
    assert!(part(&gateway, "o3") < 1.0);
    all.iter().for_each(|origin| origin.script([]));
    await_up(&gateway, "o3");
    load.stop().assert_all_good();
}

#[test]
fn c3_growth_stops_when_more_moved_than_may_and_goes_on_when_that_may() {
    let all = origins(4);
    let text = |most: &str| {
        pool(&format!("guard: {{ max_moved: {most} }}, slow_start: {{ window: 20s, from: 10%, hold: off }}"))
    };
    let mut gateway = rig::gateway(&text("50%")).origins(&all[..3]).start();
    let load = rig::load(gateway.address()).start();
    map(gateway.address(), &keys(1000));
    gateway.knows([&all[3]]);
    gateway.change(&text("50%"));
    gateway.await_state("p", "o3", "ramping");
    // A guard may be tightened while a change comes in: what has moved stays, and no more does.
    gateway.change(&text("5%"));
    let said = await_why(&gateway, "o3", "of the recent keys moved, 5% may");
    assert!(said.starts_with("held: "), "{said}");
    assert_stands(&gateway, "o3", "of the recent keys moved", || load.further(800));
    let (stood, moved) = (part(&gateway, "o3"), gateway.status()["pools"]["p"]["keys"]["moved_ratio"].clone());
    assert!(stood < 0.7, "it stopped late: at {stood} of its share, {moved} of the keys moved");
    gateway.change(&text("50%"));
    await_up(&gateway, "o3");
    load.stop().assert_all_good();
}
