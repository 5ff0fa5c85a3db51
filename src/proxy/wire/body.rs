//! Where does the body of a request end?
//!
//! Followed on the bytes as they come, beside Pingora's reader, which takes a chunk without a size for the last one and
//! any line for a trailer: another reader would find the next request elsewhere. Chunks are held to the grammar of
//! RFC 9112, section 7.1, with CRLF at every end and no other control byte, and quoted text in an extension ends before
//! its line. Always: however the bytes are cut into pieces, the verdict and the place of the end are the same.

/// Digits of a chunk's size at most: what 64 bits hold.
const DIGITS: u8 = 16;

/// What the header says of its body's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After so many bytes.
    Length(u64),
    /// After the last chunk and its trailers.
    Chunked,
}

/// The bytes are no chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// The body of a request, followed to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Body(State);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Bytes of a body with a length.
    Bytes(u64),
    /// In the digits of a size.
    Size {
        digits: u8,
        size: u64,
    },
    /// Behind them.
    Blank {
        size: u64,
    },
    /// In an extension, which ends with the line.
    Extension {
        size: u64,
        text: Text,
    },
    /// Behind the CR of a size's line.
    SizeLf {
        size: u64,
    },
    /// In a chunk.
    Data(u64),
    /// Behind a chunk, and behind its CR.
    DataCr,
    DataLf,
    /// Where a trailer begins, or the empty line.
    Trailer,
    /// In a trailer's name, its value, and behind its CR.
    Name,
    Value,
    ValueLf,
    /// Behind the CR of the empty line.
    LastLf,
    Done,
}

/// Where in an extension, which may hold quoted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Plain,
    Quoted,
    /// Behind the backslash in a quoted one.
    Escaped,
}

impl Body {
    /// A body of which nothing was read yet.
    pub(super) fn new(end: End) -> Self {
        Self(match end {
            End::Length(0) => State::Done,
            End::Length(bytes) => State::Bytes(bytes),
            End::Chunked => State::Size { digits: 0, size: 0 },
        })
    }

    /// Whether its end was read.
    pub(super) fn is_done(&self) -> bool {
        self.0 == State::Done
    }

    /// Reads on: how many of `bytes` are the body's.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let mut left = bytes;
        while let (Some((first, rest)), false) = (left.split_first(), self.is_done()) {
            left = match self.0 {
                State::Bytes(size) => self.skip(left, size, State::Bytes, State::Done),
                State::Data(size) => self.skip(left, size, State::Data, State::DataCr),
                State::Value => self.skip_value(left)?,
                state => {
                    self.0 = step(state, *first).ok_or(Malformed)?;
                    rest
                }
            };
        }
        Ok(bytes.len() - left.len())
    }

    /// Goes over the `size` bytes that are due.
    fn skip<'a>(&mut self, bytes: &'a [u8], size: u64, more: fn(u64) -> State, then: State) -> &'a [u8] {
        let taken = usize::try_from(size).unwrap_or(usize::MAX).min(bytes.len());
        let due = size - taken as u64;
        self.0 = if due == 0 { then } else { more(due) };
        bytes.get(taken..).unwrap_or_default()
    }

    /// Goes over what is left of a trailer, up to its CR: a bare LF ends a line for some readers only, and so may another
    /// control byte.
    fn skip_value<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let Some(end) = bytes.iter().position(|byte| !is_text(*byte)) else { return Ok(&[]) };
        if bytes.get(end) != Some(&b'\r') {
            return Err(Malformed);
        }
        self.0 = State::ValueLf;
        Ok(bytes.get(end + 1..).unwrap_or_default())
    }
}

/// The state after one byte of framing.
fn step(state: State, byte: u8) -> Option<State> {
    match (state, byte) {
        (State::Size { digits, size }, _) if byte.is_ascii_hexdigit() => {
            let digit = char::from(byte).to_digit(16)?;
            let size = size.checked_mul(16)? + u64::from(digit);
            (digits < DIGITS).then_some(State::Size { digits: digits + 1, size })
        }
        (State::Size { digits: 1.., size } | State::Blank { size }, b'\r') => Some(State::SizeLf { size }),
        (State::Size { digits: 1.., size } | State::Blank { size }, b';') => {
            Some(State::Extension { size, text: Text::Plain })
        }
        (State::Extension { size, text: Text::Plain }, b'\r') => Some(State::SizeLf { size }),
        (State::Extension { size, text }, _) if is_text(byte) => Some(State::Extension { size, text: text.then(byte) }),
        (State::Size { digits: 1.., size } | State::Blank { size }, b' ' | b'\t') => Some(State::Blank { size }),
        (State::SizeLf { size: 0 }, b'\n') => Some(State::Trailer),
        (State::SizeLf { size }, b'\n') => Some(State::Data(size)),
        (State::DataCr, b'\r') => Some(State::DataLf),
        (State::DataLf, b'\n') => Some(State::Size { digits: 0, size: 0 }),
        (State::Trailer, b'\r') => Some(State::LastLf),
        (State::Name, b':') => Some(State::Value),
        (State::Trailer | State::Name, _) if is_tchar(byte) => Some(State::Name),
        (State::ValueLf, b'\n') => Some(State::Trailer),
        (State::LastLf, b'\n') => Some(State::Done),
        _ => None,
    }
}

