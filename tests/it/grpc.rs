//! gRPC end to end, between a real client and a real server: every kind of call, deadlines, cancellation, errors.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rig::{Ask, Authority, Body, Gateway, Step, answer, call, eventually, gateway, grpc, h2c, on, origin};

/// The server by `plain.test` without TLS and by `tls.test` with it, and a pool nobody serves by `dead.test`.
fn before(server: &grpc::Server, authority: &Authority) -> Gateway {
    let text = "certificates: [ { cert: $dir/front.pem, key: $dir/front-key.pem } ]\npools:\n  plain: { origins: [$plain], protocol: h2c, balance: { algorithm: p2c }, timeouts: { connect: 8s }, health: { probe: off } }\n  \
                tls: { origins: [$secure], protocol: h2, tls: { sni: o.test, ca: $dir/ca.pem }, balance: { algorithm: p2c }, timeouts: { connect: 8s } }\n  \
                dead: { origins: [\"127.0.0.1:1\"], protocol: h2c, health: { probe: off } }\n\
                routes:\n  - { match: { hosts: [plain.test] }, pool: plain }\n  - { match: { hosts: [tls.test] }, pool: tls }\n  \
                - { match: { hosts: [dead.test] }, pool: dead }\n  \
                - { match: { hosts: [denied.test] }, pool: plain, access: { deny: [127.0.0.0/8] } }\n";
    gateway(text)
        .named("plain", server.plain)
        .named("secure", server.secure)
        .listener("h2c: true")
        .further_listener("tls: {}")
        .start_with(|folder| {
            fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
            authority.issue("tls.test").write(folder, "front", "front-key");
        })
}

#[test]
fn every_kind_of_call_goes_through_with_metadata_and_trailers() {
    let authority = Authority::new("ours");
    let server = grpc::server(&authority.issue("o.test"));
    let gateway = before(&server, &authority);
    let expected = json!({
        "unary": ["hello", "1", "there", "00ff"],
        "down": true,
        "up": "100 100000",
        "both": [50, true, "OK"],
        "fail": ["NOT_FOUND", "nothing at 100 % of them", "gone"],
        "big": true,
        "none": ["UNIMPLEMENTED", "Method not found!"],
    });
    for host in ["plain.test", "tls.test"] {
        assert_eq!(call(gateway.address(), host, "calls"), expected, "{host}");
    }
    let secure = grpc::Caller::begin(gateway.listeners[1], "tls.test", "calls", Some(&gateway.path("ca.pem")));
    assert_eq!(secure.end(), expected, "TLS on both sides");
    let failed = gateway.logged("/t.T/Fail");
    assert_eq!((&failed["status"], &failed["error"]), (&json!(200), &Value::Null), "it is the server's own answer");
}

#[test]
fn a_thousand_streams_are_open_at_once() {
    let authority = Authority::new("ours");
    let server = grpc::server(&authority.issue("o.test"));
    let gateway = before(&server, &authority);
    for host in ["plain.test", "tls.test"] {
        assert_eq!(call(gateway.address(), host, "thousand"), json!(1000), "{host}");
    }
}

#[test]
fn the_server_sees_a_deadline_and_a_cancellation() {
    let authority = Authority::new("ours");
    let server = grpc::server(&authority.issue("o.test"));
    let gateway = before(&server, &authority);
    let told = call(gateway.address(), "tls.test", "ends");
    assert_eq!((&told["late"][0], &told["seen"]), (&json!("DEADLINE_EXCEEDED"), &json!([1, 2, 3])), "{told}");
    let took = told["late"][3].as_f64().unwrap();
    assert!((0.29..2.0).contains(&took), "{took}");
}

#[test]
fn what_fails_here_is_told_as_a_status_of_grpc() {
    let authority = Authority::new("ours");
    let mut server = grpc::server(&authority.issue("o.test"));
    let gateway = before(&server, &authority);
    let code = |host: &str| call(gateway.address(), host, "one");
    let [dead, unknown, denied] = ["dead.test", "nobody.test", "denied.test"].map(code);
    assert_eq!(dead[0], "UNAVAILABLE");
    assert!(dead[1].as_str().unwrap().starts_with("connect_refused (request "), "{dead}");
    assert_eq!((&unknown[0], &denied[0]), (&json!("UNIMPLEMENTED"), &json!("PERMISSION_DENIED")));
    let log = gateway.await_log(3);
    let lines: Vec<_> =
        log.iter().map(|line| (line["status"].as_u64().unwrap(), line["error"].as_str().unwrap())).collect();
    assert_eq!(
        lines,
        [(502, "connect_refused"), (404, "no_route"), (403, "denied")],
        "log and metrics have the real ones"
    );
    let ask = Ask::new("POST", "/t.T/Unary").header("content-type", "application/grpc+x").header("host", "dead.test");
    let answer = h2c(gateway.address(), &[ask.body("")]).remove(0).unwrap();
    assert_eq!((answer.status, answer.header("content-type"), answer.body.len()), (200, Some("application/grpc+x"), 0));
    assert_eq!((answer.header("grpc-status"), answer.trailers.len()), (Some("14"), 0), "the header is the end");
    assert!(answer.header("proxy-status").unwrap().starts_with("moorgate; error=connection_refused"), "{answer:?}");
    // A server that dies within its answer.
    let mut caller = grpc::Caller::begin(gateway.address(), "plain.test", "cut", None);
    assert_eq!(caller.says(), "begun");
    server.kill();
    let told = caller.end();
    assert_eq!(told[0], "UNAVAILABLE");
    assert!(told[1].as_str().unwrap().starts_with("closed_early (request "), "{told}");
}

