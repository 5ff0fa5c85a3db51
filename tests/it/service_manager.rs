//! What does a service manager such as systemd see? Its sockets are taken, and it hears when the gateway is ready,
//! reloads and leaves.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::rig::{self, Gateway, PATIENCE, Way};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";

/// A socket a gateway tells what it does.
struct Manager {
    socket: UnixDatagram,
    folder: TempDir,
}

impl Manager {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, folder }
    }

    /// The next thing it is told.
    fn hears(&self) -> String {
        let mut text = [0; 1000];
        let length = self.socket.recv(&mut text).expect("the manager is told something");
        String::from_utf8(text[..length].to_vec()).unwrap()
    }
}

#[test]
fn u9_clients_wait_in_an_activated_socket_while_no_process_is_there() {
    let a = rig::origin("a");
    let mut gateway = rig::gateway(POOL).origins([&a]).started_by(Way::Activated).start();
    assert_eq!(gateway.get("/x").status, 200);
    assert!(!gateway.output().contains("closed"), "{}", gateway.output());
    gateway.kill();
    let mut waiting = rig::raw(gateway.address());
    waiting.send("GET /waited HTTP/1.1\r\nHost: t\r\n\r\n");
    gateway.start_again();
    assert_eq!(waiting.answer().status, 200);
}

#[test]
fn u9_a_leaving_process_leaves_its_activated_socket_to_the_next() {
    let a = rig::origin("a");
    let mut gateway = rig::gateway(POOL).origins([&a]).started_by(Way::Activated).start();
    assert_eq!(gateway.get("/x").status, 200);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit(), 0);
    let mut waiting = rig::raw(gateway.address());
    waiting.send("GET /waited HTTP/1.1\r\nHost: t\r\n\r\n");
    gateway.start_again();
    assert_eq!(waiting.answer().status, 200);
}

#[test]
fn u9_a_socket_that_cannot_be_accepted_from_is_refused_by_name() {
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut command = rig::activated(env!("CARGO_BIN_EXE_moorgate"), udp.into());
    let ended = command.args(["run", "--listen", "127.0.0.1:0", "--origin", "127.0.0.1:9"]).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(told.contains("socket 3 (clients), which was handed over, is a socket of datagrams"), "{told}");
}

#[test]
fn u9_the_service_manager_hears_when_it_is_ready_reloads_and_leaves() {
    let (a, manager) = (rig::origin("a"), Manager::new());
    let path = manager.folder.path().join("notify");
    let mut gateway = rig::gateway(POOL).origins([&a]).environment("NOTIFY_SOCKET", path).start();
    assert_eq!(manager.hears(), "READY=1\nSTATUS=serving");
    let file = gateway.path("moorgate.yaml");
    let good = fs::read_to_string(&file).unwrap();
    for (text, how) in [(good.clone(), "unchanged"), ("version: 2".into(), "refused"), (good + "\n", "applied")] {
        fs::write(&file, text).unwrap();
        gateway.signal(Signal::SIGHUP);
        let began = manager.hears();
        let stamp = began.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap_or_else(|| panic!("{began}"));
        assert!(stamp.parse::<u64>().is_ok(), "{began}");
        assert_eq!(manager.hears(), format!("READY=1\nSTATUS=serving; last reload: {how}"));
    }
    gateway.signal(Signal::SIGTERM);
    assert_eq!(manager.hears(), "STOPPING=1\nSTATUS=draining");
    assert_eq!(gateway.exit(), 0);
}

/// The first round of probes takes as long as its slowest one: an origin that accepts and says nothing.
#[test]
fn u9_nothing_is_said_of_ready_before_it_is() {
    let (silent, manager) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), Manager::new());
    let text = format!(
        "pools: {{ p: {{ origins: [\"{}\"], health: {{ probe: {{ timeout: 700ms, http: {{ path: / }} }} }} }} }}\n",
        silent.local_addr().unwrap()
    );
    let path = manager.folder.path().join("notify");
    let ready = |gateway: &Gateway| gateway.admin("GET", "/readyz").status;
    let early = |_| {
        manager.socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        manager.socket.recv(&mut [0; 1000]).is_ok()
    };
    let (gateway, early) = rig::gateway(&text).environment("NOTIFY_SOCKET", path).start_and(early);
    assert!(!early, "told within 300 ms, the probe taking 700");
    manager.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!((manager.hears(), ready(&gateway)), ("READY=1\nSTATUS=serving".to_owned(), 200));
}
