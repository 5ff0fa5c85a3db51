//! Which keys is a pool asked for lately, and where do they go?
//!
//! A bounded sample of the pool's recent keys with their requests, and its hottest keys. It tells `plan` what a change
//! would move of the live traffic, and after a change what really moved. Handed from snapshot to snapshot with its
//! pool. Always holds: a request takes one short lock, which is only tried; it allocates when its key is new to the
//! sample, and what is kept is bounded (some 16,000 keys a pool). Nothing here decides where anything goes.

mod carried;
mod hot;
mod part;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use part::{Entry, Part};

pub use carried::Carried;
pub use hot::HotKey;

/// Parts of a sample, each with a lock of its own.
const PARTS: usize = 16;

/// What is known of keys goes back one to two of these.
pub const SPAN: Duration = Duration::from_secs(300);

/// Hottest keys that are told.
const TOP: usize = 10;

/// The sample of a pool.
pub struct Sample {
    began: Instant,
    parts: [Mutex<Part>; PARTS],
}

/// One request with a key, as it was placed.
#[derive(Debug, Clone, Copy)]
pub struct Sighting<'a> {
    /// The key's hash.
    pub hash: u32,
    /// The key.
    pub key: &'a [u8],
    /// The origin its first try went to.
    pub origin: &'a Arc<str>,
    /// Why that was not the owner of the key, if it was not.
    pub away: Option<Away>,
}

/// Why a key was not served by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Away {
    /// It was out.
    Down,
    /// Its share was made smaller for being overloaded.
    Overload,
    /// Its share is still growing.
    Ramp,
    /// It had enough to do.
    Spill,
    /// It is being emptied.
    Drain,
}

impl Away {
    /// Every one, with its word.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Down, "down"),
        (Self::Overload, "overload"),
        (Self::Ramp, "ramp"),
        (Self::Spill, "spill"),
        (Self::Drain, "drain"),
    ];
}

/// What can be said of the recent keys of a pool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summary {
    /// Distinct keys, estimated when there are many.
    pub distinct: u64,
    /// The part of them that was asked for once.
    pub seen_once: f64,
    /// Requests, older ones counting less.
    pub requests: u64,
    /// The hottest, the hottest first.
    pub top: Vec<HotKey>,
    /// The part of the keys seen before and after the last change that went to another origin; `None`: there was no
    /// change, or no such key.
    pub moved: Option<f64>,
    /// The part of the keys that were last served elsewhere than by their owner, in the order of [`Away::ALL`].
    pub away: [f64; 5],
}

/// What became of keys that a change alone may have moved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// Keys looked at.
    pub keys: u64,
    /// The part of them that moved.
    pub moved: f64,
}

impl Observed {
    /// Fewer keys say nothing.
    const ENOUGH: u64 = 100;
    /// Of so many times its own deviation chance makes nothing, or once in a thousand.
    const CHANCE: f64 = 3.0;

    /// Is it more than this part, and more than the choice of these keys explains?
    pub fn is_above(&self, part: f64) -> bool {
        let deviation = (part * (1.0 - part) / self.keys as f64).sqrt();
        self.keys >= Self::ENOUGH && self.moved > part + Self::CHANCE * deviation
    }
}

/// A key of the sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its hash.
    pub hash: u32,
    /// Recent requests for it.
    pub requests: u64,
    /// Of one of them, unless it is very long.
    pub url: Option<Url>,
}

/// What a request asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Its host, normalised.
    pub host: Box<[u8]>,
    /// Path and query in origin form.
    pub target: Box<[u8]>,
}

impl Url {
    /// Bytes that are kept; a request with more is known by its hash alone.
    const MOST: usize = 512;

    /// Of a request, unless it is very long.
    pub fn of(host: &str, target: &[u8]) -> Option<Self> {
        let fits = host.len() + target.len() < Self::MOST;
        fits.then(|| Self { host: host.as_bytes().into(), target: target.into() })
    }
}

