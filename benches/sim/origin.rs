//! An origin that works off what it takes one after the other, before a cache of its own: a miss costs five times a hit.

use std::collections::HashSet;
use std::mem;

use moorgate::health::{Fault, Grade};

use crate::world::Seconds;

/// Hits a second of an origin at full speed.
pub(crate) const CAPACITY: f64 = 100.0;
/// A miss costs as much as so many hits.
const MISS: f64 = 5.0;
/// It says 503 at once while its work reaches further ahead than this.
const QUEUE: Seconds = 1.0;
/// What the 503 takes.
const REFUSAL: Seconds = 0.001;
/// What a probe has.
const PROBE: Seconds = 1.0;

/// One origin.
pub(crate) struct Origin {
    /// Its speed as a part of the full one.
    pub(crate) speed: f64,
    /// It takes whatever comes, and lets it wait: it never says 503.
    pub(crate) patient: bool,
    /// It takes everything and says nothing.
    pub(crate) hangs: bool,
    /// Probes ask for what is not there.
    pub(crate) wrong_path: bool,
    /// When it has worked off what it took.
    free: Seconds,
    /// It pauses until then, for so long.
    pause: (Seconds, Seconds),
    cache: Cache,
}

/// What becomes of a request.
pub(crate) struct Work {
    /// When it is answered; never, where it hangs.
    pub(crate) at: Seconds,
    /// 200 or 503.
    pub(crate) status: u16,
    /// It was not in the cache.
    pub(crate) miss: bool,
}

impl Origin {
    /// One whose cache holds so many keys.
    pub(crate) fn new(holds: usize) -> Self {
        let cache = Cache { young: HashSet::new(), old: HashSet::new(), half: holds };
        Self { speed: 1.0, patient: false, hangs: false, wrong_path: false, free: 0.0, pause: (0.0, 0.0), cache }
    }

    /// Has this key in its cache from now on.
    pub(crate) fn learn(&mut self, key: u32) {
        self.cache.knows(key);
    }

    /// Takes a request for this key.
    pub(crate) fn take(&mut self, key: u32, now: Seconds) -> Work {
        if self.hangs {
            return Work { at: Seconds::INFINITY, status: 200, miss: false };
        }
        if !self.patient && self.backlog(now) > QUEUE {
            return Work { at: now.max(self.pause.0) + REFUSAL, status: 503, miss: false };
        }
        let miss = !self.cache.knows(key);
        let cost = if miss { MISS } else { 1.0 } / CAPACITY / self.speed;
        self.free = self.free.max(now).max(self.pause.0) + cost;
        Work { at: self.free, status: 200, miss }
    }

    /// Stops for so long; what it works on ends so much later.
    pub(crate) fn pause(&mut self, length: Seconds, now: Seconds) {
        self.pause = (now + length, length);
        self.free = self.free.max(now) + length;
    }

    /// When an answer that was due `now` really comes: later by a pause that began meanwhile.
    pub(crate) fn delayed(&self, now: Seconds) -> Option<Seconds> {
        if self.hangs {
            return Some(Seconds::INFINITY);
        }
        (now < self.pause.0).then_some(now + self.pause.1)
    }

    /// What a probe that begins `now` comes to, and when.
    pub(crate) fn probe(&self, now: Seconds) -> (Seconds, Grade) {
        let answers = if self.hangs { Seconds::INFINITY } else { now.max(self.pause.0) + REFUSAL };
        if answers > now + PROBE {
            return (now + PROBE, Grade::Bad(Fault::Timeout));
        }
        let grade = match (self.wrong_path, !self.patient && self.backlog(now) > QUEUE) {
            (true, _) => Grade::Bad(Fault::Status(404)),
            (_, true) => Grade::Overloaded,
            _ => Grade::Good,
        };
        (answers, grade)
    }

    /// Work ahead of it; a pause is none.
    fn backlog(&self, now: Seconds) -> Seconds {
        self.free - now.max(self.pause.0)
    }
}

/// The keys asked for last: two generations, of which the older one goes when the younger is full.
struct Cache {
    young: HashSet<u32>,
    old: HashSet<u32>,
    half: usize,
}

impl Cache {
    /// Is it there? It is from now on.
    fn knows(&mut self, key: u32) -> bool {
        if self.young.contains(&key) {
            return true;
        }
        if self.young.len() >= self.half {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key);
        self.old.remove(&key)
    }
}
