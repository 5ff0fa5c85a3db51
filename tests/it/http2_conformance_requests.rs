//! RFC 9113, section 8: requests. How they are looked at is in `http2_conformance`.

use crate::http2_conformance::{
    ALL, BASE, END_HEADERS, Line, NO_ERROR, PROTOCOL_ERROR,
    Told::{Ends, Refused, Served},
    before, begun, check, ends, headers, odd, other, resets, sized, with, without,
};
use crate::http2_frames::{DATA, frame};

#[test]
fn a_request_is_well_formed_or_gets_no_further() {
    let trailers = |lines: &[Line<'_>]| [begun(1), frame(DATA, 0, 1, b"hello"), headers(ALL, 1, lines)].concat();
    check(&[
        ("8.1 HEADERS twice", [begun(1), headers(END_HEADERS, 1, &[("a", "b")])].concat(), resets(PROTOCOL_ERROR)),
        ("8.1 a name in capitals among trailers", trailers(&[("A", "b")]), Ends(PROTOCOL_ERROR, PROTOCOL_ERROR)),
        ("8.1.1 less than its length", sized("10", &[b"hello"]), resets(PROTOCOL_ERROR)),
        ("8.1.1 more than its length", sized("2", &[b"hello"]), resets(PROTOCOL_ERROR)),
        ("8.1.1 less in two pieces", sized("12", &[b"hello", b"hello"]), resets(PROTOCOL_ERROR)),
        ("8.1.1 a length, and no body", with("content-length", "5"), resets(PROTOCOL_ERROR)),
        ("8.1.1 a length that is none", sized("+5", &[b"hello"]), resets(PROTOCOL_ERROR)),
        ("8.2.1 a name in capitals", with("A", "b"), ends(PROTOCOL_ERROR)),
        ("8.2.1 a blank in a name", with("a b", "c"), ends(PROTOCOL_ERROR)),
        ("8.2.1 a colon in a name", with("a:b", "c"), ends(PROTOCOL_ERROR)),
        ("8.2.1 no name", with("", "c"), ends(PROTOCOL_ERROR)),
        ("8.2.1 NUL in a value", with("a", "b\0c"), ends(PROTOCOL_ERROR)),
        ("8.2.1 LF in a value", with("a", "b\nc"), ends(PROTOCOL_ERROR)),
        ("8.2.1 CR in a value", with("a", "b\rc"), ends(PROTOCOL_ERROR)),
        ("8.2.2 connection", with("connection", "keep-alive"), resets(PROTOCOL_ERROR)),
        ("8.2.2 keep-alive", with("keep-alive", "5"), resets(PROTOCOL_ERROR)),
        ("8.2.2 proxy-connection", with("proxy-connection", "close"), resets(PROTOCOL_ERROR)),
        ("8.2.2 transfer-encoding", with("transfer-encoding", "chunked"), resets(PROTOCOL_ERROR)),
        ("8.2.2 upgrade", with("upgrade", "h2c"), resets(PROTOCOL_ERROR)),
        ("8.2.2 te with more than trailers", with("te", "trailers, deflate"), resets(PROTOCOL_ERROR)),
        ("8.2.2 te with trailers", with("te", "trailers"), Served),
    ]);
}

#[test]
fn pseudo_headers_say_it_all_and_once() {
    let trailers = |lines: &[Line<'_>]| [begun(1), frame(DATA, 0, 1, b"hello"), headers(ALL, 1, lines)].concat();
    check(&[
        ("8.3 an unknown pseudo-header", before(":x", "y"), ends(PROTOCOL_ERROR)),
        ("8.3 :status in a request", before(":status", "200"), resets(PROTOCOL_ERROR)),
        ("8.3 a pseudo-header behind another", before("a", "b"), resets(PROTOCOL_ERROR)),
        ("8.3.1 no method", without(":method"), resets(PROTOCOL_ERROR)),
        ("8.3.1 no scheme", without(":scheme"), resets(PROTOCOL_ERROR)),
        ("8.3.1 no path", without(":path"), resets(PROTOCOL_ERROR)),
        ("8.3.1 an empty path", other(":path", ""), resets(PROTOCOL_ERROR)),
        ("8.3.1 two methods", before(":method", "GET"), resets(PROTOCOL_ERROR)),
        ("8.3.1 two schemes", before(":scheme", "http"), resets(PROTOCOL_ERROR)),
        ("8.3.1 two paths", before(":path", "/x"), resets(PROTOCOL_ERROR)),
        ("8.3.1 two authorities", before(":authority", "h"), resets(PROTOCOL_ERROR)),
        ("8.3.1 no authority", without(":authority"), Refused),
        ("8.3.1 a path that is none", other(":path", "x"), resets(PROTOCOL_ERROR)),
        ("8.3.1 a blank in a path", other(":path", "/a b"), resets(PROTOCOL_ERROR)),
        ("8.3.1 a line of HTTP/1 in a path", other(":path", "/x HTTP/1.1\r\nHost: u\r\n\r\n"), resets(PROTOCOL_ERROR)),
        ("8.3.1 a line of HTTP/1 in a method", other(":method", "GET /y HTTP/1.1\r\n"), ends(PROTOCOL_ERROR)),
        ("8.3.1 a line of HTTP/1 in an authority", other(":authority", "h\r\nX: y"), resets(PROTOCOL_ERROR)),
        ("8.3.1 the scheme of TLS without it", other(":scheme", "https"), Served),
        ("8.3.1 a scheme of somebody else's", other(":scheme", "ftp"), Served),
        ("8.3.1 an asterisk for GET", other(":path", "*"), Refused),
        (
            "8.4 a new length for a length",
            odd(&[&BASE[..], &[("content-length", "0"), ("content-length", "0")]].concat()),
            Refused,
        ),
        ("8.5 CONNECT", headers(END_HEADERS, 1, &[(":method", "CONNECT"), (":authority", "h:1")]), resets(NO_ERROR)),
        ("RFC 8441: a CONNECT for WebSocket", before(":protocol", "websocket"), resets(PROTOCOL_ERROR)),
        // these two are let through by the library, and go no further than us
        ("8.1 a pseudo-header among trailers", trailers(&[(":method", "GET")]), Served),
        ("8.2.1 blanks around a value", with("a", " b "), Served),
    ]);
}
