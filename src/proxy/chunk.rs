//! How does a chunk of a body leave in one write, where Pingora makes three of it?
//!
//! It hands its size, its content and what ends it on one by one to a connection that is lent. The size is held until the
//! content comes, and both leave at once together with the end, which is known before it comes and is passed over then. What
//! is held is never more than a line; it leaves before anything else does, and when it is flushed.

use std::io::{self, IoSlice};
use std::task::{Poll, ready};

use smallvec::SmallVec;

const END: &[u8; 2] = b"\r\n";

/// The longest line that says a size: what a `usize` takes.
const LINE: usize = 16 + END.len();

/// The chunk under way.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// What says its size; empty between chunks.
    line: SmallVec<[u8; LINE]>,
    /// So much of the line was written.
    told: usize,
    /// So much of the content was not.
    left: usize,
    /// So much of its end was, before it came.
    ahead: usize,
}

impl Chunk {
    /// Takes `bytes`, which come next: writes them with `out`, or holds them.
    pub(super) fn write(
        &mut self,
        bytes: &[u8],
        mut out: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if self.ahead > 0 {
            return Poll::Ready(self.pass_over(bytes));
        }
        if self.line.is_empty() {
            let Some(size) = size(bytes) else { return out(&[IoSlice::new(bytes)]) };
            (self.line, self.told, self.left) = (bytes.into(), 0, size);
            return Poll::Ready(Ok(bytes.len()));
        }
        let end: &[u8] = if bytes.len() == self.left { END } else { b"" };
        loop {
            let untold = self.line.get(self.told..).unwrap_or_default();
            let (line, content) = (untold.len(), bytes.len());
            let written = ready!(out(&[IoSlice::new(untold), IoSlice::new(bytes), IoSlice::new(end)]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.told += written.min(line);
            let written = written.saturating_sub(line);
            if written > 0 {
                self.ahead = written.saturating_sub(content);
                self.left = self.left.saturating_sub(content.min(written));
                if self.left == 0 {
                    self.line.clear();
                }
                return Poll::Ready(Ok(content.min(written)));
            }
        }
    }

    /// Nothing is held afterwards.
    pub(super) fn flush(
        &mut self,
        mut out: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        while let Some(untold) = self.line.get(self.told..).filter(|untold| !untold.is_empty()) {
            match ready!(out(&[IoSlice::new(untold)]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.told += written,
            }
        }
        // Whatever comes after it, no end of a chunk is written that does not come.
        self.line.clear();
        Poll::Ready(Ok(()))
    }

    /// What was written ahead comes now.
    fn pass_over(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let ahead = self.ahead;
        if !END.get(..ahead).is_some_and(|end| bytes.starts_with(end)) {
            return Err(io::Error::other("a chunk does not end where it should"));
        }
        self.ahead = 0;
        Ok(ahead)
    }
}

/// The size of a chunk that has content, if that is what these bytes say and nothing else.
fn size(bytes: &[u8]) -> Option<usize> {
    let digits = bytes.strip_suffix(END).filter(|_| bytes.len() <= LINE)?;
    let digits =
        std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    usize::from_str_radix(digits, 16).ok().filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A socket that takes so much at each write, or nothing for now at a zero.
    struct Socket {
        got: Vec<u8>,
        writes: usize,
        takes: std::iter::Cycle<std::vec::IntoIter<usize>>,
    }

    impl Socket {
        fn taking(takes: Vec<usize>) -> Self {
            Self { got: Vec::new(), writes: 0, takes: takes.into_iter().cycle() }
        }

        fn take(&mut self, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
            let most = self.takes.next().unwrap();
            if most == 0 {
                return Poll::Pending;
            }
            self.writes += 1;
            let all: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            assert!(!all.is_empty(), "nothing is no write");
            let taken = most.min(all.len());
            self.got.extend_from_slice(&all[..taken]);
            Poll::Ready(Ok(taken))
        }
    }

    /// As tokio writes all of it.
    fn write_all(chunk: &mut Chunk, mut bytes: &[u8], socket: &mut Socket) {
        while !bytes.is_empty() {
            match chunk.write(bytes, |parts| socket.take(parts)) {
                Poll::Ready(Ok(written)) => {
                    assert!(written > 0);
                    bytes = &bytes[written..];
                }
                Poll::Ready(Err(error)) => panic!("{error}"),
                Poll::Pending => {}
            }
        }
    }

    fn flush(chunk: &mut Chunk, socket: &mut Socket) {
        while chunk.flush(|parts| socket.take(parts)).is_pending() {}
    }

    /// As Pingora writes a chunk.
    fn send(chunk: &mut Chunk, content: &[u8], socket: &mut Socket) {
        write_all(chunk, format!("{:X}\r\n", content.len()).as_bytes(), socket);
        write_all(chunk, content, socket);
        write_all(chunk, END, socket);
        flush(chunk, socket);
    }

    #[test]
    fn a_chunk_is_one_write_and_its_end_another() {
        let (mut chunk, mut socket) = (Chunk::default(), Socket::taking(vec![usize::MAX]));
        for content in [b"hello".as_slice(), b"5\r\n", b"\r\n", &[b'x'; 70_000]] {
            socket.got.clear();
            socket.writes = 0;
            send(&mut chunk, content, &mut socket);
            let expected = [format!("{:X}\r\n", content.len()).as_bytes(), content, END].concat();
            assert!(socket.got == expected, "{} bytes", content.len());
            assert_eq!(socket.writes, 1, "{} bytes", content.len());
        }
        socket.got.clear();
        write_all(&mut chunk, b"0\r\n\r\n", &mut socket);
        assert_eq!(socket.got, b"0\r\n\r\n", "it waits for no flush");
    }

    #[test]
    fn a_line_that_is_flushed_is_sent_and_means_nothing_afterwards() {
        let (mut chunk, mut socket) = (Chunk::default(), Socket::taking(vec![0, 2]));
        write_all(&mut chunk, b"5\r\n", &mut socket);
        assert_eq!(socket.got, b"", "held");
        flush(&mut chunk, &mut socket);
        assert_eq!(socket.got, b"5\r\n");
        write_all(&mut chunk, b"hello", &mut socket);
        assert_eq!(socket.got, b"5\r\nhello", "and no end that did not come");
    }

    #[test]
    fn what_says_no_size_is_not_held() {
        for bytes in
            ["", "5", "\r\n", "+5\r\n", " 5\r\n", "0\r\n", "5;x\r\n", "5\r\n\r\n", "11112222333344445\r\n", "é\r\n"]
        {
            assert_eq!(size(bytes.as_bytes()), None, "{bytes:?}");
        }
        assert_eq!(
            [size(b"5\r\n"), size(b"fF\r\n"), size(b"FFFFFFFFFFFFFFFF\r\n")],
            [Some(5), Some(255), Some(usize::MAX)]
        );
    }

    #[test]
    fn an_end_that_is_not_one_is_an_error_and_so_is_a_socket_that_takes_nothing() {
        let (mut chunk, mut socket) = (Chunk::default(), Socket::taking(vec![usize::MAX]));
        write_all(&mut chunk, b"1\r\n", &mut socket);
        write_all(&mut chunk, b"x", &mut socket);
        assert!(matches!(chunk.write(b"yz", |_| unreachable!()), Poll::Ready(Err(_))));
        let mut chunk = Chunk::default();
        write_all(&mut chunk, b"1\r\n", &mut socket);
        assert!(matches!(chunk.write(b"x", |_| Poll::Ready(Ok(0))), Poll::Ready(Err(_))));
        assert!(matches!(chunk.flush(|_| Poll::Ready(Ok(0))), Poll::Ready(Err(_))));
    }

    proptest! {
        #[test]
        fn what_arrives_is_what_was_written_however_little_a_socket_takes(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..8),
            takes in prop::collection::vec(0..30_usize, 1..9),
            strange in prop::collection::vec(any::<u8>(), 0..30),
        ) {
            prop_assume!(takes.iter().any(|take| *take > 0) && strange.len() != 9);
            let (mut chunk, mut socket) = (Chunk::default(), Socket::taking(takes));
            let mut expected = Vec::new();
            for content in &chunks {
                send(&mut chunk, content, &mut socket);
                expected.extend_from_slice(format!("{:X}\r\n", content.len()).as_bytes());
                expected.extend_from_slice(content);
                expected.extend_from_slice(END);
                prop_assert_eq!(&socket.got, &expected, "nothing is held back");
            }
            // What is no chunk passes as well, whatever follows it.
            write_all(&mut chunk, b"9\r\n", &mut socket);
            write_all(&mut chunk, &strange, &mut socket);
            flush(&mut chunk, &mut socket);
            expected.extend_from_slice(b"9\r\n");
            expected.extend_from_slice(&strange);
            prop_assert_eq!(&socket.got, &expected);
        }
    }
}
