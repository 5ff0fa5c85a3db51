//! What leaves for the client together?
//!
//! Pingora writes header and body apart; small parts are gathered here and leave in one system call, large ones go
//! along with what was gathered, without being copied. Nothing stays here over a flush, but for what is held back for a
//! client that reads slowly, where its route allows that.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::held_back::HeldBack;
use super::socket::Socket;
use crate::proxy::wire::Buffers;

/// Bytes gathered at most: a header and a small body.
const GATHERED: usize = 4096;

/// Slices in one write at most; a chunk of a body has three.
const SLICES: usize = 8;

/// Bytes that wait for their write.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    start: usize,
    /// Behind them.
    held_back: Option<Box<HeldBack>>,
}

impl Outbox {
    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.length() == 0
    }

    /// How many bytes wait.
    pub(super) fn length(&self) -> usize {
        self.waiting().len() + self.held_back()
    }

    fn held_back(&self) -> usize {
        self.held_back.as_ref().map_or(0, |held| held.length())
    }

    /// Forgets what waits and takes `bytes` in its place.
    pub(super) fn replace(&mut self, bytes: &[u8]) {
        self.bytes = bytes.to_vec();
        self.start = 0;
        self.held_back = None;
    }

    /// Gathers `parts`, `total` bytes in all, if they fit.
    pub(super) fn take(&mut self, parts: &[IoSlice<'_>], total: usize) -> bool {
        if self.held_back.is_some() || self.waiting().len() + total > GATHERED {
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

    /// The socket takes no more: holds back what of `parts` there is room for. How much that is.
    pub(super) fn hold_back(&mut self, parts: &[IoSlice<'_>], most: usize, buffers: &Arc<Buffers>) -> usize {
        if most == 0 {
            return 0;
        }
        let held = self.held_back.get_or_insert_with(|| Box::new(HeldBack::none(buffers)));
        held.keep(parts, most)
    }

    /// One write of what waits, followed by `more`: how many bytes of `more` left.
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut Socket,
        more: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut slices = smallvec::SmallVec::<[IoSlice<'_>; SLICES]>::new();
        let waiting = self.waiting();
        if !waiting.is_empty() {
            slices.push(IoSlice::new(waiting));
        }
        if let Some(held) = &self.held_back {
            slices.extend(held.next(SLICES - slices.len()).map(IoSlice::new));
        }
        let waited = slices.iter().map(|slice| slice.len()).sum::<usize>();
        if waited == self.length() {
            slices.extend(more.iter().take(SLICES.saturating_sub(slices.len())).copied());
        }
        let left = ready!(socket.poll_write(cx, &slices))?;
        let offered = !slices.is_empty();
        drop(slices);
        self.gone(left.min(waited));
        if left == 0 && offered {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        Poll::Ready(Ok(left.saturating_sub(waited)))
    }

    /// So many of the bytes that wait have left.
    fn gone(&mut self, count: usize) {
        let gathered = self.waiting().len();
        self.start += count.min(gathered);
        if self.waiting().is_empty() {
            self.bytes.clear();
            self.start = 0;
        }
        if let Some(held) = &mut self.held_back {
            held.left(count.saturating_sub(gathered));
        }
        if self.held_back() == 0 {
            self.held_back = None;
        }
    }

    fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// The first `count` bytes of `parts`.
pub(super) fn first<'a>(parts: &'a [IoSlice<'_>], count: usize) -> smallvec::SmallVec<[IoSlice<'a>; 8]> {
    let mut left = count;
    let some = parts.iter().map(|part| {
        let some = part.get(..left).unwrap_or(part);
        left -= some.len();
        IoSlice::new(some)
    });
    some.collect()
}
