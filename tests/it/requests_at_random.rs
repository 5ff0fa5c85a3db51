//! Requests that were good, with pieces of them moved, doubled, lost or put in: whatever the gateway makes of them, an
//! origin that reads to the letter ([`rig::strict`]) finds nothing odd, and reads as whole requests just those that the
//! gateway logged as answered by it. A request hidden in another's body or header would be one too many.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fastrand::Rng;

use crate::rig;

/// What a mutation puts in.
const PIECES: [&str; 40] = [
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    "\0",
    "\u{b}",
    ":",
    ";",
    ",",
    "\"",
    "0",
    "5",
    "0\r\n\r\n",
    "\r\n\r\n",
    "ffffffffffffffff",
    "HTTP/1.0",
    "HTTP/1.1",
    "GET /hidden HTTP/1.1\r\nHost: t\r\n\r\n",
    "Host: t\r\n",
    "Host: u\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 40\r\n",
    "Content-Length : 5\r\n",
    " Content-Length: 5\r\n",
    "Content_Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: identity\r\n",
    "Transfer-Encoding:\r\n chunked\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "transfer_encoding: chunked\r\n",
    "Connection: close\r\n",
    "Connection: content-length, transfer-encoding\r\n",
    "Connection: keep-alive\r\n",
    "Connection: upgrade\r\nUpgrade: websocket\r\n",
    "Connection: upgrade\r\nUpgrade: h2c\r\n",
    "Expect: 100-continue\r\n",
    "5;a=\"\r\nhello\r\n",
    "\u{e9}",
];

/// Connections at once, each with so many in a row.
const AT_ONCE: u64 = 48;
const EACH: u64 = 10;

fn good(rng: &mut Rng, number: u64) -> String {
    let target = format!("/{number}");
    match rng.u8(0..6) {
        0 => format!("GET {target} HTTP/1.1\r\nHost: t\r\nX: y\r\n\r\n"),
        1 => format!("POST {target} HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n\r\nhello"),
        2 => format!("POST {target} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        3 => format!(
            "PUT {target} HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\r\nx\r\n0\r\nT: y\r\n\r\n"
        ),
        4 => format!("GET http://t{target} HTTP/1.1\r\nHost: t\r\n\r\n"),
        _ => format!(
            "POST {target} HTTP/1.1\r\nHost: t\r\nContent-Length: 38\r\n\r\nGET /inside HTTP/1.1\r\nHost: inside\r\n\r\n"
        ),
    }
}

/// A few good requests in a row with up to four mutations.
fn mutated(seed: u64) -> Vec<u8> {
    let mut rng = Rng::with_seed(seed);
    let text: String = (0..rng.u64(1..4)).map(|n| good(&mut rng, seed * 10 + n)).collect();
    let mut bytes: Vec<u8> = text.into_bytes();
    for _ in 0..rng.u8(0..5) {
        let at = rng.usize(0..bytes.len());
        let end = (at + rng.usize(1..20)).min(bytes.len());
        let piece: Vec<u8> = PIECES[rng.usize(0..PIECES.len())].chars().map(|byte| byte as u8).collect();
        match rng.u8(0..5) {
            0 => drop(bytes.splice(at..at, piece)),
            1 => drop(bytes.splice(at..end, piece)),
            2 => drop(bytes.drain(at..at + 1)),
            3 => {
                let again = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, again));
            }
            _ => {
                // behind a line, where a header would stand
                let line = memchr::memchr(b'\n', &bytes[at..]).map_or(at, |end| at + end + 1);
                drop(bytes.splice(line..line, piece));
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

#[test]
fn an_origin_reads_the_requests_that_the_gateway_logged_and_no_others() {
    let origin = rig::strict();
    let text = "client_limits: { header_timeout: 300ms, body_timeout: 300ms, keepalive: 300ms }\n\
                routes: [ { pool: p, retry: { tries: 1, safe: [], other: [] }, forwarded: { x_forwarded: off, request_id: off } } ]\n\
                pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n";
    let gateway = rig::gateway(text).named("a", origin.address).start();
    let (rounds, next) = (rig::rounds(1) as u64, AtomicU64::new(1));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                for _ in 0..EACH * rounds {
                    let seed = next.fetch_add(1, Relaxed);
                    let mut raw = rig::raw(gateway.address());
                    let (mut rng, bytes) = (Rng::with_seed(seed), mutated(seed));
                    let cut = rng.usize(0..=bytes.len());
                    // whole, or in two pieces
                    let _ = raw.try_send(&bytes[..cut]);
                    let _ = raw.try_send(&bytes[cut..]);
                    raw.rest();
                }
            });
        }
    });
    assert_eq!(origin.odd(), [""; 0]);
    let line = |bytes: &[u8]| String::from_utf8_lossy(bytes.split(|byte| *byte == b'\r').next().unwrap()).into_owned();
    let mut seen: Vec<String> = origin.take().iter().map(|seen| line(&seen.bytes)).collect();
    seen.sort();
    let logged = || {
        let log = gateway.log().into_iter();
        let served = log.filter(|line| line["status"] == 200 && line["error"].is_null());
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let mut lines: Vec<String> = served
            // a query behind the host stays as it came in the log
            .map(|line| format!("{} {} HTTP/1.1", text(&line["method"]), text(&line["uri"])).replace(" ?", " /?"))
            .collect();
        lines.sort();
        lines
    };
    let all = seen.len();
    assert!(all as u64 > AT_ONCE * EACH / 3, "{all} of the requests got through");
    rig::within(rig::PATIENCE / 4, || (logged().len() >= all).then_some(()));
    let logged = logged();
    let differ: Vec<_> = seen.iter().filter(|line| !logged.contains(line)).collect();
    assert_eq!((seen.len(), differ), (logged.len(), vec![]), "the origin and the log");
    // what is still open is idle at most
    assert_eq!(gateway.get("/at-the-end").status, 200);
}
