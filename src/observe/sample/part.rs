//! One part of a sample: the keys whose hash puts them here, counted under one lock.
//!
//! A key is kept when its own random number has none of the bits left out; every request for a kept key counts. So the
//! keys kept are a fair sample of all keys, whatever their traffic, and where each of them went is known exactly. When
//! there are too many, one more bit is left out. Keys not seen for two spans are forgotten.

use std::collections::HashMap;
use std::sync::Arc;

use super::hot::Hot;
use super::{Away, Sighting, Url};

/// Keys of one part at most.
pub(super) const KEYS: usize = 1024;

/// The part.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) keys: HashMap<u32, Entry>,
    pub(super) hot: Hot,
    /// Requests, those of the last span and before counted half, a quarter and so on.
    pub(super) requests: f64,
    /// Bits that may not be set in the number of a key that is kept.
    pub(super) left_out: u32,
    span: u64,
}

/// What is known of a key.
#[derive(Debug)]
pub(super) struct Entry {
    /// Of the first request for it, unless that is very long.
    pub(super) url: Option<Url>,
    /// Its own random number.
    pub(super) number: u32,
    /// Requests in this span and in the last.
    pub(super) seen: [u32; 2],
    /// Where it was served before the last change; nowhere: it was not seen then.
    pub(super) before: Option<Arc<str>>,
    /// Was that its owner?
    pub(super) was_home: bool,
    /// Where it was served last.
    pub(super) origin: Arc<str>,
    /// Was it seen since the last change?
    pub(super) since_change: bool,
    /// Why it was not served by its owner, if it was not.
    pub(super) away: Option<Away>,
}

impl Part {
    /// One without keys yet.
    pub(super) fn begin(left_out: u32, requests: f64, span: u64) -> Self {
        Self { left_out, requests, span, ..Self::default() }
    }

    /// The bits to be left out for no more than `most` keys to be left.
    pub(super) fn thinned_to(&self, most: usize) -> u32 {
        let mut left_out = self.left_out;
        while left_out < u32::MAX && self.keys.values().filter(|entry| entry.number & left_out == 0).count() > most {
            left_out = left_out << 1 | 1;
        }
        left_out
    }

    /// One request, in this span; `url` is asked when its key is new.
    pub(super) fn see(&mut self, sighting: &Sighting<'_>, number: u32, span: u64, url: impl FnOnce() -> Option<Url>) {
        self.turn(span);
        self.requests += 1.0;
        self.hot.see(sighting.hash, sighting.key);
        if number & self.left_out != 0 {
            return;
        }
        if let Some(entry) = self.keys.get_mut(&sighting.hash) {
            return entry.see(sighting);
        }
        self.keys.insert(sighting.hash, Entry::new(sighting, number, url()));
        if self.keys.len() > KEYS {
            self.left_out = self.left_out << 1 | 1;
            let left_out = self.left_out;
            self.keys.retain(|_, entry| entry.number & left_out == 0);
        }
    }

    /// Time has passed, if it has.
    pub(super) fn turn(&mut self, span: u64) {
        if span <= self.span {
            return;
        }
        if span > self.span + 1 {
            *self = Self { span, ..Self::default() };
            return;
        }
        self.span = span;
        self.requests /= 2.0;
        self.hot.halve();
        self.keys.retain(|_, entry| {
            entry.seen = [0, entry.seen[0]];
            entry.seen[1] > 0
        });
        if self.keys.len() < KEYS / 4 {
            self.left_out >>= 1;
        }
    }

    /// A change comes: where keys are now is where they were before it.
    pub(super) fn changed(&mut self) {
        for entry in self.keys.values_mut() {
            entry.before = Some(Arc::clone(&entry.origin));
            entry.was_home = entry.away.is_none();
            entry.since_change = false;
        }
    }
}

impl Entry {
    fn new(sighting: &Sighting<'_>, number: u32, url: Option<Url>) -> Self {
        Self {
            url,
            number,
            seen: [1, 0],
            before: None,
            was_home: false,
            origin: Arc::clone(sighting.origin),
            since_change: true,
            away: sighting.away,
        }
    }

    fn see(&mut self, sighting: &Sighting<'_>) {
        self.seen[0] = self.seen[0].saturating_add(1);
        self.since_change = true;
        self.away = sighting.away;
        if !Arc::ptr_eq(&self.origin, sighting.origin) {
            self.origin = Arc::clone(sighting.origin);
        }
    }

    /// Requests in the last two spans.
    pub(super) fn requests(&self) -> u64 {
        self.seen.into_iter().map(u64::from).sum()
    }

    /// Did the last change move it? Nothing is known of a key that was not seen before it and since.
    pub(super) fn moved(&self) -> Option<bool> {
        self.before.as_ref().filter(|_| self.since_change).map(|before| **before != *self.origin)
    }

    /// Did it move for no other reason than the change? Nothing is known of a key that was not with its owner before, or
    /// is not now because that is out or busy.
    pub(super) fn moved_by_change(&self) -> Option<bool> {
        let at_home = self.was_home && matches!(self.away, None | Some(Away::Ramp));
        self.moved().filter(|_| at_home)
    }
}
