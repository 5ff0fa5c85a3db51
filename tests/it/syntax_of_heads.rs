//! Every malformed or ambiguous head of a request, a line each; how they are looked at is in `syntax_of_requests`.

use crate::rig::{self, Words};
use crate::syntax_of_requests::{CHUNKS, NEXT, get, line, passed, post, refused, start};

/// Lines nobody may send.
const LINES: [&str; 24] = [
    "X: a\r\n b\r\n",
    "X: a\r\n\tb\r\n",
    " \r\n",
    "X: a\rb\r\n",
    "X: a\rContent-Length: 3\r\n",
    "X: a\r\r\n",
    "X\r: a\r\n",
    "X: a\0b\r\n",
    "X: a\u{1}b\r\n",
    "X: a\u{b}b\r\n",
    "X: a\u{7f}b\r\n",
    "X\0: a\r\n",
    "X : a\r\n",
    "X\t: a\r\n",
    ": a\r\n",
    "X\r\n",
    "X\u{80}: a\r\n",
    "X(y): a\r\n",
    "\"X\": a\r\n",
    "X y: a\r\n",
    "Connection: host\r\n",
    "Connection: x-forwarded-for\r\n",
    "Connection: \"x\"\r\n",
    "Connection: a, b, c, d, e, f, g, h, i, j\r\n",
];

#[test]
fn a_header_is_read_in_one_way_or_the_request_is_refused() {
    let firsts = [
        "GET /x HTTP/1.1\r\n X: y\r\nHost: t\r\n\r\n",
        "GET /x HTTP/1.1\r\n Host: t\r\nHost: t\r\n\r\n",
        "GET /x HTTP/1.1\r\nHost: t\r\n u\r\n\r\n",
        "\rGET /x HTTP/1.1\r\nHost: t\r\n\r\n",
        " GET /x HTTP/1.1\r\nHost: t\r\n\r\n",
    ];
    let many = [
        (431, get(&"A: b\r\n".repeat(20))),
        (431, get(&"A: b\r\n".repeat(300))),
        (431, get(&format!("A: {}\r\n", "b".repeat(9000)))),
        (431, get(&format!("{}: b\r\n", "A".repeat(9000)))),
        (431, line(&format!("{} /x HTTP/1.1", "A".repeat(9000)))),
        (414, line(&format!("GET /{} HTTP/1.1", "x".repeat(2000)))),
    ];
    let malformed = LINES.map(get).into_iter().chain(firsts.map(str::to_owned));
    refused(&malformed.map(|sent| (400, sent)).chain(many).collect::<Vec<_>>());
}

#[test]
fn a_header_goes_on_in_one_form() {
    let plain = get("X: a\r\n");
    let same = |name, lines: &str| (name, get(lines), get(lines));
    passed(
        &[
            ("empty lines before it", format!("\r\n\r\n{plain}"), plain.clone()),
            ("bare LF before it", format!("\n\n{plain}"), plain.clone()),
            ("bare LF at every end", plain.replace("\r\n", "\n"), plain.clone()),
            ("bare LF at one end", get("X: a\nY: b\r\n"), get("X: a\r\nY: b\r\n")),
            ("no blank behind the colon", get("X:a\r\n"), plain.clone()),
            ("blanks around a value", get("X: \t a \t \r\n"), plain),
            ("no value", get("X:\r\n"), get("X: \r\n")),
            same("a tab in a value", "X: a\tb\r\n"),
            same("bytes above ASCII in a value", "X: \u{80}\u{ff}\r\n"),
            same("every byte of a token", "x!#$%&'*+-.^_`|~: a\r\n"),
            same("a name twice", "A: 1\r\nA: 2\r\n"),
            same("underscores", "api_key: x\r\nX_Y: a\r\n"),
            (
                "what looks like ours",
                get(
                    "X_Forwarded_For: 192.0.2.1\r\nX-Real_IP: 192.0.2.1\r\nContent_Length: 5\r\nTransfer_Encoding: chunked\r\n",
                ),
                get(""),
            ),
            ("what looks like what the route takes out", get("X-Internal: 1\r\nX_Internal: 1\r\n"), get("")),
            ("what looks like its neighbour", get("X_User: me\r\nX-User: you\r\n"), get("X-User: you\r\n")),
            (
                "what Connection names",
                get("Connection: X-A, cookie\r\nX-A: b\r\nCookie: c\r\nX-B: d\r\n"),
                get("X-B: d\r\n"),
            ),
            (
                "what is for one hop",
                get(
                    "Keep-Alive: 5\r\nProxy-Connection: keep-alive\r\nTE: trailers, deflate\r\nTrailer: X\r\nProxy-Authorization: Basic x\r\n",
                ),
                get(""),
            ),
            same("Expect without a body", "Expect: 100-continue\r\n"),
            same("an unknown Expect", "Expect: 200-ok\r\n"),
        ],
        false,
    );
}

