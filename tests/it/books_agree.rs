//! Do log, metrics and origins tell the same story of a day with everything in it? Requests that went well, that were
//! tried again, that were cut, that were malformed, and clients that left: each is in each book, once.

use std::collections::BTreeMap;
use std::thread;

use serde_json::Value;

use crate::rig::{self, Ask, Body, Close, Door, Framing, Gateway, Metrics, Origin, Step, answer, on};

const TEXT: &str = "client_limits: { uri_bytes: 1KiB, header_bytes: 4KiB, header_timeout: 500ms, body_timeout: 400ms }\n\
    pools:\n  p:\n    balance: { key: \"{path}\" }\n    health: { probe: off }\n    timeouts: { connect: 200ms, read: 1s }\n    \
    retry_budget: { ratio: 100%, floor: 1000/s }\n    origins: $origins\n\
    routes:\n  - { name: all, match: { hosts: [test] }, pool: p, retry: { tries: 2, safe: [connect, stale, reset, \"503\"], other: [connect] } }\n  \
    - { name: closed, match: { hosts: [test], path: { prefix: /closed } }, pool: p, access: { deny: [127.0.0.0/8] } }\n";

/// Numbers by what they count.
type Book = BTreeMap<Vec<String>, u64>;

fn start() -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b", "c", "d"].map(rig::origin).into();
    let gateway = rig::gateway(TEXT).listener("h2c: true").origins(&all).start();
    for origin in &all {
        let drip = Body::Drip { piece: "x".repeat(1000), every_ms: 20, times: 100_000 };
        origin.script([
            on("/reset/*").then(Step::End(Close::Rst)),
            on("/503/*").answer(503),
            on("/cut/*").then(rig::text("x").framing(Framing::Declared(9)).into()).then(Step::End(Close::Fin)),
            on("/hang/*").then(Step::Hang),
            on("/held/*").hold("never").answer(200),
            on("/endless/*").then(answer(200).body(drip).framing(Framing::Chunked).into()),
            on("/large/*").then(answer(200).body(Body::Size(100_000)).into()),
            on("/dies/*").since_nth(3).then(Step::End(Close::Fin)),
        ]);
    }
    all[3].door(Door::Refuse);
    (all, gateway)
}

/// Requests of all kinds over kept and new connections; how many there were.
fn ordinary(gateway: &Gateway) -> usize {
    let kinds = ["/obj", "/obj", "/obj", "/dies", "/large", "/reset", "/503", "/cut", "/closed", "/obj"];
    let mut client = gateway.client();
    for n in 0..400 {
        let target = format!("{}/{n}?q={n}", kinds[n % kinds.len()]);
        let ask = match n % 4 {
            0 => Ask::new("POST", &target).body(vec![b'x'; n * 7]),
            1 if n % 3 == 0 => Ask::new("HEAD", &target),
            _ => Ask::get(&target),
        };
        // One that ended with its connection needs a new one.
        if client.send(&ask).is_err() {
            client = gateway.client();
        }
    }
    for n in 0..4 {
        assert_eq!(gateway.get(&format!("/hang/{n}")).status, 504);
    }
    assert_eq!(gateway.ask(&Ask::get("/elsewhere").header("Host", "other")).status, 404);
    let asks: Vec<Ask> = (0..20).map(|n| Ask::get(&format!("/obj/h2/{n}"))).collect();
    assert!(rig::h2c(gateway.address(), &asks).iter().all(|answer| answer.as_ref().is_ok_and(|a| a.status == 200)));
    400 + 4 + 1 + 20
}

/// Clients that leave before the answer, within it, and within their own request.
fn impatient(all: &[Origin], gateway: &Gateway) -> usize {
    let seen = |path: &str| all.iter().any(|origin| origin.counts().by_path.contains_key(path));
    for n in 0..30 {
        let mut client = rig::raw(gateway.address());
        let path = ["/held", "/endless", "/held/up"][n % 3].to_owned() + &format!("/{n}");
        match n % 3 {
            2 => client.send(format!("PUT {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 1000\r\n\r\nabc")),
            _ => client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")),
        }
        rig::eventually("it is under way", || seen(&path).then_some(()));
        if n % 3 == 1 {
            client.bytes(2000);
        }
    }
    30
}

/// What is no request, and what is cut for being too slow.
fn malformed(gateway: &Gateway) -> usize {
    let long = "x".repeat(2000);
    let wide = format!("GET / HTTP/1.1\r\nHost: test\r\nX: {}\r\n\r\n", "x".repeat(5000));
    let lines = [
        "nonsense\r\n\r\n".to_owned(),
        "GET /a b HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "GET /%00 HTTP/1.1\r\nHost: test\r\n\r\n".to_owned(),
        "GET / HTTP/1.1\r\nHost: test\r\nContent-Length: x\r\n\r\n".to_owned(),
        "CONNECT test:443 HTTP/1.1\r\nHost: test:443\r\n\r\n".to_owned(),
        "GET /obj HTTP/1.1\r\nHost: test\r\nConnection: host\r\n\r\n".to_owned(),
        "GET /obj HTTP/1.1\r\nHost: test\r\nConnection: a,b,c,d,e,f,g,h,i,j,k\r\n\r\n".to_owned(),
        "POST /obj HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n".to_owned(),
        "GET /obj HTTP/1.1\r\nHost: [::1\r\n\r\n".to_owned(),
        format!("GET /{long} HTTP/1.1\r\nHost: test\r\n\r\n"),
        wide,
        "GET /unfinished HTTP/1.1\r\nHo".to_owned(),
        "PUT /obj/unfinished HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\nabc".to_owned(),
    ];
    for line in &lines {
        let mut raw = rig::raw(gateway.address());
        raw.send(line);
        let answer = raw.answer();
        assert!((400..500).contains(&answer.status), "{line}: {answer:?}");
    }
    // Not a request at all.
    (0..5).for_each(|_| drop(rig::raw(gateway.address())));
    lines.len()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| if value.is_null() { "-".to_owned() } else { value.to_string() }, str::to_owned)
}

