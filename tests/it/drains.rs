//! How does the process leave? What runs is finished, what is new is told to go elsewhere, and nothing is lost.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::rig::issued::certificate;
use crate::rig::{self, Ask, Body, Client, Framing, Gateway, Origin, Raw, Step, answer, on, tunnel};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";
const CERTIFICATES: &str = "certificates: [ { cert: $dir/a.pem, key: $dir/a.key } ]\n";

fn one(drain: &str) -> (Origin, Gateway) {
    one_with(drain, "")
}

fn one_with(drain: &str, listener: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).process("drain", drain).listener(listener).origins([&a]).start();
    (a, gateway)
}

/// One with a second listener, which speaks TLS.
fn secured(drain: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let start = rig::gateway(&format!("{CERTIFICATES}{POOL}")).process("drain", drain).further_listener("tls: {}");
    let gateway = start.origins([&a]).start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"));
    (a, gateway)
}

fn ready(gateway: &Gateway) -> Option<u16> {
    Client::new(gateway.admin).send(&Ask::get("/readyz")).ok().map(|answer| answer.status)
}

#[test]
fn u5_an_idle_process_leaves_at_once() {
    let (_a, mut gateway) = one("{ lame_duck: 0s, timeout: 10s }");
    let start = Instant::now();
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit(), 0);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn u5_the_command_drains_as_the_signal_does_and_twice_is_no_more() {
    let (a, mut gateway) = one("{ lame_duck: 0s, timeout: 10s }");
    a.script([on("/held").hold("leaving").answer(200)]);
    let address = gateway.address();
    let held = std::thread::spawn(move || Client::new(address).get("/held").status);
    a.await_held("leaving", 1);
    for _ in 0..2 {
        assert_eq!(gateway.command(&["drain"]).status.code(), Some(0));
    }
    rig::eventually("/readyz says it leaves", || (ready(&gateway) == Some(503)).then_some(()));
    a.release("leaving");
    assert_eq!((held.join().unwrap(), gateway.exit()), (200, 0));
}

#[test]
fn u5_a_lame_duck_serves_on_and_says_it_leaves() {
    // A machine that takes the whole of it to ask twice is given more.
    assert!([2500, 10_000, 40_000].into_iter().any(lame_duck), "40 s are not enough to ask twice");
}

/// One that lasts so many milliseconds; false when it was over before it could be asked.
fn lame_duck(lasts: u64) -> bool {
    let (a, mut gateway) = one(&format!("{{ lame_duck: {lasts}ms, timeout: 60s }}"));
    let lasts = Duration::from_millis(lasts);
    a.script([on("/held").hold("leaving").answer(200)]);
    let address = gateway.address();
    assert_eq!(gateway.get("/before").status, 200);
    let held = std::thread::spawn(move || Client::new(address).get("/held"));
    a.await_held("leaving", 1);
    let start = Instant::now();
    gateway.signal(Signal::SIGTERM);
    rig::eventually("/readyz says it leaves", || (ready(&gateway) == Some(503)).then_some(()));
    let lame = Client::new(address).send(&Ask::get("/lame"));
    if start.elapsed() + Duration::from_millis(200) > lasts {
        a.release("leaving");
        return false;
    }
    assert_eq!(lame.unwrap().status, 200);
    let closed = || rig::takes_nobody(address).then_some(());
    assert!(rig::within(lasts + rig::PATIENCE, closed).is_some(), "the listener is not closed");
    assert!(start.elapsed() + Duration::from_millis(100) >= lasts, "{:?}", start.elapsed());
    assert_eq!(ready(&gateway), Some(503));
    a.release("leaving");
    let held = held.join().unwrap();
    assert_eq!((held.status, held.closes()), (200, true), "{held:?}");
    assert_eq!(gateway.exit(), 0);
    let logged: Vec<String> = gateway.log().iter().map(|line| line["uri"].to_string()).collect();
    assert!(logged.iter().any(|uri| uri.contains("/held")), "{logged:?}");
    true
}

