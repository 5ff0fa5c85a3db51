//! What is held of an origin, why, and what changed? In words that are public: they stand in `/status`, in the log and
//! in metrics.
//!
//! A [`Change`] is a fact for the caller to log and to count; nothing in this room does either.

use std::fmt;
use std::sync::Arc;

use super::evidence::Fault;

/// What is held of an origin now. Later rules add to these: overloaded, ramping, draining, leaving.
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
    /// Dropped by a reload not long ago: said of it in place of what is held, never held itself.
    Parked,
}

/// Why that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Nothing was heard of it yet.
    Assumed,
    /// Its pool is not probed.
    Unprobed,
    /// Its probes passed.
    Passing,
    /// A request reached it while every origin was out.
    Connected,
    /// It has this many good probes of those that it needs.
    NotProven {
        /// Good probes in a row.
        good: u32,
        /// Needed.
        rise: u32,
    },
    /// It takes no connection: refused or unreachable, and once more when asked again.
    NoConnection(Fault),
    /// So many probes in a row were bad.
    BadProbes {
        /// In a row.
        count: u32,
        /// The last of them.
        last: Fault,
    },
    /// No probe passed and no request was answered for ten seconds, while other origins passed theirs.
    Silent,
    /// Requests on several keys timed out and none was answered for ten seconds, while other origins answered.
    Hung,
    /// Its name was not resolved yet.
    Unresolved,
}

/// What is held of an origin changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The pool.
    pub pool: Arc<str>,
    /// The origin.
    pub origin: Arc<str>,
    /// What was held.
    pub from: Verdict,
    /// What is held now.
    pub to: Verdict,
    /// Why.
    pub why: Why,
}

impl Verdict {
    /// Every verdict, each once.
    pub const ALL: [Self; 5] = [Self::Joining, Self::Up, Self::Kept, Self::Down, Self::Parked];

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
            Self::Parked => "parked",
        }
    }

    /// The verdict stored as `number`; a number never stored reads as the most careful one.
    pub(super) const fn stored(number: u8) -> Self {
        match number {
            0 => Self::Joining,
            1 => Self::Up,
            2 => Self::Kept,
            4 => Self::Parked,
            _ => Self::Down,
        }
    }
}

impl Why {
    /// One word of a bounded set: the label of `moorgate_ejections_total`.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Assumed => "assumed",
            Self::Unprobed => "unprobed",
            Self::Passing => "passing",
            Self::Connected => "connected",
            Self::NotProven { .. } => "not_proven",
            Self::NoConnection(fault) | Self::BadProbes { last: fault, .. } => fault.as_str(),
            Self::Silent => "silent",
            Self::Hung => "hung",
            Self::Unresolved => "unresolved",
        }
    }
}

impl Change {
    /// Was an origin taken out of service?
    pub fn is_ejection(&self) -> bool {
        self.from.usable() && !self.to.usable()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assumed => f.write_str("assumed up: not probed yet"),
            Self::Unprobed => f.write_str("assumed up: its pool is not probed"),
            Self::Passing => f.write_str("probes pass"),
            Self::Connected => f.write_str("a request reached it while every origin was out"),
            Self::NotProven { good, rise } => write!(f, "{good} of {rise} good probes"),
            Self::NoConnection(fault) => write!(f, "no connection: {fault}"),
            Self::BadProbes { count, last } => write!(f, "{count} bad probes in a row, the last: {last}"),
            Self::Silent => f.write_str("no probe passed and no request was answered for 10 s"),
            Self::Hung => f.write_str("requests timed out and none was answered for 10 s"),
            Self::Unresolved => f.write_str("unresolved"),
        }
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

    #[test]
    fn reason_of_bad_probes_is_the_last_fault() {
        let why = Why::BadProbes { count: 3, last: Fault::Status(500) };
        assert_eq!(why.reason(), "status");
        assert_eq!(why.to_string(), "3 bad probes in a row, the last: status 500");
    }
}
