//! Which of several pools does a key belong to, by shares that may change? Weighted rendezvous: each pool draws a time for the
//! key, the shorter on average the greater its share, and the first one has it.
//!
//! A pool's draw hangs on the key and its own name alone. So the order written makes no difference, nor does history, and a key
//! goes to another pool only if the share of that one grew beside the share of its own. Between two pools exactly the
//! difference moves. With more it does whenever one grows or shrinks and the others keep their proportions; any other
//! change moves at most 2d / (1 + d) where d is the least possible, and no rule without memory can promise less
//! (Bavarian et al., "Optimality of correlated sampling strategies"). Ranges one after the other, which move a key for every border that is
//! passed, promise nothing better than the number of pools times d.
//!
//! The hash is none of a ring's: who gets a share says nothing about the origin it goes to.

/// Pools with their shares.
#[derive(Debug)]
pub struct Split(Vec<Target>);

#[derive(Debug)]
struct Target {
    /// What sets the draws of one pool apart from those of the others.
    seed: u64,
    /// 0: it has no key.
    share: f64,
}

/// Numbers that 53 bits can be: what is drawn is as exact as can be told.
const DRAWS: f64 = 9_007_199_254_740_992.0;

impl Split {
    /// Of pools by name, with shares of which only the proportions count.
    pub fn new<'n>(shares: impl IntoIterator<Item = (&'n str, f64)>) -> Self {
        let target = |(name, share): (&str, f64)| Target { seed: mixed(folded(name.as_bytes())), share };
        Self(shares.into_iter().map(target).collect())
    }

    /// The pool of a key, by its position; `None`: nobody has a share.
    pub fn choose(&self, key: &[u8]) -> Option<usize> {
        let key = folded(key);
        let sharing = self.0.iter().enumerate().filter(|(_, target)| target.share > 0.0);
        let draws = sharing.map(|(position, target)| (position, target.draw(key)));
        draws.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(position, _)| position)
    }
}

impl Target {
    /// When its turn comes: exponential, at the rate of its share.
    fn draw(&self, key: u64) -> f64 {
        // Above 0 and below 1: neither end has a logarithm to compare.
        let even = ((mixed(key ^ self.seed) >> 11) as f64 + 0.5) / DRAWS;
        -even.ln() / self.share
    }
}

