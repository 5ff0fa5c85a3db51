//! How do origins come into their share? Step by step, each key moving once, and nobody where the pool cannot spare it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use moorgate::balance::{Ring, hash, u};

use crate::rig::{self, Gateway, Origin, keys, map};

const KEYS: usize = 600;
/// Growth takes its time, and asking for all keys again and again on a busy machine too.
const GROWTH: Duration = Duration::from_secs(120);

/// A pool that probes fast; `more` are further keys of it.
pub(crate) fn pool(more: &str) -> String {
    let probe = "{ interval: 200ms, timeout: 5s, http: { path: /healthz } }";
    format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, health: {{ probe: {probe} }}, {more}, origins: $origins }} }}\n"
    )
}

pub(crate) fn origins(count: usize) -> Vec<Origin> {
    (0..count).map(|number| rig::origin(&format!("o{number}"))).collect()
}

fn mapped(gateway: &Gateway) -> BTreeMap<String, String> {
    map(gateway.address(), &keys(KEYS))
}

fn of<'m>(map: &'m BTreeMap<String, String>, origin: &str) -> BTreeSet<&'m String> {
    map.iter().filter(|(_, owner)| *owner == origin).map(|(key, _)| key).collect()
}

fn effective(gateway: &Gateway, name: &str) -> f64 {
    gateway.origin("p", name)["weight"]["effective"].as_f64().unwrap()
}

/// Maps again and again until `name` is up; answers the maps, each with what part it took before and after.
fn until_up(gateway: &Gateway, name: &str) -> Vec<(f64, BTreeMap<String, String>, f64)> {
    let mut maps = Vec::new();
    let grown = rig::within(GROWTH, || {
        let up = gateway.origin("p", name)["state"] == "up";
        let before = effective(gateway, name);
        let map = mapped(gateway);
        maps.push((before, map, effective(gateway, name)));
        up.then_some(())
    });
    assert!(grown.is_some(), "{name} is not up within {GROWTH:?}");
    maps
}

#[test]
fn b21_b23_a_newcomer_takes_its_keys_step_by_step_and_none_goes_back() {
    let all = origins(4);
    let text = pool("slow_start: { window: 8s, from: 10%, hold: off }");
    let mut gateway = rig::gateway(&text).origins(&all[..3]).start();
    let first = mapped(&gateway);
    gateway.knows([&all[3]]);
    gateway.change(&text);
    gateway.await_state("p", "o3", "ramping");
    let shown = gateway.metrics().sum("moorgate_origin_weight", &[("origin", "o3"), ("kind", "effective")]);
    assert!((0.05..1.0).contains(&shown), "{shown}");
    let maps = until_up(&gateway, "o3");
    let (_, last, _) = maps.last().unwrap();
    let own = of(last, "o3").len() as f64;
    assert!((0.15..0.35).contains(&(own / KEYS as f64)), "{own} keys in the end");
    assert!(maps.len() > 2, "it grew in one step");
    assert!(!of(&maps[0].1, "o3").is_empty(), "it gets requests from the start");
    for (before, map, after) in &maps {
        let part = of(map, "o3").len() as f64 / own;
        assert!((before - 0.15..=after + 0.15).contains(&part), "{part} of its keys at {before} to {after}");
        assert!(map.iter().all(|(key, owner)| owner == "o3" || first[key] == *owner), "a key moved between others");
    }
    assert!(maps.windows(2).all(|pair| of(&pair[0].1, "o3").is_subset(&of(&pair[1].1, "o3"))), "a key moved back");
    let share = gateway.origin("p", "o3")["share"].as_f64().unwrap();
    assert!((share - own / KEYS as f64).abs() < 0.06, "status says {share}");
}

/// What each of these may take now.
fn parts(gateway: &Gateway, names: &[&str]) -> Vec<f64> {
    let status = gateway.status();
    let part = |name: &&str| status["pools"]["p"]["origins"][*name]["weight"]["effective"].as_f64().unwrap();
    names.iter().map(part).collect()
}

