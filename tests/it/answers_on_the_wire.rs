//! Do bodies, interim answers, streams and tunnels come through whole, and do time-outs cut only what is silent?

use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::rig::{self, Answer, Ask, Body, Close, Framing, Gateway, Origin, Step, answer, on};

/// Short time-outs: an answer may be silent for 400 ms, a stream for 5 s.
const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, \
                    timeouts: { connect: 200ms, read: 400ms, stream: 5s }, origins: $origins } }\n";

fn one() -> (Origin, Gateway) {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).origins([&a]).start();
    (a, gateway)
}

fn sha256(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn some_bytes(count: u32) -> Vec<u8> {
    (0..count).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn bodies_of_every_size_arrive_as_they_were_sent() {
    let a = rig::origin("a");
    let gateway =
        rig::gateway("pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n").origins([&a]).start();
    a.script([on("/up").then(answer(200).body(Body::Digest).into())]);
    let mut client = gateway.client();
    for size in [0, 1, 4095, 65_536, 65_537, 1 << 20, 5_000_001] {
        let body = some_bytes(size);
        let answer = client.send(&Ask::new("PUT", "/up").body(body.clone())).unwrap();
        let expected = if size == 0 { String::new() } else { sha256(&body) };
        assert_eq!((answer.status, answer.text()), (200, expected), "{size} bytes up");
        a.script([
            on("/up").then(answer_of(size, Framing::Length)),
            on("/chunked").then(answer_of(size, Framing::Chunked)),
            on("/close").then(answer_of(size, Framing::UntilClose)),
        ]);
        for target in ["/up", "/chunked", "/close"] {
            let answer = client.get(target);
            assert_eq!((answer.status, answer.body.len()), (200, size as usize), "{target}, {size} bytes down");
            assert!(answer.body.iter().zip(b"0123456789abcdef".iter().cycle()).all(|(one, other)| one == other));
        }
        a.script([on("/up").then(rig::answer(200).body(Body::Digest).into())]);
    }
}

fn answer_of(size: u32, framing: Framing) -> Step {
    answer(200).body(Body::Size(size as usize)).framing(framing).into()
}

#[test]
fn a_chunked_upload_stays_whole() {
    let (a, gateway) = one();
    a.script([on("/up").then(answer(200).body(Body::Digest).into())]);
    let mut raw = rig::raw(gateway.address());
    raw.send("POST /up HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    let body = some_bytes(300_000);
    for piece in body.chunks(7001) {
        raw.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
    }
    raw.send("0\r\n\r\n");
    assert_eq!(raw.answer().text(), sha256(&body));
    raw.send("GET /next HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(raw.answer().text(), "a");
}

/// nginx's `proxy_read_timeout`, which `read` is, does not run while the request is still being sent.
#[test]
fn a_slow_upload_is_no_silence_of_the_origin() {
    let (a, gateway) = one();
    a.script([on("/up").then(answer(200).body(Body::Digest).into())]);
    let mut raw = rig::raw(gateway.address());
    let body = some_bytes(60_000);
    raw.send(format!("PUT /up HTTP/1.1\r\nHost: t\r\nContent-Length: {}\r\n\r\n", body.len()));
    for piece in body.chunks(10_000) {
        std::thread::sleep(Duration::from_millis(200));
        raw.send(piece);
    }
    let answer = raw.answer();
    assert_eq!((answer.status, answer.text()), (200, sha256(&body)));
}

#[test]
fn answers_without_a_body_keep_the_connection_in_step() {
    let (a, gateway) = one();
    a.script([on("/204").answer(204), on("/304").answer(304), on("/size").then(answer_of(1000, Framing::Length))]);
    let mut raw = rig::raw(gateway.address());
    for (method, target, status) in
        [("HEAD", "/size", 200), ("GET", "/204", 204), ("GET", "/304", 304), ("HEAD", "/x", 200), ("GET", "/x", 200)]
    {
        raw.send(format!("{method} {target} HTTP/1.1\r\nHost: t\r\n\r\n"));
        let answer = raw.answer_to(method).unwrap();
        assert_eq!(answer.status, status, "{method} {target}");
        if (method, target) == ("HEAD", "/size") {
            assert_eq!(answer.header("content-length"), Some("1000"));
        }
    }
}

#[test]
fn interim_answers_pass() {
    let (a, gateway) = one();
    a.script([
        on("/early").then(Step::Inform(103)).answer(200),
        on("/continue")
            .then(Step::Read(rig::Amount::Bytes(0)))
            .then(Step::Inform(100))
            .then(Step::Read(rig::Amount::All))
            .answer(201),
    ]);
    let early = gateway.get("/early");
    assert_eq!((early.interim.as_slice(), early.status), ([103].as_slice(), 200));
    let mut raw = rig::raw(gateway.address());
    raw.send("PUT /continue HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(raw.line(), "HTTP/1.1 100 Continue");
    assert_eq!(raw.line(), "");
    raw.send("hello");
    let answer = raw.answer();
    assert_eq!((answer.status, answer.closes()), (201, false));
    assert_eq!(a.requests().pop().unwrap().body_bytes, 5);
    raw.send("GET /next HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(raw.answer().status, 200, "the connection is kept");
}

#[test]
fn a_stream_may_be_silent_for_longer_than_an_answer() {
    let (a, gateway) = one();
    let drip = || Body::Drip { piece: "data: x\n\n".to_owned(), every_ms: 700, times: 3 };
    let told = |kind: &str| answer(200).body(drip()).framing(Framing::Chunked).header("Content-Type", kind);
    a.script([
        on("/sse").then(told("text/event-stream; charset=utf-8").into()),
        on("/plain").then(told("text/plain").into()),
    ]);
    assert_eq!(gateway.get("/sse").text(), "data: x\n\n".repeat(3));
    let cut = gateway.client().send(&Ask::get("/plain"));
    assert!(cut.is_err(), "{cut:?}");
    assert_eq!(gateway.logged("/sse")["error"], serde_json::Value::Null);
    assert_ne!(gateway.logged("/plain")["error"], serde_json::Value::Null);
}

#[test]
fn pieces_of_a_stream_are_not_held_back() {
    let (a, gateway) = one();
    a.script([on("/sse")
        .then(Step::Send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
        ))
        .then(Step::Send(b"7\r\ndata: 1\r\n".to_vec()))
        .hold("second")
        .then(Step::Send(b"7\r\ndata: 2\r\n0\r\n\r\n".to_vec()))]);
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /sse HTTP/1.1\r\nHost: t\r\n\r\n");
    let first = until(&mut raw, "data: 1");
    assert!(first.starts_with("HTTP/1.1 200 OK"), "{first}");
    a.await_held("second", 1);
    a.release("second");
    until(&mut raw, "data: 2");
}

/// Reads line by line up to one that ends so.
fn until(raw: &mut rig::Raw, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let line = raw.line();
        text.push_str(&line);
        assert!(text.len() < 10_000, "{text}");
    }
    text
}

#[test]
fn a_silent_origin_is_cut_at_read_and_a_slow_one_at_total() {
    let a = rig::origin("a");
    let drip = Body::Drip { piece: "x".to_owned(), every_ms: 100, times: 100 };
    a.script([on("/silent").then(Step::Hang), on("/slow").then(answer(200).body(drip).into())]);
    let text = format!("{POOL}routes: [ {{ pool: p, timeouts: {{ total: 1s }} }} ]\n");
    let gateway = rig::gateway(&text).origins([&a]).start();
    let start = Instant::now();
    let silent: Answer = gateway.get("/silent");
    assert_eq!(silent.status, 504);
    assert!(start.elapsed() >= Duration::from_millis(390), "{:?}", start.elapsed());
    assert_eq!(gateway.logged("/silent")["error"], "response_timeout");
    let start = Instant::now();
    assert!(gateway.client().send(&Ask::get("/slow")).is_err(), "it was not cut");
    assert!((Duration::from_millis(900)..Duration::from_secs(6)).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[test]
fn a_tunnel_carries_bytes_both_ways_and_ends_with_its_ends() {
    let (a, gateway) = one();
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec();
    a.script([on("/ws").then(Step::Send(switch)).then(Step::Echo)]);
    let mut tunnel = rig::raw(gateway.address());
    tunnel.send(
        "GET /ws HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
    );
    let switched = tunnel.answer();
    assert_eq!((switched.status, switched.header("upgrade")), (101, Some("websocket")));
    for n in 0..10 {
        let message = some_bytes(n * 1000 + 1);
        tunnel.send(&message);
        assert_eq!(tunnel.bytes(message.len()), message);
    }
    let request = a.requests().remove(0);
    assert!(request.headers.iter().any(|(n, v)| n.eq_ignore_ascii_case("upgrade") && v == "websocket"), "{request:?}");
    drop(tunnel);
    rig::eventually("the origin's side is closed", || (a.counts().in_flight == 0).then_some(()));
    assert_eq!(gateway.logged("/ws")["status"], 101);
}

/// The client would wait for a protocol it does not know, and its connection would never be anybody's again.
#[test]
fn a_switch_that_nobody_asked_for_is_no_answer() {
    let (a, gateway) = one();
    let switch = |version: &str| {
        let told =
            format!("HTTP/{version} 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nraw");
        Step::Send(told.into_bytes())
    };
    a.script([on("/old").then(switch("1.0")).then(Step::Hang), on("*").then(switch("1.1")).then(Step::Hang)]);
    let both = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    let asked = [
        "GET /plain HTTP/1.1\r\nHost: t\r\n\r\n".to_owned(),
        "GET /half HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\n\r\n".to_owned(),
        "GET /other HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n".to_owned(),
        format!("GET /1.0 HTTP/1.0\r\nHost: t\r\n{both}\r\n"),
        format!("GET /old HTTP/1.1\r\nHost: t\r\n{both}\r\n"),
    ];
    for (n, ask) in asked.iter().enumerate() {
        let mut raw = rig::raw(gateway.address());
        raw.send(ask);
        let answer = raw.answer();
        assert_eq!((answer.status, answer.closes()), (502, true), "{ask}: {answer:?}");
        assert_eq!(
            answer.header("proxy-status"),
            Some("moorgate; error=http_protocol_error; details=\"sent=1\""),
            "{answer:?}"
        );
        assert_eq!(raw.rest(), b"", "{ask}");
        assert_eq!(gateway.await_log(n + 1)[n]["error"], "invalid_response", "{ask}");
    }
    let upgrades = |request: &rig::Request| request.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("upgrade"));
    let told: Vec<bool> = a.requests().iter().map(upgrades).collect();
    assert_eq!(told, [false, false, false, false, true], "what the origin was asked for");
    for name in ["moorgate_in_flight", "moorgate_connections"] {
        rig::eventually(name, || (gateway.metrics().sum(name, &[]) < 0.5).then_some(()));
    }
}

#[test]
fn an_origin_of_http_1_0_is_answered_for_in_1_1() {
    let (a, gateway) = one();
    let told = |rest: &str| Step::Send(format!("HTTP/1.0 200 OK\r\n{rest}").into_bytes());
    let end = || Step::End(Close::Fin);
    a.script([
        on("/length").then(told("Content-Length: 2\r\n\r\nab")).then(end()),
        on("/chunks").then(told("Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n")).then(end()),
        on("/close").then(told("\r\nab")).then(end()),
    ]);
    let mut raw = rig::raw(gateway.address());
    for target in ["/length", "/chunks", "/close", "/length"] {
        raw.send(format!("GET {target} HTTP/1.1\r\nHost: t\r\n\r\n"));
        let first = raw.peek_line();
        assert_eq!(first, "HTTP/1.1 200 OK", "{target}");
        assert_eq!(raw.answer().text(), "ab", "{target}");
    }
}

/// Most WebSockets are for what the origin has to say: a client may be silent for as long as the origin may (`stream`).
#[test]
fn a_tunnel_lives_on_while_its_client_is_silent_and_its_end_has_no_words() {
    let a = rig::origin("a");
    let text = "client_limits: { body_timeout: 100ms }\npools: { p: { balance: { key: \"{path}\" }, origins: $origins, \
                timeouts: { read: 2s, stream: 3s } } }\n";
    let gateway = rig::gateway(text).origins([&a]).start();
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec();
    let begun = |target: &str| on(target).then(Step::Send(switch.clone()));
    a.script([
        begun("/echo").then(Step::Echo),
        begun("/cut").hold("cut").then(Step::End(Close::Rst)),
        begun("/silent").then(Step::Hang),
    ]);
    let open = |target: &str| {
        let mut tunnel = rig::raw(gateway.address());
        tunnel.send(format!("GET {target} HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"));
        assert_eq!(tunnel.answer().status, 101);
        tunnel
    };
    let (mut echo, mut cut, mut silent) = (open("/echo"), open("/cut"), open("/silent"));
    for _ in 0..2 {
        // ten times `body_timeout`, and less than `stream`
        std::thread::sleep(Duration::from_secs(1));
        echo.send("hello");
        assert_eq!(echo.bytes(5), b"hello");
    }
    a.release("cut");
    assert_eq!(cut.rest(), b"", "an origin that cuts it");
    assert_eq!(silent.rest(), b"", "an origin that says nothing");
    assert_eq!(
        (&gateway.logged("/cut")["status"], &gateway.logged("/cut")["error"]),
        (&101.into(), &"closed_early".into())
    );
    assert_eq!(gateway.logged("/silent")["status"], 101);
}

/// <https://github.com/cloudflare/pingora/issues/946>: a 101 that was read before the empty body of its request was dealt
/// with took the tunnel down at once.
#[test]
fn p946_no_tunnel_ends_with_its_switch() {
    let (a, gateway) = one();
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec();
    a.script([on("/ws").then(Step::Send(switch)).then(Step::Echo)]);
    let load = rig::load(gateway.address()).clients(8).start();
    let carries_two = |n: usize| {
        let mut tunnel = rig::raw(gateway.address());
        tunnel.send("GET /ws HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        assert_eq!(tunnel.answer().status, 101, "tunnel {n}");
        for message in [b"hello", b"again"] {
            tunnel.send(message);
            assert_eq!(tunnel.bytes(5), message, "tunnel {n}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..60 * rig::rounds(1)).for_each(carries_two));
        }
    });
    load.stop().assert_all_good();
    rig::eventually("all are over", || (gateway.metrics().sum("moorgate_in_flight", &[]) < 0.5).then_some(()));
}

#[test]
fn a_client_that_leaves_ends_the_origin_s_work() {
    let (a, gateway) = one();
    let drip = Body::Drip { piece: "x".repeat(10_000), every_ms: 10, times: 100_000 };
    a.script([on("/endless").then(answer(200).body(drip).framing(Framing::Chunked).into())]);
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /endless HTTP/1.1\r\nHost: t\r\n\r\n");
    raw.bytes(50_000);
    drop(raw);
    rig::eventually("the origin is left", || (a.counts().open == 0).then_some(()));
    assert_eq!(gateway.logged("/endless")["error"], "client_gone");
}
