//! What happens to clients when origins die, hang or say they are unwell? Nothing they can see, while one is left.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::rig::{self, Door, Gateway, Origin, Step, answer, keys, map, on};

const HEALTH: &str =
    "health: { probe: { interval: 200ms, timeout: 200ms, http: { path: /healthz }, rise: 2, fall: 2 }, $more }";

pub(crate) fn pool(more: &str) -> String {
    let health = HEALTH.replace("$more", more).replace(", }", " }");
    format!("pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, {health}, slow_start: off, origins: $origins }} }}\n")
}

pub(crate) fn three(more: &str) -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    let gateway = rig::gateway(&pool(more)).origins(&all).start();
    (all, gateway)
}

fn unwell(origin: &Origin) {
    origin.script([on("/healthz").answer(500)]);
}

fn statuses(gateway: &Gateway, count: usize) -> Vec<u16> {
    let mut client = gateway.client();
    keys(count).iter().map(|key| client.get(key).status).collect()
}

pub(crate) fn all_good(gateway: &Gateway, count: usize) -> bool {
    statuses(gateway, count).iter().all(|status| *status == 200)
}

#[test]
fn b16_every_key_is_served_while_one_origin_is_healthy() {
    let mut all: Vec<Origin> = ["heavy", "b", "c"].map(rig::origin).into();
    let list = "[{ address: \"$heavy\", name: heavy, weight: 10 }, { address: \"$b\", name: b }, { address: \"$c\", name: c }]";
    let gateway = rig::gateway(&pool("").replace("$origins", list)).origins(&all).start();
    all[0].kill();
    let during = map(gateway.address(), &keys(1000));
    gateway.await_state("p", "heavy", "down");
    let after = map(gateway.address(), &keys(10_000));
    assert!(after.values().all(|origin| origin == "b" || origin == "c"));
    assert!(during.iter().all(|(key, origin)| after[key] == *origin), "a key moved twice");
}

#[test]
fn p2_a_dead_origin_moves_its_own_keys_and_no_other() {
    let mut all: Vec<Origin> = ["a", "b", "c", "d"].map(rig::origin).into();
    let gateway = rig::gateway(&pool("")).origins(&all).start();
    let before = map(gateway.address(), &keys(500));
    all[0].kill();
    gateway.await_state("p", "a", "down");
    let after = map(gateway.address(), &keys(500));
    let (own, others): (Vec<_>, Vec<_>) = before.into_iter().partition(|(_, origin)| origin == "a");
    assert!(others.iter().all(|(key, origin)| after[key] == *origin), "a key of a living origin moved");
    let heirs: BTreeSet<&str> = own.iter().map(|(key, _)| after[key].as_str()).collect();
    assert_eq!(heirs, BTreeSet::from(["b", "c", "d"]), "its keys are not spread over the others");
}

#[test]
fn b28_b29_a_reload_sends_nothing_to_an_origin_known_to_be_dead() {
    let (all, mut gateway) = three("");
    let d = rig::origin("d");
    all[0].door(Door::Refuse);
    gateway.await_state("p", "a", "down");
    let text = pool("");
    let route = format!("{text}routes: [ {{ name: other, pool: p, forwarded: {{ forwarded: on }} }} ]\n");
    let list = "[{ address: \"$a\", name: a, weight: 2 }, { address: \"$b\", name: b }, { address: \"$c\", name: c }]";
    let weight = text.replace("$origins", list);
    gateway.knows([&d]);
    for (what, changed) in [("a route", route), ("a weight", weight), ("an origin more", text)] {
        gateway.change(&changed);
        assert_eq!(gateway.origin("p", "a")["state"], "down", "after a change of {what}");
        let metrics = gateway.metrics();
        let before = metrics.sum("moorgate_attempts_total", &[("origin", "a")]);
        assert!(all_good(&gateway, 300));
        let tried = gateway.metrics().sum("moorgate_attempts_total", &[("origin", "a")]) - before;
        assert!(tried < 0.5, "{tried} tries at the dead origin after a change of {what}");
    }
}

#[test]
fn b35_a_hanging_origin_is_shown_and_left_alone() {
    let (all, gateway) = three("");
    all[0].door(Door::Hang);
    all[0].close_idle(rig::Close::Fin);
    let state = rig::eventually("a is out", || {
        let origin = gateway.origin("p", "a");
        (origin["state"] != "up").then_some(origin)
    });
    assert_eq!(state["state"], "down", "{state}");
    assert!(state["why"].as_str().is_some_and(|why| why.contains("timeout")), "{state}");
    let before = gateway.metrics().sum("moorgate_attempts_total", &[("origin", "a")]);
    assert!(all_good(&gateway, 300));
    assert!(gateway.metrics().sum("moorgate_attempts_total", &[("origin", "a")]) - before < 0.5);
}

