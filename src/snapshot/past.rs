//! Where does a snapshot take live state from? From the one in force, here or in another process, or from nowhere.

use std::time::Instant;

use super::Snapshot;
use super::carried::{Carried, UpstreamCarried};
use crate::config::Config;
use crate::pool::Parked;
use crate::traffic::Buckets;

/// What a snapshot takes over from.
#[derive(Clone, Copy)]
pub(super) enum Past<'a> {
    Nothing,
    /// The snapshot in force, which a reload may replace.
    Here(&'a Snapshot),
    /// The same: what clients are shown is read again, and nothing else.
    Renewed(&'a Snapshot),
    /// The same, which is only brought up to date.
    Current(&'a Snapshot),
    /// What another process told of the one in force there.
    Told(&'a Carried),
}

impl<'a> Past<'a> {
    /// Is what was read from files for pools taken over?
    pub(super) fn stays(self) -> bool {
        matches!(self, Self::Current(_) | Self::Renewed(_))
    }

    pub(super) fn snapshot(self) -> Option<&'a Snapshot> {
        match self {
            Self::Here(snapshot) | Self::Renewed(snapshot) | Self::Current(snapshot) => Some(snapshot),
            Self::Nothing | Self::Told(_) => None,
        }
    }

    pub(super) fn told(self, pool: &str) -> Option<&'a UpstreamCarried> {
        match self {
            Self::Told(carried) => carried.pool(pool),
            Self::Nothing | Self::Here(_) | Self::Renewed(_) | Self::Current(_) => None,
        }
    }

    /// What limits count with.
    pub(super) fn buckets(self, now: Instant) -> Buckets {
        match self {
            Self::Here(previous) | Self::Renewed(previous) | Self::Current(previous) => previous.buckets.after(),
            Self::Told(Carried { limits: Some(limits), .. }) => Buckets::told(limits, now),
            Self::Told(_) | Self::Nothing => Buckets::new(now),
        }
    }

    pub(super) fn gone_without(self, config: &Config, now: Instant) -> Vec<Parked> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Here(previous) | Self::Renewed(previous) | Self::Current(previous) => {
                previous.gone_without(config, now)
            }
            Self::Told(carried) => carried.gone(now),
        }
    }
}
