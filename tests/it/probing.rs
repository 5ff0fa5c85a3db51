//! When is an origin probed, and what waits for it?

use std::time::Duration;

use crate::rig::{self, Gateway, Origin, keys, map, on};

const HEALTH: &str =
    "health: { probe: { interval: 200ms, timeout: 200ms, http: { path: /healthz }, rise: 2, fall: 2 } }";

fn pool() -> String {
    format!("pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, {HEALTH}, slow_start: off, origins: $origins }} }}\n")
}

fn three() -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    let gateway = rig::gateway(&pool()).origins(&all).start();
    (all, gateway)
}

fn all_good(gateway: &Gateway, count: usize) -> bool {
    map(gateway.address(), &keys(count)).len() == count
}

/// When its probes came, in milliseconds.
fn probes(origin: &Origin) -> Vec<u64> {
    let all = origin.seen().into_iter().flat_map(|connection| connection.requests);
    let mut at: Vec<u64> = all.filter(|request| request.line.contains(" /healthz ")).map(|one| one.at_ms).collect();
    at.sort_unstable();
    at
}

#[test]
fn b30_every_origin_is_probed_after_each_change_and_by_one_prober() {
    let (all, mut gateway) = three();
    let d = rig::origin("d");
    gateway.knows([&d]);
    let without = "[{ address: \"$a\", name: a }, { address: \"$b\", name: b }, { address: \"$c\", name: c }]";
    for n in 0..20 {
        let with_d = n % 2 == 0;
        let text = if with_d { pool() } else { pool().replace("$origins", without) };
        gateway.change(&text);
        for origin in all.iter().chain(with_d.then_some(&d)) {
            origin.forget();
            // an interval is a tenth of that; the rest is for a busy machine
            let probed = rig::within(Duration::from_secs(2), || (origin.counts().requests > 0).then_some(()));
            assert_eq!(probed, Some(()), "{} after {n} changes", origin.name);
        }
    }
    all.iter().for_each(Origin::forget);
    for origin in &all {
        origin.await_requests("/healthz", 8);
        let at = probes(origin);
        // every 200 ms, give or take a tenth: two that probe would take half the time
        assert!(at[7] - at[0] >= 1100, "{}: {at:?}", origin.name);
    }
}

#[test]
fn b32_a_newcomer_gets_no_request_before_it_has_passed_its_probes() {
    let (_all, mut gateway) = three();
    let d = rig::origin("d");
    d.script([on("/healthz").answer(503)]);
    gateway.knows([&d]);
    let told = gateway.change(&pool());
    assert_eq!(told["joining"]["p"], serde_json::json!(["d"]));
    assert!(all_good(&gateway, 500));
    d.await_requests("/healthz", 5);
    assert_eq!((d.served(), gateway.origin("p", "d")["state"].clone()), (0, "joining".into()));
    d.script([]);
    gateway.await_state("p", "d", "up");
    assert!(all_good(&gateway, 500));
    assert!(d.served() > 50, "{}", d.served());
}

#[test]
fn an_origin_whose_probe_lacks_the_text_is_out_until_it_has_it() {
    let all = ["a", "b"].map(rig::origin);
    // Without a script an origin answers with its name.
    let gateway =
        rig::gateway(&pool().replace("path: /healthz", "path: /healthz, body_contains: a")).origins(&all).start();
    gateway.await_state("p", "b", "down");
    assert_eq!(gateway.origin("p", "a")["state"], "up");
    all[1].script([on("/healthz").then(rig::text("b has it: a").into())]);
    gateway.await_state("p", "b", "up");
}

#[test]
fn b33_the_first_request_does_not_wait_for_a_probe() {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    for origin in &all {
        origin.script([on("/healthz").hold("first probe").answer(200)]);
    }
    // No probe ends before the first answer is there, however long that takes.
    let text = pool().replace("interval: 200ms, timeout: 200ms", "interval: 60s, timeout: 50s");
    let (_gateway, status) = rig::gateway(&text).origins(&all).start_and(|listener| {
        let ask = || rig::Client::new(listener).send(&rig::Ask::get("/")).ok();
        let answer = rig::eventually("the first answer", ask);
        all.iter().for_each(|origin| origin.release("first probe"));
        answer.status
    });
    assert_eq!(status, 200);
}

/// A pool that a reload brings is assumed up, as all are at the start: its first request waits for no probe.
#[test]
fn j1_a_new_pool_serves_at_once() {
    let (_all, mut gateway) = three();
    let new = rig::origin("new");
    new.script([on("/healthz").hold("first probe").answer(200)]);
    gateway.knows([&new]);
    let text = format!(
        "pools:\n  p: {{ balance: {{ key: \"{{path}}\" }}, {HEALTH}, origins: [{{ address: \"$a\", name: a }}] }}\n  \
         q: {{ balance: {{ key: \"{{path}}\" }}, {}, origins: [{{ address: \"$new\", name: new }}] }}\n\
         routes:\n  - {{ match: {{ path: {{ prefix: /new }} }}, pool: q }}\n  - {{ pool: p }}\n",
        HEALTH.replace("timeout: 200ms", "timeout: 20s").replace("interval: 200ms", "interval: 30s")
    );
    let told = gateway.change(&text);
    let answer = gateway.get("/new/1");
    assert_eq!((answer.status, answer.origin()), (200, "new"));
    assert_eq!(told["joining"], serde_json::json!({}), "{told}");
    new.release("first probe");
}