#[test]
fn r2_growing_from_8_to_12_moves_the_arcs_of_the_newcomers_as_far_as_they_have_grown_and_nothing_else() {
    let all = origins(12);
    let text = pool("slow_start: { window: 10s, hold: off }");
    let mut gateway = rig::gateway(&text).origins(&all[..8]).start();
    let first = mapped(&gateway);
    let ring = |origins: &[Origin]| Ring::new(&origins.iter().map(|one| (&*one.name, 1)).collect::<Vec<_>>());
    let (old, new) = (ring(&all[..8]), ring(&all));
    let owner = |ring: &Ring, key: &str| ring.name(ring.owner(hash(key.as_bytes())).unwrap()).unwrap().to_owned();
    assert!(first.iter().all(|(key, taker)| *taker == owner(&old, key)));
    let load = rig::load(gateway.address()).clients(4).rate(200.0).start();
    let names = ["o8", "o9", "o10", "o11"];
    gateway.knows(&all[8..]);
    gateway.change(&text);
    let mut steps = BTreeSet::new();
    let grown = rig::within(GROWTH, || {
        let before = parts(&gateway, &names);
        let map = mapped(&gateway);
        let after = parts(&gateway, &names);
        for (key, taker) in &map {
            let (was, is, u) = (owner(&old, key), owner(&new, key), u(hash(key.as_bytes())));
            let grown = names.iter().position(|name| *name == is).map(|at| (before[at], after[at]));
            match grown {
                None => assert_eq!((taker, &was), (&is, &is), "{key} is between old ones"),
                Some((before, _)) if u < before => assert_eq!(*taker, is, "{key}: {u} of {before}"),
                Some((_, after)) if u >= after => assert_eq!(*taker, was, "{key}: {u} of {after}"),
                Some(_) => assert!(*taker == is || *taker == was, "{key} goes to {taker}"),
            }
        }
        steps.insert(map.iter().filter(|(key, taker)| first[*key] != **taker).count());
        before.iter().all(|part| *part >= 1.0).then_some(())
    });
    assert!(grown.is_some(), "not within {GROWTH:?}: {:?}", parts(&gateway, &names));
    assert!(steps.len() > 3, "it grew in one step: {steps:?}");
    let moved = keys(KEYS).iter().filter(|key| owner(&old, key) != owner(&new, key)).count();
    assert_eq!(steps.last(), Some(&moved));
    load.stop().assert_all_good();
    let metrics = gateway.metrics();
    let (requests, attempts) =
        (metrics.sum("moorgate_requests_total", &[]), metrics.sum("moorgate_attempts_total", &[]));
    assert!(requests > 1000.0 && attempts <= requests * 1.02, "{attempts} attempts for {requests} requests");
}

#[test]
fn b22_an_origin_that_was_out_comes_back_step_by_step() {
    let mut all = origins(3);
    let gateway = rig::gateway(&pool("slow_start: { window: 8s, hold: off }")).origins(&all).start();
    let first = mapped(&gateway);
    all[0].kill();
    gateway.await_state("p", "o0", "down");
    let since = std::time::Instant::now();
    rig::eventually("it was out for the whole window", || (since.elapsed().as_secs() >= 9).then_some(()));
    all[0].restart();
    gateway.await_state("p", "o0", "ramping");
    let maps = until_up(&gateway, "o0");
    assert!(of(&maps[0].1, "o0").len() < of(&first, "o0").len(), "all of its keys came back at once");
    assert!(maps.windows(2).all(|pair| of(&pair[0].1, "o0").is_subset(&of(&pair[1].1, "o0"))), "a key moved back");
    assert_eq!(mapped(&gateway), first);
}

