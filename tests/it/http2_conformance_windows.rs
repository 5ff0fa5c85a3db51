//! RFC 9113, sections 3.4, 6.5.3, 6.9 and 10.5.1: how a connection begins, what is acknowledged, how much may come, and headers
//! that are too large. What `http2_conformance` cannot look at, since it is not one answer to one row.

use crate::http2_conformance::{ALL, BASE, block, get, headers, setting, update};
use crate::http2_frames::{CONTINUATION, DATA, GOAWAY, HEADERS, PING, SETTINGS, frame, next_frame, prior_knowledge};
use crate::rig::{self, Body, Gateway, Origin, Raw, answer, on};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn start() -> (Origin, Gateway) {
    let a = rig::origin("a");
    a.script([on("/x").then(answer(200).body(Body::Size(1000)).into())]);
    let text = "client_limits: { header_bytes: 16KiB, header_timeout: 2s }\n\
                pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n";
    let gateway = rig::gateway(text).listener("h2c: true").origins([&a]).start();
    (a, gateway)
}

/// Bytes of DATA that come until a PING behind `sent` is answered.
fn comes(raw: &mut Raw, sent: &[u8]) -> usize {
    // the answer may be under way: what a second PING finds has had a round more
    raw.send([sent, &frame(PING, 0, 0, b"are you?")].concat());
    let (mut bytes, mut pings) = (0, 0);
    while pings < 2 {
        match next_frame(raw) {
            (DATA, _, 1, payload) => bytes += payload.len(),
            (PING, 1, ..) => {
                pings += 1;
                if pings < 2 {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    raw.send(frame(PING, 0, 0, b"are you?"));
                }
            }
            _ => {}
        }
    }
    bytes
}

#[test]
fn as_much_comes_as_the_windows_have_room_for() {
    let (_a, gateway) = start();
    // 6.9.1: a byte at a time
    let mut raw = prior_knowledge(&gateway, &[0, 4, 0, 0, 0, 1]);
    raw.send(get());
    while !matches!(next_frame(&mut raw), (HEADERS, _, 1, _)) {}
    assert_eq!(comes(&mut raw, b""), 1, "6.9.1: a window of one byte");
    assert_eq!(comes(&mut raw, &update(1, 2)), 2, "two more");
    // 6.9.2: the window was 3 and is used up; of 1 it is below nothing
    assert_eq!(comes(&mut raw, &setting(4, 0)), 0, "6.9.2: a window below zero");
    assert_eq!(comes(&mut raw, &update(1, 1)), 0, "it is at zero");
    assert_eq!(comes(&mut raw, &update(1, 1)), 1, "and above");
    assert_eq!(comes(&mut raw, &setting(4, 101)), 101, "a setting that makes room");
    assert_eq!(comes(&mut raw, &[setting(4, 1), setting(4, 201)].concat()), 100, "of two the last counts");
    // the connection's window is another: 65,535 less what came, and opened by no setting
    assert_eq!(comes(&mut raw, &setting(4, 70_000)), 1000 - 205, "the rest");
}

#[test]
fn settings_are_acknowledged_each_and_the_last_of_several_counts() {
    let (_a, gateway) = start();
    let mut raw = prior_knowledge(&gateway, b"");
    let several = frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\x09\0\x04\0\0\0\x05");
    raw.send([several, setting(3, 100), setting(0xff, 1), get(), frame(PING, 0, 0, b"are you?")].concat());
    let (mut acknowledged, mut alive) = (0, false);
    let mut bytes = 0;
    while !alive || bytes == 0 {
        match next_frame(&mut raw) {
            (SETTINGS, 1, 0, payload) => {
                assert_eq!(payload, b"");
                acknowledged += 1;
            }
            (DATA, _, 1, payload) => bytes += payload.len(),
            (PING, 1, ..) => alive = true,
            _ => {}
        }
    }
    assert_eq!((acknowledged, bytes), (4, 5), "6.5.3");
}

#[test]
fn a_connection_begins_with_its_preface() {
    let (a, gateway) = start();
    // what is no preface is a request of HTTP/1, and none that is served
    let mut raw = rig::raw(gateway.address());
    raw.send(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n");
    let told = raw.rest();
    assert!(told.starts_with(b"HTTP/1.1 400 "), "{}", told.escape_ascii());
    // 3.4: SETTINGS may come later, or in the same breath
    let mut raw = rig::raw(gateway.address());
    raw.send([PREFACE, &get()].concat());
    while !matches!(next_frame(&mut raw), (HEADERS, _, 1, _)) {}
    assert_eq!(a.served(), 1);
}

#[test]
fn a_header_that_is_too_large_gets_no_further() {
    let (a, gateway) = start();
    let line = |size: usize| {
        // a literal that goes into the table, of a length in two or three bytes (RFC 7541, section 5.1)
        let more = size - 127;
        let length = [0x7f, 0x80 | (more & 0x7f) as u8, 0x80 | (more >> 7 & 0x7f) as u8, (more >> 14) as u8];
        [b"\x40\x01x".as_slice(), &length, &vec![b'y'; size]].concat()
    };
    let request = |bombs: usize| {
        let block = [block(&BASE), line(3900), vec![0xbe; bombs]].concat();
        frame(HEADERS, ALL, 1, &block)
    };
    // a byte stands for four thousand: refused by us, by the library, and the end of the connection
    for (bombs, ends) in [(4, false), (10, false), (2000, true)] {
        let mut raw = prior_knowledge(&gateway, b"");
        raw.send(request(bombs));
        loop {
            match next_frame(&mut raw) {
                (HEADERS, _, 1, block) => {
                    assert!(bombs < 2000 && ![0x88, 0x8c].contains(&block[0]), "{bombs}: {block:x?}");
                    break;
                }
                (GOAWAY, _, _, payload) => {
                    assert!(ends && payload[7] == 0xb, "{bombs}: {payload:x?}");
                    break;
                }
                _ => {}
            }
        }
        if !ends {
            raw.send(headers(ALL, 3, &BASE));
            while !matches!(next_frame(&mut raw), (HEADERS, _, 3, _)) {}
        }
    }
    // in CONTINUATION as well
    let mut raw = prior_knowledge(&gateway, b"");
    let first = frame(HEADERS, 1, 1, &block(&BASE));
    raw.send([first, frame(CONTINUATION, 0, 1, &line(3900)), frame(CONTINUATION, 4, 1, &[0xbe; 2000])].concat());
    while next_frame(&mut raw).0 != GOAWAY {}
    assert_eq!(a.served(), 2);
    let rejected = || gateway.metrics().sum("moorgate_connections_rejected_total", &[("reason", "h2_flood")]);
    rig::eventually("both are counted", || (rejected() > 1.5).then_some(()));
}
