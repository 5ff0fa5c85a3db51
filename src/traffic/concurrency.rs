//! How many requests of one key are under way?
//!
//! One exact count for the whole process. A key is kept only while a request of it is under way, and its seat is given
//! back by `Drop`, so that neither an error nor a panic leaks one: what is kept is bounded by the requests there are.
//!
//! While a process leaves, what is under way there counts in the one that follows it, as it was told last
//! ([`Seats::hear`]).

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
pub(super) struct Seats(Box<[Mutex<Part>]>);

/// Requests by the tag of their key.
type Counts = HashMap<u64, u32>;

#[derive(Default)]
struct Part {
    here: Counts,
    /// In processes that leave.
    elsewhere: Counts,
}

impl Part {
    fn count(&self, tag: u64) -> u32 {
        let of = |counts: &Counts| counts.get(&tag).copied().unwrap_or(0);
        of(&self.here).saturating_add(of(&self.elsewhere))
    }
}

impl Default for Seats {
    fn default() -> Self {
        Self((0..PARTS).map(|_| Mutex::default()).collect())
    }
}

impl Seats {
    /// A seat for one more of this tag, unless there are `most`.
    pub(super) fn take(self: &Arc<Self>, tag: u64, most: u32) -> Option<Seat> {
        let mut part = self.part(tag).lock();
        if part.count(tag) >= most {
            return None;
        }
        *part.here.entry(tag).or_default() += 1;
        Some(Seat { seats: Arc::clone(self), tag })
    }

    /// Everybody with a seat, by tag: here, and where it was told of.
    pub(super) fn tell(&self) -> Vec<(u64, u32)> {
        let told = self.0.iter().flat_map(|part| {
            let part = part.lock();
            let only_elsewhere = part.elsewhere.keys().filter(|tag| !part.here.contains_key(tag));
            part.here.keys().chain(only_elsewhere).map(|tag| (*tag, part.count(*tag))).collect::<Vec<_>>()
        });
        told.collect()
    }

    /// Who has a seat elsewhere, in place of what was heard before.
    pub(super) fn hear(&self, told: &[(u64, u32)]) {
        let mut parts = [const { Vec::new() }; PARTS];
        told.iter().for_each(|(tag, count)| parts[*tag as usize % PARTS].push((*tag, *count)));
        for (part, told) in self.0.iter().zip(parts) {
            part.lock().elsewhere = told.into_iter().collect();
        }
    }

    fn part(&self, tag: u64) -> &Mutex<Part> {
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
        let Entry::Occupied(mut count) = part.here.entry(self.tag) else { return };
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
    /// Compiles what was written of `route`, by its identity. Requests under way on it already have their seats, if the key is the same.
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
        assert!(seats.0.iter().all(|part| part.lock().here.is_empty()), "nothing is kept of who is done");
    }

    #[test]
    fn who_has_a_seat_elsewhere_counts_until_nobody_is_told_of() {
        let (here, elsewhere) = (Arc::new(Seats::default()), Arc::new(Seats::default()));
        let held = [elsewhere.take(1, 3), elsewhere.take(1, 3), elsewhere.take(65, 3)];
        here.hear(&elsewhere.tell());
        let own = here.take(1, 3);
        assert!(own.is_some() && here.take(1, 3).is_none() && here.take(2, 1).is_some());
        let third = Arc::new(Seats::default());
        third.hear(&here.tell());
        assert!(third.take(1, 3).is_none() && third.take(65, 1).is_none(), "told on to a third");
        drop(held);
        here.hear(&elsewhere.tell());
        assert!(here.take(1, 2).is_some() && here.take(65, 1).is_some());
        drop(own);
        assert!(here.tell().is_empty());
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
                        let now = seats.part(7).lock().here[&7];
                        most.fetch_max(now, std::sync::atomic::Ordering::Relaxed);
                        drop(seat);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(most.load(std::sync::atomic::Ordering::Relaxed) <= 3);
        assert!(seats.part(7).lock().here.is_empty());
    }
}
