//! In which words is a request refused? In JSON for those who like that better than text, whoever refused it and whatever
//! for.

use serde_json::{Value, json};

use crate::rig::{self, Answer, Ask, Close, Door, Gateway, Origin};

const LIKES: [(&[&str], bool); 14] = [
    (&[], false),
    (&["*/*"], false),
    (&["application/json"], true),
    (&["Application/JSON; Q=0.9"], true),
    (&["application/json, */*"], true),
    (&["application/json;q=0.5, text/plain;q=0.4"], true),
    (&["application/json;q=0.4, text/plain;q=0.5"], false),
    (&["*/*;q=0.8, application/json;q=0.1"], false),
    (&["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"], false),
    (&["application/problem+json, */*;q=0.1"], true),
    (&["text/plain;q=0.1", "application/json"], true),
    (&["application/json;q=0"], false),
    (&["application/json;q=much"], false),
    (&[",;,q=1;;"], false),
];

fn start() -> (Origin, Gateway) {
    let a = rig::origin("a");
    let text = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n\
                routes: [ { match: { path: { prefix: /served } }, pool: p } ]\n";
    let gateway = rig::gateway(text).listener("h2c: true").origins([&a]).start();
    a.door(Door::Refuse);
    a.close_idle(Close::Fin);
    (a, gateway)
}

fn liking(method: &str, target: &str, accept: &[&str]) -> Ask {
    accept.iter().fold(Ask::new(method, target), |ask, value| ask.header("Accept", value))
}

fn assert_said(answer: &Answer, in_json: bool, status: u16, error: &str) {
    let header = |name| answer.header(name).unwrap_or_else(|| panic!("no {name}: {answer:?}"));
    let id = header("x-request-id");
    assert_eq!((answer.status, header("cache-control")), (status, "no-store"), "{answer:?}");
    assert!(header("proxy-status").starts_with("moorgate; error="), "{answer:?}");
    if in_json {
        assert_eq!(header("content-type"), "application/json", "{answer:?}");
        let body: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(body, json!({ "status": status, "error": error, "request_id": id }));
    } else {
        assert_eq!(header("content-type"), "text/plain; charset=utf-8", "{answer:?}");
        let body = answer.text();
        assert!(
            body.starts_with(&status.to_string()) && body.ends_with(&format!(": {error} (request {id})\n")),
            "{body}"
        );
    }
}

#[test]
fn who_likes_json_better_is_refused_in_json() {
    let (_a, gateway) = start();
    for (accept, in_json) in LIKES {
        for (target, status, error) in
            [("/none", 404, "no_route"), ("/served/%00", 400, "bad_request"), ("/served/x", 502, "connect_refused")]
        {
            let answer = gateway.ask(&liking("GET", target, accept));
            assert_said(&answer, in_json, status, error);
            let head = gateway.ask(&liking("HEAD", target, accept));
            assert_eq!((head.status, head.body.len()), (status, 0), "{accept:?}");
            assert_eq!(head.header("content-type"), answer.header("content-type"), "{accept:?}");
        }
    }
}

#[test]
fn a_client_of_http_2_is_refused_in_json_too() {
    let (_a, gateway) = start();
    let asks: Vec<Ask> = LIKES.iter().map(|(accept, _)| liking("GET", "/none", accept)).collect();
    for (answer, (_, in_json)) in rig::h2c(gateway.address(), &asks).into_iter().zip(LIKES) {
        assert_said(&answer.unwrap(), in_json, 404, "no_route");
    }
}

#[test]
fn a_head_that_no_origin_took_has_its_answer_over_http2_too() {
    let text = "pools: { p: { origins: [\"127.0.0.1:1\"], balance: { algorithm: p2c }, health: { probe: off } } }\n";
    let gateway = rig::gateway(text).listener("h2c: true").start();
    let answer = rig::h2c(gateway.address(), &[Ask::new("HEAD", "/")]).remove(0).unwrap();
    assert_eq!((answer.status, answer.body.len()), (502, 0));
}
