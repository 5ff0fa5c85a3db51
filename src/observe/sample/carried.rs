//! What does a process tell the next one of a pool's recent keys? Those it has, thinned until they are few enough, the
//! hottest, and where each went before and after the last change.
//!
//! Keys are bytes, and are told as text of one letter for each, so that those in ASCII stay as they are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::hot::Counter;
use super::part::{Entry, KEYS, Part};
use super::{Away, PARTS, Sample, Url, mixed};

/// More was never counted.
const MOST: u64 = 1 << 48;

/// The keys of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Carried {
    /// Names that keys refer to by number.
    origins: Vec<String>,
    keys: Vec<Key>,
    hot: Vec<Hot>,
    /// Of each part: bits left out, and requests.
    parts: Vec<(u32, f64)>,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Key {
    #[serde(rename = "h")]
    hash: u32,
    #[serde(rename = "n")]
    seen: [u32; 2],
    #[serde(rename = "o")]
    origin: usize,
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    before: Option<usize>,
    #[serde(rename = "w", default, skip_serializing_if = "std::ops::Not::not")]
    was_home: bool,
    #[serde(rename = "c", default, skip_serializing_if = "std::ops::Not::not")]
    since_change: bool,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    away: Option<Away>,
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    url: Option<(String, String)>,
}

/// A counter of the hottest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Hot {
    hash: u32,
    count: u64,
    error: u64,
    text: Option<String>,
}

/// The numbers of names.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    numbers: HashMap<Arc<str>, usize>,
}

impl Names {
    fn number(&mut self, name: &Arc<str>) -> usize {
        *self.numbers.entry(Arc::clone(name)).or_insert_with(|| {
            self.names.push(name.to_string());
            self.names.len() - 1
        })
    }
}

impl Sample {
    /// What is known, of so many keys at most.
    pub fn tell(&self, keys: usize, now: Instant) -> Carried {
        let (mut told, mut names) = (Carried::default(), Names::default());
        for part in &self.parts {
            let mut part = part.lock();
            part.turn(self.span(now));
            let left_out = part.thinned_to(keys / PARTS);
            told.parts.push((left_out, part.requests));
            let kept = part.keys.iter().filter(|(_, entry)| entry.number & left_out == 0);
            told.keys.extend(kept.map(|(hash, entry)| Key::of(*hash, entry, &mut names)));
            told.hot.extend(part.hot.counters().map(Hot::of));
        }
        told.origins = names.names;
        told
    }

    /// This is known, and nothing else.
    pub fn hear(&self, told: &Carried, now: Instant) {
        let origins: Vec<Arc<str>> = told.origins.iter().map(|name| Arc::from(&**name)).collect();
        let mut parts: [Part; PARTS] = std::array::from_fn(|number| {
            let (left_out, requests) = told.parts.get(number).copied().unwrap_or_default();
            let is_mask = left_out & left_out.wrapping_add(1) == 0;
            Part::begin(if is_mask { left_out } else { 0 }, requests.clamp(0.0, MOST as f64), self.span(now))
        });
        let place = |hash: u32| mixed(hash) as usize >> (32 - PARTS.ilog2());
        for key in &told.keys {
            let (Some(part), Some(entry)) = (parts.get_mut(place(key.hash)), key.entry(&origins)) else { continue };
            if part.keys.len() < KEYS {
                part.keys.insert(key.hash, entry);
            }
        }
        for hot in &told.hot {
            parts.get_mut(place(hot.hash)).into_iter().for_each(|part| part.hot.take(hot.counter()));
        }
        self.parts.iter().zip(parts).for_each(|(here, part)| *here.lock() = part);
    }
}

impl Key {
    fn of(hash: u32, entry: &Entry, names: &mut Names) -> Self {
        Self {
            hash,
            seen: entry.seen,
            origin: names.number(&entry.origin),
            before: entry.before.as_ref().map(|before| names.number(before)),
            was_home: entry.was_home,
            since_change: entry.since_change,
            away: entry.away,
            url: entry.url.as_ref().map(|url| (text(&url.host), text(&url.target))),
        }
    }

    fn entry(&self, origins: &[Arc<str>]) -> Option<Entry> {
        let url = |(host, target): &(String, String)| Url { host: bytes(host), target: bytes(target) };
        Some(Entry {
            url: self.url.as_ref().map(url),
            number: mixed(self.hash),
            seen: self.seen,
            before: self.before.and_then(|before| origins.get(before)).map(Arc::clone),
            was_home: self.was_home,
            origin: Arc::clone(origins.get(self.origin)?),
            since_change: self.since_change,
            away: self.away,
        })
    }
}

