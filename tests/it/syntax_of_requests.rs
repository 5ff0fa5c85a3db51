//! Every malformed or ambiguous body of a request, and in `syntax_of_heads` every head, a line each: what was sent, what its client sees, what the origin gets byte for
//! byte. It is refused, or it goes on in one form; behind it stands another request each time, which shows where the
//! gateway took the message to end. The origin reads to the letter ([`rig::strict`]).

use crate::requests_on_the_wire::assert_ours;
use crate::rig::{self, Gateway, Strict};

pub(crate) const NEXT: &str = "GET /next HTTP/1.1\r\nHost: t\r\n\r\n";

/// The origin gets what the client sent and nothing of ours beside it.
pub(crate) fn start() -> (Strict, Gateway) {
    let origin = rig::strict();
    let text = "client_limits: { header_bytes: 8KiB, headers: 20, uri_bytes: 1KiB }\n\
                routes: [ { pool: p, forwarded: { x_forwarded: off, request_id: off }, \
                headers: { request: { remove: [X-Internal] } } } ]\n\
                pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n";
    let gateway = rig::gateway(text).named("a", origin.address).start();
    (origin, gateway)
}

/// A GET of `/x` with these further lines.
pub(crate) fn get(lines: &str) -> String {
    format!("GET /x HTTP/1.1\r\nHost: t\r\n{lines}\r\n")
}

/// A request with this first line.
pub(crate) fn line(line: &str) -> String {
    format!("{line}\r\nHost: t\r\n\r\n")
}

/// A POST whose body is `hello`, as these lines have it.
pub(crate) fn post(lines: &str) -> String {
    format!("POST /x HTTP/1.1\r\nHost: t\r\n{lines}\r\n\r\nhello")
}

/// A POST in chunks.
fn chunked(body: &str) -> String {
    format!("POST /x HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
}

pub(crate) const CHUNKS: &str = "5\r\nhello\r\n0\r\n\r\n";

/// A POST in chunks that says so in these lines.
fn coded(lines: &str) -> String {
    format!("POST /x HTTP/1.1\r\nHost: t\r\n{lines}\r\n\r\n{CHUNKS}")
}

/// As Latin-1, so that a table may hold any byte.
fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|byte| u8::try_from(u32::from(byte)).unwrap()).collect()
}

/// Each is answered with this status by the gateway itself, and the origin gets no whole request of it. A connection that
/// ends takes nothing more; where the message's end is known it goes on.
pub(crate) fn refused(rows: &[(u16, String)]) {
    let (origin, gateway) = start();
    for (status, sent) in rows {
        let shown: String = sent.escape_debug().take(200).collect();
        let mut raw = rig::raw(gateway.address());
        let _ = raw.try_send(bytes(&format!("{sent}{NEXT}")));
        let answer = raw.answer_to("GET").unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert_eq!(answer.status, *status, "{shown}: {answer:?}");
        assert_ours(&answer, *status, "http_request_error");
        let next = if answer.closes() {
            assert_eq!(raw.rest(), b"", "{shown}: it is the last answer");
            0
        } else {
            assert_eq!((raw.answer().status, sent.contains("\r\n\r\n")), (200, true), "{shown}: the next request");
            1
        };
        let seen = origin.take();
        assert!(seen.len() == next && seen.iter().all(|seen| seen.bytes == NEXT.as_bytes()), "{shown}: {seen:?}");
    }
    assert_eq!(origin.odd(), [""; 0]);
    let log = gateway.await_log(rows.len());
    for status in [400, 405, 414, 431] {
        let all = rows.iter().filter(|row| row.0 == status).count();
        let lines: Vec<_> = log.iter().filter(|line| line["status"] == status && line["uri"] != "/next").collect();
        assert_eq!(lines.len(), all, "lines of {status} in the log");
        assert!(lines.iter().all(|line| line["error"].is_string()), "{lines:?}");
        let counted = gateway.metrics().sum("moorgate_requests_total", &[("code", &status.to_string())]);
        assert_eq!(counted.round() as usize, all, "{status} counted");
    }
}

