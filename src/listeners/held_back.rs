//! What has to wait for a client that reads slower than its origin sends?
//!
//! Bytes the socket does not take are kept here, up to what the route allows, so that their origin need not wait with
//! them, and the memory of the process has room for. They are held in pieces that are given back one by one as they
//! leave. Always: bytes leave in the order they came.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use crate::proxy::wire::{Buffers, Share, Use};

/// What small parts are gathered in.
const PIECE: usize = 16 << 10;

/// Bytes on their way to a client, beyond what its socket takes.
#[derive(Debug)]
pub(super) struct HeldBack {
    pieces: VecDeque<Vec<u8>>,
    /// What of the first piece has left.
    start: usize,
    length: usize,
    share: Share,
}

impl HeldBack {
    /// None, yet.
    pub(super) fn none(buffers: &Arc<Buffers>) -> Self {
        Self { pieces: VecDeque::new(), start: 0, length: 0, share: Share::none(buffers, Use::HeldBack) }
    }

    /// How many bytes wait.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Keeps as much of `parts` as there is room for beside what waits already: how much that is.
    pub(super) fn keep(&mut self, parts: &[IoSlice<'_>], most: usize) -> usize {
        let before = self.length;
        let wanted = parts.iter().map(|part| part.len()).sum::<usize>().min(most.saturating_sub(before));
        let most = before + self.share.grow(wanted);
        for part in parts {
            let some = part.get(..most.saturating_sub(self.length)).unwrap_or(part);
            self.add(some);
        }
        self.length - before
    }

    fn add(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.length += bytes.len();
        match self.pieces.back_mut() {
            Some(last) if last.capacity() - last.len() >= bytes.len() => last.extend_from_slice(bytes),
            _ => {
                let mut piece = Vec::with_capacity(bytes.len().max(PIECE));
                piece.extend_from_slice(bytes);
                self.pieces.push_back(piece);
            }
        }
    }

    /// The next bytes to leave, in at most `count` slices.
    pub(super) fn next(&self, count: usize) -> impl Iterator<Item = &[u8]> {
        let start = |number| if number == 0 { self.start } else { 0 };
        let pieces = self.pieces.iter().take(count).enumerate();
        pieces.map(move |(number, piece)| piece.get(start(number)..).unwrap_or_default())
    }

    /// So many bytes have left.
    pub(super) fn left(&mut self, mut count: usize) {
        self.length = self.length.saturating_sub(count);
        self.share.shrink(count);
        while let Some(first) = self.pieces.front() {
            let rest = first.len() - self.start;
            if count < rest {
                self.start += count;
                return;
            }
            count -= rest;
            self.start = 0;
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;
    use crate::proxy::wire::tests::plenty;

    proptest! {
        #[test]
        fn bytes_leave_as_they_came_and_never_more_wait_than_may(
            steps in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..40_000), 0_usize..50_000), 1..12),
            most in 0_usize..60_000,
        ) {
            let (mut held, mut came, mut left) = (HeldBack::none(&plenty()), Vec::new(), Vec::new());
            for (bytes, leaves) in steps {
                let (first, second) = bytes.split_at(bytes.len() / 3);
                let kept = held.keep(&[IoSlice::new(first), IoSlice::new(second)], most);
                came.extend_from_slice(&bytes[..kept]);
                prop_assert!(held.length() <= most);
                prop_assert!(kept == bytes.len() || held.length() == most, "room was left");
                let next: Vec<u8> = held.next(7).flatten().copied().take(leaves).collect();
                held.left(next.len());
                left.extend(next);
            }
            left.extend(held.next(usize::MAX).flatten());
            prop_assert!(left == came);
        }
    }
}
