//! The two lines an nginx user's scripts read already, byte for byte as nginx writes them.

use super::Record;
use super::clock::Clock;
use crate::observe::text;
use crate::observe::{Attempt, Peer};
use crate::template::address;

/// Appends `$remote_addr [$time_local] "$request" $status $host$request_uri $upstream_addr $upstream_status
/// $upstream_response_time $request_time -`, without a line end.
pub(super) fn upstream(record: &Record<'_>, clock: &mut Clock, out: &mut Vec<u8>) {
    begin(record, b" ", clock, out);
    text::escaped(record.facts.host.as_bytes(), out);
    or_dash(record.facts.target, out);
    out.push(b' ');
    list(record.attempts, out, address);
    out.push(b' ');
    list(record.attempts, out, attempt_status);
    out.push(b' ');
    list(record.attempts, out, response_time);
    out.push(b' ');
    text::millis(record.request_time, out);
    out.extend_from_slice(b" -");
}

/// Appends `$remote_addr - - [$time_local] "$request" $status $body_bytes_sent "$http_referer"
/// "$http_user_agent"`, without a line end.
pub(super) fn combined(record: &Record<'_>, clock: &mut Clock, out: &mut Vec<u8>) {
    begin(record, b" - - ", clock, out);
    text::number(record.bytes_sent, out);
    for name in ["referer", "user-agent"] {
        out.extend_from_slice(b" \"");
        or_dash(record.facts.headers.get(name).map_or(b"", |value| value.as_bytes()), out);
        out.push(b'"');
    }
}

/// What both begin with: `$remote_addr`, `users`, `[$time_local] "$request" $status `.
fn begin(record: &Record<'_>, users: &[u8], clock: &mut Clock, out: &mut Vec<u8>) {
    address::push_ip(record.facts.client_ip, out);
    out.extend_from_slice(users);
    out.push(b'[');
    clock.turn_to(record.time);
    out.extend_from_slice(clock.local());
    out.extend_from_slice(b"] \"");
    request(record, out);
    out.extend_from_slice(b"\" ");
    status(record.status, out);
    out.push(b' ');
}

/// The request line as it was received.
fn request(record: &Record<'_>, out: &mut Vec<u8>) {
    if let Some(line) = record.request_line {
        return text::escaped(line, out);
    }
    text::escaped(record.facts.method.as_bytes(), out);
    out.push(b' ');
    text::escaped(record.facts.target, out);
    out.push(b' ');
    out.extend_from_slice(record.protocol.as_bytes());
}

fn or_dash(text: &[u8], out: &mut Vec<u8>) {
    if text.is_empty() { out.push(b'-') } else { text::escaped(text, out) }
}

fn status(status: u16, out: &mut Vec<u8>) {
    if status < 100 {
        out.extend_from_slice(if status < 10 { b"00" } else { b"0" });
    }
    text::number(status.into(), out);
}

/// One value for each attempt, joined as nginx joins them; a dash without attempts.
pub(super) fn list(attempts: &[Attempt<'_>], out: &mut Vec<u8>, value: fn(&Attempt<'_>, &mut Vec<u8>)) {
    if attempts.is_empty() {
        out.push(b'-');
    }
    for (index, attempt) in attempts.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        value(attempt, out);
    }
}

fn address(attempt: &Attempt<'_>, out: &mut Vec<u8>) {
    match attempt.address {
        Peer::Ip(address) => address::push_socket(address, out),
        Peer::Unix(path) => {
            out.extend_from_slice(b"unix:");
            text::escaped(path.as_bytes(), out);
        }
        Peer::Unknown => text::escaped(attempt.origin.as_bytes(), out),
    }
}

pub(super) fn response_time(attempt: &Attempt<'_>, out: &mut Vec<u8>) {
    text::millis(attempt.response_time, out);
}

