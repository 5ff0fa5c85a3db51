//! Which heads would Pingora refuse although nothing is wrong with them?
//!
//! It compares the host of an absolute target with Host byte by byte, where `http://A/` and `http://a:80/` are `a` as
//! well (rule K1), and takes no target that is not UTF-8, which an old link may well hold. Such a head is respelt before
//! Pingora reads it: Host says what the target says (RFC 9112, section 3.2.2), and odd bytes are escaped until the first
//! hook puts the client's own back. Always: whatever cannot be respelt stays as it came, to be refused as it was.

use memchr::{memchr, memrchr};

use super::Target;
use crate::template::host;

/// A head in another spelling.
#[derive(Debug, PartialEq, Eq)]
pub struct Respelt {
    /// The whole of it.
    pub head: Vec<u8>,
    /// The client's own target, where that is not in it.
    pub target: Option<Vec<u8>>,
}

/// May the head that begins with these bytes need another spelling? Nearly never: its first line is whole, and its
/// target begins with a slash and is UTF-8.
pub fn may_be_odd(start: &[u8]) -> bool {
    let Some(end) = memchr(b'\n', start) else { return true };
    let line = &start[..end];
    let slash = memchr(b' ', line).is_some_and(|space| line.get(space + 1) == Some(&b'/'));
    !slash || !line.is_ascii() && std::str::from_utf8(line).is_err()
}

/// The head `head` as Pingora takes it; `None`: it needs no other spelling, or there is none.
pub fn respell(head: &[u8], scheme: &str) -> Option<Respelt> {
    let line = head.iter().position(|byte| !matches!(byte, b'\r' | b'\n'))?;
    let end = line + memchr(b'\n', &head[line..])?;
    let start = line + memchr(b' ', &head[line..end])? + 1;
    let stop = line + memrchr(b' ', head[line..end].trim_ascii_end())?;
    let raw = head.get(start..stop).filter(|raw| !raw.is_empty())?;
    let (target, own) = match std::str::from_utf8(raw) {
        Ok(_) => (raw.to_vec(), None),
        Err(_) => (escaped(raw), Some(raw.to_vec())),
    };
    let host = match Target::parse(&head[line..start - 1], raw) {
        Ok(Target::Absolute { authority, .. }) => host_line(head, end, authority, scheme),
        Ok(_) => None,
        Err(_) => return None,
    };
    if own.is_none() && host.is_none() {
        return None;
    }
    let (before, after) = (&head[..start], &head[stop..]);
    let head = match host {
        Some((from, to, authority)) => [before, &target, &head[stop..from], b" ", authority, &head[to..]].concat(),
        None => [before, &target, after].concat(),
    };
    Some(Respelt { head, target: own })
}

/// Where the value of the only Host line stands, if it is the same host as `authority` in other bytes.
fn host_line<'a>(head: &[u8], first: usize, authority: &'a [u8], scheme: &str) -> Option<(usize, usize, &'a [u8])> {
    let mut found = None;
    let mut at = first + 1;
    while let Some(end) = memchr(b'\n', head.get(at..)?).map(|end| at + end) {
        let line = &head[at..end];
        let name = memchr(b':', line).unwrap_or(line.len());
        if line[..name].eq_ignore_ascii_case(b"host") {
            let stop = if line.ends_with(b"\r") { end - 1 } else { end };
            if name == line.len() || found.replace((at + name + 1, stop)).is_some() {
                return None;
            }
        }
        at = end + 1;
    }
    let (from, to) = found?;
    let asked = std::str::from_utf8(head[from..to].trim_ascii()).ok()?;
    let named = std::str::from_utf8(authority).ok()?;
    let same = asked != named && host::with_port(asked, scheme) == host::with_port(named, scheme);
    same.then_some((from, to, authority))
}

fn escaped(raw: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(raw.len() + 16);
    for byte in raw {
        if byte.is_ascii() {
            escaped.push(*byte);
        } else {
            escaped.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(bytes: &[u8]) -> Option<(String, Option<Vec<u8>>)> {
        respell(bytes, "http").map(|respelt| (String::from_utf8(respelt.head).unwrap(), respelt.target))
    }

    #[test]
    fn a_host_that_is_the_target_s_is_spelt_like_it() {
        let check = |target: &str, host: &str, to: Option<&str>| {
            let sent = format!("GET {target} HTTP/1.1\r\nA: b\r\nhost:{host}\r\nX: Host: c\r\n\r\n");
            let respelt = to.map(|to| format!("GET {target} HTTP/1.1\r\nA: b\r\nhost: {to}\r\nX: Host: c\r\n\r\n"));
            assert_eq!(head(sent.as_bytes()), respelt.map(|head| (head, None)), "{target} {host}");
        };
        check("http://A/x", " a", Some("A"));
        check("http://a:80/x", "a", Some("a:80"));
        check("http://a?q", " A: ", Some("a"));
        check("http://a/x", " a", None);
        check("http://a/x", " b", None);
        check("http://a:81/x", " a", None);
        check("/x", " a", None);
        check("ftp://A/x", " a", None);
    }

    #[test]
    fn what_is_told_twice_or_not_at_all_stays() {
        for lines in ["Host: a\r\nHost: a\r\n", "", "Host\r\n", "Hosts: a\r\n"] {
            assert_eq!(head(format!("GET http://A/ HTTP/1.1\r\n{lines}\r\n").as_bytes()), None, "{lines}");
        }
    }

    #[test]
    fn bytes_that_are_no_utf_8_are_escaped_and_kept() {
        let (spelt, own) = head(b"GET /caf\xe9?\xff=%e9 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(spelt, "GET /caf%E9?%FF=%e9 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(own.unwrap(), b"/caf\xe9?\xff=%e9");
        assert_eq!(head("GET /caf\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n".as_bytes()), None);
        let both = head(b"GET http://A/\xe9 HTTP/1.1\nHost: a\n\n").unwrap();
        assert_eq!(both, ("GET http://A/%E9 HTTP/1.1\nHost: A\n\n".to_owned(), Some(b"http://A/\xe9".to_vec())));
    }

    #[test]
    fn nearly_every_head_is_told_from_its_first_line() {
        for (start, odd) in [
            (&b"GET / HTTP/1.1\r\nHost: \xe9"[..], false),
            ("GET /\u{e9} HTTP/1.1\r\n".as_bytes(), false),
            (b"GET /\xe9 HTTP/1.1\r\n", true),
            (b"GET http://a/ HTTP/1.1\r\n", true),
            (b"GET /unfinished", true),
            (b"", true),
            (b"\r\nGET / HTTP/1.1\r\n", true),
        ] {
            assert_eq!(may_be_odd(start), odd, "{}", start.escape_ascii());
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_panic(head: Vec<u8>, text in "[GHhost:/ aA.\\r\\n8]{0,60}") {
            _ = (respell(&head, "http"), may_be_odd(&head), respell(text.as_bytes(), "http"));
        }

        #[test]
        fn a_head_that_is_not_odd_is_never_respelt(target in "/[ -~]{0,20}", rest in "[ -~\\r\\n]{0,60}") {
            let head = format!("GET {target} HTTP/1.1\r\n{rest}\r\n\r\n");
            prop_assume!(!may_be_odd(head.as_bytes()));
            prop_assert_eq!(respell(head.as_bytes(), "http"), None);
        }
    }
}
