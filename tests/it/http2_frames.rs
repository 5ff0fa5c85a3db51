//! What a client of HTTP/2 may say with frames that no library would send: Pingora's own refusals leave in our words, and
//! frames that ask for nothing end.

use std::net::SocketAddr;

pub(crate) use crate::rig::frames::{
    CONTINUATION, DATA, GOAWAY, HEADERS, PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
};
use crate::rig::issued::certificate;
use crate::rig::{self, Amount, Ask, Body, Raw, Step, answer, on};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";

/// HEADERS of a request for `/x`, each line a literal that is not indexed; `flags` says whether that is all of it.
fn request(flags: u8, stream: u32, lines: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [(":method", "PUT"), (":scheme", "http"), (":path", "/x")].iter().chain(lines) {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(HEADERS, flags, stream, &block)
}

fn begun_and_reset(stream: u32) -> Vec<u8> {
    [request(0b101, stream, &[(":authority", "h")]), frame(RST_STREAM, 0, stream, b"\0\0\0\x08")].concat()
}

pub(crate) fn next_frame(raw: &mut Raw) -> (u8, u8, u32, Vec<u8>) {
    let head = raw.bytes(9);
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    (head[3], head[4], u32::from_be_bytes([head[5], head[6], head[7], head[8]]), raw.bytes(length))
}

/// The header block of the answer on this stream.
fn answer_on(raw: &mut Raw, stream: u32) -> Vec<u8> {
    loop {
        if let (HEADERS, _, on, block) = next_frame(raw)
            && on == stream
        {
            return block;
        }
    }
}

/// A connection that begins with these settings.
pub(crate) fn prior_knowledge(gateway: &rig::Gateway, settings: &[u8]) -> Raw {
    begun_at(gateway.address(), settings)
}

fn begun_at(to: SocketAddr, settings: &[u8]) -> Raw {
    let mut raw = rig::raw(to);
    raw.send([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(SETTINGS, 0, 0, settings)].concat());
    raw
}

/// Pingora answers these before any hook, with a status alone.
#[test]
fn a_stream_that_names_no_one_host_is_refused_in_our_words() {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).listener("h2c: true").origins([&a]).start();
    let refused: [&[(&str, &str)]; 4] = [
        &[],
        &[(":authority", "h"), ("host", "evil")],
        &[(":authority", "h"), ("host", "h"), ("host", "h")],
        &[(":authority", "u@h")],
    ];
    // a table of another size is told of before the first status
    for (settings, told) in [(&b""[..], &b""[..]), (b"\0\x01\0\0\0\0", b"\x20"), (b"\0\x01\0\0\x01\0", b"\x3f\xe1\x01")]
    {
        let mut raw = prior_knowledge(&gateway, settings);
        for (n, lines) in refused.into_iter().enumerate() {
            let stream = 4 * n as u32 + 1;
            raw.send(request(0b101, stream, lines));
            let block = answer_on(&mut raw, stream);
            let block = if n == 0 { block.strip_prefix(told).unwrap() } else { &block[..] };
            let text = String::from_utf8_lossy(block).into_owned();
            assert_eq!(block[0], 0x8c, "{lines:?}");
            assert!(text.contains("moorgate; error=http_request_error; details=\"sent=0\""), "{lines:?}: {text}");
            raw.send(request(0b101, stream + 2, &[(":authority", "h")]));
            assert_eq!(answer_on(&mut raw, stream + 2)[0], 0x88, "the connection goes on");
        }
    }
    let all = 3 * refused.len();
    let log = gateway.await_log(2 * all);
    let told: Vec<_> = log.iter().filter(|line| line["error"] == "bad_request").collect();
    assert_eq!(told.len(), all, "{log:?}");
    for line in told {
        assert_eq!((&line["status"], &line["protocol"]), (&400.into(), &"HTTP/2.0".into()), "{line}");
        assert_eq!(line["request_id"].as_str().unwrap().len(), 32);
    }
    assert_eq!(gateway.metrics().sum("moorgate_requests_total", &[("code", "400")]).round() as usize, all);
    assert_eq!(a.served() as usize, all);
}

