//! What is asked for? As many keys as wanted, drawn from a seed; few of them often, most of them seldom.
//!
//! Always holds: the same seed and number give the same keys, and the same number in the order of requests asks for the
//! same key. Every request has a `ts` argument of its own, as in the first incident; the key of the pool drops it.

use fastrand::Rng;

use super::talk::HOST;
use crate::balance;

/// The argument that differs with every request.
pub(super) const NOISE: &str = "ts";
/// How fast popularity falls: the n-th key is asked for in proportion to n to the power of minus this.
const FALL: f64 = 0.8;

/// All keys of a demo.
#[derive(Debug)]
pub(super) struct Keys {
    seed: u64,
    paths: Vec<String>,
    hashes: Vec<u32>,
    /// For each key the chance that it or one before it is asked for, times the last one.
    chances: Vec<f64>,
}

impl Keys {
    /// So many keys, all different.
    pub(super) fn new(seed: u64, number: usize) -> Self {
        let mut random = Rng::with_seed(seed);
        let paths: Vec<String> = (0..number).map(|at| format!("/obj/{at}-{:08x}", random.u32(..))).collect();
        let hashes = paths.iter().map(|path| balance::hash(format!("{HOST}{path}").as_bytes())).collect();
        let mut sum = 0.0;
        let mut chance = |at: usize| {
            sum += ((at + 1) as f64).powf(-FALL);
            sum
        };
        Self { seed, hashes, chances: (0..number).map(&mut chance).collect(), paths }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.paths.len()
    }

    /// Where each is on the hash circle.
    pub(super) fn hashes(&self) -> &[u32] {
        &self.hashes
    }

    /// The key of the `number`-th request.
    pub(super) fn drawn(&self, number: u64) -> usize {
        let mut random = Rng::with_seed(self.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let at = random.f64() * self.chances.last().copied().unwrap_or_default();
        self.chances.partition_point(|chance| *chance <= at).min(self.len().saturating_sub(1))
    }

    /// What the `number`-th request for this key asks for.
    pub(super) fn target(&self, key: usize, number: u64) -> String {
        format!("{}?{NOISE}={number}", self.paths.get(key).map_or("/", String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_keys_and_requests() {
        let (one, same, other) = (Keys::new(7, 100), Keys::new(7, 100), Keys::new(8, 100));
        assert_eq!(one.hashes(), same.hashes());
        assert_ne!(one.hashes(), other.hashes());
        let drawn = |keys: &Keys| (0..100).map(|number| keys.drawn(number)).collect::<Vec<_>>();
        assert_eq!(drawn(&one), drawn(&same));
        assert_ne!(drawn(&one), drawn(&other));
    }

    #[test]
    fn few_keys_are_asked_for_often_and_all_can_be() {
        let keys = Keys::new(1, 50);
        let mut asked = vec![0; 50];
        (0..20_000).for_each(|number| asked[keys.drawn(number)] += 1);
        assert!(asked[0] > 10 * asked[49], "{asked:?}");
        assert!(asked.iter().all(|times| *times > 0), "{asked:?}");
    }
}
