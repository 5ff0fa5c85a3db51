//! What is tried again, where, and how often? As the documented table says, and never what may have been done.

use std::collections::BTreeSet;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::rig::{self, Amount, Answer, Ask, Close, Door, Gateway, Origin, Step, keys, map, on};

/// No probes: what is tried is decided by traffic alone.
fn pool(more: &str) -> String {
    format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, health: {{ probe: off }}, {more} origins: $origins }} }}\n"
    )
}

fn two(more: &str, routes: &str) -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b"].map(rig::origin).into();
    let gateway = rig::gateway(&format!("{}{routes}", pool(more))).origins(&all).start();
    (all, gateway)
}

/// A target that belongs to the first origin.
fn target_of(gateway: &Gateway, owner: &str) -> String {
    let map = map(gateway.address(), &keys(50));
    map.into_iter().find(|(_, origin)| origin == owner).unwrap().0
}

/// How often the origins saw a target.
fn tries(all: &[Origin], target: &str) -> usize {
    all.iter().flat_map(Origin::requests).filter(|request| request.line.contains(&format!(" {target} "))).count()
}

fn sha256(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn b45_statuses_and_time_outs_are_tried_again_where_they_are_listed() {
    let routes = "routes: [ { pool: p, timeouts: { read: 300ms }, retry: { tries: 2, safe: [\"503\", timeout], other: [] } } ]\n";
    let (all, gateway) = two("timeouts: { connect: 200ms },", routes);
    for origin in &all {
        origin.script([on("/503*").answer(503), on("/hang*").then(Step::Hang)]);
    }
    for (method, target, count, status) in [
        ("GET", "/503/get", 2, 503),
        ("POST", "/503/post", 1, 503),
        ("GET", "/hang/get", 2, 504),
        ("PUT", "/hang/put", 1, 504),
    ] {
        let answer = gateway.ask(&Ask::new(method, target).body("x"));
        assert_eq!((tries(&all, target), answer.status), (count, status), "{method} {target}");
    }
    let line = gateway.logged("/503/get");
    assert_eq!(
        (&line["attempts"][0]["outcome"], &line["attempts"][1]["outcome"]),
        (&"status".into(), &"ok".into()),
        "{line}"
    );
}

#[test]
fn b47_the_next_try_goes_where_the_key_would_go_without_the_first() {
    let mut all: Vec<Origin> = ["a", "b", "c", "d"].map(rig::origin).into();
    let mut gateway = rig::gateway(&pool("")).origins(&all).start();
    all[0].kill();
    let during = map(gateway.address(), &keys(1000));
    let list: Vec<String> =
        all[1..].iter().map(|o| format!("{{ address: \"{}\", name: {} }}", o.address, o.name)).collect();
    gateway.change(&pool("").replace("$origins", &format!("[{}]", list.join(", "))));
    assert_eq!(map(gateway.address(), &keys(1000)), during);
    let log = gateway.await_log(2000);
    let tries = |line: &Value| line["attempts"].as_array().unwrap().clone();
    let twice: Vec<_> = log.iter().map(tries).filter(|tries| tries.len() > 1).collect();
    assert!(twice.len() > 150, "{} went on from the dead one", twice.len());
    for tries in twice {
        assert_eq!(
            (tries.len(), &tries[0]["origin"], &tries[0]["outcome"]),
            (2, &"a".into(), &"connect_refused".into())
        );
    }
}

#[test]
fn b48_a_stale_connection_is_tried_at_the_same_origin_and_a_refusal_at_the_next() {
    let (all, gateway) = two("", "");
    let target = target_of(&gateway, "a");
    // The connection served before, and dies with the request.
    all[0].script([on("*").since_nth(2).then(Step::End(Close::Fin))]);
    all.iter().for_each(Origin::forget);
    let mut outcomes = BTreeSet::new();
    for n in 0..6 {
        let shown = format!("{target}?n={n}");
        assert_eq!(gateway.get(&shown).origin(), "a");
        for attempt in gateway.logged(&shown)["attempts"].as_array().unwrap() {
            assert_eq!(attempt["origin"], "a");
            outcomes.insert(attempt["outcome"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(outcomes, BTreeSet::from(["ok".to_owned(), "stale".to_owned()]));
    all[0].script([]);
    all[0].door(Door::Refuse);
    all[0].close_idle(Close::Fin);
    let shown = format!("{target}?refused");
    assert_eq!(gateway.get(&shown).origin(), "b");
    assert_eq!(gateway.logged(&shown)["attempts"].as_array().unwrap().last().unwrap()["origin"], "b");
}

#[test]
fn b49_retries_stay_within_their_budget() {
    let routes = "routes: [ { pool: p, retry: { tries: 3, safe: [5xx], within: 10s } } ]\n";
    let (all, gateway) = two("retry_budget: { ratio: 20%, floor: 1/s },", routes);
    for origin in &all {
        origin.script([on("*").answer(503)]);
    }
    let start = std::time::Instant::now();
    let mut client = gateway.client();
    assert!(keys(1000).iter().all(|key| client.get(key).status == 503));
    // The bucket holds at most ten seconds of floor when the first request comes.
    let floor = 10.0 + start.elapsed().as_secs_f64();
    let seen: u64 = all.iter().map(Origin::served).sum();
    assert!(seen as f64 <= 1200.0 + floor, "{seen} tries for 1000 requests");
    assert!(seen >= 1100, "{seen} tries: the budget was not used");
    let metrics = gateway.metrics();
    assert!(metrics.sum("moorgate_retries_suppressed_total", &[("reason", "budget")]) > 0.5);
    assert!((metrics.sum("moorgate_attempts_total", &[("pool", "p")]) - seen as f64).abs() < 0.5);
}

#[test]
fn t3_what_a_budget_affords_grows_with_time() {
    let began = std::time::Instant::now();
    let routes = "routes: [ { pool: p, retry: { tries: 2, safe: [\"503\"], within: 10s } } ]\n";
    let (all, gateway) = two("retry_budget: { ratio: 0%, floor: 20/s },", routes);
    all.iter().for_each(|origin| origin.script([on("*").answer(503)]));
    let retries = || gateway.metrics().sum("moorgate_retries_total", &[("reason", "status")]);
    let (mut client, asked) = (gateway.client(), std::time::Instant::now());
    while asked.elapsed() < std::time::Duration::from_secs(2) {
        assert_eq!(client.get("/x").status, 503);
    }
    // A second of it to begin with, and its part of each second since; one is being drawn, one was just put in.
    let (least, most) = (20.0 * (1.0 + asked.elapsed().as_secs_f64()), 20.0 * (1.0 + began.elapsed().as_secs_f64()));
    let afforded = retries();
    assert!(afforded >= least - 2.0 && afforded <= most + 2.0, "{afforded} of {least} to {most}");
}

#[test]
fn p7_no_further_try_begins_after_the_deadline() {
    let (all, gateway) = two("", "routes: [ { pool: p, retry: { tries: 2, within: 2s, safe: [\"503\"] } } ]\n");
    all.iter().for_each(|origin| origin.script([on("/early").answer(503), on("/late").delay(2100).answer(503)]));
    for (target, count) in [("/early", 2), ("/late", 1)] {
        assert_eq!(gateway.get(target).status, 503);
        assert_eq!(tries(&all, target), count, "{target}");
    }
    assert!(gateway.metrics().sum("moorgate_retries_suppressed_total", &[("reason", "within")]) > 0.5);
}

#[test]
fn b51_a_refused_connection_is_tried_elsewhere_whatever_the_size_of_the_body() {
    let (all, gateway) = two("", "");
    let target = target_of(&gateway, "a");
    all[0].door(Door::Refuse);
    all[0].close_idle(Close::Fin);
    let body: Vec<u8> = (0..10 << 20).map(|n: u32| (n % 251) as u8).collect();
    let answer = gateway.ask(&Ask::new("PUT", &target).body(body.clone()));
    assert_eq!((answer.status, answer.origin()), (200, "b"));
    let request = all[1].requests().pop().unwrap();
    assert_eq!((request.body_bytes, request.body_sha256), (10 << 20, sha256(&body)));
}

#[test]
fn b52_a_body_is_replayed_exactly_or_not_at_all() {
    let routes = "routes: [ { pool: p, retry: { tries: 2, methods: { PUT: [connect, stale, reset] } } } ]\n";
    let (all, gateway) = two("", routes);
    let target = target_of(&gateway, "a");
    all[0].script([on("*").then(Step::Read(Amount::Half)).then(Step::End(Close::Rst))]);
    for (size, replayed) in [(32 << 10, true), (256 << 10, false)] {
        all.iter().for_each(|origin| origin.close_idle(Close::Fin));
        all.iter().for_each(Origin::forget);
        let body: Vec<u8> = (0..size).map(|n: u32| (n % 251) as u8).collect();
        let answer: Answer = gateway.ask(&Ask::new("PUT", &target).body(body.clone()));
        let second = all[1].requests();
        if replayed {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(second[0].body_sha256, sha256(&body));
        } else {
            assert_eq!(answer.status, 502, "{answer:?}");
            assert!(second.is_empty(), "{second:?}");
        }
    }
}

/// The connection ends while the body is being written: the failure of the write hides that nothing was read.
#[test]
fn an_upload_on_a_kept_connection_that_ends_is_stale_like_any_other() {
    let routes = "routes: [ { pool: p, retry: { tries: 2, methods: { PUT: [connect, stale] } } } ]\n";
    let a = rig::origin("a");
    let text = format!("{}{routes}", pool("retry_budget: { ratio: 100%, floor: 1000/s },"));
    let gateway = rig::gateway(&text).process("threads", "1").origins([&a]).start();
    for (n, (size, replayed)) in [(0, true), (1000, true), (60_000, true), (3 << 20, false)].into_iter().enumerate() {
        let target = format!("/up/{n}");
        a.forget();
        a.script([on(&target).times(1).then(Step::End(Close::Rst)), on("*").then(Step::Read(Amount::All)).answer(200)]);
        assert_eq!(gateway.get("/warm").status, 200);
        let body: Vec<u8> = (0..size).map(|n: u32| (n % 251) as u8).collect();
        let answer = gateway.ask(&Ask::new("PUT", &target).body(body.clone()));
        let line = gateway.logged(&target);
        let outcomes: Vec<&str> =
            line["attempts"].as_array().unwrap().iter().map(|attempt| attempt["outcome"].as_str().unwrap()).collect();
        assert_eq!(line["attempts"][0]["reused"], true, "{line}");
        let seen: Vec<_> = a.requests().into_iter().filter(|request| request.line.contains(&target)).collect();
        if replayed {
            assert_eq!((answer.status, outcomes), (200, vec!["stale", "ok"]), "{size} bytes");
            let whole = if size == 0 { String::new() } else { sha256(&body) };
            assert_eq!(seen.last().unwrap().body_sha256, whole, "{size} bytes");
        } else {
            assert_eq!((answer.status, outcomes, seen.len()), (502, vec!["stale"], 1), "{size} bytes");
        }
    }
}

#[test]
fn b54_an_origin_that_closes_idle_connections_costs_no_request() {
    let a = rig::origin("a");
    let gateway = rig::gateway(&pool("")).process("threads", "1").origins([&a]).start();
    a.idle_close(Some(40));
    let mut client = gateway.client();
    let retried = || gateway.metrics().sum("moorgate_retries_total", &[("reason", "stale")]).round() as usize;
    let began = std::time::Instant::now();
    let mut asked = 0;
    // Until enough requests have met the close on their way: how many that takes is the machine's to say.
    while asked < 100 || retried() < 3 {
        assert!(began.elapsed() < rig::PATIENCE * 4, "{} of {asked} requests met a close", retried());
        for n in asked..asked + 20 {
            // As close to the origin's 40 ms as a sleep gets, on either side.
            std::thread::sleep(std::time::Duration::from_micros(38_000 + n % 9 * 500));
            assert_eq!(client.get(&format!("/obj/{n}")).status, 200);
        }
        asked += 20;
    }
    let log = gateway.await_log(asked as usize);
    let tries = |line: &serde_json::Value| -> Vec<String> {
        let attempts = line["attempts"].as_array().unwrap();
        attempts.iter().map(|attempt| attempt["outcome"].as_str().unwrap().to_owned()).collect()
    };
    let met: Vec<_> = log.iter().filter(|line| tries(line) != ["ok"]).collect();
    assert!(met.iter().all(|line| tries(line) == ["stale", "ok"] && line["attempts"][0]["reused"] == true), "{met:?}");
    assert_eq!(met.len(), retried());
}

#[test]
fn t4_many_idle_connections_closed_at_once_cost_no_request() {
    let (all, gateway) = two("", "");
    all.iter().for_each(|origin| origin.script([on("/warm*").hold("warm").answer(200)]));
    let address = gateway.address();
    let warm: Vec<_> = (0..300)
        .map(|n| std::thread::spawn(move || rig::Client::new(address).get(&format!("/warm/{n}")).status))
        .collect();
    rig::eventually("300 requests at the origins", || {
        (all.iter().map(|origin| origin.counts().in_flight).sum::<u64>() == 300).then_some(())
    });
    all.iter().for_each(|origin| origin.release("warm"));
    assert!(warm.into_iter().all(|client| client.join().unwrap() == 200));
    let load = rig::load(address).rate(600.0).start();
    load.further(100);
    all.iter().for_each(|origin| origin.close_idle(Close::Fin));
    load.further(200);
    all.iter().for_each(|origin| origin.close_idle(Close::Rst));
    load.further(200);
    load.stop().assert_all_good();
}

/// A POST on a kept connection that dies: it may have been processed, so the client is told.
#[test]
fn a_post_that_may_have_been_done_is_not_sent_again() {
    let (all, gateway) = two("", "");
    let target = target_of(&gateway, "a");
    all.iter().for_each(|origin| origin.script([on("*").since_nth(2).then(Step::End(Close::Fin))]));
    gateway.get(&target);
    all.iter().for_each(Origin::forget);
    let mut sent = 0;
    let answer = rig::eventually("a kept connection dies", || {
        sent += 1;
        Some(gateway.ask(&Ask::new("POST", &target).body("x"))).filter(|answer| answer.status != 200)
    });
    assert_eq!(answer.status, 502);
    assert_eq!(tries(&all, &target), sent);
}

#[test]
fn an_answer_cut_short_is_not_hidden() {
    let (all, gateway) = two("", "");
    for origin in &all {
        origin.script([
            on("/length").then(rig::text("abc").framing(rig::Framing::Declared(10)).into()).then(Step::End(Close::Fin)),
            on("/chunks")
                .then(rig::text("abc").framing(rig::Framing::ChunkedWithoutEnd).into())
                .then(Step::End(Close::Fin)),
        ]);
    }
    for target in ["/length", "/chunks"] {
        assert!(gateway.client().send(&Ask::get(target)).is_err(), "{target} looked whole");
        assert_eq!(tries(&all, target), 1);
        let line = gateway.logged(target);
        assert_eq!((&line["status"], &line["error"]), (&200.into(), &"closed_early".into()), "{line}");
    }
}
