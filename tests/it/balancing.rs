//! Pools without a key: is every algorithm what it says, on the wire and over all shards?

use std::thread;

use crate::rig::{self, Answer, Ask, Client, Close, Gateway, Origin, Step, keys, on};

fn pool(balance: &str, more: &str) -> String {
    format!("pools: {{ p: {{ balance: {{ {balance} }}, health: {{ probe: off }}, {more} origins: $origins }} }}\n")
}

fn origins(count: usize) -> Vec<Origin> {
    ["a", "b", "c", "d"].into_iter().take(count).map(rig::origin).collect()
}

/// Which origins answer so many requests, one after the other, each on a connection of its own.
fn turns(gateway: &Gateway, count: usize) -> String {
    keys(count).iter().map(|key| gateway.get(key).origin().to_owned()).collect()
}

/// Sends that many requests at once; the answers come when the origins give them.
fn parallel(gateway: &Gateway, count: usize) -> Vec<thread::JoinHandle<Answer>> {
    let address = gateway.address();
    let ask = move |key: String| thread::spawn(move || Client::new(address).get(&key));
    keys(count).into_iter().map(ask).collect()
}

fn in_flight(all: &[Origin]) -> Vec<u64> {
    all.iter().map(|origin| origin.counts().in_flight).collect()
}

#[test]
fn round_robin_is_one_order_over_all_shards_and_across_a_reload() {
    let all = origins(3);
    let mut gateway = rig::gateway(&pool("algorithm: round_robin", "")).origins(&all).start();
    assert_eq!(turns(&gateway, 7), "abcabca");
    gateway.change(&pool("algorithm: round_robin", "timeouts: { read: 9s },"));
    assert_eq!(turns(&gateway, 5), "bcabc");
}

#[test]
fn round_robin_is_smooth_by_weight() {
    let all = origins(3);
    let list = "origins: [ { address: $a, name: a, weight: 5 }, { address: $b, name: b }, { address: $c, name: c } ]";
    let text = format!("pools: {{ p: {{ balance: {{ algorithm: round_robin }}, {list} }} }}\n");
    let gateway = rig::gateway(&text).origins(&all).start();
    assert_eq!(turns(&gateway, 14), "aabacaaaabacaa");
}

/// Looking for where a failed request could go next takes nobody's turn.
#[test]
fn a_failure_that_is_not_tried_again_costs_nobody_a_turn() {
    let all = origins(3);
    all[0].script([on("*").then(Step::End(Close::Rst))]);
    let gateway = rig::gateway(&pool("algorithm: round_robin", "")).origins(&all).start();
    for n in 0..30 {
        gateway.ask(&Ask::new("POST", &format!("/{n}")).body("x"));
    }
    assert_eq!(all.iter().map(Origin::served).collect::<Vec<_>>(), [10, 10, 10]);
}

/// Asks until a request hangs at this origin.
fn until_one_hangs(gateway: &Gateway, at: &Origin) -> thread::JoinHandle<Answer> {
    let hangs = || at.counts().in_flight == 1;
    let asked = (0..200).find_map(|_| {
        let one = parallel(gateway, 1).remove(0);
        rig::eventually("it is answered or hangs", || (one.is_finished() || hangs()).then_some(()));
        hangs().then_some(one)
    });
    asked.unwrap_or_else(|| panic!("{} gets nothing", at.name))
}

#[test]
fn an_origin_that_hangs_has_one_request_while_others_are_idle() {
    for algorithm in ["least_in_flight", "p2c"] {
        let all = origins(3);
        all[0].script([on("*").hold("slow").answer(200)]);
        let gateway = rig::gateway(&pool(&format!("algorithm: {algorithm}"), "")).origins(&all).start();
        let stuck = until_one_hangs(&gateway, &all[0]);
        let idle = |origin: &Origin| gateway.origin("p", &origin.name)["in_flight"] == 0;
        for _ in 0..20 {
            rig::eventually("the others are idle", || all[1..].iter().all(idle).then_some(()));
            assert_ne!(gateway.get("/x").origin(), "a", "{algorithm}");
        }
        assert_eq!(in_flight(&all), [1, 0, 0], "{algorithm}");
        all[0].release("slow");
        assert_eq!(stuck.join().unwrap().status, 200);
    }
}

#[test]
fn b71_streams_are_in_flight_not_connections() {
    let all = origins(3);
    all.iter().for_each(|origin| origin.script([on("*").hold("all").answer(200)]));
    let gateway = rig::gateway(&pool("algorithm: least_in_flight", "protocol: h2c,")).origins(&all).start();
    let asked = parallel(&gateway, 90);
    rig::eventually("90 at the origins", || (in_flight(&all).iter().sum::<u64>() == 90).then_some(()));
    assert!(in_flight(&all).iter().all(|count| (27..=33).contains(count)), "{:?}", in_flight(&all));
    let shown = |origin: &Origin| gateway.origin("p", &origin.name)["in_flight"].as_u64().unwrap();
    assert_eq!(all.iter().map(shown).collect::<Vec<_>>(), in_flight(&all), "as the status says");
    all.iter().for_each(|origin| origin.release("all"));
    assert!(asked.into_iter().all(|one| one.join().unwrap().status == 200));
}

#[test]
fn r5_an_origin_that_fails_fast_does_not_attract_traffic() {
    for algorithm in ["least_in_flight", "p2c", "peak_ewma"] {
        let all = origins(4);
        all[0].script([on("*").answer(503)]);
        all[1..].iter().for_each(|origin| origin.script([on("*").delay(20).answer(200)]));
        let gateway = rig::gateway(&pool(&format!("algorithm: {algorithm}"), "")).origins(&all).start();
        let load = rig::load(gateway.address()).rate(300.0).start();
        load.further(500);
        let tally = load.stop();
        assert!(tally.failed.is_empty(), "{:?}", tally.failed);
        let share = tally.by_status.get(&503).copied().unwrap_or(0) as f64 / tally.sent() as f64;
        assert!(share < 0.25, "{algorithm}: {share}");
    }
}

#[test]
fn every_algorithm_walks_past_an_origin_that_refuses() {
    for algorithm in ["round_robin", "least_in_flight", "p2c", "peak_ewma", "random"] {
        let mut all = origins(3);
        let gateway = rig::gateway(&pool(&format!("algorithm: {algorithm}"), "")).origins(&all).start();
        all[0].kill();
        let seen = turns(&gateway, 40);
        assert!(seen.contains('b') && seen.contains('c') && !seen.contains('a'), "{algorithm}: {seen}");
        assert!(gateway.await_log(40).iter().all(|line| line["status"] == 200 && line["key"].is_null()));
    }
}

#[test]
fn a_pool_without_a_key_says_so() {
    let all = origins(2);
    let gateway = rig::gateway(&pool("algorithm: peak_ewma, decay: 5s", "")).origins(&all).start();
    let shown = &gateway.status()["pools"]["p"];
    assert_eq!((&shown["algorithm"], &shown["key"]), (&"peak_ewma".into(), &().into()), "{shown}");
    assert_eq!(shown["origins"]["a"]["share"], 0.5);
    let told = gateway.command(&["key", "--json", "http://test/x"]);
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(
        (&told["owner"], &told["pass"], &told["reason"], &told["successors"]),
        (&().into(), &1.into(), &"peak_ewma".into(), &serde_json::json!([])),
        "{told}"
    );
    let dumped = gateway.command(&["dump"]);
    let dumped = String::from_utf8_lossy(&dumped.stdout).into_owned();
    assert!(dumped.contains("decay: 5s") && !dumped.contains("key:") && !dumped.contains("on_missing"), "{dumped}");
}
