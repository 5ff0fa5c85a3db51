//! What does a route change of requests and answers on their way, and what does it leave as it was?

use crate::rig::{self, Answer, Ask, Gateway, Origin, Step, answer, on};

const TEXT: &str = "\
trusted_proxies: [127.0.0.2/32]
pools:
  p: { balance: { key: \"{path}\" }, health: { probe: off }, host: origin.internal, origins: $origins }
  told: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins }
routes:
  - name: lines
    match: { path: { prefix: /lines } }
    pool: p
    retry: { safe: [502] }
    headers:
      request:
        set: { X-Path: \"{path}|{nginx_uri}\", x-KEY: \"{key}\", X-Gone: \"{arg:none}\", X-Forwarded-Proto: https }
        add: { X-Two: [one, \"{request_id}\"] }
        remove: [Cookie, X-Set-Twice]
      response:
        set: { Cache-Control: no-cache, X-Gone: '', Server: moorgate }
        add: { X-Told: [\"{status} {upstream_status} {attempts}\", \"{route}/{pool}\"] }
        remove: [X-Powered-By]
  - name: own
    match: { path: { exact: /own } }
    respond: { body: \"<p>\" }
    headers: { response: { set: { Content-Type: text/html, X-Route: \"{route}\" } } }
  - name: api
    match: { path: { prefix: /api } }
    pool: p
    rewrite: { strip_prefix: /api, add_prefix: /v2 }
    redirects: rewrite
  - name: stripped
    match: { path: { prefix: /stripped } }
    pool: told
    rewrite: { strip_prefix: /stripped }
    redirects: rewrite
  - { name: all, pool: p }
";

fn start() -> (Origin, Gateway) {
    let a = rig::origin("a");
    let gateway = rig::gateway(TEXT).listener("h2c: true").origins([&a]).start();
    (a, gateway)
}

/// The lines of this name, as they were spelt.
fn lines(headers: &[(String, String)], name: &str) -> Vec<String> {
    let lines = headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
    lines.map(|(name, value)| format!("{name}: {value}")).collect()
}

#[test]
fn lines_of_requests_are_changed_anew_for_each_try() {
    let both = ["a", "b"].map(rig::origin);
    let gateway = rig::gateway(TEXT).origins(&both).start();
    both.iter().for_each(|origin| origin.script([on("/lines*").times(1).answer(502), on("/lines*").answer(200)]));
    let ask = Ask::get("/lines/%0d%0aX-Evil:%20x?none=").header("Cookie", "a=1").header("X-Two", "zero");
    let ask = ask.header("X-Request-ID", "id-1").header("X-Gone", "came").header("X_Path", "evil");
    assert_eq!([gateway.ask(&ask).status, gateway.ask(&ask).status], [502, 200]);
    let requests: Vec<_> = both.iter().flat_map(|origin| origin.requests()).collect();
    assert_eq!(requests.len(), 3, "the first was tried at both");
    for request in requests {
        let headers = &request.headers;
        assert_eq!(lines(headers, "x-path"), ["X-Path: /lines/%0D%0AX-Evil:%20x|/lines/%0D%0AX-Evil: x"]);
        assert_eq!(lines(headers, "x-key"), ["x-KEY: /lines/%0D%0AX-Evil:%20x"]);
        assert_eq!(lines(headers, "x-two"), ["X-Two: zero", "X-Two: one", "X-Two: id-1"]);
        assert_eq!(lines(headers, "x-forwarded-proto"), ["X-Forwarded-Proto: https"]);
        assert_eq!(lines(headers, "host"), ["Host: origin.internal"]);
        let none: Vec<String> =
            ["cookie", "x-gone", "x-evil", "x_path"].iter().flat_map(|name| lines(headers, name)).collect();
        assert_eq!(none, [""; 0]);
    }
}

#[test]
fn lines_of_answers_are_changed_but_not_of_interim_ones_nor_of_refusals() {
    let (a, gateway) = start();
    let told = answer(404).header("X-Powered-By", "x").header("cache-control", "max-age=60").header("X-Gone", "x");
    a.script([on("/lines*").then(Step::Inform(103)).then(told.into())]);
    let mut raw = rig::raw(gateway.address());
    raw.send("GET /lines HTTP/1.1\r\nHost: h\r\n\r\n");
    let first = raw.line();
    assert!(first.starts_with("HTTP/1.1 103"), "{first}");
    let interim: Vec<String> = std::iter::from_fn(|| Some(raw.line()).filter(|line| !line.is_empty())).collect();
    assert!(interim.iter().all(|line| !line.starts_with("X-Told") && !line.starts_with("Server")), "{interim:?}");
    let h2 = rig::h2c(gateway.address(), &[Ask::get("/lines")]).remove(0).unwrap();
    for answer in [raw.answer(), h2] {
        assert_eq!(answer.status, 404);
        let lower =
            |name: &str| lines(&answer.headers, name).iter().map(|line| line.to_lowercase()).collect::<Vec<_>>();
        assert_eq!(lower("x-told"), ["x-told: 404 404 1", "x-told: lines/p"]);
        assert_eq!(lower("cache-control"), ["cache-control: no-cache"]);
        assert_eq!(
            (lower("server"), lower("x-powered-by"), lower("x-gone")),
            (vec!["server: moorgate".into()], vec![], vec![])
        );
    }
    let own = gateway.get("/own");
    assert_eq!(
        (own.header("content-type"), own.header("x-route"), own.text()),
        (Some("text/html"), Some("own"), "<p>".into())
    );
    a.door(rig::Door::Refuse);
    a.close_idle(rig::Close::Fin);
    let refused = gateway.get("/lines/refused");
    assert_eq!(
        (refused.status, refused.header("server"), refused.header("cache-control")),
        (502, None, Some("no-store"))
    );
}

#[test]
fn p9_a_prefix_goes_and_the_rest_goes_on_byte_for_byte() {
    let (a, gateway) = start();
    let sent = [
        ("/api", "/v2"),
        ("/api?x", "/v2?x"),
        ("/api/a%2d/./b//c?d=/api", "/v2/a%2d/./b//c?d=/api"),
        ("//api/x", "/v2/x"),
        ("/%61pi/x", "/v2/x"),
        ("/x/../api/y", "/v2/y"),
        ("/stripped", "/"),
        ("/stripped/", "/"),
        ("/apis", "/apis"),
    ];
    for (target, _) in sent {
        assert_eq!(gateway.get(target).status, 200, "{target}");
    }
    let asks: Vec<Ask> = sent.iter().map(|(target, _)| Ask::get(target)).collect();
    for one in asks {
        assert_eq!(rig::h2c(gateway.address(), &[one])[0].as_ref().unwrap().status, 200);
    }
    let seen: Vec<String> =
        a.requests().iter().map(|request| request.line.split(' ').nth(1).unwrap().to_owned()).collect();
    let expected: Vec<&str> = sent.iter().chain(&sent).map(|(_, out)| *out).collect();
    assert_eq!(seen, expected);
    let mut raw = rig::raw(gateway.address());
    raw.send("GET http://h/api/abs HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(raw.answer().status, 200);
    assert!(a.requests().last().unwrap().line.starts_with("GET /v2/abs "));
    let line = gateway.logged("/api/a%2d/./b//c?d=/api");
    assert_eq!(
        (&line["key"], &line["route"]),
        (&"/api/a-/b//c".into(), &"api".into()),
        "log and key have what was asked"
    );
}

#[test]
fn places_that_an_origin_names_are_those_a_client_can_reach() {
    let (a, gateway) = start();
    let at = a.address.to_string();
    let asked = |target: &str, from: Option<&str>| -> Answer {
        let ask = Ask::get(target).header("Host", "shop.example:81");
        let ask = ask.header("X-Forwarded-Proto", "https").header("X-Forwarded-Host", "outside.example");
        match from {
            Some(from) => gateway.client().from(from.parse().unwrap()).send(&ask).unwrap(),
            None => gateway.ask(&ask),
        }
    };
    let named = |place: &str, target: &str, from| {
        a.script([
            on("*").then(answer(302).header("Location", place).header("Refresh", &format!("1; url={place}")).into())
        ]);
        let answer = asked(target, from);
        let place = answer.header("location").unwrap().to_owned();
        assert_eq!(answer.header("refresh"), Some(&*format!("1; url={place}")));
        place
    };
    for (place, expected) in [
        ("http://origin.internal/v2/x?y#z".to_owned(), "http://shop.example:81/api/x?y#z"),
        (format!("http://{at}/v2/"), "http://shop.example:81/api/"),
        ("/v2/login".to_owned(), "/api/login"),
        ("/other".to_owned(), "/other"),
        ("next".to_owned(), "next"),
        ("https://elsewhere.example/v2/x".to_owned(), "https://elsewhere.example/v2/x"),
    ] {
        assert_eq!(named(&place, "/api/x", None), expected, "{place}");
    }
    assert_eq!(named("http://shop.example:81/x", "/stripped/x", None), "http://shop.example:81/stripped/x");
    let trusted = named("http://origin.internal/v2/x", "/api/x", Some("127.0.0.2"));
    assert_eq!(trusted, "https://outside.example/api/x", "a trusted proxy says how it was reached");
    assert_eq!(named("http://origin.internal/x", "/untouched", None), "http://origin.internal/x");
}
