//! What does the gateway take from a client's socket? Requests in a row, old protocols, odd targets; what it refuses,
//! it answers itself and logs.

use crate::rig::{self, Answer, Close, Gateway, Origin, Step, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";

pub(crate) fn one() -> (Origin, Gateway) {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).origins([&a]).start();
    (a, gateway)
}

/// Sends bytes on a connection of its own and reads one answer.
fn ask(gateway: &Gateway, bytes: impl AsRef<[u8]>) -> Answer {
    let mut raw = rig::raw(gateway.address());
    raw.send(bytes);
    raw.answer()
}

/// An answer that is the gateway's own and says so, naming nobody else.
pub(crate) fn assert_ours(answer: &Answer, status: u16, token: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.origin(), "");
    let told = answer.header("proxy-status").unwrap_or_else(|| panic!("no Proxy-Status: {answer:?}"));
    assert!(told.starts_with(&format!("moorgate; error={token}")), "{told}");
    assert!(!format!("{answer:?}").to_lowercase().contains("pingora"), "{answer:?}");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let (a, gateway) = one();
    a.script([on("/1").delay(100).answer(201), on("/3").answer(203)]);
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /1 HTTP/1.1\r\nHost: t\r\n\r\nPOST /2 HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhelloGET /3 HTTP/1.1\r\nHo");
    assert_eq!((raw.answer().status, raw.answer().status), (201, 200));
    raw.send("st: t\r\n\r\nGET /4 HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!((raw.answer().status, raw.answer().status), (203, 200));
    let lines: Vec<String> = a.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(lines, ["GET /1 HTTP/1.1", "POST /2 HTTP/1.1", "GET /3 HTTP/1.1", "GET /4 HTTP/1.1"]);
    assert_eq!(a.requests()[1].body_bytes, 5);
    let logged: Vec<u64> = gateway.await_log(4).iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(logged, [201, 200, 203, 200]);
}

#[test]
fn many_pipelined_requests_are_all_answered() {
    let (a, gateway) = one();
    let mut raw = rig::raw(gateway.address());
    let requests: String = (0..200).map(|n| format!("GET /{n} HTTP/1.1\r\nHost: t\r\n\r\n")).collect();
    raw.send(requests);
    assert!((0..200).all(|_| raw.answer().status == 200));
    let targets: Vec<String> = a.requests().iter().map(|request| request.line.clone()).collect();
    assert_eq!(targets, (0..200).map(|n| format!("GET /{n} HTTP/1.1")).collect::<Vec<_>>());
}

#[test]
fn an_idle_connection_serves_again_after_each_answer() {
    let (a, gateway) = one();
    let mut raw = rig::raw(gateway.address());
    for n in 0..20 {
        raw.send(format!("GET /{n} HTTP/1.1\r\nHost: t\r\n\r\n"));
        assert_eq!(raw.answer().text(), "a");
    }
    assert_eq!(a.served(), 20);
}

#[test]
fn http_1_0_closes_unless_it_asks_to_stay() {
    let (a, gateway) = one();
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /old HTTP/1.0\r\n\r\n");
    assert_eq!(raw.answer().text(), "a");
    assert_eq!(raw.rest(), b"");
    let mut kept = rig::raw(gateway.address());
    for n in 0..3 {
        kept.send(format!("GET /{n} HTTP/1.0\r\nHost: t\r\nConnection: keep-alive\r\n\r\n"));
        assert_eq!(kept.answer().status, 200);
    }
    assert_eq!(a.served(), 4);
    assert_eq!(gateway.logged("/old")["protocol"], "HTTP/1.0");
}

#[test]
fn a_malformed_request_gets_our_own_400_and_a_line_in_the_log() {
    let (a, gateway) = one();
    let malformed: [&[u8]; 8] = [
        b"GET /a b HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET /a\x01 HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET /a#f HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET a HTTP/1.1\r\nHost: t\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: t\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: t\r\nno colon\r\n\r\n",
    ];
    for (n, bytes) in malformed.iter().enumerate() {
        let answer = ask(&gateway, bytes);
        assert_ours(&answer, 400, "http_request_error");
        let log = gateway.await_log(n + 1);
        assert_eq!(log.len(), n + 1, "{}", String::from_utf8_lossy(bytes));
        assert_eq!((&log[n]["status"], &log[n]["error"]), (&400.into(), &"bad_request".into()), "{}", log[n]);
        assert_eq!(log[n]["client"], "127.0.0.1");
    }
    assert_eq!(a.served(), 0);
    assert_eq!(gateway.get("/good").status, 200);
}

