//! RFC 9113, section by section, as h2spec asks for it: what a client sends on raw frames, and what it is told, by prior
//! knowledge and within TLS. A connection that goes on has to serve the next request, and an origin that reads to the letter
//! gets no request that was refused.
//!
//! Where the library gives another code than the section names, the section's stands behind it; docs/http.md argues why.

use std::mem::discriminant;
use std::net::SocketAddr;

use crate::http2_frames::{
    CONTINUATION, DATA, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, next_frame,
};
use crate::rig::issued::certificate;
use crate::rig::{self, tunnel};

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const FLOW_CONTROL_ERROR: u32 = 3;
pub(crate) const STREAM_CLOSED: u32 = 5;
pub(crate) const FRAME_SIZE_ERROR: u32 = 6;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const COMPRESSION_ERROR: u32 = 9;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 0xb;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const PRIORITISED: u8 = 0x20;
pub(crate) const ALL: u8 = END_STREAM | END_HEADERS;

/// What a client is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// GOAWAY with this code, and the end; the code that the section names, where that is another.
    Ends(u32, u32),
    /// This stream is reset with this code; the connection goes on.
    Resets(u32, u32),
    /// Stream 1 is answered by the origin.
    Served,
    /// Stream 1 is refused with 400.
    Refused,
    /// Nothing but what is asked behind it.
    Ignored,
}
use Told::{Ends, Ignored, Refused, Resets, Served};

pub(crate) type Line<'a> = (&'a str, &'a str);

