//! Does a body of any size pass through without being held, as fast as the slower side goes?

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::rig::{self, Amount, Answer, Body, Framed, Framing, Gateway, Origin, Peak, Step, answer, on};

/// Seconds as CI builds it; without optimisation less has to do.
const LARGE: u64 = if cfg!(debug_assertions) { 256 << 20 } else { 1 << 30 };
/// HTTP/2 goes in smaller steps.
const LARGE_H2: u64 = if cfg!(debug_assertions) { LARGE / 4 } else { LARGE };
/// More than all sockets and windows on the way take.
const SLOW: u64 = 64 << 20;
/// What of it may be under way when somebody stops reading.
const ON_THE_WAY: u64 = 40 << 20;
/// What the gateway's memory may grow by, whatever passes through.
const GROWTH: u64 = 16 << 20;

fn start(protocol: &str) -> (Origin, Gateway) {
    let a = rig::origin("a");
    let text = format!(
        "client_limits: {{ send_timeout: 60s, body_timeout: 60s }}\n\
         pools: {{ p: {{ protocol: {protocol}, balance: {{ key: \"{{path}}\" }}, health: {{ probe: off }}, \
         timeouts: {{ send: 60s, read: 60s }}, origins: $origins }} }}\n"
    );
    let gateway = rig::gateway(&text).listener("h2c: true").origins([&a]).start();
    (a, gateway)
}

fn down(origin: &Origin, size: u64, framing: Framing) {
    origin.script([on("/down").then(answer(200).body(Body::Pattern(size)).framing(framing).into())]);
}

/// Reads a bit, stops until the origin has been told to, and reads on.
fn up(origin: &Origin, first: Amount) {
    let steps = on("/up").then(Step::Read(first)).hold("read on").then(Step::Read(Amount::All));
    origin.script([steps.then(answer(200).body(Body::Checked).into())]);
}

/// What `run` does once with a little, and then with a lot; the second time the gateway's memory may not grow.
fn grows_little(gateway: &Gateway, large: u64, run: impl Fn(u64)) {
    run(8 << 20);
    let before = gateway.footprint().memory;
    let peak = Peak::of(gateway.pid());
    run(large);
    let peak = peak.stop();
    assert!(peak < before + GROWTH, "{} MiB on top of {}", (peak - before) >> 20, before >> 20);
}

fn assert_right(answer: &Answer, size: u64) {
    assert_eq!((answer.status, answer.text()), (200, format!("{size} bytes, all right")));
}

/// The value at which it stays.
fn settled(what: &str, mut ask: impl FnMut() -> u64) -> u64 {
    let mut seen = (ask(), Instant::now());
    rig::eventually(what, || {
        let now = ask();
        if now != seen.0 {
            seen = (now, Instant::now());
        }
        (seen.1.elapsed() > Duration::from_millis(500)).then_some(now)
    })
}

/// Pingora does not flush for a length that is not reached, and looks no more at a client whose next request is there.
#[test]
fn an_answer_of_known_length_arrives_as_it_comes() {
    let (a, gateway) = start("http1");
    let send = |bytes: &str| Step::Send(bytes.as_bytes().to_vec());
    let half = "x".repeat(1000);
    for next in [false, true] {
        let [header, body] = ["header", "body"].map(|what| format!("{what} {next}"));
        let parts = on("/parts").then(send("HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n")).hold(&header);
        a.script([parts.then(send(&half)).hold(&body).then(send(&half))]);
        let mut raw = rig::raw(gateway.address());
        raw.send("GET /parts HTTP/1.1\r\nHost: t\r\n\r\n");
        while !raw.line().is_empty() {}
        if next {
            raw.send("GET /next HTTP/1.1\r\nHost: t\r\n\r\n");
        }
        for hold in [&header, &body] {
            a.await_held(hold, 1);
            a.release(hold);
            assert_eq!(raw.bytes(1000), half.as_bytes());
        }
        assert!(!next || raw.answer().text() == "a");
    }
}

#[test]
fn a_large_upload_is_not_held() {
    let (a, gateway) = start("http1");
    a.script([on("/up").then(answer(200).body(Body::Checked).into())]);
    for framed in [Framed::Length, Framed::Chunks] {
        grows_little(&gateway, LARGE, |size| {
            assert_right(&rig::upload(gateway.address(), "/up", framed, size, &AtomicU64::new(0)), size);
        });
    }
}

