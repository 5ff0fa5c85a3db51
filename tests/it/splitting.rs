//! Requests shared out over several pools: who goes where, who stays, and how a new version comes into its share.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::rig::{self, Ask, Gateway, Origin};

/// Pools of one origin each, and these routes.
fn pools(names: &[&str], routes: &str) -> String {
    let pool = |name: &&str| format!("  {name}: {{ health: {{ probe: off }}, origins: [ ${name} ] }}\n");
    format!("pools:\n{}routes:\n{routes}", names.iter().map(pool).collect::<String>())
}

fn split(gray: &str, stable: &str) -> String {
    let to = format!("[ {{ pool: gray, share: {gray} }}, {{ pool: stable, share: {stable} }} ]");
    pools(&["gray", "stable"], &format!("  - {{ name: web, split: {{ key: \"{{header:x-user}}\", to: {to} }} }}\n"))
}

fn user(n: u64) -> Ask {
    Ask::get(&format!("/{n}")).header("X-User", &format!("u{n}"))
}

/// The pool of each user.
fn places(gateway: &Gateway, users: u64) -> BTreeMap<u64, String> {
    let mut client = gateway.client();
    (0..users).map(|n| (n, client.send(&user(n)).unwrap().origin().to_owned())).collect()
}

#[test]
fn a_key_stays_with_its_pool_and_only_the_difference_moves() {
    const USERS: u64 = 1500;
    let all: Vec<Origin> = ["gray", "stable"].map(rig::origin).into();
    let mut gateway = rig::gateway(&split("10%", "90%")).origins(&all).start();
    let first = places(&gateway, USERS);
    assert_eq!(places(&gateway, USERS), first, "sticky");
    let grays = |places: &BTreeMap<u64, String>| places.values().filter(|pool| *pool == "gray").count();
    assert!((105..195).contains(&grays(&first)), "{} of {USERS} at 10%", grays(&first));
    // Where a part is missing the client's address stands in: one pool for all of them.
    let mut client = gateway.client();
    let nobody: Vec<_> = (0..50).map(|n| client.get(&format!("/nobody/{n}")).origin().to_owned()).collect();
    assert!(nobody.windows(2).all(|two| two[0] == two[1]), "{nobody:?}");
    let line = gateway.logged("/7");
    assert_eq!((line["route"].as_str(), line["pool"].as_str()), (Some("web"), first.get(&7).map(String::as_str)));
    let metrics = gateway.metrics();
    let counted = metrics.sum("moorgate_requests_total", &[("route", "web"), ("pool", "gray"), ("code", "200")]);
    assert!(counted >= 2.0 * grays(&first) as f64, "{counted}");
    assert_eq!(metrics.sum("moorgate_requests_total", &[("route", "web")]), 2.0 * USERS as f64 + 50.0);

    for n in [3, 7, 11] {
        let output = gateway.command(&["key", "--json", "-H", &format!("X-User: u{n}"), &format!("/{n}")]);
        let told: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        assert_eq!(told["pool"].as_str(), first.get(&n).map(String::as_str));
    }
    let output = gateway.command(&["key", "/7"]);
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(2), 0),
        "a client would have to stand in: {output:?}"
    );
    gateway.change(&split("30%", "70%"));
    let shares = serde_json::json!([{ "pool": "gray", "share": 0.3 }, { "pool": "stable", "share": 0.7 }]);
    assert_eq!(gateway.status()["splits"]["web"], serde_json::json!({ "key": "{header:x-user}", "to": shares }));
    let shown = gateway.command(&["status"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("\nroute web shared out by {header:x-user}: 30.0% gray, 70.0% stable\n"), "{shown}");
    let second = places(&gateway, USERS);
    let moved: Vec<_> = first.iter().filter(|(n, pool)| second[*n] != **pool).map(|(_, pool)| pool).collect();
    assert!(moved.iter().all(|pool| *pool == "stable"), "nobody goes back");
    assert!((225..375).contains(&moved.len()), "{} of {USERS} moved, for 20 points", moved.len());
    gateway.change(&split("0%", "100%"));
    assert_eq!(grays(&places(&gateway, 200)), 0);
    gateway.change(&split("10%", "90%"));
    assert_eq!(places(&gateway, 300), first.into_iter().take(300).collect(), "whatever was in between");
}

