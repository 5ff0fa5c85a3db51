//! Do HTTP/2 clients and origins without TLS get what HTTP/1 ones get?

use crate::rig::{self, Ask, Close, Door, Step, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";

#[test]
fn a_listener_with_h2c_takes_both_protocols() {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).listener("h2c: true").origins([&a]).start();
    let asks: Vec<Ask> = (0..20).map(|n| Ask::get(&format!("/{n}"))).collect();
    for answer in rig::h2c(gateway.address(), &asks) {
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.origin()), (200, "a"));
    }
    assert_eq!(gateway.get("/old").status, 200);
    assert_eq!(gateway.logged("/3")["protocol"], "HTTP/2.0");
    assert_eq!(gateway.logged("/old")["protocol"], "HTTP/1.1");
    let request = &a.requests()[0];
    assert!(request.headers.iter().any(|(n, v)| n.eq_ignore_ascii_case("host") && v == "test"), "{request:?}");
}

/// Browsers send each cookie in a line of its own.
#[test]
fn cookies_reach_an_origin_of_http_1_in_one_line() {
    let a = rig::origin("a");
    let text = "pools: { p: { balance: { key: \"{cookie:n149}\" }, origins: $origins } }\n";
    let gateway = rig::gateway(text).listener("h2c: true").origins([&a]).start();
    let ask = (0..150).fold(Ask::get("/x"), |ask, n| ask.header("cookie", &format!("n{n}={n}")));
    let answer = rig::h2c(gateway.address(), &[ask]).remove(0).unwrap();
    assert_eq!(answer.status, 200, "they are not counted as lines");
    let request = &a.requests()[0];
    let lines: Vec<_> = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cookie")).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].1.starts_with("n0=0; n1=1; ") && lines[0].1.ends_with("; n149=149"), "{lines:?}");
    assert_eq!(gateway.logged("/x")["key"], "149");
}

/// <https://github.com/cloudflare/pingora/issues/935>: the empty frame at the end became a second chunk end, which the
/// origin read as the start of the next request.
#[test]
fn p935_a_body_that_ends_with_an_empty_frame_ends_once() {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).process("threads", "1").listener("h2c: true").origins([&a]).start();
    for n in 0..10 {
        let target = format!("/{n}");
        let answers = rig::h2c(gateway.address(), &[Ask::new("POST", &target).body("hello")]);
        assert_eq!(answers[0].as_ref().unwrap().status, 200);
    }
    let requests = a.requests();
    assert_eq!(requests.len(), 10);
    assert!(requests.iter().all(|request| request.body_bytes == 5 && request.complete), "{requests:?}");
    let served: Vec<usize> = a.seen().iter().map(|c| c.requests.len()).filter(|n| *n > 0).collect();
    assert_eq!(served, [10], "the origin's connection was not reused cleanly");
}

#[test]
fn an_h2c_pool_is_spoken_to_in_http_2() {
    let a = rig::origin("a");
    let text = "pools: { p: { protocol: h2c, balance: { key: \"{path}\" }, origins: $origins } }\n";
    let gateway = rig::gateway(text).origins([&a]).start();
    let answer = gateway.ask(&Ask::new("POST", "/x?y").body("abc"));
    assert_eq!((answer.status, answer.origin()), (200, "a"));
    let request = &a.requests()[0];
    assert!(request.line.starts_with("POST http://") && request.line.ends_with("/x?y HTTP/2"), "{}", request.line);
    assert_eq!((request.body_bytes, request.complete), (3, true));
}

/// A whole POST was sent: it may have been processed, so it is never sent again, also where Pingora takes the answer for a
/// reason to (github.com/cloudflare/pingora/issues/979).
#[test]
fn b43_a_post_is_not_sent_again_when_the_origin_answers_nonsense() {
    let (a, b) = (rig::origin("a"), rig::origin("b"));
    for origin in [&a, &b] {
        origin.script([
            on("/frame").then(Step::Send(b"\0\0\x03\x08\0\0\0\0\0bad".to_vec())).then(Step::Hang),
            on("/goaway")
                .then(Step::Send(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x01\0\0\0\0".to_vec()))
                .then(Step::End(Close::Fin)),
            on("/rst").then(Step::End(Close::Rst)),
            // DATA of no stream; then "this takes HTTP/1.1"
            on("/nonsense").then(Step::Send(b"\0\0\x01\0\0\0\0\0\0x".to_vec())).then(Step::Hang),
            on("/older").then(Step::Send(b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x0d".to_vec())).then(Step::Hang),
        ]);
    }
    let text = "pools: { p: { protocol: h2c, balance: { key: \"{path}\" }, origins: $origins } }\n";
    let gateway = rig::gateway(text).origins([&a, &b]).start();
    for target in ["/frame", "/goaway", "/rst", "/nonsense", "/older"] {
        let answer = gateway.ask(&Ask::new("POST", target).body("abc"));
        assert_eq!(answer.status, 502, "{target}: {answer:?}");
        let count = |origin: &rig::Origin| origin.requests().iter().filter(|r| r.line.contains(target)).count();
        assert_eq!(count(&a) + count(&b), 1, "{target}");
    }
}

#[test]
fn a_refused_h2c_origin_is_walked_past() {
    let (a, b) = (rig::origin("a"), rig::origin("b"));
    let text = "pools: { p: { protocol: h2c, balance: { key: \"{path}\" }, origins: $origins } }\n";
    let gateway = rig::gateway(text).origins([&a, &b]).start();
    a.door(Door::Refuse);
    for n in 0..20 {
        let answer = gateway.ask(&Ask::new("POST", &format!("/{n}")).body("abc"));
        assert_eq!((answer.status, answer.origin()), (200, "b"));
    }
}

/// Over HTTP/2 Pingora would leave the switch out, and the origin see an ordinary GET.
#[test]
fn a_switch_is_asked_for_in_http_1_1_whatever_else_is_spoken() {
    let a = rig::origin("a");
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec();
    a.script([on("/ws").then(Step::Send(switch)).then(Step::Echo), on("/none").then(Step::End(Close::Fin))]);
    let text = "pools: { p: { protocol: h2c, origins: $origins, balance: { algorithm: p2c }, \
                health: { probe: off, outlier_detection: { failures: 2 } } } }\n";
    let gateway = rig::gateway(text).origins([&a]).start();
    let ask =
        |target: &str| format!("GET {target} HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut tunnel = rig::raw(gateway.address());
    tunnel.send(ask("/ws"));
    assert_eq!(tunnel.answer().status, 101);
    tunnel.send("hello");
    assert_eq!(tunnel.bytes(5), b"hello");
    let mut declined = rig::raw(gateway.address());
    declined.send(format!("{}GET /next HTTP/1.1\r\nHost: t\r\n\r\n", ask("/declined")));
    assert_eq!((declined.answer().status, declined.answer().status), (200, 200));
    let lines: Vec<String> = a.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(lines, ["GET /ws HTTP/1.1", "GET /declined HTTP/1.1", "GET http://t/next HTTP/2"]);
    // An origin that does not speak HTTP/1.1 is not to be put out by a client that asks it to.
    let mut nobody = rig::raw(gateway.address());
    nobody.send(ask("/none"));
    assert_eq!(nobody.answer().status, 502);
    assert_eq!(gateway.logged("/none")["error"], "reset");
    assert_eq!([gateway.get("/none"), gateway.get("/none")].map(|answer| answer.status), [502, 502]);
    let told = rig::eventually("it is judged", || Some(gateway.output()).filter(|told| told.contains("a is kept")));
    assert!(told.contains("was up: 2 requests in a row failed"), "{told}");
}
