//! What is held of an origin, why, and what changed? In words that are public: they stand in `/status`, in the log and
//! in metrics.
//!
//! A [`Change`] is a fact for the caller to log and to count; nothing in this room does either.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::evidence::Fault;
use super::hold::Held;
use super::outlier::Failing;

/// What is held of an origin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Verdict {
    /// New to a running pool and not proven yet: no request of a client.
    Joining,
    /// In service.
    Up,
    /// In service, and growing into its share.
    Ramping,
    /// In service, and taking less than its share for having had too much to do.
    Overloaded,
    /// Due out, but kept in service by the floor of its pool.
    Kept,
    /// Out.
    Down,
    /// To get no new request, at once or step by step.
    Draining,
    /// No part of the pool any more, but in service until those that come have its keys.
    Leaving,
    /// Dropped by a reload not long ago: said of it in place of what is held, never held itself.
    Parked,
}

/// Why that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Nothing was heard of it yet.
    Assumed,
    /// Its pool is not probed.
    Unprobed,
    /// Its probes passed.
    Passing,
    /// It takes a part of its share, and that does not grow for now.
    Held {
        /// Why not.
        held: Held,
        /// So much of it, in percent.
        percent: u32,
    },
    /// It takes a part of its share.
    Overloaded {
        /// So much of it, in percent.
        percent: u32,
        /// So many percent of what it answered said that it has too much to do.
        busy: u32,
    },
    /// Requests to it fail.
    Failing {
        /// How many.
        failing: Failing,
        /// How long it is out for that, in seconds.
        left: u64,
    },
    /// It gives its share up.
    Draining {
        /// So much of it is left, in percent.
        percent: u32,
    },
    /// It gets no new request.
    Drained,
    /// It serves until those that come have its keys.
    Succeeded,
    /// It takes a part of its share.
    Growing {
        /// So much of it, in percent.
        percent: u32,
        /// Until it takes all, in seconds, if nothing holds it.
        left: u64,
    },
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
    pub const ALL: [Self; 9] = [
        Self::Joining,
        Self::Up,
        Self::Ramping,
        Self::Overloaded,
        Self::Kept,
        Self::Down,
        Self::Draining,
        Self::Leaving,
        Self::Parked,
    ];

    /// May any request go there?
    pub const fn usable(self) -> bool {
        matches!(self, Self::Up | Self::Ramping | Self::Overloaded | Self::Kept | Self::Leaving)
    }

    /// Do requests go there, if only those that did before?
    pub const fn serves(self) -> bool {
        self.usable() || matches!(self, Self::Draining)
    }

    /// The word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Up => "up",
            Self::Ramping => "ramping",
            Self::Overloaded => "overloaded",
            Self::Kept => "kept",
            Self::Down => "down",
            Self::Draining => "draining",
            Self::Leaving => "leaving",
            Self::Parked => "parked",
        }
    }

    /// The verdict stored as `number`; a number never stored reads as the most careful one.
    pub(super) fn stored(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Down)
    }
}

impl Why {
    /// One word of a bounded set: the label of `moorgate_ejections_total`.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Assumed => "assumed",
            Self::Unprobed => "unprobed",
            Self::Passing => "passing",
            Self::Held { .. } => "held",
            Self::Overloaded { .. } => "overload",
            Self::Failing { failing, .. } => failing.as_str(),
            Self::Draining { .. } => "draining",
            Self::Drained => "drained",
            Self::Succeeded => "succeeded",
            Self::Growing { .. } => "growing",
            Self::Connected => "connected",
            Self::NotProven { .. } => "not_proven",
            Self::NoConnection(fault) | Self::BadProbes { last: fault, .. } => fault.as_str(),
            Self::Silent => "silent",
            Self::Hung => "hung",
            Self::Unresolved => "unresolved",
        }
    }

    /// How far an origin is that has not all of its share: of the probes it needs, or of the share. `None`: it is not on its
    /// way.
    pub fn progress(self) -> Option<f64> {
        match self {
            Self::NotProven { rise: 0, .. } => Some(0.0),
            Self::NotProven { good, rise } => Some((f64::from(good) / f64::from(rise)).min(1.0)),
            Self::Growing { percent, .. }
            | Self::Held { percent, .. }
            | Self::Overloaded { percent, .. }
            | Self::Draining { percent } => Some((f64::from(percent) / 100.0).min(1.0)),
            _ => None,
        }
    }
}

impl Change {
    /// Was an origin taken out of service?
    pub fn is_ejection(&self) -> bool {
        self.from.serves() && self.to == Verdict::Down
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
            Self::Held { held, percent } => write!(f, "held: {held}; takes {percent}% of its share"),
            Self::Overloaded { percent, busy } => {
                write!(f, "takes {percent}% of its share: {busy}% of what it answered said that it has too much to do")
            }
            Self::Failing { failing, left: 0 } => write!(f, "{failing}"),
            Self::Failing { failing, left } => write!(f, "{failing}; it is out for {left} s more"),
            Self::Draining { percent } => write!(f, "{percent}% of its share is left"),
            Self::Drained => f.write_str("drained: it gets no new request"),
            Self::Succeeded => f.write_str("it serves until those that come have its keys"),
            Self::Growing { percent, left } => write!(f, "takes {percent}% of its share, all of it in {left} s"),
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
        assert_eq!(usable, [Verdict::Up, Verdict::Ramping, Verdict::Overloaded, Verdict::Kept, Verdict::Leaving]);
    }

    #[test]
    fn progress_is_of_probes_or_of_the_share() {
        let not_proven = |good, rise| Why::NotProven { good, rise }.progress();
        assert_eq!([not_proven(0, 0), not_proven(1, 2), not_proven(5, 2)], [Some(0.0), Some(0.5), Some(1.0)]);
        assert_eq!(Why::Growing { percent: 31, left: 9 }.progress(), Some(0.31));
        assert_eq!(Why::Passing.progress(), None);
    }

    #[test]
    fn reason_of_bad_probes_is_the_last_fault() {
        let why = Why::BadProbes { count: 3, last: Fault::Status(500) };
        assert_eq!(why.reason(), "status");
        assert_eq!(why.to_string(), "3 bad probes in a row, the last: status 500");
    }
}
