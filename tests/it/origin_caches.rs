//! Do origins answer from their caches? Counted by what they say, for each and around a change.

use serde_json::{Value, json};

use crate::rig::{self, Gateway, Origin, answer, on};

fn pool(origins: &[Origin], more: &str) -> String {
    let list: Vec<String> =
        origins.iter().map(|o| format!("{{ address: \"{}\", name: \"{}\" }}", o.address, o.name)).collect();
    format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, slow_start: off, {more} origins: [{}] }} }}\n",
        list.join(", ")
    )
}

/// An origin that says what it says of three paths, and nothing of others.
fn caching(name: &str, header: &str, [hit, miss, other]: [&str; 3]) -> Origin {
    let origin = rig::origin(name);
    let says = |path: &str, what: &str| on(path).then(answer(200).header(header, what).into());
    origin.script([says("/hit", hit), says("/miss", miss), says("/other", other)]);
    origin
}

fn cached(gateway: &Gateway, result: &str) -> f64 {
    gateway.metrics().sum("moorgate_origin_cache_total", &[("pool", "p"), ("result", result)])
}

fn ask(gateway: &Gateway, targets: &[&str]) {
    let mut client = gateway.client();
    targets.iter().for_each(|target| assert_eq!(client.get(target).status, 200));
}

#[test]
fn what_origins_say_of_their_caches_is_counted_logged_and_shown() {
    for (header, words) in [
        ("x-cache", ["HIT", "MISS from a", "BYPASS"]),
        ("cache-status", ["a; hit; ttl=3", "a; fwd=uri-miss; stored", "a; fwd=bypass"]),
    ] {
        let all = [caching("a", header, words)];
        let gateway = rig::gateway(&pool(&all, &format!("cache_status: {header},"))).start();
        ask(&gateway, &["/hit", "/hit", "/hit", "/miss", "/other", "/silent"]);
        let of = |target: &str| gateway.logged(target)["attempts"][0]["cache"].clone();
        assert_eq!(
            [of("/hit"), of("/miss"), of("/other"), of("/silent")],
            [json!("hit"), json!("miss"), json!("other"), Value::Null]
        );
        assert_eq!([cached(&gateway, "hit"), cached(&gateway, "miss"), cached(&gateway, "other")], [3.0, 1.0, 1.0]);
        rig::eventually("three of four", || {
            let pool = gateway.status()["pools"]["p"].clone();
            let of_origin = &pool["origins"]["a"]["hit_ratio"];
            (pool["cache"]["hit_ratio"] == 0.75 && *of_origin == 0.75).then_some(())
        });
    }
}

#[test]
fn the_hit_ratio_before_a_change_stays_beside_the_one_after_it() {
    let words = ["HIT", "MISS", "BYPASS"];
    let all = [caching("a", "x-cache", words), caching("b", "x-cache", words)];
    let mut gateway = rig::gateway(&pool(&all[..1], "cache_status: x-cache,")).start();
    assert_eq!(gateway.status()["pools"]["p"]["cache"], json!({ "hit_ratio": null, "hit_ratio_before": null }));
    ask(&gateway, &["/hit", "/hit", "/hit", "/miss"]);
    let hits = |gateway: &Gateway, field: &str| gateway.status()["pools"]["p"]["cache"][field].clone();
    rig::eventually("three of four", || (hits(&gateway, "hit_ratio") == 0.75).then_some(()));
    gateway.change(&pool(&all, "cache_status: x-cache,"));
    gateway.await_state("p", "b", "up");
    assert_eq!(hits(&gateway, "hit_ratio_before"), 0.75);
    ask(&gateway, &["/miss", "/miss", "/miss", "/miss"]);
    rig::eventually("three of eight", || (hits(&gateway, "hit_ratio") == 0.375).then_some(()));
    gateway.change(&pool(&all, "cache_status: x-cache, retry_budget: { ratio: 10% },"));
    assert_eq!(hits(&gateway, "hit_ratio_before"), 0.75, "placement did not change since");
    gateway.change(&pool(&all, ""));
    assert_eq!(gateway.status()["pools"]["p"]["cache"], Value::Null, "nobody looks");
}
