//! Every way an origin of HTTP/2 may misbehave, a line each, on raw frames: what a client of either version sees, and whether the
//! connection to the origin is used again.

use crate::rig::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PUSH_PROMISE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, frame,
};
use crate::rig::{self, Answer, Ask, Close, Frames, Gateway};

use self::Then::{Kept, Left};

/// What becomes of the connection to the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Kept,
    Left,
}

/// What is asked, what is said to it, what the client sees, and what becomes of the connection.
struct Row {
    name: &'static str,
    method: &'static str,
    said: rig::frames::Words,
    sees: &'static str,
    then: Then,
}

fn row(name: &'static str, said: Vec<u8>, sees: &'static str, then: Then) -> Row {
    Row { name, method: "GET", said: rig::frames::Words { bytes: said, ..Default::default() }, sees, then }
}

impl Row {
    fn to(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    fn ends(mut self, how: Close) -> Self {
        self.said.ends = Some(how);
        self
    }

    fn early(mut self) -> Self {
        self.said.early = true;
        self
    }
}

fn head(flags: u8, lines: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | flags, 0, &block(lines.iter().copied()))
}

/// The header of an answer, and what follows it.
fn ok(lines: &[(&str, &str)], rest: &[Vec<u8>]) -> Vec<u8> {
    let lines = [&[(":status", "200")], lines].concat();
    [head(0, &lines), rest.concat()].concat()
}

fn data(text: &str) -> Vec<u8> {
    frame(DATA, 0, 0, text.as_bytes())
}

fn last(text: &str) -> Vec<u8> {
    frame(DATA, END_STREAM, 0, text.as_bytes())
}

fn whole() -> Vec<u8> {
    ok(&[], &[last("ok")])
}

fn reset(code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, 0, &code.to_be_bytes())
}

/// Streams up to the request's own, `less` it, were or will be looked at.
fn goaway(less: i32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[less.to_be_bytes(), code.to_be_bytes()].concat())
}

/// One thread, which keeps connections for its own requests; nothing is tried again.
fn start() -> (Frames, Gateway) {
    let origin = rig::frames();
    let text = "client_limits: { body_timeout: 500ms }\n\
                routes: [ { pool: p, retry: { safe: [], other: [] } } ]\n\
                pools: { p: { protocol: h2c, balance: { algorithm: p2c }, health: { probe: off }, origins: $origins, \
                timeouts: { connect: 200ms, send: 500ms, read: 400ms } } }\n";
    let gateway = rig::gateway(text).process("threads", "1").listener("h2c: true").named("a", origin.address).start();
    (origin, gateway)
}

/// What the client makes of it: status, the lines that are not ours, body and trailers; or `cut`.
fn shown(answer: Result<Answer, String>) -> String {
    let Ok(answer) = answer else { return "cut".to_owned() };
    if answer.header("proxy-status").is_some() {
        let error = answer.text();
        let error = error.split(": ").nth(1).unwrap_or("").split(' ').next().unwrap_or("").to_owned();
        return format!("{} {error}", answer.status);
    }
    let framing = ["date", "connection", "content-length", "transfer-encoding"];
    let lines = answer.headers.iter().filter(|(name, _)| !framing.contains(&name.to_lowercase().as_str()));
    let lines: String = lines.map(|(name, value)| format!("{}: {value}; ", name.to_lowercase())).collect();
    format!("{} {lines}{}", answer.status, answer.text())
}

fn asked(gateway: &Gateway, ask: &Ask, http2: bool) -> String {
    if http2 {
        return shown(rig::h2c(gateway.address(), std::slice::from_ref(ask)).remove(0));
    }
    shown(gateway.client().send(ask).map_err(|error| error.to_string()))
}

