//! What does one variable say for this request?
//!
//! One enum of all variables: adding one forces its name, its scope and its value. A variable whose part is absent
//! or empty is *missing* (rule K4); `{args}` and those of nginx never are.

use std::io::Write as _;

use http::HeaderName;
use regex::bytes::Regex;

use super::{Facts, Scope, address, args, nginx, path};

/// A variable of a template.
#[derive(Debug, Clone)]
pub(super) enum Variable {
    Host,
    HostPort,
    Path,
    /// The first capture group of an expression over the normalised path.
    PathPart(Box<Regex>),
    Uri,
    Args,
    /// By its normalised name.
    Arg(Vec<u8>),
    Header(HeaderName),
    Cookie(Box<str>),
    ClientIp,
    Method,
    NginxUri,
    NginxArg(Box<str>),
    NginxArgs,
    NginxIsArgs,
    Scheme,
    PeerIp,
    PeerPort,
    Extra(Extra),
}

/// What a request says beside host, path and arguments: a log may not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need<'t> {
    /// A header line.
    Header(&'t HeaderName),
    /// A cookie.
    Cookie(&'t str),
    /// Who asks.
    Client,
    /// The port that was asked.
    Port,
}

/// What the request itself does not say; supplied by the caller of [`super::Template::render_line`] and of
/// [`super::Template::render_value`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// The id of the request.
    RequestId,
    /// The name of its route.
    Route,
    /// The name of its pool.
    Pool,
    /// The key it was placed by.
    Key,
    /// The status that was answered.
    Status,
    /// Bytes of the body that went to the client.
    BytesSent,
    /// Seconds from the first byte to the last.
    RequestTime,
    /// When the request ended.
    Time,
    /// Addresses of all attempts, as nginx lists them.
    UpstreamAddr,
    /// Statuses of all attempts.
    UpstreamStatus,
    /// Response times of all attempts.
    UpstreamResponseTime,
    /// How many attempts there were.
    Attempts,
    /// The fingerprint of the ring.
    Ring,
    /// The class of the error.
    Error,
    /// The trace it is part of.
    TraceId,
}

impl Extra {
    /// Every one with its name in templates.
    pub const NAMES: [(&'static str, Self); 15] = [
        ("request_id", Self::RequestId),
        ("route", Self::Route),
        ("pool", Self::Pool),
        ("key", Self::Key),
        ("status", Self::Status),
        ("bytes_sent", Self::BytesSent),
        ("request_time", Self::RequestTime),
        ("time", Self::Time),
        ("upstream_addr", Self::UpstreamAddr),
        ("upstream_status", Self::UpstreamStatus),
        ("upstream_response_time", Self::UpstreamResponseTime),
        ("attempts", Self::Attempts),
        ("ring", Self::Ring),
        ("error", Self::Error),
        ("trace_id", Self::TraceId),
    ];

    /// Is it known before there is an answer?
    pub fn is_known_early(self) -> bool {
        matches!(self, Self::RequestId | Self::Route | Self::Pool | Self::Key | Self::TraceId)
    }
}

impl Variable {
    /// Appends the value; `false` when it is missing (something may have been appended all the same).
    pub(super) fn write(&self, facts: &Facts<'_>, policy: &args::Policy, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Host => out.extend_from_slice(facts.host.as_bytes()),
            Self::HostPort => out.extend_from_slice(facts.host_port.as_bytes()),
            Self::Path => path::push_normal(facts.path(), out),
            Self::PathPart(regex) => return push_part(regex, facts.path(), out),
            Self::Uri => out.extend_from_slice(facts.target),
            Self::Args => policy.render(query(facts), out),
            Self::Arg(name) => return args::push_first(query(facts), name, out),
            Self::Header(name) => return push_found(facts.headers.get(name).map(|value| value.as_bytes()), out),
            Self::Cookie(name) => return push_found(cookie(facts, name), out),
            Self::ClientIp => address::push_ip(facts.client_ip.to_canonical(), out),
            Self::Method => out.extend_from_slice(facts.method.as_bytes()),
            Self::NginxUri => nginx::push_uri(facts.path(), out),
            Self::NginxArg(name) => _ = push_found(nginx::arg(query(facts), name.as_bytes()), out),
            Self::NginxArgs => out.extend_from_slice(query(facts)),
            Self::NginxIsArgs => out.extend_from_slice(if query(facts).is_empty() { b"" } else { b"?" }),
            Self::Scheme => out.extend_from_slice(facts.scheme.as_bytes()),
            Self::PeerIp => address::push_ip(facts.peer.ip().to_canonical(), out),
            Self::PeerPort => _ = write!(out, "{}", facts.peer.port()),
            Self::Extra(_) => {}
        }
        true
    }

