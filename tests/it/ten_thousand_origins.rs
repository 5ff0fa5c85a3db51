//! What becomes of ten thousand origins in one process? Probes stay within their pace, and everything still answers.
//!
//! One process listens on all of the loopback network; each address of it is an origin.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::rig::{self, Gateway, Origin};

/// Probes a second, of all pools together: rule H1.
const PACE: f64 = 500.0;

/// Pools of so many origins each, probed every other second.
fn gateway(all: &Origin, pools: usize, each: usize) -> Gateway {
    let port = all.address.port();
    let probe = "{ interval: 2s, timeout: 1s, http: { path: /healthz } }";
    let mut text = "pools:\n".to_owned();
    for pool in 0..pools {
        let address = |n: usize| format!("\"127.{}.{}.{}:{port}\"", pool + 1, n / 250, n % 250 + 1);
        let origins: Vec<String> = (0..each).map(address).collect();
        let settings = format!("balance: {{ key: \"{{path}}\" }}, health: {{ probe: {probe} }}");
        text.push_str(&format!("  p{pool}: {{ {settings}, origins: [{}] }}\n", origins.join(", ")));
    }
    text.push_str("routes:\n");
    for pool in 0..pools {
        text.push_str(&format!("  - {{ match: {{ path: {{ prefix: /p{pool} }} }}, pool: p{pool} }}\n"));
    }
    rig::gateway(&text).start()
}

/// Requests for so many keys, shared out over the pools.
fn ask(gateway: &Gateway, pools: usize, keys: usize) {
    let keys: Vec<String> = (0..keys).map(|key| format!("/p{}/{key}", key % pools)).collect();
    assert_eq!(rig::map(gateway.address(), &keys).len(), keys.len());
}

/// Probes that the origin sees in a second, over five of them.
fn probes_a_second(all: &Origin) -> f64 {
    let probes = || all.counts().by_path["/healthz"];
    let (before, start) = (probes(), Instant::now());
    std::thread::sleep(Duration::from_secs(5));
    (probes() - before) as f64 / start.elapsed().as_secs_f64()
}

fn origins(status: &Value) -> usize {
    let pools = status["pools"].as_object().unwrap().values();
    pools.map(|pool| pool["origins"].as_object().unwrap().len()).sum()
}

/// Bytes of a scrape that holds a series of every origin.
fn scraped(gateway: &Gateway) -> usize {
    let text = gateway.admin("GET", "/metrics").text();
    assert_eq!(text.matches("moorgate_origin_up{").count(), 10_000);
    text.len()
}

fn await_stretched(gateway: &Gateway) {
    rig::eventually("stretched", || (gateway.status()["probes_stretched"] == true).then_some(()));
}

#[test]
fn h1_s1_ten_pools_of_a_thousand_are_probed_at_a_pace_and_told_of() {
    let all = rig::everywhere("all");
    let gateway = gateway(&all, 10, 1000);
    await_stretched(&gateway);
    let rate = probes_a_second(&all);
    assert!((20.0..=PACE).contains(&rate), "{rate} probes a second");
    ask(&gateway, 10, 2000);
    assert_eq!(origins(&gateway.status()), 10_000);
    let size = scraped(&gateway);
    assert!(size < 20_000_000, "{size} bytes of metrics");
    let table = || String::from_utf8(gateway.command(&["status"]).stdout).unwrap();
    let told = || table().contains("intervals are longer than configured").then_some(());
    rig::eventually("the command says so, too", told);
}

#[test]
fn h1_s1_one_pool_of_ten_thousand_serves_and_tells_of_all() {
    let all = rig::everywhere("all");
    let gateway = gateway(&all, 1, 10_000);
    await_stretched(&gateway);
    ask(&gateway, 1, 3000);
    assert_eq!(origins(&gateway.status()), 10_000);
    let size = scraped(&gateway);
    assert!(size < 20_000_000, "{size} bytes of metrics");
    // All have a series of their own, and their times one in common.
    let metrics = gateway.metrics();
    assert!(metrics.values("moorgate_attempts_total", "origin").len() > 2000);
    for times in ["moorgate_attempt_duration_seconds_count", "moorgate_connect_duration_seconds_count"] {
        assert_eq!(metrics.values(times, "origin"), ["-"]);
    }
    assert!((metrics.sum("moorgate_attempt_duration_seconds_count", &[]) - 3000.0).abs() < 0.5);
}

#[test]
fn h1_what_fits_the_pace_is_not_stretched() {
    let all = rig::everywhere("all");
    let gateway = gateway(&all, 2, 50);
    let probes = || gateway.metrics().sum("moorgate_probes_total", &[]);
    rig::eventually("every origin is probed again", || (probes() > 250.0).then_some(()));
    // A machine without time for a moment stretches them for that moment.
    let fits = || (gateway.status()["probes_stretched"] == false).then_some(());
    rig::eventually("nothing is stretched", fits);
}
