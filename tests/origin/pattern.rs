//! Which byte comes next? An endless row in which each byte has its place, so that a body of any size can be made and
//! checked while it passes: a loss, a repeat or a swap shows, and nothing has to be kept.
//!
//! Blocks of 64 KiB, each begun by its number, the rest of them the same noise. Bytes are compared and copied many at
//! a time, so that a gigabyte costs little even without optimisation.

const BLOCK: usize = 64 << 10;

/// The row, from the place reached so far.
pub(crate) struct Pattern {
    at: u64,
    block: Vec<u8>,
}

impl Pattern {
    /// From the start.
    pub(crate) fn new() -> Self {
        let noise = (0..BLOCK as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8);
        Self { at: 0, block: noise.collect() }
    }

    /// The next bytes, at most so many; none only for 0.
    pub(crate) fn piece(&mut self, most: u64) -> &[u8] {
        let block = BLOCK as u64;
        let from = (self.at % block) as usize;
        if from == 0 {
            self.block[..8].copy_from_slice(&(self.at / block).to_be_bytes());
        }
        let size = (block - self.at % block).min(most) as usize;
        self.at += size as u64;
        &self.block[from..from + size]
    }

    /// Goes on by these bytes if they are what comes next.
    pub(crate) fn goes_on_with(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while !rest.is_empty() {
            let expected = self.piece(rest.len() as u64);
            let Some(after) = rest.strip_prefix(expected) else { return false };
            rest = after;
        }
        true
    }
}
