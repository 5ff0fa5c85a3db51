//! Do log, metrics and origins agree on what happened? Every request and every try is on record once.

use std::collections::BTreeMap;

use crate::rig::{self, Ask, Close, Door, Gateway, Origin, Step, answer, keys, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n";

fn three() -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b", "c"].map(rig::origin).into();
    let gateway = rig::gateway(POOL).origins(&all).start();
    (all, gateway)
}

#[test]
fn p11_log_metrics_and_origins_agree_on_every_try() {
    let (all, gateway) = three();
    for origin in &all {
        origin.script([
            on("/obj/7").then(Step::End(Close::Rst)),
            on("/obj/8").answer(503),
            on("/obj/9").then(rig::text("x").framing(rig::Framing::Declared(9)).into()).then(Step::End(Close::Fin)),
        ]);
    }
    all[2].door(Door::Refuse);
    for key in keys(200) {
        let _ = gateway.client().send(&Ask::get(&key));
    }
    let log = gateway.await_log(200);
    assert_eq!(log.len(), 200);
    let metrics = gateway.metrics();
    assert!((metrics.sum("moorgate_requests_total", &[]) - 200.0).abs() < 0.5);
    for origin in &all {
        let attempts: Vec<String> = log
            .iter()
            .flat_map(|line| line["attempts"].as_array().unwrap())
            .filter(|attempt| attempt["origin"] == origin.name.as_str())
            .map(|attempt| attempt["outcome"].as_str().unwrap().to_owned())
            .collect();
        let counted = metrics.sum("moorgate_attempts_total", &[("origin", &origin.name)]);
        assert!((counted - attempts.len() as f64).abs() < 0.5, "{}: {counted} against {attempts:?}", origin.name);
        let sent = attempts.iter().filter(|outcome| !outcome.starts_with("connect_")).count() as u64;
        let stale = attempts.iter().filter(|outcome| *outcome == "stale").count() as u64;
        let served = origin.served();
        assert!((sent - stale..=sent).contains(&served), "{}: {served} of {sent}, {stale} stale", origin.name);
    }
    let mut again = BTreeMap::<&str, f64>::new();
    for attempts in log.iter().map(|line| line["attempts"].as_array().unwrap()) {
        for attempt in &attempts[..attempts.len() - 1] {
            let outcome = attempt["outcome"].as_str().unwrap();
            *again.entry(if outcome.starts_with("connect_") { "connect" } else { outcome }).or_default() += 1.0;
        }
    }
    assert!(again.len() > 1, "{again:?}");
    for (reason, count) in again {
        let counted = metrics.sum("moorgate_retries_total", &[("reason", reason)]);
        assert!((counted - count).abs() < 0.5, "{reason}: {counted} against {count}");
    }
    let in_flight = gateway.metrics().sum("moorgate_in_flight", &[]);
    assert!(in_flight.abs() < 0.5, "{in_flight} still in flight");
}

#[test]
fn in_flight_returns_to_zero_when_clients_leave() {
    let (all, gateway) = three();
    all.iter().for_each(|origin| origin.script([on("/held*").hold("gone").answer(200)]));
    let mut clients: Vec<_> = (0..10).map(|_| rig::raw(gateway.address())).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /held/{n} HTTP/1.1\r\nHost: t\r\n\r\n"));
    }
    let in_flight = || gateway.metrics().sum("moorgate_in_flight", &[]);
    rig::eventually("ten in flight", || (in_flight() > 9.5).then_some(()));
    drop(clients);
    rig::eventually("none in flight", || (in_flight() < 0.5).then_some(()));
    let log = gateway.await_log(10);
    assert!(log.iter().all(|line| line["status"] == 499 && line["error"] == "client_gone"), "{log:?}");
    all.iter().for_each(|origin| origin.release("gone"));
}

#[test]
fn a_line_tells_bytes_times_and_the_connection() {
    let (all, gateway) = three();
    let target = "/obj/1?x=y";
    for origin in &all {
        origin.script([on("/obj/1").delay(60).then(answer(200).body(rig::Body::Size(1000)).into())]);
    }
    gateway.ask(&Ask::new("POST", target).body("12345").header("Host", "Shop.Example:8080"));
    let line = gateway.logged(target);
    assert_eq!(
        (&line["method"], &line["host"], &line["scheme"]),
        (&"POST".into(), &"shop.example".into(), &"http".into())
    );
    assert_eq!((&line["bytes_sent"], &line["bytes_received"], &line["pool"]), (&1000.into(), &5.into(), &"p".into()));
    assert!(line["request_time"].as_f64().is_some_and(|time| (0.06..5.0).contains(&time)), "{line}");
    let attempt = &line["attempts"][0];
    assert!(attempt["response_time"].as_f64().is_some_and(|time| (0.06..5.0).contains(&time)), "{line}");
    assert!(attempt["connect_time"].is_number() && attempt["reused"] == false, "{line}");
    assert_eq!(line["ring"].as_str(), gateway.status()["pools"]["p"]["ring"]["fingerprint"].as_str());
    gateway.get("/obj/1?again");
    gateway.get("/obj/1?third");
    let lines = [gateway.logged("/obj/1?again"), gateway.logged("/obj/1?third")];
    assert!(lines.iter().any(|line| line["attempts"][0]["reused"] == true), "{lines:?}");
}

#[test]
fn an_unknown_method_is_one_label_value() {
    let (_all, gateway) = three();
    for n in 0..5 {
        gateway.ask(&Ask::new(&format!("METHOD{n}"), "/x"));
    }
    let methods = gateway.metrics().values("moorgate_requests_total", "method");
    assert!(methods.len() <= 2 && methods.contains(&"other".to_owned()), "{methods:?}");
}

