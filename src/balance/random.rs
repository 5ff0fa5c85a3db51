//! Any of them, each with a chance in proportion to its weight.

use fastrand::Rng;

use super::Candidate;

/// One of the candidates. A single look at each: who they are may change between two.
pub(super) fn draw<'l>(candidates: impl Iterator<Item = Candidate<'l>>, random: &mut Rng) -> Option<Candidate<'l>> {
    let (mut total, mut drawn) = (0_u64, None);
    for candidate in candidates.filter(|candidate| candidate.weight > 0) {
        total = total.saturating_add(candidate.weight);
        // Each takes the place of those before it with the chance that it has among them all.
        if random.u64(..total) < candidate.weight {
            drawn = Some(candidate);
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::super::load::{candidates, loads};
    use super::*;

    fn counts(weights: &[u64], times: usize) -> Vec<usize> {
        let (loads, mut random) = (loads(weights.len()), Rng::with_seed(7));
        let mut counts = vec![0; weights.len()];
        for _ in 0..times {
            counts[draw(candidates(&loads, weights), &mut random).unwrap().member] += 1;
        }
        counts
    }

    #[test]
    fn nobody_is_drawn_from_nobody() {
        assert!(draw(std::iter::empty(), &mut Rng::with_seed(7)).is_none());
        assert!(draw(candidates(&loads(2), &[0, 0]), &mut Rng::with_seed(7)).is_none());
    }

    #[test]
    fn chances_are_as_the_weights() {
        let counts = counts(&[1, 0, 3, 4], 8000);
        assert_eq!(counts[1], 0);
        assert!((900..1100).contains(&counts[0]), "{counts:?}");
        assert!((2850..3150).contains(&counts[2]), "{counts:?}");
        assert!((3850..4150).contains(&counts[3]), "{counts:?}");
    }

    #[test]
    fn great_weights_are_drawn_as_small_ones() {
        let counts = counts(&[1 << 42, 3 << 42], 4000);
        assert!((900..1100).contains(&counts[0]), "{counts:?}");
    }
}
