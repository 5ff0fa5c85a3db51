//! Who answers for each key? Every key is asked for once through the gateway, as far as there is time, and two answers
//! are compared.
//!
//! What was seen stands beside what has to be (the owners on the ring), beside the least that must move for the same
//! number of keys each, and beside `hash % n`, all counted over the same keys. Comparing is pure.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::keys::Keys;
use super::talk::Talk;
use crate::balance::Ring;

/// Questions under way at once.
const CLIENTS: usize = 24;

/// Who answered for each key, as a number in the list of origins; `None` where that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owners(pub(super) Vec<Option<usize>>);

/// What was seen.
#[derive(Debug, Clone)]
pub(super) struct Census {
    pub(super) owners: Owners,
    /// Keys that were asked for: all of them, if there was time.
    pub(super) asked: usize,
    /// Of these, without an answer.
    pub(super) failed: usize,
}

/// How it is asked.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    pub(super) gateway: SocketAddr,
    pub(super) keys: Arc<Keys>,
    /// Of all origins.
    pub(super) names: Arc<[String]>,
    /// On a machine too busy for all keys.
    pub(super) patience: Duration,
}

impl Asking {
    /// Asks for every key once; `headers` go with each question.
    pub(super) async fn ask(&self, headers: &'static str) -> Census {
        let owners = Arc::new(Mutex::new(vec![None; self.keys.len()]));
        let (next, end) = (Arc::new(AtomicUsize::new(0)), Instant::now() + self.patience);
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let (asking, owners, next) = (self.clone(), Arc::clone(&owners), Arc::clone(&next));
            clients.spawn(async move { asking.client(headers, &owners, &next, end).await });
        }
        let (mut asked, mut answered) = (0, 0);
        while let Some(client) = clients.join_next().await {
            let (more, fine) = client.unwrap_or_default();
            asked += more;
            answered += fine;
        }
        let owners = Owners(owners.lock().clone());
        Census { owners, asked, failed: asked - answered }
    }

    /// One client: how many keys it asked for, and for how many it was told an owner.
    async fn client(
        &self,
        headers: &str,
        owners: &Mutex<Vec<Option<usize>>>,
        next: &AtomicUsize,
        end: Instant,
    ) -> (usize, usize) {
        let mut talk = Talk::to(self.gateway);
        let (mut asked, mut answered) = (0, 0);
        while Instant::now() < end {
            // relaxed: each number is given out once, and orders nothing
            let key = next.fetch_add(1, Relaxed);
            if key >= self.keys.len() {
                break;
            }
            let answer = talk.ask("GET", &self.keys.target(key, key as u64), headers).await;
            let origin = answer.ok().filter(|answer| answer.status == 200).and_then(|answer| answer.origin);
            let owner = origin.and_then(|origin| self.names.iter().position(|name| *name == origin));
            asked += 1;
            answered += usize::from(owner.is_some());
            if let Some(place) = owners.lock().get_mut(key) {
                *place = owner;
            }
        }
        (asked, answered)
    }
}

impl Owners {
    /// Who has to own each key: the ring of all `names` walked from the key to the first of `members`.
    pub(super) fn on_ring(names: &[String], members: &[usize], hashes: &[u32]) -> Self {
        let named: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let ring = Ring::new(&named);
        Self(hashes.iter().map(|hash| ring.walk(*hash).find(|member| members.contains(member))).collect())
    }

    /// Who would own each key by `hash % n` over `members`.
    pub(super) fn by_modulo(members: &[usize], hashes: &[u32]) -> Self {
        let owner = |hash: &u32| members.get(*hash as usize % members.len().max(1)).copied();
        Self(hashes.iter().map(owner).collect())
    }

    /// The keys whose owner is known here and there.
    pub(super) fn shared(&self, other: &Self) -> Vec<bool> {
        self.0.iter().zip(&other.0).map(|(one, other)| one.is_some() && other.is_some()).collect()
    }

    /// The same, of these keys alone.
    pub(super) fn only(&self, keys: &[bool]) -> Self {
        Self(self.0.iter().zip(keys).map(|(owner, wanted)| owner.filter(|_| *wanted)).collect())
    }

    /// How many keys `origin` has.
    pub(super) fn of(&self, origin: usize) -> usize {
        self.0.iter().filter(|owner| **owner == Some(origin)).count()
    }

    /// How many keys have another owner in `after`, of those whose owner is known in both.
    pub(super) fn moved(&self, after: &Self) -> usize {
        self.0.iter().zip(&after.0).filter(|(one, other)| one.is_some() && other.is_some() && one != other).count()
    }

    /// The least keys that must move to give everybody as many as in `after`.
    pub(super) fn least(&self, after: &Self) -> usize {
        let origins = self.0.iter().chain(&after.0).flatten().max().map_or(0, |last| last + 1);
        (0..origins).map(|origin| after.of(origin).saturating_sub(self.of(origin))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(list: &[usize]) -> Owners {
        Owners(list.iter().map(|owner| Some(*owner)).collect())
    }

    #[test]
    fn a_swap_moves_keys_that_need_not_move() {
        let (before, after) = (owners(&[0, 0, 1, 1]), owners(&[1, 0, 0, 1]));
        assert_eq!((before.moved(&after), before.least(&after)), (2, 0));
    }

    #[test]
    fn a_newcomer_takes_its_share_at_least() {
        let (before, after) = (owners(&[0, 0, 1, 1]), owners(&[2, 0, 1, 1]));
        assert_eq!((before.moved(&after), before.least(&after)), (1, 1));
        assert_eq!(before.least(&before), 0);
    }

    #[test]
    fn a_key_whose_owner_is_not_known_counts_nowhere() {
        let (before, after) = (Owners(vec![None, Some(0), Some(0)]), owners(&[1, 0, 1]));
        let shared = before.shared(&after);
        assert_eq!(shared, [false, true, true]);
        let (before, after) = (before.only(&shared), after.only(&shared));
        assert_eq!((before.moved(&after), before.least(&after)), (1, 1));
    }

    #[test]
    fn modulo_goes_round_those_who_are_there() {
        assert_eq!(Owners::by_modulo(&[0, 2], &[0, 1, 2, 3]), owners(&[0, 2, 0, 2]));
        assert_eq!(Owners::by_modulo(&[], &[0]), Owners(vec![None]));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_ring_moves_the_least_and_modulo_no_less(
            hashes in proptest::collection::vec(any::<u32>(), 1..300),
            before in 2_usize..9,
            more in 1_usize..6,
        ) {
            let names: Vec<String> = (0..before + more).map(|at| format!("cache-{at}")).collect();
            let (old, new): (Vec<_>, Vec<_>) = ((0..before).collect(), (0..before + more).collect());
            let (was, is) = (Owners::on_ring(&names, &old, &hashes), Owners::on_ring(&names, &new, &hashes));
            prop_assert_eq!(was.moved(&is), was.least(&is));
            prop_assert!(was.0.iter().zip(&is.0).all(|(old, new)| old == new || *new >= Some(before)));
            let (was, is) = (Owners::by_modulo(&old, &hashes), Owners::by_modulo(&new, &hashes));
            prop_assert!(was.moved(&is) >= was.least(&is));
        }
    }
}