#[test]
fn series_of_departed_origins_go() {
    let (all, mut gateway) = three();
    rig::map(gateway.address(), &keys(100));
    assert!(gateway.metrics().values("moorgate_attempts_total", "origin").len() == 3);
    let list = format!("[{{ address: \"{}\", name: a }}]", all[0].address);
    gateway.change(&POOL.replace("$origins", &list));
    gateway.get("/x");
    rig::eventually("only a is left", || {
        (gateway.metrics().values("moorgate_attempts_total", "origin") == ["a"]).then_some(())
    });
}

#[test]
fn u7_a_log_that_was_moved_away_is_opened_again_on_usr1() {
    let (_all, gateway) = three();
    assert_eq!(gateway.get("/before").status, 200);
    gateway.logged("/before");
    std::fs::rename(gateway.path("access.log"), gateway.path("access.log.1")).unwrap();
    gateway.signal(nix::sys::signal::Signal::SIGUSR1);
    rig::eventually("a new file", || gateway.path("access.log").exists().then_some(()));
    assert_eq!(gateway.get("/after").status, 200);
    gateway.logged("/after");
    assert!(gateway.log().iter().all(|line| line["uri"] != "/before"));
}

#[test]
fn u7_a_leaving_process_writes_every_line() {
    let (_all, mut gateway) = three();
    rig::map(gateway.address(), &keys(500));
    gateway.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(gateway.exit(), 0);
    assert_eq!(gateway.log().len(), 500);
}

#[test]
fn other_formats_write_what_their_readers_know() {
    let all: Vec<Origin> = ["a", "b"].map(rig::origin).into();
    for (format, pattern) in [
        (
            "upstream",
            r#"^127\.0\.0\.1 \[[^\]]+\] "GET /x\?y HTTP/1\.1" 200 test/x\?y (127\.0\.0\.1:\d+, )?127\.0\.0\.1:\d+ (502, )?200 (\d\.\d{3}, )?\d\.\d{3} \d\.\d{3} -$"#,
        ),
        ("combined", r#"^127\.0\.0\.1 - - \[[^\]]+\] "GET /x\?y HTTP/1\.1" 200 1 "-" "rig"$"#),
        ("\"{method} {host}{uri} {status} {attempts}\"", r"^GET test/x\?y 200 [12]$"),
    ] {
        let gateway = rig::gateway(POOL)
            .process("access_log", &format!("{{ path: $dir/access.log, format: {format} }}"))
            .origins(&all)
            .start();
        assert_eq!(gateway.ask(&Ask::get("/x?y").header("User-Agent", "rig")).status, 200);
        let written = || std::fs::read_to_string(gateway.path("access.log")).ok().filter(|text| text.ends_with('\n'));
        let text = rig::eventually("a line", written);
        assert!(regex::Regex::new(pattern).unwrap().is_match(text.trim_end()), "{format}: {text}");
    }
}

/// Whether the client may send it again is decided by this.
#[test]
fn an_answer_says_whether_an_origin_may_have_seen_the_request() {
    let (a, b) = (rig::origin("a"), rig::origin("b"));
    a.script([on("/reset").then(Step::End(Close::Rst)), on("/cut").then(Step::Hang)]);
    b.door(Door::Refuse);
    let text = "pools:\n  a: { balance: { key: \"{path}\" }, health: { probe: off }, timeouts: { connect: 200ms, read: 400ms }, origins: [ $a ] }\n  \
                b: { balance: { key: \"{path}\" }, health: { probe: off }, origins: [ $b ] }\n\
                routes: [ { match: { hosts: [t], path: { prefix: /b } }, pool: b }, { match: { hosts: [t] }, pool: a } ]\n";
    let gateway = rig::gateway(text).process("threads", "1").origins([&a, &b]).start();
    let mut raw = rig::raw(gateway.address());
    let mut told = |target: &str, host: &str| {
        let sent = raw.try_send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = match sent.and_then(|()| raw.answer_to("GET")) {
            Ok(answer) => answer,
            Err(_closed) => {
                raw = rig::raw(gateway.address());
                raw.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
                raw.answer()
            }
        };
        let details =
            answer.header("proxy-status").unwrap_or_default().rsplit_once("; ").unwrap_or_default().1.to_owned();
        (answer.status, details)
    };
    let (unsent, sent) = ("details=\"sent=0\"".to_owned(), "details=\"sent=1\"".to_owned());
    assert_eq!(told("/b", "t"), (502, unsent.clone()));
    assert_eq!(told("/reset", "t"), (502, sent.clone()));
    assert_eq!(told("/cut", "t"), (504, sent));
    assert_eq!(told("/x", "other"), (404, unsent.clone()));
    // A connection to an origin takes a descriptor, and there is none left.
    assert_eq!(told("/x", "other").0, 404);
    let pid = gateway.pid().to_string();
    let free = (0..).find(|n| std::fs::symlink_metadata(format!("/proc/{pid}/fd/{n}")).is_err()).unwrap();
    let limit = std::process::Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={free}:")]).status();
    assert!(limit.unwrap().success());
    assert_eq!(told("/none/left", "t"), (503, unsent));
    let line = gateway.logged("/none/left");
    assert_eq!(
        (&line["error"], &line["attempts"][0]["outcome"]),
        (&"local_limit".into(), &"local_limit".into()),
        "{line}"
    );
}
