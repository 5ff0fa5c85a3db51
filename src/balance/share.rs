//! How much of its share may an origin take now, and is this key in that part? Rule R2.
//!
//! Every key has a number [`u`] in [0, 1), the same for every origin, and an origin that may take the part `f` of its
//! share takes the keys with `u < f`. So shares follow `f` exactly, a key that moved to a growing origin never moves
//! back, and what one origin sheds never lands on another that is equally low. The ring itself is never changed.

use super::ring::Ring;

/// All of a share: above every number that [`fmix32`] gives.
const WHOLE: u64 = 1 << 32;

/// A number in [0, 1) that depends on the key alone, the same for every origin.
pub fn u(hash: u32) -> f64 {
    f64::from(fmix32(hash)) / WHOLE as f64
}

/// The finaliser of murmur3: every bit of the input changes every bit of the result, so that `u` says nothing
/// about where on the circle a key is.
fn fmix32(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ (h >> 16)
}

/// The part of its share an origin may take, from none to all: the `f` of rule R2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u64);

impl Factor {
    /// All of its share.
    pub const FULL: Self = Self(WHOLE);
    /// None of it.
    pub const NONE: Self = Self(0);

    /// This part; below 0, or no number, is none, above 1 all.
    pub fn new(part: f64) -> Self {
        // A cast saturates, and takes what is no number for 0.
        Self(((part * WHOLE as f64) as u64).min(WHOLE))
    }

    /// Does it take the key with this hash?
    pub fn takes(self, hash: u32) -> bool {
        u64::from(fmix32(hash)) < self.0
    }

    /// This part of that part.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        Self(((u128::from(self.0) * u128::from(other.0)) >> 32) as u64)
    }

    /// Is it all of the share?
    pub fn is_full(self) -> bool {
        self.0 >= WHOLE
    }

    /// Is it none of the share?
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The part as a number from 0 to 1.
    pub fn part(self) -> f64 {
        self.0 as f64 / WHOLE as f64
    }

    /// For an atomic.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Out of an atomic.
    pub fn from_bits(bits: u64) -> Self {
        Self(bits.min(WHOLE))
    }
}

/// The points a member had before its weight was raised: a factor of its growth applies to the others alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base(Box<[u32]>);

impl Base {
    /// Those of `member` with its former `weight`, as far as they are its own on the `ring`.
    pub fn new(ring: &Ring, member: usize, weight: u32) -> Self {
        Self(ring.first_points(member, weight).into())
    }

    /// Is this one of its points?
    pub fn holds(&self, point: u32) -> bool {
        self.0.binary_search(&point).is_ok()
    }

    /// The first of them at or after the hash, wrapping.
    pub fn point_after(&self, hash: u32) -> Option<u32> {
        let at = self.0.partition_point(|point| *point < hash);
        self.0.get(at).or(self.0.first()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash;
    use super::*;

    #[test]
    fn u_has_its_published_values() {
        assert_eq!(fmix32(1), 0x514e_28b7);
        assert_eq!(format!("{:.6}", u(hash(b"/obj/0"))), "0.072554");
        assert_eq!(format!("{:.6}", u(hash(b"/obj/1"))), "0.476650");
    }

    #[test]
    fn u_is_below_one_for_every_hash() {
        assert!([0, 1, u32::MAX, 0x8000_0000].into_iter().all(|h| (0.0..1.0).contains(&u(h))));
    }

    #[test]
    fn base_of_a_raised_weight_is_the_ring_with_the_weight_before() {
        let (before, after) = (Ring::new(&[("a:1", 2), ("b:1", 1)]), Ring::new(&[("a:1", 5), ("b:1", 1)]));
        let base = Base::new(&after, 0, 2);
        assert_eq!(base.0.len(), before.points_of(0));
        assert!(before.points().all(|(point, member)| base.holds(point) == (member == 0)));
        assert!(before.points().filter(|(_, member)| *member == 0).all(|(p, _)| base.point_after(p) == Some(p)));
        assert_eq!(base.point_after(u32::MAX), base.0.first().copied(), "it wraps");
    }

    #[test]
    fn full_takes_everything_and_none_nothing() {
        let hashes = || (0..1000_u32).map(|n| n.wrapping_mul(0x9e37_79b9)).chain([0, u32::MAX]);
        assert!(hashes().all(|hash| Factor::FULL.takes(hash) && !Factor::NONE.takes(hash)));
        assert_eq!([Factor::new(1.0), Factor::new(7.0)], [Factor::FULL; 2]);
        assert_eq!([Factor::new(0.0), Factor::new(-1.0), Factor::new(f64::NAN)], [Factor::NONE; 3]);
        assert_eq!(Factor::FULL.times(Factor::FULL), Factor::FULL);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_key_is_taken_when_its_u_is_below(part in 0.0..=1.0, hash in any::<u32>()) {
            prop_assert_eq!(Factor::new(part).takes(hash), u(hash) < (part * WHOLE as f64).floor() / WHOLE as f64);
        }

        #[test]
        fn whoever_takes_a_key_takes_it_for_ever_while_growing(less in 0.0..=1.0, more in 0.0..=1.0, hash in any::<u32>()) {
            prop_assume!(less <= more);
            prop_assert!(!Factor::new(less).takes(hash) || Factor::new(more).takes(hash));
        }

        #[test]
        fn parts_multiply_and_survive_an_atomic(one in 0.0..=1.0, other in 0.0..=1.0) {
            let product = Factor::new(one).times(Factor::new(other));
            prop_assert!((product.part() - one * other).abs() < 1e-8);
            prop_assert_eq!(product, Factor::new(other).times(Factor::new(one)));
            prop_assert_eq!(Factor::from_bits(product.to_bits()), product);
            prop_assert!(product <= Factor::new(one) && product <= Factor::new(other));
        }
    }
}