#[test]
fn a_header_of_one_byte_at_a_time_is_cut_at_its_deadline() {
    let a = rig::origin("a");
    let text = format!("client_limits: {{ header_timeout: 500ms }}\n{POOL}");
    let gateway = rig::gateway(&text).origins([&a]).start();
    let mut raw = rig::raw(gateway.address());
    let start = std::time::Instant::now();
    let request =
        b"GET /slow HTTP/1.1\r\nHost: t\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for byte in request {
        if raw.try_send([*byte]).is_err() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(40));
    }
    let rest = String::from_utf8_lossy(&raw.rest()).into_owned();
    assert!(rest.starts_with("HTTP/1.1 408 ") || rest.is_empty(), "{rest}");
    assert!(start.elapsed() < rig::PATIENCE, "it was not cut");
    let line = &gateway.await_log(1)[0];
    assert_eq!((&line["status"], &line["error"]), (&408.into(), &"client_timeout".into()), "{line}");
    assert_eq!(a.served(), 0);
}

#[test]
fn a_silent_client_gets_408_at_the_header_deadline() {
    let a = rig::origin("a");
    let text = format!("client_limits: {{ header_timeout: 300ms }}\n{POOL}");
    let gateway = rig::gateway(&text).origins([&a]).start();
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /slow HTTP/1.1\r\nHo");
    assert_ours(&raw.answer(), 408, "http_request_error");
    assert_eq!(raw.rest(), b"");
}

#[test]
fn long_targets_get_414_and_large_headers_431() {
    let a = rig::origin("a");
    let text = format!("client_limits: {{ uri_bytes: 1KiB, header_bytes: 4KiB, headers: 20 }}\n{POOL}");
    let gateway = rig::gateway(&text).origins([&a]).start();
    let long = |n: usize| format!("GET /{} HTTP/1.1\r\nHost: t\r\n\r\n", "x".repeat(n));
    assert_eq!(ask(&gateway, long(1023)).status, 200);
    assert_ours(&ask(&gateway, long(1024)), 414, "http_request_error");
    let wide = |n: usize| format!("GET / HTTP/1.1\r\nHost: t\r\nX-A: {}\r\n\r\n", "x".repeat(n));
    assert_eq!(ask(&gateway, wide(3900)).status, 200);
    assert_ours(&ask(&gateway, wide(4200)), 431, "http_request_error");
    assert_ours(&ask(&gateway, wide(200_000)), 431, "http_request_error");
    let many = |n: usize| format!("GET / HTTP/1.1\r\nHost: t\r\n{}\r\n", "X-A: b\r\n".repeat(n));
    assert_eq!(ask(&gateway, many(19)).status, 200);
    assert_ours(&ask(&gateway, many(20)), 431, "http_request_error");
    assert_ours(&ask(&gateway, many(300)), 431, "http_request_error");
    assert_eq!(a.served(), 3);
    let logged: Vec<String> = gateway.await_log(8).iter().map(|line| line["error"].to_string()).collect();
    assert_eq!(logged.iter().filter(|error| error.contains("uri_too_long")).count(), 1);
    assert_eq!(logged.iter().filter(|error| error.contains("header_too_large")).count(), 4);
}

