//! Does a message say in one way where its body ends?
//!
//! Two readers that end a body at different bytes read different requests out of one connection. Pingora refuses what
//! contradicts itself; here goes what it would pass on in more than one spelling, or with a coding nobody undoes.

use http::HeaderValue;
use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};

use super::Denial;

/// Digits of a length at most: those of the greatest that everybody can count to, [`i64::MAX`].
const DIGITS: usize = 19;

/// Is the body's end told once? Of codings only `chunked` goes over a hop, and only once. Answers the length as it is to
/// go on, where that is not how it came.
pub fn check_framing(headers: &HeaderMap) -> Result<Option<HeaderValue>, Denial> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let (length, one_length) = (lengths.next(), lengths.next().is_none());
    if !one_length || !is_chunked_alone(headers) {
        return Err(Denial::Framing);
    }
    let Some(length) = length.map(HeaderValue::as_bytes) else { return Ok(None) };
    let plain = without_zeros(length);
    if !is_countable(plain) {
        return Err(Denial::Framing);
    }
    Ok((plain.len() < length.len()).then(|| HeaderValue::from_bytes(plain).ok()).flatten())
}

/// Is no coding told but `chunked`, once? Others are for clients that asked for them (`TE`), which ends at every hop.
pub fn is_chunked_alone(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let chunked = codings.next().is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    chunked && codings.next().is_none()
}

/// The length that several lines, or a list, all say, or one with zeros before it says: the one that is to stand in its
/// place (RFC 9110, section 8.6).
pub fn one_length(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut lines = headers.get_all(CONTENT_LENGTH).iter();
    let first = lines.next()?;
    let alone = lines.next().is_none() && !first.as_bytes().contains(&b',');
    // Pingora has held them against each other.
    let length = first.as_bytes().split(|byte| *byte == b',').next()?.trim_ascii();
    let plain = without_zeros(length);
    if alone && plain.len() == length.len() {
        return None;
    }
    HeaderValue::from_bytes(plain).ok()
}

/// Some read digits behind a zero as octal.
fn without_zeros(length: &[u8]) -> &[u8] {
    match length {
        [zeros @ .., _] => {
            let zeros = zeros.iter().take_while(|byte| **byte == b'0').count();
            length.get(zeros..).unwrap_or(length)
        }
        [] => length,
    }
}

/// A number without a sign that no reader's counter wraps at.
fn is_countable(length: &[u8]) -> bool {
    let number = || std::str::from_utf8(length).ok()?.parse::<i64>().ok();
    length.iter().all(u8::is_ascii_digit) && (length.len() < DIGITS || number().is_some())
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
            assert_eq!(check_framing(&headers(lines)), Ok(None), "{lines:?}");
        }
        let bad: [&[_]; 11] = [
            &[(cl, "+5")],
            &[(cl, "5 5")],
            &[(cl, "9223372036854775808")],
            &[(cl, "99999999999999999999999")],
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
    fn a_length_goes_on_without_zeros_before_it() {
        let zeros: &str = "00000000000000000000000000000005";
        for (came, goes) in [("5", None), ("0", None), ("05", Some("5")), ("000", Some("0")), (zeros, Some("5"))] {
            let lines = headers(&[("content-length", came)]);
            let goes = goes.map(HeaderValue::from_static);
            assert_eq!((check_framing(&lines), one_length(&lines)), (Ok(goes.clone()), goes), "{came}");
        }
        assert_eq!(check_framing(&headers(&[("content-length", "9223372036854775807")])), Ok(None));
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
