//! Does a request go where the `key` command says, whoever is out? Rule R3: to the first usable origin in its order.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::rig::{self, Door, Gateway, Origin, keys, map, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, health: { min_healthy: 50%, \
                    probe: { interval: 200ms, timeout: 200ms, http: { path: /healthz }, rise: 2, fall: 2 } }, origins: $origins } }\n";

/// Four origins, of which these refuse and these say that they are unwell, with a gateway that has noticed.
fn constellation(refuse: &[usize], unwell: &[usize]) -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b", "c", "d"].map(rig::origin).into();
    refuse.iter().for_each(|n| all[*n].door(Door::Refuse));
    unwell.iter().for_each(|n| all[*n].script([on("/healthz").answer(500)]));
    let gateway = rig::gateway(POOL).origins(&all).start();
    let state = |n: &usize| gateway.origin("p", &all[*n].name)["state"].clone();
    rig::eventually("it has noticed", || {
        (refuse.iter().all(|n| state(n) == "down") && unwell.iter().all(|n| state(n) != "up")).then_some(())
    });
    (all, gateway)
}

/// What the command says of these keys: the owner and who comes after it.
fn orders(gateway: &Gateway, targets: &[String]) -> Vec<(String, Vec<String>)> {
    let arguments: Vec<&str> = ["key", "--json"].into_iter().chain(targets.iter().map(String::as_str)).collect();
    let said = String::from_utf8(gateway.command(&arguments).stdout).unwrap();
    let name = |value: &Value| value.as_str().unwrap().to_owned();
    let order = |line: &str| {
        let told: Value = serde_json::from_str(line).unwrap();
        let successors = told["successors"].as_array().unwrap().iter().map(name);
        (name(&told["key"]), std::iter::once(name(&told["owner"])).chain(successors).collect())
    };
    said.lines().map(order).collect()
}

fn check(refuse: &[usize], unwell: &[usize]) {
    let (all, gateway) = constellation(refuse, unwell);
    let status = gateway.status();
    let usable: BTreeSet<&str> = all
        .iter()
        .map(|origin| origin.name.as_str())
        .filter(|name| ["up", "kept"].iter().any(|state| status["pools"]["p"]["origins"][name]["state"] == *state))
        .collect();
    let went = map(gateway.address(), &keys(100));
    let orders = orders(&gateway, &keys(100));
    assert_eq!(orders.len(), went.len());
    for (key, order) in orders {
        assert_eq!(order.len(), all.len(), "{key}: {order:?}");
        let first = order.iter().find(|name| usable.contains(name.as_str()));
        assert_eq!(Some(&went[&key]), first, "{key}: {order:?}, usable are {usable:?}");
    }
}

#[test]
fn r3_a_request_goes_to_the_first_usable_origin_in_the_order_of_its_key() {
    check(&[], &[]);
    check(&[0], &[]);
    check(&[3], &[]);
    check(&[0, 1], &[]);
    check(&[1, 2], &[]);
    check(&[0, 2, 3], &[]);
    check(&[1, 2, 3], &[]);
}

#[test]
fn r3_an_origin_that_is_kept_is_as_good_as_any() {
    check(&[], &[0]);
    check(&[], &[0, 3]);
    check(&[], &[0, 1, 2]);
    check(&[], &[0, 1, 2, 3]);
    check(&[2], &[0]);
    check(&[2, 3], &[0]);
}
