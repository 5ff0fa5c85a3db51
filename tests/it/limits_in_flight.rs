//! How much may an origin have in flight? Its limit, and its part of the load where that is bounded.

use std::thread::JoinHandle;

use serde_json::Value;

use crate::rig::{self, Answer, Client, Gateway, Origin, on};

fn start(names: &[&str], balance: &str, connections: &str) -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = names.iter().map(|name| rig::origin(name)).collect();
    all.iter().for_each(|origin| origin.script([on("*").hold("all").answer(200)]));
    let text = format!(
        "pools: {{ p: {{ balance: {{ {balance} }}, health: {{ probe: off }}, connections: {{ {connections} }}, origins: $origins }} }}\n"
    );
    let gateway = rig::gateway(&text).origins(&all).start();
    (all, gateway)
}

fn ask(gateway: &Gateway, target: &str) -> JoinHandle<Answer> {
    let (address, target) = (gateway.address(), target.to_owned());
    std::thread::spawn(move || Client::new(address).get(&target))
}

/// Waits until that many requests are held at the origins together; how many each has.
fn held(all: &[Origin], count: u64) -> Vec<u64> {
    rig::eventually(&format!("{count} requests at the origins"), || {
        let counts: Vec<u64> = all.iter().map(|origin| origin.counts().in_flight).collect();
        (counts.iter().sum::<u64>() == count).then_some(counts)
    })
}

fn release(all: &[Origin], asked: Vec<JoinHandle<Answer>>) {
    all.iter().for_each(|origin| origin.release("all"));
    assert!(asked.into_iter().all(|one| one.join().unwrap().status == 200));
}

#[test]
fn b15_a_hot_key_spills_to_one_named_successor_and_no_origin_has_more_than_its_part() {
    let (all, gateway) = start(&["a", "b", "c", "d"], "key: \"{path}\", bounded_load: 1.25", "");
    let told = gateway.command(&["key", "--json", "http://test/hot"]);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let number = |name: &Value| all.iter().position(|origin| *name == origin.name.as_str()).unwrap();
    let (owner, next) = (number(&told["owner"]), number(&told["successors"][0]));
    let mut asked = Vec::new();
    for count in 1..=17 {
        asked.push(ask(&gateway, "/hot"));
        let counts = held(&all, count);
        assert_eq!(counts[owner], count.min(16), "{counts:?}");
        assert_eq!(counts[next], count.saturating_sub(16), "the seventeenth goes to the successor: {counts:?}");
    }
    asked.extend((17..200).map(|_| ask(&gateway, "/hot")));
    let counts = held(&all, 200);
    assert!(counts.iter().all(|count| *count <= 63), "1.25 x 50 is 63 at most: {counts:?}");
    release(&all, asked);
    assert_eq!(gateway.get("/hot").origin(), all[owner].name, "it comes back home");
}

#[test]
fn r6_when_every_origin_has_what_it_may_the_answer_is_503_at_once() {
    for balance in ["key: \"{path}\"", "algorithm: round_robin"] {
        let (all, gateway) = start(&["a", "b"], balance, "max_in_flight: 2");
        let asked: Vec<_> = (0..4).map(|n| ask(&gateway, &format!("/{n}"))).collect();
        assert_eq!(held(&all, 4), [2, 2], "{balance}");
        let answer = gateway.get("/too-many");
        assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{answer:?}");
        assert!(answer.header("proxy-status").unwrap().contains("error=http_request_denied"), "{answer:?}");
        let line = gateway.logged("/too-many");
        assert_eq!((&line["error"], &line["attempts"]), (&"limited".into(), &serde_json::json!([])), "{line}");
        for origin in &all {
            let shown = gateway.origin("p", &origin.name);
            assert_eq!((&shown["state"], &shown["error_ratio"]), (&"up".into(), &Value::Null), "{shown}");
        }
        release(&all, asked);
        assert_eq!(gateway.get("/again").status, 200);
    }
}

#[test]
fn r6_streams_are_limited_and_not_connections() {
    let all = [rig::origin("a")];
    all[0].script([on("*").hold("all").answer(200)]);
    let text = "pools: { p: { protocol: h2c, balance: { algorithm: p2c }, health: { probe: off }, origins: [ { address: $a, name: a, max_in_flight: 5 } ] } }\n";
    let gateway = rig::gateway(text).origins(&all).start();
    let asked: Vec<_> = (0..5).map(|n| ask(&gateway, &format!("/{n}"))).collect();
    held(&all, 5);
    assert_eq!(gateway.get("/sixth").status, 503);
    release(&all, asked);
}

#[test]
fn r6_many_at_once_never_exceed_a_limit() {
    let (all, gateway) = start(&["a", "b", "c"], "key: \"{path}\"", "max_in_flight: 7");
    let asked: Vec<_> = (0..80).map(|n| ask(&gateway, &format!("/{n}"))).collect();
    let refused = rig::eventually("the rest is refused", || {
        let done = asked.iter().filter(|one| one.is_finished()).count();
        (done == 80 - 3 * 7).then_some(done)
    });
    assert_eq!(held(&all, 21), [7, 7, 7]);
    all.iter().for_each(|origin| origin.release("all"));
    let answers: Vec<u16> = asked.into_iter().map(|one| one.join().unwrap().status).collect();
    assert_eq!(answers.iter().filter(|status| **status == 503).count(), refused);
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 21);
}

