//! WebSocket by a library that people use, on both sides (`websocket.py`): what it says comes through, and a tunnel ends
//! when and as its ends do.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::rig::{self, Authority, Gateway, Process, Step, on};

/// A server of the library's.
struct Server {
    process: Process,
    address: SocketAddr,
    /// What is printed is in it.
    folder: TempDir,
}

fn python(arguments: &[&str]) -> Command {
    // Debian's own has the modules that its packages bring
    let own = ["/usr/bin/python3", "python3"].into_iter().find(|program| {
        let found = Command::new(program).args(["-c", "import websockets"]).stderr(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    });
    let mut command = Command::new(own.expect("missing: python3-websockets; on Debian: sudo .ci/needs websockets"));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/websocket.py")).args(arguments);
    command
}

fn server() -> Server {
    let folder = TempDir::new().unwrap();
    let output = folder.path().join("output");
    let file = std::fs::File::create(&output).unwrap();
    let mut command = python(&["serve"]);
    command.stdin(Stdio::piped()).stdout(file);
    let process = Process::start("websocket server", &mut command, &output);
    let port = rig::eventually("it listens", || {
        let text = std::fs::read_to_string(&output).ok()?;
        text.lines().next().filter(|_| text.contains('\n'))?.parse().ok()
    });
    Server { process, address: SocketAddr::from(([127, 0, 0, 1], port)), folder }
}

impl Server {
    /// How the connections for this path ended: codes and reasons.
    fn ended(&self, path: &str) -> Vec<String> {
        let text = self.process.output();
        let lines = text.lines().filter_map(|line| line.strip_prefix(path)?.strip_prefix(' '));
        lines.map(|line| line.trim().to_owned()).collect()
    }
}

fn start(process: (&str, &str)) -> (Server, Gateway) {
    let server = server();
    let gateway = towards(&server, process, "1h");
    (server, gateway)
}

/// A gateway whose tunnels may be silent for `stream`.
fn towards(server: &Server, process: (&str, &str), stream: &str) -> Gateway {
    let text = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins, \
                timeouts: { connect: 1s, read: 2s, stream: $stream } } }\n";
    let text = text.replace("$stream", stream);
    rig::gateway(&text).process(process.0, process.1).named("ws", server.address).start()
}

/// Starts a client.
fn client(name: &str, (server, gateway): (&Server, &Gateway), more: &[&str]) -> Process {
    let mut command = python(&[&[name, &gateway.address().to_string()][..], more].concat());
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    Process::start(&format!("client {name}"), &mut command, &server.folder.path().join(name))
}

fn finish(name: &str, mut client: Process, limit: Duration) {
    let status = client.wait(limit);
    assert!(status.is_some_and(|status| status.success()), "{name}: {status:?}: {}", client.output());
}

#[test]
fn clients_of_a_library_talk_through_the_gateway() {
    let (server, gateway) = start(("threads", "2"));
    let impatient = towards(&server, ("threads", "1"), "3s");
    let names = [("talk", &gateway), ("close", &gateway), ("refused", &gateway), ("idle", &impatient)];
    let clients = names.map(|(name, gateway)| (name, client(name, (&server, gateway), &[])));
    for (name, client) in clients {
        finish(name, client, rig::PATIENCE);
    }
    // the codes of either side reach the other
    for code in [1000, 1001, 1008, 1011, 3000, 4999] {
        rig::eventually("both ends are told", || {
            let theirs = server.ended(&format!("/close/{code}")) == [format!("{code} as asked")];
            let ours = server.ended(&format!("/echo?{code}")) == [format!("{code} mine")];
            (theirs && ours).then_some(())
        });
    }
    // cut for its silence: nobody said goodbye
    rig::eventually("the silent one is cut", || server.ended("/echo").contains(&"1006".to_owned()).then_some(()));
    rig::eventually("all are over", || (gateway.metrics().sum("moorgate_in_flight", &[]) < 0.5).then_some(()));
}

/// <https://github.com/cloudflare/pingora/issues/946>; `make soak-websockets` does it ten thousand times.
#[test]
fn no_upgrade_of_many_ends_early() {
    let (server, gateway) = start(("threads", "2"));
    let count = 1000 * rig::rounds(1);
    finish("many", client("many", (&server, &gateway), &[&count.to_string()]), rig::PATIENCE * 6);
    rig::eventually("each had a clean end", || (server.ended("/echo") == vec!["1000"; count]).then_some(()));
    let log = gateway.await_log(count);
    assert!(log.iter().all(|line| line["status"] == 101 && line["error"].is_null()), "{:?}", log.last());
}

