//! Every way an origin may misbehave, a line each: what it says, what the client sees, and whether the connection to the
//! origin is used again. What is in doubt is no answer, and nothing that came unasked is anybody's.

use std::time::Duration;

use crate::rig::{self, Gateway, Strict, Words};

const OK: &str = "HTTP/1.1 200 OK\r\n";
const TWO: &str = "Content-Length: 2\r\n\r\nok";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";
const GET: &str = "GET /x HTTP/1.1\r\nHost: t\r\n\r\n";
const HEAD: &str = "HEAD /x HTTP/1.1\r\nHost: t\r\n\r\n";
const NEXT: &str = "GET /next HTTP/1.1\r\nHost: t\r\n\r\n";

/// What becomes of the connection to the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Kept,
    Left,
}
use Then::{Kept, Left};

/// One thread, which keeps connections for its own requests; nothing is tried again.
fn start() -> (Strict, Gateway) {
    let origin = rig::strict();
    let text = "client_limits: { body_timeout: 500ms }\n\
                routes: [ { pool: p, retry: { safe: [], other: [] } } ]\n\
                pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins, \
                timeouts: { connect: 200ms, read: 400ms } } }\n";
    let gateway = rig::gateway(text).process("threads", "1").named("a", origin.address).start();
    (origin, gateway)
}

/// As Latin-1, so that a table may hold any byte.
fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|byte| u8::try_from(u32::from(byte)).unwrap()).collect()
}

/// What the client makes of it: statuses, the lines that are not ours, the body; or `cut`.
fn shown(raw: &mut rig::Raw, method: &str) -> (String, bool) {
    let Ok(answer) = raw.answer_to(method) else { return ("cut".to_owned(), true) };
    if answer.header("proxy-status").is_some() {
        let error = answer.text();
        let error = error.split(": ").nth(1).unwrap_or("").split(' ').next().unwrap_or("").to_owned();
        return (format!("{} {error}", answer.status), answer.closes());
    }
    let interim: String = answer.interim.iter().map(|status| format!("{status} ")).collect();
    let ours = ["date", "connection"];
    let lines = answer.headers.iter().filter(|(name, _)| !ours.contains(&name.to_lowercase().as_str()));
    let lines: String = lines.map(|(name, value)| format!("{name}: {value}; ")).collect();
    (format!("{interim}{} {lines}{}", answer.status, answer.text()), answer.closes())
}

/// Each is asked for on a connection of its own; where that goes on, so does what is asked behind it.
fn check(rows: &[(&str, &str, String, Then)]) {
    run(&start(), rows, false);
}

fn run((origin, gateway): &(Strict, Gateway), rows: &[(&str, &str, String, Then)], ends: bool) {
    for (request, sees, said, then) in rows {
        let name: String = format!("{}", said.escape_debug()).chars().take(160).collect();
        origin.answers(Words { bytes: bytes(said), ends, ..Words::default() });
        let mut raw = rig::raw(gateway.address());
        raw.send(request);
        let (seen, closes) = shown(&mut raw, request.split(' ').next().unwrap());
        assert_eq!(seen, *sees, "{name}");
        if closes {
            assert_eq!(raw.rest(), b"", "{name}: the end");
            raw = rig::raw(gateway.address());
        }
        raw.send(NEXT);
        assert_eq!(shown(&mut raw, "GET").0, "200 Content-Length: 2; ok", "{name}: the next answer");
        let came: Vec<usize> = origin.take().iter().map(|seen| seen.connection).collect();
        let [first, second] = came[..] else { panic!("{name}: {came:?}") };
        assert_eq!(if first == second { Kept } else { Left }, *then, "{name}: the connection");
    }
    assert_eq!(origin.odd(), [""; 0]);
    let log = gateway.await_log(2 * rows.len());
    let refused = log.iter().filter(|line| line["error"] == "invalid_response").count();
    let expected = rows.iter().filter(|row| row.1.ends_with("invalid_response")).count();
    assert!(refused >= expected, "{refused} of {expected} are in the log");
    let failed = gateway.metrics().sum("moorgate_attempts_total", &[("outcome", "invalid_response")]);
    assert_eq!(failed.round() as usize, refused, "and counted");
}

