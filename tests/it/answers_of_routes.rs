//! What does a route answer itself? And is what follows on the connection still the next request?

use nix::sys::signal::Signal;

use crate::rig::{self, Answer, Ask, Gateway, Origin};

const TEXT: &str = "\
pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }
routes:
  - { name: told, match: { path: { prefix: /told } }, respond: { status: 203, body: \"{method} {route} {arg:a}|{status}|{key}{{}}\\n\" } }
  - { name: quiet, match: { path: { exact: /healthz } }, respond: { body: \"ok\\n\", log: false } }
  - { name: gone, match: { path: { exact: /gone } }, respond: { status: 204 } }
  - { name: closed, match: { path: { exact: /closed } }, access: { deny: [127.0.0.0/8] }, respond: { log: false } }
  - { name: ready, match: { path: { exact: /ready } }, respond: { ready: true } }
  - { name: moved, match: { path: { prefix: /moved } }, redirect: { status: 308, to: \"https://{host}{uri}\" } }
  - { name: here, match: { path: { prefix: /here } }, redirect: { to: \"/{path:^/here/(.*)}\" } }
  - { name: all, pool: p }
";

fn start() -> (Origin, Gateway) {
    let a = rig::origin("a");
    let gateway = rig::gateway(TEXT).listener("h2c: true").origins([&a]).start();
    (a, gateway)
}

fn told(answer: &Answer) -> (u16, String) {
    (answer.status, answer.text())
}

#[test]
fn a_route_answers_by_its_template_and_keeps_the_connection() {
    let (a, gateway) = start();
    let mut client = gateway.client();
    let answer = client.get("/told/x?a=1%2f");
    assert_eq!(told(&answer), (203, "GET told 1%2F|203|{}\n".to_owned()));
    assert_eq!(answer.header("content-type"), Some("text/plain; charset=utf-8"));
    let head = client.send(&Ask::new("HEAD", "/told/x?a=1")).unwrap();
    // `HEAD` is as long as `GET ` is.
    let length: usize = head.header("content-length").unwrap().parse().unwrap();
    assert_eq!((head.status, length), (203, "HEAD told 1|203|{}\n".len()));
    let gone = client.get("/gone");
    assert_eq!((gone.status, gone.header("content-length"), gone.header("content-type")), (204, None, None));
    assert_eq!(told(&client.get("/healthz")), (200, "ok\n".to_owned()));
    assert!(client.is_connected());
    assert_eq!(client.get("/from-the-pool").origin(), "a");
    assert_eq!(a.served(), 1);
    let line = gateway.logged("/gone");
    assert_eq!(
        (&line["route"], &line["pool"], &line["status"]),
        (&"gone".into(), &serde_json::Value::Null, &204.into())
    );
    assert!(gateway.log().iter().all(|line| line["uri"] != "/healthz"), "{:?}", gateway.log());
    let counted = |route| gateway.metrics().sum("moorgate_requests_total", &[("route", route)]);
    assert_eq!((counted("quiet"), counted("told")), (1.0, 2.0));
}

#[test]
fn a_body_that_nobody_wanted_is_no_next_request() {
    let (_a, gateway) = start();
    let smuggled = "GET /told/smuggled?a=2 HTTP/1.1\r\nHost: x\r\n\r\n";
    for (first, answer) in [("/told/x?a=1", 203), ("/moved", 308), ("/here/x", 301)] {
        let mut raw = rig::raw(gateway.address());
        raw.send(format!("POST {first} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{smuggled}", smuggled.len()));
        assert_eq!(raw.answer().status, answer);
        raw.send("GET /gone HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(raw.answer().status, 204, "behind a body of known length");
        raw.send(format!("POST {first} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"));
        raw.send(format!("{:x}\r\n{smuggled}\r\n0\r\n\r\nGET /gone HTTP/1.1\r\nHost: h\r\n\r\n", smuggled.len()));
        assert_eq!((raw.answer().status, raw.answer().status), (answer, 204), "pipelined behind chunks");
        raw.send("POST /told/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
        let held = raw.answer();
        assert_eq!((held.status, held.interim.len(), held.closes()), (203, 0, true), "a body that is held back");
        raw.try_send("GET /gone HTTP/1.1\r\nHost: h\r\n\r\n").ok();
        assert_eq!(raw.rest(), b"");
    }
    let mut raw = rig::raw(gateway.address());
    raw.send("POST /told/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nnone\r\n");
    let malformed = raw.answer();
    assert_eq!((malformed.status, malformed.closes()), (400, true), "chunks that are none");
    let mut raw = rig::raw(gateway.address());
    raw.send("POST /told/x HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\n\r\n");
    let long = raw.answer();
    assert_eq!((long.status, long.closes()), (203, true), "a body that is too long to be read for nothing");
}

#[test]
fn a_client_of_http_2_gets_the_same_answers() {
    let (_a, gateway) = start();
    let asks = [
        Ask::get("/told/x?a=1"),
        Ask::new("POST", "/told/x?a=2").body("unwanted"),
        Ask::new("HEAD", "/told/x"),
        Ask::get("/gone"),
        Ask::get("/moved/on?x=1").header("Host", "shop.example"),
        Ask::get("/ready"),
    ];
    let answers: Vec<Answer> = rig::h2c(gateway.address(), &asks).into_iter().map(Result::unwrap).collect();
    assert_eq!(told(&answers[0]), (203, "GET told 1|203|{}\n".to_owned()));
    assert_eq!(told(&answers[1]), (203, "POST told 2|203|{}\n".to_owned()));
    assert_eq!((answers[2].status, answers[2].body.len(), answers[3].status), (203, 0, 204));
    assert_eq!(answers[4].header("location"), Some("https://shop.example/moved/on?x=1"));
    assert_eq!(told(&answers[5]), (200, "ready\n".to_owned()));
}

#[test]
fn who_has_no_access_is_told_that_and_logged() {
    let (_a, gateway) = start();
    assert_eq!(gateway.get("/closed").status, 403);
    assert_eq!(gateway.logged("/closed")["error"], "denied");
}

#[test]
fn a_redirect_names_no_host_that_a_client_chose() {
    let (a, gateway) = start();
    let location = |target: &str, host: &str| {
        let answer = gateway.ask(&Ask::get(target).header("Host", host));
        (answer.status, answer.header("location").unwrap_or_default().to_owned(), answer.body.len())
    };
    let to = |status, place: &str| (status, place.to_owned(), 0);
    assert_eq!(location("/moved//a?b=%2f&c", "Shop.example:8080"), to(308, "https://shop.example/moved//a?b=%2f&c"));
    assert_eq!(location("/here//evil.example/x", "h"), to(301, "/evil.example/x"));
    assert_eq!(location("/here/\\evil.example", "h"), to(301, "/%5Cevil.example"));
    assert_eq!(location("/here/%0d%0aSet-Cookie:x", "h"), to(301, "/%0D%0ASet-Cookie:x"));
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /moved HTTP/1.0\r\n\r\n");
    assert_eq!(raw.answer().status, 400, "without a host there is no place");
    assert_eq!(gateway.logged("/moved")["error"], "bad_request");
    assert_eq!(a.served(), 0);
}

#[test]
fn u5_readiness_is_told_on_a_data_listener_as_at_the_admin_address() {
    let a = rig::origin("a");
    let setup = rig::gateway(TEXT).process("drain", "{ lame_duck: 20s, timeout: 5s }").origins([&a]);
    let mut gateway = setup.start();
    assert_eq!(told(&gateway.get("/ready")), (200, "ready\n".to_owned()));
    gateway.signal(Signal::SIGTERM);
    let draining =
        rig::eventually("it is not ready", || Some(gateway.get("/ready")).filter(|answer| answer.status == 503));
    assert_eq!(draining.text(), gateway.admin("GET", "/readyz").text());
    assert_eq!(draining.text(), "draining\n");
    assert!(gateway.running());
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit(), 130);
}
