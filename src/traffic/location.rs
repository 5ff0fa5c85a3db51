//! Where does an origin send the client, in words that the client can follow?
//!
//! An origin that does not know the address it is reached by names itself, or a path as it sees it. Its own names become
//! the address that was asked, and the path what the route's rewrite makes of it, undone. What is none of its own stays as
//! it came, and so does a path that no request from outside could reach.

use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::{Rewrite, limits};
use crate::template::host;

/// How the client reaches us.
#[derive(Debug, Clone)]
pub struct Outside<'a> {
    scheme: &'a str,
    host: &'a str,
    rewrite: Option<&'a Rewrite>,
}

/// Names of an origin: each a host, and a port where it has one.
#[derive(Debug, Default)]
pub struct Own(SmallVec<[(String, Option<u16>); 4]>);

impl Own {
    /// One more: a host, with or without a port.
    pub fn add(&mut self, authority: &str) {
        self.push(authority, port(authority));
    }

    /// The same host at the port it is connected to.
    pub fn add_with_port(&mut self, authority: &str, port: u16) {
        self.push(authority, Some(port));
    }

    fn push(&mut self, authority: &str, port: Option<u16>) {
        let host = host::normalise(authority);
        if !host.is_empty() {
            self.0.push((host.into_owned(), port));
        }
    }

    /// Is this one of them? No port is the port of the scheme (RFC 3986, 6.2.3), on both sides: whatever else listens on
    /// the machine of an origin is not the origin. An origin that was told its name without a port may say it so under
    /// either scheme.
    fn contains(&self, scheme: Option<u16>, authority: &str) -> bool {
        let (named, port) = (host::normalise(authority), port(authority));
        let is_port = |own: Option<u16>| match (port, own) {
            (None, None) => true,
            (None, Some(own)) => scheme.map_or(matches!(own, HTTP | HTTPS), |scheme| own == scheme),
            (Some(port), None) => scheme.map_or(matches!(port, HTTP | HTTPS), |scheme| port == scheme),
            (Some(port), Some(own)) => port == own,
        };
        self.0.iter().any(|(host, own)| *host == *named && is_port(*own))
    }
}

/// Ports of the schemes.
const HTTP: u16 = 80;
const HTTPS: u16 = 443;

fn port(authority: &str) -> Option<u16> {
    let behind = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    authority.get(behind..)?.rsplit_once(':')?.1.parse().ok()
}

impl<'a> Outside<'a> {
    /// As the request has it: what a trusted proxy says of scheme and host counts more than what we see.
    pub fn of(headers: &'a HeaderMap, trusted: bool, seen: (&'a str, &'a str), rewrite: Option<&'a Rewrite>) -> Self {
        let said = |name: &'static str| headers.get(name).filter(|_| trusted);
        let scheme = said("x-forwarded-proto").and_then(|scheme| scheme.to_str().ok());
        let scheme = scheme.filter(|scheme| matches!(*scheme, "http" | "https"));
        let host = said("x-forwarded-host").filter(|host| limits::is_host(host)).and_then(|host| host.to_str().ok());
        Self { scheme: scheme.unwrap_or(seen.0), host: host.filter(|host| !host.is_empty()).unwrap_or(seen.1), rewrite }
    }

    /// What a `Location`, `Content-Location` or `Refresh` has to say instead; `None`: it stays.
    pub fn instead(&self, name: &HeaderName, value: &HeaderValue, own: &Own) -> Option<HeaderValue> {
        let value = value.to_str().ok()?;
        let (before, place, after) = if name == http::header::REFRESH { refresh(value)? } else { ("", value, "") };
        let place = self.place(place, own)?;
        HeaderValue::try_from(format!("{before}{place}{after}")).ok()
    }