#[test]
fn a_status_line_is_one_we_know_or_there_is_no_answer() {
    let good = |line: &str| (GET, "200 Content-Length: 2; ok", format!("{line}\r\n{TWO}"), Kept);
    let bad = |line: &str| (GET, "502 invalid_response", format!("{line}\r\n{TWO}"), Left);
    let mut rows =
        ["HTTP/1.1 200", "HTTP/1.1 200 ", "HTTP/1.1 200 Fine By Me", "HTTP/1.1 200 \u{e9}"].map(good).to_vec();
    rows.push(good(&format!("HTTP/1.1 200 {}", "x".repeat(70_000))));
    rows.push(good("\r\n\r\nHTTP/1.1 200 OK"));
    // 1.0 keeps no connection of its own accord
    rows.push((GET, "200 Content-Length: 2; ok", format!("HTTP/1.0 200 OK\r\n{TWO}"), Left));
    rows.push((GET, "200 Content-Length: 2; ok", format!("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n{TWO}"), Kept));
    rows.push((GET, "999 Content-Length: 2; ok", format!("HTTP/1.1 999 X\r\n{TWO}"), Kept));
    rows.extend(
        [
            "HTTP/1.2 200 OK",
            "HTTP/2.0 200 OK",
            "HTTP/0.9 200 OK",
            "http/1.1 200 OK",
            "ICY 200 OK",
            "hello there",
            "HTTP/1.1 000 X",
            "HTTP/1.1 099 X",
            "HTTP/1.1 20 X",
            "HTTP/1.1 2000 X",
            "HTTP/1.1 abc X",
            "HTTP/1.1  200 OK",
            "HTTP/1.1 200 a\u{1}b",
            "HTTP/1.1 200 a\rX: y",
            "x\r\nHTTP/1.1 200 OK",
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket",
        ]
        .map(bad),
    );
    // HTTP/2, and what a listener with TLS says to us
    rows.push((GET, "502 invalid_response", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0".into(), Left));
    rows.push((GET, "502 invalid_response", "\0\0\0\u{4}\0\0\0\0\0".into(), Left));
    rows.push((GET, "502 invalid_response", "\u{15}\u{3}\u{1}\0\u{2}\u{2}\u{28}\r\n\r\n".into(), Left));
    check(&rows);
}

#[test]
fn a_header_line_is_read_in_one_way_or_there_is_no_answer() {
    let good = |sees, lines: &str| (GET, sees, format!("{OK}{lines}\r\n{TWO}"), Kept);
    let bad = |lines: &str| (GET, "502 invalid_response", format!("{OK}{lines}\r\n{TWO}"), Left);
    let mut rows = vec![
        // RFC 9112, sections 5.1 and 5.2: a gateway mends these in an answer
        good("200 X: a b; Content-Length: 2; ok", "X: a\r\n b"),
        good("200 X: a Content-Length: 3; Content-Length: 2; ok", "X: a\r\n Content-Length: 3"),
        good("200 X: a; Content-Length: 2; ok", "X : a"),
        good("200 X: a; Y: b; Content-Length: 2; ok", "X: a\nY: b"),
        good("200 X: \u{e9}; Content-Length: 2; ok", "X: \u{e9}"),
        good("200 X_Y: a; Content-Length: 2; ok", "X_Y: a"),
        good(
            "200 Content-Length: 2; ok",
            "Connection: X-A\r\nX-A: b\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nTrailer: y\r\nUpgrade: h2c",
        ),
        good("200 Content-Length: 2; ok", "Connection: content-length"),
        (GET, "200 Content-Length: 2; ok", format!("HTTP/1.1 200 OK\n{}", TWO.replace("\r\n", "\n")), Kept),
    ];
    rows.extend(
        [
            " X: a",
            "X: a\0b",
            "X: a\u{1}b",
            "X: a\rY: b",
            "X",
            ": x",
            "X(y): a",
            "X\u{80}: a",
            "Content-Length : 5",
            &vec!["X: a"; 3000].join("\r\n"),
            &format!("X: {}", "a".repeat(2 << 20)),
        ]
        .map(bad),
    );
    let (origin, gateway) = start();
    run(&(origin, gateway), &rows, false);
}

#[test]
fn the_end_of_an_answer_is_told_once_or_there_is_no_answer() {
    let length = |sees, lines: &str, then| (GET, sees, format!("{OK}{lines}\r\n\r\nok"), then);
    let coded = |sees, lines: &str, then| (GET, sees, format!("{OK}{lines}\r\n\r\n2\r\nok\r\n0\r\n\r\n"), then);
    let one = "200 Content-Length: 2; ok";
    let chunks = "200 Transfer-Encoding: chunked; ok";
    let none = "502 invalid_response";
    let mut rows = vec![
        length(one, "Content-Length: 2", Kept),
        length(one, "Content-Length: 2\r\nContent-Length: 2", Kept),
        length(one, "Content-Length: 2, 2", Kept),
        length(one, "Content-Length: 02", Kept),
        coded(chunks, "Transfer-Encoding: chunked", Kept),
        // the chunks count, as RFC 9112, section 6.3 has it
        coded(chunks, "Content-Length: 3\r\nTransfer-Encoding: chunked", Kept),
        coded(chunks, "Transfer-Encoding: chunked\r\nContent-Length: 3", Kept),
    ];
    rows.extend(
        [
            "Content-Length: 2\r\nContent-Length: 3",
            "Content-Length: 2, 3",
            "Content-Length: +2",
            "Content-Length: -2",
            "Content-Length: 0x2",
            "Content-Length:",
            "Content-Length: 99999999999999999999",
        ]
        .map(|lines| length(none, lines, Left)),
    );
    rows.extend(
        [
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: identity",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: \u{b}chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        ]
        .map(|lines| coded(none, lines, Left)),
    );
    check(&rows);
}

#[test]
fn a_chunk_of_an_answer_is_read_in_one_way_or_the_answer_is_cut() {
    let whole = |body: &str, then| (GET, "200 Transfer-Encoding: chunked; ok", format!("{OK}{CHUNKED}{body}"), then);
    let cut = |body: &str| (GET, "cut", format!("{OK}{CHUNKED}{body}"), Left);
    let mut rows = vec![
        whole("2;a=b\r\nok\r\n0;c\r\n\r\n", Kept),
        whole("2\r\nok\r\n0\r\nX: y\r\n\r\n", Kept),
        whole("2\r\nok\r\n0\r\n\r\nEXCESS", Left),
        whole("2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison", Left),
    ];
    rows.extend(
        [
            "0x2\r\nok\r\n0\r\n\r\n",
            "+2\r\nok\r\n0\r\n\r\n",
            "2\nok\r\n0\r\n\r\n",
            "2\r\nok\n0\r\n\r\n",
            "2\r\nok0\r\n\r\n",
            "zz\r\nok\r\n0\r\n\r\n",
            "10000000000000002\r\nok\r\n0\r\n\r\n",
            "ffffffffffffffff\r\nok\r\n0\r\n\r\n",
            &format!("{}2\r\nok\r\n0\r\n\r\n", "0".repeat(1000)),
            &format!("2;{}\r\nok\r\n0\r\n\r\n", "a".repeat(100_000)),
        ]
        .map(cut),
    );
    check(&rows);
}

#[test]
fn an_answer_without_a_body_has_none_whatever_it_says() {
    let no_content = |rest: &str, then| (GET, "204 ", format!("HTTP/1.1 204 No Content\r\n{rest}"), then);
    let same = |sees, rest: &str, then| (GET, sees, format!("HTTP/1.1 304 Not Modified\r\n{rest}"), then);
    let to_head = |sees, rest: &str, then| (HEAD, sees, format!("{OK}{rest}"), then);
    check(&[
        no_content("\r\n", Kept),
        no_content("Content-Length: 0\r\n\r\n", Kept),
        no_content(TWO, Left),
        no_content("Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", Left),
        same("304 ", "\r\n", Kept),
        same("304 Content-Length: 2; ", "Content-Length: 2\r\n\r\n", Kept),
        same("304 Content-Length: 2; ", TWO, Left),
        same("304 Transfer-Encoding: chunked; ", CHUNKED, Kept),
        to_head("200 Content-Length: 2; ", "Content-Length: 2\r\n\r\n", Kept),
        to_head("200 Content-Length: 2; ", TWO, Left),
        to_head("200 Transfer-Encoding: chunked; ", CHUNKED, Kept),
        to_head("200 Transfer-Encoding: chunked; ", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", Left),
        to_head("200 Transfer-Encoding: chunked; ", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", Kept),
    ]);
}

#[test]
fn interim_answers_have_neither_bodies_nor_end() {
    let ok = format!("{OK}{TWO}");
    let behind = |sees, interim: &str, then| (GET, sees, format!("{interim}{ok}"), then);
    let early = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let all = format!("{}200 Content-Length: 2; ok", "103 ".repeat(100));
    let mut rows = vec![
        behind("100 200 Content-Length: 2; ok", "HTTP/1.1 100 Continue\r\n\r\n", Kept),
        behind("102 200 Content-Length: 2; ok", "HTTP/1.1 102 Processing\r\n\r\n", Kept),
        behind("199 200 Content-Length: 2; ok", "HTTP/1.1 199 X\r\n\r\n", Kept),
        behind("100 103 200 Content-Length: 2; ok", &format!("HTTP/1.1 100 Continue\r\n\r\n{early}"), Kept),
        behind(&all, &early.repeat(100), Kept),
        behind("502 invalid_response", &early.repeat(101), Left),
        behind("502 invalid_response", "HTTP/1.1 101 X\r\n\r\n", Left),
    ];
    let (origin, gateway) = start();
    run(&(origin, gateway), &rows, false);
    // nothing of the hop behind us, and nothing that could be a body's
    rows = vec![behind(
        "",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: X-A\r\nX-A: b\r\nKeep-Alive: 5\r\n\r\n",
        Kept,
    )];
    let (origin, gateway) = start();
    origin.answers(Words { bytes: bytes(&rows[0].2), ..Words::default() });
    let mut raw = rig::raw(gateway.address());
    raw.send(GET);
    let interim: Vec<String> = (0..3).map(|_| raw.line()).collect();
    assert_eq!(interim, ["HTTP/1.1 103 Early Hints", "Link: </a>", ""]);
    assert_eq!(raw.answer().text(), "ok");
}

/// A cut answer is never a whole one, wherever it is cut.
#[test]
fn an_origin_that_leaves_early_is_told_of() {
    let cut = |said: &str| (GET, "cut", said.to_owned(), Left);
    let failed = |sees, said: &str| (GET, sees, said.to_owned(), Left);
    let rows = [
        failed("502 reset", "HTTP/1.1 20"),
        failed("502 reset", "HTTP/1.1 200 OK\r\nContent-Le"),
        failed("502 reset", "HTTP/1.1 103 Early Hints\r\n\r\n"),
        cut("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"),
        cut("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
        cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe"),
        cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        cut("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"),
        (GET, "200 Transfer-Encoding: chunked; hello", "HTTP/1.1 200 OK\r\n\r\nhello".into(), Left),
        (GET, "502 invalid_response", "<html>hello</html>".into(), Left),
    ];
    run(&start(), &rows, true);
}

/// What comes behind an answer, or on a connection that waits for its next request, is nobody's answer.
#[test]
fn an_answer_nobody_asked_for_poisons_nobody() {
    let poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
    let row = |said: String| (GET, "200 Content-Length: 2; ok", said, Left);
    let rows = [row(format!("{OK}{TWO}EXCESS")), row(format!("{OK}{TWO}{poison}")), row(format!("{OK}{TWO}\r\n"))];
    check(&rows);
    let (origin, gateway) = start();
    for unasked in [poison, "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n", "x"] {
        assert_eq!(gateway.get("/first").text(), "ok");
        let first = origin.take().remove(0).connection;
        origin.say(first, unasked.as_bytes());
        assert_eq!(gateway.get("/second").text(), "ok");
        assert_ne!(origin.take().remove(0).connection, first, "{unasked:?}: the connection is left");
    }
}

/// An origin need not wait for the whole of a request it refuses; its answer gets through, and neither connection is used
/// again, since what is owed of the body would be read as a request.
#[test]
fn an_early_answer_reaches_a_client_that_still_sends() {
    let (origin, gateway) = start();
    for (name, ends) in [("the origin stays", false), ("the origin leaves", true)] {
        origin.answers(Words { bytes: bytes(&format!("HTTP/1.1 403 Forbidden\r\n{TWO}")), ends, early: true });
        let mut raw = rig::raw(gateway.address());
        raw.send("POST /x HTTP/1.1\r\nHost: t\r\nContent-Length: 300000\r\n\r\n");
        raw.send(vec![b'x'; 1000]);
        let answer = raw.answer();
        assert_eq!((answer.status, answer.closes()), (403, true), "{name}: {answer:?}");
        // it goes on for a while, as clients do that look at the answer later, and then says nothing for `body_timeout`
        let _ = raw.try_send(vec![b'x'; 100_000]);
        assert_eq!(raw.rest(), b"", "{name}");
        assert_eq!(gateway.get("/next").text(), "ok", "{name}");
        let came = origin.take();
        assert_eq!(came.len(), 1, "{name}: the upload never became whole: {came:?}");
    }
    assert_eq!(origin.odd(), [""; 0]);
    assert!(rig::within(Duration::from_secs(5), || (gateway.log().len() >= 4).then_some(())).is_some());
}
