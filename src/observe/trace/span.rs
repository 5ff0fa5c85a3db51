//! What is in the spans of a request? One of the request itself, and one of each try at an origin below it.
//!
//! Names and attributes are OpenTelemetry's for HTTP where they have one, with `moorgate.` in front where they have not. What
//! stands behind the `?` of a target, keys and header values but the user agent are in none of them: they may be secrets.

use std::time::{Duration, UNIX_EPOCH};

use super::super::{Attempt, Peer, Record};
use super::context::Context;
use super::wire::{Value, attribute, bytes, fixed32, fixed64, number, within};
use crate::template::address;

/// The field of `ScopeSpans` that a span is.
const SPANS: u32 = 2;

/// Fields of `Span`.
const TRACE_ID: u32 = 1;
const SPAN_ID: u32 = 2;
const TRACE_STATE: u32 = 3;
const PARENT_SPAN_ID: u32 = 4;
const NAME: u32 = 5;
const KIND: u32 = 6;
const START: u32 = 7;
const END: u32 = 8;
const ATTRIBUTES: u32 = 9;
const STATUS: u32 = 15;
const FLAGS: u32 = 16;

/// `SpanKind`.
const SERVER: u64 = 2;
const CLIENT: u64 = 3;

/// `Status.code` of a failure.
const ERROR: u64 = 2;

/// `SpanFlags`: sampled, and whether the parent is known to be in another process.
const SAMPLED: u32 = 1;
const KNOWN: u32 = 0x100;
const REMOTE: u32 = 0x200;

/// More of it may be left out (W3C Trace Context, section 3.3.1.5).
const LONGEST_STATE: usize = 512;

/// What a method is that everybody knows; another one may be anything.
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];

/// Failures that are the client's.
const CLIENTS: [&str; 2] = ["client_gone", "client_timeout"];

/// Appends the spans of a request. `ago` says of each try how long before the request's end it began.
pub(super) fn request(context: &Context, record: &Record<'_>, ago: &[Duration], out: &mut Vec<u8>) {
    let end = record.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    within(SPANS, out, |out| server(context, record, end, out));
    for ((number, attempt), ago) in (1..).zip(record.attempts).zip(ago) {
        let start = end.saturating_sub(*ago);
        within(SPANS, out, |out| client(context, record, (number, attempt), start, out));
    }
}

fn server(context: &Context, record: &Record<'_>, end: Duration, out: &mut Vec<u8>) {
    bytes(TRACE_ID, &context.trace().bytes(), out);
    bytes(SPAN_ID, &context.span(), out);
    let remote = match context.parent() {
        Some(parent) => {
            state(record, out);
            bytes(PARENT_SPAN_ID, &parent, out);
            REMOTE
        }
        None => 0,
    };
    name(record, record.route, out);
    number(KIND, SERVER, out);
    times(end.saturating_sub(record.request_time), end, out);
    method(record, out);
    let facts = &record.facts;
    text("url.scheme", facts.scheme.as_bytes(), out);
    // of a request that was refused for it, too: a name and a password are nobody else's
    let path = facts.path();
    text("url.path", if path.starts_with(b"/") || path == b"*" { path } else { b"" }, out);
    text("server.address", facts.host.rsplit('@').next().unwrap_or_default().as_bytes(), out);
    if let Some((_, port)) = facts.host_port.rsplit_once(':')
        && let Ok(port) = port.parse::<u16>()
    {
        attribute(ATTRIBUTES, "server.port", Value::Number(port.into()), out);
    }
    ip("client.address", facts.client_ip, out);
    ip("network.peer.address", facts.peer.ip(), out);
    attribute(ATTRIBUTES, "network.peer.port", Value::Number(facts.peer.port().into()), out);
    let version = record.protocol.strip_prefix("HTTP/").unwrap_or_default();
    text(
        "network.protocol.version",
        version.strip_suffix(".0").filter(|v| *v == "2").unwrap_or(version).as_bytes(),
        out,
    );
    let agent = facts.headers.get(http::header::USER_AGENT).map(|agent| agent.as_bytes());
    text("user_agent.original", agent.unwrap_or_default(), out);
    attribute(ATTRIBUTES, "http.response.status_code", Value::Number(record.status.into()), out);
    text("moorgate.request_id", record.request_id.as_bytes(), out);
    text("moorgate.route", record.route.unwrap_or_default().as_bytes(), out);
    text("moorgate.pool", record.pool.unwrap_or_default().as_bytes(), out);
    text("moorgate.limited", record.limited.unwrap_or_default().as_bytes(), out);
    attribute(ATTRIBUTES, "moorgate.attempts", Value::Number(record.attempts.len() as u64), out);
    outcome(record.error.unwrap_or_default(), Some(record.status).filter(|status| *status >= 500), out);
    // An answer that was cut off is a failure, whatever it began with.
    let cut = record.status < 400 && record.error.is_some_and(|class| !CLIENTS.contains(&class));
    failed(record.status >= 500 || cut, out);
    fixed32(FLAGS, SAMPLED | KNOWN | remote, out);
}

