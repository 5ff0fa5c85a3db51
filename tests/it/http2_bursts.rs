//! How many connections does a burst of requests make to an origin of HTTP/2 that has none? As many as it takes.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::rig::{
    Ask, Authority, Body, Client, Close, Door, Gateway, PATIENCE, Secured, Step, Terms, answer, eventually, gateway,
    h2c, h2c_download, mute, on, origin, ports, secured,
};

/// A gateway of one thread before a door with TLS.
fn before(door: &Secured, authority: &Authority) -> Gateway {
    let text = "pools: { p: { origins: [ { address: $door, name: door } ], tls: { sni: o.test, ca: $dir/ca.pem }, protocol: h2, \
                timeouts: { connect: 700ms }, health: { probe: off } } }\n\
                routes: [ { pool: p, retry: off } ]\n";
    gateway(text)
        .named("door", door.address)
        .process("threads", "1")
        .listener("h2c: true")
        .start_with(|folder| fs::write(folder.join("ca.pem"), authority.pem()).unwrap())
}

/// The statuses of so many requests at once.
fn burst(gateway: &Gateway, count: usize) -> Vec<u16> {
    let asks: Vec<Ask> = (0..count).map(|n| Ask::get(&format!("/{n}"))).collect();
    h2c(gateway.address(), &asks).into_iter().map(|answer| answer.unwrap().status).collect()
}

#[test]
fn a_burst_shares_the_connection_that_its_first_request_makes() {
    let authority = Authority::new("ours");
    let a = origin("a");
    let door = secured(a.address, &authority.issue("o.test"), Terms { h2: true, clients_of: None });
    let gateway = before(&door, &authority);
    assert_eq!(burst(&gateway, 30), [200; 30]);
    assert_eq!(door.greetings().len(), 1);
    // As many as fit, and one more for the rest.
    let opened = || gateway.metrics().sum("moorgate_upstream_connections_total", &[("kind", "opened")]);
    assert!((opened() - 1.0).abs() < 0.5, "{}", opened());
}

#[test]
fn a_burst_has_the_failure_of_its_connection_in_common() {
    let authority = Authority::new("ours");
    let a = origin("a");
    let gateway = {
        let text = "pools: { p: { origins: [$a], tls: { sni: o.test, ca: $dir/ca.pem }, protocol: h2, \
                    timeouts: { connect: 700ms }, health: { probe: off } } }\nroutes: [ { pool: p, retry: off } ]\n";
        let gateway = gateway(text).origins([&a]).process("threads", "1").listener("h2c: true");
        gateway.start_with(|folder| fs::write(folder.join("ca.pem"), authority.pem()).unwrap())
    };
    for (door, status) in [(Door::Hang, 504), (Door::Close(Close::Fin), 502), (Door::Refuse, 502)] {
        a.door(door);
        let began = Instant::now();
        assert_eq!(burst(&gateway, 30), [status; 30], "{door:?}");
        assert!(began.elapsed() < Duration::from_millis(2500), "{door:?}: one after the other: {:?}", began.elapsed());
    }
}

#[test]
fn a_connection_that_fails_is_one_failure_of_its_origin_however_many_wait_for_it() {
    let authority = Authority::new("ours");
    let listener: TcpListener = ports::listener().unwrap();
    let text = "pools: { p: { origins: [ { address: $closes, name: it } ], tls: { sni: o.test, ca: $dir/ca.pem }, protocol: h2, \
                timeouts: { connect: 9s, read: 10s }, health: { probe: off } } }\nroutes: [ { pool: p, retry: off } ]\n";
    let gateway = gateway(text)
        .named("closes", listener.local_addr().unwrap())
        .process("threads", "1")
        .listener("h2c: true")
        .start_with(|folder| fs::write(folder.join("ca.pem"), authority.pem()).unwrap());
    std::thread::scope(|scope| {
        let burst = scope.spawn(|| burst(&gateway, 30));
        let held = listener.accept().unwrap().0;
        eventually("all wait", || (gateway.origin("p", "it")["in_flight"] == 30).then_some(()));
        drop(held);
        assert_eq!(burst.join().unwrap(), [502; 30]);
    });
    assert_eq!(gateway.origin("p", "it")["requests"], 1);
    let failed = gateway.metrics().sum("moorgate_attempts_total", &[]);
    assert!((failed - 30.0).abs() < 0.5, "each is counted: {failed}");
}

