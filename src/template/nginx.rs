//! What do nginx's `$uri` and `$arg_x` say? For keys that must not move when a site comes from nginx.
//!
//! These two follow nginx where our own variables differ: the path is decoded and its slashes are merged before
//! dot segments go, an argument's name has no case and its value is left as it was sent. They are empty rather than
//! missing. What nginx refuses with 400 (an invalid escape, a climb) has no equal here and comes out as it is.

use super::path::remove_dots;
use super::percent::decoded;

/// Appends `$uri`.
pub(super) fn push_uri(raw: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let mut rest = raw;
    while let Some((byte, tail)) = rest.split_first() {
        let (byte, tail) = Some(tail).filter(|_| *byte == b'%').and_then(decoded).unwrap_or((*byte, tail));
        if byte != b'/' || out.len() == start || out.last() != Some(&b'/') {
            out.push(byte);
        }
        rest = tail;
    }
    remove_dots(out, start);
}

/// `$arg_name`: the first of the name that has a `=`, as sent.
pub(super) fn arg<'q>(query: &'q [u8], name: &[u8]) -> Option<&'q [u8]> {
    query.split(|byte| *byte == b'&').find_map(|piece| {
        let (found, value) = piece.split_at_checked(name.len())?;
        let value = value.strip_prefix(b"=")?;
        found.eq_ignore_ascii_case(name).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_is_decoded_merged_and_free_of_dots() {
        for (raw, expected) in [
            ("/a/b", "/a/b"),
            ("/a%20b", "/a b"),
            ("//a///b", "/a/b"),
            ("/a//../b", "/b"),
            ("/a/%2e%2e/b", "/b"),
            ("/a%2fb", "/a/b"),
            ("/a/%2F../b", "/b"),
            ("/a%3Fb%23%25", "/a?b#%"),
            ("/a+b", "/a+b"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
        ] {
            let mut out = b"/".to_vec();
            push_uri(raw.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out[1..]), expected, "{raw}");
        }
    }

    #[test]
    fn arg_is_the_first_with_a_value_and_has_no_case() {
        for (query, expected) in [
            ("id=7", Some("7")),
            ("a=1&ID=%41&id=2", Some("%41")),
            ("id", None),
            ("id&id=3", Some("3")),
            ("xid=1", None),
            ("id=", Some("")),
            ("id=a=b", Some("a=b")),
            ("", None),
        ] {
            assert_eq!(arg(query.as_bytes(), b"id"), expected.map(str::as_bytes), "{query}");
        }
    }
}
