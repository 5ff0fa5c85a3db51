//! Which host does the client mean, whatever way it wrote it? Rule K1.
//!
//! [`normalise`] is `{host}`, nginx's `$host`; [`with_port`] is `{host_port}`. Both take what stands in
//! `:authority`, in an absolute-form target or in the Host header; a request that names no host has an empty one.

use std::borrow::Cow;

use super::bytes;

/// `{host}`: lower-case, without port and one trailing dot; IPv6 keeps its brackets.
pub fn normalise(authority: &str) -> Cow<'_, str> {
    lower_case(split(authority).0)
}

/// Both of it: `{host}`, and `{host_port}` where that differs.
pub fn both<'a>(authority: &'a str, scheme: &str) -> (Cow<'a, str>, Option<Cow<'a, str>>) {
    let (host, port) = split(authority);
    let host = lower_case(host);
    let with_port = if port.is_empty() { None } else { Some(with_port(authority, scheme)) };
    let differs = with_port.filter(|with_port| *with_port != host);
    (host, differs)
}

/// `{host_port}`: the same with its port, unless that is the scheme's own (80, or 443 for `https`).
pub fn with_port<'a>(authority: &'a str, scheme: &str) -> Cow<'a, str> {
    let (host, port) = split(authority);
    let host = lower_case(host);
    if port.is_empty() {
        return host;
    }
    let default = if scheme.eq_ignore_ascii_case("https") { 443 } else { 80 };
    match port.parse::<u16>() {
        Ok(port) if port == default => host,
        Ok(port) => Cow::Owned(format!("{host}:{port}")),
        Err(_) => host,
    }
}

fn lower_case(host: &str) -> Cow<'_, str> {
    match bytes::any(host.as_bytes(), |byte| byte.is_ascii_uppercase()) {
        true => Cow::Owned(host.to_ascii_lowercase()),
        false => Cow::Borrowed(host),
    }
}

/// Host without its trailing dot, and port.
fn split(authority: &str) -> (&str, &str) {
    // A host is short: the search of `str` and of `memchr` begins to pay beyond it.
    let find = |wanted: u8| authority.bytes().position(|byte| byte == wanted);
    let bracket = if authority.starts_with('[') { find(b']') } else { None };
    let end = bracket.map_or_else(|| find(b':').unwrap_or(authority.len()), |bracket| bracket + 1);
    let (host, rest) = authority.split_at(end);
    (host.strip_suffix('.').unwrap_or(host), rest.strip_prefix(':').unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        for (authority, host, host_port) in [
            ("example.com", "example.com", "example.com"),
            ("Example.COM", "example.com", "example.com"),
            ("example.com:80", "example.com", "example.com"),
            ("example.com:8080", "example.com", "example.com:8080"),
            ("example.com:443", "example.com", "example.com:443"),
            ("example.com.:8080", "example.com", "example.com:8080"),
            ("example.com.", "example.com", "example.com"),
            ("example.com:", "example.com", "example.com"),
            ("[::1]:8080", "[::1]", "[::1]:8080"),
            ("[FE80::1]", "[fe80::1]", "[fe80::1]"),
            ("", "", ""),
        ] {
            assert_eq!(normalise(authority), host, "{authority}");
            assert_eq!(with_port(authority, "http"), host_port, "{authority}");
        }
        assert_eq!(with_port("example.com:443", "https"), "example.com");
        assert_eq!(with_port("example.com:80", "https"), "example.com:80");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_authority_is_too_strange(authority in "\\PC*", brackets in "[\\[\\]:.a-z0-9]{0,12}") {
            for text in [authority, brackets] {
                let (host, host_port) = (normalise(&text).into_owned(), with_port(&text, "http"));
                prop_assert!(host_port.starts_with(&host));
                if !host.ends_with('.') {
                    prop_assert_eq!(&normalise(&host), &host);
                }
            }
        }
    }
}