/// Each goes on as this; the connection takes the next request, unless it `closes` behind the answer.
pub(crate) fn passed(rows: &[(&str, String, String)], closes: bool) {
    let (origin, gateway) = start();
    for (name, sent, goes) in rows {
        let mut raw = rig::raw(gateway.address());
        raw.send(bytes(&format!("{sent}{NEXT}")));
        let method = sent.trim_start().split(' ').next().unwrap();
        let answer = raw.answer_to(method).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((answer.status, answer.closes()), (200, closes), "{name}: {answer:?}");
        let mut goes = vec![bytes(goes)];
        if closes {
            assert_eq!(raw.rest(), b"", "{name}: it is the last answer");
        } else {
            assert_eq!(raw.answer().status, 200, "{name}: the next request");
            goes.push(NEXT.into());
        }
        let text = |bytes: Vec<u8>| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
        let seen: Vec<String> = origin.take().into_iter().map(|seen| text(seen.bytes)).collect();
        assert_eq!(seen, goes.into_iter().map(text).collect::<Vec<_>>(), "{name}");
    }
    assert_eq!(origin.odd(), [""; 0]);
    let requests = rows.len() * if closes { 1 } else { 2 };
    assert!(gateway.await_log(requests).iter().all(|line| line["status"] == 200 && line["error"].is_null()));
}

/// Lengths nobody may send.
const LENGTHS: [&str; 22] = [
    "Content-Length: 5\r\nContent-Length: 5",
    "Content-Length: 5\r\nContent-Length: 6",
    "Content-Length: 5, 5",
    "Content-Length: 5,",
    "Content-Length: +5",
    "Content-Length: -5",
    "Content-Length: 0x5",
    "Content-Length: 5.0",
    "Content-Length: 5e0",
    "Content-Length: 5 5",
    "Content-Length: 5;x",
    "Content-Length: \u{b}5",
    "Content-Length: 5\0",
    "Content-Length: \u{d9}\u{a5}",
    "Content-Length:",
    "Content-Length: 9223372036854775808",
    "Content-Length: 18446744073709551621",
    "Content-Length: 99999999999999999999999999",
    "Content-Length : 5",
    "Content-Length:\r\n 5",
    "Content-Length: 1\r\n 5",
    "X: a\r\n Content-Length: 5",
];

/// Codings nobody may send.
const CODINGS: [&str; 21] = [
    "Transfer-Encoding: chunked, identity",
    "Transfer-Encoding: identity",
    "Transfer-Encoding: identity, chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: \"chunked\"",
    "Transfer-Encoding: chunked;q=1",
    "Transfer-Encoding: ,chunked",
    "Transfer-Encoding: chunked,",
    "Transfer-Encoding: chunked\u{b}",
    "Transfer-Encoding: \u{b}chunked",
    "Transfer-Encoding: chunked\0",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding:",
    "Transfer-Encoding:\r\nContent-Length: 5",
    "Transfer-Encoding : chunked",
    "Transfer-Encoding\t: chunked",
    " Transfer-Encoding: chunked",
    "Transfer-Encoding:\r\n chunked",
    "X: a\r\n\tTransfer-Encoding: chunked",
];

#[test]
fn the_end_of_a_body_is_told_once_or_the_request_is_refused() {
    let zeros = "0".repeat(40);
    let old = ["Transfer-Encoding: chunked", "Content-Length: 5\r\nTransfer-Encoding: chunked"]
        .map(|lines| format!("POST /x HTTP/1.0\r\nHost: t\r\nConnection: keep-alive\r\n{lines}\r\n\r\n{CHUNKS}"));
    let far = [post(&format!("Content-Length: 1{zeros}"))];
    let all: Vec<(u16, String)> =
        LENGTHS.map(post).into_iter().chain(CODINGS.map(coded)).chain(old).chain(far).map(|sent| (400, sent)).collect();
    refused(&all);
}

