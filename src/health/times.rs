//! How long did answers take? Counts by length: lengths are told apart within 7 %, counts can be added up, and an origin
//! without traffic costs nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets in all: eight for each doubling, from a microsecond to more than an hour.
pub(super) const BUCKETS: usize = 256;
/// Bits of a length that tell it apart from others of its doubling.
const BITS: u32 = 3;

/// Counts by length, the few that there are, sorted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Times(Vec<(u8, u32)>);

impl Times {
    /// Sorted and each bucket once, whatever was read.
    pub(super) fn sound(mut self) -> Self {
        self.0.sort_unstable();
        self.0.dedup_by_key(|(bucket, _)| *bucket);
        self
    }

    pub(super) fn record(&mut self, took: Duration) {
        let bucket = bucket(took);
        match self.0.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.0.get_mut(at).into_iter().for_each(|(_, count)| *count = count.saturating_add(1)),
            Err(at) => self.0.insert(at, (bucket, 1)),
        }
    }

    /// Each bucket with its count.
    pub(super) fn counts(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.0.iter().map(|(bucket, count)| (usize::from(*bucket), u64::from(*count)))
    }
}

fn bucket(took: Duration) -> u8 {
    let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1 << BITS);
    let doubling = micros.ilog2();
    let part = (micros >> (doubling - BITS)) & ((1 << BITS) - 1);
    (doubling << BITS | part) as u8
}

/// The middle of a bucket.
pub(super) fn middle(bucket: usize) -> Duration {
    let (doubling, part) = ((bucket >> BITS) as u32, (bucket & ((1 << BITS) - 1)) as u64);
    let width = 1_u64 << doubling.max(BITS).saturating_sub(BITS);
    Duration::from_micros(width * ((1 << BITS) + part) + width / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_near_the_middle_of_its_bucket() {
        for micros in (8..100_000_u64).chain([1_000_000, 59_999_999, 3_600_000_000]) {
            let middle = middle(usize::from(bucket(Duration::from_micros(micros)))).as_micros() as f64;
            assert!((middle / micros as f64 - 1.0).abs() <= 0.07, "{micros} in {middle}");
        }
    }

    #[test]
    fn what_is_too_short_or_too_long_has_a_bucket_too() {
        assert_eq!(bucket(Duration::ZERO), bucket(Duration::from_micros(8)));
        assert_eq!(usize::from(bucket(Duration::MAX)), BUCKETS - 1);
    }

    #[test]
    fn equal_lengths_are_one_count() {
        let mut times = Times::default();
        [10, 500, 10, 10].into_iter().for_each(|ms| times.record(Duration::from_millis(ms)));
        assert_eq!(times.counts().map(|(_, count)| count).collect::<Vec<_>>(), [3, 1]);
    }
}
