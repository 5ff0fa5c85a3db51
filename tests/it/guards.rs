//! How much may a reload move, and how is it undone? Rules C3 to C5.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::rig::{self, Gateway, Origin, keys, map, on};

const GUARDED: &str =
    "pools: { p: { guard: { max_moved: 30% }, slow_start: off, balance: { key: \"{path}\" }, origins: $origins } }\n";
const FREE: &str = "pools: { p: { slow_start: off, balance: { key: \"{path}\" }, origins: $origins } }\n";

fn origins(names: &[&str]) -> Vec<Origin> {
    names.iter().map(|name| rig::origin(name)).collect()
}

/// The text with these origins alone.
fn of(text: &str, origins: &[&Origin]) -> String {
    let entry = |origin: &&Origin| format!("{{ address: \"{}\", name: \"{}\" }}", origin.address, origin.name);
    let all: Vec<String> = origins.iter().map(entry).collect();
    text.replace("$origins", &format!("[{}]", all.join(", ")))
}

fn all(origins: &[Origin]) -> Vec<&Origin> {
    origins.iter().collect()
}

fn version(gateway: &Gateway) -> u64 {
    gateway.status()["config"]["version"].as_u64().unwrap()
}

#[test]
fn c3_more_than_max_moved_is_refused_with_the_table_and_a_step_that_passes() {
    let all_origins = origins(&["a", "b", "c", "d", "e", "f"]);
    let mut gateway = rig::gateway(GUARDED).origins(&all_origins[..3]).start();
    let (before, was) = (map(gateway.address(), &keys(200)), version(&gateway));
    gateway.rewrite(&of(GUARDED, &all(&all_origins)));
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 409, "{}", answer.text());
    let told: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let p = &told["pools"]["p"];
    assert_eq!((&told["result"], &p["guard"]["refused"]), (&"refused".into(), &true.into()), "{told}");
    assert!(p["guard"]["moved"].as_f64().unwrap() > 0.3 && p["shares"]["f"]["before"] == 0.0, "{told}");
    let step = p["guard"]["step"]["origins"].as_array().unwrap();
    let newcomers: Vec<&str> = step.iter().map(|edit| edit["name"].as_str().unwrap()).collect();

    let output = gateway.command(&["reload"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(3), 0), "{said}");
    for part in ["pool p ", "is above max_moved 30.0%", " ORIGIN ", "a step that passes: add d", "nothing changed"] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    assert_eq!((map(gateway.address(), &keys(200)), version(&gateway)), (before, was));
    assert!(gateway.metrics().sum("moorgate_config_drift", &[]) > 0.5);
    assert!(gateway.metrics().sum("moorgate_reloads_total", &[("result", "refused")]) > 1.5);

    let stepped: Vec<&Origin> =
        all_origins.iter().take(3).chain(all_origins.iter().filter(|one| newcomers.contains(&&*one.name))).collect();
    let told = gateway.change(&of(GUARDED, &stepped));
    assert_eq!(told["version"], was + 1, "{told}");
    let moved = gateway.metrics().sum("moorgate_keys_moved_ratio", &[("pool", "p"), ("kind", "planned")]);
    assert!((moved - p["guard"]["step"]["moved"].as_f64().unwrap()).abs() < 1e-9, "{moved} as was foretold");

    gateway.rewrite(&of(GUARDED, &all(&all_origins)));
    assert_eq!(gateway.admin("POST", "/reload").status, 409, "small steps add up");
    assert_eq!(gateway.command(&["reload", "--allow-moved", "80%"]).status.code(), Some(0));
    assert_eq!(version(&gateway), was + 2);
    gateway.change(&of(GUARDED, &all(&all_origins[..3])));
}

#[test]
fn c3_a_dead_origin_may_be_removed_whatever_it_owns() {
    let mut all_origins = origins(&["a", "b"]);
    let mut gateway = rig::gateway(GUARDED).origins(&all_origins).start();
    gateway.rewrite(&of(GUARDED, &[&all_origins[0]]));
    assert_eq!(gateway.admin("POST", "/reload").status, 409);
    all_origins[1].kill();
    gateway.await_state("p", "b", "down");
    let told = gateway.reload();
    assert_eq!(told["result"], "applied", "{told}");
}

