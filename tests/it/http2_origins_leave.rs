//! What becomes of requests on a connection to an origin of HTTP/2 that the origin leaves, in good order or without a word?

use std::time::Duration;

use crate::rig::frames::{RST_STREAM, Words, frame};
use crate::rig::{self, Ask, Step, gateway, h2c, h2c_given_up, mute, nginx_h2c, on, origin};

fn call(target: &str) -> Ask {
    let ask = Ask::new("POST", target).header("content-type", "application/grpc").header("te", "trailers");
    ask.body(vec![0; 5])
}

#[test]
fn an_origin_that_ends_its_connections_with_the_tenth_call_fails_none_of_eighty() {
    let nginx = nginx_h2c("", "keepalive_requests 10; location / { add_header x-origin nginx; return 200 ok; }");
    let text =
        "pools: { p: { origins: [$nginx], protocol: h2c, balance: { algorithm: p2c }, health: { probe: off } } }\n";
    let gateway = gateway(text).named("nginx", nginx.address).process("threads", "1").listener("h2c: true").start();
    let asks: Vec<Ask> = (0..80).map(|n| call(&format!("/t.T/{n}"))).collect();
    let came = |answers: Vec<Result<rig::Answer, String>>| {
        answers
            .into_iter()
            .filter(|answer| answer.as_ref().is_ok_and(|answer| answer.header("x-origin") == Some("nginx")))
            .count()
    };
    assert_eq!(came(h2c(gateway.address(), &asks)), 80, "all at once");
    let later: usize = asks.iter().map(|ask| came(h2c(gateway.address(), std::slice::from_ref(ask)))).sum();
    assert_eq!(later, 80, "one after the other");
    assert!(gateway.await_log(160).iter().all(|line| line["error"].is_null()));
}

/// GOAWAY for the first stream of a connection (RFC 9113, section 6.8).
#[test]
fn a_post_that_was_not_processed_is_sent_again() {
    let a = origin("a");
    a.script([
        on("/left").times(3).then(Step::Send(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec())).then(Step::Hang),
        on("/always").then(Step::Send(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec())).then(Step::Hang),
    ]);
    let text =
        "pools: { p: { protocol: h2c, balance: { key: \"{path}\" }, origins: $origins, health: { probe: off } } }\n";
    // One that has no connections: what is said is of the first stream on each.
    let fresh = || gateway(text).origins([&a]).process("threads", "1").start();
    let gateway = fresh();
    let answer = gateway.ask(&Ask::new("POST", "/left").body("abc"));
    assert_eq!((answer.status, answer.origin()), (200, "a"));
    let tries = gateway.logged("/left")["attempts"].as_array().unwrap().clone();
    let outcomes: Vec<_> = tries.iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["stale", "stale", "stale", "ok"]);
    let answer = fresh().ask(&Ask::new("POST", "/always").body("abc"));
    assert_eq!(answer.status, 502);
    let tries = a.requests().iter().filter(|request| request.line.contains("/always")).count();
    assert_eq!(tries, 4, "two are free, and one is what the policy allows");
}

/// REFUSED_STREAM (RFC 9113, section 8.7) is of this one: the connection is kept, and one repeat is free.
#[test]
fn an_origin_that_refuses_calls_keeps_its_connection_and_is_not_pressed() {
    let origin = rig::frames();
    let text = "pools: { p: { origins: [$it], protocol: h2c, balance: { algorithm: p2c }, health: { probe: off } } }\n";
    let gateway = gateway(text).named("it", origin.address).process("threads", "1").listener("h2c: true").start();
    let refuses = |always| {
        origin.answers(Words { bytes: frame(RST_STREAM, 0, 0, &7u32.to_be_bytes()), always, ..Words::default() })
    };
    let failed = |target: &str| {
        assert!(h2c(gateway.address(), &[call(target)])[0].is_ok());
        let tries = gateway.logged(target)["attempts"].as_array().unwrap().clone();
        tries.iter().filter(|one| one["outcome"] == "stale").count()
    };
    refuses(false);
    assert_eq!((failed("/t.T/1"), origin.take()), (1, vec![(0, 1), (0, 3)]));
    refuses(true);
    assert_eq!(
        (failed("/t.T/2"), origin.take()),
        (3, vec![(0, 5), (0, 7), (1, 1)]),
        "the last is what the policy allows"
    );
}

