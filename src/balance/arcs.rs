//! Which part of the hash circle does a change move? To be asked for one hash at a time, on the way of a request.
//!
//! The circle cut where the answer changes, and nothing else: a lookup is one binary search, and neither ring has to be
//! kept for it.

use super::moved::each_stretch;
use super::ring::Ring;

/// The arcs whose owner differs between two rings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arcs {
    /// Does the first arc move?
    first: bool,
    /// The last hash of every arc but the last one; each moves if the one before it stays.
    ends: Vec<u32>,
}

impl Arcs {
    /// What moves from the ring `before` a change to the one `after` it; nothing moves from or to a ring without points.
    pub fn between(before: &Ring, after: &Ring) -> Self {
        let name = |ring: &Ring, member: usize| ring.name(member).map(str::to_owned);
        let names = |ring: &Ring| (0..ring.len()).map(|member| name(ring, member)).collect::<Vec<_>>();
        let (old, new) = (names(before), names(after));
        let (mut arcs, mut from, mut moves) = (Self { first: false, ends: Vec::new() }, 0_u64, None);
        each_stretch(before, after, |stretch| {
            let differs = old[stretch.before] != new[stretch.after];
            match moves {
                None => arcs.first = differs,
                // `from` is above zero behind the first arc.
                Some(moves) if moves != differs => arcs.ends.push((from - 1) as u32),
                Some(_) => {}
            }
            (moves, from) = (Some(differs), from + stretch.length);
        });
        arcs
    }

    /// Does a key of this hash move?
    pub fn contain(&self, hash: u32) -> bool {
        let arc = self.ends.partition_point(|end| *end < hash);
        self.first ^ (arc % 2 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_between_equal_rings_and_everything_between_strangers() {
        let (a, b) = (Ring::new(&[("a:1", 1)]), Ring::new(&[("b:1", 1)]));
        let hashes = [0, 1, 77, u32::MAX / 2, u32::MAX];
        assert!(hashes.into_iter().all(|hash| !Arcs::between(&a, &a).contain(hash)));
        assert!(hashes.into_iter().all(|hash| Arcs::between(&a, &b).contain(hash)));
        assert!(!Arcs::between(&a, &Ring::new(&[])).contain(0));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn ring() -> impl Strategy<Value = Ring> {
        proptest::collection::btree_map(0_u8..9, 1_u32..4, 1..7).prop_map(|members| {
            let members: Vec<_> = members.into_iter().map(|(n, weight)| (format!("10.0.0.{n}:80"), weight)).collect();
            Ring::new(&members.iter().map(|(name, weight)| (name.as_str(), *weight)).collect::<Vec<_>>())
        })
    }

    proptest! {
        #[test]
        fn a_hash_is_in_the_arcs_when_its_owner_differs(
            before in ring(),
            after in ring(),
            more in proptest::collection::vec(any::<u32>(), 50),
        ) {
            let arcs = Arcs::between(&before, &after);
            let owner = |ring: &Ring, hash| ring.owner(hash).and_then(|at| ring.name(at)).map(str::to_owned);
            // Points and their neighbours are where arcs begin and end.
            let points = before.points().chain(after.points()).map(|(hash, _)| hash).step_by(17);
            let near = points.flat_map(|hash| [hash.wrapping_sub(1), hash, hash.wrapping_add(1)]);
            for hash in near.chain(more).chain([0, u32::MAX]) {
                prop_assert_eq!(arcs.contain(hash), owner(&before, hash) != owner(&after, hash), "{}", hash);
            }
        }
    }
}
