//! Is the header of this request of a size and a shape we take?
//!
//! Held against [`crate::config::ClientLimits`] once the whole header is there; how long it may take to arrive, and
//! how much of it may pile up before, is the listener's.

use http::header::{HOST, HeaderMap};
use http::{HeaderValue, Version};

use super::Denial;
use crate::config::ClientLimits;

/// The sizes of `client_limits`.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    header_bytes: u64,
    headers: u32,
    uri_bytes: u64,
}

/// The size of a request's header on the wire.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// The whole header.
    pub header_bytes: usize,
    /// The target.
    pub uri_bytes: usize,
}

impl Limits {
    /// Compiles what was written.
    pub fn compile(written: &ClientLimits) -> Self {
        Self { header_bytes: written.header_bytes.0, headers: written.headers, uri_bytes: written.uri_bytes.0 }
    }

    /// May a header of this size pass? The target is named first: its bytes are the header's as well.
    pub fn check(&self, size: Size, headers: &HeaderMap) -> Result<(), Denial> {
        if size.uri_bytes as u64 > self.uri_bytes {
            return Err(Denial::UriBytes);
        }
        if size.header_bytes as u64 > self.header_bytes {
            return Err(Denial::HeaderBytes);
        }
        if headers.len() as u64 > u64::from(self.headers) {
            return Err(Denial::HeaderLines);
        }
        Ok(())
    }
}

/// Does the request name one host? `authority`: that of its target, if it has one.
pub fn check_host(version: Version, authority: Option<&str>, headers: &HeaderMap) -> Result<(), Denial> {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Denial::ManyHosts);
    }
    match (authority, host) {
        (None, None) if version >= Version::HTTP_11 => Err(Denial::NoHost),
        (_, Some(host)) if !is_host(host) || !ends_soundly(host.as_bytes()) => Err(Denial::Host),
        (Some(authority), _) if !ends_soundly(authority.as_bytes()) => Err(Denial::Host),
        _ => Ok(()),
    }
}

/// Do name and port end where every reader ends them? An address of IPv6 stands in brackets, a port has digits alone and
/// is one.
fn ends_soundly(host: &[u8]) -> bool {
    let (name, rest) = match host {
        [b'[', inner @ ..] => match memchr::memchr(b']', inner) {
            Some(end) => (&inner[..end], &inner[end + 1..]),
            None => return false,
        },
        _ => host.split_at(memchr::memchr(b':', host).unwrap_or(host.len())),
    };
    let port = rest.strip_prefix(b":").unwrap_or(rest);
    let digits = (rest.is_empty() || rest[0] == b':') && port.iter().all(u8::is_ascii_digit);
    let exists = port.len() < 5 || std::str::from_utf8(port).is_ok_and(|port| port.parse::<u16>().is_ok());
    digits && exists && (host.is_empty() || !name.is_empty()) && !name.iter().any(|byte| matches!(byte, b'[' | b']'))
}

/// Can this be a name or an address, and a port (RFC 3986)? Never with `/`, `?`, `#`, `@`, a quote or a space, which
/// others read as an end, or a comma, which is where a list of two hosts may have been made one line.
pub(super) fn is_host(value: &HeaderValue) -> bool {
    value.as_bytes().iter().all(|byte| IN_HOSTS[usize::from(*byte)])
}

/// Which bytes may stand in a host: one look into a table for each byte of every request.
const IN_HOSTS: [bool; 256] = {
    let others = b"-._~%!$&'()*+;=:[]";
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = true;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::super::tests::headers;
    use super::*;

    #[test]
    fn sizes_up_to_the_limit_pass() {
        let limits = Limits { header_bytes: 100, headers: 2, uri_bytes: 10 };
        let check = |header_bytes, uri_bytes, lines| limits.check(Size { header_bytes, uri_bytes }, &headers(lines));
        assert_eq!(check(100, 10, &[("a", "1"), ("b", "2")]), Ok(()));
        assert_eq!(check(101, 10, &[]), Err(Denial::HeaderBytes));
        assert_eq!(check(101, 11, &[]), Err(Denial::UriBytes));
        assert_eq!(check(100, 10, &[("a", "1"), ("a", "2"), ("b", "3")]), Err(Denial::HeaderLines));
    }

    #[test]
    fn http_1_1_needs_one_host() {
        let check = |version, authority, lines| check_host(version, authority, &headers(lines));
        assert_eq!(check(Version::HTTP_11, None, &[("host", "h:80")]), Ok(()));
        assert_eq!(check(Version::HTTP_11, None, &[("host", "")]), Ok(()));
        assert_eq!(check(Version::HTTP_11, None, &[]), Err(Denial::NoHost));
        assert_eq!(check(Version::HTTP_10, None, &[]), Ok(()));
        assert_eq!(check(Version::HTTP_2, Some("h"), &[]), Ok(()));
        assert_eq!(check(Version::HTTP_2, None, &[]), Err(Denial::NoHost));
        assert_eq!(check(Version::HTTP_11, None, &[("host", "a"), ("host", "a")]), Err(Denial::ManyHosts));
    }

    #[test]
    fn a_host_that_names_no_host_is_refused() {
        for host in ["a/b", "a b", "a@b", "a?b", "a#b", "a\\b", "<a>", "a,b", "a, b"] {
            assert_eq!(check_host(Version::HTTP_11, None, &headers(&[("host", host)])), Err(Denial::Host), "{host}");
        }
        for host in [
            "[::1",
            "::1]",
            "h:8x",
            "h:65536",
            "[::1]:99999",
            "h:80:80",
            "[::1]80",
            "[]",
            ":80",
            "[a][b]",
            "a[b]",
            "::1",
        ] {
            assert_eq!(check_host(Version::HTTP_11, None, &headers(&[("host", host)])), Err(Denial::Host), "{host}");
            assert_eq!(check_host(Version::HTTP_2, Some(host), &headers(&[])), Err(Denial::Host), "{host}");
        }
        for host in ["[::1]:8080", "[::1]", "h", "h:", "h:80", "h:65535", "a.b-c_d.", ""] {
            assert_eq!(check_host(Version::HTTP_11, None, &headers(&[("host", host)])), Ok(()), "{host}");
        }
    }
}
