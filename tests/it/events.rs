//! Do server-sent events arrive one by one? With curl as the client, and an origin that sends each event when the one
//! before it was seen: over either version of HTTP on either side, with TLS and without.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use crate::rig::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, block, frame};
use crate::rig::issued::certificate;
use crate::rig::{self, Gateway, Origin, PATIENCE, Process, Step, on};

/// How an origin says that an answer begins, an event, and that all is said: on the only stream of its connection where it is
/// HTTP/2.
struct Spoken {
    protocol: &'static str,
    begin: fn() -> Vec<u8>,
    event: fn(&str) -> Vec<u8>,
    end: fn() -> Vec<u8>,
}

const HTTP1: Spoken = Spoken {
    protocol: "http1",
    begin: || b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
    event: |text| format!("{:x}\r\n{text}\r\n", text.len()).into_bytes(),
    end: || b"0\r\n\r\n".to_vec(),
};

const H2C: Spoken = Spoken {
    protocol: "h2c",
    begin: || frame(HEADERS, END_HEADERS, 1, &block([(":status", "200"), ("content-type", "text/event-stream")])),
    event: |text| frame(DATA, 0, 1, text.as_bytes()),
    end: || frame(DATA, END_STREAM, 1, b""),
};

/// A route that would hold everything back, if it were let; by h2c and by TLS.
fn start(spoken: &Spoken) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let event = |number: u32| (spoken.event)(&format!("data: event {number}\n\n"));
    let mut rule = on("/events").then(Step::Send([(spoken.begin)(), event(1)].concat()));
    for number in 2..=4 {
        rule = rule.hold(&number.to_string()).then(Step::Send(event(number)));
    }
    a.script([rule.hold("end").then(Step::Send((spoken.end)())).then(Step::Hang)]);
    let text = format!(
        "certificates: [ {{ cert: $dir/a.pem, key: $dir/a.key }} ]\n\
         pools: {{ p: {{ origins: $origins, protocol: {}, health: {{ probe: off }} }} }}\n\
         routes: [ {{ pool: p, compression: {{ types: [text/*], min: 0 }}, buffering: {{ response: 1MiB }} }} ]\n",
        spoken.protocol
    );
    let gateway = rig::gateway(&text).listener("h2c: true").further_listener("tls: {}").origins([&a]);
    let gateway = gateway.start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"));
    (a, gateway)
}

/// What curl prints, line by line as it comes.
fn curl(gateway: &Gateway, arguments: &[&str]) -> (Process, mpsc::Receiver<String>) {
    let [plain, secure] = [0, 1].map(|n| gateway.listeners[n].port());
    let (scheme, port) = if arguments.contains(&"--cacert") { ("https", secure) } else { ("http", plain) };
    let mut command = Command::new("curl");
    command.args(["-N", "-s", "--max-time", "30", "-H", "Accept-Encoding: gzip, br, zstd"]).args(arguments);
    command.args(["--resolve", &format!("a.test:{port}:127.0.0.1")]).current_dir(gateway.path(""));
    command.args(["-w", "version %{http_version}\n", &format!("{scheme}://a.test:{port}/events")]);
    let mut process = Process::start("curl", command.stdout(Stdio::piped()), &gateway.path("curl"));
    let output = BufReader::new(process.child.stdout.take().unwrap());
    let (tell, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok).filter(|line| !line.is_empty()) {
            let _ = tell.send(line);
        }
    });
    (process, lines)
}

#[test]
fn each_event_is_seen_before_the_next_is_sent() {
    for (spoken, arguments, version) in [
        (HTTP1, &[][..], "1.1"),
        (HTTP1, &["-H", "Accept: text/event-stream"], "1.1"),
        (HTTP1, &["--http2-prior-knowledge"], "2"),
        (HTTP1, &["--http2-prior-knowledge", "-H", "Accept: text/event-stream"], "2"),
        (HTTP1, &["--cacert", "a.pem"], "2"),
        (HTTP1, &["--cacert", "a.pem", "--http1.1"], "1.1"),
        (H2C, &[], "1.1"),
        (H2C, &["--http2-prior-knowledge"], "2"),
        (H2C, &["--cacert", "a.pem", "-H", "Accept: text/event-stream"], "2"),
    ] {
        let case = format!("{} {arguments:?}", spoken.protocol);
        let (a, gateway) = start(&spoken);
        let (mut process, lines) = curl(&gateway, arguments);
        for (number, next) in [(1, "2"), (2, "3"), (3, "4"), (4, "end")] {
            let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("event {number} {case}"));
            assert_eq!(line, format!("data: event {number}"), "{case}");
            a.await_held(next, 1);
            a.release(next);
        }
        assert_eq!(lines.recv_timeout(PATIENCE).as_deref(), Ok(&*format!("version {version}")), "{case}");
        assert!(process.wait(PATIENCE).unwrap().success());
    }
}
