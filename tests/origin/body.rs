//! What of the bytes that came is the request's body? Length or chunks, decoded, counted and digested on the way.

use sha2::{Digest as _, Sha256};

/// How the end of a request's body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// So many bytes are left.
    Left(u64),
    /// A line with the size of the next chunk is due.
    Size,
    /// So many bytes of a chunk are left, then its line end.
    Chunk(u64),
    /// Lines up to an empty one.
    Trailers,
    /// The end has come.
    Over,
    /// What came is no chunk.
    Broken,
}

/// The body of the request under way.
pub(crate) struct Incoming {
    frame: Frame,
    /// Announced length, 0 for chunks.
    pub(crate) announced: u64,
    /// Bytes of body so far.
    pub(crate) bytes: u64,
    digest: Sha256,
    /// The bytes themselves, when somebody wants them back.
    pub(crate) kept: Option<Vec<u8>>,
}

impl Incoming {
    /// A body as the request's headers announce it.
    pub(crate) fn new(length: Option<u64>, chunked: bool, keep: bool) -> Self {
        let announced = length.unwrap_or(0);
        let frame = match (chunked, announced) {
            (true, _) => Frame::Size,
            (false, 0) => Frame::Over,
            (false, left) => Frame::Left(left),
        };
        Self { frame, announced, bytes: 0, digest: Sha256::new(), kept: keep.then(Vec::new) }
    }

    /// A body whose end is told otherwise (HTTP/2).
    pub(crate) fn until_end() -> Self {
        Self { frame: Frame::Left(u64::MAX), announced: 0, bytes: 0, digest: Sha256::new(), kept: None }
    }

    pub(crate) fn over(&self) -> bool {
        self.frame == Frame::Over
    }

    pub(crate) fn broken(&self) -> bool {
        self.frame == Frame::Broken
    }

    pub(crate) fn sha256(&self) -> String {
        if self.bytes == 0 {
            return String::new();
        }
        self.digest.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Takes what belongs to the body from the front of `input`, until it has `upto` bytes; the number of bytes used.
    pub(crate) fn take(&mut self, input: &[u8], upto: u64) -> usize {
        let mut used = 0;
        while self.bytes < upto
            && let Some(n) = self.step(input.get(used..).unwrap_or_default(), upto - self.bytes)
        {
            used += n;
        }
        used
    }

    /// One step; `None` when it is over or more input is needed.
    fn step(&mut self, input: &[u8], most: u64) -> Option<usize> {
        match self.frame {
            Frame::Over | Frame::Broken => None,
            Frame::Left(left) => {
                let n = self.eat(input, left.min(most))?;
                self.frame = if n as u64 == left { Frame::Over } else { Frame::Left(left - n as u64) };
                Some(n)
            }
            Frame::Chunk(0) => {
                let line = line_end(input)?;
                self.frame = if line == 2 { Frame::Size } else { Frame::Broken };
                Some(line)
            }
            Frame::Chunk(left) => {
                let n = self.eat(input, left.min(most))?;
                self.frame = Frame::Chunk(left - n as u64);
                Some(n)
            }
            Frame::Size => {
                let end = line_end(input)?;
                let line = std::str::from_utf8(input.get(..end - 2)?).unwrap_or("");
                let size = u64::from_str_radix(line.split(';').next().unwrap_or("").trim(), 16);
                self.frame = match size {
                    Ok(0) => Frame::Trailers,
                    Ok(size) => Frame::Chunk(size),
                    Err(_) => Frame::Broken,
                };
                Some(end)
            }
            Frame::Trailers => {
                let end = line_end(input)?;
                if end == 2 {
                    self.frame = Frame::Over;
                }
                Some(end)
            }
        }
    }

    fn eat(&mut self, input: &[u8], most: u64) -> Option<usize> {
        let n = input.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        let piece = input.get(..n).filter(|piece| !piece.is_empty())?;
        self.digest.update(piece);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(piece);
        }
        self.bytes += n as u64;
        Some(n)
    }
}

/// Length of the first line with its CRLF.
fn line_end(input: &[u8]) -> Option<usize> {
    memchr::memmem::find(input, b"\r\n").map(|at| at + 2)
}
