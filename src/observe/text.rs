//! Pieces of a line: numbers, times and escaped text, appended without an allocation.

use std::io::Write;
use std::time::Duration;

use crate::template::bytes;

/// Appends a whole number.
pub(super) fn number(n: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
}

/// Appends seconds with microseconds: `0.001234`.
pub(super) fn micros(time: Duration, out: &mut Vec<u8>) {
    fraction(time.as_secs(), time.subsec_micros(), 100_000, out);
}

/// Appends seconds with milliseconds, cut off as nginx does: `0.001`.
pub(super) fn millis(time: Duration, out: &mut Vec<u8>) {
    if let seconds @ ..10 = time.as_secs() {
        // nearly all
        let millis = time.subsec_millis();
        let digits = [seconds as u32, millis / 100, millis / 10 % 10, millis % 10].map(|digit| b'0' + digit as u8);
        let [seconds, rest @ ..] = digits;
        return out.extend_from_slice(&[seconds, b'.', rest[0], rest[1], rest[2]]);
    }
    fraction(time.as_secs(), time.subsec_millis(), 100, out);
}

fn fraction(seconds: u64, rest: u32, highest: u32, out: &mut Vec<u8>) {
    number(seconds, out);
    out.push(b'.');
    let mut unit = highest;
    while unit > 0 {
        out.push(b'0' + (rest / unit % 10) as u8);
        unit /= 10;
    }
}

/// Appends what prints itself; writing to a vector cannot fail.
pub(super) fn display(value: impl std::fmt::Display, out: &mut Vec<u8>) {
    let _ = write!(out, "{value}");
}

/// Appends text as nginx escapes it: `"`, `\`, control bytes and everything above `~` become `\xHH`.
pub(super) fn escaped(text: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    if is_plain(text) {
        return out.extend_from_slice(text);
    }
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\' | 0x7f..)) {
        let byte = rest[at];
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// Appends a JSON string. Bytes that are no UTF-8 become U+FFFD, so that every line parses.
pub(super) fn json(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if is_plain(text) {
        out.extend_from_slice(text);
    } else {
        text.utf8_chunks().for_each(|chunk| json_chunk(&chunk, out));
    }
    out.push(b'"');
}

fn json_chunk(chunk: &std::str::Utf8Chunk<'_>, out: &mut Vec<u8>) {
    json_escaped(chunk.valid().as_bytes(), out);
    if !chunk.invalid().is_empty() {
        out.extend_from_slice("\u{fffd}".as_bytes());
    }
}

/// Is there nothing to escape?
fn is_plain(text: &[u8]) -> bool {
    !bytes::any(text, |byte| !(0x20..0x7f).contains(&byte) | (byte == b'"') | (byte == b'\\'))
}

fn json_escaped(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte @ (b'"' | b'\\') => out.extend_from_slice(&[b'\\', byte]),
            byte => display(format_args!("\\u{byte:04x}"), out),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_keep_their_leading_zeros_and_are_cut_off() {
        let time = Duration::from_nanos(12_001_034_999);
        assert_eq!(written(|out| micros(time, out)), "12.001034");
        assert_eq!(written(|out| millis(time, out)), "12.001");
        assert_eq!(written(|out| millis(Duration::from_micros(999), out)), "0.000");
    }

    #[test]
    fn nginx_escapes_quotes_backslashes_controls_and_high_bytes() {
        let text = written(|out| escaped(b"a\"b\\c\n\x1f ~\x7f\xc3\xa9", out));
        assert_eq!(text, "a\\x22b\\x5Cc\\x0A\\x1F ~\\x7F\\xC3\\xA9");
    }

    #[test]
    fn json_text_is_utf8_whatever_came_in() {
        assert_eq!(
            written(|out| json(b"a\"\\\n\x01\xff\xc3\xa9\xc3", out)),
            "\"a\\\"\\\\\\n\\u0001\u{fffd}é\u{fffd}\""
        );
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn json_reads_back(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            json(&bytes, &mut out);
            let back: String = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(back, String::from_utf8_lossy(&bytes));
            prop_assert!(!out.contains(&b'\n'));
        }

        #[test]
        fn escaped_text_is_printable_and_reads_back(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut out = Vec::new();
            escaped(&bytes, &mut out);
            prop_assert!(out.iter().all(|byte| (0x20..0x7f).contains(byte)));
            let mut back = Vec::new();
            let mut rest = out.as_slice();
            while let Some((first, tail)) = rest.split_first() {
                let coded = *first == b'\\';
                let byte = if coded {
                    u8::from_str_radix(std::str::from_utf8(&tail[1..3]).unwrap(), 16).unwrap()
                } else {
                    *first
                };
                back.push(byte);
                rest = if coded { &tail[3..] } else { tail };
            }
            prop_assert_eq!(back, bytes);
        }
    }
}
