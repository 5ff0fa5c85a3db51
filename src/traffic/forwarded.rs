//! What does a `Forwarded` line (RFC 7239) say, and what do we add to one?
//!
//! What came is kept as it came, nodes that are `unknown` or hidden (`_x`) among it, but only while it is what the RFC calls a
//! list of elements: behind a quote that somebody left open, the element we add would be a part of theirs.

use std::net::IpAddr;

use http::HeaderValue;

use super::framing::is_token;

/// One element: whom we were asked by, for which host, over what.
pub(super) fn element(told: IpAddr, host: Option<&HeaderValue>, scheme: &str) -> String {
    let node = match told.to_canonical() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("\"[{ip}]\""),
    };
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    match host {
        "" => format!("for={node};proto={scheme}"),
        // Quoted: a port's colon is no token. A Host holds neither quotes nor backslashes.
        host => format!("for={node};host=\"{host}\";proto={scheme}"),
    }
}

/// Is this a list of elements, each of pairs whose names stand once? Empty ones do no harm, nor does an address that ought to
/// stand in quotes.
pub(super) fn is_sound(line: &[u8]) -> bool {
    let mut rest = line;
    let mut names: Vec<&[u8]> = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        let is_pair = rest.first().is_some_and(|byte| is_token(&[*byte]));
        if let Some(equals) = memchr::memchr(b'=', rest).filter(|_| is_pair) {
            let (name, value) = rest.split_at(equals);
            let Some(length) = value_length(&value[1..]) else { return false };
            if !is_token(name) || names.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                return false;
            }
            names.push(name);
            rest = value[1 + length..].trim_ascii_start();
        }
        match rest.split_first() {
            None => return true,
            Some((b',', behind)) => {
                names.clear();
                rest = behind;
            }
            Some((b';', behind)) => rest = behind,
            Some(_) => return false,
        }
    }
}

/// How long the value is that `text` begins with, quoted or not.
fn value_length(text: &[u8]) -> Option<usize> {
    if text.first() != Some(&b'"') {
        let ends = |byte: &u8| matches!(byte, b'"' | b',' | b';' | b'=' | 0..=b' ' | 0x7f);
        let end = text.iter().position(ends).unwrap_or(text.len());
        return (end > 0).then_some(end);
    }
    let mut escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The text of a value: without its quotes, each `\x` in them an `x`.
pub(super) fn text(value: &[u8]) -> Option<Vec<u8>> {
    if value.first() != Some(&b'"') {
        return Some(value.to_vec());
    }
    if value_length(value) != Some(value.len()) {
        return None;
    }
    let mut inner = value.get(1..value.len() - 1)?.iter();
    let mut text = Vec::with_capacity(value.len());
    while let Some(byte) = inner.next() {
        text.push(if *byte == b'\\' { *inner.next()? } else { *byte });
    }
    Some(text)
}

/// Is this a port, or the word that hides one (section 6.3: `_` and letters, digits, `.`, `_` or `-`)?
pub(super) fn is_port(port: &str) -> bool {
    let hides =
        |hidden: &str| !hidden.is_empty() && hidden.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    match port.strip_prefix('_') {
        Some(hidden) => hides(hidden),
        None => (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_quotes_what_is_no_token() {
        let host = HeaderValue::from_static("shop.example:8080");
        let element = |ip: &str, host| element(ip.parse().unwrap(), host, "https");
        assert_eq!(element("192.0.2.1", None), "for=192.0.2.1;proto=https");
        assert_eq!(element("::ffff:192.0.2.1", None), "for=192.0.2.1;proto=https");
        assert_eq!(element("2001:db8::1", Some(&host)), "for=\"[2001:db8::1]\";host=\"shop.example:8080\";proto=https");
    }

    #[test]
    fn what_the_rfc_shows_is_sound() {
        for line in [
            "for=\"_gazonk\"",
            "For=\"[2001:db8:cafe::17]:4711\"",
            "for=192.0.2.60;proto=http;by=203.0.113.43",
            "for=192.0.2.43, for=198.51.100.17",
            "for=_hidden, for=_SEVKISEK",
            "for=unknown;host=\"a,b;c\\\"d\";ext=1",
            "for=192.0.2.43,for=\"[2001:db8:cafe::17]\" , for=unknown",
            "for=a, , for=b,",
            ";for=a;;by=b;",
            "for=[::1], for=192.0.2.1:80",
            "",
        ] {
            assert!(is_sound(line.as_bytes()), "{line}");
        }
        for line in [
            "for=\"",
            "for=\"a",
            "for=a\"",
            "for",
            "=a",
            "for=",
            "for=a b",
            "for=a;for=b",
            "for=\"a\\\"",
            "f r=a",
            "for=a=b",
        ] {
            assert!(!is_sound(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn a_port_may_be_hidden() {
        assert!(["80", "65535", "_p", "_a.b-c_1"].iter().all(|port| is_port(port)));
        assert!(!["", "_", "123456", "p", "_a b", "-1"].iter().any(|port| is_port(port)));
    }

    #[test]
    fn a_quoted_text_is_read_without_its_escapes() {
        assert_eq!(text(b"\"a\\\"\\b\""), Some(b"a\"b".to_vec()));
        assert_eq!((text(b"a"), text(b"\"a"), text(b"\"a\"b")), (Some(b"a".to_vec()), None, None));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    /// By the grammar of section 4.
    fn element_text() -> impl Strategy<Value = String> {
        let token = "[a-zA-Z0-9!#$%&'*+.^_`|~-]{1,6}";
        let quoted = "\"([ !#-\\[\\]-~]|\\\\[ -~]){0,8}\"";
        let value = prop_oneof![token.prop_map(String::from), quoted.prop_map(String::from)];
        let names = prop::sample::subsequence(vec!["for", "By", "HOST", "proto", "x-ext"], 1..5);
        (names, prop::collection::vec(value, 5)).prop_map(|(names, values)| {
            let pairs: Vec<String> = names.iter().zip(values).map(|(name, value)| format!("{name}={value}")).collect();
            pairs.join(";")
        })
    }

    proptest! {
        #[test]
        fn every_list_of_the_grammar_is_sound_and_stays_so_with_ours_behind_it(
            elements in prop::collection::vec(element_text(), 1..4), between in " {0,2},[ \\t]{0,2}", ip: [u8; 4],
        ) {
            let line = elements.join(&between);
            prop_assert!(is_sound(line.as_bytes()), "{line}");
            let more = format!("{line}, {}", element(ip.into(), None, "http"));
            prop_assert!(is_sound(more.as_bytes()), "{more}");
        }

        #[test]
        fn nothing_sound_swallows_what_stands_behind_it(line in "[a-f=;,\"\\\\ ]{0,24}", bytes: Vec<u8>) {
            _ = is_sound(&bytes);
            if is_sound(line.as_bytes()) {
                let more = format!("{line}, for=192.0.2.1");
                prop_assert!(is_sound(more.as_bytes()), "{more}");
                // Outside of quotes, as a reader from the left has it.
                let mut quoted = false;
                let mut escaped = false;
                for byte in line.bytes() {
                    match byte {
                        _ if escaped => escaped = false,
                        b'\\' if quoted => escaped = true,
                        b'"' => quoted = !quoted,
                        _ => {}
                    }
                }
                prop_assert!(!quoted, "{line}");
            }
        }
    }
}