#[test]
fn r2_j2_a_pool_that_was_dead_as_a_whole_is_back_at_once() {
    let mut all = origins(4);
    let gateway = rig::gateway(&pool("slow_start: { window: 60s }")).origins(&all).start();
    let first = mapped(&gateway);
    all.iter_mut().for_each(Origin::kill);
    for origin in &all {
        gateway.await_state("p", &origin.name, "down");
    }
    all.iter_mut().for_each(Origin::restart);
    for origin in &all {
        gateway.await_state("p", &origin.name, "up");
    }
    assert_eq!(mapped(&gateway), first);
    assert!(!gateway.output().contains("is ramping"), "{}", gateway.output());
}

#[test]
fn nobody_grows_at_the_start_or_in_a_new_pool() {
    let all = origins(2);
    let text = pool("slow_start: { window: 60s }");
    let mut gateway = rig::gateway(&text).origins(&all).start();
    let two = format!("{}, q: {{ origins: $origins }} }}\n", text.trim_end().trim_end_matches('}').trim_end());
    let routes = "routes: [ { match: { path: { prefix: /q } }, pool: q }, { pool: p } ]\n";
    gateway.change(&format!("{two}{routes}"));
    assert_eq!(gateway.get("/q").status, 200, "the first request after the reload");
    for pool in ["p", "q"] {
        for origin in &all {
            let shown = gateway.origin(pool, &origin.name);
            assert_eq!((&shown["state"], &shown["weight"]["effective"]), (&"up".into(), &1.0.into()), "{shown}");
        }
    }
}

#[test]
fn r2_the_share_of_a_newcomer_is_its_part_of_what_it_gets_in_the_end() {
    const MANY: usize = 2000;
    let all = origins(2);
    let text =
        |window: Duration| pool(&format!("slow_start: {{ window: {}ms, from: 10%, hold: off }}", window.as_millis()));
    let least = Duration::from_secs(10);
    let mut gateway = rig::gateway(&text(least)).origins(&all[..1]).start();
    // A busy machine takes long to look at all keys once, and several looks have to fall into the window.
    let look = Instant::now();
    map(gateway.address(), &keys(MANY));
    let window = least.max(look.elapsed() * 6);
    gateway.knows([&all[1]]);
    gateway.change(&text(window));
    gateway.await_state("p", "o1", "ramping");
    let mut samples = Vec::new();
    let grown = rig::within(GROWTH, || {
        let up = gateway.origin("p", "o1")["state"] == "up";
        let before = effective(&gateway, "o1");
        let map = map(gateway.address(), &keys(MANY));
        samples.push((before, of(&map, "o1").len() as f64 / MANY as f64, effective(&gateway, "o1")));
        up.then_some(())
    });
    assert!(grown.is_some(), "not up within {GROWTH:?}");
    let (.., last, _) = *samples.last().unwrap();
    assert!((0.35..0.65).contains(&last) && samples.len() > 2, "{samples:?}");
    for (before, share, after) in &samples {
        let two_points = before * last - 0.02..=after * last + 0.02;
        assert!(two_points.contains(share), "{share} of the keys at {before} to {after} of {last}: {samples:?}");
    }
}

#[test]
fn j2_an_origin_that_was_out_for_a_moment_has_all_of_its_keys_two_seconds_later() {
    let mut all = origins(3);
    let gateway = rig::gateway(&pool("slow_start: { window: 60s }")).origins(&all).start();
    let first = mapped(&gateway);
    all[0].kill();
    gateway.await_state("p", "o0", "down");
    let out = Instant::now();
    all[0].restart();
    gateway.await_state("p", "o0", "ramping");
    let back = Instant::now();
    let up = rig::within(GROWTH, || (gateway.origin("p", "o0")["state"] == "up").then_some(back.elapsed()));
    // As long as it was out, whatever the window; on a busy machine that is longer than a moment.
    let outage = back - out;
    let most = outage + Duration::from_secs(2);
    assert!(up.is_some_and(|up| up <= most), "{up:?} after {outage:?}");
    assert_eq!(mapped(&gateway), first);
}