/// What the documents advise: testers first, by a header; then 5 %, 50 % and all, each step a reload under load.
#[test]
fn a_new_version_comes_into_its_share_without_one_failed_request() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let all: Vec<Origin> = ["gray", "stable"].map(rig::origin).into();
    let everybody = |gray: &str, stable: &str| {
        let to = format!("[ {{ pool: gray, share: {gray} }}, {{ pool: stable, share: {stable} }} ]");
        let testers = "  - { name: testers, match: { headers: { x-canary: \"1\" } }, pool: gray }\n";
        let split = format!("  - {{ name: web, split: {{ key: \"{{client_ip}}|{{header:x-user}}\", to: {to} }} }}\n");
        pools(&["gray", "stable"], &[testers, &split].concat())
    };
    let mut gateway = rig::gateway(&everybody("0%", "100%")).origins(&all).start();
    let asking = |n| {
        ASKED.store(n, Relaxed);
        user(n % 400)
    };
    let load = rig::load(gateway.address()).rate(600.0).asking(asking).start();
    let tester = || user(3).header("X-Canary", "1");
    let mut served = Vec::new();
    for (gray, stable) in [("0%", "100%"), ("5%", "95%"), ("50%", "50%"), ("100%", "0%")] {
        gateway.change(&everybody(gray, stable));
        load.further(20);
        assert_eq!(gateway.ask(&tester()).origin(), "gray");
        all.iter().for_each(Origin::forget);
        load.further(300);
        let [gray, stable] = [all[0].served(), all[1].served()].map(|count| count as f64);
        served.push(gray / (gray + stable));
    }
    load.stop().assert_all_good();
    assert!(ASKED.load(Relaxed) > 1000);
    let expected = [0.0..0.001, 0.01..0.12, 0.4..0.6, 0.99..1.001];
    assert!(served.iter().zip(&expected).all(|(part, expected)| expected.contains(part)), "{served:?}");
}

/// The time-outs and the retries of a route hold for each of its pools.
#[test]
fn a_pool_of_a_split_has_its_own_time_outs() {
    let all: Vec<Origin> = ["gray", "stable"].map(rig::origin).into();
    let text =
        split("50%", "50%").replacen("probe: off }", "probe: off }, timeouts: { connect: 50ms, read: 200ms }", 1);
    let gateway = rig::gateway(&text).origins(&all).start();
    all.iter().for_each(|origin| origin.script([rig::on("*").delay(600).answer(200)]));
    let found = places(&gateway, 8);
    let late = gateway.log().iter().filter(|line| line["status"] == 504).count();
    let gray = found.values().filter(|origin| origin.is_empty()).count();
    assert!(gray > 0 && gray < 8 && found.values().all(|origin| origin.is_empty() || origin == "stable"), "{found:?}");
    let lines = gateway.await_log(8);
    let late = late.max(lines.iter().filter(|line| line["status"] == 504 && line["pool"] == "gray").count());
    assert_eq!(late, gray, "{lines:?}");
}

/// `plan` knows what a log line says of the key, and says how many go to another pool.
#[test]
fn plan_tells_who_goes_to_another_pool() {
    let all: Vec<Origin> = ["gray", "stable"].map(rig::origin).into();
    let by_address = |gray, stable| split(gray, stable).replace("{header:x-user}", "{path}");
    let mut gateway = rig::gateway(&by_address("10%", "90%")).origins(&all).start();
    let first = places(&gateway, 300);
    gateway.await_log(300);
    let before = gateway.path("before.yaml");
    std::fs::copy(gateway.path("moorgate.yaml"), &before).unwrap();
    gateway.rewrite(&by_address("60%", "40%"));
    let log = gateway.path("access.log");
    let [before, log] = [&before, &log].map(|path| path.to_str().unwrap());
    let after = gateway.path("moorgate.yaml");
    let mut plan = Command::new(env!("CARGO_BIN_EXE_moorgate"));
    plan.args(["plan", "--json", "--from", before, "--to", after.to_str().unwrap(), "--access-log", log]);
    let output = plan.output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    gateway.reload();
    let second = places(&gateway, 300);
    let moved = first.iter().filter(|(n, pool)| second[*n] != **pool).count();
    assert!(moved > 100, "{moved}");
    assert_eq!(said["rerouted"], serde_json::json!([{ "from": "stable", "to": "gray", "requests": moved }]));
}