#[test]
fn u4_idle_connections_are_told_and_running_requests_cut_only_at_the_time_out() {
    let (a, mut gateway) = one("{ lame_duck: 0s, timeout: 1s }");
    a.script([on("/held").hold("never").answer(200)]);
    let address = gateway.address();
    let mut idle = rig::raw(address);
    idle.send("GET /idle HTTP/1.1\r\nHost: t\r\n\r\n");
    assert!(!idle.answer().closes());
    let held = std::thread::spawn(move || Client::new(address).send(&Ask::get("/held")).map(|answer| answer.status));
    a.await_held("never", 1);
    let start = Instant::now();
    gateway.signal(Signal::SIGTERM);
    rig::eventually("the listener is closed", || rig::takes_nobody(address).then_some(()));
    idle.send("GET /last HTTP/1.1\r\nHost: t\r\n\r\n");
    let last = idle.answer();
    assert_eq!((last.status, last.closes()), (200, true), "{last:?}");
    assert_eq!(gateway.exit(), 0);
    assert!((Duration::from_millis(900)..Duration::from_secs(6)).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert_eq!(held.join().unwrap().unwrap(), 503);
}

/// Whoever is cut is told, as far as an answer has not begun, and stands in the log.
#[test]
fn u4_what_the_time_out_cuts_is_logged() {
    let (a, mut gateway) = one_with("{ lame_duck: 0s, timeout: 1s }", "h2c: true");
    let half = answer(200).body(Body::Size(1000)).framing(Framing::Declared(2000));
    let mut tunnel = websocket(&a, gateway.address(), b"\x82\x0512");
    a.script([
        on("/held").hold("never").answer(200),
        on("/half").then(half.into()).hold("never"),
        on("/deaf").then(answer(200).body(Body::Pattern(64 << 20)).into()),
    ]);
    let address = gateway.address();
    let streams = std::thread::spawn(move || rig::h2c(address, &[Ask::get("/held?2"), Ask::get("/held?3")]));
    let ask = |request: &str| {
        let mut raw = rig::raw(address);
        raw.send(request);
        raw
    };
    let mut held = ask("GET /held?1 HTTP/1.1\r\nHost: t\r\n\r\n");
    let mut cut = ask("GET /half HTTP/1.1\r\nHost: t\r\n\r\n");
    let mut owes = ask("PUT /owes HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n12345");
    let deaf = ask("GET /deaf HTTP/1.1\r\nHost: t\r\n\r\n");
    a.await_held("never", 4);
    ["/owes", "/deaf"].iter().for_each(|path| a.await_requests(path, 1));
    while !cut.line().is_empty() {}
    cut.bytes(1000);
    gateway.signal(Signal::SIGTERM);
    for told in [&mut held, &mut owes] {
        let answer = told.answer();
        let why = answer.header("proxy-status").unwrap().to_owned();
        assert_eq!((answer.status, answer.closes()), (503, true), "{answer:?}");
        assert!(
            why.contains("error=http_response_timeout; details=\"sent=1\"") && answer.text().contains("drain_timeout")
        );
    }
    assert_eq!(cut.rest(), b"");
    assert!(streams.join().unwrap().iter().all(Result::is_err));
    assert_eq!((gateway.exit(), tunnel.rest()), (0, vec![]));
    drop(deaf);
    assert_logged_as_cut(
        &gateway,
        &[
            ("/held?1", 503),
            ("/held?2", 499),
            ("/held?3", 499),
            ("/half", 200),
            ("/owes", 503),
            ("/deaf", 200),
            ("/ws", 101),
        ],
    );
}

fn assert_logged_as_cut(gateway: &Gateway, all: &[(&str, u64)]) {
    for (target, status) in all {
        let line = gateway.logged(target);
        let (error, outcome) = (line["error"].as_str(), line["attempts"][0]["outcome"].as_str());
        assert_eq!((line["status"].as_u64(), error, outcome), (Some(*status), Some("drain_timeout"), error), "{line}");
    }
}

#[test]
fn a_second_term_or_an_int_leaves_now() {
    for second in [Signal::SIGTERM, Signal::SIGINT] {
        let (a, mut gateway) = one("{ lame_duck: 30s, timeout: 30s }");
        a.script([on("/held").hold("never").answer(200)]);
        let address = gateway.address();
        let held = std::thread::spawn(move || Client::new(address).send(&Ask::get("/held")).is_err());
        a.await_held("never", 1);
        gateway.signal(Signal::SIGTERM);
        rig::eventually("it leaves", || (ready(&gateway) == Some(503)).then_some(()));
        let start = Instant::now();
        gateway.signal(second);
        assert_eq!(gateway.exit(), 130);
        assert!(start.elapsed() < Duration::from_secs(5));
        assert!(held.join().unwrap());
    }
}

#[test]
fn p8_nothing_is_lost_when_a_gateway_leaves_under_load() {
    let (_a, mut gateway) = one("{ lame_duck: 1s, timeout: 10s }");
    let address = gateway.address();
    let load = rig::load(address).clients(10).rate(400.0).start();
    load.further(200);
    gateway.signal(Signal::SIGTERM);
    rig::eventually("it leaves", || (ready(&gateway) == Some(503)).then_some(()));
    // What a balancer does: no new connections, those that are open go on.
    let tally = load.stop();
    tally.assert_all_good();
    assert_eq!(gateway.exit(), 0);
}

/// Clients that know nothing of it go on connecting: each is served, or refused before it is told that it is connected.
#[test]
fn p8_whoever_is_connected_when_the_listening_socket_closes_is_served() {
    let (mut refused, mut slowest) = (0, Duration::ZERO);
    for _ in 0..rig::rounds(2) {
        let (_a, mut gateway) = one("{ lame_duck: 0s, timeout: 10s }");
        let load = rig::load(gateway.address()).clients(32).rate(2000.0).fresh_connections().start();
        load.further(500);
        gateway.signal(Signal::SIGTERM);
        assert_eq!(gateway.exit(), 0);
        let tally = load.stop();
        let lost: Vec<_> = tally.failed.iter().filter(|why| !why.contains("refused")).collect();
        assert!(lost.is_empty(), "{} of {} were cut: {:?}", lost.len(), tally.sent(), lost.first());
        assert!(tally.by_status.keys().eq([&200]), "{:?}", tally.by_status);
        (refused, slowest) = (refused + tally.failed.len(), slowest.max(tally.slowest));
    }
    assert!(refused > 0, "they went on until it was closed");
    assert!(slowest > Duration::from_millis(900), "nobody called while it was deaf: {slowest:?}");
}

/// Tells the others that it is over, also when it fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Two gateways, and a balancer that sends each request to one that said it is ready when it was last asked.
#[test]
fn u5_a_balancer_that_asks_readyz_sees_no_error_when_one_of_two_leaves() {
    let (a, mut leaving) = one("{ lame_duck: 4s, timeout: 10s }");
    let staying = rig::gateway(POOL).origins([&a]).start();
    let ends = [(leaving.admin, leaving.address()), (staying.admin, staying.address())];
    let (up, over, sent) = ([AtomicBool::new(true), AtomicBool::new(true)], AtomicBool::new(false), AtomicU64::new(0));
    let further = |count| {
        let from = sent.load(Relaxed);
        rig::eventually("further requests", || (sent.load(Relaxed) >= from + count).then_some(()));
    };
    let balance = |first: usize| {
        let mut turn = first;
        while !over.load(Relaxed) {
            turn += 1;
            let Some(at) = [turn % 2, (turn + 1) % 2].into_iter().find(|at| up[*at].load(Relaxed)) else { continue };
            let answer = Client::new(ends[at].1).send(&Ask::get(&format!("/obj/{turn}")));
            assert!(answer.as_ref().is_ok_and(|answer| answer.status == 200), "gateway {at}: {answer:?}");
            sent.fetch_add(1, Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                for (up, (admin, _)) in up.iter().zip(ends) {
                    up.store(Client::new(admin).send(&Ask::get("/readyz")).is_ok_and(|a| a.status == 200), Relaxed);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let _whatever_happens = Ends(&over);
        let clients = [0, 1, 0, 1].map(|first| scope.spawn(move || balance(first)));
        further(200);
        leaving.signal(Signal::SIGTERM);
        assert_eq!(leaving.exit(), 0);
        further(200);
        over.store(true, Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}

#[test]
fn p8_a_drain_under_load_tells_every_connection_and_cuts_none() {
    let (_a, mut gateway) = secured("{ lame_duck: 500ms, timeout: 10s }");
    let doors = [b"\x08http/1.1".as_slice(), b"\x02h2"].map(|offered| tunnel(gateway.listeners[1], offered));
    let load = |to| rig::load(to).clients(10).rate(100.0).never_reconnecting();
    let loads = [load(gateway.address()), load(doors[0].address), load(doors[1].address).http2()];
    let loads = loads.map(rig::Load::start);
    loads.iter().for_each(|load| load.further(100));
    gateway.signal(Signal::SIGTERM);
    // Whoever was told to close has left; a connection that was cut shows in its client's next request.
    loads.iter().for_each(rig::Running::await_end);
    loads.into_iter().for_each(|load| load.stop().assert_all_good());
    assert_eq!(gateway.exit(), 0);
    for door in doors {
        assert!(door.handshakes().0 > 0);
        door.assert_none_cut();
    }
}

#[test]
fn b26_removing_an_origin_lets_its_answers_finish() {
    let (a, b) = (rig::origin("a"), rig::origin("b"));
    let drip = rig::Body::Drip { piece: "0123456789".to_owned(), every_ms: 20, times: 50 };
    a.script([on("*").then(rig::answer(200).body(drip).into())]);
    let pool = POOL.replace("origins:", "slow_start: off, origins:");
    let mut gateway = rig::gateway(&pool).origins([&a]).start();
    let address = gateway.address();
    let slow = std::thread::spawn(move || Client::new(address).get("/slow"));
    a.await_requests("/slow", 1);
    gateway.change(&pool.replace("$origins", &format!("[{{ address: \"{}\", name: b }}]", b.address)));
    let answer = slow.join().unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 500));
    // It serves until what replaces it is proven.
    gateway.await_state("p", "a", "parked");
    a.forget();
    assert_eq!(gateway.get("/new").origin(), "b");
    assert_eq!(a.served(), 0);
}

/// A WebSocket whose origin sends these bytes and then what it gets.
fn websocket(a: &Origin, to: SocketAddr, sent: &[u8]) -> Raw {
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    a.script([on("/ws").then(Step::Send([switch, sent].concat())).then(Step::Echo)]);
    let mut tunnel = rig::raw(to);
    tunnel.send("GET /ws HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(tunnel.answer().status, 101);
    assert_eq!(tunnel.bytes(sent.len()), sent);
    tunnel
}

#[test]
fn u4_a_websocket_is_told_that_the_gateway_goes_away_at_the_end_of_the_drain() {
    let (a, mut gateway) = secured("{ lame_duck: 0s, timeout: 1s }");
    let door = tunnel(gateway.listeners[1], b"\x08http/1.1");
    let mut tunnels = [gateway.address(), door.address].map(|to| websocket(&a, to, b"\x81\x02hi"));
    let start = Instant::now();
    gateway.signal(Signal::SIGTERM);
    rig::eventually("the listener is closed", || rig::takes_nobody(gateway.address()).then_some(()));
    for tunnel in &mut tunnels {
        tunnel.send(b"\x82\x03abc");
        assert_eq!(tunnel.bytes(5), b"\x82\x03abc", "it goes on until then");
    }
    for mut tunnel in tunnels {
        assert_eq!(tunnel.bytes(4), b"\x88\x02\x03\xe9");
        assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
        // the client's Close is read, so that no reset overtakes ours
        tunnel.send(b"\x88\x82mask\x6e\x88");
        assert_eq!(tunnel.rest(), b"");
    }
    assert_eq!(gateway.exit(), 0);
    door.assert_none_cut();
    assert_eq!(gateway.logged("/ws")["status"], 101);
}

#[test]
fn u4_a_frame_is_not_broken_by_the_farewell() {
    let (a, mut gateway) = one("{ lame_duck: 0s, timeout: 1s }");
    let mut tunnel = websocket(&a, gateway.address(), b"\x82\x0512");
    gateway.signal(Signal::SIGTERM);
    assert_eq!(tunnel.rest(), b"", "in the middle of a frame there is no place for ours");
    assert_eq!(gateway.exit(), 0);
}
