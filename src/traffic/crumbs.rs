//! Are a request's cookies in one line?
//!
//! A client of HTTP/2 may send each in a line of its own, so that its table holds them one by one. Elsewhere they are one
//! line (RFC 9113, section 8.2.3): origins that speak HTTP/1 read the first and no other, and what counts lines would count
//! cookies.

use bytes::BytesMut;
use http::{HeaderValue, header};
use pingora_http::RequestHeader;

/// Makes one line of them.
pub fn join(request: &mut RequestHeader) {
    let mut crumbs = request.headers.get_all(header::COOKIE).iter();
    let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) else { return };
    let mut line = BytesMut::from(first.as_bytes());
    for crumb in std::iter::once(second).chain(crumbs) {
        line.extend_from_slice(b"; ");
        line.extend_from_slice(crumb.as_bytes());
    }
    // what came as values of headers is one
    if let Ok(line) = HeaderValue::from_maybe_shared(line.freeze()) {
        let _ = request.insert_header(header::COOKIE, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(cookies: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut request = RequestHeader::build("GET", b"/", None).unwrap();
        request.append_header("x-cookie", "kept").unwrap();
        for cookie in cookies {
            request.append_header("cookie", *cookie).unwrap();
        }
        join(&mut request);
        assert_eq!(request.headers["x-cookie"], "kept");
        request.headers.get_all("cookie").iter().map(|value| value.as_bytes().to_vec()).collect()
    }

    #[test]
    fn crumbs_become_one_line_in_their_order() {
        assert_eq!(joined(&[]), [b""; 0]);
        assert_eq!(joined(&[b"a=1; b=2"]), [b"a=1; b=2"]);
        assert_eq!(joined(&[b"a=1", b"b=\xff; c", b"", b"d=4"]), [b"a=1; b=\xff; c; ; d=4"]);
    }
}
