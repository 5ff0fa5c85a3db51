//! Does a process know after an upgrade all that the one before it knew? Promise P4 and rules U1 and U3: health, growth,
//! placement, texts and counters.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use crate::rig::{self, Ask, Client, Gateway, Metrics, Origin, eventually, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, slow_start: { window: 120s, from: 10%, hold: off }, \
    health: { probe: { interval: 300ms, timeout: 5s, http: { path: /healthz } } }, guard: { max_moved: 45% }, origins: $origins } }\n";

fn upgraded(gateway: &Gateway) {
    let output = gateway.upgrade(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

fn origins(names: &[&str]) -> Vec<Origin> {
    names.iter().map(|name| rig::origin(name)).collect()
}

fn effective(gateway: &Gateway, name: &str) -> f64 {
    gateway.origin("p", name)["weight"]["effective"].as_f64().unwrap()
}

/// Where keys go.
fn mapped(gateway: &Gateway) -> BTreeMap<String, String> {
    rig::map(gateway.address(), &rig::keys(200))
}

/// What `/status` says of the pool and of an origin that should not change by itself.
fn standing(gateway: &Gateway) -> Vec<Value> {
    let status = gateway.status();
    let (pool, config) = (&status["pools"]["p"], &status["config"]);
    let mut told = vec![pool["ring"]["fingerprint"].clone(), config["version"].clone(), config["digest"].clone()];
    told.extend(["a", "b", "c", "d"].map(|name| pool["origins"][name]["state"].clone()));
    told.push(config["history"].clone());
    told
}

#[test]
fn p4_health_growth_and_placement_are_known_after_an_upgrade() {
    let mut all = origins(&["a", "b", "c", "d"]);
    let mut gateway = rig::gateway(POOL).origins(&all[..3]).process("drain", "{ timeout: 1s }").start();
    mapped(&gateway);
    all[2].kill();
    gateway.await_state("p", "c", "down");
    gateway.knows([&all[3]]);
    gateway.change(POOL);
    gateway.await_state("p", "d", "ramping");
    let keys = mapped(&gateway);
    eventually("it has grown a little", || (effective(&gateway, "d") > 0.12).then_some(()));
    let (before, part) = (standing(&gateway), effective(&gateway, "d"));
    let tried = |gateway: &Gateway| gateway.metrics().sum("moorgate_attempts_total", &[("origin", "c")]);
    let failed = tried(&gateway);
    let stop = Arc::new(AtomicBool::new(false));
    let watch = watch(gateway.admin, stop.clone());
    for generation in 2..=3 {
        upgraded(&gateway);
        assert_eq!(gateway.status()["generation"], generation);
        assert_eq!(standing(&gateway), before, "generation {generation}");
    }
    stop.store(true, Relaxed);
    let parts = watch.join().unwrap();
    assert!(parts.iter().all(|seen| (part..1.0).contains(seen)), "from {part}: {parts:?}");
    let shrank: Vec<_> = parts.windows(2).filter(|pair| pair[1] < pair[0]).collect();
    assert!(shrank.is_empty(), "what it takes never shrinks: {shrank:?}");
    let now = mapped(&gateway);
    let moved = keys.iter().filter(|(key, owner)| now.get(*key) != Some(*owner));
    assert!(moved.clone().all(|(key, _)| now[key] == "d"), "keys move to d alone");
    assert_eq!(tried(&gateway), failed, "nobody asks one that is known to be down");
    assert_eq!(gateway.command(&["rollback"]).status.code(), Some(0));
    assert_eq!(gateway.origin("p", "c")["state"], "down");
}

/// What of its share `d` takes, again and again.
fn watch(admin: SocketAddr, stop: Arc<AtomicBool>) -> JoinHandle<Vec<f64>> {
    std::thread::spawn(move || {
        let mut parts = Vec::new();
        while !stop.load(Relaxed) {
            let ask = Ask::get("/status").header("Host", &admin.to_string());
            let status: Value = serde_json::from_slice(&Client::new(admin).send(&ask).unwrap().body).unwrap();
            parts.push(status["pools"]["p"]["origins"]["d"]["weight"]["effective"].as_f64().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
        parts
    })
}

#[test]
fn u3_no_series_falls_and_their_sum_is_what_the_origins_saw() {
    let all = origins(&["a", "b", "c"]);
    let text = POOL.replace("guard:", "connections: { max_in_flight: 1000 }, guard:");
    let gateway = rig::gateway(&text).origins(&all).process("drain", "{ timeout: 1s }").start();
    let kept = rig::load(gateway.address()).clients(4).rate(100.0).start();
    let fresh = rig::load(gateway.address()).clients(4).rate(100.0).fresh_connections().start();
    let (stop, admin) = (Arc::new(AtomicBool::new(false)), gateway.admin);
    let watching = stop.clone();
    let watch = std::thread::spawn(move || never_falling(admin, &watching));
    for _ in 0..2 {
        kept.further(20);
        upgraded(&gateway);
    }
    fresh.further(20);
    let (kept, fresh) = (kept.stop(), fresh.stop());
    kept.assert_all_good();
    fresh.assert_all_good();
    let sent = (kept.sent() + fresh.sent()) as f64;
    let served: u64 = all.iter().map(Origin::served).sum();
    eventually("all is counted", || {
        let metrics = gateway.metrics();
        let attempts = metrics.sum("moorgate_attempts_total", &[]);
        let counted = metrics.sum("moorgate_requests_total", &[("pool", "p")]);
        let timed = metrics.sum("moorgate_attempt_duration_seconds_count", &[]);
        ([attempts, counted, timed] == [served as f64, sent, served as f64]).then_some(())
    });
    stop.store(true, Relaxed);
    assert!(watch.join().expect("no series falls") > 20);
    assert_eq!(gateway.metrics().sum("moorgate_in_flight", &[]), 0.0);
}

#[test]
fn u3_what_the_old_process_has_in_flight_counts_until_it_is_over() {
    let all = origins(&["a"]);
    all[0].script([on("/slow").hold("gate").answer(200)]);
    let text = "pools: { p: { timeouts: { read: 60s }, connections: { max_in_flight: 1 }, origins: $origins } }\n";
    let mut gateway = rig::gateway(text).origins(&all).process("drain", "{ timeout: 1s }").start();
    let mut slow = rig::raw(gateway.address());
    slow.send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
    all[0].await_held("gate", 1);
    upgraded(&gateway);
    let in_flight = |gateway: &Gateway| gateway.metrics().sum("moorgate_in_flight", &[("origin", "a")]);
    assert_eq!((gateway.get("/b").status, in_flight(&gateway)), (503, 1.0));
    all[0].release("gate");
    assert_eq!(slow.answer().status, 200);
    assert_eq!(gateway.exit(), 0, "the old one has left");
    eventually("there is room again", || (in_flight(&gateway) < 0.5).then_some(()));
    assert_eq!(gateway.get("/b").status, 200);
}

/// Scrapes again and again; fails when a count is smaller than it was.
fn never_falling(admin: SocketAddr, stop: &AtomicBool) -> usize {
    let (mut before, mut scrapes) = (BTreeMap::new(), 0);
    while !stop.load(Relaxed) {
        let counts = Metrics::parse(&Client::new(admin).get("/metrics").text()).counts();
        for (series, was) in &before {
            assert!(counts.get(series) >= Some(was), "{series} was {was}, is {:?}", counts.get(series));
        }
        (before, scrapes) = (counts, scrapes + 1);
        std::thread::sleep(Duration::from_millis(20));
    }
    scrapes
}
