//! Which members of a pool may be used now? One bit each, so that a pick over thousands of members touches a few
//! cache lines, and a pool without a usable member is known without looking at any.
//!
//! A board belongs to one compiled pool. Origins outlive it and write to every board that shows them (see
//! [`Live`](super::Live)), so that requests on an older snapshot see the same state as those on the newest.
//! Reading takes no lock. Bits are hints for routing that order nothing else, hence `Relaxed`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The usable members of one compiled pool.
#[derive(Debug)]
pub struct Board {
    words: Box<[AtomicU64]>,
    usable: AtomicUsize,
}

impl Board {
    /// A board for this many members, none of them usable yet.
    pub fn new(members: usize) -> Self {
        let words = (0..members.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { words, usable: AtomicUsize::new(0) }
    }

    /// Is this member usable?
    pub fn holds(&self, member: usize) -> bool {
        self.words.get(member / 64).is_some_and(|word| word.load(Relaxed) & (1 << (member % 64)) != 0)
    }

    /// How many members are usable.
    pub fn usable(&self) -> usize {
        self.usable.load(Relaxed)
    }

    /// The usable members, in the order of their numbers.
    pub fn members(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| Bits(word.load(Relaxed)).map(move |bit| at * 64 + bit))
    }

    /// Only the origin shown there sets its bit, under its own lock.
    pub(super) fn set(&self, member: usize, usable: bool) {
        let Some(word) = self.words.get(member / 64) else { return };
        let bit = 1 << (member % 64);
        let before = if usable { word.fetch_or(bit, Relaxed) } else { word.fetch_and(!bit, Relaxed) };
        match (before & bit != 0, usable) {
            (false, true) => self.usable.fetch_add(1, Relaxed),
            (true, false) => self.usable.fetch_sub(1, Relaxed),
            _ => return,
        };
    }
}

/// The positions of the bits that are set.
struct Bits(u64);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let bit = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_was_set_and_counts_each_member_once() {
        let board = Board::new(130);
        for member in [0, 63, 64, 129, 129] {
            board.set(member, true);
        }
        board.set(64, false);
        board.set(65, false);
        assert_eq!(board.members().collect::<Vec<_>>(), [0, 63, 129]);
        assert_eq!(board.usable(), 3);
        assert!(board.holds(129) && !board.holds(64) && !board.holds(1));
    }

    #[test]
    fn member_beyond_the_board_is_not_usable() {
        let board = Board::new(3);
        board.set(1000, true);
        assert!(!board.holds(1000));
        assert_eq!(board.usable(), 0);
    }
}