#[test]
fn a_request_names_one_host() {
    let (a, gateway) = one();
    let odd = ["a/b", "a b", "[::1", "h:8x", "h:80:80"].map(|host| format!("Host: {host}\r\n"));
    let several = ["", "Host: a\r\nHost: b\r\n", "Host: a\r\nHost: a\r\n"].map(str::to_owned);
    for headers in odd.iter().chain(&several) {
        let answer = ask(&gateway, format!("GET / HTTP/1.1\r\n{headers}\r\n"));
        assert_ours(&answer, 400, "http_request_error");
    }
    let other = ask(&gateway, "GET http://shop.example/x HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_ours(&other, 400, "http_request_error");
    assert_eq!(a.served(), 0);
}

#[test]
fn an_absolute_target_reaches_the_origin_in_origin_form() {
    let (a, gateway) = one();
    for (sent, seen) in [
        ("GET http://shop.example/x?y=1 HTTP/1.1", "GET /x?y=1 HTTP/1.1"),
        ("GET http://shop.example HTTP/1.1", "GET / HTTP/1.1"),
        ("GET http://shop.example?q HTTP/1.1", "GET /?q HTTP/1.1"),
        ("OPTIONS * HTTP/1.1", "OPTIONS * HTTP/1.1"),
    ] {
        a.forget();
        assert_eq!(ask(&gateway, format!("{sent}\r\nHost: shop.example\r\n\r\n")).status, 200, "{sent}");
        let request = &a.requests()[0];
        assert_eq!(request.line, seen);
        assert!(
            request.headers.iter().any(|(n, v)| n.eq_ignore_ascii_case("host") && v == "shop.example"),
            "{request:?}"
        );
    }
}

/// The same host in another spelling is no other host; the target has the last word (RFC 9112, section 3.2.2).
#[test]
fn k1_an_absolute_target_may_spell_its_host_otherwise() {
    let (a, gateway) = one();
    for (target, host, seen) in [
        ("http://Shop.example/x", "shop.example", "Shop.example"),
        ("http://shop.example:80/x", "SHOP.example", "shop.example:80"),
        ("http://shop.example/x", "shop.example.:80", "shop.example"),
    ] {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nX-A: b\r\n\r\n");
        for piece in [bytes.len(), 7, 1] {
            a.forget();
            let mut raw = rig::raw(gateway.address());
            for bytes in bytes.as_bytes().chunks(piece) {
                raw.send(bytes);
            }
            assert_eq!(raw.answer().status, 200, "{bytes}");
            let request = &a.requests()[0];
            let hosts: Vec<&str> = request
                .headers
                .iter()
                .filter(|(n, _)| n.eq_ignore_ascii_case("host"))
                .map(|(_, v)| v.as_str())
                .collect();
            assert_eq!((request.line.as_str(), hosts), ("GET /x HTTP/1.1", vec![seen]));
            raw.send("GET /next HTTP/1.1\r\nHost: t\r\n\r\n");
            assert_eq!(raw.answer().status, 200);
        }
    }
    for (target, host) in
        [("http://a/", "b"), ("http://a:81/", "a"), ("http://a/", "a\r\nHost: a"), ("http://u@a/", "a")]
    {
        assert_ours(
            &ask(&gateway, format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")),
            400,
            "http_request_error",
        );
    }
    assert_eq!(gateway.logged("/x")["host"], "shop.example");
}

#[test]
fn a_target_of_old_bytes_is_served_like_any_other() {
    let a = rig::origin("a");
    let text = format!("{POOL}routes: [ {{ name: caf, match: {{ path: {{ prefix: /caf%E9 }} }}, pool: p }} ]\n");
    let gateway = rig::gateway(&text).origins([&a]).start();
    let mut raw = rig::raw(gateway.address());
    for piece in [b"GET /caf".as_slice(), b"\xe9/\xff HTTP/1.1\r\nHo", b"st: t\r\n\r\n"] {
        raw.send(piece);
    }
    assert_eq!(raw.answer().status, 200);
    assert_eq!(a.requests()[0].line, "GET /caf\u{e9}/\u{ff} HTTP/1.1");
    raw.send(b"GET /caf\xe9 x HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_ours(&raw.answer(), 400, "http_request_error");
    let log = gateway.await_log(2);
    assert_eq!((&log[0]["status"], &log[1]["status"]), (&200.into(), &400.into()), "{log:?}");
}

#[test]
fn k1_an_absolute_target_names_the_host_where_no_header_does() {
    let (a, gateway) = one();
    assert_eq!(ask(&gateway, "GET http://Shop.example:80/x HTTP/1.0\r\n\r\n").status, 200);
    let request = &a.requests()[0];
    assert!(
        request.headers.iter().any(|(n, v)| n.eq_ignore_ascii_case("host") && v == "Shop.example:80"),
        "{request:?}"
    );
    assert_eq!(gateway.logged("/x")["host"], "shop.example");
}

#[test]
fn the_origin_sees_the_client_s_target_byte_for_byte() {
    let (a, gateway) = one();
    let targets: [&[u8]; 16] = [
        b"/",
        b"//",
        b"/?",
        b"/a//b/",
        b"/a/./b/../c",
        b"/%41%2e%7e",
        b"/%zz%",
        b"/\xc3\xa9",
        b"/caf\xe9",
        b"/\xc3\xa9/\xff?\xe9=%e9",
        b"/?\x80\xfe",
        b"/a\"b",
        b"/a|b\\c^{}",
        b"/a;b=1,c?x=%2F%2f&y=[1]&&=",
        b"/a?b?c=/../d",
        b"/+%20+?a=1+2",
    ];
    for target in targets {
        a.forget();
        let mut bytes = b"GET ".to_vec();
        bytes.extend_from_slice(target);
        bytes.extend_from_slice(b" HTTP/1.1\r\nHost: t\r\n\r\n");
        let shown: String = target.iter().map(|byte| char::from(*byte)).collect();
        assert_eq!(ask(&gateway, bytes).status, 200, "{shown}");
        assert_eq!(a.requests()[0].line, format!("GET {shown} HTTP/1.1"));
    }
}

#[test]
fn bytes_that_no_url_may_hold_are_refused_and_no_others() {
    let (_a, gateway) = one();
    let refused = |before: &str| {
        let bytes = (b'!'..=b'~').map(char::from).filter(|byte| {
            let line = format!("GET {before}{byte} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n");
            match ask(&gateway, line).status {
                200 => false,
                status => status == 400 || panic!("{before}{byte}: {status}"),
            }
        });
        bytes.collect::<String>()
    };
    assert_eq!([refused("/a"), refused("/a?b")], ["#<>`", "\"#<>"]);
}

#[test]
fn connect_is_refused_and_logged() {
    let (a, gateway) = one();
    let answer = ask(&gateway, "CONNECT shop.example:443 HTTP/1.1\r\nHost: shop.example:443\r\n\r\n");
    assert_ours(&answer, 405, "http_request_error");
    let line = &gateway.await_log(1)[0];
    assert_eq!((&line["method"], &line["status"]), (&"CONNECT".into(), &405.into()), "{line}");
    assert_eq!(a.served(), 0);
}

#[test]
fn a_connection_that_says_nothing_is_no_request() {
    let (_a, gateway) = one();
    for _ in 0..20 {
        drop(rig::raw(gateway.address()));
    }
    assert_eq!(gateway.get("/one").status, 200);
    assert_eq!(gateway.logged("/one")["status"], 200);
    assert_eq!(gateway.log().len(), 1, "{:?}", gateway.log());
}

#[test]
fn a_connection_serves_so_many_requests_and_then_closes() {
    let a = rig::origin("a");
    let text = format!("client_limits: {{ keepalive_requests: 3 }}\n{POOL}");
    let gateway = rig::gateway(&text).origins([&a]).start();
    let mut raw = rig::raw(gateway.address());
    for n in 1..=3 {
        raw.send("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
        assert_eq!(raw.answer().closes(), n == 3);
    }
    assert_eq!(raw.rest(), b"");
}

/// A connection that ends with an answer of ours says so, or the next request on it would be lost.
#[test]
fn a_failure_that_ends_the_connection_says_so() {
    let (a, gateway) = one();
    a.script([on("/reset").then(Step::End(Close::Rst))]);
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /reset HTTP/1.1\r\nHost: t\r\n\r\n");
    let answer = raw.answer();
    assert_eq!((answer.status, answer.closes()), (502, true), "{answer:?}");
    assert_eq!(raw.rest(), b"");
}

/// What was refused before anybody else was asked ends nothing.
#[test]
fn a_refusal_leaves_the_connection_open() {
    let a = rig::origin("a");
    let routes = "routes: [ { match: { hosts: [t] }, pool: p } ]\n";
    let gateway = rig::gateway(&format!("{POOL}{routes}")).origins([&a]).start();
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /x HTTP/1.1\r\nHost: unknown\r\n\r\n");
    let answer = raw.answer();
    assert_eq!((answer.status, answer.closes()), (404, false), "{answer:?}");
    raw.send("GET /x HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(raw.answer().status, 200);
}

#[test]
fn an_idle_connection_is_closed_in_time() {
    let a = rig::origin("a");
    let text = format!("client_limits: {{ keepalive: 200ms }}\n{POOL}");
    let gateway = rig::gateway(&text).origins([&a]).start();
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /x HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(raw.answer().status, 200);
    assert_eq!(raw.rest(), b"");
    assert_eq!(gateway.logged("/x")["status"], 200);
    assert_eq!(gateway.log().len(), 1, "{:?}", gateway.log());
}
