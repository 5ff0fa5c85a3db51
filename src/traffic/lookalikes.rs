//! Which header would an origin take for another one?
//!
//! CGI and what came after it hand headers on as variables, in which `X_Real_IP` and `X-Real-IP` are one name: a client
//! could say for itself what only we may say. Where the name in dashes is there as well, is one that is ours to say, or our
//! route's, or tells where a message ends, the one with an underscore is taken out. All others go on, as gRPC and others want it.

use http::header::HeaderName;
use pingora_http::RequestHeader;
use smallvec::SmallVec;

use crate::template::bytes;

/// What a client may not say in another spelling, whether or not it is said in the right one.
const GUARDED: [&str; 16] = [
    "connection",
    "content-length",
    "content-type",
    "forwarded",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "transfer-encoding",
    "x-client-ip",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "x-request-id",
];

/// Takes out what looks like another header; `named` are those that the route sets or takes out itself. For a request in which
/// there is an underscore.
pub fn take_out(request: &mut RequestHeader, named: impl Fn(&str) -> bool) {
    let odd = request.headers.keys().filter(|name| has_underscore(name));
    let doomed: SmallVec<[HeaderName; 4]> =
        odd.filter(|name| stands_for_another(name, request, &named)).cloned().collect();
    for name in &doomed {
        request.remove_header(name);
    }
}

pub(super) fn has_underscore(name: &HeaderName) -> bool {
    bytes::any(name.as_str().as_bytes(), |byte| byte == b'_')
}

fn stands_for_another(name: &HeaderName, request: &RequestHeader, named: impl Fn(&str) -> bool) -> bool {
    let dashed = name.as_str().replace('_', "-");
    GUARDED.contains(&dashed.as_str()) || named(&dashed) || request.headers.contains_key(dashed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(lines: &[(&'static str, &'static str)]) -> Vec<String> {
        let mut request = RequestHeader::build("GET", b"/", None).unwrap();
        for (name, value) in lines {
            request.append_header(*name, *value).unwrap();
        }
        take_out(&mut request, |name| name == "x-internal");
        request.headers.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn what_stands_for_a_header_of_ours_is_taken_out() {
        for name in
            ["X_Internal", "X_Forwarded_For", "x-forwarded_for", "X_Real_IP", "Content_Length", "Transfer-Encoding_"]
        {
            let kept = left(&[(name, "1")]);
            assert_eq!(kept.is_empty(), !name.ends_with('_'), "{name}: {kept:?}");
        }
    }

    #[test]
    fn what_stands_beside_its_other_spelling_is_taken_out() {
        assert_eq!(left(&[("X_User", "me"), ("X-User", "you")]), ["x-user"]);
        assert_eq!(left(&[("X_User", "me"), ("X_User", "you")]), ["x_user"]);
    }

    #[test]
    fn every_other_name_goes_on() {
        assert_eq!(left(&[("api_key", "x"), ("Host", "a")]), ["api_key", "host"]);
    }
}
