//! Which members of a pool may be used now, and which take all of their keys? One bit each, so that a pick over
//! thousands of members touches a few cache lines, and a pool without a usable member is known without looking at any.
//!
//! A board belongs to one compiled pool. Origins outlive it and write to every board that shows them (see
//! [`Live`](super::Live)), so that requests on an older snapshot see the same state as those on the newest.
//! Reading takes no lock. Bits are hints for routing that order nothing else, hence `Relaxed`.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The members of one compiled pool, by what they take.
#[derive(Debug)]
pub struct Board {
    usable: Members,
    /// Usable, and they take every key of theirs.
    full: Members,
    /// They take a part of their keys, usable or not; or none yet, since they are new.
    partial: Members,
}

/// What a member takes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Takes {
    /// May a key go there that nobody takes?
    pub(super) usable: bool,
    /// Its share is neither all nor nothing, or it is new to the pool.
    pub(super) partial: bool,
}

/// A set of members that can be read while it is written.
#[derive(Debug)]
struct Members {
    words: Box<[AtomicU64]>,
    count: AtomicUsize,
}

impl Board {
    /// A board for this many members, none of them usable yet.
    pub fn new(members: usize) -> Self {
        Self { usable: Members::none_of(members), full: Members::none_of(members), partial: Members::none_of(members) }
    }

    /// Is this member usable?
    pub fn holds(&self, member: usize) -> bool {
        self.usable.hold(member)
    }

    /// Is it usable, and does it take every key of its own?
    pub fn is_full(&self, member: usize) -> bool {
        self.full.hold(member)
    }

    /// Does it take a part of its keys, or is it new?
    pub fn is_partial(&self, member: usize) -> bool {
        self.partial.hold(member)
    }

    /// How many members are usable.
    pub fn usable(&self) -> usize {
        self.usable.count.load(Relaxed)
    }

    /// Does every usable member take all of its keys, and every other one none, with nobody new?
    pub fn is_even(&self) -> bool {
        self.partial.count.load(Relaxed) == 0
    }

    /// The usable members, in the order of their numbers.
    pub fn members(&self) -> impl Iterator<Item = usize> + '_ {
        self.usable.numbers()
    }

    /// Those that take a part of their keys, or are new, in the order of their numbers.
    pub fn partial_members(&self) -> impl Iterator<Item = usize> + '_ {
        self.partial.numbers()
    }

    /// Only the origin shown there sets its bits, under its own lock.
    pub(super) fn set(&self, member: usize, takes: Takes) {
        let full = takes.usable && !takes.partial;
        let bits = [(&self.partial, takes.partial), (&self.full, full), (&self.usable, takes.usable)];
        // What is held from now on first: a reader in between never finds a member forgotten.
        for held in [true, false] {
            bits.iter().filter(|(_, holds)| *holds == held).for_each(|(members, _)| members.set(member, held));
        }
    }
}

impl Members {
    fn none_of(members: usize) -> Self {
        let words = (0..members.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { words, count: AtomicUsize::new(0) }
    }

    fn hold(&self, member: usize) -> bool {
        self.words.get(member / 64).is_some_and(|word| word.load(Relaxed) & (1 << (member % 64)) != 0)
    }

    fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| Bits(word.load(Relaxed)).map(move |bit| at * 64 + bit))
    }

    fn set(&self, member: usize, held: bool) {
        let Some(word) = self.words.get(member / 64) else { return };
        let bit = 1 << (member % 64);
        let before = if held { word.fetch_or(bit, Relaxed) } else { word.fetch_and(!bit, Relaxed) };
        match (before & bit != 0, held) {
            (false, true) => self.count.fetch_add(1, Relaxed),
            (true, false) => self.count.fetch_sub(1, Relaxed),
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

    const OUT: Takes = Takes { usable: false, partial: false };
    const FULL: Takes = Takes { usable: true, partial: false };
    const PART: Takes = Takes { usable: true, partial: true };
    /// It sheds its keys, and is not to be used for those of others.
    const GOING: Takes = Takes { usable: false, partial: true };

    #[test]
    fn shows_what_was_set_and_counts_each_member_once() {
        let board = Board::new(130);
        for member in [0, 63, 64, 129, 129] {
            board.set(member, FULL);
        }
        board.set(64, OUT);
        board.set(65, OUT);
        assert_eq!(board.members().collect::<Vec<_>>(), [0, 63, 129]);
        assert_eq!(board.usable(), 3);
        assert!(board.holds(129) && !board.holds(64) && !board.holds(1));
    }

    #[test]
    fn is_even_while_everybody_takes_all_or_nothing() {
        let board = Board::new(3);
        board.set(0, FULL);
        assert!(board.is_even() && board.is_full(0));
        board.set(1, PART);
        board.set(2, GOING);
        assert!(!board.is_even());
        assert_eq!(board.partial_members().collect::<Vec<_>>(), [1, 2]);
        assert_eq!((0..3).map(|member| board.holds(member)).collect::<Vec<_>>(), [true, true, false]);
        assert_eq!((0..3).map(|member| board.is_full(member)).collect::<Vec<_>>(), [true, false, false]);
        board.set(1, FULL);
        board.set(2, OUT);
        assert!(board.is_even());
    }

    #[test]
    fn member_beyond_the_board_is_not_usable() {
        let board = Board::new(3);
        board.set(1000, FULL);
        assert!(!board.holds(1000));
        assert_eq!(board.usable(), 0);
    }
}
