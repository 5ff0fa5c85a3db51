//! What of the bytes that came is the request's body? Length or chunks, decoded, counted and digested or checked on the
//! way.

use sha2::{Digest as _, Sha256};

use crate::pattern::Pattern;

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
    use_made: Use,
}

/// What is made of the bytes.
pub(crate) enum Use {
    /// Their SHA-256.
    Digest(Sha256),
    /// The same, and they are kept.
    Keep(Sha256, Vec<u8>),
    /// Are they the [`Pattern`]? With the number of bytes before the piece that was not.
    Check(Pattern, Option<u64>),
}

impl Use {
    /// Their SHA-256.
    pub(crate) fn digest() -> Self {
        Self::Digest(Sha256::new())
    }

    /// They go back to the client.
    pub(crate) fn keep() -> Self {
        Self::Keep(Sha256::new(), Vec::new())
    }

    /// They have to be the [`Pattern`].
    pub(crate) fn check() -> Self {
        Self::Check(Pattern::new(), None)
    }

    fn take(&mut self, piece: &[u8], before: u64) {
        match self {
            Self::Digest(digest) => digest.update(piece),
            Self::Keep(digest, kept) => {
                digest.update(piece);
                kept.extend_from_slice(piece);
            }
            Self::Check(pattern, wrong) => {
                if wrong.is_none() && !pattern.goes_on_with(piece) {
                    *wrong = Some(before);
                }
            }
        }
    }
}

impl Incoming {
    /// A body as the request's headers announce it.
    pub(crate) fn new(length: Option<u64>, chunked: bool, use_made: Use) -> Self {
        let announced = length.unwrap_or(0);
        let frame = match (chunked, announced) {
            (true, _) => Frame::Size,
            (false, 0) => Frame::Over,
            (false, left) => Frame::Left(left),
        };
        Self { frame, announced, bytes: 0, use_made }
    }

    /// A body whose end is told otherwise (HTTP/2).
    pub(crate) fn until_end(use_made: Use) -> Self {
        Self { frame: Frame::Left(u64::MAX), announced: 0, bytes: 0, use_made }
    }

    pub(crate) fn over(&self) -> bool {
        self.frame == Frame::Over
    }

    pub(crate) fn broken(&self) -> bool {
        self.frame == Frame::Broken
    }

    /// In hex; empty where there is no body, or where it was checked instead.
    pub(crate) fn sha256(&self) -> String {
        match &self.use_made {
            Use::Digest(digest) | Use::Keep(digest, _) if self.bytes > 0 => {
                digest.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
            }
            _ => String::new(),
        }
    }

    /// The bytes themselves, if they were to be kept.
    pub(crate) fn kept(&self) -> Vec<u8> {
        if let Use::Keep(_, kept) = &self.use_made { kept.clone() } else { Vec::new() }
    }

    /// What the check found.
    pub(crate) fn checked(&self) -> String {
        match &self.use_made {
            Use::Check(_, None) => format!("{} bytes, all right", self.bytes),
            Use::Check(_, Some(before)) => format!("{} bytes, wrong after {before}", self.bytes),
            _ => "not checked".to_owned(),
        }
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
        self.use_made.take(piece, self.bytes);
        self.bytes += n as u64;
        Some(n)
    }
}

/// Length of the first line with its CRLF.
fn line_end(input: &[u8]) -> Option<usize> {
    memchr::memmem::find(input, b"\r\n").map(|at| at + 2)
}
