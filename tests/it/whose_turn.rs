//! Who is too slow, the client or the origin? An origin is not to blame for what its client owes, and the other way round.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::rig::{self, Amount, Ask, Body, Close, Gateway, Origin, Step, answer, on};

/// `read` is 300 ms.
fn gate(protocol: &str, limits: &str, timeouts: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let text = format!(
        "client_limits: {{ {limits} }}\npools: {{ p: {{ protocol: {protocol}, balance: {{ key: \"{{path}}\" }}, \
         timeouts: {{ connect: 200ms, read: 300ms{timeouts} }}, origins: $origins }} }}\n"
    );
    let gateway = rig::gateway(&text).listener("h2c: true").origins([&a]).start();
    (a, gateway)
}

/// How the only try of a request ended, as the log has it, with the request's own status and error.
fn told(gateway: &Gateway, target: &str) -> (Value, Value, Value) {
    let line = gateway.logged(target);
    assert_eq!(line["attempts"].as_array().map(Vec::len), Some(1), "{line}");
    (line["status"].clone(), line["error"].clone(), line["attempts"][0]["outcome"].clone())
}

/// Nothing was held against the origin.
fn assert_not_blamed(gateway: &Gateway) {
    let origin = gateway.origin("p", "a");
    assert_eq!((&origin["state"], origin["error_ratio"].as_f64().unwrap_or(0.0)), (&"up".into(), 0.0), "{origin}");
    assert_eq!(gateway.metrics().sum("moorgate_attempts_total", &[("outcome", "response_timeout")]), 0.0);
}

/// Sends a header and the first ten bytes of a body, and waits for what comes of it.
fn stall(gateway: &Gateway, target: &str, framing: &str, first: &str) -> (rig::Answer, Duration) {
    let began = Instant::now();
    let mut raw = rig::raw(gateway.address());
    raw.send(format!("PUT {target} HTTP/1.1\r\nHost: t\r\n{framing}\r\n\r\n{first}"));
    let answer = raw.answer();
    assert!(answer.closes(), "{answer:?}");
    (answer, began.elapsed())
}

#[test]
fn a_client_that_stalls_its_upload_is_told_so_and_no_origin_is_blamed() {
    for protocol in ["http1", "h2c"] {
        let (_a, gateway) = gate(protocol, "body_timeout: 1500ms", "");
        for (n, (framing, first)) in
            [("Content-Length: 100000", "0123456789"), ("Transfer-Encoding: chunked", "a\r\n0123456789\r\n")]
                .into_iter()
                .enumerate()
        {
            let target = format!("/up/{n}");
            let (answer, took) = stall(&gateway, &target, framing, first);
            assert_eq!(answer.status, 408, "{protocol}: {answer:?}");
            assert!(took >= Duration::from_millis(1400), "{protocol}: {took:?}, and `read` is 300 ms");
            let expected = (408.into(), "client_timeout".into(), "client_timeout".into());
            assert_eq!(told(&gateway, &target), expected, "{protocol}");
        }
        assert_not_blamed(&gateway);
    }
}

#[test]
fn an_upload_may_pause_for_longer_than_an_origin_may_be_silent() {
    for protocol in ["http1", "h2c"] {
        let (a, gateway) = gate(protocol, "body_timeout: 20s", "");
        let mut raw = rig::raw(gateway.address());
        raw.send("PUT /up HTTP/1.1\r\nHost: t\r\nContent-Length: 30\r\n\r\n");
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(500));
            raw.send("0123456789");
        }
        assert_eq!(raw.answer().status, 200, "{protocol}");
        assert_eq!((a.requests()[0].body_bytes, a.requests()[0].complete), (30, true), "{protocol}");
        assert_not_blamed(&gateway);
    }
}

#[test]
fn an_origin_that_is_silent_after_the_whole_body_is_cut() {
    for protocol in ["http1", "h2c"] {
        let (a, gateway) = gate(protocol, "body_timeout: 20s", "");
        a.script([on("/up").then(Step::Read(Amount::All)).then(Step::Hang)]);
        let answer = gateway.ask(&Ask::new("PUT", "/up").body("0123456789"));
        assert_eq!(answer.status, 504, "{protocol}: {answer:?}");
        let expected = (504.into(), "response_timeout".into(), "response_timeout".into());
        assert_eq!(told(&gateway, "/up"), expected, "{protocol}");
    }
}

#[test]
fn an_origin_that_stops_reading_a_body_is_cut() {
    for protocol in ["http1", "h2c"] {
        let (a, gateway) = gate(protocol, "body_timeout: 60s", ", send: 59s");
        a.script([on("/up").then(Step::Read(Amount::Bytes(1))).then(Step::Hang)]);
        let began = Instant::now();
        let mut raw = rig::raw(gateway.address());
        raw.send("PUT /up HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000000\r\n\r\n");
        // More than all buffers on the way take; whoever is answered stops.
        let mut sender = raw.sender();
        let sent = std::thread::spawn(move || while sender.write_all(&[b'x'; 1 << 16]).is_ok() {});
        // Ten MiB through an unoptimised gateway take their time where others want the processor.
        let waits = |error: &std::io::Error| {
            error.kind() == std::io::ErrorKind::WouldBlock && began.elapsed() < rig::PATIENCE * 2
        };
        let answer = loop {
            match raw.answer_to("PUT") {
                Err(error) if waits(&error) => {}
                answer => break answer.unwrap(),
            }
        };
        drop(raw);
        sent.join().unwrap();
        assert_eq!(answer.status, 504, "{protocol}: {answer:?}");
        let expected = (504.into(), "response_timeout".into(), "response_timeout".into());
        assert_eq!(told(&gateway, "/up"), expected, "{protocol}");
    }
}

