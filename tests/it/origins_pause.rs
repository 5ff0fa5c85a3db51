//! What when origins, or the gateway itself, stand still for a while? Nobody is blamed for what another did.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::origins_fail::{all_good, pool, three};
use crate::rig::{self, Origin, keys, map};

#[test]
fn h6_a_gateway_that_was_stopped_under_load_blames_nobody() {
    let (all, gateway) = three("");
    let ejections = || gateway.metrics().sum("moorgate_ejections_total", &[]);
    let load = rig::load(gateway.address()).rate(100.0).start();
    load.further(50);
    gateway.signal(nix::sys::signal::Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(10));
    gateway.signal(nix::sys::signal::Signal::SIGCONT);
    for origin in &all {
        origin.forget();
        origin.await_requests("/healthz", 3);
    }
    load.further(50);
    load.stop().assert_all_good();
    assert!(ejections() < 0.5);
    assert!(all.iter().all(|origin| gateway.origin("p", &origin.name)["state"] == "up"));
}

/// Time that passed while the gateway itself stood still is no time an origin was silent: the one probe that was under
/// way would be enough to put it out.
#[test]
fn h6_a_probe_that_ran_out_while_the_gateway_stood_still_is_asked_again() {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    let probe = "health: { probe: { interval: 200ms, timeout: 4s, http: { path: /healthz }, rise: 1, fall: 1 } }";
    let text = format!("pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, {probe}, origins: $origins }} }}\n");
    let gateway = rig::gateway(&text).origins(&all).start();
    all[0].freeze();
    // Three times the interval: a probe of it is under way, and has time left.
    std::thread::sleep(Duration::from_millis(600));
    gateway.signal(nix::sys::signal::Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(5));
    gateway.signal(nix::sys::signal::Signal::SIGCONT);
    all[0].thaw();
    all[0].forget();
    all[0].await_requests("/healthz", 3);
    assert!(gateway.metrics().sum("moorgate_ejections_total", &[]) < 0.5);
    assert_eq!(gateway.origin("p", "a")["state"], "up");
}

#[test]
fn h2_a_frozen_origin_is_left_and_serves_again_when_it_thaws() {
    let (all, gateway) = three("");
    all[0].freeze();
    let load = rig::load(gateway.address()).clients(4).rate(100.0).start();
    gateway.await_state("p", "a", "down");
    let before = gateway.metrics().sum("moorgate_attempts_total", &[("origin", "a")]);
    load.further(200);
    let after = gateway.metrics().sum("moorgate_attempts_total", &[("origin", "a")]);
    assert!(after - before < 8.5, "{} tries after it was out", after - before);
    all[0].thaw();
    gateway.await_state("p", "a", "up");
    load.stop();
    assert!(all_good(&gateway, 100));
}

/// The second incident.
#[test]
fn h2_h3_ten_origins_that_pause_in_step_are_left_as_they_are() {
    let all: Vec<Origin> = (0..10).map(|number| rig::origin(&format!("o{number}"))).collect();
    let text = pool("").replace("slow_start", "timeouts: { connect: 200ms, read: 1s }, slow_start");
    let gateway = rig::gateway(&text).origins(&all).start();
    let before = map(gateway.address(), &keys(300));
    let load = rig::load(gateway.address()).clients(32).rate(200.0).start();
    load.further(100);
    all.iter().for_each(Origin::freeze);
    // Several times what makes one of them due out.
    std::thread::sleep(Duration::from_millis(2500));
    let tally = load.stop();
    all.iter().for_each(Origin::thaw);
    assert!(tally.by_status.get(&504).is_some_and(|late| *late > 10), "that was no pause: {tally:?}");
    assert_eq!(map(gateway.address(), &keys(300)), before, "with the very next requests");
    assert!(all_good(&gateway, 300));
    for origin in &all {
        gateway.await_state("p", &origin.name, "up");
    }
    assert!(gateway.metrics().sum("moorgate_ejections_total", &[]) < 0.5, "{}", gateway.output());
}

/// The kernel takes connections for a process that hangs: requests tell what probes over TCP cannot. With the times that
/// hold when none is written, an origin that hangs costs answers for as long as one may take, and then none.
#[test]
fn h2_an_origin_that_hangs_is_left_within_its_time_and_waited_for_though_its_probes_pass() {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    let gateway = rig::gateway("pools: { p: { origins: $origins } }\n").origins(&all).start();
    all[0].freeze();
    let (frozen, load) = (Instant::now(), rig::load(gateway.address()).clients(24).rate(60.0).start());
    let out = || (gateway.origin("p", "a")["state"] == "down").then(|| gateway.origin("p", "a")["why"].to_string());
    let why = rig::within(2 * rig::PATIENCE, out).expect("it is out");
    let (took, left) = (frozen.elapsed(), Timestamp::now());
    assert!(why.contains("timed out"), "{why}");
    assert!(took >= Duration::from_secs(10), "{took:?} is too soon");
    assert!(took < Duration::from_secs(16), "{took:?}: the first request timed out after ten seconds");
    load.further(120);
    assert_eq!(gateway.origin("p", "a")["state"], "down", "its probes over TCP pass, and count for nothing yet");
    all[0].thaw();
    let tally = load.stop();
    assert!(tally.failed.is_empty() && tally.by_status.keys().eq([&200, &504]), "{tally:?}");
    let begun = |line: &Value| {
        let ended: Timestamp = line["time"].as_str().unwrap().parse().unwrap();
        ended - SignedDuration::from_secs_f64(line["request_time"].as_f64().unwrap())
    };
    let late =
        gateway.await_log(tally.sent() as usize).into_iter().find(|line| line["status"] == 504 && begun(line) > left);
    assert_eq!(late, None, "it was out by then");
    let (mut client, mut sent) = (gateway.client(), 0);
    let serves = rig::within(2 * rig::PATIENCE, || {
        sent += 1;
        (client.get(&format!("/again/{sent}")).origin() == "a").then_some(())
    });
    assert_eq!(serves, Some(()), "it serves again");
    // It waits for ten seconds; probes by themselves would need four.
    let waited = Timestamp::now().duration_since(left);
    assert!(waited >= SignedDuration::from_secs(8), "{waited:?}: probes alone brought it back");
}
