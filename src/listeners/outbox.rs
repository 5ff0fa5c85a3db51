//! What leaves for the client together?
//!
//! Pingora writes header and body apart; small parts are gathered here and leave in one system call, large ones go
//! along with what was gathered, without being copied. Nothing stays here over a flush.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use tokio::net::TcpStream;

/// Bytes gathered at most: a header and a small body.
const GATHERED: usize = 4096;

/// Slices in one write at most; a chunk of a body has three.
const SLICES: usize = 8;

/// Bytes that wait for their write.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    start: usize,
}

impl Outbox {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    /// Forgets what waits and takes `bytes` in its place.
    pub(super) fn replace(&mut self, bytes: &[u8]) {
        self.bytes = bytes.to_vec();
        self.start = 0;
    }

    /// Gathers `parts`, `total` bytes in all, if they fit.
    pub(super) fn take(&mut self, parts: &[IoSlice<'_>], total: usize) -> bool {
        if self.waiting().len() + total > GATHERED {
            return false;
        }
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        true
    }

    /// One write of what waits, followed by `more`: how many bytes of `more` left.
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        socket: &TcpStream,
        more: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut slices = smallvec::SmallVec::<[IoSlice<'_>; SLICES]>::new();
        let waiting = self.waiting();
        if !waiting.is_empty() {
            slices.push(IoSlice::new(waiting));
        }
        slices.extend(more.iter().take(SLICES - 1).copied());
        let left = loop {
            ready!(socket.poll_write_ready(cx))?;
            match socket.try_write_vectored(&slices) {
                Ok(n) => break n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        };
        drop(slices);
        let waited = self.waiting().len();
        self.start += left.min(waited);
        if self.is_empty() {
            self.bytes.clear();
            self.start = 0;
        }
        if left == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        Poll::Ready(Ok(left.saturating_sub(waited)))
    }

    fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}
