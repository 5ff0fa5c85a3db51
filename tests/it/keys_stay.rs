//! Which keys move when the configuration changes? Only those that must, whatever the order, the history or the
//! replica.

use std::collections::BTreeMap;

use crate::rig::{self, Gateway, Origin, keys, map, shares};

const KEYS: usize = 2000;
const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins, slow_start: off } }\n";

fn origins(names: &[&str]) -> Vec<Origin> {
    names.iter().map(|name| rig::origin(name)).collect()
}

/// A pool with these origins in this order.
fn ordered(origins: &[&Origin]) -> String {
    let list: Vec<String> =
        origins.iter().map(|o| format!("{{ address: \"{}\", name: \"{}\" }}", o.address, o.name)).collect();
    POOL.replace("$origins", &format!("[{}]", list.join(", ")))
}

fn mapped(gateway: &Gateway) -> BTreeMap<String, String> {
    map(gateway.address(), &keys(KEYS))
}

/// Changes the file, and waits until every newcomer has been proven.
fn change(gateway: &mut Gateway, text: &str, names: &[&str]) {
    gateway.change(text);
    for name in names {
        gateway.await_state("p", name, "up");
    }
}

fn fingerprint(gateway: &Gateway) -> String {
    gateway.status()["pools"]["p"]["ring"]["fingerprint"].as_str().unwrap().to_owned()
}

#[test]
fn b1_an_added_origin_takes_keys_only_to_itself() {
    let all = origins(&["a", "b", "c", "d"]);
    let mut gateway = rig::gateway(&ordered(&[&all[0], &all[1], &all[2]])).start();
    let before = mapped(&gateway);
    change(&mut gateway, &ordered(&[&all[0], &all[1], &all[2], &all[3]]), &["d"]);
    let after = mapped(&gateway);
    let moved: Vec<&String> = keys_that_differ(&before, &after);
    assert!(moved.iter().all(|key| after[*key] == "d"), "a key moved between old origins");
    let share = moved.len() as f64 / KEYS as f64;
    assert!((0.20..0.30).contains(&share), "{share}");
    let told = gateway.status()["pools"]["p"]["ring"]["moved_ratio"].as_f64().unwrap();
    assert!((told - share).abs() < 0.05, "status says {told}, observed {share}");
    gateway.change(&format!("client_limits: {{ keepalive: 60s }}\n{}", ordered(&[&all[0], &all[1], &all[2], &all[3]])));
    assert_eq!(
        gateway.status()["pools"]["p"]["ring"]["moved_ratio"],
        told,
        "a reload that moves nothing says nothing new"
    );
}

#[test]
fn b2_a_removed_origin_moves_only_its_own_keys() {
    let all = origins(&["a", "b", "c"]);
    let mut gateway = rig::gateway(&ordered(&[&all[0], &all[1], &all[2]])).start();
    let before = mapped(&gateway);
    gateway.change(&ordered(&[&all[0], &all[1]]));
    let after = mapped(&gateway);
    let moved = keys_that_differ(&before, &after);
    assert!(moved.iter().all(|key| before[*key] == "c"), "a key of another origin moved");
    assert_eq!(moved.len(), before.values().filter(|origin| *origin == "c").count());
}

#[test]
fn b3_the_order_in_the_file_makes_no_difference() {
    let all = origins(&["a", "b", "c"]);
    let mut gateway = rig::gateway(&ordered(&[&all[0], &all[1], &all[2]])).start();
    let (before, was) = (mapped(&gateway), fingerprint(&gateway));
    gateway.change(&ordered(&[&all[2], &all[1], &all[0]]));
    assert_eq!(mapped(&gateway), before);
    assert_eq!(fingerprint(&gateway), was);
}

