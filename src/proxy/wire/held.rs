//! How much of an answer may its connection hold back, how fast may it go, and what of it never left?
//!
//! The hooks say the first when the answer's header is known, and again that nothing more may wait when the answer is
//! whole. The connection says the second when it gives its client up. Always: nothing is held back that nobody would
//! look at again.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::Wire;

/// What is held back of the answer under way.
#[derive(Debug, Default)]
pub(super) struct Held {
    most: AtomicU32,
    unsent: AtomicU32,
    /// Bytes in a second; 0: as fast as they can.
    bandwidth: AtomicU32,
}

impl Held {
    /// A request begins.
    pub(super) fn begin(&self) {
        self.most.store(0, Relaxed);
        self.unsent.store(0, Relaxed);
        self.bandwidth.store(0, Relaxed);
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
        if self.has_next() { 0 } else { self.held.most.load(Relaxed) as usize }
    }

    /// Whether Pingora has read of the client's next request.
    pub fn has_next(&self) -> bool {
        self.next_came.load(Relaxed)
    }

    /// What follows the header of this answer goes no faster than so many bytes a second.
    pub fn limit_bandwidth(&self, per_second: u64) {
        // what is faster than that no socket is
        self.held.bandwidth.store(u32::try_from(per_second).unwrap_or(u32::MAX), Relaxed);
    }

    /// How many bytes a second, and of which of the connection's answers; `None`: as fast as they can.
    pub fn bandwidth(&self) -> Option<(u64, u32)> {
        let per_second = self.held.bandwidth.load(Relaxed);
        (per_second > 0).then(|| (per_second.into(), self.requests.load(Relaxed)))
    }

    /// Pingora has read of the client's next request. It asks the connection for nothing more until this one is over, so
    /// what is not written at once would stay until its origin says more.
    pub fn next_came(&self) {
        self.next_came.store(true, Relaxed);
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