/// A failed try gives its place back before the next one takes another, and a full origin is no place to try again.
#[test]
fn r6_a_full_origin_is_not_tried_again_either() {
    let (all, gateway) = start(&["a", "b"], "algorithm: least_in_flight", "max_in_flight: 1");
    let asked = vec![ask(&gateway, "/0")];
    let first = held(&all, 1);
    let free = first.iter().position(|count| *count == 0).unwrap();
    all[free].script([on("*").then(rig::Step::End(rig::Close::Rst))]);
    let answer = gateway.get("/1");
    assert_eq!(answer.status, 502, "the failure stands: {answer:?}");
    let line = gateway.logged("/1");
    assert_eq!(line["attempts"].as_array().unwrap().len(), 1, "{line}");
    all[free].script([]);
    assert_eq!(gateway.get("/2").origin(), all[free].name, "its place is free again");
    release(&all, asked);
}

/// Three origins `a`, `b` and `c`, and the backup `s`; two requests each at most.
fn with_backup() -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b", "c", "s"].map(rig::origin).into();
    let one = |name: &str| {
        let backup = if name == "s" { ", backup: true" } else { "" };
        format!("{{ address: ${name}, name: {name}{backup} }}")
    };
    let text = format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, health: {{ probe: off }}, connections: {{ max_in_flight: 2 }}, origins: [ {} ] }} }}\n",
        ["a", "b", "c", "s"].map(one).join(", ")
    );
    let gateway = rig::gateway(&text).origins(&all).start();
    (all, gateway)
}

/// What `key --json` says of these targets, with more arguments.
fn told(gateway: &Gateway, targets: &[String], more: &[String]) -> Vec<Value> {
    let arguments: Vec<&str> =
        ["key", "--json"].into_iter().chain(more.iter().chain(targets).map(String::as_str)).collect();
    let output = gateway.command(&arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What tells the command of so many requests in flight at each.
fn in_that_scene(all: &[Origin], in_flight: [usize; 4]) -> Vec<String> {
    let told = |(origin, count): (&Origin, usize)| ["--in-flight".to_owned(), format!("{}={count}", origin.name)];
    all.iter().zip(in_flight).flat_map(told).collect()
}

/// Requests in flight at each, who gets the next one, in which pass, and why: as the command says, and as it happens.
#[test]
fn r3_origins_at_their_limits_are_passed_over_and_then_backups_asked() {
    let (all, gateway) = with_backup();
    let targets: Vec<String> = (0..200).map(|n| format!("/hold/{n}")).collect();
    let known = told(&gateway, &targets, &[]);
    let walks = |told: &&Value| told["owner"] == "a" && told["successors"] == serde_json::json!(["b", "c"]);
    let url = |told: &Value| told["url"].as_str().unwrap().to_owned();
    let target = known.iter().find(walks).map(url).unwrap();
    let rows = [
        ([0, 0, 0, 0], Some(("a", 1, "owner"))),
        ([1, 2, 2, 0], Some(("a", 1, "owner"))),
        ([2, 0, 0, 0], Some(("b", 1, "owner_full"))),
        ([2, 1, 0, 0], Some(("b", 1, "owner_full"))),
        ([2, 2, 1, 0], Some(("c", 1, "owner_full"))),
        ([2, 2, 2, 0], Some(("s", 4, "backup"))),
        ([2, 2, 2, 1], Some(("s", 4, "backup"))),
        ([2, 2, 2, 2], None),
    ];
    for (number, (in_flight, next)) in rows.into_iter().enumerate() {
        let barrier = format!("row {number}");
        all.iter().for_each(|origin| origin.script([on("/hold*").hold(&barrier).answer(200)]));
        let idle = |origin: &Origin| gateway.origin("p", &origin.name)["in_flight"] == 0;
        rig::eventually("the row before is over", || all.iter().all(idle).then_some(()));
        let mut asked = Vec::new();
        for (origin, count) in all.iter().zip(in_flight) {
            let owned = known.iter().filter(|told| told["owner"] == origin.name.as_str()).map(url);
            // The others are full when a backup has something to do.
            let any = || targets.iter().cloned();
            let of: Vec<String> =
                if origin.name == "s" { any().take(count).collect() } else { owned.take(count).collect() };
            asked.extend(of.iter().map(|target| ask(&gateway, target)));
            rig::eventually("they are there", || (origin.counts().in_flight == count as u64).then_some(()));
        }
        let said = told(&gateway, std::slice::from_ref(&target), &in_that_scene(&all, in_flight)).remove(0);
        let expected = next.map_or(serde_json::json!([null, null, null]), |next| serde_json::json!(next));
        assert_eq!(serde_json::json!([said["goes_to"], said["pass"], said["reason"]]), expected, "{in_flight:?}");
        let shown = format!("{target}?row={number}");
        let last = ask(&gateway, &shown);
        match next {
            Some((name, ..)) => {
                let one = all.iter().find(|origin| origin.name == name).unwrap();
                one.await_requests(&target, 1);
                all.iter().for_each(|origin| origin.release(&barrier));
                assert_eq!(last.join().unwrap().origin(), name, "{in_flight:?}");
            }
            None => {
                assert_eq!(last.join().unwrap().status, 503, "{in_flight:?}");
                all.iter().for_each(|origin| origin.release(&barrier));
            }
        }
        assert!(asked.into_iter().all(|one| one.join().unwrap().status == 200));
        all.iter().for_each(Origin::forget);
    }
}
