//! Does a message say in one way where its body ends?
//!
//! Two readers that end a body at different bytes read different requests out of one connection. Pingora refuses what
//! contradicts itself; here goes what it would pass on in more than one spelling, or with a coding nobody undoes.

use http::HeaderValue;
use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};

use super::Denial;

/// Is the body's end told once? Of codings only `chunked` goes over a hop, and only once.
pub fn check_framing(headers: &HeaderMap) -> Result<(), Denial> {
    let one_of = |name| {
        let mut lines = headers.get_all(name).iter();
        (lines.next().map(HeaderValue::as_bytes), lines.next().is_none())
    };
    let (coding, one_coding) = one_of(TRANSFER_ENCODING);
    let (length, one_length) = one_of(CONTENT_LENGTH);
    let chunked = coding.is_none_or(|coding| coding.eq_ignore_ascii_case(b"chunked"));
    let plain = length.is_none_or(|length| length.iter().all(u8::is_ascii_digit));
    if one_coding && one_length && chunked && plain { Ok(()) } else { Err(Denial::Framing) }
}

/// The length that several lines, or a list, all say: the one that is to stand in their place (RFC 9110, section 8.6).
pub fn one_length(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut lines = headers.get_all(CONTENT_LENGTH).iter();
    let first = lines.next()?;
    if lines.next().is_none() && !first.as_bytes().contains(&b',') {
        return None;
    }
    // Pingora has held them against each other.
    let length = first.as_bytes().split(|byte| *byte == b',').next()?.trim_ascii();
    HeaderValue::from_bytes(length).ok()
}

/// A token of RFC 9110, section 5.6.2.
pub(super) fn is_token(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::super::tests::headers;
    use super::*;

    #[test]
    fn a_body_s_end_is_told_once() {
        let (te, cl) = ("transfer-encoding", "content-length");
        let good: [&[_]; 4] = [&[], &[(te, "Chunked")], &[(cl, "5")], &[("a", "b")]];
        for lines in good {
            assert_eq!(check_framing(&headers(lines)), Ok(()), "{lines:?}");
        }
        let bad: [&[_]; 7] = [
            &[(te, "gzip, chunked")],
            &[(te, "chunked, chunked")],
            &[(te, "chunked"), (te, "chunked")],
            &[(te, "gzip"), (te, "chunked")],
            &[(te, "")],
            &[(cl, "5, 5")],
            &[(cl, "5"), (cl, "5")],
        ];
        for lines in bad {
            assert_eq!(check_framing(&headers(lines)), Err(Denial::Framing), "{lines:?}");
        }
    }

    #[test]
    fn several_equal_lengths_become_one() {
        let cl = "content-length";
        assert_eq!(one_length(&headers(&[(cl, "5")])), None);
        assert_eq!(one_length(&headers(&[])), None);
        assert_eq!(one_length(&headers(&[(cl, "5"), (cl, "5")])).unwrap(), "5");
        assert_eq!(one_length(&headers(&[(cl, "5 , 5")])).unwrap(), "5");
    }
}
