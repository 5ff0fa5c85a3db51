//! A line of the operator's own making: variables of keys, and what became of the request.

use jiff::tz::TimeZone;

use super::Record;
use super::clock::Clock;
use super::nginx;
use crate::observe::text;
use crate::observe::{Attempt, Peer};
use crate::template::{Extra, Template, address};

/// Appends the line, without its end. What is missing is a dash; what could break the line is escaped.
pub(super) fn render(template: &Template, record: &Record<'_>, clock: &mut Clock, out: &mut Vec<u8>) {
    clock.turn_to(record.time);
    let clock = &*clock;
    template.render_line(&record.facts, &|extra, out| write(extra, record, clock, out), out);
}

/// Appends what `extra` is of a request that is not over yet, as a line would have it.
pub fn value(extra: Extra, record: &Record<'_>, out: &mut Vec<u8>) {
    let mut clock = Clock::new(TimeZone::UTC);
    if extra == Extra::Time {
        clock.turn_to(record.time);
    }
    write(extra, record, &clock, out);
}

/// What only the end of a request knows, unescaped; nothing when it is not known.
fn write(extra: Extra, record: &Record<'_>, clock: &Clock, out: &mut Vec<u8>) {
    match extra {
        Extra::RequestId => out.extend_from_slice(record.request_id.as_bytes()),
        Extra::Route => out.extend_from_slice(record.route.unwrap_or_default().as_bytes()),
        Extra::Pool => out.extend_from_slice(record.pool.unwrap_or_default().as_bytes()),
        Extra::Key => out.extend_from_slice(record.key.unwrap_or_default()),
        Extra::Status => text::number(record.status.into(), out),
        Extra::BytesSent => text::number(record.bytes_sent, out),
        Extra::RequestTime => text::millis(record.request_time, out),
        Extra::Time => clock.utc(record.time, out),
        Extra::UpstreamAddr => nginx::list(record.attempts, out, address),
        Extra::UpstreamStatus => nginx::list(record.attempts, out, nginx::attempt_status),
        Extra::UpstreamResponseTime => nginx::list(record.attempts, out, nginx::response_time),
        Extra::Attempts => text::number(record.attempts.len() as u64, out),
        Extra::Ring => out.extend_from_slice(record.ring.unwrap_or_default().as_bytes()),
        Extra::TraceId => out.extend(record.trace.iter().flat_map(|trace| trace.hex())),
        Extra::Error => out.extend_from_slice(record.error.unwrap_or_default().as_bytes()),
    }
}

fn address(attempt: &Attempt<'_>, out: &mut Vec<u8>) {
    match attempt.address {
        Peer::Ip(address) => address::push_socket(address, out),
        Peer::Unix(path) => text::display(format_args!("unix:{path}"), out),
        Peer::Unknown => out.extend_from_slice(attempt.origin.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::template::Scope;

    fn line(template: &str, change: impl FnOnce(&mut Record<'_>)) -> String {
        let template = Template::compile(template, Scope::Log).unwrap();
        let mut out = Vec::new();
        sample::with(|record| {
            change(record);
            render(&template, record, &mut sample::clock(), &mut out);
        });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_variable_of_a_log_has_its_value() {
        assert_eq!(
            line("{time} {client_ip} {peer_port} {method} {scheme}://{host}{uri} {status} {bytes_sent}", |_| ()),
            "2026-11-29T20:35:01.042Z 192.0.2.7 5000 GET http://example.com/a?b=1 200 97"
        );
        assert_eq!(
            line("{request_id} {route} {pool} {ring} {key} {error}", |_| ()),
            "0123456789abcdef0123456789abcdef api origin 00112233aabbccdd example.com/a?b=1 -"
        );
        assert_eq!(
            line("{attempts}: {upstream_addr} {upstream_status} {upstream_response_time} {request_time}", |_| ()),
            "2: 10.0.0.1:80, 10.0.0.2:80 502, 200 0.000, 0.011 0.012"
        );
    }

    #[test]
    fn what_is_missing_is_a_dash_and_what_breaks_a_line_is_escaped() {
        assert_eq!(
            line("{pool} {upstream_addr} \"{header:user-agent}\" {cookie:x}", |record| {
                record.pool = None;
                record.attempts = &[];
            }),
            "- - \"curl\\x228\" -"
        );
    }
}