#[test]
fn b37_a_broken_healthz_takes_nothing_down() {
    let (all, gateway) = three("");
    let before = map(gateway.address(), &keys(200));
    all.iter().for_each(unwell);
    for origin in &all {
        origin.forget();
        origin.await_requests("/healthz", 6);
    }
    assert_eq!(map(gateway.address(), &keys(200)), before);
    assert!(all.iter().all(|origin| gateway.origin("p", &origin.name)["state"] != "down"));
    assert!(gateway.metrics().sum("moorgate_pool_short", &[("pool", "p")]) > 0.5);
}

/// The other wish: whoever wants no guesses gets none, with the reason.
#[test]
fn b37_with_panic_fail_a_broken_healthz_is_an_outage_that_says_why() {
    let (all, gateway) = three("panic: fail");
    all.iter().for_each(unwell);
    for origin in &all {
        gateway.await_state("p", &origin.name, "down");
    }
    let answer = gateway.get("/x");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}");
    assert!(answer.header("proxy-status").unwrap().contains("destination_unavailable"), "{answer:?}");
    assert_eq!(gateway.status()["pools"]["p"]["panic"], "fail");
    all.iter().for_each(|origin| origin.script([]));
    rig::eventually("an origin is back", || (gateway.get("/x").status == 200).then_some(()));
}

#[test]
fn b38_when_all_are_gone_keep_tries_and_fail_says_so_at_once() {
    for (mode, keep) in [("panic: keep", true), ("panic: fail", false)] {
        let (all, gateway) = three(mode);
        for origin in &all {
            origin.door(Door::Refuse);
        }
        for origin in &all {
            gateway.await_state("p", &origin.name, "down");
        }
        assert_eq!(gateway.status()["pools"]["p"]["panic"], mode.trim_start_matches("panic: "));
        let start = Instant::now();
        let answer = gateway.get("/x");
        if keep {
            assert_eq!(answer.status, 502, "{answer:?}");
        } else {
            assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
            // Far below the second a connect may take: nobody was asked.
            assert!(start.elapsed() < Duration::from_millis(800), "{:?}", start.elapsed());
        }
        assert_eq!(gateway.logged("/x")["error"], if keep { "connect_refused" } else { "no_origin" });
        all[1].door(Door::Open);
        if keep {
            assert_eq!(gateway.get("/y").origin(), "b", "the first that answers is in at once");
        }
        gateway.await_state("p", "b", "up");
        assert!(all_good(&gateway, 50));
    }
}

#[test]
fn b38_with_one_left_neither_mode_fails_a_request() {
    for mode in ["panic: keep", "panic: fail"] {
        let (all, gateway) = three(mode);
        all[0].door(Door::Refuse);
        all[1].door(Door::Refuse);
        assert!(all_good(&gateway, 200), "{mode}: before they are out");
        gateway.await_state("p", "a", "down");
        gateway.await_state("p", "b", "down");
        assert!(all_good(&gateway, 200), "{mode}");
    }
}

#[test]
fn b39_soft_evidence_never_takes_out_more_than_the_floor_allows() {
    let (all, gateway) = three("min_healthy: 50%");
    let out = || all.iter().filter(|origin| gateway.origin("p", &origin.name)["state"] == "down").count();
    unwell(&all[0]);
    gateway.await_state("p", "a", "down");
    unwell(&all[1]);
    gateway.await_state("p", "b", "kept");
    assert_eq!(out(), 1);
    assert!(all_good(&gateway, 200));
    unwell(&all[2]);
    rig::eventually("nobody is out when all are bad", || (out() == 0).then_some(()));
    assert!(all_good(&gateway, 200));
}

#[test]
fn h2_t2_a_killed_origin_costs_no_request_and_returns() {
    let (mut all, gateway) = three("");
    let load = rig::load(gateway.address()).rate(400.0).start();
    load.further(200);
    all[0].kill();
    gateway.await_state("p", "a", "down");
    load.further(200);
    all[0].restart();
    gateway.await_state("p", "a", "up");
    rig::eventually("requests on it again", || (all[0].served() > 0).then_some(()));
    load.further(100);
    let tally = load.stop();
    tally.assert_all_good();
}

