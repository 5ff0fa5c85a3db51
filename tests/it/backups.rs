//! When do backups serve, and what do they leave alone?

use crate::rig::{self, Door, Gateway, Origin, keys, map, on};

const PROBE: &str = "health: { probe: { interval: 100ms, timeout: 5s, http: { path: /healthz } } }, ";

/// Origins `a` and `b`, and the backups `s` and `t`.
fn four(more: &str) -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b", "s", "t"].map(rig::origin).into();
    let gateway = rig::gateway(&text(more)).origins(&all).start();
    (all, gateway)
}

fn text(more: &str) -> String {
    let one = |name: &str, more: &str| format!("{{ address: ${name}, name: {name}{more} }}");
    let list = [one("a", ""), one("b", ""), one("s", ", backup: true"), one("t", ", backup: true")].join(", ");
    pool(more, &list)
}

fn pool(more: &str, origins: &str) -> String {
    format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, slow_start: off, {PROBE}{more} origins: [ {origins} ] }} }}\n"
    )
}

fn served(all: &[Origin]) -> Vec<u64> {
    all.iter().map(Origin::served).collect()
}

#[test]
fn r3_backups_serve_only_while_no_other_may_be_asked() {
    let (mut all, gateway) = four("");
    let home = map(gateway.address(), &keys(200));
    assert_eq!(served(&all)[2..], [0, 0]);
    assert!(all[2..].iter().all(|origin| origin.counts().by_path.contains_key("/healthz")), "they are probed");
    all[0].kill();
    gateway.await_state("p", "a", "down");
    let half = map(gateway.address(), &keys(200));
    assert!(half.values().all(|origin| origin == "b"));
    all[1].kill();
    gateway.await_state("p", "b", "down");
    let away = map(gateway.address(), &keys(200));
    let on = |name: &str| away.values().filter(|origin| *origin == name).count();
    assert!(on("s") > 20 && on("t") > 20 && on("s") + on("t") == 200, "{} and {}", on("s"), on("t"));
    assert_eq!(map(gateway.address(), &keys(200)), away, "each key has its backup");
    for origin in &mut all[..2] {
        origin.restart();
        gateway.await_state("p", &origin.name, "up");
    }
    assert_eq!(map(gateway.address(), &keys(200)), home);
}

#[test]
fn r3_the_next_try_goes_to_a_backup_when_nobody_else_is_left() {
    let (all, gateway) = four("");
    all[..2].iter().for_each(|origin| origin.door(Door::Refuse));
    all[..2].iter().for_each(|origin| origin.close_idle(rig::Close::Fin));
    let answer = gateway.get("/x");
    assert!(answer.status == 200 && ["s", "t"].contains(&answer.origin()), "{answer:?}");
}

#[test]
fn r6_backups_take_what_the_others_have_no_room_for() {
    let (all, gateway) = four("connections: { max_in_flight: 1 }, ");
    all.iter().for_each(|origin| origin.script([on("/hold*").hold("all").answer(200)]));
    let address = gateway.address();
    let ask = |n: usize| std::thread::spawn(move || rig::Client::new(address).get(&format!("/hold/{n}")).status);
    let in_flight = || all.iter().map(|origin| origin.counts().in_flight).collect::<Vec<_>>();
    let asked: Vec<_> = (0..4).map(ask).collect();
    rig::eventually("one at each", || (in_flight() == [1, 1, 1, 1]).then_some(()));
    assert_eq!(gateway.get("/fifth").status, 503);
    all.iter().for_each(|origin| origin.release("all"));
    assert!(asked.into_iter().all(|one| one.join().unwrap() == 200));
}

#[test]
fn a_backup_comes_and_goes_and_moves_nothing() {
    let (all, mut gateway) = four("");
    let (home, ring) = (map(gateway.address(), &keys(200)), gateway.status()["pools"]["p"]["ring"].clone());
    let without: Vec<String> =
        all[..2].iter().map(|origin| format!("{{ address: \"{}\", name: {} }}", origin.address, origin.name)).collect();
    gateway.change(&pool("", &without.join(", ")));
    assert_eq!(gateway.status()["pools"]["p"]["ring"], ring, "the fingerprint, and nothing moved");
    assert_eq!(map(gateway.address(), &keys(200)), home);
    gateway.change(&text(""));
    assert_eq!(gateway.status()["pools"]["p"]["ring"], ring);
    assert_eq!(gateway.origin("p", "s")["backup"], true);
    assert_eq!(map(gateway.address(), &keys(200)), home);
}