    /// Has a template of this scope the variable?
    pub(super) fn is_known_in(&self, scope: Scope) -> bool {
        match (self, scope) {
            (_, Scope::Answer | Scope::Log) => true,
            (Self::Extra(extra), Scope::Value) => extra.is_known_early(),
            (_, Scope::Value) => true,
            (Self::Scheme | Self::PeerIp | Self::PeerPort | Self::Extra(_), Scope::Key) => false,
            (_, Scope::Key) => true,
        }
    }

    /// Is nothing a value of it as good as any? So it is of an expression that fits and captures nothing.
    pub(super) fn may_be_empty(&self, facts: &Facts<'_>) -> bool {
        match self {
            Self::Args | Self::NginxUri | Self::NginxArg(_) | Self::NginxArgs | Self::NginxIsArgs => true,
            Self::PathPart(regex) => {
                let mut normal = Vec::new();
                path::push_normal(facts.path(), &mut normal);
                regex.captures(&normal).is_some_and(|groups| groups.get(1).is_some())
            }
            _ => false,
        }
    }

    /// What it asks for that not every record of a request has.
    pub(super) fn need(&self) -> Option<Need<'_>> {
        match self {
            Self::Header(name) => Some(Need::Header(name)),
            Self::Cookie(name) => Some(Need::Cookie(name)),
            Self::ClientIp => Some(Need::Client),
            Self::HostPort => Some(Need::Port),
            _ => None,
        }
    }

    /// May it be missing, and may its value end with anything? Two such side by side run into each other.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::PathPart(_) | Self::Arg(_) | Self::Header(_) | Self::Cookie(_))
    }
}

fn query<'a>(facts: &Facts<'a>) -> &'a [u8] {
    facts.query().unwrap_or_default()
}

fn push_found(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    let value = value.unwrap_or_default();
    out.extend_from_slice(value);
    !value.is_empty()
}

/// The first capture group over the normalised path, which is written behind the output and taken back.
fn push_part(regex: &Regex, raw_path: &[u8], out: &mut Vec<u8>) -> bool {
    let start = out.len();
    path::push_normal(raw_path, out);
    let found = regex.captures(&out[start..]).and_then(|groups| groups.get(1)).map(|group| group.range());
    let Some(range) = found.filter(|range| !range.is_empty()) else { return false };
    let length = range.len();
    out.copy_within(start + range.start..start + range.end, start);
    out.truncate(start + length);
    true
}

/// The first cookie of this name over all Cookie lines.
fn cookie<'a>(facts: &Facts<'a>, name: &str) -> Option<&'a [u8]> {
    let lines = facts.headers.get_all(http::header::COOKIE).into_iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    pairs.map(<[u8]>::trim_ascii).find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// Escapes what could break a line or a quoted field, the way nginx does, in `out[from..]`.
pub(super) fn escape(out: &mut Vec<u8>, from: usize) {
    let unsafe_byte = |byte: &u8| !matches!(byte, 0x20..=0x7e) || matches!(byte, b'"' | b'\\');
    let Some(first) = out[from..].iter().position(unsafe_byte).map(|at| from + at) else { return };
    let tail = out.split_off(first);
    for byte in tail {
        if unsafe_byte(&byte) {
            _ = write!(out, "\\x{byte:02X}");
        } else {
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_break_a_line_is_escaped() {
        let mut out = b"\"kept".to_vec();
        out.extend_from_slice("a\"b\\c\n\u{e9} d".as_bytes());
        escape(&mut out, 5);
        assert_eq!(String::from_utf8(out).unwrap(), "\"kepta\\x22b\\x5Cc\\x0A\\xC3\\xA9 d");
    }

    #[test]
    fn every_extra_has_one_name() {
        let mut names: Vec<_> = Extra::NAMES.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Extra::NAMES.len());
    }
}