#[test]
fn an_origin_that_does_not_ask_for_an_announced_body_is_silent_and_one_that_asks_waits_for_it() {
    let (a, gateway) = gate("http1", "body_timeout: 1500ms", "");
    a.script([
        on("/never").then(Step::Read(Amount::Bytes(0))).then(Step::Hang),
        on("/asked").then(Step::Inform(100)).then(Step::Read(Amount::All)).answer(200),
    ]);
    let head = |target: &str| {
        let mut raw = rig::raw(gateway.address());
        raw.send(format!("PUT {target} HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n"));
        raw
    };
    assert_eq!(head("/never").answer().status, 504);
    let mut asked = head("/asked");
    assert_eq!(asked.line(), "HTTP/1.1 100 Continue");
    while !asked.line().is_empty() {}
    assert_eq!(asked.answer().status, 408);
    assert_eq!(told(&gateway, "/never").1, "response_timeout");
    assert_eq!(told(&gateway, "/asked").1, "client_timeout");
}

#[test]
fn total_ends_a_stalled_upload_and_blames_the_client() {
    let (_a, gateway) = gate("http1", "body_timeout: 20s", ", total: 600ms");
    let (answer, took) = stall(&gateway, "/up", "Content-Length: 100000", "0123456789");
    assert_eq!(answer.status, 408);
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(told(&gateway, "/up").1, "client_timeout");
    assert_not_blamed(&gateway);
}

#[test]
fn a_client_may_pause_its_download_for_longer_than_an_origin_may_be_silent() {
    for protocol in ["http1", "h2c"] {
        let (a, gateway) = gate(protocol, "send_timeout: 20s", ", send: 19s");
        // More than all buffers on the way take.
        let size = 64 << 20;
        a.script([on("/down").then(answer(200).body(Body::Pattern(size)).into())]);
        let mut download = rig::download(gateway.address(), "/down");
        assert_eq!(download.read(1 << 20), 1 << 20);
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(download.read(u64::MAX), size - (1 << 20), "{protocol}");
        assert_eq!(told(&gateway, "/down"), (200.into(), Value::Null, "ok".into()), "{protocol}");
        assert_not_blamed(&gateway);
    }
}

/// An origin that breaks a long answer off is not covered by a client that does not read it.
#[test]
fn an_origin_that_falls_silent_in_its_answer_is_cut() {
    let (a, gateway) = gate("http1", "send_timeout: 20s", "");
    let half = rig::text("half").framing(rig::Framing::Declared(1000));
    a.script([on("/half").then(half.into()).then(Step::Hang), on("/cut").then(Step::End(Close::Rst))]);
    assert!(gateway.client().send(&Ask::get("/half")).is_err(), "it looked whole");
    assert_eq!(told(&gateway, "/half"), (200.into(), "response_timeout".into(), "response_timeout".into()));
}

mod h2_clients {
    use super::*;

    #[test]
    fn each_upload_has_its_own_time() {
        for protocol in ["http1", "h2c"] {
            let (_a, gateway) = gate(protocol, "body_timeout: 1500ms", "");
            let began = Instant::now();
            // Other requests on the connection, bodies among them, come and go meanwhile.
            let (stalled, others) = rig::h2c_stalled(gateway.address(), "/up", Duration::from_millis(100));
            assert_eq!(stalled.unwrap().status, 408, "{protocol}");
            let took = began.elapsed();
            assert!(took >= Duration::from_millis(1400) && took < Duration::from_secs(15), "{protocol}: {took:?}");
            assert!(others.len() > 2 && others.iter().all(|status| *status == 200), "{protocol}: {others:?}");
            let expected = (408.into(), "client_timeout".into(), "client_timeout".into());
            assert_eq!(told(&gateway, "/up"), expected, "{protocol}");
            assert_not_blamed(&gateway);
        }
    }

    #[test]
    fn an_upload_in_good_time_may_take_longer_than_any_limit() {
        for protocol in ["http1", "h2c"] {
            let (a, gateway) = gate(protocol, "body_timeout: 2s", "");
            a.script([on("/up").then(Step::Read(Amount::All)).then(answer(200).body(Body::Checked).into())]);
            let size = 10 * (16 << 10);
            let pause = Duration::from_millis(350);
            let answer = rig::h2c_slow_upload(gateway.address(), "/up", size, 16 << 10, pause);
            assert_eq!((answer.status, answer.text()), (200, format!("{size} bytes, all right")), "{protocol}");
        }
    }

    #[test]
    fn one_whose_window_stays_shut_is_let_go_and_the_others_are_served() {
        for protocol in ["http1", "h2c"] {
            let (a, gateway) = gate(protocol, "send_timeout: 600ms", "");
            a.script([on("/shut").then(answer(200).body(Body::Size(1 << 20)).into())]);
            let began = Instant::now();
            let (shut, other) = rig::h2c_shut(gateway.address(), "/shut", "/open");
            assert!(shut.is_err(), "{protocol}: {shut:?}");
            assert_eq!(other.unwrap().status, 200, "{protocol}");
            assert!(began.elapsed() >= Duration::from_millis(600), "{protocol}");
            let expected = (200.into(), "client_gone".into(), "client_gone".into());
            assert_eq!(told(&gateway, "/shut"), expected, "{protocol}");
            assert_not_blamed(&gateway);
        }
    }
}
