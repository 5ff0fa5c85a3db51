//! Overload is not death: what does one get that has more to do than it can, and what one whose requests fail?

use std::time::Duration;

use crate::rig::{self, Ask, Gateway, Origin, Rule, Step, on};

/// Windows of five seconds take their time, and a busy machine as well.
const WINDOWS: Duration = Duration::from_secs(90);

fn origins(count: usize) -> Vec<Origin> {
    (0..count).map(|number| rig::origin(&format!("o{number}"))).collect()
}

/// A pool of keys with this section about overload.
fn pool(overload: &str) -> String {
    let health = format!("{{ probe: {{ http: {{ path: /healthz }} }}, overload: {overload} }}");
    format!("pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, health: {health}, origins: $origins }} }}\n")
}

/// A pool without a key, with outliers.
fn outliers(section: &str) -> String {
    let health = format!("{{ probe: {{ http: {{ path: /healthz }} }}, outlier_detection: {section} }}");
    format!(
        "pools: {{ p: {{ balance: {{ algorithm: p2c }}, slow_start: off, health: {health}, origins: $origins }} }}\n"
    )
}

/// A third of the keys is answered so.
fn a_third(status: u16) -> [Rule; 3] {
    ["/obj/1*", "/obj/2*", "/obj/3*"].map(|prefix| on(prefix).answer(status))
}

fn upgraded(gateway: &Gateway) {
    let output = gateway.upgrade(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

fn effective(gateway: &Gateway, name: &str) -> f64 {
    gateway.origin("p", name)["weight"]["effective"].as_f64().unwrap()
}

fn states(gateway: &Gateway, origins: &[Origin]) -> Vec<String> {
    let state = |one: &Origin| gateway.origin("p", &one.name)["state"].as_str().unwrap().to_owned();
    origins.iter().map(state).collect()
}

/// State and effective weight of each but this one.
fn others(gateway: &Gateway, all: &[Origin], but: &str) -> Vec<String> {
    let shown = |one: &Origin| {
        let shown = gateway.origin("p", &one.name);
        format!("{} {}", shown["state"].as_str().unwrap(), shown["weight"]["effective"].as_f64().unwrap())
    };
    all.iter().filter(|one| one.name != but).map(shown).collect()
}

fn await_state(gateway: &Gateway, name: &str, state: &str) {
    let stands = || (gateway.origin("p", name)["state"] == state).then_some(());
    rig::within(WINDOWS, stands).unwrap_or_else(|| panic!("{name} is not {state}: {}", gateway.origin("p", name)));
}

/// Does so many requests at once, each in this time, and answers whatever is beyond them 503 at once: what it can do a
/// second is one by the other.
fn works(at_once: u64, ms: u64) -> [Rule; 2] {
    [on("*").above(at_once).answer(503), on("*").delay(ms).answer(200)]
}

#[test]
fn h7_one_of_ten_at_40_percent_speed_sheds_a_part_and_takes_it_back() {
    let all = origins(10);
    all.iter().for_each(|one| one.script(works(12, 240)));
    let gateway = rig::gateway(&pool("{ recover: 1s }")).origins(&all).start();
    // 25 a second for each of them, half of what it can do.
    let load = rig::load(gateway.address()).clients(96).rate(250.0).apart().start();
    all[3].script(works(12, 600));
    await_state(&gateway, "o3", "overloaded");
    let shown = gateway.origin("p", "o3");
    let effective = effective(&gateway, "o3");
    assert!((0.05..0.95).contains(&effective), "{shown}");
    assert!(shown["share"].as_f64().unwrap() < 0.1, "{shown}");
    let why = shown["why"].as_str().unwrap();
    assert!(why.contains("% of what it answered said that it has too much to do"), "{why}");
    assert_eq!(others(&gateway, &all, "o3"), ["up 1"; 9]);
    let displaced = || gateway.metrics().sum("moorgate_keys_displaced_ratio", &[("reason", "overload")]);
    rig::eventually("keys that are elsewhere", || (displaced() > 0.0).then_some(()));
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("moorgate_origins", &[("pool", "p"), ("state", "overloaded")]), 1.0);
    let weight = |kind| metrics.sum("moorgate_origin_weight", &[("origin", "o3"), ("kind", kind)]);
    assert_eq!(weight("configured"), 1.0);
    assert!((0.05..0.95).contains(&weight("effective")), "{}", weight("effective"));
    assert_eq!(metrics.sum("moorgate_ejections_total", &[]), 0.0, "overload is not death");
    all[3].script(works(12, 240));
    await_state(&gateway, "o3", "up");
    assert_eq!(others(&gateway, &all, ""), ["up 1"; 10]);
    assert!(gateway.output().contains("origin o3 is overloaded, was up"), "{}", gateway.output());
    let tally = load.stop();
    assert!(tally.failed.is_empty() && tally.by_status.keys().all(|status| [200, 503].contains(status)), "{tally:?}");
}

#[test]
fn h7_b42_a_pool_with_more_load_than_it_can_do_is_left_as_it_is() {
    let all = origins(4);
    all.iter().for_each(|one| one.script(works(8, 80)));
    let gateway = rig::gateway(&pool("{ recover: 1s }")).origins(&all).start();
    let load = rig::load(gateway.address()).clients(64).rate(520.0).apart().start();
    // One of its windows at least is full of it.
    (0..2).for_each(|_| load.further(2600));
    assert_eq!(others(&gateway, &all, ""), ["up 1"; 4], "nobody sheds anything");
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("moorgate_keys_displaced_ratio", &[("reason", "overload")]), 0.0);
    assert_eq!(metrics.sum("moorgate_ejections_total", &[]), 0.0, "overload is not death");
    let tally = load.stop();
    let count = |status: u16| tally.by_status.get(&status).copied().unwrap_or(0);
    let (good, busy, sent) = (count(200), count(503), tally.sent());
    assert!(busy > sent / 50, "that was no overload: {tally:?}");
    assert!(good as f64 / sent as f64 > 0.7 / 1.3 && good + busy == sent, "{tally:?}");
    let load = rig::load(gateway.address()).rate(100.0).apart().start();
    load.further(200);
    load.stop().assert_all_good();
}

