//! How does an origin leave its pool? Its keys move once, what runs is finished, and its connections are closed.

use std::collections::BTreeMap;

use crate::rig::{self, Client, Gateway, Origin, keys, map, on};

const KEYS: usize = 500;
const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, slow_start: off, origins: $list } }\n";

fn three() -> Vec<Origin> {
    ["a", "b", "c"].map(rig::origin).into()
}

/// A pool of these, each with further keys.
fn text(origins: &[(&Origin, &str)]) -> String {
    let one = |(origin, more): &(&Origin, &str)| {
        format!("{{ address: \"{}\", name: {}{more} }}", origin.address, origin.name)
    };
    POOL.replace("$list", &format!("[{}]", origins.iter().map(one).collect::<Vec<_>>().join(", ")))
}

fn mapped(gateway: &Gateway) -> BTreeMap<String, String> {
    map(gateway.address(), &keys(KEYS))
}

fn fingerprint(gateway: &Gateway) -> String {
    gateway.status()["pools"]["p"]["ring"]["fingerprint"].as_str().unwrap().to_owned()
}

/// Connections for requests, as the origin sees them: open, and closed.
fn connections(origin: &Origin) -> (usize, usize) {
    let seen = origin
        .seen()
        .into_iter()
        .filter(|connection| connection.requests.iter().any(|request| !request.line.contains(" /healthz ")));
    let (closed, open): (Vec<_>, Vec<_>) = seen.partition(|connection| connection.closed);
    (open.len(), closed.len())
}

#[test]
fn j5_a_drained_origin_gets_nothing_and_its_removal_moves_nothing() {
    let all = three();
    let [a, b, c] = &all[..] else { panic!("three") };
    let mut gateway = rig::gateway(&text(&[(a, ""), (b, ""), (c, "")])).start();
    let first = mapped(&gateway);
    gateway.change(&text(&[(a, ""), (b, ", state: drain"), (c, "")]));
    b.forget();
    let drained = mapped(&gateway);
    assert_eq!(b.served(), 0);
    let moved = drained.iter().filter(|(key, owner)| first[*key] != **owner);
    assert!(moved.clone().count() > 0 && moved.clone().all(|(key, _)| first[key] == "b"), "a key of another moved");
    let shown = rig::eventually("it is drained", || {
        Some(gateway.origin("p", "b"))
            .filter(|origin| origin["why"].as_str().is_some_and(|why| why.starts_with("drained")))
    });
    assert_eq!(
        (&shown["state"], &shown["share"], &shown["weight"]["effective"]),
        (&"draining".into(), &0.0.into(), &0.0.into())
    );
    let print = fingerprint(&gateway);
    gateway.change(&text(&[(a, ""), (c, "")]));
    assert_eq!((mapped(&gateway), fingerprint(&gateway)), (drained, print));
}

#[test]
fn b25_a_drain_survives_a_reload_and_a_start() {
    let all = three();
    let [a, b, c] = &all[..] else { panic!("three") };
    let drained = text(&[(a, ", state: drain"), (b, ""), (c, "")]);
    let mut gateway = rig::gateway(&drained).start();
    mapped(&gateway);
    gateway.change(&format!("{drained}routes: [ {{ name: other, pool: p }} ]\n"));
    mapped(&gateway);
    assert_eq!(a.served(), 0);
}

#[test]
fn j5_a_drain_over_time_sheds_keys_step_by_step_and_none_comes_back() {
    let all = three();
    let [a, b, c] = &all[..] else { panic!("three") };
    let mut gateway = rig::gateway(&text(&[(a, ""), (b, ""), (c, "")])).start();
    let first = mapped(&gateway);
    let load = rig::load(gateway.address()).clients(4).rate(200.0).start();
    gateway.change(&text(&[(a, ", state: drain, drain_over: 8s"), (b, ""), (c, "")]));
    let mut maps = vec![first.clone()];
    rig::eventually("it is drained", || {
        let over = gateway.origin("p", "a")["why"].as_str().is_some_and(|why| why.starts_with("drained"));
        maps.push(mapped(&gateway));
        over.then_some(())
    });
    assert!(maps.len() > 2, "it was shed in one step");
    for pair in maps.windows(2) {
        assert!(pair[1].iter().all(|(key, owner)| *owner == pair[0][key] || pair[0][key] == "a" && owner != "a"));
    }
    assert!(maps.last().unwrap().values().all(|owner| owner != "a"));
    load.stop().assert_all_good();
}

#[test]
fn b26_connections_to_an_origin_that_was_removed_are_closed_when_its_answers_are_out() {
    let all = three();
    let [a, b, c] = &all[..] else { panic!("three") };
    a.script([on("/held").hold("removed").answer(200)]);
    let mut gateway = rig::gateway(&text(&[(a, ""), (b, ""), (c, "")])).start();
    let before = mapped(&gateway);
    assert!(before.values().any(|owner| owner == "a"));
    // Whoever owns the key, the request is held at `a` only: it alone serves while it is asked for.
    gateway.change(&text(&[(a, ""), (b, ", state: drain"), (c, ", state: drain")]));
    let address = gateway.address();
    let held = std::thread::spawn(move || Client::new(address).get("/held").status);
    a.await_held("removed", 1);
    gateway.change(&text(&[(b, ""), (c, "")]));
    assert!(connections(a).0 > 0, "the held request has a connection");
    a.release("removed");
    assert_eq!(held.join().unwrap(), 200);
    rig::eventually("every connection to it is closed", || (connections(a).0 == 0).then_some(()));
    a.forget();
    mapped(&gateway);
    assert_eq!(a.served(), 0);
}

#[test]
fn j5_idle_connections_of_a_drained_or_removed_origin_are_closed() {
    let all = three();
    let [a, b, c] = &all[..] else { panic!("three") };
    let text = |list: &[(&Origin, &str)]| {
        text(list).replace("slow_start: off", "slow_start: off, connections: { keepalive_timeout: 10m }")
    };
    let mut gateway = rig::gateway(&text(&[(a, ""), (b, ""), (c, "")])).start();
    mapped(&gateway);
    assert!(connections(a).0 > 0 && connections(b).0 > 0);
    gateway.change(&text(&[(b, ", state: drain"), (c, "")]));
    for origin in [a, b] {
        rig::eventually("its idle connections are closed", || (connections(origin).0 == 0).then_some(()));
    }
    assert!(connections(c).0 > 0, "those of others stay");
}

#[test]
fn h5_a_drained_origin_gets_nothing_when_all_others_are_dead_either() {
    let mut all = three();
    let gateway = {
        let [a, b, c] = &all[..] else { panic!("three") };
        rig::gateway(&text(&[(a, ""), (b, ", state: drain"), (c, "")])).start()
    };
    for at in [0, 2] {
        all[at].kill();
        gateway.await_state("p", &all[at].name, "down");
    }
    for key in keys(50) {
        assert_eq!(gateway.get(&key).status, 502, "{key}");
    }
    assert_eq!(all[1].served(), 0);
    let share = |name: &str| gateway.origin("p", name)["share"].as_f64().unwrap();
    assert!(share("b") == 0.0 && (share("a") + share("c") - 1.0).abs() < 1e-9);
    all[2].restart();
    rig::eventually("the first that answers serves", || (gateway.get("/x").status == 200).then_some(()));
}