impl Sample {
    /// Nothing seen yet.
    pub fn new(now: Instant) -> Self {
        Self { began: now, parts: std::array::from_fn(|_| Mutex::default()) }
    }

    /// One request with a key; `url` is asked when the key is new. When another thread is just counting a key of the
    /// same part it goes uncounted.
    pub fn see(&self, sighting: &Sighting<'_>, now: Instant, url: impl FnOnce() -> Option<Url>) {
        let number = mixed(sighting.hash);
        let Some(part) = self.parts.get(number as usize >> (32 - PARTS.ilog2())) else { return };
        if let Some(mut part) = part.try_lock() {
            part.see(sighting, number, self.span(now), url);
        }
    }

    /// The pool is about to change: where keys went until now is what is compared with. When they are made in another
    /// way from now on, nothing is left to compare and all is forgotten.
    pub fn changes(&self, keys_stay: bool) {
        for part in &self.parts {
            match keys_stay {
                true => part.lock().changed(),
                false => *part.lock() = Part::default(),
            }
        }
    }

    /// What can be said of it.
    pub fn summary(&self, now: Instant) -> Summary {
        let mut counts = Counts::default();
        let (mut top, mut requests) = (Vec::new(), 0.0);
        for part in &self.parts {
            let mut part = part.lock();
            part.turn(self.span(now));
            requests += part.requests;
            top.extend(part.hot.keys());
            let weight = f64::from(part.left_out) + 1.0;
            part.keys.values().for_each(|entry| counts.add(entry, weight));
        }
        top.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.key.cmp(&b.key)));
        top.truncate(TOP);
        let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Summary {
            distinct: counts.keys.round() as u64,
            seen_once: of(counts.once, counts.keys),
            requests: requests.round() as u64,
            top,
            moved: (counts.compared > 0.0).then(|| counts.moved / counts.compared),
            away: counts.away.map(|away| of(away, counts.keys)),
        }
    }

    /// What the last change moved, as far as it can be told from what went elsewhere for another reason.
    pub fn observed(&self) -> Option<Observed> {
        let (mut keys, mut all, mut moved) = (0, 0.0, 0.0);
        for part in &self.parts {
            let part = part.lock();
            let weight = f64::from(part.left_out) + 1.0;
            for by_change in part.keys.values().filter_map(Entry::moved_by_change) {
                keys += 1;
                all += weight;
                moved += if by_change { weight } else { 0.0 };
            }
        }
        (keys > 0).then(|| Observed { keys, moved: moved / all })
    }

    /// The keys themselves, and of how many keys each is one.
    pub fn export(&self, now: Instant) -> (u64, Vec<Kept>) {
        let parts: Vec<_> = self.parts.iter().map(Mutex::lock).collect();
        // Equally thin everywhere, or the fuller parts would count less.
        let left_out = parts.iter().map(|part| part.left_out).max().unwrap_or(0);
        let mut kept = Vec::new();
        for mut part in parts {
            part.turn(self.span(now));
            let fair = part.keys.iter().filter(|(_, entry)| entry.number & left_out == 0);
            kept.extend(fair.map(|(hash, entry)| Kept {
                hash: *hash,
                requests: entry.requests(),
                url: entry.url.clone(),
            }));
        }
        (u64::from(left_out) + 1, kept)
    }

    fn span(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_secs() / SPAN.as_secs()
    }
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample").finish_non_exhaustive()
    }
}

/// Sums over all parts, each key with the weight of those it stands for.
#[derive(Default)]
struct Counts {
    keys: f64,
    once: f64,
    compared: f64,
    moved: f64,
    away: [f64; 5],
}

impl Counts {
    fn add(&mut self, entry: &Entry, weight: f64) {
        self.keys += weight;
        self.once += if entry.requests() == 1 { weight } else { 0.0 };
        if let Some(moved) = entry.moved() {
            self.compared += weight;
            self.moved += if moved { weight } else { 0.0 };
        }
        for (sum, (away, _)) in self.away.iter_mut().zip(Away::ALL) {
            *sum += if entry.away == Some(away) { weight } else { 0.0 };
        }
    }
}