/// Each is asked for by either version, and something else behind it.
fn check(rows: &[Row]) {
    let (origin, gateway) = start();
    let mut wrong = Vec::new();
    for row in rows {
        for http2 in [false, true] {
            let ask = Ask::new(row.method, "/x");
            let ask = if row.method == "POST" { ask.body(vec![b'x'; 40_000]) } else { ask };
            origin.answers(row.said.clone());
            let seen = asked(&gateway, &ask, http2);
            // a body has a connection of its own, which is looked for by the next that has one
            let next = if row.method == "POST" { Ask { target: "/next".to_owned(), ..ask } } else { Ask::get("/next") };
            let next = asked(&gateway, &next, http2);
            let came: Vec<usize> = origin.take().iter().map(|(connection, _)| *connection).collect();
            let then = came.first().zip(came.get(1)).map(|(one, other)| if one == other { Kept } else { Left });
            if (&*seen, &*next, then) != (row.sees, "200 ok", Some(row.then)) {
                wrong.push(format!("{} {http2}: {seen:?}, {then:?}, then {next:?}, {:?}", row.name, origin.given_up()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_answer_is_whole_or_seen_to_be_cut() {
    let invalid = "502 invalid_response";
    check(&[
        row("no length", whole(), "200 ok", Kept),
        row("a length", ok(&[("content-length", "2")], &[last("ok")]), "200 ok", Kept),
        row("in pieces", ok(&[("content-length", "2")], &[data("o"), data(""), data("k"), last("")]), "200 ok", Kept),
        row("padded", ok(&[], &[frame(DATA, END_STREAM | 8, 0, b"\x03ok\0\0\0")]), "200 ok", Kept),
        row("equal lengths", ok(&[("content-length", "2"), ("content-length", "2")], &[last("ok")]), "200 ok", Kept),
        row("too short", ok(&[("content-length", "3")], &[last("ok")]), "cut", Kept),
        row("too long", ok(&[("content-length", "1")], &[last("ok")]), "cut", Kept),
        row("none of it", head(END_STREAM, &[(":status", "200"), ("content-length", "2")]), invalid, Kept),
        row("two lengths", ok(&[("content-length", "2"), ("content-length", "3")], &[last("ok")]), invalid, Kept),
        row("no number", ok(&[("content-length", "x")], &[last("ok")]), invalid, Kept),
        row("never ends", ok(&[], &[data("ok")]), "cut", Left),
        row("no header", Vec::new(), "504 response_timeout", Left),
        row("reset in it", ok(&[], &[data("o"), reset(8)]), "cut", Kept),
        row("reset without error in it", ok(&[], &[data("o"), reset(0)]), "cut", Kept),
        row("reset behind it", [whole(), reset(0)].concat(), "200 ok", Kept),
        row("reset instead", reset(2), "502 reset", Kept),
        row("goaway in it", ok(&[], &[data("o"), goaway(0, 2)]), "cut", Left).ends(Close::Fin),
        row("goaway in peace before the rest", ok(&[], &[data("o"), goaway(0, 0), last("k")]), "200 ok", Left),
        row("goaway for it in its middle", ok(&[], &[data("o"), goaway(-1, 0)]), "cut", Left),
        row("closed in it", ok(&[], &[data("o")]), "cut", Left).ends(Close::Fin),
        row("closed in its length", ok(&[("content-length", "2")], &[data("o")]), "cut", Left).ends(Close::Fin),
        row("torn in it", ok(&[], &[data("o")]), "cut", Left).ends(Close::Rst),
        row("closed within a frame", ok(&[], &[last("ok")[..10].to_vec()]), "cut", Left).ends(Close::Fin),
        row("closed before it", Vec::new(), "502 stale", Left).ends(Close::Fin),
        row("torn before it", Vec::new(), "502 stale", Left).ends(Close::Rst),
        row("trailers", ok(&[], &[data("ok"), head(END_STREAM, &[("x-end", "1")])]), "200 ok", Kept),
        row("trailers with a status", ok(&[], &[data("ok"), head(END_STREAM, &[(":status", "200")])]), "200 ok", Kept),
        row("trailers without an end", ok(&[], &[data("ok"), head(0, &[("x-end", "1")])]), "cut", Kept),
    ]);
}

#[test]
fn an_answer_without_a_body_has_none() {
    let empty = |status: &'static str| head(END_STREAM, &[(":status", status), ("content-length", "2")]);
    let full = |status: &'static str| [head(0, &[(":status", status)]), last("ok")].concat();
    check(&[
        row("to HEAD", head(END_STREAM, &[(":status", "200"), ("content-length", "2")]), "200 ", Kept).to("HEAD"),
        row("to HEAD, in two", [head(0, &[(":status", "200")]), last("")].concat(), "200 ", Kept).to("HEAD"),
        row("204", head(END_STREAM, &[(":status", "204")]), "204 ", Kept),
        row("204 of a length", empty("204"), "204 ", Kept),
        row("204 with a body", full("204"), "204 ", Kept),
        row("304 of a length", empty("304"), "304 ", Kept),
        row("304 with a body", full("304"), "304 ", Kept),
    ]);
    // To HEAD the library takes it for a broken answer, whose header has gone on.
    let (origin, gateway) = start();
    for (http2, sees) in [(false, "200 "), (true, "cut")] {
        origin.answers(rig::frames::Words { bytes: full("200"), ..Default::default() });
        assert_eq!(asked(&gateway, &Ask::new("HEAD", "/x"), http2), sees);
    }
}

#[test]
fn a_header_has_one_reading_or_there_is_no_answer() {
    let invalid = "502 invalid_response";
    let many: Vec<(String, String)> = (0..300).map(|n| (format!("x-{n}"), "a".to_owned())).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (&**name, &**value)).collect();
    let two_mib: String = "a".repeat(2 << 20);
    let pieces = |block: &[u8]| {
        let mut frames = Vec::new();
        let count = block.chunks(16_000).count();
        for (n, piece) in block.chunks(16_000).enumerate() {
            let (kind, end) =
                (if n == 0 { HEADERS } else { CONTINUATION }, if n + 1 == count { END_HEADERS } else { 0 });
            frames.push(frame(kind, end, 0, piece));
        }
        frames.concat()
    };
    let long = |value: &str| [pieces(&block([(":status", "200"), ("x", value)])), last("ok")].concat();
    let bad = |name, lines: &[(&str, &str)]| row(name, [head(0, lines), last("ok")].concat(), invalid, Kept);
    let broken = |name, lines: &[(&str, &str)]| row(name, [head(0, lines), last("ok")].concat(), invalid, Left);
    check(&[
        row("a line", ok(&[("x", "a")], &[last("ok")]), "200 x: a; ok", Kept),
        row("in pieces", long("a"), "200 x: a; ok", Kept),
        row("of another connection", ok(&[("connection", "x")], &[last("ok")]), invalid, Kept),
        row("a coding", ok(&[("transfer-encoding", "chunked")], &[last("ok")]), invalid, Kept),
        row("a switch", ok(&[("upgrade", "websocket")], &[last("ok")]), invalid, Kept),
        row("lines of one hop", ok(&[("keep-alive", "5"), ("proxy-connection", "x")], &[last("ok")]), invalid, Kept),
        bad("no status", &[("x", "a")]),
        bad("two", &[(":status", "200"), (":status", "200")]),
        bad("behind a line", &[("x", "a"), (":status", "200")]),
        row("a request's", [head(0, &[(":status", "200"), (":path", "/")]), last("ok")].concat(), "200 ok", Kept),
        broken("a word", &[(":status", "abc")]),
        broken("none", &[(":status", "")]),
        broken("of four digits", &[(":status", "2000")]),
        broken("unknown", &[(":status", "200"), (":x", "/")]),
        broken("upper case", &[(":status", "200"), ("X", "a")]),
        broken("no name", &[(":status", "200"), ("", "a")]),
        broken("a blank in a name", &[(":status", "200"), ("x y", "a")]),
        broken("NUL", &[(":status", "200"), ("x", "a\0b")]),
        broken("a line's end", &[(":status", "200"), ("x", "a\r\nset-cookie: b")]),
        row("300 lines", ok(&many, &[last("ok")]), invalid, Kept),
        row("two MiB", long(&two_mib), invalid, Kept),
        row("no HPACK", frame(HEADERS, END_HEADERS, 0, b"\xff\xff\xff\xff\xff\xff"), invalid, Left),
    ]);
}

#[test]
fn interim_answers_end_here() {
    let invalid = "502 invalid_response";
    let early = head(0, &[(":status", "103"), ("link", "</a>")]);
    check(&[
        row("one", [early.clone(), whole()].concat(), "200 ok", Kept),
        row("a hundred", [early.repeat(100), whole()].concat(), "200 ok", Kept),
        row("100", [head(0, &[(":status", "100")]), whole()].concat(), "200 ok", Kept),
        row("101", [head(0, &[(":status", "101")]), whole()].concat(), "200 ok", Kept),
        row("the last", head(END_STREAM, &[(":status", "103")]), invalid, Kept),
        row("behind the answer", ok(&[], &[early.clone(), last("ok")]), "cut", Kept),
        row("nothing else", early.clone(), "504 response_timeout", Left),
    ]);
}

#[test]
fn frames_out_of_place_end_what_they_break() {
    let invalid = "502 invalid_response";
    let promise = frame(PUSH_PROMISE, END_HEADERS, 0, &[b"\0\0\0\x02".to_vec(), block([(":method", "GET")])].concat());
    check(&[
        row("unknown", [frame(99, 0, 0, b"?"), whole()].concat(), "200 ok", Kept),
        row("settings", [frame(SETTINGS, 0, 0, b"\0\x04\0\0\x10\0"), whole()].concat(), "200 ok", Kept),
        row("ping", [frame(PING, 0, 0, b"how far?"), whole()].concat(), "200 ok", Kept),
        row("promise", [promise, whole()].concat(), invalid, Left),
        row("data first", last("ok"), invalid, Left),
        row("another stream", [frame(HEADERS, 5, 2, b"\x88"), whole()].concat(), invalid, Left),
        row("of the connection", [frame(SETTINGS, 0, 1, b""), whole()].concat(), invalid, Left),
        row("no window", [frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\0"), whole()].concat(), invalid, Left),
        row("half a block", [frame(HEADERS, 0, 0, b"\x88"), last("ok")].concat(), invalid, Left),
        row("too large", [b"\xff\xff\xff\0\0\0\0\0\0".to_vec(), whole()].concat(), invalid, Left),
        row("HTTP/1.1", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec(), invalid, Left),
    ]);
}

#[test]
fn an_answer_before_the_whole_request_goes_on() {
    check(&[
        row("then stop", [whole(), reset(0)].concat(), "200 ok", Kept).to("POST").early(),
        row("and read on", whole(), "200 ok", Kept).to("POST").early(),
        row("refused", [head(0, &[(":status", "413")]), last("no")].concat(), "413 no", Kept).to("POST").early(),
        row("reset", reset(8), "502 reset", Kept).to("POST").early(),
    ]);
}

/// One thread for all: whoever floods it is not to take it from others, nor what it has of memory.
#[test]
fn what_is_sent_without_end_costs_bounded_memory_and_nobody_else() {
    let (origin, other) = (rig::frames(), rig::frames());
    let pool =
        "protocol: h2c, balance: { algorithm: p2c }, health: { probe: off }, timeouts: { connect: 200ms, read: 400ms }";
    let text = format!(
        "pools:\n  p: {{ origins: [$a], {pool} }}\n  q: {{ origins: [$b], {pool} }}\n\
         routes: [ {{ pool: p, retry: {{ tries: 1 }} }}, {{ match: {{ path: {{ prefix: /other }} }}, pool: q }} ]\n"
    );
    let gateway = rig::gateway(&text).process("threads", "1");
    let gateway = gateway.named("a", origin.address).named("b", other.address).start();
    let begun = ok(&[], &[]);
    let line = block([("x", "a")]);
    let header = [frame(HEADERS, 0, 0, b"\x88"), frame(CONTINUATION, 0, 0, &block([("x", &*"a".repeat(16_000))]))];
    for (name, bytes, flood, sees) in [
        ("settings", b"".to_vec(), frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\x64"), "504 response_timeout"),
        ("pings", b"".to_vec(), frame(PING, 0, 0, b"how far?"), "504 response_timeout"),
        ("frames of no kind", b"".to_vec(), frame(99, 0, 0, b"what?"), "504 response_timeout"),
        ("hints", b"".to_vec(), frame(HEADERS, END_HEADERS, 0, &block([(":status", "103")])), "504 response_timeout"),
        ("windows", b"".to_vec(), frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01"), "504 response_timeout"),
        ("nothing", begun.clone(), frame(DATA, 0, 0, b""), "cut"),
        ("lines", frame(HEADERS, 0, 0, b"\x88"), frame(CONTINUATION, 0, 0, &line), "502 invalid_response"),
        ("a header", header[0].clone(), header[1].clone(), "502 invalid_response"),
    ] {
        assert_eq!(asked(&gateway, &Ask::get("/other"), false), "200 ok");
        let before = gateway.footprint().memory;
        let peak = rig::Peak::of(gateway.pid());
        origin.answers(rig::frames::Words { bytes, flood: flood.repeat(100), ..Default::default() });
        std::thread::scope(|scope| {
            let flooded = scope.spawn(|| asked(&gateway, &Ask::get("/x"), false));
            rig::eventually("it begins", || (origin.floods() == 1 || flooded.is_finished()).then_some(()));
            for _ in 0..20 {
                assert_eq!(asked(&gateway, &Ask::get("/other"), false), "200 ok", "beside {name}");
            }
            assert_eq!(flooded.join().unwrap(), sees, "{name}");
        });
        // one that reads no answer to its pings is given up by the kernel, after 20 s
        let ends = rig::within(rig::PATIENCE * 2, || (origin.floods() == 0).then_some(()));
        assert_eq!(ends, Some(()), "{name} end");
        let grown = peak.stop().saturating_sub(before);
        assert!(grown < 48 << 20, "{name}: {grown} bytes more");
    }
    assert_eq!(asked(&gateway, &Ask::get("/x"), false), "200 ok");
}
