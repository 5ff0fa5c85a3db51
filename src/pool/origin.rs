//! What is known of one origin while the process runs?
//!
//! One `Origin` per pool and name, handed from snapshot to snapshot: a reload that still names it forgets nothing,
//! whatever else it changes (address and weight belong to the [`Member`](super::Member), which is compiled anew).
//! Everything here is counted on the way of a request, so it is atomics, each a number of its own that orders
//! nothing else: `Relaxed`.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crate::balance::{self, Load};
use crate::health::{Live, Verdict};

use super::tally::Tally;

/// Shards that have a connection epoch of their own; beyond that some share one, which only hides a few idle
/// connections more.
const EPOCHS: usize = 64;

/// The live state of an origin.
#[derive(Debug)]
pub struct Origin {
    pool: Arc<str>,
    name: Arc<str>,
    health: Arc<Live>,
    load: Load,
    opened: AtomicU64,
    closed: AtomicU64,
    /// Connections open to the whole pool.
    pool_open: Arc<AtomicUsize>,
    /// Tells its connections from those of others; the name keeps two pools that share an address from sharing
    /// connections, and so their counts.
    group: u32,
    epochs: [AtomicU32; EPOCHS],
    tally: Tally,
}

impl Origin {
    pub(super) fn new(pool: Arc<str>, name: Arc<str>, health: Live, pool_open: Arc<AtomicUsize>, now: Instant) -> Self {
        let group = balance::hash(name.as_bytes()) ^ balance::hash(pool.as_bytes()).rotate_left(16);
        Self {
            group,
            pool,
            name,
            health: Arc::new(health),
            load: Load::new(now),
            opened: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            pool_open,
            epochs: array::from_fn(|_| AtomicU32::new(0)),
            tally: Tally::default(),
        }
    }

    /// The pool it belongs to.
    pub fn pool(&self) -> &Arc<str> {
        &self.pool
    }

    /// Its name on the ring and everywhere else.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its health.
    pub fn health(&self) -> &Arc<Live> {
        &self.health
    }

    /// What is held of it now.
    pub fn verdict(&self) -> Verdict {
        self.health.verdict()
    }

    /// Attempts under way.
    pub fn in_flight(&self) -> usize {
        self.load.in_flight()
    }

    /// What the algorithms know of it.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// What attempts at it came to.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Groups the connections of a shard that may be reused: those of this origin since the shard's last
    /// [`hide_idle`](Self::hide_idle).
    pub fn connection_group(&self, shard: usize) -> u64 {
        u64::from(self.group) << 32 | u64::from(self.epochs[shard % EPOCHS].load(Relaxed))
    }

    /// Hides the shard's idle connections to this origin: one of them was found closed, the others are as old.
    pub fn hide_idle(&self, shard: usize) {
        self.epochs[shard % EPOCHS].fetch_add(1, Relaxed);
    }

    /// A connection to it was opened.
    pub fn connection_opened(&self) {
        self.opened.fetch_add(1, Relaxed);
        self.pool_open.fetch_add(1, Relaxed);
    }

    /// A connection to it was closed.
    pub fn connection_closed(&self) {
        self.closed.fetch_add(1, Relaxed);
        self.pool_open.fetch_sub(1, Relaxed);
    }

    /// Connections opened so far.
    pub fn connections_opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    /// Connections open now, in use or idle.
    pub fn connections_open(&self) -> u64 {
        // Closed first: a connection opened and closed in between must not make the difference negative.
        let closed = self.closed.load(Relaxed);
        self.opened.load(Relaxed).saturating_sub(closed)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    fn origin(pool: &str, name: &str) -> Origin {
        Origin::new(Arc::from(pool), Arc::from(name), Live::new(true, true), Arc::default(), Instant::now())
    }

    #[test]
    fn connection_groups_differ_by_origin_pool_and_epoch_of_the_shard() {
        let (one, other) = (origin("p", "a:80"), origin("p", "b:80"));
        assert_ne!(one.connection_group(0), other.connection_group(0));
        assert_ne!(one.connection_group(0), origin("q", "a:80").connection_group(0));
        let (before, shard_one) = (one.connection_group(0), one.connection_group(1));
        one.hide_idle(0);
        assert_ne!(one.connection_group(0), before);
        assert_eq!(one.connection_group(1), shard_one, "another shard's connections stay");
    }

    #[test]
    fn connections_are_counted_for_the_origin_and_for_its_pool() {
        let pool_open = Arc::new(AtomicUsize::new(0));
        let new = |name: &str| {
            let live = Live::new(true, true);
            Origin::new(Arc::from("p"), Arc::from(name), live, Arc::clone(&pool_open), Instant::now())
        };
        let (one, other) = (new("a"), new("b"));
        one.connection_opened();
        one.connection_opened();
        other.connection_opened();
        one.connection_closed();
        assert_eq!((one.connections_open(), one.connections_opened()), (1, 2));
        assert_eq!(pool_open.load(Relaxed), 2);
    }
}
