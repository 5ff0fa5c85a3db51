//! What is held of an origin, and in which words?
//!
//! The words are public: they stand in `/status`, in the log and in metrics.

use std::fmt;

/// What is held of an origin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// New to a running pool and not proven yet: no request of a client.
    Joining,
    /// In service.
    Up,
    /// Due out, but kept in service by the floor of its pool.
    Kept,
    /// Out.
    Down,
}

impl Verdict {
    /// Every verdict, each once.
    pub const ALL: [Self; 4] = [Self::Joining, Self::Up, Self::Kept, Self::Down];

    /// May requests go there?
    pub const fn usable(self) -> bool {
        matches!(self, Self::Up | Self::Kept)
    }

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Up => "up",
            Self::Kept => "kept",
            Self::Down => "down",
        }
    }

    /// The verdict stored as `number`; a number never stored reads as the most careful one.
    pub(super) const fn stored(number: u8) -> Self {
        match number {
            0 => Self::Joining,
            1 => Self::Up,
            2 => Self::Kept,
            _ => Self::Down,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_is_read_back_as_it_was_stored() {
        assert!(Verdict::ALL.into_iter().all(|verdict| Verdict::stored(verdict as u8) == verdict));
    }

    #[test]
    fn kept_is_usable_and_joining_is_not() {
        let usable: Vec<_> = Verdict::ALL.into_iter().filter(|verdict| verdict.usable()).collect();
        assert_eq!(usable, [Verdict::Up, Verdict::Kept]);
    }
}
