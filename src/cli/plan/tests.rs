//! What `plan` says of two files, as JSON and for people.

use clap::Parser;
use serde_json::{Value, json};

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    plan: Plan,
}

/// What is said of these two files, and for people.
fn planned(before: &str, after: &str, more: &[&str], input: &str) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let head = "version: 1\nprocess: { listeners: [ { address: 127.0.0.1:0 } ] }\n";
    let [from, to] =
        [("a.yaml", before), ("b.yaml", after)].map(|(name, text)| write(name, &format!("{head}{text}\n")));
    let input = write("input", input);
    let more: Vec<&str> = more.iter().map(|word| if *word == "INPUT" { input.as_str() } else { word }).collect();
    let plan = Line::try_parse_from([&["plan", "--from", &from, "--to", &to], &more[..]].concat()).unwrap().plan;
    let sides = plan.sides().unwrap_or_else(|error| panic!("{error:#}"));
    let report = plan.report(&sides, &plan.source(&sides).unwrap(), &mut Progress::silent()).unwrap();
    (serde_json::to_value(&report).unwrap(), table::show(&report, false))
}

fn pool(more: &str, origins: std::ops::Range<u32>) -> String {
    let origins: Vec<String> = origins.map(|n| format!("\"10.0.0.{n}:80\"")).collect();
    format!("pools: {{ p: {{ {more} origins: [{}] }} }}", origins.join(", "))
}

/// Keys for what follows from the files alone.
const FEW: &str = "/a\n/b\n/c\n";

