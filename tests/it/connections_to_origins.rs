//! How are connections to origins made, kept and given up?

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use crate::rig::{self, Amount, Gateway, Origin, Step, keys, on};

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

/// Requests of every kind share connections: without a body, with one of known length, and in chunks.
#[test]
fn uploads_and_downloads_share_connections() {
    let (a, gateway) = one("keepalive_timeout: 30s");
    a.script([on("*").then(Step::Read(Amount::All)).answer(200)]);
    let mut client = rig::raw(gateway.address());
    for n in 0..5 {
        let size = [1, 3, 17, 4096, 70_000][n];
        let piece = "5\r\n".repeat(size).split_at(size).0.to_owned();
        client.send(format!("GET /{n} HTTP/1.1\r\nHost: t\r\n\r\n"));
        assert_eq!(client.answer().status, 200);
        client.send(format!("PUT /{n} HTTP/1.1\r\nHost: t\r\nContent-Length: {size}\r\n\r\n{piece}"));
        assert_eq!(client.answer().status, 200);
        let chunks = format!("{size:x}\r\n{piece}\r\n").repeat(3);
        client.send(format!("PUT /{n} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"));
        assert_eq!(client.answer().status, 200);
        let seen: Vec<u64> = a.requests().iter().rev().take(3).map(|request| request.body_bytes).collect();
        assert_eq!(seen, [3 * size as u64, size as u64, 0]);
    }
    assert_eq!(served(&a), [15]);
}

/// Each part of a body that came is with the origin before the next is sent, however it is framed and whatever it looks like.
#[test]
fn a_part_of_an_upload_does_not_wait_for_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, health: {{ probe: off }}, origins: [\"{}\"] }} }}\n",
        listener.local_addr().unwrap()
    );
    let gateway = rig::gateway(&text).start();
    let parts = ["5\r\n", "hello", "\r\n", "0\r\n"];
    for (framing, frame) in [
        ("Content-Length: 13", (|part| part) as fn(String) -> String),
        ("Transfer-Encoding: chunked", |part| format!("{:X}\r\n{part}\r\n", part.len())),
    ] {
        let mut client = rig::raw(gateway.address());
        client.send(format!("POST / HTTP/1.1\r\nHost: t\r\n{framing}\r\n\r\n"));
        let mut origin = BufReader::new(listener.accept().unwrap().0);
        origin.get_ref().set_read_timeout(Some(rig::PATIENCE)).unwrap();
        let mut line = String::new();
        while origin.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        for part in parts {
            let wire = frame(part.to_owned());
            client.send(&wire);
            let mut came = vec![0; wire.len()];
            origin.read_exact(&mut came).unwrap();
            assert_eq!(String::from_utf8(came).unwrap(), wire, "{framing}");
        }
        if framing.ends_with("chunked") {
            client.send("0\r\n\r\n");
            origin.read_exact(&mut [0; 5]).unwrap();
        }
        origin.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        assert_eq!(client.answer().status, 200);
    }
}

#[test]
fn none_is_kept_where_none_may_wait() {
    let (a, gateway) = one("keepalive: 0");
    let mut client = gateway.client();
    for n in 1..=3 {
        assert_eq!(client.get("/x").status, 200);
        assert_eq!(served(&a), vec![1; n]);
    }
    rig::eventually("all are closed", || (a.counts().open == 0).then_some(()));
    assert_eq!(gateway.metrics().sum("moorgate_upstream_connections", &[]), 0.0);
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

/// Connections that were made for two requests to each of 400 origins, one after the other on one thread.
fn opened(connections: &str) -> f64 {
    let all = rig::everywhere("all");
    let origins: Vec<String> =
        (0..400).map(|n| format!("\"127.1.{}.{}:{}\"", n / 250, n % 250 + 1, all.address.port())).collect();
    let text = format!(
        "pools: {{ p: {{ balance: {{ algorithm: round_robin }}, health: {{ probe: off }}, \
         connections: {{ keepalive_timeout: 1h{connections} }}, origins: [{}] }} }}\n",
        origins.join(", ")
    );
    let gateway = rig::gateway(&text).start();
    let mut client = gateway.client();
    (0..800).for_each(|_| assert_eq!(client.get("/x").status, 200));
    gateway.metrics().sum("moorgate_upstream_connections_total", &[("kind", "opened")])
}

#[test]
fn a_connection_to_each_of_many_origins_is_kept_unless_fewer_are_asked_for() {
    assert!((opened("") - 400.0).abs() < 0.5);
    assert!(opened(", keepalive: 320") > 400.5);
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