/// The random number of a key. Not the one that decides which keys an origin with a part of its share takes: a sample
/// by that one would hold just those.
fn mixed(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x7feb_352d);
    hash ^= hash >> 15;
    hash = hash.wrapping_mul(0x846c_a68b);
    hash ^ (hash >> 16)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    struct Rig {
        sample: Sample,
        now: Instant,
        origins: [Arc<str>; 3],
    }

    fn rig() -> Rig {
        let now = Instant::now();
        Rig { sample: Sample::new(now), now, origins: ["a", "b", "c"].map(Arc::from) }
    }

    impl Rig {
        fn see(&self, key: u32, origin: usize, away: Option<Away>) {
            let text = format!("/obj/{key}");
            let hash = crc32fast::hash(text.as_bytes());
            let sighting = Sighting { hash, key: text.as_bytes(), origin: &self.origins[origin], away };
            self.sample.see(&sighting, self.now, || Url::of("h", text.as_bytes()));
        }

        fn summary(&self) -> Summary {
            self.sample.summary(self.now)
        }
    }

    #[test]
    fn few_keys_are_all_known_with_their_requests() {
        let rig = rig();
        (0..100).for_each(|key| rig.see(key, 0, None));
        (0..50).for_each(|key| rig.see(key, 0, None));
        let summary = rig.summary();
        assert_eq!((summary.distinct, summary.seen_once, summary.requests), (100, 0.5, 150));
        let (one_of, kept) = rig.sample.export(rig.now);
        assert_eq!((one_of, kept.len()), (1, 100));
        assert_eq!(kept.iter().map(|kept| kept.requests).sum::<u64>(), 150);
        let target = b"/obj/7".as_slice();
        let seven = kept.iter().find(|kept| kept.hash == crc32fast::hash(target)).unwrap();
        assert_eq!(seven.url, Some(Url { host: b"h".as_slice().into(), target: target.into() }));
    }

    #[test]
    fn of_many_keys_a_bounded_part_is_kept_and_the_rest_estimated() {
        let rig = rig();
        for key in 0..200_000 {
            rig.see(key, 0, None);
        }
        let summary = rig.summary();
        assert!((180_000..220_000).contains(&summary.distinct), "{}", summary.distinct);
        let (one_of, kept) = rig.sample.export(rig.now);
        assert!(kept.len() <= 16 * 1024 && kept.len() > 3000, "{}", kept.len());
        let whole = kept.len() as u64 * one_of;
        assert!((180_000..220_000).contains(&whole), "{whole}");
    }

    #[test]
    fn the_hottest_keys_are_told_in_order() {
        let rig = rig();
        for key in 0..5000 {
            rig.see(key, 0, None);
            rig.see(1_000_000 + key % 3, 0, None);
            if key % 2 == 0 {
                rig.see(2_000_000, 0, None);
            }
        }
        let summary = rig.summary();
        assert_eq!(summary.top.len(), 4, "nobody else came twice");
        assert_eq!(&*summary.top[0].key, b"/obj/2000000");
        let next: Vec<_> = summary.top[1..4].iter().map(|hot| String::from_utf8_lossy(&hot.key)).collect();
        assert!(next.iter().all(|key| key.starts_with("/obj/100000")), "{next:?}");
        assert!((2300..=2500).contains(&summary.top[0].requests), "{:?}", summary.top[0]);
    }

    #[test]
    fn after_a_change_what_moved_is_told_of_keys_seen_on_both_sides() {
        let rig = rig();
        (0..100).for_each(|key| rig.see(key, 0, None));
        assert_eq!(rig.summary().moved, None);
        rig.sample.changes(true);
        assert_eq!(rig.summary().moved, None, "not seen since");
        (0..20).for_each(|key| rig.see(key, 1, None));
        (20..80).for_each(|key| rig.see(key, 0, None));
        (500..600).for_each(|key| rig.see(key, 2, None));
        assert_eq!(rig.summary().moved, Some(0.25));
        (20..40).for_each(|key| rig.see(key, 2, None));
        assert_eq!(rig.summary().moved, Some(0.5), "a key counts where it is now");
        rig.sample.changes(true);
        (0..100).for_each(|key| rig.see(key, if key < 20 { 1 } else { 2 }, None));
        assert_eq!(rig.summary().moved, Some(0.6), "compared with the moment of the last change");
        rig.sample.changes(false);
        assert_eq!((rig.summary().distinct, rig.summary().moved), (0, None), "other keys");
    }

    #[test]
    fn c3_what_went_elsewhere_for_another_reason_than_the_change_is_not_observed() {
        let rig = rig();
        (0..100).for_each(|key| rig.see(key, 0, (key < 10).then_some(Away::Down)));
        assert_eq!(rig.sample.observed(), None, "no change");
        rig.sample.changes(true);
        (0..100).for_each(|key| rig.see(key, 0, (key >= 50).then_some(Away::Ramp)));
        assert_eq!(rig.sample.observed(), Some(Observed { keys: 90, moved: 0.0 }), "ten were away before");
        (10..40).for_each(|key| rig.see(key, 1, None));
        assert_eq!(rig.sample.observed(), Some(Observed { keys: 90, moved: 30.0 / 90.0 }));
        (10..20).for_each(|key| rig.see(key, 2, Some(Away::Down)));
        (40..45).for_each(|key| rig.see(key, 2, Some(Away::Spill)));
        assert_eq!(rig.sample.observed(), Some(Observed { keys: 75, moved: 20.0 / 75.0 }), "fifteen are away now");
    }

    #[test]
    fn c3_few_keys_and_what_chance_makes_of_them_say_nothing() {
        let above = |keys, moved: f64| Observed { keys, moved }.is_above(0.2);
        assert!(!above(99, 1.0) && above(100, 0.33) && !above(100, 0.31));
        assert!(above(10_000, 0.213) && !above(10_000, 0.211));
        assert!(Observed { keys: 100, moved: 0.01 }.is_above(0.0), "nothing may move");
    }

    #[test]
    fn keys_away_from_home_are_told_by_why() {
        let rig = rig();
        (0..100).for_each(|key| rig.see(key, 0, (key < 30).then_some(Away::Down)));
        (30..40).for_each(|key| rig.see(key, 0, Some(Away::Ramp)));
        (0..10).for_each(|key| rig.see(key, 0, None));
        assert_eq!(rig.summary().away, [0.2, 0.0, 0.1, 0.0, 0.0]);
    }

    #[test]
    fn what_was_not_seen_for_two_spans_is_forgotten() {
        let mut rig = rig();
        (0..100).for_each(|key| rig.see(key, 0, None));
        rig.now += SPAN;
        (0..10).for_each(|key| rig.see(key, 0, None));
        let summary = rig.summary();
        assert_eq!((summary.distinct, summary.requests), (100, 60));
        rig.now += SPAN;
        assert_eq!(rig.summary().distinct, 10);
        rig.now += SPAN * 5;
        let summary = rig.summary();
        assert_eq!((summary.distinct, summary.requests, summary.top.len()), (0, 0, 0));
    }

    #[test]
    fn a_url_that_is_very_long_is_known_by_its_hash_alone() {
        let rig = rig();
        let target = vec![b'x'; 4000];
        let sighting = Sighting { hash: 7, key: &target, origin: &rig.origins[0], away: None };
        rig.sample.see(&sighting, rig.now, || Url::of("h", &target));
        let (_, kept) = rig.sample.export(rig.now);
        assert_eq!(kept, [Kept { hash: 7, requests: 1, url: None }]);
    }
}
