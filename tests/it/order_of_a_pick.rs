//! Who gets a request when some origins are out, kept, not proven yet, or were tried? Rule R3, as the `key` command says
//! it and as it happens: both ask the same pick.
//!
//! States stand in the order of the key's walk around the ring: its owner, then its successors.

use serde_json::Value;

use crate::rig::{self, Ask, Door, Gateway, Origin, on};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How the three stand, which of them the request has tried, who is next, and in which pass for what reason.
struct Row {
    states: [&'static str; 3],
    tried: &'static [usize],
    next: Option<(usize, u64, &'static str)>,
}

const fn row(states: [&'static str; 3], tried: &'static [usize], next: Option<(usize, u64, &'static str)>) -> Row {
    Row { states, tried, next }
}

const UP: &str = "up";
const KEPT: &str = "kept";
const DOWN: &str = "down";
const JOINING: &str = "joining";

/// Whoever is not joining; `panic` as given, and nobody goes by soft evidence.
fn config(panic: &str, names: &[&str]) -> String {
    let probe = "{ interval: 200ms, timeout: 200ms, http: { path: /healthz }, rise: 2, fall: 2 }";
    let origins: Vec<String> = names.iter().map(|name| format!("{{ address: \"${name}\", name: {name} }}")).collect();
    format!(
        "pools:\n  p:\n    balance: {{ key: \"{{path}}\" }}\n    \
         health: {{ probe: {probe}, min_healthy: 100%, panic: {panic} }}\n    origins: [{}]\n\
         routes: [ {{ pool: p, retry: {{ tries: 4, within: 10s, safe: [connect, \"503\"] }} }} ]\n",
        origins.join(", ")
    )
}

/// Three origins that stand so, in front of them a gateway that knows.
fn stage(states: [&str; 3], panic: &str) -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = NAMES.map(rig::origin).into();
    let here: Vec<&str> = (0..3).filter(|at| states[*at] != JOINING).map(|at| NAMES[at]).collect();
    for (origin, state) in all.iter().zip(states) {
        if [KEPT, JOINING].contains(&state) {
            origin.script([on("/healthz").answer(500)]);
        }
    }
    let mut gateway = rig::gateway(&config(panic, &here)).origins(&all).start();
    if here.len() < 3 {
        gateway.change(&config(panic, &NAMES));
    }
    all.iter().zip(states).filter(|(_, state)| *state == DOWN).for_each(|(origin, _)| origin.door(Door::Refuse));
    for (name, state) in NAMES.iter().zip(states) {
        gateway.await_state("p", name, state);
    }
    (all, gateway)
}

/// What `key --json` says of these targets, with more arguments.
fn told(gateway: &Gateway, targets: &[String], more: &[String]) -> Vec<Value> {
    let arguments: Vec<&str> =
        ["key", "--json"].into_iter().chain(more.iter().chain(targets).map(String::as_str)).collect();
    let output = gateway.command(&arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A target whose walk meets a, b and c in this order.
fn target(gateway: &Gateway) -> String {
    let walks = |told: &Value| told["owner"] == NAMES[0] && told["successors"] == serde_json::json!(NAMES[1..]);
    let told = told(gateway, &rig::keys(200), &[]);
    told.iter().find(|told| walks(told)).unwrap()["url"].as_str().unwrap().to_owned()
}

fn check(panic: &str, rows: &[Row]) {
    for row in rows {
        let (all, gateway) = stage(row.states, panic);
        let target = target(&gateway);
        said(&gateway, &target, row);
        done(&all, &gateway, &target, row);
    }
}

/// What the command says.
fn said(gateway: &Gateway, target: &str, Row { states, tried, next }: &Row) {
    let assumed = NAMES.iter().zip(states).flat_map(|(name, state)| ["--assume".to_owned(), format!("{name}={state}")]);
    let tried = tried.iter().flat_map(|at| ["--tried".to_owned(), NAMES[*at].to_owned()]);
    let told = told(gateway, &[target.to_owned()], &assumed.chain(tried).collect::<Vec<_>>()).remove(0);
    let expected = match next {
        Some((at, pass, reason)) => serde_json::json!([NAMES[*at], pass, reason]),
        None => serde_json::json!([null, null, null]),
    };
    assert_eq!(serde_json::json!([told["goes_to"], told["pass"], told["reason"]]), expected, "{states:?} {told}");
}

/// What becomes of a request: those it has tried answered 503, or refused.
fn done(all: &[Origin], gateway: &Gateway, target: &str, Row { states, tried, next }: &Row) {
    for at in tried.iter().filter(|at| states[**at] != DOWN) {
        all[*at].script([on("/obj*").answer(503), on("/healthz").answer(if states[*at] == UP { 200 } else { 500 })]);
    }
    gateway.ask(&Ask::get(target));
    let line = gateway.logged(target);
    let went: Vec<&str> =
        line["attempts"].as_array().unwrap().iter().map(|attempt| attempt["origin"].as_str().unwrap()).collect();
    let mut expected: Vec<&str> = tried.iter().map(|at| NAMES[*at]).collect();
    expected.extend(next.map(|(at, ..)| NAMES[at]));
    // In panic a refused one is followed by the next.
    let further = states.iter().all(|state| [DOWN, JOINING].contains(state));
    assert!(if further { went.starts_with(&expected) } else { went == expected }, "{states:?} {tried:?}: {line}");
}

#[test]
fn r3_the_first_usable_origin_of_the_walk_takes_the_request() {
    check(
        "keep",
        &[
            row([UP, UP, UP], &[], Some((0, 1, "owner"))),
            row([KEPT, UP, UP], &[], Some((0, 1, "owner"))),
            row([DOWN, UP, UP], &[], Some((1, 1, "owner_out"))),
            row([JOINING, UP, UP], &[], Some((1, 1, "owner_out"))),
            row([DOWN, KEPT, UP], &[], Some((1, 1, "owner_out"))),
            row([DOWN, DOWN, KEPT], &[], Some((2, 1, "owner_out"))),
            row([KEPT, KEPT, KEPT], &[], Some((0, 1, "owner"))),
            row([JOINING, DOWN, UP], &[], Some((2, 1, "owner_out"))),
        ],
    );
}

#[test]
fn r3_what_was_tried_is_passed_over() {
    check(
        "keep",
        &[
            row([UP, UP, UP], &[0], Some((1, 1, "owner_tried"))),
            row([UP, DOWN, UP], &[0], Some((2, 1, "owner_tried"))),
            row([KEPT, JOINING, KEPT], &[0], Some((2, 1, "owner_tried"))),
            row([DOWN, UP, UP], &[1], Some((2, 1, "owner_out"))),
            row([UP, UP, UP], &[0, 1, 2], None),
            row([UP, DOWN, DOWN], &[0], None),
        ],
    );
}

#[test]
fn r3_in_panic_the_proven_are_walked_as_if_up_and_newcomers_come_last() {
    check(
        "keep",
        &[
            row([DOWN, DOWN, DOWN], &[], Some((0, 5, "panic"))),
            row([DOWN, DOWN, DOWN], &[0], Some((1, 5, "panic"))),
            row([JOINING, DOWN, DOWN], &[], Some((1, 5, "panic"))),
            row([JOINING, DOWN, DOWN], &[1, 2], Some((0, 5, "panic"))),
        ],
    );
    check("fail", &[row([DOWN, DOWN, DOWN], &[], None), row([JOINING, DOWN, DOWN], &[], None)]);
}
