//! Does all growth of a pool stand still for a reason that its origins do not know of? Rules C3 and C5.
//!
//! Read by the judge, written by whoever watches a change; nothing else hangs on either word: `Relaxed`. Handed from
//! snapshot to snapshot with its pool.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::hold::{Held, per_mille};

/// Makes all growth of a pool stand still.
#[derive(Debug, Default)]
pub struct Brake {
    /// A change is found to harm every key, moved or not.
    harm: AtomicBool,
    /// So many keys in a thousand moved, and below that how many may; 0: no more than may.
    moved: AtomicU64,
}

impl Brake {
    /// A change harms every key from now on, or does so no more.
    pub fn harm(&self, holds: bool) {
        self.harm.store(holds, Relaxed);
    }

    /// This part of the keys moved, and that is more than the other part, which may; `None`: it is not.
    pub fn overrun(&self, moved: Option<(f64, f64)>) {
        let word = |(moved, most)| u64::from(per_mille(moved).max(1)) << 32 | u64::from(per_mille(most));
        self.moved.store(moved.map_or(0, word), Relaxed);
    }

    pub(super) fn held(&self) -> Option<Held> {
        if self.harm.load(Relaxed) {
            return Some(Held::All);
        }
        match self.moved.load(Relaxed) {
            0 => None,
            word => Some(Held::Moved((word >> 32) as u32, word as u32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_holds_until_it_is_taken_back() {
        let brake = Brake::default();
        assert_eq!(brake.held(), None);
        brake.overrun(Some((0.123, 0.05)));
        assert_eq!(brake.held(), Some(Held::Moved(123, 50)));
        brake.harm(true);
        assert_eq!(brake.held(), Some(Held::All));
        brake.harm(false);
        brake.overrun(Some((0.0001, 0.0)));
        assert_eq!(brake.held(), Some(Held::Moved(1, 0)), "little is not nothing");
        brake.overrun(None);
        assert_eq!(brake.held(), None);
    }
}