/// Whatever else it says, and wherever.
#[test]
fn a_connection_that_is_to_close_closes() {
    passed(
        &[
            ("close", get("Connection: close\r\n"), get("")),
            ("close behind keep-alive", get("Connection: keep-alive, close\r\n"), get("")),
            ("close on a line of its own", get("Connection: keep-alive\r\nConnection: close\r\n"), get("")),
            (
                "close in HTTP/1.0",
                get("Connection: keep-alive\r\nConnection: close\r\n").replace("1.1", "1.0"),
                get(""),
            ),
        ],
        true,
    );
}

/// First lines nobody may send.
const FIRST: [&str; 35] = [
    "GET /x HTTP/1.2",
    "GET /x HTTP/2.0",
    "GET /x HTTP/0.9",
    "GET /x HTTP/1.10",
    "GET /x HTTP/1.1x",
    "GET /x HTTP/1",
    "GET /x HTTP/ 1.1",
    "GET /x http/1.1",
    "GET /x HTTP/1.1 ",
    "GET /x",
    "GET  /x HTTP/1.1",
    "GET /x  HTTP/1.1",
    "GET\t/x\tHTTP/1.1",
    "GET\u{b}/x HTTP/1.1",
    "GET\r/x HTTP/1.1",
    "G(T /x HTTP/1.1",
    "G\u{80}T /x HTTP/1.1",
    "GET: /x HTTP/1.1",
    "/x HTTP/1.1",
    "GET x HTTP/1.1",
    "GET * HTTP/1.1",
    "GET t:80 HTTP/1.1",
    "GET ftp://t/x HTTP/1.1",
    "GET http:///x HTTP/1.1",
    "GET http:/x HTTP/1.1",
    "GET http://u:p@t/x HTTP/1.1",
    "GET http://other/x HTTP/1.1",
    "GET http://t:8x/x HTTP/1.1",
    "GET http://t:99999/x HTTP/1.1",
    "GET http://t/x#f HTTP/1.1",
    "GET /x#f HTTP/1.1",
    "GET /x\0 HTTP/1.1",
    "GET /x\u{7f} HTTP/1.1",
    "GET /a%00b HTTP/1.1",
    "GET /a%2fb HTTP/1.1",
];

/// Hosts nobody may send.
const HOSTS: [&str; 16] = [
    "",
    "Host: a\r\nHost: b\r\n",
    "Host: a\r\nHost: a\r\n",
    "Host: a, b\r\n",
    "Host: a,b\r\n",
    "Host: u@a\r\n",
    "Host: a/b\r\n",
    "Host: a b\r\n",
    "Host: a\0\r\n",
    "Host: \u{80}\r\n",
    "Host: a:8x\r\n",
    "Host: a:99999\r\n",
    "Host: a:80:80\r\n",
    "Host: [::1\r\n",
    "Host: ::1\r\n",
    "Host : a\r\n",
];

#[test]
fn a_first_line_is_one_we_know_or_the_request_is_refused() {
    let other = ["GET http://t/x HTTP/1.1\r\nHost:\r\n\r\n".to_owned(), "GET /x\r\n".to_owned()];
    let not_allowed = [
        line("CONNECT t:80 HTTP/1.1"),
        line("CONNECT /x HTTP/1.1"),
        "TRACE /x HTTP/1.1\r\nHost: t\r\nMax-Forwards: 0\r\n\r\n".to_owned(),
        "OPTIONS * HTTP/1.1\r\nHost: t\r\nMax-Forwards: 0\r\n\r\n".to_owned(),
    ];
    let malformed = FIRST.map(line).into_iter();
    let malformed = malformed.chain(HOSTS.map(|lines| format!("GET /x HTTP/1.1\r\n{lines}\r\n"))).chain(other);
    refused(&malformed.map(|sent| (400, sent)).chain(not_allowed.map(|sent| (405, sent))).collect::<Vec<_>>());
}