/// Frames that ask for nothing cost a core as long as they come.
#[test]
fn a_flood_of_frames_that_ask_for_nothing_ends_the_connection() {
    let a = rig::origin("a");
    let text = format!("certificates: [ {{ cert: $dir/a.pem, key: $dir/a.key }} ]\n{POOL}");
    let start = rig::gateway(&text).listener("h2c: true").further_listener("tls: {}").origins([&a]);
    let gateway = start.start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"));
    let within_tls = rig::tunnel(gateway.listeners[1], b"\x02h2");
    let doors = [gateway.address(), within_tls.address];
    let frames = [
        frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\x64"),
        frame(PRIORITY, 0, 5, b"\0\0\0\x03\x01"),
        frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01"),
        frame(PING, 0, 0, b"how far?"),
    ];
    for (frame, door) in frames.iter().flat_map(|frame| doors.map(|door| (frame, door))) {
        let mut raw = begun_at(door, b"");
        let flood = frame.repeat(500);
        let cut = (0..10_000).any(|_| raw.try_send(&flood).is_err());
        assert!(cut, "{frame:?} was not cut");
        assert!(raw.rest().ends_with(b"\0\0\0\x0b"), "{frame:?}: GOAWAY, ENHANCE_YOUR_CALM");
    }
    rig::eventually("each is counted", || {
        let cut = gateway.metrics().sum("moorgate_connections_rejected_total", &[("reason", "h2_flood")]);
        (cut > 7.5).then_some(())
    });
    // what the library itself has enough of is counted with it
    for flood in
        [frame(DATA, 0, 1, b"").repeat(500), (0..2000).map(|n| begun_and_reset(2 * n + 3)).collect::<Vec<_>>().concat()]
    {
        let mut raw = prior_knowledge(&gateway, b"");
        raw.send(request(0b100, 1, &[(":authority", "h")]));
        let _ = raw.try_send(flood);
        let _ = raw.rest();
    }
    rig::eventually("each is counted", || {
        let cut = gateway.metrics().sum("moorgate_connections_rejected_total", &[("reason", "h2_flood")]);
        (cut > 9.5).then_some(())
    });
    let asks: Vec<Ask> = (0..50).map(|n| Ask::get(&format!("/{n}"))).collect();
    for door in doors {
        assert!(rig::h2c(door, &asks).iter().all(|answer| answer.as_ref().is_ok_and(|a| a.status == 200)));
    }
}

/// The most eager of honest clients: a window of a hundred bytes, opened anew for each piece, and a PING with it; and a
/// body in pieces of one byte.
#[test]
fn a_client_at_work_is_not_taken_for_a_flood() {
    let a = rig::origin("a");
    a.script([on("/x").then(Step::Read(Amount::All)).then(answer(200).body(Body::Size(600_000)).into())]);
    let gateway = rig::gateway(POOL).listener("h2c: true").origins([&a]).start();
    let mut raw = prior_knowledge(&gateway, b"\0\x04\0\0\0\x64");
    raw.send(request(0b100, 1, &[(":authority", "h")]));
    raw.send(frame(DATA, 0, 1, b"x").repeat(5000));
    raw.send(frame(DATA, 1, 1, b""));
    let (mut read, mut pieces) = (0, 0);
    loop {
        let (kind, flags, stream, payload) = next_frame(&mut raw);
        if (kind, stream) != (DATA, 1) {
            continue;
        }
        read += payload.len();
        pieces += 1;
        if flags & 1 == 1 {
            break;
        }
        let room = (payload.len() as u32).to_be_bytes();
        let more = [0, stream].map(|stream| frame(WINDOW_UPDATE, 0, stream, &room)).concat();
        raw.send([more, frame(PING, 0, 0, b"how far?")].concat());
    }
    assert_eq!(read, 600_000);
    assert!(pieces > 3000, "{pieces} pieces");
    assert_eq!(a.requests()[0].body_bytes, 5000);
}
