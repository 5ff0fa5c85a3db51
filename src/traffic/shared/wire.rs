//! What is said to Redis, and what does it say? The part of RESP2 that questions and their answers need.

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// A number.
    Number(i64),
    /// A text, or none.
    Text(Option<Vec<u8>>),
    /// Something is wrong.
    Error(String),
}

/// What came is no RESP2, or none that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Garbled;

/// Bytes of a text at most: no answer of ours is longer.
const LONGEST: usize = 64 << 10;

/// Appends a command of these words.
pub(super) fn command(words: &[&[u8]], out: &mut Vec<u8>) {
    line(b'*', words.len(), out);
    for word in words {
        line(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn line(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(length.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The first answer of these bytes, and how many it took; `None`: not all of it is there.
pub(super) fn reply(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Garbled> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n") else {
        return if bytes.len() > LONGEST { Err(Garbled) } else { Ok(None) };
    };
    let (Some(kind), Some(rest)) = (bytes.first(), bytes.get(1..end)) else { return Err(Garbled) };
    let text = std::str::from_utf8(rest).map_err(|_| Garbled)?;
    let used = end + 2;
    Ok(match kind {
        b'+' => Some((Reply::Text(Some(rest.to_vec())), used)),
        b'-' => Some((Reply::Error(text.to_owned()), used)),
        b':' => Some((Reply::Number(text.parse().map_err(|_| Garbled)?), used)),
        b'$' if text == "-1" => Some((Reply::Text(None), used)),
        b'$' => {
            let length: usize = text.parse().ok().filter(|length| *length <= LONGEST).ok_or(Garbled)?;
            let Some(whole) = bytes.get(used..used + length + 2) else { return Ok(None) };
            let text = whole.strip_suffix(b"\r\n").ok_or(Garbled)?;
            Some((Reply::Text(Some(text.to_vec())), used + whole.len()))
        }
        _ => return Err(Garbled),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_command_is_a_list_of_texts() {
        let mut out = Vec::new();
        command(&[b"SELECT", b"12"], &mut out);
        assert_eq!(out, b"*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n");
    }

    #[test]
    fn answers_are_read_one_by_one_and_only_when_whole() {
        let all = b":42\r\n$3\r\nabc\r\n+OK\r\n$-1\r\n-NOSCRIPT no\r\n";
        let (mut replies, mut at) = (Vec::new(), 0);
        while let Some((reply, used)) = reply(&all[at..]).unwrap() {
            replies.push(reply);
            at += used;
        }
        let text = |text: &str| Reply::Text(Some(text.as_bytes().to_vec()));
        assert_eq!(
            replies,
            [Reply::Number(42), text("abc"), text("OK"), Reply::Text(None), Reply::Error("NOSCRIPT no".to_owned())]
        );
        for cut in 5..13 {
            assert_eq!(reply(&all[5..cut]), Ok(None), "{cut}");
        }
        for garbled in [
            &b"HTTP/1.1\r\n"[..],
            b":x\r\n",
            b"$99999999\r\n",
            b"*2\r\n",
            b"\r\n",
            b"$-2\r\n",
            b"$2\r\nabc\r\n",
            b":\xff\r\n",
        ] {
            assert_eq!(reply(garbled), Err(Garbled));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = reply(&bytes);
        }
    }
}