impl Text {
    fn then(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Plain, b'"') | (Self::Escaped, _) => Self::Quoted,
            (Self::Quoted, b'"') => Self::Plain,
            (Self::Quoted, b'\\') => Self::Escaped,
            (text, _) => text,
        }
    }
}

/// What may stand in a line (RFC 9110, section 5.5).
fn is_text(byte: u8) -> bool {
    byte == b'\t' || !byte.is_ascii_control()
}

fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes are the body's, if it ends.
    fn end(bytes: &str) -> Result<Option<usize>, Malformed> {
        let mut body = Body::new(End::Chunked);
        let read = body.read(bytes.as_bytes())?;
        Ok(body.is_done().then_some(read))
    }

    #[test]
    fn chunks_end_behind_their_trailers() {
        for whole in [
            "0\r\n\r\n",
            "5\r\nhello\r\n0\r\n\r\n",
            "5;a=b\r\nhello\r\n000\r\n\r\n",
            "5;a=\"x\\\"y\t\";b\r\nhello\r\n0\r\n\r\n",
            "A \t;x\r\n0123456789\r\n0;last\r\nX: y\r\nA:\r\n\r\n",
            "2\r\n\r\n\r\n0\r\n\r\n",
        ] {
            assert_eq!(end(whole), Ok(Some(whole.len())), "{whole:?}");
            assert_eq!(end(&format!("{whole}GET / HTTP/1.1\r\n")), Ok(Some(whole.len())), "{whole:?}");
            assert_eq!(end(&whole[..whole.len() - 1]), Ok(None), "{whole:?}");
        }
    }

    #[test]
    fn what_two_readers_may_end_at_different_bytes_is_malformed() {
        for odd in [
            "\r\n\r\n",
            ";x\r\n\r\n",
            " 5\r\nhello\r\n",
            "5\r\nhello\r\n\r\n",
            "0\r\nGET /x HTTP/1.1\r\n\r\n",
            "0\r\n: y\r\n\r\n",
            "0\r\n folded\r\n\r\n",
            "0\r\nX y: z\r\n\r\n",
            "0\r\nX: y\n\r\n",
            "0\n\r\n",
            "5\nhello\r\n0\r\n\r\n",
            "5;a\nb\r\nhello\r\n0\r\n\r\n",
            "5;a=\"\r\nhello\r\n0\r\n\r\n",
            "5;a=\"b\\\"\r\nhello\r\n0\r\n\r\n",
            "5;a\0\r\nhello\r\n0\r\n\r\n",
            "5;a\rb\r\nhello\r\n0\r\n\r\n",
            "0\r\nX: y\0\r\n\r\n",
            "5\r\nhelloo\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "-1\r\n",
            "0x5\r\nhello\r\n",
            "5 5\r\nhello\r\n",
            "00000000000000005\r\nhello\r\n",
            "g\r\n",
        ] {
            assert_eq!(end(odd), Err(Malformed), "{odd:?}");
        }
    }

    #[test]
    fn a_length_is_counted_out() {
        let mut body = Body::new(End::Length(7));
        assert_eq!((body.read(b"hello"), body.is_done()), (Ok(5), false));
        assert_eq!((body.read(b"12345"), body.is_done()), (Ok(2), true));
        assert_eq!(body.read(b"GET"), Ok(0));
        assert!(Body::new(End::Length(0)).is_done());
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8]) -> Result<(usize, bool), Malformed> {
        let mut body = Body::new(End::Chunked);
        body.read(bytes).map(|read| (read, body.is_done()))
    }

    fn in_pieces(bytes: &[u8], size: usize) -> Result<(usize, bool), Malformed> {
        let mut body = Body::new(End::Chunked);
        let mut read = 0;
        for piece in bytes.chunks(size) {
            read += body.read(piece)?;
        }
        Ok((read, body.is_done()))
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(bytes in "[0-2a;: \\r\\nX\"\\\\]{0,40}", size in 1_usize..5) {
            prop_assert_eq!(whole(bytes.as_bytes()), in_pieces(bytes.as_bytes(), size));
        }

        #[test]
        fn any_body_in_any_chunks_is_followed_to_its_end(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..5),
            next: Vec<u8>,
            size in 1_usize..20,
        ) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                bytes.extend_from_slice(chunk);
                bytes.extend_from_slice(b"\r\n");
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            let end = bytes.len();
            bytes.extend_from_slice(&next);
            prop_assert_eq!(in_pieces(&bytes, size), Ok((end, true)));
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, size in 1_usize..9) {
            prop_assert_eq!(whole(&bytes), in_pieces(&bytes, size));
        }
    }
}
