//! What does a route ask of a request beside host and path? Methods, exact values of headers, cookies and arguments
//! (where a request repeats a name, one occurrence with the value is enough), and by which scheme and listener it came.
//!
//! Arguments are split at `&` and at the first `=`, and compared after percent-decoding; `+` is a plus sign and `a`
//! equals `a=`, as in `{args}`. Cookies are split at `;` and compared as they are. Nothing is copied.

use std::cmp::Reverse;
use std::iter;
use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, Method, header};
use indexmap::IndexMap;

use super::Request;
use crate::config::route::{Match, Scheme};

/// The conditions of one route, in order: equal conditions are equal values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conditions {
    methods: Vec<Method>,
    headers: Vec<(HeaderName, String)>,
    cookies: Vec<(String, String)>,
    query: Vec<(String, String)>,
    scheme: Option<Scheme>,
    listeners: Vec<SocketAddr>,
}

impl Conditions {
    pub(super) fn of(matches: &Match) -> Self {
        let mut methods: Vec<_> = matches.methods.iter().cloned().collect();
        methods.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        let mut listeners = matches.listeners.clone();
        listeners.sort_unstable();
        listeners.dedup();
        Self {
            methods,
            headers: sorted(&matches.headers),
            cookies: sorted(&matches.cookies),
            query: sorted(&matches.query),
            scheme: matches.scheme.on().copied(),
            listeners,
        }
    }

    /// Does `request` meet them all?
    pub(super) fn met_by(&self, request: &Request<'_>) -> bool {
        (self.methods.is_empty() || self.methods.contains(request.method))
            && self.scheme.is_none_or(|scheme| scheme.as_str() == request.scheme)
            && (self.listeners.is_empty() || self.listeners.contains(&request.listener))
            && self.headers.iter().all(|(name, value)| has_header(request.headers, name, value))
            && self.cookies.iter().all(|(name, value)| has_cookie(request.headers, name, value))
            && self.query.iter().all(|(name, value)| has_argument(request.query, name, value))
    }

    /// How specific they are: a method is given, then the number of headers, of cookies, of arguments, then a scheme
    /// is given, then a listener.
    pub(super) fn weight(&self) -> impl Ord + use<> {
        let counts = [&self.cookies, &self.query].map(Vec::len);
        let came_by = [self.scheme.is_some(), !self.listeners.is_empty()];
        (!self.methods.is_empty(), self.headers.len(), counts, came_by)
    }

    /// The more specific first, whatever the order of the file.
    pub(super) fn order(&self) -> impl Ord {
        let methods: Vec<String> = self.methods.iter().map(Method::to_string).collect();
        let headers: Vec<_> = self.headers.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        let came_by = (self.scheme.map(Scheme::as_str), self.listeners.clone());
        (Reverse(self.weight()), methods, headers, self.cookies.clone(), self.query.clone(), came_by)
    }

    /// Could one request meet both? Two values of one name exclude each other: a request that repeats the name with
    /// both goes by [`Self::order`].
    pub(super) fn overlap(&self, other: &Self) -> bool {
        meet(&self.methods, &other.methods)
            && meet(self.scheme.as_slice(), other.scheme.as_slice())
            && meet(&self.listeners, &other.listeners)
            && agree(&self.headers, &other.headers)
            && agree(&self.cookies, &other.cookies)
            && agree(&self.query, &other.query)
    }
}

fn sorted<N: Clone + AsRef<str>>(written: &IndexMap<N, String>) -> Vec<(N, String)> {
    let mut pairs: Vec<_> = written.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    pairs.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
    pairs
}

/// Do these have something in common? An empty list means anything.
fn meet<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|it| other.contains(it))
}

fn agree<N: PartialEq>(one: &[(N, String)], other: &[(N, String)]) -> bool {
    one.iter().all(|(name, value)| other.iter().all(|(other, theirs)| name != other || value == theirs))
}

fn has_header(headers: &HeaderMap, name: &HeaderName, value: &str) -> bool {
    headers.get_all(name).iter().any(|line| line.as_bytes() == value.as_bytes())
}

fn has_cookie(headers: &HeaderMap, name: &str, value: &str) -> bool {
    let lines = headers.get_all(header::COOKIE).iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';')).any(|piece| {
        let (its_name, its_value) = split(piece.trim_ascii());
        its_name == name.as_bytes() && its_value == value.as_bytes()
    })
}

fn has_argument(query: &[u8], name: &str, value: &str) -> bool {
    query.split(|byte| *byte == b'&').any(|piece| {
        let (its_name, its_value) = split(piece);
        decoded(its_name).eq(name.bytes()) && decoded(its_value).eq(value.bytes())
    })
}

