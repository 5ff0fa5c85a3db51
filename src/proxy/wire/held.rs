//! How much of an answer may its connection hold back, and what of it never left?
//!
//! The hooks say the first when the answer's header is known, and again that nothing more may wait when the answer is
//! whole. The connection says the second when it gives its client up.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::Wire;

/// What is held back of the answer under way.
#[derive(Debug, Default)]
pub(super) struct Held {
    most: AtomicU32,
    unsent: AtomicU32,
}

impl Held {
    /// A request begins.
    pub(super) fn begin(&self) {
        self.most.store(0, Relaxed);
        self.unsent.store(0, Relaxed);
    }
}

impl Wire {
    /// Up to so many bytes of the answer may be held back for a client that reads slowly; 0: none, and those that are
    /// have to leave first.
    pub fn hold_back(&self, most: u32) {
        self.held.most.store(most, Relaxed);
    }

    /// How many bytes of an answer may be held back.
    pub fn holds_back(&self) -> usize {
        self.held.most.load(Relaxed) as usize
    }

    /// So many bytes of the answer will not leave any more.
    pub fn set_unsent(&self, bytes: usize) {
        self.held.unsent.store(u32::try_from(bytes).unwrap_or(u32::MAX), Relaxed);
    }

    /// Bytes that were taken for this answer and never left.
    pub fn unsent(&self) -> u32 {
        self.held.unsent.load(Relaxed)
    }
}
