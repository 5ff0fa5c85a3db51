//! Which keys are asked for most? A sketch of a few counters, by the space-saving rule.
//!
//! A key without a counter takes over the smallest one together with its count, which is from then on the most that the
//! new key's own count may be too great by. Always holds: a key that makes up more than one in [`COUNTERS`] of the
//! requests has a counter. Keys are told apart by a hash; the text of one that took over is kept from the second time
//! it is seen, so that keys nobody repeats cost no allocation.

/// Counters of one sketch.
pub(super) const COUNTERS: usize = 16;

/// Bytes of a key that are kept for showing it.
const TEXT: usize = 256;

/// The sketch.
#[derive(Debug, Default)]
pub(super) struct Hot(Vec<Counter>);

#[derive(Debug)]
pub(super) struct Counter {
    pub(super) hash: u32,
    pub(super) count: u64,
    /// So much of the count may be another key's.
    pub(super) error: u64,
    pub(super) text: Option<Box<[u8]>>,
}

/// A key that is asked for often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotKey {
    /// The key; of a long one its first 256 bytes.
    pub key: Box<[u8]>,
    /// Its place on the circle.
    pub hash: u32,
    /// Recent requests for it, those of five minutes ago and more counted half, a quarter and so on.
    pub requests: u64,
}

impl Hot {
    /// One request for this key.
    pub(super) fn see(&mut self, hash: u32, key: &[u8]) {
        let counters = &mut self.0;
        if let Some(counter) = counters.iter_mut().find(|counter| counter.hash == hash) {
            counter.count += 1;
            counter.text.get_or_insert_with(|| text(key));
        } else if counters.len() < COUNTERS {
            counters.push(Counter { hash, count: 1, error: 0, text: Some(text(key)) });
        } else if let Some(least) = counters.iter_mut().min_by_key(|counter| counter.count) {
            *least = Counter { hash, count: least.count + 1, error: least.count, text: None };
        }
    }

    /// Every counter.
    pub(super) fn counters(&self) -> impl Iterator<Item = &Counter> {
        self.0.iter()
    }

    /// One more counter, if there is room and its key has none yet.
    pub(super) fn take(&mut self, counter: Counter) {
        if self.0.len() < COUNTERS && self.0.iter().all(|one| one.hash != counter.hash) {
            self.0.push(counter);
        }
    }

    /// Time has passed: what was counted so far weighs half.
    pub(super) fn halve(&mut self) {
        for counter in &mut self.0 {
            counter.count /= 2;
            counter.error /= 2;
        }
        self.0.retain(|counter| counter.count > 0);
    }

    /// Every key that has a counter of its own, with the requests that are surely its own.
    pub(super) fn keys(&self) -> impl Iterator<Item = HotKey> + '_ {
        self.0.iter().filter_map(|counter| {
            let requests = counter.count.saturating_sub(counter.error);
            Some(HotKey { key: counter.text.clone()?, hash: counter.hash, requests })
        })
    }
}

fn text(key: &[u8]) -> Box<[u8]> {
    key.get(..TEXT).unwrap_or(key).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top(hot: &Hot) -> Vec<(u32, u64)> {
        let mut keys: Vec<_> = hot.keys().map(|key| (key.hash, key.requests)).collect();
        keys.sort_by_key(|(hash, requests)| (std::cmp::Reverse(*requests), *hash));
        keys
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut hot = Hot::default();
        for (hash, times) in [(1, 5), (2, 3), (3, 1)] {
            (0..times).for_each(|_| hot.see(hash, b"k"));
        }
        assert_eq!(top(&hot), [(1, 5), (2, 3), (3, 1)]);
        hot.halve();
        assert_eq!(top(&hot), [(1, 2), (2, 1)]);
    }

    #[test]
    fn a_hot_key_is_found_among_thousands_that_are_not() {
        let mut hot = Hot::default();
        for n in 0..20_000_u32 {
            hot.see(if n % 8 == 0 { 7 } else { 1000 + n }, b"k");
        }
        let (hash, requests) = top(&hot)[0];
        assert_eq!(hash, 7);
        assert!((1000..=2500).contains(&requests), "{requests} of 2500 that are surely its own");
        assert!(hot.0.len() <= COUNTERS);
    }

    #[test]
    fn a_key_that_took_over_is_shown_from_its_second_time_on() {
        let mut hot = Hot::default();
        (0..COUNTERS as u32).for_each(|hash| hot.see(hash, b"old"));
        hot.see(99, b"new");
        assert!(!hot.keys().any(|key| key.hash == 99));
        hot.see(99, b"new");
        let key = hot.keys().find(|key| key.hash == 99).unwrap();
        assert_eq!((&*key.key, key.requests), (&b"new"[..], 2));
    }

    #[test]
    fn of_a_long_key_the_beginning_is_shown() {
        let mut hot = Hot::default();
        hot.see(1, &[b'x'; 1000]);
        assert_eq!(hot.keys().next().unwrap().key.len(), 256);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whoever_makes_up_a_sixteenth_is_there_and_never_overcounted(
            seen in proptest::collection::vec(0_u32..40, 1..400),
        ) {
            let mut hot = Hot::default();
            seen.iter().for_each(|hash| hot.see(*hash, b"k"));
            for hash in 0..40 {
                let count = seen.iter().filter(|one| **one == hash).count() as u64;
                let counter = hot.0.iter().find(|counter| counter.hash == hash);
                prop_assert!(counter.is_some() || count <= (seen.len() / COUNTERS) as u64);
                if let Some(counter) = counter {
                    prop_assert!(counter.count >= count && counter.count - counter.error <= count);
                }
            }
        }
    }
}