fn ratio(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn growth_moves_its_share_and_nothing_more() {
    let keys: String = (0..10_000).map(|n| format!("/obj/{n}\n")).collect();
    let (said, text) = planned(&pool("", 0..8), &pool("", 0..12), &["--keys", "INPUT"], &keys);
    let p = &said["pools"]["p"];
    assert_eq!((&p["keys"], &said["refused"], &said["source"]), (&json!(10_000), &json!(false), &json!("keys")));
    let (moved, least, circle) = (ratio(&p["moved_ratio"]), ratio(&p["least_possible"]), ratio(&p["circle"]));
    assert!((moved - circle).abs() < 0.02 && (least - circle).abs() < 1e-9, "{moved} {least} {circle}");
    assert_eq!(p["moved"].as_u64().unwrap() as f64 / 10_000.0, moved);
    let pairs = p["pairs"].as_array().unwrap();
    let new = ["10.0.0.8:80", "10.0.0.9:80", "10.0.0.10:80", "10.0.0.11:80"];
    assert!(pairs.iter().all(|pair| new.contains(&pair["to"].as_str().unwrap())), "only to newcomers");
    let sum: u64 = pairs.iter().map(|pair| pair["keys"].as_u64().unwrap()).sum();
    assert_eq!(sum, p["moved"].as_u64().unwrap());
    let share = &p["shares"]["10.0.0.8:80"];
    assert_eq!(share["before"], 0.0);
    assert!((0.05..0.12).contains(&ratio(&share["after"])), "{share}");
    assert!(ratio(&p["excess"]) < 1e-9 && p["causes"] == json!([]), "{p}");
    assert!(text.starts_with("pool p      10,000 keys\nmoved       3,"), "{text}");
    assert!(text.contains("\nexcess      0.0 points\n") && text.contains(" FROM "), "{text}");
}

#[test]
fn keys_are_made_up_when_there_are_none() {
    let (said, text) = planned(&pool("", 0..3), &pool("", 0..4), &[], "");
    let p = &said["pools"]["p"];
    assert_eq!((&said["source"], &p["keys"]), (&json!("generated"), &json!(100_000)));
    assert!((ratio(&p["moved_ratio"]) - ratio(&p["circle"])).abs() < 0.005, "{p}");
    assert!(text.starts_with("pool p      100,000 keys, made up\n"), "{text}");
}

#[test]
fn requests_count_by_how_often_they_are_made() {
    let log: String = (0..2000).map(|n| format!("http://h/obj/{}\n", if n % 2 == 0 { 0 } else { n })).collect();
    let (said, _) = planned(&pool("", 0..2), &pool("", 0..1), &["--keys", "INPUT", "--hit-ratio", "90%"], &log);
    let p = &said["pools"]["p"];
    assert_eq!((&p["keys"], &p["requests"]["total"]), (&json!(1001), &json!(2000)));
    let (keys, requests) = (ratio(&p["moved_ratio"]), ratio(&p["requests"]["moved_ratio"]));
    assert!((keys - requests).abs() > 0.2, "the hot key weighs half of the requests: {keys} and {requests}");
    let extra = &p["extra_origin_requests"];
    assert!((ratio(&extra["missed_after"]) - (0.1 + 0.9 * requests)).abs() < 1e-9, "{extra}");
    assert_eq!(extra["requests"], (p["moved"].as_u64().unwrap() as f64 * 0.9).round() as u64);
}

/// A log in which a tenth of the requests carries a time stamp.
fn stamped() -> String {
    let mut random = fastrand::Rng::with_seed(3);
    let stamp = |n: u32| if n.is_multiple_of(10) { format!("&t={n}") } else { String::new() };
    (0..20_000).map(|n| format!("http://h/obj/{}?v=2{}\n", random.u32(..500), stamp(n))).collect()
}

#[test]
fn an_argument_that_hardly_repeats_is_named_with_the_line_that_takes_it_out() {
    let (said, text) = planned(&pool("", 0..8), &pool("", 0..12), &["--keys", "INPUT"], &stamped());
    let p = &said["pools"]["p"];
    let [cause] = &p["causes"].as_array().unwrap()[..] else { panic!("{p}") };
    assert_eq!((&cause["kind"], &cause["argument"]), (&json!("argument"), &json!("t")));
    assert_eq!((&cause["line"], &cause["keys"]), (&json!("args: { drop: [t] }"), &json!(500)));
    assert!((ratio(&cause["requests"]) - 0.1).abs() < 0.01 && ratio(&cause["distinct"]) > 0.99, "{cause}");
    let [now, then, with] = ["now", "then", "moved_ratio"].map(|field| ratio(&cause[field]));
    let least = ratio(&p["least_possible"]);
    assert!((with - least).abs() < 0.06, "with the line the least moves, give or take: {with} and {least}");
    assert!(now > then + 0.05 && (ratio(&p["excess"]) - (now - then)).abs() < 1e-9, "{p}");
    assert!(
        text.contains("likely why  argument t: in 10.0% of the requests, 100.0% of its values distinct\n"),
        "{text}"
    );
    assert!(text.contains("with args: { drop: [t] } "), "{text}");
    let with_line = pool("args: { drop: [t] },", 0..8);
    let (said, _) = planned(&with_line, &with_line, &["--keys", "INPUT"], &stamped());
    assert_eq!((&said["pools"]["p"]["keys"], &said["pools"]["p"]["causes"]), (&json!(500), &json!([])));
}

#[test]
fn other_likely_causes_are_named() {
    let before = "pools: { p: { origins: [\"localhost:1\", \"10.0.0.1\", { address: \"10.0.0.2:80\", name: x }] } }";
    let after = "pools: { p: { origins: [\"127.0.0.1:1\", \"10.0.0.1:80\", { address: \"10.0.0.2:80\", name: y }] } }";
    let (said, text) = planned(before, after, &["--keys", "INPUT"], FEW);
    let causes = said["pools"]["p"]["causes"].as_array().unwrap();
    let spellings: Vec<_> = causes.iter().map(|cause| cause["spelling"].as_str().unwrap()).collect();
    assert_eq!(spellings, ["loopback", "port", "renamed"], "{text}");
    assert!(text.contains("localhost:1 is 127.0.0.1:1 now: the same machine, another name, other keys\n"), "{text}");
    let (said, text) =
        planned(&pool("", 0..2), &pool("balance: { key: \"{path}\" },", 0..2), &["--keys", "INPUT"], FEW);
    let p = &said["pools"]["p"];
    assert_eq!((&p["moved_ratio"], &p["circle"], &p["causes"][0]["kind"]), (&json!(1.0), &json!(1.0), &json!("key")));
    assert!(text.contains("balance.key was {host}{path}{args}, is {path}: other keys for everything\n"), "{text}");
}

#[test]
fn a_guard_refuses_and_names_the_greatest_step_that_passes() {
    let guarded = pool("guard: { max_moved: 25% },", 0..12);
    let (said, text) = planned(&pool("", 0..8), &guarded, &["--keys", "INPUT"], FEW);
    assert_eq!(said["refused"], true);
    let guard = &said["pools"]["p"]["guard"];
    assert_eq!((&guard["max_moved"], &guard["refused"]), (&json!(0.25), &json!(true)));
    assert!((0.1..=0.25).contains(&ratio(&guard["step"]["moved"])), "{guard}");
    let first = json!({ "name": "10.0.0.8:80", "before": 0, "after": 1 });
    assert_eq!(guard["step"]["origins"][0], first, "{guard}");
    assert!(text.contains("a step that passes: add 10.0.0.8:80"), "{text}");
    let (said, _) = planned(&pool("", 0..10), &pool("guard: { max_moved: 25% },", 0..11), &["--keys", "INPUT"], FEW);
    assert_eq!((&said["refused"], &said["pools"]["p"]["guard"]["step"]), (&json!(false), &Value::Null));
}

#[test]
fn every_pool_is_planned_by_the_requests_that_are_routed_to_it() {
    let file = |to: &str| {
        format!(
            "pools: {{ a: {{ origins: [\"10.0.0.1:80\", \"10.0.0.2:80\"] }}, b: {{ origins: [\"10.0.0.1:80\"] }} }}\nroutes:\n  - {{ match: {{ path: {{ prefix: /b }} }}, pool: {to} }}\n  - {{ match: {{ path: {{ prefix: /a }} }}, pool: a }}"
        )
    };
    let urls = "http://h/a/1\nhttp://h/a/2\nhttp://h/b/1\nhttp://h/c\nliteral\n";
    let (said, text) = planned(&file("b"), &file("b"), &["--keys", "INPUT"], urls);
    let keys = |pool: &str| said["pools"][pool]["keys"].clone();
    assert_eq!((keys("a"), keys("b"), &said["elsewhere"]), (json!(3), json!(2), &json!(1)), "{text}");
    let (said, text) = planned(&file("b"), &file("a"), &["--keys", "INPUT"], urls);
    assert_eq!(said["rerouted"], json!([{ "from": "b", "to": "a", "requests": 1 }]));
    assert!(text.contains("rerouted    1 requests go to pool a now, not to b\n"), "{text}");
    let (said, _) = planned(&file("b"), &file("b"), &["--keys", "INPUT", "--pool", "a"], urls);
    assert_eq!(said["pools"].as_object().unwrap().keys().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn what_cannot_be_read_is_counted_and_shown() {
    let log = "nonsense\n192.0.2.7 [x] \"GET /a HTTP/1.1\" 200 h/a - - - 0.0 -\n";
    let (said, text) = planned(&pool("", 0..2), &pool("", 0..2), &["--access-log", "INPUT"], log);
    assert_eq!((&said["skipped"], &said["pools"]["p"]["keys"]), (&json!(1), &json!(1)));
    assert!(text.contains("skipped     1 lines could not be read, the first line 1: it does not match"), "{text}");
    let by_header = pool("balance: { key: \"{header:x-user}\" },", 0..2);
    let (said, text) = planned(&by_header, &by_header, &["--access-log", "INPUT"], log);
    assert_eq!((&said["unknown"], &said["pools"]["p"]["keys"]), (&json!(1), &json!(0)));
    assert!(
        text.contains("unknown     1 requests have a key that hangs on what this source does not tell\n"),
        "{text}"
    );
}

#[test]
fn where_no_key_places_every_request_is_spread() {
    let turns = |origins| pool("balance: { algorithm: round_robin },", origins);
    let (said, text) = planned(&turns(0..2), &turns(0..3), &["--keys", "INPUT"], "http://h/a\nhttp://h/b\n/c\n");
    let p = &said["pools"]["p"];
    assert_eq!((&p["keys"], &p["moved"], &p["requests"]["spread"]), (&json!(0), &json!(0), &json!(3)), "{text}");
    let (said, _) = planned(&pool("", 0..2), &turns(0..2), &["--keys", "INPUT"], "http://h/a\nhttp://h/b\n/c\n");
    let p = &said["pools"]["p"];
    assert_eq!((&p["keys"], &p["moved"], &p["circle"]), (&json!(3), &json!(3), &json!(1.0)), "what had a key has none");
    let (said, _) = planned(&turns(0..2), &pool("", 0..2), &["--keys", "INPUT"], "http://h/a\n/c\n");
    let p = &said["pools"]["p"];
    assert_eq!((&p["requests"]["spread"], &p["moved"]), (&json!(2), &json!(0)), "nobody knew where it would go");
}

#[test]
fn backups_are_in_no_plan() {
    let backup = |weight: u32| {
        let origins =
            format!("\"10.0.0.1:80\", \"10.0.0.2:80\", {{ address: \"10.0.0.9:80\", backup: true, weight: {weight} }}");
        format!("pools: {{ p: {{ origins: [{origins}] }} }}")
    };
    let (said, _) = planned(&pool("", 1..3), &backup(50), &["--keys", "INPUT"], FEW);
    let p = &said["pools"]["p"];
    assert_eq!((&p["moved"], &p["circle"], &p["causes"]), (&json!(0), &json!(0.0), &json!([])), "{p}");
}
