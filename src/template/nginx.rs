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
    use http::HeaderMap;
    use serde::Deserialize;

    use super::*;
    use crate::template::{Facts, Scope, Template, args, host};

    #[derive(Deserialize)]
    struct Golden {
        cases: Vec<Case>,
    }

    /// What a real nginx made of a request.
    #[derive(Deserialize)]
    struct Case {
        authority: String,
        target: String,
        host: String,
        request_uri: String,
        uri: String,
        arg_id: String,
    }

    impl Case {
        fn said(&self, template: &str) -> String {
            let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
            let facts = Facts {
                method: "GET",
                scheme: "http",
                host: &host::normalise(&self.authority),
                host_port: "",
                target: self.target.as_bytes(),
                headers: &HeaderMap::new(),
                client_ip: peer.ip(),
                peer,
            };
            let mut out = Vec::new();
            let template = Template::compile(template, Scope::Key).unwrap();
            template.render(&facts, &args::Policy::All, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        }
    }

    #[test]
    fn k1_variables_say_what_a_real_nginx_says() {
        let golden: Golden = serde_json::from_str(include_str!("../../tests/golden/nginx-variables.json")).unwrap();
        assert!(golden.cases.len() > 50);
        for case in &golden.cases {
            let place = format!("{} {}", case.authority, case.target);
            assert_eq!(case.said("{host}{uri}"), format!("{}{}", case.host, case.request_uri), "{place}");
            assert_eq!(case.said("{nginx_uri}"), case.uri, "{place}");
            assert_eq!(case.said("{nginx_arg:id}"), case.arg_id, "{place}");
        }
    }

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
