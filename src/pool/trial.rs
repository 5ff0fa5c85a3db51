//! How do keys that a change moved fare, beside those that stayed? Rule C5.
//!
//! A trial lasts while a change waits to be confirmed. Requests of both kinds are counted apart, by the key's hash
//! alone, whichever origin answered; whether that is good or bad is said elsewhere. Counting takes a lock that is only
//! tried, so no request waits for another.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::balance::Arcs;

use super::Pool;
use crate::health::{Summary, Tally};

/// Keys that moved, and keys that stayed.
#[derive(Debug)]
pub struct Trial {
    /// `None`: all of them moved.
    moved_arcs: Option<Arcs>,
    moved: Tally,
    stayed: Tally,
    /// Requests read it, the end of the trial writes it, and nothing else hangs on it.
    over: AtomicBool,
}

impl Trial {
    /// Of a change from `old` to `new`.
    pub fn between(old: &Pool, new: &Pool) -> Self {
        let moved_arcs = old.keys_as(new).then(|| Arcs::between(&old.placement(), &new.placement()));
        Self { moved_arcs, moved: Tally::default(), stayed: Tally::default(), over: AtomicBool::new(false) }
    }

    /// A request of a key with this hash ended; `took`: time to the answer's header, if one came.
    pub fn record(&self, hash: u32, error: bool, took: Option<Duration>, now: Instant) {
        if self.over.load(Relaxed) {
            return;
        }
        let moved = self.moved_arcs.as_ref().is_none_or(|arcs| arcs.contain(hash));
        if moved { &self.moved } else { &self.stayed }.record(error, took, None, now);
    }

    /// The keys that moved, and those that stayed, of the last minute.
    pub fn seen(&self, now: Instant) -> (Summary, Summary) {
        (self.moved.summary(now), self.stayed.summary(now))
    }

    /// Nothing is counted any more.
    pub fn end(&self) {
        self.over.store(true, Relaxed);
    }
}