/// A switch is asked for in HTTP/1.1, also where an origin is spoken to in HTTP/2 otherwise; and on a connection that was to
/// serve its last request.
#[test]
fn origins_behind_tls_and_of_http_2_are_talked_to_as_others_are() {
    let server = server();
    let ours = Authority::new("ours");
    let door = rig::secured(server.address, &ours.issue("o.test"), rig::Terms { h2: true, clients_of: None });
    let pool = "health: { probe: off }, timeouts: { connect: 1s, read: 2s }, connections: { max_requests: 1 }";
    let tls = "origins: [$door], tls: { sni: o.test, ca: $dir/ca.pem }";
    let text = format!(
        "pools:\n  plain: {{ origins: [$ws], {pool} }}\n  secure: {{ {tls}, {pool} }}\n  two: {{ {tls}, protocol: h2, {pool} }}\n  \
         clear: {{ origins: [$ws], protocol: h2c, {pool} }}\nroutes:\n"
    );
    let route =
        |(n, pool): (usize, &str)| format!("  - {{ match: {{ listeners: [\"$listener{n}\"] }}, pool: {pool} }}\n");
    let routes: String = ["plain", "secure", "two", "clear"].into_iter().enumerate().map(route).collect();
    let mut gateway = rig::gateway(&(text + &routes)).named("ws", server.address).named("door", door.address);
    for _ in 0..3 {
        gateway = gateway.further_listener("");
    }
    let gateway = gateway.start_with(|folder| std::fs::write(folder.join("ca.pem"), ours.pem()).unwrap());
    let talk = |(n, to): (usize, &SocketAddr)| {
        let mut command = python(&["talk", &to.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Process::start(&format!("client {n}"), &mut command, &server.folder.path().join(n.to_string()))
    };
    let clients: Vec<Process> = gateway.listeners.iter().enumerate().map(talk).collect();
    for client in clients {
        finish("talk", client, rig::PATIENCE);
    }
    assert_eq!(server.ended("/ping").len(), 4, "{}", server.process.output());
    let greetings = door.greetings();
    assert!(greetings.len() == 8 && greetings.iter().all(|greeting| !greeting.h2), "{greetings:?}");
}

/// Some clients say something before they know that the origin switches. It is theirs to hear if it does, and a request of
/// its own if it does not.
#[test]
fn what_is_said_ahead_of_the_switch_waits_for_it() {
    let a = rig::origin("a");
    let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec();
    a.script([on("/ws").hold("switch").then(Step::Send(switch)).then(Step::Echo)]);
    let text = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n";
    let gateway = rig::gateway(text).origins([&a]).start();
    let ask =
        |target: &str| format!("GET {target} HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    let mut early = rig::raw(gateway.address());
    early.send(format!("{}hello", ask("/ws")));
    a.await_held("switch", 1);
    early.send(" there");
    a.release("switch");
    assert_eq!(early.answer().status, 101);
    assert_eq!(early.bytes(11), b"hello there");
    let mut plain = rig::raw(gateway.address());
    plain.send(format!("{}GET /next HTTP/1.1\r\nHost: t\r\n\r\n", ask("/plain")));
    assert_eq!((plain.answer().status, plain.answer().status), (200, 200));
    let lines: Vec<String> = a.requests().into_iter().map(|request| request.line).collect();
    assert_eq!(lines, ["GET /ws HTTP/1.1", "GET /plain HTTP/1.1", "GET /next HTTP/1.1"]);
}

/// The lame duck serves tunnels as before, the drain lets them go on, and at its end both sides are told.
#[test]
fn u4_a_tunnel_is_told_at_the_end_of_the_drain_and_not_before() {
    let (server, mut gateway) = start(("drain", "{ lame_duck: 300ms, timeout: 700ms }"));
    let mut client = client("stay", (&server, &gateway), &[]);
    let mut lines = BufReader::new(client.child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(lines.next().as_deref(), Some("there"));
    let begun = std::time::Instant::now();
    gateway.signal(Signal::SIGTERM);
    assert_eq!(lines.next().as_deref(), Some("1001"));
    assert!(begun.elapsed() >= Duration::from_millis(600), "after {:?}", begun.elapsed());
    assert_eq!(gateway.exit(), 0);
    finish("stay", client, rig::PATIENCE);
    rig::eventually("the server's side is over", || (!server.ended("/echo?stay").is_empty()).then_some(()));
}
