//! What may a client cost? Headers, bodies and reads that drip are cut, idle connections too, and there is a limit.

use std::time::{Duration, Instant};

use crate::rig::{self, Answer, Body, Gateway, Origin, eventually, on};

fn gate(limits: &str, process: &[(&str, &str)]) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let text = format!(
        "client_limits: {{ {limits} }}\npools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, origins: $origins }} }}\n"
    );
    let setup = rig::gateway(&text).origins([&a]);
    let gateway = process.iter().fold(setup, |setup, (key, value)| setup.process(key, value)).start();
    (a, gateway)
}

/// Sends a byte at a time until the gateway has had enough; its answer and how long that took.
fn drip(gateway: &Gateway, start: &str) -> (Option<Answer>, Duration) {
    let began = Instant::now();
    let mut raw = rig::raw(gateway.address());
    raw.send(start);
    let cut = eventually("the dripping is cut", || {
        std::thread::sleep(Duration::from_millis(20));
        raw.try_send("x").is_err().then(|| began.elapsed())
    });
    (raw.answer_to("GET").ok(), cut)
}

#[test]
fn a_header_that_drips_is_cut_and_logged() {
    let (a, gateway) = gate("header_timeout: 500ms", &[]);
    let mut raw = rig::raw(gateway.address());
    let began = Instant::now();
    raw.send("GET /dripping HT");
    let answer = raw.answer();
    assert_eq!(answer.status, 408);
    assert!(answer.closes());
    assert!(began.elapsed() >= Duration::from_millis(500));
    let line = gateway.await_log(1).remove(0);
    assert_eq!((line["status"].as_u64(), line["error"].as_str()), (Some(408), Some("client_timeout")), "{line}");
    let (_, cut) = drip(&gateway, "GET / HTTP/1.1\r\nx: ");
    assert!(cut < Duration::from_secs(8), "{cut:?}");
    assert_eq!(a.served(), 0);
}

#[test]
fn a_body_that_drips_is_cut() {
    let (_a, gateway) = gate("body_timeout: 500ms", &[]);
    let (answer, cut) = drip(&gateway, "POST /upload HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n");
    assert!(cut >= Duration::from_millis(500) && cut < Duration::from_secs(8), "{cut:?}");
    assert!(answer.is_none_or(|answer| answer.status == 408));
    let line = gateway.logged("/upload");
    assert_eq!(line["error"], "client_timeout", "{line}");
}

#[test]
fn a_body_in_good_time_may_take_longer_than_the_limit() {
    let (a, gateway) = gate("body_timeout: 400ms", &[]);
    let mut raw = rig::raw(gateway.address());
    raw.send(format!("POST /upload HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n", 10 * 16384));
    for _ in 0..10 {
        raw.send(vec![b'x'; 16384]);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(raw.answer().status, 200);
    assert_eq!(a.requests()[0].body_bytes, 10 * 16384);
}

#[test]
fn one_who_does_not_read_is_let_go() {
    let (a, gateway) = gate("send_timeout: 500ms", &[]);
    a.script([on("/much").then(rig::answer(200).body(Body::Size(16 << 20)).into())]);
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /much HTTP/1.1\r\nHost: t\r\n\r\n");
    let line = gateway.logged("/much");
    assert_eq!(line["error"], "client_gone", "{line}");
    eventually("it is not counted any more", || {
        (gateway.metrics().sum("moorgate_connections", &[]) == 0.0).then_some(())
    });
    assert!(raw.rest().len() < 16 << 20);
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    let (_a, gateway) = gate("keepalive: 500ms", &[]);
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /a HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(raw.answer().status, 200);
    let idle = Instant::now();
    assert_eq!(raw.rest(), b"");
    assert!(idle.elapsed() >= Duration::from_millis(400), "{:?}", idle.elapsed());
}

#[test]
fn the_last_allowed_request_and_an_old_connection_close() {
    let (_a, gateway) = gate("keepalive_requests: 3", &[]);
    let mut client = rig::raw(gateway.address());
    let mut closes = || {
        client.send("GET /a HTTP/1.1\r\nHost: t\r\n\r\n");
        client.answer().closes()
    };
    assert_eq!([closes(), closes(), closes()], [false, false, true]);
    let (_a, gateway) = gate("max_age: 300ms", &[]);
    let mut client = gateway.client();
    assert!(!client.get("/young").closes());
    std::thread::sleep(Duration::from_millis(350));
    assert!(client.get("/old").closes());
}

#[test]
fn connections_over_the_limit_are_turned_away_and_counted() {
    let (_a, gateway) = gate("keepalive: 60s", &[("max_connections", "2")]);
    let (mut first, mut second) = (gateway.client(), gateway.client());
    assert_eq!((first.get("/a").status, second.get("/b").status), (200, 200));
    assert_eq!(rig::raw(gateway.address()).rest(), b"");
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("moorgate_connections_rejected_total", &[("reason", "max_connections")]), 1.0);
    assert_eq!(metrics.sum("moorgate_connections", &[]), 2.0);
    drop(first);
    let served = || {
        let mut raw = rig::raw(gateway.address());
        raw.try_send("GET /c HTTP/1.1\r\nHost: t\r\n\r\n").ok()?;
        raw.answer_to("GET").ok().filter(|answer| answer.status == 200)
    };
    eventually("a place is free again", served);
}
