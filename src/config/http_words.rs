//! What do the words of HTTP look like in the file? Methods, headers, statuses, hosts and paths.

use std::fmt;

use http::{HeaderName, HeaderValue, Method};
use schemars::{Schema, json_schema};

use super::address::is_host;
use super::place::did_you_mean;
use super::report::Invalid;
use super::written::{Written, written};

/// Statuses from `first` to `last`, both included; written `200` or `200-399`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

/// The path and query of a request: begins with `/`, only what may stand in a request line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path(pub(super) String);

/// A host to be matched: a name, an address, or `*.` and a domain; in lower case, without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPattern(pub(super) String);

written!(StatusRange, Path, HostPattern);

impl StatusRange {
    /// Is `status` one of these?
    pub fn contains(&self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { write!(f, "{}", self.first) } else { write!(f, "{}-{}", self.first, self.last) }
    }
}

/// A status that can stand in a response.
pub(super) fn status(text: &str) -> Option<u16> {
    let digits = text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|status| digits && (100..=599).contains(status))
}

impl Written for StatusRange {
    const EXPECTED: &'static str = "a status such as 200, or a range such as 200-399";

    fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Self { first: status(first)?, last: status(last)? };
        (range.first <= range.last).then_some(range)
    }

    fn print(&self) -> String {
        self.to_string()
    }

    fn schema() -> Schema {
        json_schema!({
            "type": ["integer", "string"], "minimum": 100, "maximum": 599, "pattern": r"^[1-5]\d\d(-[1-5]\d\d)?$"
        })
    }
}

impl Written for Path {
    const EXPECTED: &'static str = "a path that begins with /";

    fn parse(text: &str) -> Option<Self> {
        let is_target = text.bytes().all(|b| matches!(b, 0x21..=0x7e) && b != b'#');
        (text.starts_with('/') && is_target).then(|| Self(text.to_owned()))
    }

    fn print(&self) -> String {
        self.0.clone()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^/[!-~]*$" })
    }
}

impl Written for HostPattern {
    const EXPECTED: &'static str = "a host such as api.example.com or *.example.org";

    fn parse(text: &str) -> Option<Self> {
        let host = text.to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        let name = host.strip_prefix("*.").unwrap_or(host);
        let is_ip = name.parse::<std::net::Ipv4Addr>().is_ok()
            || name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).is_some_and(is_ipv6);
        let is_pattern = is_host(name) || (is_ip && name.len() == host.len());
        is_pattern.then(|| Self(host.to_owned()))
    }

    fn print(&self) -> String {
        self.0.clone()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^(\*\.)?[A-Za-z0-9._-]+$|^\[[0-9a-fA-F:.]+\]$" })
    }

    fn read(text: &str) -> Result<Self, Invalid> {
        let without_port = text.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        let meant = match without_port {
            Some((host, _)) if Self::parse(host).is_some() => "a host without a port",
            _ => Self::EXPECTED,
        };
        Self::parse(text).ok_or_else(|| Invalid::new(format!("found {text:?}"), format!("expected {meant}")))
    }
}

fn is_ipv6(text: &str) -> bool {
    text.parse::<std::net::Ipv6Addr>().is_ok()
}

/// The methods that a word in other letters was meant to be.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];

impl Written for Method {
    const EXPECTED: &'static str = "a method such as GET";

    fn parse(text: &str) -> Option<Self> {
        let is_upper = !text.contains(|c: char| c.is_ascii_lowercase());
        Self::from_bytes(text.as_bytes()).ok().filter(|_| is_upper)
    }

    fn print(&self) -> String {
        self.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[!#$%&'*+.^_`|~0-9A-Z-]+$" })
    }

    fn read(text: &str) -> Result<Self, Invalid> {
        let meant = match did_you_mean(text, METHODS) {
            Some(word) => format!("did you mean \"{word}\"?"),
            None => format!("expected {}", Self::EXPECTED),
        };
        Self::parse(text).ok_or_else(|| Invalid::new(format!("found {text:?}"), meant))
    }
}

impl Written for HeaderName {
    const EXPECTED: &'static str = "the name of a header";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn print(&self) -> String {
        self.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$" })
    }
}

impl Written for HeaderValue {
    const EXPECTED: &'static str = "the value of a header, without control characters";

    fn parse(text: &str) -> Option<Self> {
        Self::from_str(text).ok()
    }

    fn print(&self) -> String {
        String::from_utf8_lossy(self.as_bytes()).into_owned()
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "number"] })
    }
}

impl Written for String {
    const EXPECTED: &'static str = "a text";

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn print(&self) -> String {
        self.clone()
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_single_or_a_range() {
        assert_eq!(StatusRange::parse("200-399"), Some(StatusRange { first: 200, last: 399 }));
        assert_eq!(StatusRange::parse("204").unwrap().print(), "204");
        assert!(StatusRange::parse("200-399").unwrap().contains(399));
        for text in ["", "99", "600", "399-200", "2xx", "200-", "-200", "0200", "200-300-400"] {
            assert_eq!(StatusRange::parse(text), None, "{text}");
        }
    }

    #[test]
    fn hosts_are_names_addresses_or_wildcards() {
        for (text, printed) in [
            ("API.Example.com", "api.example.com"),
            ("api.example.com.", "api.example.com"),
            ("*.Example.org", "*.example.org"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(HostPattern::parse(text), Some(HostPattern(printed.into())), "{text}");
        }
        for text in ["", "*", "a.*.org", "*.*.org", "*.127.0.0.1", "::1", "a/b", "a b", "http://a"] {
            assert_eq!(HostPattern::parse(text), None, "{text}");
        }
        assert_eq!(HostPattern::read("a.com:80").unwrap_err().meant, "expected a host without a port");
    }

    #[test]
    fn paths_begin_with_a_slash() {
        assert!(Path::parse("/healthz?full=1").is_some());
        for text in ["", "healthz", "/a b", "/a#b", "/ä"] {
            assert_eq!(Path::parse(text), None, "{text}");
        }
    }

    #[test]
    fn methods_are_written_in_capitals() {
        assert_eq!(Method::read("PURGE").unwrap(), "PURGE");
        assert_eq!(Method::read("get").unwrap_err().meant, "did you mean \"GET\"?");
        assert_eq!(Method::read("GE T").unwrap_err().meant, "did you mean \"GET\"?");
        assert_eq!(Method::read("(((((").unwrap_err().meant, "expected a method such as GET");
    }
}
