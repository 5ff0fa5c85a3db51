//! What happens to clients when a pool is replaced as a whole, or an origin moves? Nothing: what was there serves until
//! what comes is proven and has its share.

use std::time::Duration;

use crate::rig::{self, Door, Gateway, Origin, keys, map};

const KEYS: usize = 400;

fn pool(more: &str) -> String {
    let probe = "{ interval: 200ms, timeout: 5s, http: { path: /healthz } }";
    format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, health: {{ probe: {probe} }}, {more}, origins: $list }} }}\n"
    )
}

fn list(text: &str, origins: &[Origin]) -> String {
    let one = |origin: &Origin| format!("{{ address: \"{}\", name: {} }}", origin.address, origin.name);
    text.replace("$list", &format!("[{}]", origins.iter().map(one).collect::<Vec<_>>().join(", ")))
}

fn origins(names: &[&str]) -> Vec<Origin> {
    names.iter().map(|name| rig::origin(name)).collect()
}

fn owned(gateway: &Gateway, origins: &[Origin]) -> usize {
    let map = map(gateway.address(), &keys(KEYS));
    map.values().filter(|owner| origins.iter().any(|origin| origin.name == **owner)).count()
}

/// Who belongs to the pool, and how it stands; the parked ones do not.
fn states(gateway: &Gateway) -> Vec<(String, String)> {
    let status = gateway.status();
    let all = status["pools"]["p"]["origins"].as_object().unwrap();
    let states = all.iter().map(|(name, origin)| (name.clone(), origin["state"].as_str().unwrap().to_owned()));
    states.filter(|(_, state)| state != "parked").collect()
}

#[test]
fn j3_a_pool_is_replaced_step_by_step_and_nothing_fails() {
    let (old, new) = (origins(&["a", "b", "c"]), origins(&["d", "e", "f"]));
    let text = pool("slow_start: { window: 6s, hold: off }");
    let mut gateway = rig::gateway(&list(&text, &old)).start();
    let load = rig::load(gateway.address()).clients(4).rate(200.0).start();
    let told = gateway.change(&list(&text, &new));
    assert_eq!(told["joining"]["p"], serde_json::json!(["d", "e", "f"]), "{told}");
    let mut grown = Vec::new();
    rig::eventually("the old ones are gone", || {
        grown.push(owned(&gateway, &new));
        (states(&gateway).len() == 3).then_some(())
    });
    grown.push(owned(&gateway, &new));
    assert!(grown.windows(2).all(|pair| pair[0] <= pair[1]), "a key went back: {grown:?}");
    assert!(grown.len() > 2 && grown[0] < KEYS / 2, "it was replaced in one step: {grown:?}");
    assert_eq!(grown.last(), Some(&KEYS));
    old.iter().for_each(Origin::forget);
    load.further(200);
    load.stop().assert_all_good();
    assert!(old.iter().all(|origin| origin.served() == 0), "an old one still gets requests");
    assert!(states(&gateway).iter().all(|(_, state)| state == "up"), "{:?}", states(&gateway));
}

#[test]
fn j3_a_replacement_that_never_answers_is_undone() {
    let (old, new) = (origins(&["a", "b", "c"]), origins(&["d", "e", "f"]));
    new.iter().for_each(|origin| origin.door(Door::Refuse));
    let text = pool("slow_start: { window: 3s }");
    let mut gateway = rig::gateway(&list(&text, &old)).start();
    let (before, digest) = (map(gateway.address(), &keys(KEYS)), gateway.status()["config"]["digest"].clone());
    let load = rig::load(gateway.address()).clients(2).rate(50.0).start();
    gateway.change(&list(&text, &new));
    assert_eq!(map(gateway.address(), &keys(KEYS)), before, "they serve on");
    let shown = gateway.status()["pools"]["p"]["origins"].clone();
    assert_eq!((&shown["a"]["state"], &shown["d"]["state"]), (&"leaving".into(), &"joining".into()), "{shown}");
    assert_eq!(shown["d"]["why"], "0 of 2 good probes");
    let undone = rig::within(Duration::from_secs(100), || (states(&gateway).len() == 3).then_some(()));
    assert!(undone.is_some(), "{:?}", states(&gateway));
    assert!(states(&gateway).iter().all(|(_, state)| state == "up"), "{:?}", states(&gateway));
    assert_eq!(map(gateway.address(), &keys(KEYS)), before);
    assert_eq!(gateway.status()["config"]["digest"], digest);
    let metrics = gateway.metrics();
    assert!(metrics.sum("moorgate_reloads_total", &[("result", "failed")]) > 0.5);
    assert!(metrics.sum("moorgate_config_drift", &[]) > 0.5);
    assert!(gateway.output().contains("none of its new origins was proven in time"), "{}", gateway.output());
    load.stop().assert_all_good();
    // The same file may be tried again.
    assert_eq!(gateway.reload()["result"], "applied");
}

#[test]
fn j6_a_named_origin_moves_when_its_new_address_answers_and_nothing_fails() {
    let all = origins(&["a", "b", "c"]);
    let moved_to = rig::origin("a");
    moved_to.door(Door::Refuse);
    let text = pool("slow_start: { window: 60s }");
    let mut gateway = rig::gateway(&list(&text, &all)).start();
    let before = map(gateway.address(), &keys(KEYS));
    let load = rig::load(gateway.address()).clients(4).rate(200.0).start();
    let mut next = list(&text, &all);
    next = next.replace(&all[0].address.to_string(), &moved_to.address.to_string());
    gateway.change(&next);
    load.further(200);
    assert_eq!(map(gateway.address(), &keys(KEYS)), before);
    assert_eq!(moved_to.served(), 0, "it did not answer yet");
    let shown = gateway.origin("p", "a");
    assert_eq!(shown["moving_to"]["address"], moved_to.address.to_string(), "{shown}");
    moved_to.door(Door::Open);
    rig::eventually("it moved", || (gateway.origin("p", "a")["address"] == moved_to.address.to_string()).then_some(()));
    let shown = gateway.origin("p", "a");
    assert_eq!((&shown["state"], &shown["weight"]["effective"]), (&"up".into(), &1.0.into()), "{shown}");
    load.further(100);
    all[0].forget();
    assert_eq!(map(gateway.address(), &keys(KEYS)), before, "its keys are where they were");
    assert_eq!(all[0].served(), 0, "the old address still gets requests");
    assert!(moved_to.served() > 0);
    load.stop().assert_all_good();
}
