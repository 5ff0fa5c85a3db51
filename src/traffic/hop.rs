//! What does a request say about this hop alone?
//!
//! `Connection` names what ends here, `Upgrade` asks for another protocol on this very connection. Pingora acts on both
//! once a connection to an origin is held; what it would refuse there is refused here, before anybody is asked.

use http::header::{CONNECTION, HeaderMap, HeaderName, MAX_FORWARDS, UPGRADE};
use http::{HeaderValue, Method, Version};

use super::Denial;

/// Names Pingora takes from `Connection` lines at most (its `MAX_CONNECTION_NOMINATIONS`, which is one too many).
const NAMES: usize = 9;

/// Does `Connection` name only what a client may take out of its request? Answers whether it says `close`, on whichever
/// of its lines: Pingora looks at the first.
pub fn check_connection(headers: &HeaderMap) -> Result<bool, Denial> {
    if !headers.contains_key(CONNECTION) {
        return Ok(false);
    }
    let (mut names, mut closes) = (named(headers), false);
    let good = names.by_ref().take(NAMES).all(|name| {
        closes |= name.eq_ignore_ascii_case(b"close");
        may_be_named(name)
    });
    if good && names.next().is_none() { Ok(closes) } else { Err(Denial::Connection) }
}

/// How far a TRACE or an OPTIONS may go on (RFC 9110, section 7.6.2).
#[derive(Debug, PartialEq, Eq)]
pub enum Hops {
    /// As far as it likes, or it does not say so in a number.
    Any,
    /// No further: it is for us to answer.
    None,
    /// As far as this says, which is one less.
    Left(HeaderValue),
}

/// How far may this request go on?
pub fn hops(method: &Method, headers: &HeaderMap) -> Hops {
    if !matches!(*method, Method::TRACE | Method::OPTIONS) {
        return Hops::Any;
    }
    let said = headers.get(MAX_FORWARDS).and_then(|hops| hops.to_str().ok()?.parse::<u32>().ok());
    match said {
        None => Hops::Any,
        Some(hops) => hops.checked_sub(1).map_or(Hops::None, |left| Hops::Left(left.into())),
    }
}

/// Does the client ask for WebSocket, the one protocol that is switched to? Both lines have to say so (RFC 9110, 7.8).
pub fn asks_to_switch(version: Version, headers: &HeaderMap) -> bool {
    let to = headers.get(UPGRADE).map_or(&b""[..], HeaderValue::as_bytes);
    version == Version::HTTP_11
        && to.eq_ignore_ascii_case(b"websocket")
        && named(headers).any(|name| name.eq_ignore_ascii_case(b"upgrade"))
}

fn named(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = headers.get_all(CONNECTION).into_iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii);
    names.filter(|name| !name.is_empty())
}

/// A header's name, and none that says who asked for what.
fn may_be_named(name: &[u8]) -> bool {
    let guarded = |name: &HeaderName| {
        matches!(name.as_str(), "host" | "x-forwarded-for" | "x-forwarded-host" | "x-forwarded-proto")
    };
    super::framing::is_token(name) && HeaderName::from_bytes(name).is_ok_and(|name| !guarded(&name))
}

#[cfg(test)]
mod tests {
    use super::super::tests::headers;
    use super::*;

    #[test]
    fn names_of_headers_pass_and_what_says_who_asks_does_not() {
        let check = |value| check_connection(&headers(&[("connection", value)]));
        for value in ["keep-alive", "close", "Upgrade", "", ", ,", "a,b,c,d,e,f,g,h,i", "x-hop, Close,"] {
            assert_eq!(check(value), Ok(value.to_lowercase().contains("close")), "{value:?}");
        }
        for value in
            ["host", "keep-alive, HOST", "X-Forwarded-For", ":authority", "a b", "\"x\"", "a,b,c,d,e,f,g,h,i,j"]
        {
            assert_eq!(check(value), Err(Denial::Connection), "{value:?}");
        }
        assert_eq!(check_connection(&HeaderMap::new()), Ok(false));
        assert_eq!(check_connection(&headers(&[("connection", "keep-alive"), ("connection", "close")])), Ok(true));
        let over_lines = headers(&[("connection", "a,b,c,d,e"), ("connection", "f,g,h,i,j")]);
        assert_eq!(check_connection(&over_lines), Err(Denial::Connection));
    }

    #[test]
    fn a_trace_goes_as_far_as_it_says() {
        let left = |method, said| hops(&method, &headers(&[("max-forwards", said)]));
        for method in [Method::TRACE, Method::OPTIONS] {
            assert_eq!(left(method.clone(), "0"), Hops::None);
            assert_eq!(left(method.clone(), "10"), Hops::Left(HeaderValue::from_static("9")));
            for other in ["", "x", "-1", "99999999999"] {
                assert_eq!(left(method.clone(), other), Hops::Any, "{other}");
            }
            assert_eq!(hops(&method, &HeaderMap::new()), Hops::Any);
        }
        assert_eq!(left(Method::GET, "0"), Hops::Any);
    }

    #[test]
    fn a_switch_is_asked_for_by_two_lines_of_http_1_1() {
        let check = |version, connection, upgrade| {
            asks_to_switch(version, &headers(&[("connection", connection), ("upgrade", upgrade)]))
        };
        assert!(check(Version::HTTP_11, "keep-alive, Upgrade", "WebSocket"));
        assert!(!check(Version::HTTP_10, "upgrade", "websocket"));
        assert!(!check(Version::HTTP_11, "keep-alive", "websocket"));
        assert!(!check(Version::HTTP_11, "upgrade", "h2c"));
        assert!(!asks_to_switch(Version::HTTP_11, &headers(&[("connection", "upgrade")])));
        assert!(!asks_to_switch(Version::HTTP_11, &headers(&[("upgrade", "websocket")])));
    }
}
