//! How many requests of one key are under way?
//!
//! One exact count for the whole process. A key is kept only while a request of it is under way, and its seat is given
//! back by `Drop`, so that neither an error nor a panic leaks one: what is kept is bounded by the requests there are.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use parking_lot::Mutex;

use super::buckets::Buckets;
use super::limit_key::{LimitKey, Secret};
use super::rate::Over;
use crate::config::Invalid;
use crate::config::limits;
use crate::template::Facts;

/// Parts that are locked one at a time.
const PARTS: usize = 64;

/// What the limit is called in logs and metrics.
const NAME: &str = "concurrency";

/// The requests under way of every key.
pub(super) struct Seats(Box<[Mutex<HashMap<u64, u32>>]>);

impl Default for Seats {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Mutex::default()).collect())
    }
}

impl Seats {
    /// A seat for one more of this tag, unless there are `most`.
    fn take(self: &Arc<Self>, tag: u64, most: u32) -> Option<Seat> {
        let mut part = self.part(tag).lock();
        let count = part.get(&tag).copied().unwrap_or(0);
        if count >= most {
            return None;
        }
        part.insert(tag, count + 1);
        Some(Seat { seats: Arc::clone(self), tag })
    }

    fn part(&self, tag: u64) -> &Mutex<HashMap<u64, u32>> {
        &self.0[tag as usize % PARTS]
    }
}

/// One request under way.
#[must_use = "the request counts as under way until this is dropped"]
pub struct Seat {
    seats: Arc<Seats>,
    tag: u64,
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut part = self.seats.part(self.tag).lock();
        let Entry::Occupied(mut count) = part.entry(self.tag) else { return };
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// A compiled limit of requests under way.
pub struct Concurrency {
    key: LimitKey,
    secret: Secret,
    seats: Arc<Seats>,
    most: u32,
    status: u16,
    dry_run: bool,
}

impl Concurrency {
    /// Compiles what was written of `route`. Requests under way on it already have their seats, if the key is the same.
    ///
    /// # Errors
    /// What is wrong with its key.
    pub fn compile(written: &limits::Concurrency, route: &str, buckets: &Buckets) -> Result<Self, Invalid> {
        let key = LimitKey::compile(&written.key)?;
        let (secret, seats) = (buckets.secret(), buckets.seats(route, key.text()));
        Ok(Self { key, secret, seats, most: written.max, status: written.status, dry_run: written.dry_run })
    }

    /// Its name in logs and metrics.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// One more request: its seat, if there is one, and whether it is beyond the limit. With a dry run it is seated all the
    /// same.
    pub fn ask(&self, facts: &Facts<'_>) -> (Option<Seat>, Option<Over>) {
        let tag = self.key.tag(facts, self.secret);
        match self.seats.take(tag, self.most) {
            Some(seat) => (Some(seat), None),
            None => {
                let seat = if self.dry_run { self.seats.take(tag, u32::MAX) } else { None };
                (seat, Some(Over::of(NAME, self.status)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_seats_for_each_key_and_no_more() {
        let seats = Arc::new(Seats::default());
        let first = [seats.take(1, 2), seats.take(1, 2)];
        assert!(first.iter().all(Option::is_some));
        assert!(seats.take(1, 2).is_none() && seats.take(65, 2).is_some());
        drop(first);
        assert!(seats.take(1, 1).is_some());
        assert!(seats.0.iter().all(|part| part.lock().is_empty()), "nothing is kept of who is done");
    }

    #[test]
    fn many_at_once_never_take_more() {
        let seats = Arc::new(Seats::default());
        let most = Arc::new(std::sync::atomic::AtomicU32::new(0));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (seats, most) = (Arc::clone(&seats), Arc::clone(&most));
                std::thread::spawn(move || {
                    for seat in (0..10_000).filter_map(|_| seats.take(7, 3)) {
                        let now = seats.part(7).lock()[&7];
                        most.fetch_max(now, std::sync::atomic::Ordering::Relaxed);
                        drop(seat);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(most.load(std::sync::atomic::Ordering::Relaxed) <= 3);
        assert!(seats.part(7).lock().is_empty());
    }
}