    fn place(&self, place: &str, own: &Own) -> Option<String> {
        if place.starts_with('/') && !place.starts_with("//") {
            let path = self.rewrite.and_then(|_| self.path(place));
            // Without the prefix it would name a host, as browsers read it.
            return path.filter(|path| !path.starts_with("//") && !path.starts_with("/\\"));
        }
        let scheme_end = place.find("//")?;
        // `//host`: that of the page, which the origin may not know.
        let schemes = [("", None), ("http:", Some(HTTP)), ("https:", Some(HTTPS))];
        let (_, port) = schemes.into_iter().find(|(scheme, _)| place[..scheme_end].eq_ignore_ascii_case(scheme))?;
        let rest = &place[scheme_end + 2..];
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.contains(['@', '\\']) || !own.contains(port, authority) || self.host.is_empty() {
            return None;
        }
        let scheme = if scheme_end == 0 { String::new() } else { format!("{}:", self.scheme) };
        Some(format!("{scheme}//{}{}", self.host, self.path(path)?))
    }

    /// The path of an origin, with all behind it.
    fn path(&self, path: &str) -> Option<String> {
        let Some(rewrite) = self.rewrite else { return Some(path.to_owned()) };
        let (path, behind) = path.split_at(path.find(['?', '#']).unwrap_or(path.len()));
        Some(rewrite.undone(if path.is_empty() { "/" } else { path })? + behind)
    }
}