/// At the first `=`; without one the value is empty.
fn split(piece: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr(b'=', piece) {
        Some(at) => (&piece[..at], &piece[at + 1..]),
        None => (piece, &[]),
    }
}

/// The bytes `text` stands for; what is no escape stands for itself.
fn decoded(mut text: &[u8]) -> impl Iterator<Item = u8> {
    iter::from_fn(move || {
        let (byte, rest) = match text {
            [b'%', high, low, rest @ ..] => hex(*high, *low).map_or((b'%', &text[1..]), |byte| (byte, rest)),
            [byte, rest @ ..] => (*byte, rest),
            [] => return None,
        };
        text = rest;
        Some(byte)
    })
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::units::Off;

    #[test]
    fn arguments_are_compared_decoded_at_any_place() {
        for (query, expected) in [
            ("v=1", true),
            ("a=2&v=1", true),
            ("v=2&v=1", true),
            ("%76=%31", true),
            ("v=1=", false),
            ("v=11", false),
            ("V=1", false),
            ("xv=1", false),
            ("v", false),
            ("", false),
        ] {
            assert_eq!(has_argument(query.as_bytes(), "v", "1"), expected, "{query}");
        }
        assert!(has_argument(b"flag", "flag", "") && has_argument(b"flag=", "flag", ""));
        assert!(has_argument(b"q=a+b%26c", "q", "a+b&c") && !has_argument(b"q=a+b", "q", "a b"));
        assert!(has_argument(b"q=100%&r=%zz%4", "q", "100%") && has_argument(b"r=%zz%4", "r", "%zz%4"));
    }

    #[test]
    fn cookies_are_compared_as_they_are_over_all_lines() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=1; b=x=y;c".parse().unwrap());
        headers.append(header::COOKIE, "a=2".parse().unwrap());
        for (name, value) in [("a", "1"), ("a", "2"), ("b", "x=y"), ("c", "")] {
            assert!(has_cookie(&headers, name, value), "{name}={value}");
        }
        for (name, value) in [("A", "1"), ("a", "3"), ("b", "x"), ("d", "")] {
            assert!(!has_cookie(&headers, name, value), "{name}={value}");
        }
    }

    #[test]
    fn headers_are_compared_line_by_line() {
        let name = HeaderName::from_static("x-canary");
        let mut headers = HeaderMap::new();
        assert!(!has_header(&headers, &name, ""));
        headers.append(&name, "0".parse().unwrap());
        headers.append(&name, "1".parse().unwrap());
        assert!(has_header(&headers, &name, "1") && !has_header(&headers, &name, "0, 1"));
    }

    fn conditions(methods: &[Method], headers: &[(&'static str, &str)]) -> Conditions {
        let headers = headers.iter().map(|(name, value)| (HeaderName::from_static(name), (*value).to_owned()));
        let methods = methods.iter().cloned().collect();
        Conditions::of(&Match { methods, headers: headers.collect(), ..Match::default() })
    }

    #[test]
    fn conditions_overlap_unless_a_method_or_a_value_sets_them_apart() {
        let check = |one: &Conditions, other: &Conditions, expected: bool| {
            assert_eq!(one.overlap(other), expected, "{one:?} {other:?}");
            assert_eq!(other.overlap(one), expected, "{other:?} {one:?}");
        };
        let get = conditions(&[Method::GET, Method::HEAD], &[]);
        check(&get, &conditions(&[Method::HEAD], &[]), true);
        check(&get, &conditions(&[Method::PUT], &[]), false);
        check(&get, &conditions(&[], &[("x-a", "1")]), true);
        let one = conditions(&[], &[("x-a", "1")]);
        check(&one, &conditions(&[], &[("x-a", "2")]), false);
        check(&one, &conditions(&[], &[("x-b", "2")]), true);
        let [http, https] = [Scheme::Http, Scheme::Https]
            .map(|scheme| Conditions::of(&Match { scheme: Off::On(scheme), ..Match::default() }));
        check(&http, &https, false);
        check(&http, &conditions(&[], &[]), true);
        let by = |ports: &[u16]| {
            let listeners = ports.iter().map(|port| ([127, 0, 0, 1], *port).into()).collect();
            Conditions::of(&Match { listeners, ..Match::default() })
        };
        check(&by(&[1, 2]), &by(&[3]), false);
        check(&by(&[1, 2]), &by(&[2, 3]), true);
        check(&by(&[1]), &https, true);
        assert_eq!(by(&[2, 1, 2]), by(&[1, 2]));
    }
}