#[test]
fn those_who_wait_for_a_connection_that_is_late_make_another() {
    let authority = Authority::new("ours");
    let a = origin("a");
    let door = secured(a.address, &authority.issue("o.test"), Terms { h2: true, clients_of: None });
    let relay = mute(door.address);
    relay.meet_with_silence();
    let text = "pools: { p: { origins: [ $relay ], tls: { sni: o.test, ca: $dir/ca.pem }, protocol: h2, \
                timeouts: { connect: 2s }, health: { probe: off } } }\nroutes: [ { pool: p, retry: off } ]\n";
    let gateway = gateway(text)
        .named("relay", relay.address)
        .process("threads", "1")
        .listener("h2c: true")
        .start_with(|folder| fs::write(folder.join("ca.pem"), authority.pem()).unwrap());
    let mut statuses = burst(&gateway, 30);
    statuses.sort_unstable();
    assert_eq!((statuses.pop(), statuses), (Some(504), vec![200; 29]));
    assert_eq!(relay.came(), 2);
}

#[test]
fn a_turn_to_connect_is_over_when_the_handshake_is() {
    let authority = Authority::new("ours");
    let listener: TcpListener = ports::listener().unwrap();
    let address = listener.local_addr().unwrap();
    let text = "pools: { p: { origins: [$silent], tls: { sni: o.test, ca: $dir/ca.pem }, connections: { max_connecting: 2 }, \
                timeouts: { connect: 1s }, health: { probe: off } } }\nroutes: [ { pool: p, retry: off } ]\n";
    let gateway = gateway(text)
        .named("silent", address)
        .start_with(|folder| fs::write(folder.join("ca.pem"), authority.pem()).unwrap());
    let to = gateway.address();
    let clients: Vec<_> =
        (0..6).map(|n| std::thread::spawn(move || Client::new(to).get(&format!("/{n}")).status)).collect();
    let mut held: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
    for stream in &mut held {
        assert_eq!(stream.read(&mut [0]).unwrap(), 1, "the handshake began");
    }
    // Both are silent for as long as they may be, and nobody else knocks meanwhile.
    listener.set_nonblocking(true).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        assert!(listener.accept().is_err(), "a third one");
        std::thread::sleep(Duration::from_millis(10));
    }
    for client in clients {
        assert_eq!(client.join().unwrap(), 504);
    }
    eventually("all are told", || (gateway.await_log(6).len() == 6).then_some(()));
}

/// What a client does not read is held for it, within its stream's window: that of the connection is for all of them.
#[test]
fn nine_that_read_slowly_do_not_keep_a_tenth_of_their_connection_waiting() {
    const SIZE: u64 = 4 << 20;
    let a = origin("a");
    a.script([on("/big/*").then(Step::Answer(answer(200).body(Body::Pattern(SIZE))))]);
    let text = "pools: { p: { origins: [$a], protocol: h2c, health: { probe: off } } }\n";
    let gateway = gateway(text).origins([&a]).process("threads", "1").listener("h2c: true").start();
    let to = gateway.address();
    let (begun, begins) = mpsc::channel();
    let slow: Vec<_> = (0..9)
        .map(|n| {
            let (begun, (go, going)) = (begun.clone(), mpsc::channel::<()>());
            let read = std::thread::spawn(move || {
                h2c_download(to, &format!("/big/{n}"), |_| {
                    let _ = begun.send(());
                    // Waits until nobody is left to say so.
                    let _ = going.recv();
                })
            });
            (go, read)
        })
        .collect();
    for _ in 0..9 {
        begins.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(h2c_download(to, "/big/last", |_| ()), SIZE);
    let connections = a.seen().iter().filter(|connection| !connection.requests.is_empty()).count();
    assert_eq!(connections, 1);
    for (go, read) in slow {
        drop(go);
        assert_eq!(read.join().unwrap(), SIZE);
    }
}
