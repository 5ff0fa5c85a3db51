//! Is an origin done though its client still reads?

use std::time::{Duration, Instant};

use crate::rig::{self, Body, Framing, Gateway, Origin, answer, eventually, on, within};

/// More than the sockets on the way take by themselves.
const SIZE: u64 = 24 << 20;

fn gate(route: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let text = format!(
        "client_limits: {{ send_timeout: 3s }}\n\
         pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, origins: $origins }} }}\nroutes: [ {{ pool: p, {route} }} ]\n"
    );
    let gateway = rig::gateway(&text).origins([&a]).start();
    (a, gateway)
}

fn serves(origin: &Origin, framing: Framing, headers: &[(&str, &str)]) {
    let much = answer(200).body(Body::Pattern(SIZE)).framing(framing);
    let much = headers.iter().fold(much, |much, (name, value)| much.header(name, value));
    origin.script([on("/much").then(much.into())]);
}

/// Has the origin its connection and its lease back?
fn is_done(origin: &Origin, gateway: &Gateway) -> bool {
    origin.counts().in_flight == 0 && gateway.metrics().sum("moorgate_in_flight", &[]) == 0.0
}

#[test]
fn an_origin_is_done_at_once_and_its_client_reads_at_leisure() {
    let (a, gateway) = gate("buffering: { response: 32MiB }");
    for framing in [Framing::Length, Framing::Chunked, Framing::UntilClose] {
        serves(&a, framing, &[]);
        a.forget();
        let before = gateway.log().len();
        let mut slow = rig::download(gateway.address(), "/much");
        a.await_requests("/much", 1);
        let began = Instant::now();
        eventually("the origin is done", || is_done(&a, &gateway).then_some(()));
        assert!(began.elapsed() < Duration::from_secs(5), "{framing:?}: {:?}", began.elapsed());
        // longer than a client that takes nothing is waited for, though never that long without a byte
        for _ in 0..8 {
            slow.read(1 << 20);
            std::thread::sleep(Duration::from_millis(450));
        }
        assert_eq!(gateway.log().len(), before, "it is not over before the client has it");
        assert_eq!(slow.read(u64::MAX), SIZE - (8 << 20), "{framing:?}");
        let line = gateway.await_log(before + 1).pop().unwrap();
        assert_eq!((line["status"].as_u64(), line["bytes_sent"].as_u64()), (Some(200), Some(SIZE)), "{line}");
        assert!(line["request_time"].as_f64() > Some(3.0) && line["error"].is_null(), "{line}");
    }
}

#[test]
fn an_origin_is_held_without_and_when_it_says_so() {
    for (route, word) in [("name: off", "no"), ("buffering: { response: 32MiB }", "no")] {
        let (a, gateway) = gate(route);
        serves(&a, Framing::Length, &[("X-Accel-Buffering", word)]);
        let mut raw = rig::raw(gateway.address());
        raw.send("GET /much HTTP/1.1\r\nHost: t\r\n\r\n");
        let head = raw.answer_to("HEAD").unwrap();
        let passed_on = head.header("x-accel-buffering");
        assert_eq!(passed_on, (route == "name: off").then_some("no"), "the word is for whoever holds answers");
        assert_eq!(within(Duration::from_secs(1), || is_done(&a, &gateway).then_some(())), None, "{route}");
    }
}

#[test]
fn a_connection_goes_on_after_what_was_held_and_one_that_reads_nothing_is_cut() {
    let (a, gateway) = gate("buffering: { response: 32MiB }");
    serves(&a, Framing::Length, &[("X-Accel-Buffering", "yes")]);
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /much HTTP/1.1\r\nHost: t\r\n\r\n");
    eventually("the origin is done", || (a.counts().requests == 1 && is_done(&a, &gateway)).then_some(()));
    // the next request may come before the answer was read
    raw.send("GET /next HTTP/1.1\r\nHost: t\r\n\r\n");
    let first = raw.answer();
    assert_eq!((first.header("x-accel-buffering"), first.body.len() as u64), (None, SIZE));
    assert_eq!(raw.answer().text(), "a");
    let mut deaf = rig::raw(gateway.address());
    deaf.send("GET /much?deaf HTTP/1.1\r\nHost: t\r\n\r\n");
    let line = gateway.logged("/much?deaf");
    assert_eq!((line["error"].as_str(), line["status"].as_u64()), (Some("client_gone"), Some(200)), "{line}");
    assert!(line["bytes_sent"].as_u64() < Some(SIZE), "{line}");
    assert!((deaf.rest().len() as u64) < SIZE);
}

#[test]
fn what_is_larger_than_it_may_hold_passes_at_the_client_s_pace() {
    let (a, gateway) = gate("buffering: { response: 1MiB }");
    serves(&a, Framing::Chunked, &[]);
    let mut slow = rig::download(gateway.address(), "/much");
    slow.read(1 << 20);
    assert_eq!(within(Duration::from_millis(500), || is_done(&a, &gateway).then_some(())), None);
    assert_eq!(slow.read(u64::MAX), SIZE - (1 << 20));
}
