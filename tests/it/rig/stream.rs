//! Bodies too large to be kept: made while they are sent, checked while they come.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::client::Answer;
use super::pattern::Pattern;
use super::raw::{Raw, raw};

/// How the end of a request's body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framed {
    Length,
    Chunks,
}

/// Sends so many bytes of the pattern; `sent` counts along.
pub(crate) fn upload(to: SocketAddr, target: &str, framed: Framed, size: u64, sent: &AtomicU64) -> Answer {
    let mut raw = raw(to);
    let length = match framed {
        Framed::Length => format!("Content-Length: {size}"),
        Framed::Chunks => "Transfer-Encoding: chunked".to_owned(),
    };
    raw.send(format!("PUT {target} HTTP/1.1\r\nHost: test\r\n{length}\r\n\r\n"));
    let mut pattern = Pattern::new();
    let mut left = size;
    while left > 0 {
        let piece = pattern.piece(left);
        match framed {
            Framed::Length => raw.send(piece),
            Framed::Chunks => raw.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()),
        }
        left -= piece.len() as u64;
        sent.fetch_add(piece.len() as u64, Relaxed);
    }
    if framed == Framed::Chunks {
        raw.send("0\r\n\r\n");
    }
    raw.answer()
}

/// An answer that is the pattern, read as fast as the test likes.
pub(crate) struct Download {
    raw: Raw,
    pattern: Pattern,
    /// Bytes left of the body, or of the chunk.
    left: u64,
    chunked: bool,
    over: bool,
}

/// Asks, and reads the header.
pub(crate) fn download(to: SocketAddr, target: &str) -> Download {
    let mut raw = raw(to);
    raw.send(format!("GET {target} HTTP/1.1\r\nHost: test\r\n\r\n"));
    let head = raw.answer_to("HEAD").unwrap();
    assert_eq!(head.status, 200, "{head:?}");
    let length = head.header("content-length").map(|length| length.parse().unwrap());
    let (left, chunked) = (length.unwrap_or(0), length.is_none());
    Download { raw, pattern: Pattern::new(), left, chunked, over: false }
}

impl Download {
    /// Reads so many bytes, or up to the end; how many there were. Fails where one is not what it should be.
    pub(crate) fn read(&mut self, most: u64) -> u64 {
        let mut read = 0;
        while read < most && !self.at_end() {
            let size = self.left.min(most - read).min(64 << 10);
            let bytes = self.raw.bytes(usize::try_from(size).unwrap());
            assert!(self.pattern.goes_on_with(&bytes), "a byte is wrong");
            self.left -= size;
            read += size;
            if self.chunked && self.left == 0 {
                self.raw.line();
            }
        }
        read
    }

    fn at_end(&mut self) -> bool {
        if self.left == 0 && self.chunked && !self.over {
            self.left = u64::from_str_radix(&self.raw.line(), 16).unwrap();
            self.over = self.left == 0;
            if self.over {
                self.raw.line();
            }
        }
        self.left == 0
    }
}
