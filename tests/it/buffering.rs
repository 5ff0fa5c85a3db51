//! Is an origin done though its client still reads?

use std::time::{Duration, Instant};

use crate::rig::{self, Ask, Body, Close, Framing, Gateway, Origin, Step, answer, eventually, on, within};

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

/// Pingora looks at a client that has sent its next request no more: what it reads is not to depend on that.
#[test]
fn what_was_held_leaves_though_the_next_request_is_there_and_the_origin_pauses() {
    let (a, gateway) = gate("buffering: { response: 32MiB }");
    for early in [true, false] {
        let name = |what: &str| format!("{what} {early}");
        let much = answer(200).body(Body::Pattern(SIZE)).framing(Framing::Declared(SIZE + 4));
        let much = on("/much").hold(&name("begin")).then(much.into()).hold(&name("end"));
        a.script([much.then(Step::Send(b"rest".to_vec()))]);
        let mut raw = rig::raw(gateway.address());
        raw.send("GET /much HTTP/1.1\r\nHost: t\r\n\r\n");
        a.await_held(&name("begin"), 1);
        if early {
            raw.send("GET /next HTTP/1.1\r\nHost: t\r\n\r\n");
        }
        a.release(&name("begin"));
        if !early {
            a.await_held(&name("end"), 1);
            raw.send("GET /next HTTP/1.1\r\nHost: t\r\n\r\n");
        }
        while !raw.line().is_empty() {}
        assert_eq!(raw.bytes(SIZE as usize).len() as u64, SIZE, "sent early: {early}");
        a.await_held(&name("end"), 1);
        a.release(&name("end"));
        assert_eq!(raw.bytes(4), b"rest");
        assert_eq!(raw.answer().text(), "a");
    }
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

#[test]
fn all_answers_together_take_no_more_memory_than_the_process_may() {
    let a = rig::origin("a");
    let text = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n\
        routes: [ { pool: p, buffering: { response: 32MiB }, compression: { types: [text/*], min: 1KiB } } ]\n";
    let gateway = rig::gateway(text).process("max_buffered", "1MiB").origins([&a]).start();
    let plain = answer(200).body(Body::Size(5000)).header("Content-Type", "text/plain");
    a.script([on("/much").then(answer(200).body(Body::Pattern(SIZE)).into()), on("/text").then(plain.into())]);
    let kinds = ["held_back", "compression"];
    let of = |name: &str| kinds.map(|kind| gateway.metrics().sum(name, &[("kind", kind)]));
    let coding = || {
        let answer = gateway.ask(&Ask::get("/text").header("Accept-Encoding", "gzip"));
        (answer.header("content-encoding").map(str::to_owned), answer.header("vary").map(str::to_owned))
    };
    assert_eq!(coding(), (Some("gzip".into()), Some("Accept-Encoding".into())));
    let mut slow = rig::download(gateway.address(), "/much");
    eventually("the memory is used up", || (of("moorgate_buffers_full_total")[0] >= 1.0).then_some(()));
    assert_eq!(of("moorgate_buffered_bytes"), [f64::from(1 << 20), 0.0]);
    assert_eq!(coding(), (None, Some("Accept-Encoding".into())), "it goes plain");
    assert_eq!(of("moorgate_buffers_full_total"), [1.0, 1.0]);
    assert_eq!(within(Duration::from_millis(300), || is_done(&a, &gateway).then_some(())), None);
    assert_eq!(slow.read(u64::MAX), SIZE);
    eventually("it is given back", || (of("moorgate_buffered_bytes") == [0.0, 0.0]).then_some(()));
    assert_eq!(coding().0, Some("gzip".into()));
}

/// Reads small bodies ahead; nobody but requests connects to the origins.
fn reads_ahead(origins: &[&Origin]) -> Gateway {
    let text = "client_limits: { body_timeout: 1s }\n\
        pools: { p: { balance: { key: \"{host}\" }, health: { probe: off }, origins: $origins } }\n\
        routes: [ { pool: p, buffering: { request: 64KiB }, retry: { methods: { PUT: [reset, stale, non_idempotent] } } } ]\n";
    rig::gateway(text).listener("h2c: true").origins(origins.iter().copied()).start()
}

#[test]
fn no_origin_waits_for_a_small_body_and_a_large_one_streams() {
    let a = rig::origin("a");
    let gateway = reads_ahead(&[&a]);
    a.script([on("*").then(answer(200).body(Body::Digest).into())]);
    let body = vec![b'x'; 65_536];
    let mut raw = rig::raw(gateway.address());
    for connection in [0, 1] {
        raw.send("PUT /up HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 65536\r\n\r\n");
        assert_eq!((raw.line().as_str(), raw.line().as_str()), ("HTTP/1.1 100 Continue", ""));
        raw.send(&body[..40_000]);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!((a.counts().connections, a.counts().in_flight), (connection, 0), "the body is not whole");
        raw.send(&body[40_000..]);
        let answer = raw.answer();
        assert_eq!((answer.status, answer.interim.len()), (200, 0));
    }
    for request in a.requests() {
        assert!(request.complete && request.body_bytes == 65_536);
        assert!(!request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("expect")), "{request:?}");
    }
    let mut raw = rig::raw(gateway.address());
    raw.send("PUT /large HTTP/1.1\r\nHost: t\r\nContent-Length: 65537\r\n\r\n");
    raw.send(&body);
    a.await_requests("/large", 1);
    raw.send("x");
    assert_eq!(raw.answer().status, 200);
    let ask = Ask::new("PUT", "/h2").header("Content-Length", "10").body("0123456789");
    let found = rig::h2c(gateway.address(), &[ask]).remove(0).unwrap();
    assert_eq!((found.status, a.requests().pop().unwrap().body_bytes), (200, 10));
    let mut stalled = rig::raw(gateway.address());
    stalled.send("PUT /stalled HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n0123456789");
    assert_eq!(stalled.answer().status, 408);
    let line = gateway.logged("/stalled");
    assert_eq!((line["error"].as_str(), line["attempts"].as_array().map(Vec::len)), (Some("client_timeout"), Some(0)));
}

#[test]
fn what_was_read_ahead_is_sent_again_byte_for_byte() {
    let (a, b) = (rig::origin("a"), rig::origin("b"));
    let gateway = reads_ahead(&[&a, &b]);
    let (owner, other) = if gateway.get("/").origin() == "a" { (&a, &b) } else { (&b, &a) };
    owner.script([on("/up").then(Step::Read(rig::Amount::All)).then(Step::End(Close::Rst))]);
    let body: Vec<u8> = (0..60_000_u32).flat_map(u32::to_le_bytes).take(65_536).collect();
    let answer = gateway.ask(&Ask::new("PUT", "/up").body(body));
    assert_eq!((answer.status, answer.origin()), (200, other.name.as_str()));
    let [first, second] = [owner, other].map(|origin| origin.requests().pop().unwrap());
    assert_eq!((first.body_bytes, &first.body_sha256), (65_536, &second.body_sha256));
}
