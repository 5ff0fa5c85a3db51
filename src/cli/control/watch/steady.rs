//! Whose share was the same for as long as what it served is counted? Only then the two can be held against each other.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::facts::{Facts, Origin, Pool};

/// What an origin served is counted over so long.
const MINUTE: Duration = Duration::from_secs(60);
/// A share that differs by less is the same.
const SAME: f64 = 0.02;

/// Since when each share is what it is.
#[derive(Debug, Default)]
pub(super) struct Steady {
    shares: HashMap<(String, String), Kept>,
}

#[derive(Debug, Clone, Copy)]
struct Kept {
    share: f64,
    since: Instant,
    is_steady: bool,
}

impl Steady {
    /// What is told now.
    pub(super) fn note(&mut self, facts: &Facts, now: Instant) {
        let mut next = HashMap::new();
        for (pool, told) in &facts.pools {
            for (name, origin) in &told.origins {
                let key = (pool.0.clone(), name.0.clone());
                let before = self.shares.get(&key).filter(|kept| (kept.share - origin.share).abs() < SAME);
                let (share, since) = before.map_or((origin.share, now), |kept| (kept.share, kept.since));
                let is_steady = now.saturating_duration_since(since) > MINUTE;
                next.insert(key, Kept { share, since, is_steady });
            }
        }
        self.shares = next;
    }

    /// Does it serve ten points more or less than its share, with enough requests on enough keys to tell?
    pub(super) fn is_off(&self, name: &str, pool: &Pool, own: &str, origin: &Origin) -> bool {
        let off = origin.served.is_some_and(|served| (served - origin.share).abs() >= 0.1);
        let enough = pool.key.is_some()
            && pool.rate * MINUTE.as_secs_f64() >= 300.0
            && pool.keys.distinct >= 100 * pool.origins.len() as u64;
        let is_steady = |key: &(String, String)| self.shares.get(key).is_some_and(|kept| kept.is_steady);
        off && enough && is_steady(&(name.to_owned(), own.to_owned()))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts(share: f64) -> Facts {
        let origins = json!({ "a": { "share": share, "served": 0.7 }, "b": { "share": 1.0 - share, "served": 0.3 } });
        let pool = json!({ "key": "{path}", "rate": 50.0, "keys": { "distinct": 500 }, "origins": origins });
        serde_json::from_value(json!({ "pools": { "p": pool } })).unwrap()
    }

    fn is_off(steady: &Steady, name: &str, facts: &Facts) -> bool {
        steady.is_off(name, &facts.pools[0], "a", &facts.pools[0].origins[0])
    }

    #[test]
    fn an_origin_is_off_when_its_share_stood_for_a_minute() {
        let (mut steady, start) = (Steady::default(), Instant::now());
        for (after, share, off) in
            [(0, 0.5, false), (59, 0.5, false), (61, 0.51, true), (62, 0.4, false), (130, 0.4, true)]
        {
            let facts = facts(share);
            steady.note(&facts, start + Duration::from_secs(after));
            assert_eq!(is_off(&steady, "p", &facts), off, "{after}");
        }
        assert!(!is_off(&steady, "q", &facts(0.4)), "another pool");
    }

    #[test]
    fn few_keys_tell_nothing() {
        let (mut steady, start) = (Steady::default(), Instant::now());
        let mut facts = facts(0.4);
        facts.pools[0].keys.distinct = 199;
        steady.note(&facts, start);
        steady.note(&facts, start + Duration::from_secs(61));
        assert!(!is_off(&steady, "p", &facts));
    }
}
