//! Memory that answers on their way to clients take.

use super::super::metrics::Metrics;
use super::super::series::{Counter, Level};
use super::level;

/// Shows the memory of one kind.
pub struct BufferMeters {
    bytes: Level,
    full: Counter,
}

impl Metrics {
    /// The meters of memory of this kind, a word of ours.
    pub fn buffers(&self, kind: &'static str) -> BufferMeters {
        let all = self.all();
        BufferMeters { bytes: all.buffered.with(&[kind]), full: all.buffers_full.with(&[kind]) }
    }
}

impl BufferMeters {
    /// So much was taken.
    pub fn taken(&self, bytes: usize) {
        self.bytes.add(level(bytes));
    }

    /// So much was given back.
    pub fn given_back(&self, bytes: usize) {
        self.bytes.add(-level(bytes));
    }

    /// There was not enough left.
    pub fn full(&self) {
        self.full.increment();
    }
}