/// Limits have codes of their own, and log and metrics the statuses they stand for.
#[test]
fn what_a_limit_turns_away_is_told_as_a_status_of_grpc() {
    let authority = Authority::new("ours");
    let server = grpc::server(&authority.issue("o.test"));
    let pool = "origins: [$plain], protocol: h2c, balance: { algorithm: p2c }, health: { probe: off }";
    let route = |host: &str, more: &str| format!("  - {{ name: {host}, match: {{ hosts: [{host}] }}, {more} }}\n");
    let text = [
        format!("pools:\n  plain: {{ {pool} }}\n  full: {{ {pool}, connections: {{ max_in_flight: 1 }} }}\nroutes:\n"),
        route("rate.test", "pool: plain, limits: { rate: { key: \"{host}\", rate: 1/h, burst: 0 } }"),
        route("busy.test", "pool: plain, limits: { concurrency: { key: \"{host}\", max: 1 } }"),
        route("body.test", "pool: plain, limits: { body: 5 }"),
        route("full.test", "pool: full"),
    ]
    .concat();
    let gateway = gateway(&text).named("plain", server.plain).listener("h2c: true").start();
    let begin = |host: &str, scene: &str| grpc::Caller::begin(gateway.address(), host, scene, None);
    let mut held = ["busy.test", "full.test"].map(|host| begin(host, "cut"));
    assert_eq!(held.each_mut().map(grpc::Caller::says), ["begun", "begun"]);
    assert_eq!(call(gateway.address(), "rate.test", "one"), json!(["OK", ""]));
    let turned_away = [
        ("rate.test", "UNAVAILABLE", "limited", json!("rate")),
        ("busy.test", "UNAVAILABLE", "limited", json!("concurrency")),
        ("body.test", "RESOURCE_EXHAUSTED", "body_too_large", json!("body")),
        ("full.test", "UNAVAILABLE", "limited", Value::Null),
    ];
    let callers = turned_away.each_ref().map(|(host, ..)| begin(host, "one"));
    for (caller, (host, code, word, limited)) in callers.into_iter().zip(turned_away) {
        let told = caller.end();
        assert_eq!(told[0], code, "{host}");
        assert!(told[1].as_str().unwrap().starts_with(&format!("{word} (request ")), "{told}");
        let line = eventually("a line", || {
            gateway.log().into_iter().find(|line| line["route"] == host && !line["error"].is_null())
        });
        assert_eq!(line["limited"], limited, "{line}");
    }
    let code = |status: &str| gateway.metrics().sum("moorgate_requests_total", &[("code", status)]).round() as usize;
    assert_eq!([code("429"), code("413"), code("503")], [2, 1, 1]);
}

#[test]
fn a_deadline_cuts_whatever_the_origin_does_and_is_no_evidence_against_it() {
    let a = origin("a");
    a.script([
        on("/t.T/Silent").then(Step::Hang),
        on("/t.T/Endless")
            .then(Step::Answer(answer(200).header("content-type", "application/grpc").body(Body::Pattern(1 << 40)))),
    ]);
    let text = "pools: { p: { origins: [$a], protocol: h2c, balance: { algorithm: p2c }, health: { probe: off } } }\n";
    let gateway = gateway(text).origins([&a]).listener("h2c: true").start();
    let ask = |method: &str, timeout: &str| {
        let ask = Ask::new("POST", &format!("/t.T/{method}")).header("content-type", "application/grpc");
        ask.header("te", "trailers").header("grpc-timeout", timeout).body(vec![0; 5])
    };
    let began = Instant::now();
    let asks = [ask("Silent", "300m"), ask("Endless", "300m"), ask("Other", "9S")];
    let [silent, endless, other] = &h2c(gateway.address(), &asks)[..] else { panic!("three") };
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let silent = silent.as_ref().unwrap();
    assert_eq!((silent.status, silent.header("grpc-status")), (200, Some("4")), "{silent:?}");
    let endless = endless.as_ref().unwrap();
    let ends: Vec<_> = endless.trailers.iter().filter(|(name, _)| name == "grpc-status").collect();
    assert_eq!((endless.status, &*ends[0].1, endless.body.is_empty()), (200, "4", false));
    assert_eq!(other.as_ref().unwrap().status, 200, "the connection they shared goes on");
    let line = gateway.logged("/t.T/Silent");
    assert_eq!(
        (&line["status"], &line["error"], &line["attempts"][0]["outcome"]),
        (&json!(504), &json!("deadline"), &json!("deadline"))
    );
    let sent = a.requests().remove(0);
    let header = |name: &str| sent.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    assert_eq!((header("te"), header("grpc-timeout").is_some()), (Some("trailers"), true), "{sent:?}");
}

/// No trailers go through HTTP/1.1: the call comes to its end, and says nothing of how.
#[test]
fn a_pool_of_http_1_gets_a_call_as_any_request() {
    let a = origin("a");
    let kind = ("content-type", "application/grpc");
    a.script([on("/t.T/*").then(Step::Answer(answer(200).header(kind.0, kind.1).body(Body::Received)))]);
    let text = "pools: { p: { origins: [$a], health: { probe: off } } }\n";
    let gateway = gateway(text).origins([&a]).listener("h2c: true").start();
    let ask = Ask::new("POST", "/t.T/Unary").header(kind.0, kind.1).header("te", "trailers").body(vec![0; 5]);
    let answer = h2c(gateway.address(), &[ask]).remove(0).unwrap();
    assert_eq!((answer.status, answer.header("content-type"), answer.body.len()), (200, Some(kind.1), 5));
    assert_eq!((answer.header("grpc-status"), answer.trailers.len()), (None, 0));
    assert!(a.requests()[0].line.ends_with("HTTP/1.1"), "{:?}", a.requests());
    assert_eq!(gateway.logged("/t.T/Unary")["error"], Value::Null);
}