/// A `Refresh` around the place it names: `5; url=/x`, with or without quotes.
fn refresh(value: &str) -> Option<(&str, &str, &str)> {
    let from = value.find([';', ','])? + 1;
    let key = value.get(from..)?.to_ascii_lowercase().find("url")?;
    let equals = from + key + value.get(from + key..)?.find('=')? + 1;
    let start = equals + value.get(equals..)?.find(|letter: char| !letter.is_whitespace())?;
    let quote = value.get(start..)?.chars().next().filter(|letter| matches!(letter, '"' | '\''));
    let start = start + quote.map_or(0, char::len_utf8);
    let length = quote.and_then(|quote| value.get(start..)?.find(quote)).unwrap_or(value.len() - start);
    Some((value.get(..start)?, value.get(start..start + length)?, value.get(start + length..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::route;

    fn instead(name: &str, value: &str, prefixes: Option<(&str, &str)>) -> Option<String> {
        let rewrite = prefixes.and_then(|(strip, add)| {
            let some = |path: &str| (!path.is_empty()).then(|| path.to_owned());
            Rewrite::compile(&route::Rewrite { strip_prefix: some(strip), add_prefix: some(add) }).unwrap()
        });
        let mut own = Own::default();
        ["origin.internal", "10.0.0.1:8080", "[::1]:8080", "Node-1:80"].iter().for_each(|name| own.add(name));
        let headers = HeaderMap::new();
        let outside = Outside::of(&headers, true, ("https", "shop.example:8443"), rewrite.as_ref());
        let instead = outside.instead(&name.parse().unwrap(), &value.parse().unwrap(), &own)?;
        Some(instead.to_str().unwrap().to_owned())
    }

    #[test]
    fn names_of_the_origin_become_the_address_that_was_asked() {
        for (place, expected) in [
            ("http://origin.internal/a?b#c", Some("https://shop.example:8443/a?b#c")),
            ("HTTP://Origin.Internal./a", Some("https://shop.example:8443/a")),
            ("http://10.0.0.1:8080", Some("https://shop.example:8443")),
            ("https://[::1]:8080/", Some("https://shop.example:8443/")),
            ("//node-1/a", Some("//shop.example:8443/a")),
            ("http://node-1/a", Some("https://shop.example:8443/a")),
            ("http://node-1:80/a", Some("https://shop.example:8443/a")),
            ("http://node-1:/a", Some("https://shop.example:8443/a")),
            ("https://node-1/a", None),
            ("https://node-1:80/a", Some("https://shop.example:8443/a")),
            ("https://origin.internal/a", Some("https://shop.example:8443/a")),
            ("https://origin.internal:443/a", Some("https://shop.example:8443/a")),
            ("http://origin.internal:443/a", None),
            ("http://origin.internal:8080/a", None),
            ("http://10.0.0.1/", None),
            ("https://10.0.0.1/", None),
            ("//10.0.0.1/", None),
            ("http://[::1]/", None),
            ("http://10.0.0.1:9090/", None),
            ("http://you@origin.internal/", None),
            ("http://origin.internal\\@evil.example/", None),
            ("http://origin.internal.evil.example/", None),
            ("https://elsewhere.example/", None),
            ("ftp://origin.internal/", None),
            ("mailto:a@b", None),
            ("/a", None),
            ("a//b", None),
            ("../a", None),
            ("?a", None),
            ("", None),
        ] {
            assert_eq!(instead("location", place, None).as_deref(), expected, "{place}");
        }
    }

    #[test]
    fn a_path_is_what_a_client_has_to_ask_for() {
        let (strip, both) = (Some(("/api", "")), Some(("/api", "/v2")));
        for (prefixes, place, expected) in [
            (strip, "/login?next=/x", Some("/api/login?next=/x")),
            (strip, "http://origin.internal", Some("https://shop.example:8443/api/")),
            (strip, "http://origin.internal/x", Some("https://shop.example:8443/api/x")),
            (strip, "login", None),
            (strip, "https://elsewhere.example/login", None),
            (both, "/v2/login", Some("/api/login")),
            (both, "/v2", Some("/api")),
            (both, "/other", None),
            (both, "http://origin.internal/other", None),
            (Some(("", "/v2")), "/v2?x", Some("/?x")),
            (Some(("", "/v2")), "/v2//evil.example/x", None),
            (Some(("", "/v2")), "/v2/\\evil.example/x", None),
            (Some(("", "/v2")), "http://origin.internal/v2//x", Some("https://shop.example:8443//x")),
        ] {
            assert_eq!(instead("content-location", place, prefixes).as_deref(), expected, "{place}");
        }
    }

    #[test]
    fn a_refresh_is_read_as_browsers_do() {
        for (value, expected) in [
            ("5; url=/x", Some("5; url=/api/x")),
            ("0;URL='/x' ; more", Some("0;URL='/api/x' ; more")),
            ("5, Url = \"/x\"", Some("5, Url = \"/api/x\"")),
            ("5; url='/x", Some("5; url='/api/x")),
            ("5", None),
            ("5; url=", None),
            ("5; url=x", None),
        ] {
            assert_eq!(instead("refresh", value, Some(("/api", ""))).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_trusted_proxy_knows_better_how_it_was_reached() {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
        headers.insert("x-forwarded-host", HeaderValue::from_static("outside.example"));
        let mut own = Own::default();
        own.add("o");
        let place = |trusted| Outside::of(&headers, trusted, ("http", "inside"), None).place("http://o/", &own);
        assert_eq!(place(true).as_deref(), Some("https://outside.example/"));
        assert_eq!(place(false).as_deref(), Some("http://inside/"));
        headers.insert("x-forwarded-proto", HeaderValue::from_static("gopher"));
        headers.insert("x-forwarded-host", HeaderValue::from_static("a/b"));
        let place = Outside::of(&headers, true, ("http", "inside"), None).place("http://o/", &own);
        assert_eq!(place.as_deref(), Some("http://inside/"));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_value_is_too_strange_and_no_host_but_ours_comes_out(value in "[ -~]{0,30}", own in "(http:)?//o[/:?#@\\\\ -~]{0,12}") {
            let mut names = Own::default();
            names.add("o:8080");
            let headers = HeaderMap::new();
            let outside = Outside::of(&headers, false, ("http", "h"), None);
            for value in [value, own] {
                _ = refresh(&value);
                if let Some(place) = outside.place(&value, &names) {
                    let rest = place.trim_start_matches("http:").strip_prefix("//h").unwrap();
                    prop_assert!(rest.is_empty() || rest.starts_with(['/', '?', '#']), "{place}");
                }
            }
        }
    }
}
