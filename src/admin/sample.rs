//! The recent keys of a pool as the control socket tells them, for `plan` to replay.
//!
//! Hosts and targets are bytes, and JSON holds text: each byte is told as the character of its number, so that nothing
//! is lost on the way.

use std::time::Instant;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::snapshot::Snapshot;

/// The samples that were asked for, by pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// By name.
    pub pools: IndexMap<String, PoolSample>,
}

/// The sample of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolSample {
    /// One of so many keys is here.
    pub one_of: u64,
    /// The part of the recent answers that came from the origins' caches; null when that is not known.
    pub hit_ratio: Option<f64>,
    /// The keys.
    pub keys: Vec<SampledKey>,
}

/// A key that was asked for lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampledKey {
    /// Its hash.
    pub hash: u32,
    /// Recent requests for it.
    pub requests: u64,
    /// Host and target of one of them; null when they are very long.
    pub url: Option<(String, String)>,
}

impl Sampled {
    /// Of this pool, or of all.
    pub fn of(snapshot: &Snapshot, pool: Option<&str>, now: Instant) -> Self {
        let wanted = snapshot.upstreams().iter().filter(|one| pool.is_none_or(|pool| *pool == *one.tail.name));
        let sample = |one: &crate::snapshot::Upstream| {
            let (one_of, kept) = one.tail.sample.export(now);
            let key = |kept: crate::observe::sample::Kept| SampledKey {
                hash: kept.hash,
                requests: kept.requests,
                url: kept.url.map(|url| (told(&url.host), told(&url.target))),
            };
            (
                one.tail.name.to_string(),
                PoolSample { one_of, hit_ratio: one.hit_ratio(now), keys: kept.into_iter().map(key).collect() },
            )
        };
        Self { pools: wanted.map(sample).collect() }
    }

    /// What to ask for the sample of this pool.
    pub fn target(pool: &str) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let written =
            pool.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") });
        format!("/sample?pool={}", written.collect::<String>())
    }
}

impl SampledKey {
    /// The bytes of host and target.
    pub fn url(&self) -> Option<[Vec<u8>; 2]> {
        let (host, target) = self.url.as_ref()?;
        Some([meant(host)?, meant(target)?])
    }
}

/// Bytes as the characters of their numbers.
fn told(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn meant(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|char| u8::try_from(char).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_through() {
        let all: Vec<u8> = (0..=255).collect();
        let key = SampledKey { hash: 1, requests: 2, url: Some((told(b"h"), told(&all))) };
        let text = serde_json::to_string(&key).unwrap();
        let back: SampledKey = serde_json::from_str(&text).unwrap();
        assert_eq!(back.url(), Some([b"h".to_vec(), all]));
    }
}