fn client(
    context: &Context,
    record: &Record<'_>,
    (number_of, attempt): (usize, &Attempt<'_>),
    start: Duration,
    out: &mut Vec<u8>,
) {
    bytes(TRACE_ID, &context.trace().bytes(), out);
    bytes(SPAN_ID, &context.attempt(number_of), out);
    if context.has_parent() {
        state(record, out);
    }
    bytes(PARENT_SPAN_ID, &context.span(), out);
    name(record, record.pool, out);
    number(KIND, CLIENT, out);
    times(start, start + attempt.response_time, out);
    method(record, out);
    reached(attempt, out);
    if let Some(status) = attempt.status {
        attribute(ATTRIBUTES, "http.response.status_code", Value::Number(status.into()), out);
    }
    if number_of > 1 {
        attribute(ATTRIBUTES, "http.request.resend_count", Value::Number(number_of as u64 - 1), out);
    }
    text("moorgate.pool", record.pool.unwrap_or_default().as_bytes(), out);
    text("moorgate.origin", attempt.origin.as_bytes(), out);
    attribute(ATTRIBUTES, "moorgate.attempt", Value::Number(number_of as u64), out);
    text("moorgate.outcome", attempt.outcome.as_bytes(), out);
    attribute(ATTRIBUTES, "moorgate.connection.reused", Value::Flag(attempt.reused), out);
    if let Some(took) = attempt.connect_time {
        attribute(ATTRIBUTES, "moorgate.connection.seconds", Value::Seconds(took.as_secs_f64()), out);
    }
    text("moorgate.cache", attempt.cache.unwrap_or_default().as_bytes(), out);
    let answered = matches!(attempt.outcome, "ok" | "status");
    let status = attempt.status.filter(|status| *status >= 400 && answered);
    outcome(if answered { "" } else { attempt.outcome }, status, out);
    failed(status.is_some() || !answered && !CLIENTS.contains(&attempt.outcome), out);
    fixed32(FLAGS, SAMPLED | KNOWN, out);
}

/// Where the origin was.
fn reached(attempt: &Attempt<'_>, out: &mut Vec<u8>) {
    match attempt.address {
        Peer::Ip(address) => {
            ip("server.address", address.ip(), out);
            attribute(ATTRIBUTES, "server.port", Value::Number(address.port().into()), out);
            ip("network.peer.address", address.ip(), out);
            attribute(ATTRIBUTES, "network.peer.port", Value::Number(address.port().into()), out);
        }
        Peer::Unix(path) => {
            text("server.address", path.as_bytes(), out);
            text("network.peer.address", path.as_bytes(), out);
            text("network.transport", b"unix", out);
        }
        Peer::Unknown => text("server.address", attempt.origin.as_bytes(), out),
    }
}

/// Method and where it went: few names, whatever clients ask for.
fn name(record: &Record<'_>, place: Option<&str>, out: &mut Vec<u8>) {
    let method = if METHODS.contains(&record.facts.method) { record.facts.method } else { "HTTP" };
    // A text is spelt as a message is: behind its length.
    within(NAME, out, |out| {
        out.extend_from_slice(method.as_bytes());
        if let Some(place) = place {
            out.push(b' ');
            out.extend_from_slice(place.as_bytes());
        }
    });
}

fn method(record: &Record<'_>, out: &mut Vec<u8>) {
    let method = record.facts.method;
    if METHODS.contains(&method) {
        text("http.request.method", method.as_bytes(), out);
    } else {
        text("http.request.method", b"_OTHER", out);
        text("http.request.method_original", method.as_bytes(), out);
    }
}

fn times(start: Duration, end: Duration, out: &mut Vec<u8>) {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    fixed64(START, nanos(start), out);
    fixed64(END, nanos(end), out);
}

/// What came in `tracestate`.
fn state(record: &Record<'_>, out: &mut Vec<u8>) {
    let lines = record.facts.headers.get_all("tracestate").iter().map(|line| line.as_bytes());
    let state = lines.collect::<Vec<_>>().join(&b","[..]);
    if !state.is_empty() && state.len() <= LONGEST_STATE && state.is_ascii() {
        bytes(TRACE_STATE, &state, out);
    }
}

/// A text that is left out where there is none.
fn text(name: &str, value: &[u8], out: &mut Vec<u8>) {
    if !value.is_empty() {
        attribute(ATTRIBUTES, name, Value::Text(value), out);
    }
}

fn ip(name: &str, ip: std::net::IpAddr, out: &mut Vec<u8>) {
    let mut digits = Vec::with_capacity(16);
    address::push_ip(ip.to_canonical(), &mut digits);
    text(name, &digits, out);
}

/// `error.type`: our word for it, or the status.
fn outcome(class: &str, status: Option<u16>, out: &mut Vec<u8>) {
    match (class, status) {
        ("", Some(status)) => {
            let mut digits = Vec::with_capacity(3);
            super::super::text::number(status.into(), &mut digits);
            text("error.type", &digits, out);
        }
        (class, _) => text("error.type", class.as_bytes(), out),
    }
}

fn failed(is_failure: bool, out: &mut Vec<u8>) {
    if is_failure {
        within(STATUS, out, |out| number(3, ERROR, out));
    }
}