/// The status of a try; of one without an answer what nginx would have answered for it.
pub(super) fn attempt_status(attempt: &Attempt<'_>, out: &mut Vec<u8>) {
    match (attempt.status, attempt.outcome) {
        (Some(status), _) => text::number(status.into(), out),
        (None, "connect_timeout" | "response_timeout") => out.extend_from_slice(b"504"),
        (None, "client_gone" | "client_timeout" | "drain_timeout" | "body_too_large" | "bad_request") => {
            out.push(b'-');
        }
        (None, _) => out.extend_from_slice(b"502"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn check(render: fn(&Record<'_>, &mut Clock, &mut Vec<u8>), change: impl FnOnce(&mut Record<'_>), expected: &str) {
        let mut out = Vec::new();
        sample::with(|record| {
            change(record);
            render(record, &mut sample::clock(), &mut out);
        });
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    fn outcome(status: Option<u16>, outcome: &'static str) -> String {
        let mut out = Vec::new();
        sample::with(|record| attempt_status(&Attempt { status, outcome, ..record.attempts[0] }, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_upstream_line_lists_every_attempt() {
        check(
            upstream,
            |_| (),
            "192.0.2.7 [29/Nov/2026:20:35:01 +0000] \"GET /a?b=1 HTTP/1.1\" 200 example.com/a?b=1 \
             10.0.0.1:80, 10.0.0.2:80 502, 200 0.000, 0.011 0.012 -",
        );
    }

    #[test]
    fn an_upstream_line_without_attempts_has_dashes() {
        check(
            upstream,
            |record| (record.status, record.attempts) = (404, &[]),
            "192.0.2.7 [29/Nov/2026:20:35:01 +0000] \"GET /a?b=1 HTTP/1.1\" 404 example.com/a?b=1 - - - 0.012 -",
        );
    }

    #[test]
    fn a_request_that_could_not_be_read_shows_what_came() {
        check(
            upstream,
            |record| {
                (record.status, record.attempts) = (400, &[]);
                record.request_line = Some(b"GET /a b\"\x01");
                (record.facts.host, record.facts.target) = ("", b"");
            },
            "192.0.2.7 [29/Nov/2026:20:35:01 +0000] \"GET /a b\\x22\\x01\" 400 - - - - 0.012 -",
        );
    }

    #[test]
    fn failed_tries_show_what_nginx_would_have_answered() {
        assert_eq!(outcome(None, "connect_refused"), "502");
        assert_eq!(outcome(None, "reset"), "502");
        assert_eq!(outcome(None, "connect_timeout"), "504");
        assert_eq!(outcome(None, "response_timeout"), "504");
        assert_eq!(outcome(None, "client_gone"), "-");
        assert_eq!(outcome(Some(503), "status"), "503");
        assert_eq!(outcome(Some(200), "closed_early"), "200");
    }

    #[test]
    fn a_unix_socket_and_an_unresolved_name_are_shown_as_written() {
        let mut out = Vec::new();
        sample::with(|record| {
            let attempts = [Peer::Unix("/s"), Peer::Unknown].map(|address| Attempt { address, ..record.attempts[0] });
            list(&attempts, &mut out, address);
        });
        assert_eq!(String::from_utf8(out).unwrap(), "unix:/s, a:80");
    }

    #[test]
    fn a_combined_line_quotes_referer_and_agent() {
        check(
            combined,
            |_| (),
            "192.0.2.7 - - [29/Nov/2026:20:35:01 +0000] \"GET /a?b=1 HTTP/1.1\" 200 97 \"-\" \"curl\\x228\"",
        );
    }

    #[test]
    fn the_awk_of_the_documentation_counts_every_attempt() {
        let text = include_str!("../../../docs/observability.md");
        let script = text.split("awk -F'\"' '").nth(1).unwrap().split("' access.log").next().unwrap();
        let mut lines = Vec::new();
        sample::with(|record| {
            for attempts in [record.attempts, &record.attempts[1..], &[]] {
                upstream(&Record { attempts, ..*record }, &mut sample::clock(), &mut lines);
                lines.push(b'\n');
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        std::fs::write(&path, lines).unwrap();
        let counted = std::process::Command::new("awk").args(["-F\"", script]).arg(&path).output().unwrap();
        let mut counted: Vec<_> = std::str::from_utf8(&counted.stdout).unwrap().lines().collect();
        counted.sort_unstable();
        assert_eq!(counted, ["10.0.0.1:80 502 1 0.000", "10.0.0.2:80 200 2 0.022"]);
    }
}