#[test]
fn b4_it_makes_no_difference_where_an_origin_is_inserted() {
    let all = origins(&["a", "b", "c", "d"]);
    let (a, b, c, d) = (&all[0], &all[1], &all[2], &all[3]);
    let mut gateway = rig::gateway(&ordered(&[a, b, c])).start();
    let mut maps = Vec::new();
    for order in [[d, a, b, c], [a, d, b, c], [a, b, c, d]] {
        change(&mut gateway, &ordered(&order), &["d"]);
        maps.push(mapped(&gateway));
        gateway.change(&ordered(&[a, b, c]));
    }
    assert!(maps.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn b5_two_gateways_agree_and_can_prove_it() {
    let all = origins(&["a", "b", "c"]);
    let one = rig::gateway(&ordered(&[&all[0], &all[1], &all[2]])).start();
    let two = rig::gateway(&ordered(&[&all[1], &all[2], &all[0]])).start();
    assert_eq!(mapped(&one), mapped(&two));
    assert_eq!(fingerprint(&one), fingerprint(&two));
    let shown = |gateway: &Gateway| gateway.metrics().values("moorgate_ring_info", "fingerprint");
    assert_eq!(shown(&one), [fingerprint(&one)]);
    assert_eq!(shown(&one), shown(&two));
}

#[test]
fn b7_a_named_origin_keeps_its_keys_when_its_address_changes() {
    let all = origins(&["a", "b", "c"]);
    let moved_to = rig::origin("a");
    let mut gateway = rig::gateway(&ordered(&[&all[0], &all[1], &all[2]])).start();
    let before = mapped(&gateway);
    gateway.change(&ordered(&[&moved_to, &all[1], &all[2]]));
    rig::eventually("it moved", || (gateway.origin("p", "a")["address"] == moved_to.address.to_string()).then_some(()));
    all[0].forget();
    assert_eq!(mapped(&gateway), before);
    assert_eq!(all[0].served(), 0, "the old address still gets requests");
    assert_eq!(moved_to.served(), before.values().filter(|origin| *origin == "a").count() as u64);
}

#[test]
fn b9_the_algorithm_in_force_is_shown_and_a_typo_in_it_refused() {
    let all = origins(&["a", "b"]);
    let mut gateway = rig::gateway(&ordered(&[&all[0], &all[1]])).start();
    let pool = gateway.status()["pools"]["p"].clone();
    assert_eq!((&pool["algorithm"], &pool["key"]), (&"hash".into(), &"{path}".into()), "{pool}");
    gateway.rewrite(&ordered(&[&all[0]]).replace("key:", "algorithm: ketmaa, key:"));
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 422);
    let text = answer.text();
    assert!(
        text.contains("pools.p.balance.algorithm") && text.contains("ketmaa") && text.contains("\"line\""),
        "{text}"
    );
    let check = gateway.command(&["check"]);
    assert_eq!(check.status.code(), Some(1));
    assert_eq!(gateway.status()["pools"]["p"]["ring"], pool["ring"]);
}

#[test]
fn b18_weight_0_is_refused_and_nothing_changes() {
    let all = origins(&["a", "b"]);
    let mut gateway = rig::gateway(&ordered(&[&all[0], &all[1]])).start();
    let before = mapped(&gateway);
    gateway.rewrite(&ordered(&[&all[0], &all[1]]).replace("name: \"a\"", "name: \"a\", weight: 0"));
    let answer = gateway.admin("POST", "/reload");
    assert_eq!(answer.status, 422);
    assert!(answer.text().contains("weight"), "{}", answer.text());
    assert!(gateway.running());
    assert_eq!(mapped(&gateway), before);
}

#[test]
fn weights_give_shares() {
    let all = origins(&["a", "b"]);
    let text = ordered(&[&all[0], &all[1]]).replace("name: \"a\"", "name: \"a\", weight: 3");
    let gateway = rig::gateway(&text).start();
    let share = shares(&mapped(&gateway))["a"];
    assert!((0.68..0.82).contains(&share), "{share}");
    let told = gateway.origin("p", "a")["share"].as_f64().unwrap();
    assert!((told - share).abs() < 0.04, "status says {told}, observed {share}");
}

fn keys_that_differ<'a>(before: &'a BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<&'a String> {
    before.iter().filter(|(key, origin)| after[*key] != **origin).map(|(key, _)| key).collect()
}