pub(crate) const BASE: [Line<'static>; 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/x"), (":authority", "h")];

/// Each line a literal that is not indexed.
pub(crate) fn block(lines: &[Line<'_>]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in lines {
        block.push(0);
        for text in [name, value] {
            let bytes: Vec<u8> = text.chars().map(|byte| u8::try_from(u32::from(byte)).unwrap()).collect();
            block.push(u8::try_from(bytes.len()).unwrap());
            block.extend(bytes);
        }
    }
    block
}

pub(crate) fn headers(flags: u8, stream: u32, lines: &[Line<'_>]) -> Vec<u8> {
    frame(HEADERS, flags, stream, &block(lines))
}

/// A request with these lines in place of the usual ones.
pub(crate) fn odd(lines: &[Line<'_>]) -> Vec<u8> {
    headers(ALL, 1, lines)
}

/// A whole request with one line more.
pub(crate) fn with(name: &str, value: &str) -> Vec<u8> {
    odd(&[&BASE[..], &[(name, value)]].concat())
}

pub(crate) fn get() -> Vec<u8> {
    odd(&BASE)
}

/// A request that owes its body.
pub(crate) fn begun(stream: u32) -> Vec<u8> {
    headers(END_HEADERS, stream, &BASE)
}

/// One with this length, and this much of a body.
pub(crate) fn sized(length: &str, pieces: &[&[u8]]) -> Vec<u8> {
    let mut all = headers(END_HEADERS, 1, &[&BASE[..], &[("content-length", length)]].concat());
    for (n, piece) in pieces.iter().enumerate() {
        all.extend(frame(DATA, u8::from(n + 1 == pieces.len()), 1, piece));
    }
    all
}

/// A request whose block is not at its end.
pub(crate) fn open_block() -> Vec<u8> {
    headers(END_STREAM, 1, &BASE)
}

pub(crate) fn rst(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}

pub(crate) fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

pub(crate) fn update(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

/// Without the line of this name.
pub(crate) fn without(name: &str) -> Vec<u8> {
    odd(&BASE.into_iter().filter(|line| line.0 != name).collect::<Vec<_>>())
}

/// The line of this name with another value.
pub(crate) fn other(name: &str, value: &str) -> Vec<u8> {
    odd(&BASE.map(|line| if line.0 == name { (line.0, value) } else { line }))
}

/// With this line before the others.
pub(crate) fn before(name: &str, value: &str) -> Vec<u8> {
    odd(&[&[(name, value)], &BASE[..]].concat())
}

/// What was told of these bytes, on a connection that began with SETTINGS; `expected` says what is waited for.
fn tell(door: SocketAddr, sent: &[u8], expected: Told) -> Told {
    let mut raw = rig::raw(door);
    raw.send([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(SETTINGS, 0, 0, b"")].concat());
    // more than the kernel takes when nobody reads on is cut by the other end
    let _ = raw.try_send(sent);
    let _ = raw.try_send(frame(PING, 0, 0, b"are you?"));
    let (mut told, mut alive) = (Ignored, false);
    while !alive || discriminant(&told) != discriminant(&expected) && [Ignored, Refused].contains(&told) {
        let (kind, flags, stream, payload) = next_frame(&mut raw);
        let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        match kind {
            GOAWAY if code(4) != NO_ERROR => {
                raw.rest();
                return ends(code(4));
            }
            RST_STREAM => told = resets(code(0)),
            HEADERS if stream == 1 && told == Ignored => told = if payload[0] == 0x88 { Served } else { Refused },
            PING if flags == 1 && payload == b"are you?" => alive = true,
            _ => {}
        }
    }
    raw.send(headers(ALL, 999, &BASE.map(|line| if line.0 == ":path" { (line.0, "/next") } else { line })));
    loop {
        // where as many streams are open as may be, it is refused
        if let (HEADERS | RST_STREAM, _, 999, _) = next_frame(&mut raw) {
            return told;
        }
    }
}

pub(crate) fn check(rows: &[(&str, Vec<u8>, Told)]) {
    let origin = rig::strict();
    let text = "client_limits: { header_bytes: 16KiB }\n\
                certificates: [ { cert: $dir/a.pem, key: $dir/a.key } ]\n\
                pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n";
    let start = rig::gateway(text).listener("h2c: true").further_listener("tls: {}").named("a", origin.address);
    let gateway = start.start_with(|folder| certificate(&["a.test"]).issue().write(folder, "a"));
    let within_tls = tunnel(gateway.listeners[1], b"\x02h2");
    let doors = [("", gateway.address()), ("TLS: ", within_tls.address)];
    for (door, to, (name, sent, expected)) in rows.iter().flat_map(|row| doors.map(|(door, to)| (door, to, row))) {
        let name = format!("{door}{name}");
        match (tell(to, sent, *expected), expected) {
            (Ends(code, _), Ends(ours, named)) | (Resets(code, _), Resets(ours, named)) => {
                assert!([ours, named].contains(&&code), "{name}: {code}");
            }
            (told, expected) => assert_eq!(told, *expected, "{name}"),
        }
        let seen = origin.take();
        let whole = seen.iter().filter(|seen| seen.bytes.starts_with(b"GET /x ")).count();
        assert_eq!(whole, usize::from(*expected == Served), "{name}: {seen:?}");
    }
    assert_eq!(origin.odd(), [""; 0]);
    let ended = rows.iter().filter(|row| matches!(row.2, Ends(code, _) if code != ENHANCE_YOUR_CALM)).count();
    rig::eventually("each connection that ended for cause is in the log", || {
        let log = gateway.log();
        let told = log.iter().filter(|line| line["error"] == "bad_request" && line["method"] == "").count();
        (told >= doors.len() * ended).then_some(())
    });
}

/// The library's code, which is also the section's.
pub(crate) fn ends(code: u32) -> Told {
    Ends(code, code)
}

pub(crate) fn resets(code: u32) -> Told {
    Resets(code, code)
}

#[test]
fn streams_and_settings_are_in_the_state_they_should_be() {
    let data = || frame(DATA, 1, 1, b"x");
    let more = || frame(CONTINUATION, 4, 1, &block(&BASE));
    let reset = |then: Vec<u8>| [begun(1), rst(1), then].concat();
    let many: Vec<u8> = (0..101).flat_map(|n| begun(2 * n + 1)).collect();
    check(&[
        ("5.1 DATA on an idle stream", data(), ends(PROTOCOL_ERROR)),
        ("5.1 RST_STREAM on an idle stream", rst(1), ends(PROTOCOL_ERROR)),
        ("5.1 WINDOW_UPDATE on an idle stream", update(1, 100), ends(PROTOCOL_ERROR)),
        ("5.1 CONTINUATION on an idle stream", more(), ends(PROTOCOL_ERROR)),
        ("5.1 DATA on a half-closed stream", [get(), data()].concat(), Ends(PROTOCOL_ERROR, STREAM_CLOSED)),
        ("5.1 HEADERS on a half-closed stream", [get(), get()].concat(), Ends(PROTOCOL_ERROR, STREAM_CLOSED)),
        ("5.1 CONTINUATION on a half-closed stream", [get(), more()].concat(), Ends(PROTOCOL_ERROR, STREAM_CLOSED)),
        ("5.1 DATA on a stream that was reset", reset(data()), resets(STREAM_CLOSED)),
        ("5.1 HEADERS on a stream that was reset", reset(get()), Ends(PROTOCOL_ERROR, STREAM_CLOSED)),
        ("5.1 CONTINUATION on a stream that was reset", reset(more()), Ends(PROTOCOL_ERROR, STREAM_CLOSED)),
        ("5.1 WINDOW_UPDATE on a stream that was reset", reset(update(1, 100)), Ignored),
        ("5.1.1 an even number", headers(ALL, 2, &BASE), ends(PROTOCOL_ERROR)),
        ("5.1.1 a number below the last", [begun(5), begun(3)].concat(), ends(PROTOCOL_ERROR)),
        ("5.1.2 one stream too many", many, resets(REFUSED_STREAM)),
        (
            "5.3.1 a stream that depends on itself",
            frame(HEADERS, ALL | PRIORITISED, 1, &[b"\0\0\0\x01\x10".as_slice(), &block(&BASE)].concat()),
            resets(PROTOCOL_ERROR),
        ),
        ("6.5 an acknowledgement with payload", frame(SETTINGS, 1, 0, &[0; 6]), Ends(PROTOCOL_ERROR, FRAME_SIZE_ERROR)),
        ("6.5 SETTINGS on a stream", frame(SETTINGS, 0, 1, b""), ends(PROTOCOL_ERROR)),
        ("6.5 SETTINGS of four bytes", frame(SETTINGS, 0, 0, &[0; 4]), Ends(PROTOCOL_ERROR, FRAME_SIZE_ERROR)),
        ("6.5.2 ENABLE_PUSH of 2", setting(2, 2), ends(PROTOCOL_ERROR)),
        ("6.5.2 a window above 2^31 - 1", setting(4, 0x8000_0000), Ends(PROTOCOL_ERROR, FLOW_CONTROL_ERROR)),
        ("6.5.2 frames below 2^14", setting(5, 16_383), ends(PROTOCOL_ERROR)),
        ("6.5.2 frames above 2^24 - 1", setting(5, 1 << 24), ends(PROTOCOL_ERROR)),
        ("6.5.2 an unknown setting", [setting(0xff, 1), get()].concat(), Served),
        ("6.9 an update by 0", update(0, 0), ends(PROTOCOL_ERROR)),
        ("6.9 an update by 0 of a stream", [begun(1), update(1, 0)].concat(), ends(PROTOCOL_ERROR)),
        ("6.9 an update of three bytes", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), Ends(PROTOCOL_ERROR, FRAME_SIZE_ERROR)),
        ("6.9.1 a window above 2^31 - 1", update(0, 0x7fff_ffff).repeat(2), ends(FLOW_CONTROL_ERROR)),
        (
            "6.9.1 a stream's above 2^31 - 1",
            [begun(1), update(1, 0x7fff_ffff).repeat(2)].concat(),
            resets(FLOW_CONTROL_ERROR),
        ),
        (
            "6.9.2 one above it by a setting",
            [begun(1), update(1, 0x7fff_0000), setting(4, 0x7fff_ffff)].concat(),
            ends(FLOW_CONTROL_ERROR),
        ),
    ]);
}

#[test]
fn a_block_is_decoded_or_the_connection_ends() {
    let raw = |bytes: &[u8]| frame(HEADERS, ALL, 1, bytes);
    let malformed = Ends(PROTOCOL_ERROR, COMPRESSION_ERROR);
    check(&[
        ("RFC 7541, 6.1: index 0", raw(b"\x80"), malformed),
        ("2.3.3: an index beyond the table", raw(b"\xc6"), malformed),
        ("4.2: a new size behind a line", raw(&[&block(&BASE)[..], b"\x20"].concat()), malformed),
        ("6.3: a size above the setting", raw(&[b"\x3f\xe2\x7f".as_slice(), &block(&BASE)].concat()), malformed),
        (
            "5.2: padding of more than seven bits",
            raw(b"\x82\x84\x86\0\x85\xf2\xb2\x4a\x84\xff\x84\x49\x50\x9f\xff"),
            malformed,
        ),
        ("5.2: EOS in a string", raw(b"\x82\x84\x86\0\x85\xf2\xb2\x4a\x87\xff\x83\xff\xff\xff\xff"), malformed),
        ("5.1: an integer that wraps", raw(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), malformed),
    ]);
}
