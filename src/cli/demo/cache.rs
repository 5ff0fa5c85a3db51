//! What does an origin remember? The keys asked for last, up to a bound.
//!
//! Two generations instead of a list in order of use: what is asked for goes to the young one; when that is full it
//! becomes the old one, and what nobody asked for since is forgotten with the old one before it.

use std::collections::HashSet;
use std::mem;

/// A bounded set of keys.
#[derive(Debug)]
pub(super) struct Cache {
    young: HashSet<String>,
    old: HashSet<String>,
    /// What either generation holds at most.
    half: usize,
}

impl Cache {
    /// An empty one that holds the latest `least` keys, and never more than twice as many.
    pub(super) fn new(least: usize) -> Self {
        Self { young: HashSet::new(), old: HashSet::new(), half: least.max(1) }
    }

    /// Is this key remembered? If so it was used just now.
    pub(super) fn knows(&mut self, key: &str) -> bool {
        if self.young.contains(key) {
            return true;
        }
        let old = self.old.take(key);
        old.map(|key| self.add(key)).is_some()
    }

    /// Remembers a key.
    pub(super) fn add(&mut self, key: String) {
        if self.young.len() >= self.half {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key);
    }

    /// How many keys are remembered.
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_forgotten_in_time() {
        let mut cache = Cache::new(2);
        for key in ["a", "b", "c"] {
            assert!(!cache.knows(key));
            cache.add(key.to_owned());
        }
        assert!(cache.knows("a"), "used again, so young again");
        cache.add("d".to_owned());
        assert!(!cache.knows("b"), "two others came since");
        assert!(["a", "c", "d"].iter().all(|key| cache.knows(key)));
    }

    #[test]
    fn it_never_grows_beyond_its_bound() {
        let mut cache = Cache::new(5);
        for number in 0..100 {
            cache.add(number.to_string());
            assert!(cache.len() <= 10);
        }
        assert!((95..100).all(|number| cache.knows(&number.to_string())));
    }
}