/// Whom a balancer asks is the gateway, not its origins: taking it out would help nobody.
#[test]
fn h1_readiness_is_no_matter_of_the_origins() {
    let all: Vec<Origin> = ["a", "b"].map(rig::origin).into();
    all.iter().for_each(|origin| origin.door(Door::Refuse));
    // it becomes ready, though nobody answers
    let gateway = rig::gateway(&pool("panic: fail")).origins(&all).start();
    let (admin, over) = (gateway.admin, AtomicBool::new(false));
    let asking = || {
        let (mut balancer, mut asked) = (rig::Client::new(admin), 0);
        while !over.load(Relaxed) {
            let answer = balancer.get("/readyz");
            assert_eq!(answer.status, 200, "{}", answer.text());
            asked += 1;
        }
        asked
    };
    let await_all = |state: &str| all.iter().for_each(|origin| gateway.await_state("p", &origin.name, state));
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(asking);
        await_all("down");
        assert_eq!(gateway.get("/x").status, 503);
        all.iter().for_each(|origin| origin.door(Door::Open));
        await_all("up");
        all.iter().for_each(unwell);
        await_all("down");
        all.iter().for_each(|origin| origin.script([]));
        await_all("up");
        all.iter().for_each(|origin| origin.door(Door::Refuse));
        await_all("down");
        over.store(true, Relaxed);
        asking.join().unwrap()
    });
    assert!(asked > 10, "asked {asked} times");
}

#[test]
fn a_slow_start_of_an_answer_is_504_and_says_so() {
    let a = rig::origin("a");
    a.script([on("/hang").then(Step::Hang), on("/early").then(answer(200).body(rig::Body::Size(3)).into())]);
    let text =
        "pools: { p: { balance: { key: \"{path}\" }, timeouts: { connect: 50ms, read: 100ms }, origins: $origins } }\n";
    let gateway = rig::gateway(text).origins([&a]).start();
    let answer = gateway.get("/hang");
    assert_eq!(answer.status, 504);
    assert!(answer.header("proxy-status").unwrap().contains("http_response_timeout"), "{answer:?}");
    let line = gateway.logged("/hang");
    assert_eq!(
        (&line["error"], &line["attempts"][0]["outcome"]),
        (&"response_timeout".into(), &"response_timeout".into())
    );
    assert_eq!(gateway.get("/early").status, 200);
}

#[test]
fn r2_after_an_outage_of_all_every_key_is_back_where_it_was() {
    let mut all: Vec<Origin> = ["a", "b", "c", "d"].map(rig::origin).into();
    let gateway = rig::gateway(&pool("")).origins(&all).start();
    let before = map(gateway.address(), &keys(500));
    all.iter_mut().for_each(Origin::kill);
    rig::eventually("all are out", || {
        let down = |origin: &Origin| gateway.origin("p", &origin.name)["state"] != "up";
        all.iter().all(down).then_some(())
    });
    all.iter_mut().for_each(Origin::restart);
    for origin in &all {
        gateway.await_state("p", &origin.name, "up");
    }
    assert_eq!(map(gateway.address(), &keys(500)), before);
}

/// What the gateway itself has run out of is no origin's fault: requests and probes that cannot be made count nowhere.
#[test]
fn a_process_out_of_descriptors_ejects_nobody() {
    let all = ["a", "b", "c"].map(rig::origin);
    let text = "pools: { p: { balance: { key: \"{path}\" }, connections: { keepalive: 0 }, origins: $origins, health: { \
                probe: { interval: 50ms, timeout: 1s, http: { path: /healthz }, rise: 2, fall: 2 }, \
                outlier_detection: { failures: 3, min_requests: 3 } } } }\n";
    let gateway = rig::gateway(text).origins(&all).start();
    let before = map(gateway.address(), &keys(100));
    // a refusal ends its connection, and there is no descriptor for another
    let mut clients: Vec<_> = (0..50).map(|_| gateway.client()).collect();
    assert!(clients.iter_mut().all(|client| client.get("/before").status == 200));
    let limit = |soft: &str| {
        let pid = gateway.pid().to_string();
        let nofile = format!("--nofile={soft}:");
        assert!(std::process::Command::new("prlimit").args(["--pid", &pid, &nofile]).status().unwrap().success());
    };
    limit("3");
    // ten times as long as failing probes take to eject an origin
    for (n, client) in clients.iter_mut().enumerate() {
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(client.get(&format!("/none/{n}")).status, 503);
    }
    gateway.logged("/none/49");
    let refused: Vec<_> = gateway.log().into_iter().filter(|line| line["status"] == 503).collect();
    assert_eq!(refused.len(), clients.len());
    for line in &refused {
        let attempts = line["attempts"].as_array().unwrap();
        assert!(line["error"] == "local_limit" && attempts.len() == 1, "{line}");
        assert!(attempts.iter().all(|attempt| attempt["outcome"] == "local_limit"), "{line}");
    }
    limit("1000");
    assert_eq!(map(gateway.address(), &keys(100)), before);
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("moorgate_ejections_total", &[]), 0.0);
    assert_eq!(metrics.sum("moorgate_probes_total", &[("result", "bad")]), 0.0);
    for name in ["a", "b", "c"] {
        assert_eq!(gateway.origin("p", name)["state"], "up");
    }
}