/// FNV-1a.
fn folded(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of splitmix64: every bit of its result hangs on every bit.
fn mixed(hash: u64) -> u64 {
    let hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: usize = 100_000;
    const NAMES: [&str; 5] = ["gray", "stable", "blue", "canary-2", "p"];

    fn key(n: usize) -> String {
        format!("192.0.{}.{}Mozilla/5.0 ({n})", n >> 8 & 255, n & 255)
    }

    /// Where each key goes, by name.
    fn placed(shares: &[(&'static str, f64)]) -> Vec<&'static str> {
        let split = Split::new(shares.iter().copied());
        (0..KEYS).map(|n| shares[split.choose(key(n).as_bytes()).unwrap()].0).collect()
    }

    /// The part of all keys that passes, in points.
    fn points(count: usize) -> f64 {
        count as f64 * 100.0 / KEYS as f64
    }

    /// Keys that go elsewhere, from where to where.
    fn moves(before: &[(&'static str, f64)], after: &[(&'static str, f64)]) -> Vec<(&'static str, &'static str)> {
        placed(before).into_iter().zip(placed(after)).filter(|(before, after)| before != after).collect()
    }

    #[test]
    fn keys_are_shared_out_within_a_point() {
        for shares in [
            &[("gray", 5.0), ("stable", 95.0)][..],
            &[("gray", 0.5), ("stable", 99.5)],
            &[("gray", 50.0), ("stable", 50.0)],
            &[("gray", 1.0), ("blue", 33.0), ("p", 16.0), ("stable", 50.0)],
        ] {
            let placed = placed(shares);
            for (name, share) in shares {
                let found = points(placed.iter().filter(|placed| *placed == name).count());
                assert!((found - share).abs() < (0.05 * share).clamp(0.1, 0.5), "{name}: {found} of {share}");
            }
        }
        let none = [("gray", 0.0), ("stable", 100.0)];
        assert!(placed(&none).iter().all(|name| *name == "stable"));
        assert_eq!(Split::new([("gray", 0.0)]).choose(b"x"), None);
    }

    #[test]
    fn between_two_pools_exactly_the_difference_moves_one_way() {
        for (from, to) in [(5.0, 10.0), (0.0, 1.0), (10.0, 50.0), (50.0, 100.0), (99.5, 100.0)] {
            let shares = |gray: f64| [("gray", gray), ("stable", 100.0 - gray)];
            let moved = moves(&shares(from), &shares(to));
            assert!(moved.iter().all(|(before, after)| (*before, *after) == ("stable", "gray")));
            assert!((points(moved.len()) - (to - from)).abs() < 0.5, "{from} to {to}: {}", points(moved.len()));
        }
    }

    #[test]
    fn with_three_pools_a_canary_that_grows_takes_what_it_grows_by() {
        let before = [("gray", 5.0), ("blue", 5.0), ("stable", 90.0)];
        let moved = moves(&before, &[("gray", 10.0), ("blue", 5.0), ("stable", 85.0)]);
        assert!((points(moved.len()) - 5.0).abs() < 1.0, "{}", points(moved.len()));
        // The others keep their proportions: not one key goes between them.
        let moved = moves(&before, &[("gray", 24.0), ("blue", 4.0), ("stable", 72.0)]);
        assert!(moved.iter().all(|(_, after)| *after == "gray"), "only to the one that grew");
        assert!((points(moved.len()) - 19.0).abs() < 0.5, "{}", points(moved.len()));
    }

    #[test]
    fn order_makes_no_difference() {
        let shares = [("gray", 5.0), ("blue", 35.0), ("stable", 60.0)];
        let other = [shares[2], shares[0], shares[1]];
        assert_eq!(placed(&shares), placed(&other));
    }

    /// Of the keys that a canary gets, each part of a ring has as many as of all keys.
    #[test]
    fn who_gets_a_share_says_nothing_about_the_place_on_a_ring() {
        let split = Split::new([("gray", 10.0), ("stable", 90.0)]);
        let mut parts = [0_usize; 8];
        for n in 0..KEYS {
            if split.choose(key(n).as_bytes()) == Some(0) {
                parts[(crc32fast::hash(key(n).as_bytes()) >> 29) as usize] += 1;
            }
        }
        let even = parts.iter().sum::<usize>() / parts.len();
        assert!(parts.iter().all(|part| part.abs_diff(even) < even / 5), "{parts:?}");
    }

    mod properties {
        use proptest::prelude::*;

        use super::*;

        /// Shares of two to five pools, not all of them 0.
        fn shares(count: usize) -> impl Strategy<Value = Vec<f64>> {
            let some = |shares: &Vec<u32>| shares.iter().any(|share| *share > 0);
            let whole = |shares: Vec<u32>| {
                let sum = f64::from(shares.iter().sum::<u32>());
                shares.iter().map(|share| f64::from(*share) * 100.0 / sum).collect()
            };
            proptest::collection::vec(0_u32..20, count).prop_filter("somebody has a share", some).prop_map(whole)
        }

        proptest! {
            #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

            #[test]
            fn whatever_changes_little_more_than_the_difference_moves(
                (before, after) in (2_usize..=5).prop_flat_map(|count| (shares(count), shares(count)))
            ) {
                let named = |shares: &[f64]| NAMES.into_iter().zip(shares.iter().copied()).collect::<Vec<_>>();
                let least = before.iter().zip(&after).map(|(b, a)| (b - a).abs()).sum::<f64>() / 2.0;
                let moved = moves(&named(&before), &named(&after));
                let share = |shares: &[f64], name: &str| NAMES.iter().zip(shares).find(|(n, _)| **n == name).map_or(0.0, |(_, s)| *s);
                let grew = |name: &str| share(&after, name) / share(&before, name);
                // No key goes where less came than where it was, however little.
                prop_assert!(moved.iter().all(|(from, to)| grew(to) > grew(from) * 0.999_999));
                let most = if before.len() == 2 { least } else { 2.0 * least / (1.0 + least / 100.0) };
                prop_assert!((least - 1.0..most + 1.0).contains(&points(moved.len())), "{} moved, least {least}", points(moved.len()));
            }
        }
    }
}