#[test]
fn a_first_line_goes_on_in_origin_form() {
    let x = line("GET /x HTTP/1.1");
    let same = |name, first: &str| (name, line(first), line(first));
    let hops = |method: &str, hops: u32| format!("{method} /x HTTP/1.1\r\nHost: t\r\nMax-Forwards: {hops}\r\n\r\n");
    passed(
        &[
            ("an absolute target", line("GET http://t/x HTTP/1.1"), x.clone()),
            ("of another scheme than the connection's", line("GET https://t/x HTTP/1.1"), x.clone()),
            ("in capitals", line("GET HTTP://t/x HTTP/1.1"), x.clone()),
            ("without a Host", "GET http://t/x HTTP/1.1\r\n\r\n".into(), x),
            ("for the whole server", line("OPTIONS http://t HTTP/1.1"), line("OPTIONS * HTTP/1.1")),
            same("an asterisk", "OPTIONS * HTTP/1.1"),
            same("a method in small letters", "get /x HTTP/1.1"),
            same("a method of other bytes", "M-SEARCH!~ /x HTTP/1.1"),
            same("a long method", &format!("{} /x HTTP/1.1", "A".repeat(2000))),
            ("an empty Host", "GET /x HTTP/1.1\r\nHost:\r\n\r\n".into(), "GET /x HTTP/1.1\r\nHost: \r\n\r\n".into()),
            (
                "a Host in capitals",
                "GET /x HTTP/1.1\r\nHOST: T:080\r\n\r\n".into(),
                "GET /x HTTP/1.1\r\nHOST: T:080\r\n\r\n".into(),
            ),
            ("a TRACE that has hops left", hops("TRACE", 2), hops("TRACE", 1)),
            ("an OPTIONS that has hops left", hops("OPTIONS", 1), hops("OPTIONS", 0)),
            ("a GET has no hops", hops("GET", 0), hops("GET", 0)),
        ],
        false,
    );
}

/// HTTP/1.0 goes on as 1.1, which is more than a version: a Host, and no interim answers.
#[test]
fn http_1_0_goes_on_as_1_1() {
    let (origin, gateway) = start();
    let own = origin.address;
    let early =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    origin.answers(Words { bytes: early.to_vec(), ..Words::default() });
    for (sent, goes, stays) in [
        ("GET /x HTTP/1.0\r\n\r\n".to_owned(), format!("GET /x HTTP/1.1\r\nHost: {own}\r\n\r\n"), false),
        (line("GET /x HTTP/1.0"), line("GET /x HTTP/1.1"), false),
        (get("Connection: keep-alive\r\n").replace("1.1", "1.0"), get(""), true),
        (post("Expect: 100-continue\r\nContent-Length: 5").replace("1.1", "1.0"), post("Content-Length: 5"), false),
        ("GET http://Shop/x HTTP/1.0\r\n\r\n".into(), "GET /x HTTP/1.1\r\nHost: Shop\r\n\r\n".into(), false),
    ] {
        let mut raw = rig::raw(gateway.address());
        raw.send(&sent);
        let answer = raw.answer();
        assert_eq!((answer.status, answer.interim.len(), answer.closes()), (200, 0, !stays), "{sent}: {answer:?}");
        if !stays {
            assert_eq!(raw.rest(), b"", "{sent}");
        }
        let seen: Vec<String> = origin.take().into_iter().map(|seen| String::from_utf8(seen.bytes).unwrap()).collect();
        // the address of an origin is no fixed text, and where a Host of ours stands is nobody's business
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.split("\r\n").map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(seen.iter().map(|seen| sorted(seen)).collect::<Vec<_>>(), [sorted(&goes)], "{sent}");
    }
    assert_eq!(origin.odd(), [""; 0]);
}

/// A protocol that nobody switches to stays behind, and a body in front of a switch is a body.
#[test]
fn no_upgrade_carries_a_request_past_us() {
    let ws = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let (origin, gateway) = start();
    let asked = |sent: &str| {
        let mut raw = rig::raw(gateway.address());
        raw.send(format!("{sent}{NEXT}"));
        assert_eq!((raw.answer().status, raw.answer().status), (200, 200), "{sent}");
        let mut seen = origin.take();
        assert_eq!(seen.pop().unwrap().bytes, NEXT.as_bytes(), "{sent}");
        assert_eq!(seen.len(), 1, "{sent}: {seen:?}");
        String::from_utf8(seen.remove(0).bytes).unwrap()
    };
    for lines in [
        "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
        "Connection: upgrade\r\nUpgrade: TLS/1.0\r\n",
        "Connection: upgrade\r\nUpgrade: websocket, h2c\r\n",
        "Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n",
        "Upgrade: websocket\r\n",
        "Connection: keep-alive\r\nUpgrade: websocket\r\n",
    ] {
        assert_eq!(asked(&get(lines)), get(""), "{lines}");
    }
    // an origin that does not switch is answered for as ever
    let version = ws.replace("13", "777");
    for (lines, body) in [
        (ws.to_owned(), ""),
        (version, ""),
        (format!("{ws}Content-Length: 5\r\n"), "hello"),
        (format!("{ws}Transfer-Encoding: chunked\r\n"), CHUNKS),
    ] {
        let seen = asked(&format!("{}{body}", get(&lines)));
        let lower = seen.to_lowercase();
        assert!(
            lower.contains("\r\nupgrade: websocket\r\n") && lower.contains("\r\nconnection: upgrade\r\n"),
            "{seen}"
        );
        assert!(seen.ends_with(&format!("\r\n\r\n{body}")), "{seen}");
    }
    assert_eq!(origin.odd(), [""; 0]);
}
