//! What is a running gateway asked for? Its sample of recent keys: to plan a change by, to see what the change did, and
//! to find what is hot.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::rig::{self, Door, Gateway, Origin, keys};

const KEYS: usize = 1500;

fn pool(origins: &[Origin]) -> String {
    let list: Vec<String> =
        origins.iter().map(|o| format!("{{ address: \"{}\", name: \"{}\" }}", o.address, o.name)).collect();
    format!("pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, slow_start: off, origins: [{}] }} }}\n", list.join(", "))
}

/// Asks for the keys one after the other: where each went.
fn asked(gateway: &Gateway, keys: &[String]) -> BTreeMap<String, String> {
    let mut client = gateway.client();
    keys.iter().map(|key| (key.clone(), client.get(key).origin().to_owned())).collect()
}

fn known(gateway: &Gateway) -> Value {
    gateway.status()["pools"]["p"]["keys"].clone()
}

/// Waits until so many keys are known: a request is counted just after its answer.
fn await_known(gateway: &Gateway, distinct: usize) {
    rig::eventually(&format!("{distinct} keys"), || (known(gateway)["distinct"] == distinct).then_some(()));
}

fn command(gateway: &Gateway, arguments: &[&str]) -> Value {
    let output = gateway.command(arguments);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn p3_a_change_is_planned_by_the_live_traffic_and_then_observed() {
    let all: Vec<Origin> = ["a", "b", "c", "d"].map(rig::origin).into();
    let mut gateway = rig::gateway(&pool(&all[..3])).start();
    let all_keys = keys(KEYS);
    let before = asked(&gateway, &all_keys);
    await_known(&gateway, KEYS);
    assert_eq!(known(&gateway)["seen_once_ratio"], 1.0);
    gateway.rewrite(&pool(&all));
    let file = gateway.path("moorgate.yaml");
    let said = command(&gateway, &["plan", "--json", "--to", file.to_str().unwrap()]);
    let planned = &said["pools"]["p"];
    assert_eq!((&said["source"], &planned["keys"]), (&json!("sample"), &json!(KEYS)));
    assert!(planned["pairs"].as_array().unwrap().iter().all(|pair| pair["to"] == "d"));
    gateway.reload();
    gateway.await_state("p", "d", "up");
    assert_eq!(known(&gateway)["moved_ratio"], Value::Null, "nothing was asked for since");
    let after = asked(&gateway, &all_keys);
    let moved = all_keys.iter().filter(|key| before[*key] != after[*key]).count();
    assert_eq!(planned["moved"], json!(moved));
    let observed = moved as f64 / KEYS as f64;
    rig::eventually("what was observed", || (known(&gateway)["moved_ratio"] == observed).then_some(()));
    let shown = gateway.metrics().sum("moorgate_keys_moved_ratio", &[("kind", "observed")]);
    assert!((shown - observed).abs() < 1e-9, "{shown} and {observed}");
}

#[test]
fn p3_growth_from_8_to_12_moves_the_arcs_of_the_newcomers_and_nothing_else() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    let (all, newcomers): (Vec<Origin>, _) = (names.map(rig::origin).into(), &names[8..]);
    let mut gateway = rig::gateway(&pool(&all[..8])).start();
    let all_keys = keys(KEYS);
    let before = asked(&gateway, &all_keys);
    await_known(&gateway, KEYS);
    gateway.rewrite(&pool(&all));
    let file = gateway.path("moorgate.yaml");
    let planned = command(&gateway, &["plan", "--json", "--to", file.to_str().unwrap()])["pools"]["p"].clone();
    let ratio = |field: &str| planned[field].as_f64().unwrap_or_else(|| panic!("{field} in {planned}"));
    assert!((ratio("circle") - ratio("least_possible")).abs() < 1e-9 && ratio("excess") < 1e-9, "{planned}");
    let owned: f64 = newcomers.iter().map(|name| planned["shares"][name]["after"].as_f64().unwrap()).sum();
    assert!((ratio("circle") - owned).abs() < 1e-9, "what newcomers own is what moves: {owned} in {planned}");
    gateway.reload();
    newcomers.iter().for_each(|name| gateway.await_state("p", name, "up"));
    let after = asked(&gateway, &all_keys);
    let moved: Vec<&String> = all_keys.iter().filter(|key| before[*key] != after[*key]).collect();
    assert!(moved.iter().all(|key| newcomers.contains(&&*after[*key])), "none between old origins");
    let observed = moved.len() as f64 / KEYS as f64;
    assert!((ratio("moved_ratio") - observed).abs() < 0.01, "planned {planned}, observed {observed}");
    assert!((ratio("circle") - observed).abs() < 0.05, "a sample of so many keys is not further off: {observed}");
    rig::eventually("what was observed", || (known(&gateway)["moved_ratio"] == observed).then_some(()));
}

#[test]
fn keys_whose_owner_is_out_are_counted_as_displaced() {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    let gateway = rig::gateway(&pool(&all)).start();
    let all_keys = keys(600);
    let before = asked(&gateway, &all_keys);
    await_known(&gateway, 600);
    let displaced = |gateway: &Gateway| gateway.metrics().sum("moorgate_keys_displaced_ratio", &[("reason", "down")]);
    assert_eq!(displaced(&gateway), 0.0);
    all[0].door(Door::Refuse);
    gateway.await_state("p", "a", "down");
    asked(&gateway, &all_keys);
    let of_a = before.values().filter(|origin| *origin == "a").count() as f64 / 600.0;
    rig::eventually("the keys of a are elsewhere", || ((displaced(&gateway) - of_a).abs() < 1e-9).then_some(()));
    all[0].door(Door::Open);
    gateway.await_state("p", "a", "up");
    asked(&gateway, &all_keys);
    rig::eventually("all keys are home", || (displaced(&gateway) == 0.0).then_some(()));
}

#[test]
fn the_hottest_keys_are_told_and_too_few_keys_are_warned_of() {
    let all: Vec<Origin> = ["a", "b"].map(rig::origin).into();
    let gateway = rig::gateway(&pool(&all)).start();
    let hot: Vec<String> = (0..300).map(|n| format!("/obj/{}", if n % 3 == 0 { n % 30 } else { 1 })).collect();
    asked(&gateway, &hot);
    await_known(&gateway, 11);
    let said = rig::eventually("all of them are counted", || {
        Some(command(&gateway, &["key", "--top", "--json"])).filter(|said| said["top"][0]["requests"] == 200)
    });
    assert_eq!((&said["top"][0]["key"], said["top"].as_array().map(Vec::len)), (&json!("/obj/1"), Some(10)));
    let share = said["top"][0]["share"].as_f64().unwrap();
    assert!((share - 2.0 / 3.0).abs() < 1e-9, "{share}");
    let owner = gateway.get("/obj/1").origin().to_owned();
    assert_eq!(said["top"][0]["owner"], json!(owner));
    let shown = String::from_utf8(gateway.command(&["key", "--pool", "p", "--top"]).stdout).unwrap();
    assert!(shown.contains("warning: 11 distinct keys for 2 origins: "), "{shown}");
    assert!(shown.contains("/obj/1\n"), "{shown}");
    assert_eq!(gateway.command(&["key", "--top", "--pool", "q"]).status.code(), Some(2));
}
