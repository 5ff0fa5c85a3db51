//! How are connections to origins made, kept and given up?

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;

use crate::rig::{self, Gateway, Origin, keys, on};

fn one(connections: &str) -> (Origin, Gateway) {
    speaking("http1", connections)
}

fn speaking(protocol: &str, connections: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let gateway = rig::gateway(&text(protocol, connections)).process("threads", "1").origins([&a]).start();
    (a, gateway)
}

fn text(protocol: &str, connections: &str) -> String {
    format!(
        "pools: {{ p: {{ protocol: {protocol}, balance: {{ key: \"{{path}}\" }}, health: {{ probe: off }}, \
         connections: {{ {connections} }}, origins: $origins }} }}\n"
    )
}

/// Requests by connection, as the origin saw them.
fn served(origin: &Origin) -> Vec<usize> {
    origin.seen().iter().map(|connection| connection.requests.len()).collect()
}

#[test]
fn a_connection_is_kept_and_used_again() {
    let (a, gateway) = one("keepalive_timeout: 30s");
    keys(50).iter().for_each(|key| assert_eq!(gateway.get(key).status, 200));
    assert_eq!(served(&a), [50]);
    let kinds = |kind| gateway.metrics().sum("moorgate_upstream_connections_total", &[("kind", kind)]);
    assert!((kinds("opened") - 1.0).abs() < 0.5 && (kinds("reused") - 49.0).abs() < 0.5);
}

#[test]
fn a_connection_serves_so_many_requests_at_most() {
    for protocol in ["http1", "h2c"] {
        let (a, gateway) = speaking(protocol, "max_requests: 10");
        keys(50).iter().for_each(|key| assert_eq!(gateway.get(key).status, 200));
        assert_eq!(served(&a), [10; 5], "{protocol}");
    }
}

#[test]
fn an_idle_connection_is_given_up_in_time() {
    let (a, gateway) = one("keepalive_timeout: 100ms");
    assert_eq!(gateway.get("/x").status, 200);
    rig::eventually("it is closed", || (a.counts().open == 0).then_some(()));
    assert_eq!(gateway.get("/y").status, 200);
    assert_eq!(served(&a), [1, 1]);
}

#[test]
fn an_old_connection_takes_no_further_request() {
    for protocol in ["http1", "h2c"] {
        let (a, gateway) = speaking(protocol, "max_age: 200ms");
        let start = std::time::Instant::now();
        while start.elapsed() < std::time::Duration::from_millis(900) {
            assert_eq!(gateway.get("/x").status, 200);
        }
        assert!(served(&a).len() >= 3, "{protocol}: {:?}", served(&a));
        assert!(served(&a).iter().any(|requests| *requests > 1), "{protocol}: {:?}", served(&a));
    }
}

#[test]
fn an_origin_can_be_a_name_or_a_unix_socket() {
    let a = rig::origin("a");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("origin.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).is_ok_and(|n| n > 2) {
                line.clear();
            }
            let _ = stream
                .get_mut()
                .write_all(b"HTTP/1.1 200 OK\r\nx-origin: unix\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let text = format!(
        "pools:\n  name: {{ balance: {{ key: \"{{path}}\" }}, origins: [\"localhost:{}\"] }}\n  \
         unix: {{ balance: {{ key: \"{{path}}\" }}, origins: [\"unix:{}\"] }}\n\
         routes:\n  - {{ match: {{ path: {{ prefix: /unix }} }}, pool: unix }}\n  - {{ pool: name }}\n",
        a.address.port(),
        path.display()
    );
    let gateway = rig::gateway(&text).start();
    rig::eventually("the name is resolved", || (gateway.get("/x").origin() == "a").then_some(()));
    let answer = gateway.get("/unix");
    assert_eq!((answer.status, answer.origin()), (200, "unix"));
}

#[test]
fn a_removed_origin_s_connections_are_given_up() {
    let (a, mut gateway) = one("keepalive_timeout: 300ms");
    let b = rig::origin("b");
    assert_eq!(gateway.get("/x").status, 200);
    gateway.change(&format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, health: {{ probe: off }}, origins: [{{ address: \"{}\", name: b }}] }} }}\n",
        b.address
    ));
    rig::eventually("a is left alone", || (a.counts().open == 0).then_some(()));
    assert_eq!(gateway.get("/x").origin(), "b");
}

/// The warning names the origin, what it announces and what to set; once, whatever comes after.
#[test]
fn an_origin_that_closes_idle_connections_first_is_named_once() {
    let (a, mut gateway) = one("keepalive_timeout: 5s");
    let says = |said: &str| rig::answer(200).header("keep-alive", said).into();
    a.script([
        on("/long*").then(says("timeout=6, max=100")),
        on("/short*").then(says("timeout=5")),
        on("/*").then(says("max=100")),
    ]);
    let warnings = |gateway: &Gateway| -> Vec<String> {
        let output = gateway.output();
        output.lines().filter(|line| line.contains("(its Keep-Alive)")).map(str::to_owned).collect()
    };
    for target in ["/", "/long", "/long/2"] {
        assert_eq!(gateway.get(target).status, 200);
    }
    assert_eq!(warnings(&gateway), [""; 0]);
    for n in 0..20 {
        assert_eq!(gateway.get(&format!("/short/{n}")).status, 200);
    }
    // a reload keeps what is known of an origin
    gateway.change(&text("http1", "keepalive_timeout: 7s"));
    assert_eq!(gateway.get("/short").status, 200);
    let told = warnings(&gateway);
    let parts =
        ["WARN", "pool p: origin a ", "after 5s", "keepalive_timeout is 5s", "connections.keepalive_timeout to 4s"];
    assert!(told.len() == 1 && parts.iter().all(|part| told[0].contains(part)), "{told:?}");
}
