//! A request ended before any hook saw it: counted and logged all the same.
//!
//! What its first bytes still tell (method, target) is told; an answer of ours is worded by [`super::reject`].

use std::time::SystemTime;

use http::HeaderMap;

use super::reject;
use super::wire::Unheard;
use crate::observe::{Record, access_log};
use crate::snapshot::Store;
use crate::template::Facts;

/// Writes down what `unheard` came to.
pub fn record(unheard: &Unheard<'_>, store: &Store, log: &access_log::Shard) {
    let class = unheard.fault.class();
    let status = reject::facts(class).status.as_u16();
    let line = first_line(unheard.head);
    let (method, target) = understood(line);
    store.load().unrouted().answered(method, status, unheard.took);
    let (peer, caller) = (unheard.wire.peer(), unheard.wire.caller());
    let headers = HeaderMap::new();
    let facts = Facts {
        method,
        scheme: unheard.wire.scheme(),
        host: "",
        host_port: "",
        target,
        headers: &headers,
        client_ip: caller.ip().to_canonical(),
        peer,
    };
    log.write(&Record {
        facts,
        request_line: Some(line),
        protocol: if unheard.wire.is_h2() { "HTTP/2.0" } else { "HTTP/1.1" },
        time: SystemTime::now(),
        status,
        bytes_sent: unheard.answer().map_or(0, |answer| body(&answer) as u64),
        bytes_received: 0,
        request_time: unheard.took,
        request_id: unheard.request_id.as_str(),
        route: None,
        pool: None,
        ring: None,
        key: None,
        attempts: &[],
        error: Some(class.as_str()),
        limited: None,
        trace: None,
    });
}

fn first_line(head: &[u8]) -> &[u8] {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Method and target of a line, as far as it looks like one of HTTP.
fn understood(line: &[u8]) -> (&str, &[u8]) {
    let mut words = line.split(|byte| *byte == b' ');
    let method = words.next().filter(|word| !word.is_empty() && word.iter().all(u8::is_ascii_uppercase));
    match method.and_then(|word| std::str::from_utf8(word).ok()) {
        Some(method) => (method, words.next().unwrap_or_default()),
        None => ("", b""),
    }
}

/// Bytes of body in a whole answer.
fn body(answer: &[u8]) -> usize {
    memchr::memmem::find(answer, b"\r\n\r\n").map_or(0, |end| answer.len() - end - 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_http_is_understood() {
        for (head, method, target) in [
            ("GET /a b HTTP/1.1\r\nHost: a\r\n", "GET", "/a"),
            ("GET /unfinish", "GET", "/unfinish"),
            ("PO", "PO", ""),
            ("\u{16}\u{3}\u{1}", "", ""),
            ("hello there", "", ""),
            ("", "", ""),
        ] {
            assert_eq!(understood(first_line(head.as_bytes())), (method, target.as_bytes()), "{head:?}");
        }
    }

    #[test]
    fn the_body_is_what_follows_the_header() {
        assert_eq!(body(b"HTTP/1.1 400 x\r\na: b\r\n\r\nbody\n"), 5);
        assert_eq!(body(b"HTTP/1.1 400 x\r\n"), 0);
    }
}
