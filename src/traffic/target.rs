//! Is this a target we take, and in which form?
//!
//! Judged on the bytes of the wire: Pingora escapes or cuts what it does not like before a hook sees it. A target
//! with a space, a control byte or `#`, or in no known form, is refused; everything else goes on byte for byte, an
//! absolute one in origin form.

use std::borrow::Cow;

use memchr::{memchr, memchr2, memrchr};

use super::Denial;
use crate::template::bytes;

/// A target in one of the forms of RFC 9112, section 3.2 (CONNECT's is not for a gateway).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/path?query`.
    Origin(&'a [u8]),
    /// `http://authority/path?query`.
    Absolute {
        /// What a Host would have said.
        authority: &'a [u8],
        /// The rest; may be empty.
        path_and_query: &'a [u8],
    },
    /// `*`, of OPTIONS alone.
    Asterisk,
}

impl<'a> Target<'a> {
    /// The target of a request, given the bytes of its header from the first on.
    pub fn of_head(head: &'a [u8]) -> Result<Self, Denial> {
        let head = head.trim_ascii_start();
        let line = memchr(b'\n', head).map_or(head, |end| &head[..end]);
        let method = memchr(b' ', line).ok_or(Denial::Target)?;
        let version = memrchr(b' ', line.trim_ascii_end()).filter(|at| *at > method).ok_or(Denial::Target)?;
        Self::parse(&line[..method], &line[method + 1..version])
    }

    /// The target `raw` of a request with this method.
    pub fn parse(method: &[u8], raw: &'a [u8]) -> Result<Self, Denial> {
        if bytes::any(raw, |byte| byte.is_ascii_control() | (byte == b' ') | (byte == b'#')) {
            return Err(Denial::Target);
        }
        match raw {
            [b'/', ..] => Ok(Self::Origin(raw)),
            b"*" if method == b"OPTIONS" => Ok(Self::Asterisk),
            _ => Self::absolute(raw).ok_or(Denial::Target),
        }
    }

    /// What the origin is asked for.
    pub fn origin_form(&self, method: &[u8]) -> Cow<'a, [u8]> {
        match *self {
            Self::Origin(raw) => Cow::Borrowed(raw),
            Self::Asterisk => Cow::Borrowed(b"*"),
            // RFC 9112, 3.2.4: OPTIONS for a whole server.
            Self::Absolute { path_and_query: b"", .. } if method == b"OPTIONS" => Cow::Borrowed(b"*"),
            Self::Absolute { path_and_query: rest @ [b'/', ..], .. } => Cow::Borrowed(rest),
            Self::Absolute { path_and_query, .. } => Cow::Owned([b"/", path_and_query].concat()),
        }
    }

    /// What nginx calls `$request_uri`: the same, but a query that follows the authority at once stays as it came.
    pub fn as_received(&self, method: &[u8]) -> Cow<'a, [u8]> {
        match *self {
            Self::Absolute { path_and_query: rest @ [b'?', ..], .. } => Cow::Borrowed(rest),
            _ => self.origin_form(method),
        }
    }

    fn absolute(raw: &'a [u8]) -> Option<Self> {
        let scheme = raw.windows(3).position(|three| three == b"://")?;
        if !raw[..scheme].eq_ignore_ascii_case(b"http") && !raw[..scheme].eq_ignore_ascii_case(b"https") {
            return None;
        }
        let rest = &raw[scheme + 3..];
        let (authority, path_and_query) = rest.split_at(memchr2(b'/', b'?', rest).unwrap_or(rest.len()));
        (!authority.is_empty()).then_some(Self::Absolute { authority, path_and_query })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(method: &str, raw: &'a str) -> Result<Target<'a>, Denial> {
        Target::parse(method.as_bytes(), raw.as_bytes())
    }

    #[test]
    fn the_four_ways_to_be_malformed_are_refused() {
        for raw in [
            "/a b",
            "/a\tb",
            "/a\x01",
            "/a\x7f",
            "/a#f",
            "",
            "a",
            "?q",
            "*x",
            "://h/",
            "ftp://h/",
            "http:///a",
            "http:/a",
        ] {
            assert_eq!(parse("GET", raw), Err(Denial::Target), "{raw:?}");
        }
        assert_eq!(parse("GET", "*"), Err(Denial::Target));
        assert_eq!(parse("OPTIONS", "*"), Ok(Target::Asterisk));
    }

    #[test]
    fn everything_else_is_the_client_s_business() {
        for raw in
            ["/", "//", "/é", "/a\"b<c>", "/%zz", "/a?b#".trim_end_matches('#'), "/..", "/?", "/a?b=/?&c=http://x"]
        {
            assert_eq!(parse("GET", raw), Ok(Target::Origin(raw.as_bytes())), "{raw:?}");
        }
    }

    #[test]
    fn an_absolute_target_goes_out_in_origin_form() {
        let check = |method: &str, raw: &str, authority: &str, expected: &str| {
            let target = parse(method, raw).unwrap();
            assert!(matches!(target, Target::Absolute { authority: found, .. } if found == authority.as_bytes()));
            assert_eq!(target.origin_form(method.as_bytes()), expected.as_bytes(), "{raw}");
        };
        check("GET", "http://h/x?y", "h", "/x?y");
        check("GET", "HTTPS://h:8443", "h:8443", "/");
        check("GET", "http://[::1]:80?q=/", "[::1]:80", "/?q=/");
        check("OPTIONS", "http://h", "h", "*");
        check("OPTIONS", "http://h?q", "h", "/?q");
    }

    #[test]
    fn a_query_without_a_path_stays_as_it_came_where_it_is_only_named() {
        let received = |raw| parse("GET", raw).unwrap().as_received(b"GET").into_owned();
        assert_eq!(received("http://h?q"), b"?q");
        assert_eq!(received("http://h?"), b"?");
        assert_eq!(received("http://h"), b"/");
        assert_eq!(received("http://h/?q"), b"/?q");
        assert_eq!(received("/?q"), b"/?q");
    }

    #[test]
    fn the_target_is_found_in_the_bytes_of_a_header() {
        let of = |head: &str| Target::of_head(head.as_bytes()).map(|target| target.origin_form(b"GET").into_owned());
        assert_eq!(of("GET /a HTTP/1.1\r\nHost: h\r\n\r\n"), Ok(b"/a".to_vec()));
        assert_eq!(of("\r\nGET /a HTTP/1.0\n\n"), Ok(b"/a".to_vec()));
        for head in ["GET /a b HTTP/1.1\r\n", "GET  /a HTTP/1.1\r\n", "GET /a", "GET", "", "GET ?q HTTP/1.1\r\n"] {
            assert_eq!(of(head), Err(Denial::Target), "{head:?}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_panic_and_what_goes_out_is_a_target_again(method in "[A-Z]{3}", raw: Vec<u8>) {
            _ = Target::of_head(&raw);
            if let Ok(target) = Target::parse(method.as_bytes(), &raw) {
                let out = target.origin_form(method.as_bytes());
                prop_assert_eq!(Target::parse(method.as_bytes(), &out), Ok(Target::Origin(&out)));
            }
        }

        #[test]
        fn an_origin_form_target_goes_out_byte_for_byte(rest in "[^\\s\\x00-\\x20\\x7f#]{0,40}") {
            let raw = format!("/{rest}");
            let target = Target::parse(b"GET", raw.as_bytes()).unwrap();
            prop_assert_eq!(&*target.origin_form(b"GET"), raw.as_bytes());
        }
    }
}
