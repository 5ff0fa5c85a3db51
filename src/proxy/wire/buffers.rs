//! How much memory may answers take that are on their way to clients?
//!
//! One amount for the whole process: what is held back for slow clients, and what compression works in. Who finds it used
//! up goes without: an answer moves at its client's pace, or is not compressed. Always: what was taken is given back by
//! `Drop`, and never more is taken than there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::observe::{BufferMeters, Metrics};

/// What memory is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// What a client's socket does not take yet.
    HeldBack,
    /// A coding.
    Compression,
}

/// The memory of a process for answers.
pub struct Buffers {
    most: usize,
    /// Relaxed: a count that nothing else depends on.
    used: AtomicUsize,
    held_back: BufferMeters,
    compression: BufferMeters,
}

impl std::fmt::Debug for Buffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffers").field("most", &self.most).field("used", &self.used).finish_non_exhaustive()
    }
}

impl Buffers {
    /// At most so many bytes.
    pub fn new(most: usize, metrics: &Metrics) -> Arc<Self> {
        let (held_back, compression) = (metrics.buffers("held_back"), metrics.buffers("compression"));
        Arc::new(Self { most, used: AtomicUsize::new(0), held_back, compression })
    }

    fn meters(&self, of: Use) -> &BufferMeters {
        match of {
            Use::HeldBack => &self.held_back,
            Use::Compression => &self.compression,
        }
    }

    /// Takes up to `bytes`: how many.
    fn take(&self, bytes: usize, of: Use) -> usize {
        let mut taken = 0;
        let _ = self.used.fetch_update(Relaxed, Relaxed, |used| {
            taken = bytes.min(self.most.saturating_sub(used));
            Some(used + taken)
        });
        self.meters(of).taken(taken);
        taken
    }

    fn give_back(&self, bytes: usize, of: Use) {
        self.used.fetch_sub(bytes, Relaxed);
        self.meters(of).given_back(bytes);
    }
}

/// Memory that was taken of it.
#[derive(Debug)]
#[must_use = "dropping it gives it back"]
pub struct Share {
    of: Use,
    buffers: Arc<Buffers>,
    bytes: usize,
    was_short: bool,
}

impl Share {
    /// None yet.
    pub fn none(buffers: &Arc<Buffers>, of: Use) -> Self {
        Self { of, buffers: Arc::clone(buffers), bytes: 0, was_short: false }
    }

    /// So many bytes, if there are as many.
    pub fn of(buffers: &Arc<Buffers>, bytes: usize, of: Use) -> Option<Self> {
        let mut share = Self::none(buffers, of);
        (share.grow(bytes) == bytes).then_some(share)
    }

    /// Up to `bytes` more: how many.
    pub fn grow(&mut self, bytes: usize) -> usize {
        let more = self.buffers.take(bytes, self.of);
        self.bytes += more;
        if more < bytes && !std::mem::replace(&mut self.was_short, true) {
            self.buffers.meters(self.of).full();
        }
        more
    }

    /// Gives up to `bytes` of it back.
    pub fn shrink(&mut self, bytes: usize) {
        let less = bytes.min(self.bytes);
        self.bytes -= less;
        self.buffers.give_back(less, self.of);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.buffers.give_back(self.bytes, self.of);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// As much as anybody may want.
    pub(crate) fn plenty() -> Arc<Buffers> {
        Buffers::new(usize::MAX, &Metrics::new().unwrap())
    }

    #[test]
    fn no_more_is_taken_than_there_is_and_all_of_it_comes_back() {
        let metrics = Metrics::new().unwrap();
        let buffers = Buffers::new(100, &metrics);
        let shown = |line: &str| metrics.encode().unwrap().lines().any(|shown| shown == line);
        let mut held = Share::none(&buffers, Use::HeldBack);
        assert_eq!(held.grow(60), 60);
        let coding = Share::of(&buffers, 30, Use::Compression).unwrap();
        assert!(Share::of(&buffers, 30, Use::Compression).is_none());
        assert_eq!((held.grow(30), held.grow(30)), (10, 0));
        assert!(shown("moorgate_buffered_bytes{kind=\"held_back\"} 70"));
        assert!(shown("moorgate_buffered_bytes{kind=\"compression\"} 30"));
        for kind in ["held_back", "compression"] {
            assert!(shown(&format!("moorgate_buffers_full_total{{kind=\"{kind}\"}} 1")), "once an answer");
        }
        held.shrink(1000);
        drop((held, coding));
        assert_eq!(buffers.used.load(Relaxed), 0);
        assert!(shown("moorgate_buffered_bytes{kind=\"held_back\"} 0"));
        assert_eq!(Share::none(&buffers, Use::HeldBack).grow(1000), 100);
    }
}