#[test]
fn a_large_download_is_not_held() {
    let (a, gateway) = start("http1");
    for framing in [Framing::Length, Framing::Chunked] {
        grows_little(&gateway, LARGE, |size| {
            down(&a, size, framing);
            assert_eq!(rig::download(gateway.address(), "/down").read(u64::MAX), size);
        });
    }
}

#[test]
fn large_bodies_of_an_http2_client_are_not_held() {
    let (a, gateway) = start("http1");
    a.script([on("/up").then(answer(200).body(Body::Checked).into())]);
    grows_little(&gateway, LARGE_H2, |size| {
        assert_right(&rig::h2c_upload(gateway.address(), "/up", size, &AtomicU64::new(0)), size);
    });
    grows_little(&gateway, LARGE_H2, |size| {
        down(&a, size, Framing::Chunked);
        assert_eq!(rig::h2c_download(gateway.address(), "/down", |_| ()), size);
    });
}

#[test]
fn large_bodies_of_an_http2_origin_are_not_held() {
    let (a, gateway) = start("h2c");
    a.script([on("/up").then(answer(200).body(Body::Checked).into())]);
    grows_little(&gateway, LARGE_H2, |size| {
        assert_right(&rig::upload(gateway.address(), "/up", Framed::Length, size, &AtomicU64::new(0)), size);
    });
    grows_little(&gateway, LARGE_H2, |size| {
        down(&a, size, Framing::Length);
        assert_eq!(rig::download(gateway.address(), "/down").read(u64::MAX), size);
    });
}

/// Fails unless the sender was held up by the receiver's pace, at no cost of the gateway's memory.
fn assert_held_up(gateway: &Gateway, before: u64, what: &str, sent: impl FnMut() -> u64) {
    let under_way = settled(what, sent);
    assert!(under_way < ON_THE_WAY, "{what}: {} MiB were sent, and nobody reads", under_way >> 20);
    let grown = gateway.footprint().memory.saturating_sub(before);
    assert!(grown < GROWTH, "{what}: the gateway holds {} MiB", grown >> 20);
}

#[test]
fn an_origin_sends_no_faster_than_its_client_reads() {
    for protocol in ["http1", "h2c"] {
        let (a, gateway) = start(protocol);
        down(&a, 8 << 20, Framing::Length);
        assert_eq!(rig::download(gateway.address(), "/down").read(u64::MAX), 8 << 20);
        let before = gateway.footprint().memory;
        down(&a, SLOW, Framing::Length);
        a.forget();
        let mut slow = rig::download(gateway.address(), "/down");
        slow.read(1 << 20);
        assert_held_up(&gateway, before, "an HTTP/1 client stops", || a.counts().sent);
        assert_eq!(slow.read(u64::MAX), SLOW - (1 << 20), "the rest, from an origin with {protocol}");
        a.forget();
        let mut stopped = false;
        let read = rig::h2c_download(gateway.address(), "/down", |read| {
            if read > 1 << 20 && !stopped {
                stopped = true;
                assert_held_up(&gateway, before, "an HTTP/2 client stops", || a.counts().sent);
            }
        });
        assert_eq!(read, SLOW, "all, from an origin with {protocol}");
    }
}

#[test]
fn a_client_sends_no_faster_than_its_origin_reads() {
    for protocol in ["http1", "h2c"] {
        for client in ["http1", "h2c"] {
            let (a, gateway) = start(protocol);
            let (address, sent) = (gateway.address(), AtomicU64::new(0));
            let upload = |size| match client {
                "http1" => rig::upload(address, "/up", Framed::Length, size, &sent),
                _ => rig::h2c_upload(address, "/up", size, &sent),
            };
            assert_eq!(upload(8 << 20).status, 200);
            let before = gateway.footprint().memory;
            sent.store(0, Relaxed);
            up(&a, Amount::Bytes(1 << 20));
            std::thread::scope(|scope| {
                let upload = scope.spawn(|| upload(SLOW));
                a.await_held("read on", 1);
                assert_held_up(&gateway, before, "an origin stops", || sent.load(Relaxed));
                a.release("read on");
                assert_right(&upload.join().unwrap(), SLOW);
            });
        }
    }
}