#[test]
fn c3_a_changed_key_counts_as_everything() {
    let all_origins = origins(&["a", "b"]);
    let mut gateway = rig::gateway(GUARDED).origins(&all_origins).start();
    gateway.rewrite(&GUARDED.replace("{path}", "{host}{path}"));
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 409, "{}", answer.text());
    let told: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((&told["pools"]["p"]["moved_ratio"], &told["pools"]["p"]["guard"]["step"]), (&1.0.into(), &().into()));
    assert_eq!(gateway.command(&["reload", "--allow-moved", "much"]).status.code(), Some(2));
    assert_eq!(gateway.command(&["reload", "--allow-moved", "100%"]).status.code(), Some(0));
}

#[test]
fn c4_a_rollback_puts_all_back_at_once_and_the_file_stays_refused() {
    let four = origins(&["a", "b", "c", "d"]);
    let mut gateway = rig::gateway(FREE).origins(&four).start();
    let (first, was) = (map(gateway.address(), &keys(300)), version(&gateway));
    let fingerprint = |gateway: &Gateway| gateway.status()["pools"]["p"]["ring"]["fingerprint"].clone();
    let ring = fingerprint(&gateway);
    let load = rig::load(gateway.address()).start();
    load.further(100);
    gateway.change(&of(FREE, &[&four[0], &four[1]]));
    gateway.await_state("p", "c", "parked");
    four.iter().skip(2).for_each(Origin::forget);
    assert_ne!(map(gateway.address(), &keys(300)), first);
    rig::eventually("parked origins are probed", || {
        four.iter().skip(2).all(|origin| origin.counts().connections > 0).then_some(())
    });
    assert_eq!(four[2].served() + four[3].served(), 0, "and get no request");

    let output = gateway.command(&["rollback"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("rolled back: version "), "{output:?}");
    assert_eq!(map(gateway.address(), &keys(300)), first, "with the very next request");
    let status = gateway.status();
    assert_eq!(fingerprint(&gateway), ring);
    let states: Vec<_> = status["pools"]["p"]["origins"].as_object().unwrap().values().map(|o| &o["state"]).collect();
    assert_eq!(states, ["up"; 4], "nobody has to join: {status}");
    let history: Vec<_> = status["config"]["history"].as_array().unwrap().iter().map(|text| &text["ended"]).collect();
    assert_eq!(history, [&().into(), &"rolled_back".into(), &serde_json::json!("replaced")], "{status}");
    assert!(status["config"]["history"][1]["moved_ratio"]["p"].as_f64().unwrap() > 0.2, "{status}");

    let refused = || gateway.metrics().sum("moorgate_reloads_total", &[("result", "refused")]);
    let before = refused();
    gateway.signal(Signal::SIGHUP);
    rig::eventually("the signal is refused", || (refused() > before).then_some(()));
    assert_eq!((version(&gateway), fingerprint(&gateway)), (was + 2, ring.clone()));
    assert!(gateway.metrics().sum("moorgate_config_drift", &[]) > 0.5);
    assert_eq!(gateway.command(&["rollback"]).status.code(), Some(1), "there is nothing before");
    assert_eq!(gateway.command(&["reload"]).status.code(), Some(0), "the command means it");
    assert_ne!(fingerprint(&gateway), ring);
    load.stop().assert_all_good();
}

#[test]
fn c4_a_rollback_brings_whole_pools_and_routes_back_and_no_guard_is_asked() {
    let two = origins(&["a", "b"]);
    let text = "pools:\n  p: { guard: { max_moved: 1% }, origins: [$a] }\n  q: { origins: [$b] }\n\
                routes: [ { match: { path: { prefix: /q } }, pool: q }, { pool: p } ]\n";
    let mut gateway = rig::gateway(text).origins(&two).start();
    assert_eq!((gateway.get("/q").origin(), gateway.get("/p").origin()), ("b", "a"));
    gateway.rewrite("pools: { p: { guard: { max_moved: 1% }, origins: [$a, $b] } }\n");
    assert_eq!(gateway.command(&["reload", "--allow-moved", "100%"]).status.code(), Some(0));
    let told: serde_json::Value = serde_json::from_slice(&gateway.admin("POST", "/rollback").body).unwrap();
    assert_eq!((&told["result"], &told["joining"]), (&"rolled_back".into(), &serde_json::json!({})), "{told}");
    assert_eq!((gateway.get("/q").origin(), gateway.get("/p").origin()), ("b", "a"));
}

#[test]
fn c4_a_change_that_is_not_confirmed_goes_back_by_itself() {
    let names: Vec<String> = (0..12).map(|n| format!("o{n}")).collect();
    let twelve = origins(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut gateway = rig::gateway(FREE).origins(&twelve).start();
    let first = map(gateway.address(), &keys(400));
    let load = rig::load(gateway.address()).start();
    load.further(50);
    gateway.rewrite(&of(FREE, &all(&twelve[..6])));
    let output = gateway.command(&["reload", "--confirm", "2s"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let at = Instant::now();
    assert!(String::from_utf8_lossy(&output.stdout).contains("moorgate confirm"), "{output:?}");
    assert_eq!(gateway.admin("POST", "/reload").status, 409, "one change at a time");
    assert_eq!(gateway.command(&["reload"]).status.code(), Some(1));
    let ended = |gateway: &Gateway| gateway.status()["config"]["history"][1]["ended"].clone();
    rig::eventually("it goes back", || (ended(&gateway) == "reverted").then_some(()));
    assert!(at.elapsed() > Duration::from_millis(1900), "{:?}", at.elapsed());
    assert_eq!(map(gateway.address(), &keys(400)), first);
    let status = gateway.status();
    let states = status["pools"]["p"]["origins"].as_object().unwrap().values();
    assert!(states.into_iter().all(|origin| origin["state"] == "up"), "{status}");
    assert!(status["config"]["confirm"].is_null(), "{status}");
    gateway.signal(Signal::SIGHUP);
    let declined = || gateway.metrics().sum("moorgate_reloads_total", &[("result", "refused")]) > 2.5;
    rig::eventually("the signal is refused", || declined().then_some(()));
    assert_eq!(map(gateway.address(), &keys(400)), first);
    load.stop().assert_all_good();
}

#[test]
fn c4_a_confirm_in_time_keeps_the_change_and_a_rollback_ends_the_wait() {
    let three = origins(&["a", "b", "c"]);
    let mut gateway = rig::gateway(FREE).origins(&three).start();
    assert_eq!(gateway.command(&["confirm"]).status.code(), Some(1), "nothing waits");
    gateway.rewrite(&of(FREE, &all(&three[..2])));
    assert_eq!(gateway.admin("POST", "/reload?confirm=1h").status, 200);
    let left = |gateway: &Gateway| gateway.status()["config"]["confirm"]["left"].as_f64();
    rig::eventually("the time runs", || left(&gateway).filter(|left| *left > 3000.0));
    assert_eq!(gateway.command(&["confirm"]).status.code(), Some(0));
    assert_eq!(left(&gateway), None);
    gateway.rewrite(&of(FREE, &all(&three)));
    assert_eq!(gateway.admin("POST", "/reload?confirm=1h").status, 200);
    assert_eq!(gateway.command(&["rollback"]).status.code(), Some(0));
    assert_eq!((left(&gateway), gateway.command(&["confirm"]).status.code()), (None, Some(1)));
    assert_eq!(gateway.status()["pools"]["p"]["origins"]["c"]["state"], "parked");
}

#[test]
fn c1_a_reload_that_waits_returns_when_all_have_joined_or_says_who_has_not() {
    let mut three = origins(&["a", "b", "c"]);
    three[2].kill();
    let mut gateway = rig::gateway(FREE).origins(&three[..1]).start();
    gateway.rewrite(&of(FREE, &all(&three[..2])));
    let output = gateway.command(&["reload", "--wait", "20s"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(gateway.origin("p", "b")["state"], "up", "when it returns");
    gateway.rewrite(&of(FREE, &all(&three)));
    let output = gateway.command(&["reload", "--wait", "500ms"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.trim()), (Some(1), "moorgate: still joining after 500ms: p/c"), "{said}");
}

/// A pool whose change may go back for what keys that moved suffer.
const TRIED: &str = "pools: { p: { slow_start: off, balance: { key: \"{path}\" }, guard: { max_moved: 100%, error_ratio: 20%, latency: off }, \
                     origins: $origins } }\nroutes: [ { pool: p, retry: { tries: 1 } } ]\n";

#[test]
fn c5_a_change_goes_back_when_keys_that_moved_fail_and_others_do_not() {
    let three = origins(&["a", "b", "c"]);
    three[2].script([on("*").answer(500)]);
    let mut gateway = rig::gateway(TRIED).origins(&three[..2]).start();
    let first = map(gateway.address(), &keys(200));
    gateway.rewrite(&of(TRIED, &all(&three)));
    assert_eq!(gateway.admin("POST", "/reload?confirm=1h").status, 200);
    let load = rig::load(gateway.address()).start();
    let ended = |gateway: &Gateway| gateway.status()["config"]["history"][1].clone();
    rig::eventually("it goes back", || (ended(&gateway)["ended"] == "reverted").then_some(()));
    let why = ended(&gateway)["why"].as_str().unwrap().to_owned();
    assert!(why.starts_with("pool p: errors of keys that moved: "), "{why}");
    load.stop();
    assert_eq!(map(gateway.address(), &keys(200)), first);
}

#[test]
fn c5_nothing_goes_back_by_itself_when_all_keys_fail_alike() {
    let three = origins(&["a", "b", "c"]);
    let mut gateway = rig::gateway(TRIED).origins(&three[..2]).start();
    map(gateway.address(), &keys(200));
    gateway.rewrite(&of(TRIED, &all(&three)));
    assert_eq!(gateway.admin("POST", "/reload?confirm=1h").status, 200);
    gateway.await_state("p", "c", "up");
    three.iter().for_each(|origin| origin.script([on("*").answer(500)]));
    let load = rig::load(gateway.address()).start();
    load.further(400);
    let note = || gateway.status()["config"]["confirm"]["note"].as_str().map(str::to_owned);
    let note = rig::eventually("it is said", note);
    assert!(note.contains("not by the change alone"), "{note}");
    assert_eq!(gateway.origin("p", "c")["state"], "up");
    assert_eq!(gateway.command(&["confirm"]).status.code(), Some(0));
}

#[test]
fn c4_the_time_to_confirm_begins_when_the_last_newcomer_has_all_of_its_share() {
    let three = origins(&["a", "b", "c"]);
    let text = FREE.replace("slow_start: off", "slow_start: { window: 6s, hold: off }");
    let mut gateway = rig::gateway(&text).origins(&three[..2]).start();
    gateway.rewrite(&of(&text, &all(&three)));
    assert_eq!(gateway.admin("POST", "/reload?confirm=1h").status, 200);
    gateway.await_state("p", "c", "ramping");
    // Asked in this order: it may be there by the time of the second answer, and not of the first.
    let (confirm, state) = (gateway.status()["config"]["confirm"].clone(), gateway.origin("p", "c")["state"].clone());
    assert!(state != "ramping" || confirm["left"].is_null() && confirm["waits_for"][0] == "p/c", "{confirm}");
    gateway.await_state("p", "c", "up");
    let left = || gateway.status()["config"]["confirm"]["left"].as_f64();
    rig::eventually("the time runs", || left().filter(|left| *left > 3590.0));
}

#[test]
fn c5_nothing_grows_while_all_keys_fail_alike() {
    let three = origins(&["a", "b", "c"]);
    let text = TRIED.replace("slow_start: off", "slow_start: { window: 10m, from: 50%, hold: off }");
    let mut gateway = rig::gateway(&text).origins(&three[..2]).start();
    map(gateway.address(), &keys(200));
    gateway.rewrite(&of(&text, &all(&three)));
    assert_eq!(gateway.admin("POST", "/reload?confirm=1h").status, 200);
    gateway.await_state("p", "c", "ramping");
    three.iter().for_each(|origin| origin.script([on("*").answer(500)]));
    let load = rig::load(gateway.address()).start();
    let why = || gateway.origin("p", "c")["why"].as_str().unwrap().to_owned();
    rig::eventually("growth is held", || why().starts_with("held: ").then_some(()));
    let note = || gateway.status()["config"]["confirm"]["note"].as_str().map(str::to_owned);
    rig::eventually("it is said", note);
    rig::eventually("and for that", || why().contains("keys that moved and keys that stayed").then_some(()));
    load.stop();
}
