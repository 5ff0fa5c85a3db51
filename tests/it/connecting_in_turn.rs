//! How many connections are being made to one origin at a time? Not more than it may be asked, and everybody's turn comes.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, socket};

use crate::rig::{self, Door, eventually};

/// Connections to `to` that wait for its first packet.
fn being_made(to: SocketAddr) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let remote = format!("0100007F:{:04X}", to.port());
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(2) == Some(&remote.as_str()) && row.get(3) == Some(&"02")).count()
}

#[test]
fn no_more_connections_are_being_made_than_may_be_and_everybody_s_turn_comes() {
    let a = rig::origin("a");
    let text = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins, health: { probe: off }, \
                connections: { max_connecting: 3 }, timeouts: { connect: 9s } } }\n";
    let gateway = rig::gateway(text).origins([&a]).start();
    a.door(Door::Deaf);
    eventually("nobody else connects there", || (being_made(a.address) == 0).then_some(()));
    let address = gateway.address();
    let clients: Vec<_> =
        (0..12).map(|n| std::thread::spawn(move || rig::Client::new(address).get(&format!("/{n}")).status)).collect();
    eventually("three are being made", || (being_made(a.address) == 3).then_some(()));
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        assert!(being_made(a.address) <= 3);
        std::thread::sleep(Duration::from_millis(10));
    }
    a.door(Door::Open);
    for client in clients {
        assert_eq!(client.join().unwrap(), 200);
    }
}

#[test]
fn the_wait_for_a_turn_is_a_part_of_the_connect_time_out() {
    let a = rig::origin("a");
    let text = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins, health: { probe: off }, \
                connections: { max_connecting: 1 }, timeouts: { connect: 700ms } } }\n\
                routes: [ { pool: p, retry: off } ]\n";
    let gateway = rig::gateway(text).origins([&a]).start();
    a.door(Door::Deaf);
    eventually("nobody else connects there", || (being_made(a.address) == 0).then_some(()));
    let (address, start) = (gateway.address(), Instant::now());
    let clients: Vec<_> =
        (0..6).map(|n| std::thread::spawn(move || rig::Client::new(address).get(&format!("/{n}")).status)).collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), 504);
    }
    assert!(start.elapsed() < Duration::from_secs(4), "they waited one after the other: {:?}", start.elapsed());
    assert!(gateway.await_log(6).iter().all(|line| line["error"] == "connect_timeout"));
}

/// An origin of the test's own, whose queue of connections it has not accepted yet is this short.
struct Short {
    address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Short {
    fn new(backlog: i32) -> Self {
        let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(fd.as_raw_fd(), &SockaddrStorage::from(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
        listen(&fd, Backlog::new(backlog).unwrap()).unwrap();
        let listener = TcpListener::from(fd);
        let (address, over) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let ends = Arc::clone(&over);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if ends.load(Relaxed) {
                    return;
                }
                std::thread::spawn(move || serve(client.unwrap()));
            }
        });
        Self { address, over }
    }
}

impl Drop for Short {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        // one more, so that the thread sees it
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(client: TcpStream) {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    while client.read_line(&mut line).is_ok_and(|count| count > 0) {
        if line == "\r\n" && client.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
        line.clear();
    }
}

#[test]
fn a_process_without_connections_does_not_overrun_an_origin_with_a_short_queue() {
    let origin = Short::new(16);
    let text = format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, origins: [ \"{}\" ], connections: {{ max_connecting: 8 }} }} }}\n",
        origin.address
    );
    let gateway = rig::gateway(&text).process("drain", "{ timeout: 1s }").start();
    let load = rig::load(gateway.address()).clients(40).rate(500.0).start();
    load.further(1000);
    // the next process has no connections either
    let upgraded = gateway.upgrade(&[]);
    assert_eq!(upgraded.status.code(), Some(0), "{}", String::from_utf8_lossy(&upgraded.stderr));
    load.further(500);
    load.stop().assert_all_good();
    assert!(gateway.metrics().sum("moorgate_attempts_total", &[("outcome", "connect_timeout")]) < 0.5);
}
