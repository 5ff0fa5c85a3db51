//! Do server-sent events arrive one by one? With curl as the client, and an origin that sends each event when the one
//! before it was seen.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;

use crate::rig::{self, Gateway, Origin, PATIENCE, Process, Step, on};

/// A route that would hold everything back, if it were let.
fn start() -> (Origin, Gateway) {
    let a = rig::origin("a");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    let event = |number: u32| {
        let text = format!("data: event {number}\n\n");
        format!("{:x}\r\n{text}\r\n", text.len())
    };
    let send = |text: String| Step::Send(text.into_bytes());
    let mut rule = on("/events").then(send(format!("{head}{}", event(1))));
    for number in 2..=4 {
        rule = rule.hold(&number.to_string()).then(send(event(number)));
    }
    a.script([rule.hold("end").then(send("0\r\n\r\n".to_owned()))]);
    let text = "pools: { p: { origins: $origins } }\n\
        routes: [ { pool: p, compression: { types: [text/*], min: 0 }, buffering: { response: 1MiB } } ]\n";
    let gateway = rig::gateway(text).listener("h2c: true").origins([&a]).start();
    (a, gateway)
}

/// What curl prints, line by line as it comes.
fn curl(gateway: &Gateway, arguments: &[&str]) -> (Process, mpsc::Receiver<String>) {
    let mut command = Command::new("curl");
    command.args(["-N", "-s", "--max-time", "30", "-H", "Accept-Encoding: gzip, br, zstd"]).args(arguments);
    command.arg(format!("http://{}/events", gateway.address())).stdout(Stdio::piped());
    let mut process = Process::start("curl", &mut command, &gateway.path("curl"));
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
    for arguments in [
        &[][..],
        &["-H", "Accept: text/event-stream"],
        &["--http2-prior-knowledge"],
        &["--http2-prior-knowledge", "-H", "Accept: text/event-stream"],
    ] {
        let (a, gateway) = start();
        let (mut process, lines) = curl(&gateway, arguments);
        for (number, next) in [(1, "2"), (2, "3"), (3, "4"), (4, "end")] {
            let line = lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("event {number} {arguments:?}"));
            assert_eq!(line, format!("data: event {number}"), "{arguments:?}");
            a.await_held(next, 1);
            a.release(next);
        }
        assert!(process.wait(PATIENCE).unwrap().success());
    }
}