/// A pool for each of these, asked for by its name: the text of its section beside the origins, and the origins.
fn pools(of: &[(&str, &str, &[Origin])]) -> String {
    let entry = |one: &Origin| format!("{{ address: \"${}\", name: {} }}", one.name, one.name);
    let list = |all: &[Origin]| all.iter().map(entry).collect::<Vec<_>>().join(", ");
    let section =
        |(name, text, all): &(&str, &str, &[Origin])| format!("  {name}: {{ {text}, origins: [ {} ] }}\n", list(all));
    let route = |(name, ..): &(&str, &str, &[Origin])| {
        format!("  - {{ match: {{ path: {{ prefix: /{name}/ }} }}, pool: {name} }}\n")
    };
    let (sections, routes) = (of.iter().map(section).collect::<String>(), of.iter().map(route).collect::<String>());
    format!("pools:\n{sections}routes:\n{routes}")
}

#[test]
fn h7_429_of_traffic_slow_answers_and_time_outs() {
    let all = origins(12);
    let (said, slow, late) = (&all[..4], &all[4..8], &all[8..]);
    let section = |more: &str| format!("balance: {{ key: \"{{path}}\" }}, {more}");
    let health =
        |overload: &str| format!("health: {{ probe: {{ http: {{ path: /healthz }} }}, overload: {overload} }}");
    let short = "timeouts: { connect: 200ms, read: 400ms }";
    let text = pools(&[
        ("said", &section(&health("{ recover: 300s }")), said),
        ("slow", &section(&health("{ recover: 1s, slow: 3x }")), slow),
        ("late", &section(&format!("{short}, {}", health("{ recover: 300s }"))), late),
    ]);
    let gateway = rig::gateway(&text).origins(&all).start();
    // The keys of each in no order, so that each window has its part of those that are answered badly.
    let asked = |n: u64| Ask::get(&format!("/{}/{}", ["said", "slow", "late"][n as usize % 3], n / 3 * 7919 % 1000));
    let load = rig::load(gateway.address()).clients(96).rate(450.0).apart().asking(asked).start();
    let said_to = |digits: [u8; 2], status| digits.map(|digit| on(&format!("/said/{digit}*")).answer(status));
    said[1].script([said_to([1, 2], 429), said_to([3, 4], 429)].concat());
    // Far from what a busy machine makes of an answer.
    slow.iter().for_each(|one| one.script([on("/slow/*").delay(40).answer(200)]));
    slow[1].script([on("/slow/*").delay(600).answer(200)]);
    late[1].script([1, 2, 3].map(|digit| on(&format!("/late/{digit}*")).then(Step::Hang)));
    // So few that there is room for another.
    said[2].script(said_to([1, 2], 503));
    let state = |pool: &str, one: &Origin| gateway.origin(pool, &one.name)["state"].clone();
    let overloaded = |pool: &str, one: &Origin| {
        let found = rig::within(WINDOWS, || (state(pool, one) == "overloaded").then_some(()));
        assert!(found.is_some(), "{} of {pool} is not: {}", one.name, gateway.origin(pool, &one.name));
    };
    overloaded("slow", &slow[1]);
    overloaded("late", &late[1]);
    overloaded("said", &said[2]);
    assert_eq!(state("said", &said[1]), "up", "a 429 is about a client");
    for (pool, one) in [("slow", &slow[1]), ("late", &late[1]), ("said", &said[2])] {
        let pool = gateway.status()["pools"][pool]["origins"].clone();
        let pool = pool.as_object().unwrap();
        let shed: Vec<_> =
            pool.iter().filter(|(_, shown)| shown["state"] == "overloaded").map(|(name, _)| name).collect();
        assert_eq!(shed, [&one.name]);
    }
    // The same word to a probe is about the origin.
    said[1].script([on("/healthz").answer(429)]);
    overloaded("said", &said[1]);
    slow[1].script([on("/slow/*").delay(40).answer(200)]);
    let back = rig::within(WINDOWS, || (state("slow", &slow[1]) == "up").then_some(()));
    assert!(back.is_some(), "{}", gateway.origin("slow", &slow[1].name));
    assert_eq!(gateway.metrics().sum("moorgate_ejections_total", &[]), 0.0, "overload is not death");
    let tally = load.stop();
    let known = |status: &u16| [200, 429, 503, 504].contains(status);
    assert!(tally.failed.is_empty() && tally.by_status.keys().all(known), "{tally:?}");
}

