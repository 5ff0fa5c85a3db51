//! Is what is counted and limited one for the whole process, however many threads serve it?

use std::thread;

use crate::rig::{self, Ask, Gateway, Origin, on};

/// Connections are dealt to the thread with the fewest: so many kept ones are on every one of them.
const THREADS: usize = 4;

fn two(text: &str) -> (Vec<Origin>, Gateway) {
    let all: Vec<Origin> = ["a", "b"].map(rig::origin).into();
    let gateway = rig::gateway(text).process("threads", "4").listener("h2c: true").origins(&all).start();
    (all, gateway)
}

#[test]
fn a_retry_budget_is_shared_by_all_threads() {
    let text = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, retry_budget: { ratio: 0%, floor: 10/s }, \
                origins: $origins } }\nroutes: [ { pool: p, retry: { tries: 2, safe: [5xx], within: 10s } } ]\n";
    let start = std::time::Instant::now();
    let (all, gateway) = two(text);
    all.iter().for_each(|origin| origin.script([on("*").answer(503)]));
    let mut clients: Vec<_> = (0..2 * THREADS).map(|_| gateway.client()).collect();
    let sent = 400;
    for n in 0..sent {
        assert_eq!(clients[n % (2 * THREADS)].get(&format!("/obj/{n}")).status, 503);
    }
    // It began with one second of floor; four buckets would have four times as much.
    let most = 10.0 * (start.elapsed().as_secs_f64() + 1.0) + 1.0;
    let retries = all.iter().map(Origin::served).sum::<u64>() - sent as u64;
    assert!(retries >= 10 && retries as f64 <= most, "{retries} retries, at most {most}");
    assert!(gateway.metrics().sum("moorgate_retries_suppressed_total", &[("reason", "budget")]) > 0.5);
}

#[test]
fn requests_in_flight_on_one_thread_are_seen_by_the_others() {
    let text = "pools: { p: { balance: { key: \"{arg:id}\" }, health: { probe: off }, origins: $origins } }\n";
    let (all, gateway) = two(text);
    let owner = |id: u32| gateway.get(&format!("/find?id={id}")).origin().to_owned();
    let mine = (0..).find(|id| owner(*id) == "a").unwrap();
    all.iter()
        .for_each(|origin| origin.script([on("/held").hold("all").answer(200), on("/spread").hold("all").answer(200)]));
    let address = gateway.address();
    // Twenty on one connection, so on one thread, all with a key that is a's.
    let asks: Vec<Ask> = (0..20).map(|_| Ask::get(&format!("/held?id={mine}"))).collect();
    let keyed = thread::spawn(move || rig::h2c(address, &asks));
    all[0].await_held("all", 20);
    // Without a key the less busy of the two has to take them, whichever thread they come in on.
    let mut spread = Vec::new();
    for n in 1..=16 {
        let mut raw = rig::raw(address);
        raw.send("GET /spread HTTP/1.1\r\nHost: t\r\n\r\n");
        all[1].await_held("all", n);
        spread.push(raw);
    }
    let in_flight = |name: &str| gateway.origin("p", name)["in_flight"].as_u64().unwrap();
    assert_eq!((in_flight("a"), in_flight("b")), (20, 16));
    all.iter().for_each(|origin| origin.release("all"));
    assert!(spread.iter_mut().all(|raw| raw.answer().status == 200));
    assert!(keyed.join().unwrap().iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.status == 200)));
    rig::eventually("none is in flight", || (in_flight("a") + in_flight("b") == 0).then_some(()));
}

#[test]
fn a_limit_of_connections_is_that_of_all_threads_together() {
    let a = rig::origin("a");
    let text = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";
    let gateway = rig::gateway(text).process("threads", "4").process("max_connections", "6").origins([&a]).start();
    let mut kept: Vec<_> = (0..6).map(|_| gateway.client()).collect();
    assert!(kept.iter_mut().all(|client| client.get("/kept").status == 200));
    for _ in 0..6 {
        assert_eq!(rig::raw(gateway.address()).rest(), b"");
    }
    let rejected = gateway.metrics().sum("moorgate_connections_rejected_total", &[("reason", "max_connections")]);
    assert!((rejected - 6.0).abs() < 0.5, "{rejected}");
    assert!(kept.iter_mut().all(|client| client.get("/kept").status == 200));
}

#[test]
fn connections_are_dealt_to_all_threads() {
    let a = rig::origin("a");
    // Each thread has its own connections to origins: so many of them serve requests one after the other.
    let text = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n";
    let gateway = rig::gateway(text).process("threads", "4").origins([&a]).start();
    let mut clients: Vec<_> = (0..THREADS).map(|_| gateway.client()).collect();
    for _ in 0..5 {
        assert!(clients.iter_mut().all(|client| client.get("/x").status == 200));
    }
    assert_eq!(a.counts().connections, THREADS as u64);
}
