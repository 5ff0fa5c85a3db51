//! What is a roster waiting for that takes a new snapshot? Rules J3 and J6: the end of a pool that was replaced as a
//! whole, or its failure, and an origin's new address that has proven itself.
//!
//! Pure: what is found is told, and whoever writes snapshots does what follows.

use std::time::{Duration, Instant};

use super::{Policy, Role, Target};

/// So long at most nobody new is proven before the replacement of a pool counts as failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The replacement of a pool: the origins that go serve until those that come have their share.
#[derive(Debug, Clone)]
pub struct Handover {
    /// When it began.
    pub since: Instant,
    /// Those that come, by their numbers in the roster.
    pub newcomers: Vec<usize>,
}

/// What a pool waits for that takes a new snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ripe {
    /// Those that came have their share: those that go may go.
    HandedOver,
    /// Nobody who came was proven in time.
    Failed,
    /// An origin's new address is proven.
    Moved,
}

impl Ripe {
    /// What is ripe in a pool, if anything is.
    pub(super) fn of(pool: &[Target], handover: Option<&Handover>, policy: &Policy, now: Instant) -> Option<Self> {
        if pool.iter().any(|one| one.role == Role::Succeeds && one.live.verdict().usable()) {
            return Some(Self::Moved);
        }
        let Handover { since, newcomers } = handover?;
        let serving = || pool.iter().filter(|one| one.role == Role::Serves && !one.backup);
        let grows = serving().any(|one| one.live.is_growing());
        let weight = |wanted: fn(&Target) -> bool| -> u64 {
            serving().filter(|one| wanted(one)).map(|one| u64::from(one.weight)).sum()
        };
        if !grows && policy.is_enough(weight(|one| one.live.verdict().usable()), weight(|_| true)) {
            return Some(Self::HandedOver);
        }
        let is_proven = |number: &usize| pool.get(*number).is_some_and(|one| one.live.is_proven());
        let late = now.saturating_duration_since(*since) >= PATIENCE;
        (late && !newcomers.iter().any(is_proven)).then_some(Self::Failed)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::units;
    use crate::health::{Address, Live, Verdict};

    fn target(role: Role, verdict: Verdict) -> Target {
        let address = Address::compile(&units::Address::Ip("127.0.0.1:1".parse().unwrap()), None);
        let live = Arc::new(Live::new(verdict != Verdict::Joining, true));
        live.publish(verdict);
        Target { name: Arc::from("x"), weight: 1, backup: false, role, address, live }
    }

    fn ripe(serving: &[Verdict], seconds: u64) -> Option<Ripe> {
        let now = Instant::now();
        let mut pool: Vec<_> = serving.iter().map(|verdict| target(Role::Serves, *verdict)).collect();
        pool.push(target(Role::Leaves, Verdict::Leaving));
        let handover = Handover { since: now, newcomers: (0..serving.len()).collect() };
        let policy = Policy { spare: 0.5, ..Policy::default() };
        Ripe::of(&pool, Some(&handover), &policy, now + Duration::from_secs(seconds))
    }

    #[test]
    fn replaced_pool_is_handed_over_when_enough_of_it_has_its_share() {
        use Verdict::{Down, Joining, Ramping, Up};
        assert_eq!(ripe(&[Joining, Joining, Joining], 10), None);
        assert_eq!(ripe(&[Up, Joining, Joining], 300), None, "one of three is not enough");
        assert_eq!(ripe(&[Up, Up, Joining], 0), Some(Ripe::HandedOver));
        assert_eq!(ripe(&[Up, Up, Down], 0), Some(Ripe::HandedOver));
        assert_eq!(ripe(&[Up, Ramping, Up], 0), None);
    }

    #[test]
    fn replacement_fails_when_nobody_is_proven_within_a_minute() {
        use Verdict::{Down, Joining};
        assert_eq!(ripe(&[Joining, Joining], 59), None);
        assert_eq!(ripe(&[Joining, Joining], 60), Some(Ripe::Failed));
        assert_eq!(ripe(&[Down, Joining], 60), None, "it was proven, if only for a time");
    }

    #[test]
    fn address_that_is_proven_is_to_be_moved_to() {
        let policy = Policy::default();
        let ripe = |verdict| {
            let pool = [target(Role::Serves, Verdict::Up), target(Role::Succeeds, verdict)];
            Ripe::of(&pool, None, &policy, Instant::now())
        };
        assert_eq!([ripe(Verdict::Joining), ripe(Verdict::Up)], [None, Some(Ripe::Moved)]);
    }
}