#[test]
fn p4_what_was_shed_and_who_was_put_out_stay_so_over_a_reload_and_an_upgrade() {
    let all = origins(5);
    let text = pool("{ recover: 300s }");
    let mut gateway = rig::gateway(&text).origins(&all[..4]).process("drain", "{ timeout: 1s }").start();
    let load = rig::load(gateway.address()).apart().start();
    all[1].script(a_third(503));
    await_state(&gateway, "o1", "overloaded");
    all[1].script([]);
    drop(load);
    let before = effective(&gateway, "o1");
    let stands = |gateway: &Gateway| {
        let shown = gateway.origin("p", "o1");
        assert_eq!((shown["state"].as_str(), effective(gateway, "o1")), (Some("overloaded"), before), "{shown}");
    };
    gateway.knows(&all[4..]);
    gateway.change(&text);
    stands(&gateway);
    upgraded(&gateway);
    stands(&gateway);
    gateway.change(&pool("off"));
    await_state(&gateway, "o1", "up");

    let text = outliers("{ cooldown: 300s }");
    let mut gateway = rig::gateway(&text).origins(&all[..4]).process("drain", "{ timeout: 1s }").start();
    let load = rig::load(gateway.address()).start();
    all[1].script([on("*").answer(500)]);
    await_state(&gateway, "o1", "down");
    gateway.knows(&all[4..]);
    gateway.change(&text);
    load.further(200);
    assert_eq!(gateway.origin("p", "o1")["state"], "down");
    let served = all[1].served();
    upgraded(&gateway);
    load.further(200);
    assert_eq!((&gateway.origin("p", "o1")["state"], all[1].served()), (&"down".into(), served));
    all[1].script([]);
}

#[test]
fn an_outlier_is_put_out_within_the_floor_and_comes_back() {
    let all = origins(4);
    let gateway = rig::gateway(&outliers("{ failures: 5, cooldown: 2s }")).origins(&all).start();
    let load = rig::load(gateway.address()).start();
    all[0].script([on("*").answer(500)]);
    await_state(&gateway, "o0", "down");
    let metrics = gateway.metrics();
    assert!(metrics.sum("moorgate_ejections_total", &[("origin", "o0"), ("reason", "failures")]) >= 1.0);
    assert_eq!(states(&gateway, &all)[1..], ["up"; 3]);
    all[0].script([]);
    await_state(&gateway, "o0", "up");
    let tally = load.stop();
    assert!(tally.failed.is_empty() && tally.by_status.keys().all(|status| [200, 500].contains(status)), "{tally:?}");
}