#[test]
fn a_body_goes_on_with_one_end() {
    let plain = post("Content-Length: 5");
    let chunks = chunked(CHUNKS);
    let rows = [
        ("a length", plain.clone(), plain.clone()),
        ("blanks around a length", post("Content-Length: \t 5 \t"), plain.clone()),
        ("a zero before a length", post("Content-Length: 05"), plain.clone()),
        ("many zeros before a length", post(&format!("Content-Length: {}5", "0".repeat(200))), plain),
        ("chunks", chunks.clone(), chunks.clone()),
        ("a coding in capitals", coded("Transfer-Encoding: CHUNKED"), chunks.clone()),
        ("blanks around a coding", coded("Transfer-Encoding:\tchunked \t"), chunks.clone()),
        ("a length that Connection names", post("Connection: content-length\r\nContent-Length: 5"), chunks.clone()),
        (
            "a coding that Connection names",
            coded("Connection: transfer-encoding\r\nTransfer-Encoding: chunked"),
            chunks.clone(),
        ),
        (
            "a POST of nothing",
            "POST /x HTTP/1.1\r\nHost: t\r\n\r\n".into(),
            "POST /x HTTP/1.1\r\nHost: t\r\n\r\n".into(),
        ),
        (
            "a GET with a body",
            post("Content-Length: 5").replace("POST", "GET"),
            post("Content-Length: 5").replace("POST", "GET"),
        ),
        (
            "a HEAD with a body",
            post("Content-Length: 5").replace("POST", "HEAD"),
            post("Content-Length: 5").replace("POST", "HEAD"),
        ),
        ("a DELETE in chunks", chunks.replace("POST", "DELETE"), chunks.replace("POST", "DELETE")),
    ];
    passed(&rows, false);
    let both = [
        ("a length before chunks", coded("Content-Length: 4\r\nTransfer-Encoding: chunked"), chunks.clone()),
        ("a length behind chunks", coded("Transfer-Encoding: chunked\r\nContent-Length: 40"), chunks),
    ];
    passed(&both, true);
}

#[test]
fn a_chunk_is_read_in_one_way_or_the_request_is_refused() {
    let rows = [
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5 5\r\nhello\r\n0\r\n\r\n",
        "5,\r\nhello\r\n0\r\n\r\n",
        "5.0\r\nhello\r\n0\r\n\r\n",
        "5_5\r\nhello\r\n0\r\n\r\n",
        "\r\nhello\r\n0\r\n\r\n",
        ";a\r\nhello\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n",
        "ffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "00000000000000005\r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r0\r\n\r\n",
        "4\r\nhello\r\n0\r\n\r\n",
        "6\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\n\n",
        "5\r\nhello\r\n0\r\n\n",
        "5;a\nb\r\nhello\r\n0\r\n\r\n",
        "5;a\rb\r\nhello\r\n0\r\n\r\n",
        "5;a\0b\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\r\nhello\r\n0\r\n\r\n",
        "5;a=\"b\\\"\r\nhello\r\n0\r\n\r\n",
        "5;\nxx\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0;\n\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: y\r\n folded\r\n\r\n",
        "5\r\nhello\r\n0\r\nX : y\r\n\r\n",
        "5\r\nhello\r\n0\r\n: y\r\n\r\n",
        "5\r\nhello\r\n0\r\nnameless\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: \0\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: a\rb\r\n\r\n",
        "5\r\nhello\r\n0\r\nX: a\nb\r\n\r\n",
    ]
    .map(str::to_owned);
    let long = [
        format!("{}5\r\nhello\r\n0\r\n\r\n", "0".repeat(10_000)),
        format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(300_000)),
        format!("5\r\nhello\r\n0\r\nX: {}\r\n\r\n", "y".repeat(100_000)),
        format!("5\r\nhello\r\n0\r\n{}\r\n", "X: y\r\n".repeat(20_000)),
    ];
    refused(&rows.into_iter().chain(long).map(|body| (400, chunked(&body))).collect::<Vec<_>>());
}

/// What a chunk says besides its bytes ends here, and so do trailers.
#[test]
fn chunks_go_on_bare() {
    let goes = || chunked(CHUNKS);
    let row = |name, body: &str| (name, chunked(body), goes());
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(9000));
    let trailer = format!("5\r\nhello\r\n0\r\nX: {}\r\n\r\n", "y".repeat(60_000));
    passed(
        &[
            row("an extension", "5;a=b\r\nhello\r\n0;c\r\n\r\n"),
            row("an extension with blanks", "5 ; a = b\r\nhello\r\n0\r\n\r\n"),
            row("an extension without a name", "5;\r\nhello\r\n0\r\n\r\n"),
            row("a quoted extension", "5;a=\"b\\\"c;d\"\r\nhello\r\n0\r\n\r\n"),
            row("a long extension", &long),
            row("blanks behind a size", "5 \t\r\nhello\r\n0\r\n\r\n"),
            row("zeros before a size", "0000000000000005\r\nhello\r\n0000\r\n\r\n"),
            row("a trailer", "5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
            row("a length as a trailer", "5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n"),
            row("a coding as a trailer", "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n"),
            row("a host as a trailer", "5\r\nhello\r\n0\r\nHost: evil\r\n\r\n"),
            row("an address as a trailer", "5\r\nhello\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"),
            row("a long trailer", &trailer),
        ],
        false,
    );
}
