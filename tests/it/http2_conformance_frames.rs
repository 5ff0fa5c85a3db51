//! RFC 9113, sections 4 and 6: frames. How they are looked at is in `http2_conformance`.

use crate::http2_conformance::{
    ALL, BASE, COMPRESSION_ERROR, ENHANCE_YOUR_CALM, FRAME_SIZE_ERROR, PADDED, PRIORITISED, PROTOCOL_ERROR,
    Told::{Ends, Ignored, Served},
    begun, block, check, ends, get, headers, open_block, rst,
};
use crate::http2_frames::{
    CONTINUATION, DATA, GOAWAY, HEADERS, PING, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, frame,
};

#[test]
fn frames_have_the_size_they_should() {
    let long = |size: usize| vec![b'x'; size];
    check(&[
        ("4.1 an unknown frame", [frame(22, 0, 0, b"any"), get()].concat(), Served),
        ("4.1 unknown flags", frame(PING, 0x16, 0, b"12345678"), Ignored),
        ("4.1 the reserved bit", frame(PING, 0, 0x8000_0000, b"12345678"), Ignored),
        ("4.2 DATA as large as may be", [begun(1), frame(DATA, 1, 1, &long(16_384))].concat(), Served),
        ("4.2 larger DATA", [begun(1), frame(DATA, 1, 1, &long(16_385))].concat(), ends(FRAME_SIZE_ERROR)),
        ("4.2 larger HEADERS", frame(HEADERS, ALL, 1, &long(16_385)), ends(FRAME_SIZE_ERROR)),
        ("4.2 larger SETTINGS", frame(SETTINGS, 0, 0, &long(18_000)), ends(FRAME_SIZE_ERROR)),
        (
            "4.3 a block cut short",
            frame(HEADERS, ALL, 1, b"\x82\x84\x86\x41\x7f\x70"),
            Ends(PROTOCOL_ERROR, COMPRESSION_ERROR),
        ),
        (
            "4.3 PRIORITY in a block",
            [open_block(), frame(PRIORITY, 0, 1, b"\0\0\0\0\x10")].concat(),
            ends(PROTOCOL_ERROR),
        ),
        (
            "4.3 HEADERS of another stream in a block",
            [open_block(), headers(ALL, 3, &BASE)].concat(),
            ends(PROTOCOL_ERROR),
        ),
        ("5.5 an unknown frame in a block", [open_block(), frame(22, 0, 0, b"any")].concat(), ends(PROTOCOL_ERROR)),
    ]);
}

#[test]
fn frames_are_on_the_stream_they_should_be() {
    check(&[
        ("6.1 DATA on stream 0", frame(DATA, 1, 0, b"x"), ends(PROTOCOL_ERROR)),
        ("6.1 more padding than DATA", [begun(1), frame(DATA, PADDED, 1, b"\x06hello")].concat(), ends(PROTOCOL_ERROR)),
        ("6.2 HEADERS on stream 0", headers(ALL, 0, &BASE), ends(PROTOCOL_ERROR)),
        (
            "6.2 more padding than HEADERS",
            frame(HEADERS, ALL | PADDED, 1, &[b"\xff".as_slice(), &block(&BASE)].concat()),
            ends(PROTOCOL_ERROR),
        ),
        (
            "6.2 padding and priority",
            frame(
                HEADERS,
                ALL | PADDED | PRIORITISED,
                1,
                &[b"\x03\0\0\0\0\x10".as_slice(), &block(&BASE), b"\0\0\0"].concat(),
            ),
            Served,
        ),
        ("6.3 PRIORITY on stream 0", frame(PRIORITY, 0, 0, b"\0\0\0\x01\x10"), ends(PROTOCOL_ERROR)),
        ("6.3 PRIORITY of four bytes", frame(PRIORITY, 0, 1, b"\0\0\0\x01"), Ends(PROTOCOL_ERROR, FRAME_SIZE_ERROR)),
        ("6.4 RST_STREAM on stream 0", rst(0), ends(PROTOCOL_ERROR)),
        (
            "6.4 RST_STREAM of three bytes",
            [begun(1), frame(RST_STREAM, 0, 1, b"\0\0\0")].concat(),
            Ends(PROTOCOL_ERROR, FRAME_SIZE_ERROR),
        ),
    ]);
}

#[test]
fn frames_come_in_the_order_they_should() {
    check(&[
        (
            "6.6 PUSH_PROMISE",
            [begun(1), frame(PUSH_PROMISE, 4, 1, &[b"\0\0\0\x02".as_slice(), &block(&BASE)].concat())].concat(),
            ends(PROTOCOL_ERROR),
        ),
        ("6.7 a PING that answers none", frame(PING, 1, 0, b"invalid!"), Ignored),
        ("6.7 PING on a stream", frame(PING, 0, 1, b"12345678"), ends(PROTOCOL_ERROR)),
        ("6.7 PING of six bytes", frame(PING, 0, 0, b"123456"), Ends(PROTOCOL_ERROR, FRAME_SIZE_ERROR)),
        ("7 an unknown code of RST_STREAM", [begun(1), frame(RST_STREAM, 0, 1, &[0xff; 4])].concat(), Ignored),
        ("6.8 GOAWAY on a stream", frame(GOAWAY, 0, 1, &[0; 8]), ends(PROTOCOL_ERROR)),
        (
            "6.10 CONTINUATION behind the end of a block",
            [get(), frame(CONTINUATION, 4, 1, &block(&[("a", "b")]))].concat(),
            ends(PROTOCOL_ERROR),
        ),
        (
            "6.10 CONTINUATION on stream 0",
            [open_block(), frame(CONTINUATION, 4, 0, &block(&[("a", "b")]))].concat(),
            ends(PROTOCOL_ERROR),
        ),
        (
            "6.10 a block in four",
            [open_block(), frame(CONTINUATION, 0, 1, &block(&[("a", "b")])).repeat(2), frame(CONTINUATION, 4, 1, b"")]
                .concat(),
            Served,
        ),
        ("6.10 DATA in a block", [open_block(), frame(DATA, 1, 1, b"x")].concat(), ends(PROTOCOL_ERROR)),
        (
            "10.5 CONTINUATION without end",
            [open_block(), frame(CONTINUATION, 0, 1, &block(&[("a", "b")])).repeat(20_000)].concat(),
            ends(ENHANCE_YOUR_CALM),
        ),
        (
            "10.5 empty CONTINUATION without end",
            [open_block(), frame(CONTINUATION, 0, 1, b"").repeat(20_000)].concat(),
            ends(ENHANCE_YOUR_CALM),
        ),
    ]);
}