impl Hot {
    fn of(counter: &Counter) -> Self {
        let Counter { hash, count, error, .. } = *counter;
        Self { hash, count, error, text: counter.text.as_deref().map(text) }
    }

    fn counter(&self) -> Counter {
        let (count, error) = (self.count.min(MOST), self.error.min(MOST));
        Counter { hash: self.hash, count, error, text: self.text.as_deref().map(bytes) }
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn bytes(text: &str) -> Box<[u8]> {
    text.chars().map(|letter| u8::try_from(letter).unwrap_or(b'?')).collect()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::observe::sample::Sighting;

    fn see(sample: &Sample, keys: std::ops::Range<u32>, origin: &Arc<str>, now: Instant) {
        for key in keys {
            let key = [b"/obj/\xff".as_slice(), key.to_string().as_bytes()].concat();
            let sighting = Sighting { hash: crc32fast::hash(&key), key: &key, origin, away: Some(Away::Ramp) };
            sample.see(&sighting, now, || Url::of("h.example", &key));
        }
    }

    fn elsewhere(sample: &Sample, keys: usize, here: Instant, there: Instant) -> Sample {
        let told = serde_json::to_string(&sample.tell(keys, here)).unwrap();
        let other = Sample::new(there);
        other.hear(&serde_json::from_str(&told).unwrap(), there);
        other
    }

    #[test]
    fn another_process_knows_the_same_keys_and_where_they_went() {
        let (now, there) = (Instant::now(), Instant::now() + Duration::from_secs(100_000));
        let (sample, [a, b]) = (Sample::new(now), ["a", "b"].map(Arc::from));
        see(&sample, 0..100, &a, now);
        sample.changes(true);
        see(&sample, 0..60, &a, now);
        see(&sample, 60..90, &b, now);
        (0..50).for_each(|_| see(&sample, 7..8, &a, now));
        let other = elsewhere(&sample, 4096, now, there);
        assert_eq!(other.summary(there), sample.summary(now));
        assert_eq!(other.summary(there).moved, Some(30.0 / 90.0));
        let sorted = |sample: &Sample, now| {
            let (one_of, mut keys) = sample.export(now);
            keys.sort_by_key(|key| key.hash);
            (one_of, keys)
        };
        assert_eq!(sorted(&other, there), sorted(&sample, now));
        see(&sample, 90..100, &b, now);
        see(&other, 90..100, &b, there);
        assert_eq!(other.summary(there), sample.summary(now), "and goes on");
        assert_eq!(other.summary(there + 3 * super::super::SPAN).distinct, 0);
    }

    #[test]
    fn c3_another_process_observes_what_the_last_change_moved() {
        let (now, sample, [a, b]) = (Instant::now(), Sample::new(Instant::now()), ["a", "b"].map(Arc::from));
        let see = |key: u32, origin| {
            let sighting = Sighting { hash: key, key: b"k", origin, away: None };
            sample.see(&sighting, now, || None);
        };
        (0..100).for_each(|key| see(key, &a));
        sample.changes(true);
        (0..100).for_each(|key| see(key, if key < 40 { &b } else { &a }));
        let observed = elsewhere(&sample, 4096, now, now).observed();
        assert_eq!(observed.map(|observed| (observed.keys, observed.moved)), Some((100, 0.4)));
    }

    #[test]
    fn of_many_keys_no_more_are_told_than_may_be_and_they_stand_for_all() {
        let now = Instant::now();
        let (sample, origin) = (Sample::new(now), Arc::from("a"));
        see(&sample, 0..100_000, &origin, now);
        let told = sample.tell(1600, now);
        assert!((400..=1600).contains(&told.keys.len()), "{}", told.keys.len());
        let distinct = elsewhere(&sample, 1600, now, now).summary(now).distinct;
        assert!((80_000..120_000).contains(&distinct), "{distinct}");
        assert!(elsewhere(&sample, 0, now, now).summary(now).distinct < 100_000);
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        let now = Instant::now();
        let text = r#"{"origins":["a"],"keys":[{"h":1,"n":[4294967295,4294967295],"o":7},{"h":2,"n":[4294967295,1],"o":0,"b":9}],
            "hot":[{"hash":1,"count":18446744073709551615,"error":1,"text":"€"}],"parts":[[6,1e300],[4294967295,-1.0]]}"#;
        let sample = Sample::new(now);
        sample.hear(&serde_json::from_str(text).unwrap(), now);
        see(&sample, 0..100, &Arc::from("a"), now);
        let _ = (sample.summary(now), sample.export(now), sample.tell(10, now));
        assert!(sample.summary(now).distinct > 90);
    }
}