/// Connections to `to` that the kernel asks after while they are silent.
fn asked_after(to: std::net::SocketAddr) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!("0100007F:{:04X}", to.port());
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(2) == Some(&&*remote) && row[3] == "01" && row[5].starts_with("02:")).count()
}

#[test]
fn a_connection_nobody_is_at_the_other_end_of_gets_no_further_call() {
    let a = origin("a");
    let relay = mute(a.address);
    let text = "pools: { p: { origins: [$relay], protocol: h2c, balance: { algorithm: p2c }, \
                timeouts: { connect: 300ms, read: 1s }, health: { probe: off } } }\n";
    let gateway = gateway(text).named("relay", relay.address).process("threads", "1").listener("h2c: true").start();
    let first = h2c(gateway.address(), &[call("/t.T/1")]).remove(0).unwrap();
    rig::eventually("it is asked after", || (asked_after(relay.address) == 1).then_some(()));
    assert_eq!((first.origin(), relay.fall_silent()), ("a", 1));
    // Its own client gives it up, as clients of gRPC do at their deadline; the next one goes another way.
    let asks = [(call("/t.T/2"), Duration::from_millis(1100)), (call("/t.T/3"), rig::PATIENCE)];
    let [lost, next] = &h2c_given_up(gateway.address(), &asks)[..] else { panic!("two") };
    assert!(lost.is_none());
    assert_eq!((next.as_ref().map(rig::Answer::origin), relay.came()), (Some("a"), 2));
}

/// Neither that of a stream that waits for its first message, as a watch does, nor of a request whose route gives it time,
/// nor of one that is given up soon.
#[test]
fn the_silence_of_one_leaves_its_connection_to_the_others() {
    let a = origin("a");
    a.script(["/t.T/Watch", "/slow"].map(|target| on(target).then(Step::Hang)));
    let text = "pools: { p: { origins: [$a], protocol: h2c, balance: { algorithm: p2c }, timeouts: { connect: 300ms, read: 500ms }, health: { probe: off } } }\n\
                routes: [ { match: { hosts: [slow.test] }, pool: p, timeouts: { read: 20s }, retry: off }, { pool: p, retry: off } ]\n";
    let gateway = gateway(text).origins([&a]).process("threads", "1").listener("h2c: true").start();
    let to = gateway.address();
    assert!(h2c(to, &[Ask::get("/1")])[0].is_ok());
    for silent in [call("/t.T/Watch"), Ask::get("/slow").header("host", "slow.test")] {
        let waiting = std::thread::spawn(move || h2c_given_up(to, &[(silent, Duration::from_millis(1500))]));
        rig::eventually("it waits", || (gateway.metrics().sum("moorgate_in_flight", &[]) > 0.5).then_some(()));
        std::thread::sleep(Duration::from_millis(700));
        assert!(h2c(to, &[Ask::get("/2")])[0].is_ok());
        assert!(waiting.join().unwrap()[0].is_none());
    }
    assert!(h2c(to, &[Ask::get("/3")])[0].is_ok());
    let served: Vec<usize> = a.seen().iter().map(|c| c.requests.len()).filter(|count| *count > 0).collect();
    assert_eq!(served, [6], "on one connection");
}

#[test]
fn a_call_that_is_given_up_leaves_its_connection_to_the_others() {
    let a = origin("a");
    a.script([on("/t.T/Hang").then(Step::Hang)]);
    let text = "pools: { p: { origins: [$a], protocol: h2c, balance: { algorithm: p2c }, health: { probe: off } } }\n";
    let gateway = gateway(text).origins([&a]).process("threads", "1").listener("h2c: true").start();
    let late = (call("/t.T/Hang").header("grpc-timeout", "300m"), Duration::from_millis(350));
    // Less than `read`, in which an origin may answer.
    let later = (call("/t.T/Hang"), Duration::from_millis(1200));
    let asks = [(call("/t.T/1"), rig::PATIENCE), late, later, (call("/t.T/2"), rig::PATIENCE)];
    let [first, hang, long, last] = &h2c_given_up(gateway.address(), &asks)[..] else { panic!("four") };
    assert!(first.is_some() && hang.is_none() && long.is_none() && last.is_some());
    let served: Vec<usize> = a.seen().iter().map(|c| c.requests.len()).filter(|count| *count > 0).collect();
    assert_eq!(served, [4], "on one connection");
}
