//! One spelling for bytes that can be written in several: percent-encoding, normalised.
//!
//! Hex digits become upper-case, unreserved characters are decoded, bytes outside 0x21 to 0x7E are encoded, and a
//! `%` that starts no escape becomes `%25`. Everything else stays, so that what meant something different before
//! (`%2F` and `/`) is different after. Always holds: normalising twice is normalising once.

use super::bytes;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Is every byte its own normal form? (An escape may be normal too; it takes the longer way.)
pub(super) fn is_plain(raw: &[u8]) -> bool {
    !bytes::any(raw, |byte| !plain(byte))
}

/// Appends the normal form of `raw`.
pub(super) fn push_normal(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|byte| !plain(*byte)) {
        let (before, special) = rest.split_at(at);
        out.extend_from_slice(before);
        rest = match special {
            [b'%', tail @ ..] => push_escape(tail, out),
            [byte, tail @ ..] => {
                push_encoded(*byte, out);
                tail
            }
            [] => special,
        };
    }
    out.extend_from_slice(rest);
}

/// Is the normal form of `raw` this? `scratch` is given back as it was.
pub(super) fn equals(raw: &[u8], normal: &[u8], scratch: &mut Vec<u8>) -> bool {
    if is_plain(raw) {
        return raw == normal;
    }
    let start = scratch.len();
    push_normal(raw, scratch);
    let equal = &scratch[start..] == normal;
    scratch.truncate(start);
    equal
}

/// The byte an escape stands for, given what follows its `%`, and the rest.
pub(super) fn decoded(tail: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, rest @ ..] = tail else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = digit(high)? << 4 | digit(low)?;
    Some((byte as u8, rest))
}

/// What follows a `%`: an escape in its normal form, or the `%` itself, escaped.
fn push_escape<'r>(tail: &'r [u8], out: &mut Vec<u8>) -> &'r [u8] {
    match decoded(tail) {
        Some((byte, rest)) if unreserved(byte) => {
            out.push(byte);
            rest
        }
        Some((byte, rest)) => {
            push_encoded(byte, out);
            rest
        }
        None => {
            push_encoded(b'%', out);
            tail
        }
    }
}

fn push_encoded(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

fn plain(byte: u8) -> bool {
    (0x21..=0x7E).contains(&byte) & (byte != b'%')
}

fn unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(raw: &[u8]) -> String {
        let mut out = Vec::new();
        push_normal(raw, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_byte_has_one_spelling() {
        for (raw, expected) in [
            (&b"%41%7e%2d"[..], "A~-"),
            (b"%2f%2F/", "%2F%2F/"),
            (b"100%", "100%25"),
            (b"%zz%4", "%25zz%254"),
            (b"%%32f", "%252f"),
            (b"\xc3\xa9 \x7f\x00", "%C3%A9%20%7F%00"),
            (b"a+b;c,d\\\"", "a+b;c,d\\\""),
            (b"", ""),
        ] {
            assert_eq!(normal(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn names_are_compared_in_their_normal_form() {
        let mut scratch = b"kept".to_vec();
        assert!(equals(b"%69d", b"id", &mut scratch));
        assert!(equals(b"id", b"id", &mut scratch));
        assert!(!equals(b"%49d", b"id", &mut scratch));
        assert_eq!(scratch, b"kept");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn twice_is_once(raw in proptest::collection::vec(prop_oneof![Just(b'%'), Just(b'2'), Just(b'f'), any::<u8>()], 0..60)) {
            let (mut once, mut twice) = (Vec::new(), Vec::new());
            push_normal(&raw, &mut once);
            push_normal(&once, &mut twice);
            prop_assert_eq!(&once, &twice);
            prop_assert!(once.iter().all(|byte| matches!(byte, 0x21..=0x7E)));
        }
    }
}
