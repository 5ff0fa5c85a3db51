//! What is known about a request when a template is rendered: borrowed, never copied.

use std::net::{IpAddr, SocketAddr};

/// The request as templates see it.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The method as sent.
    pub method: &'a str,
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The normalised host (K1): lower case, no port; empty when the request named none.
    pub host: &'a str,
    /// The same with a port that is not the scheme's default.
    pub host_port: &'a str,
    /// Path and query, byte for byte as received; an absolute target may have had a query alone (`?a=b`).
    pub target: &'a [u8],
    /// The header lines.
    pub headers: &'a http::HeaderMap,
    /// Who asks, after trusted proxies.
    pub client_ip: IpAddr,
    /// The other end of the socket.
    pub peer: SocketAddr,
}

impl<'a> Facts<'a> {
    /// The path as received; `/` where there was none.
    pub fn path(&self) -> &'a [u8] {
        match self.split().0 {
            b"" => b"/",
            path => path,
        }
    }

    /// What follows the first `?`, if there is one.
    pub fn query(&self) -> Option<&'a [u8]> {
        self.split().1
    }

    fn split(&self) -> (&'a [u8], Option<&'a [u8]>) {
        match memchr::memchr(b'?', self.target) {
            Some(mark) => (&self.target[..mark], Some(&self.target[mark + 1..])),
            None => (self.target, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: &str, path: &str, query: Option<&str>) {
        let headers = http::HeaderMap::new();
        let peer = SocketAddr::from(([127, 0, 0, 1], 80));
        let facts = Facts {
            method: "GET",
            scheme: "http",
            host: "h",
            host_port: "h",
            target: target.as_bytes(),
            headers: &headers,
            client_ip: peer.ip(),
            peer,
        };
        assert_eq!(facts.path(), path.as_bytes());
        assert_eq!(facts.query(), query.map(str::as_bytes));
    }

    #[test]
    fn the_first_question_mark_splits_a_target() {
        check("/a?b?c", "/a", Some("b?c"));
        check("/a?", "/a", Some(""));
        check("/a", "/a", None);
        check("?b", "/", Some("b"));
    }
}