fn attempts(log: &[Value]) -> impl Iterator<Item = (&Value, &Value)> {
    log.iter().flat_map(|line| line["attempts"].as_array().unwrap().iter().map(move |attempt| (line, attempt)))
}

fn tally(rows: impl Iterator<Item = Vec<String>>) -> Book {
    let mut book = Book::new();
    rows.for_each(|row| *book.entry(row).or_default() += 1);
    book
}

/// The series of a counter, by the values of these labels; what is 0 is left out.
fn counted(metrics: &Metrics, name: &str, labels: &[&str]) -> Book {
    let mut book = Book::new();
    for (row, value) in metrics.by(name, labels) {
        if value > 0.5 {
            *book.entry(row).or_default() += value.round() as u64;
        }
    }
    book
}

/// Methods that are no labels of their own are one.
fn method(line: &Value) -> String {
    let known = ["GET", "HEAD", "POST", "PUT", "CONNECT"];
    let name = text(&line["method"]);
    if known.contains(&name.as_str()) { name } else { "other".to_owned() }
}

/// Why there was a further attempt, by how the one before it ended.
fn reason(outcome: &str) -> &str {
    match outcome {
        "connect_refused" | "connect_timeout" => "connect",
        "response_timeout" => "timeout",
        other => other,
    }
}

fn assert_log_and_metrics_agree(log: &[Value], metrics: &Metrics) {
    let requests =
        log.iter().map(|line| vec![text(&line["route"]), text(&line["pool"]), method(line), text(&line["status"])]);
    assert_eq!(tally(requests), counted(metrics, "moorgate_requests_total", &["route", "pool", "method", "code"]));
    let tries = attempts(log).map(|(_, attempt)| vec![text(&attempt["origin"]), text(&attempt["outcome"])]);
    assert_eq!(tally(tries), counted(metrics, "moorgate_attempts_total", &["origin", "outcome"]));
    let again = log.iter().flat_map(|line| {
        let outcomes: Vec<String> = line["attempts"].as_array().unwrap().iter().map(|a| text(&a["outcome"])).collect();
        outcomes.split_last().map_or(Vec::new(), |(_, before)| before.to_vec())
    });
    let again = tally(again.map(|outcome| vec![reason(&outcome).to_owned()]));
    assert_eq!(again, counted(metrics, "moorgate_retries_total", &["reason"]));
    let connections = attempts(log).filter_map(|(_, attempt)| {
        let kind = if attempt["reused"] == true { "reused" } else { "opened" };
        let held = attempt["reused"] == true || attempt["connect_time"].is_number();
        held.then(|| vec![text(&attempt["origin"]), kind.to_owned()])
    });
    assert_eq!(tally(connections), counted(metrics, "moorgate_upstream_connections_total", &["origin", "kind"]));
}

fn assert_origins_agree(all: &[Origin], log: &[Value]) {
    for origin in all {
        let own = attempts(log).filter(|(_, attempt)| attempt["origin"] == origin.name.as_str());
        let outcomes: Vec<String> = own.map(|(_, attempt)| text(&attempt["outcome"])).collect();
        let sent = outcomes.iter().filter(|outcome| !outcome.starts_with("connect_")).count() as u64;
        let stale = outcomes.iter().filter(|outcome| *outcome == "stale").count() as u64;
        let served = origin.served();
        assert!((sent - stale..=sent).contains(&served), "{}: {served} seen of {sent}, {stale} stale", origin.name);
    }
}

#[test]
fn log_metrics_and_origins_agree_on_everything_that_can_happen() {
    let (all, gateway) = start();
    let sent = thread::scope(|scope| {
        let parts = [
            scope.spawn(|| ordinary(&gateway)),
            scope.spawn(|| ordinary(&gateway)),
            scope.spawn(|| impatient(&all, &gateway)),
            scope.spawn(|| malformed(&gateway)),
        ];
        parts.into_iter().map(|part| part.join().unwrap()).sum::<usize>()
    });
    let log = gateway.await_log(sent);
    rig::eventually("all is over", || (gateway.metrics().sum("moorgate_in_flight", &[]) < 0.5).then_some(()));
    assert_eq!(gateway.await_log(sent).len(), sent, "lines and requests");
    let metrics = gateway.metrics();
    assert_log_and_metrics_agree(&log, &metrics);
    assert_origins_agree(&all, &log);
    // It was a day with everything in it.
    let words: Vec<String> =
        log.iter().map(|line| text(&line["error"])).chain(attempts(&log).map(|(_, a)| text(&a["outcome"]))).collect();
    for word in [
        "ok",
        "status",
        "stale",
        "reset",
        "connect_refused",
        "response_timeout",
        "closed_early",
        "client_gone",
        "client_timeout",
        "bad_request",
        "method_not_allowed",
        "uri_too_long",
        "header_too_large",
        "no_route",
        "denied",
    ] {
        assert!(words.iter().any(|seen| seen == word), "nothing was `{word}`");
    }
}
