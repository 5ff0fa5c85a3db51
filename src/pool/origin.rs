//! What is known of one origin while the process runs?
//!
//! One `Origin` per pool and name, handed from snapshot to snapshot: a reload that still names it forgets nothing,
//! whatever else it changes (address and weight belong to the [`Member`](super::Member), which is compiled anew).
//! Everything here is counted on the way of a request, so it is atomics, each a number of its own that orders
//! nothing else: `Relaxed`, but for the end of an origin's last attempt, which has to see that it is retired.

use std::array;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::time::Instant;

use super::sockets::Sockets;
use crate::balance::{self, Load};
use crate::health::{Live, Tally, Verdict};

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
    /// Numbers of its connections.
    numbers: AtomicU64,
    sockets: Sockets,
    /// It is to get no further request.
    retired: AtomicBool,
    /// Its operator was warned that it closes idle connections before we do.
    keepalive_warned: AtomicBool,
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
            numbers: AtomicU64::new(0),
            sockets: Sockets::default(),
            retired: AtomicBool::new(false),
            keepalive_warned: AtomicBool::new(false),
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
        self.health.tally()
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

    /// Whether its operator was warned that it closes idle connections before we do.
    pub fn keepalive_warned(&self) -> bool {
        self.keepalive_warned.load(Relaxed)
    }

    /// The operator is to be warned of that: true the first time.
    pub fn warn_of_keepalive(&self) -> bool {
        !self.keepalive_warned.swap(true, Relaxed)
    }

    /// A number for a connection that may be made.
    pub fn next_connection(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed)
    }

    /// The connection of this number has this descriptor.
    pub fn connection_has(&self, number: u64, fd: RawFd) {
        self.sockets.opened(number, fd);
    }

    /// The connection of this number is about to be closed.
    pub fn connection_closed(&self, number: u64) {
        self.sockets.closed(number);
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

    /// Connections open now to the whole pool it belongs to.
    pub fn connections_of_pool(&self) -> usize {
        self.pool_open.load(Relaxed)
    }

    /// It is to get no further request: connections that wait for one are closed, as soon as none is under way.
    pub fn retire(&self) {
        // Either this sees the last attempt ended, or that one sees this.
        self.retired.store(true, SeqCst);
        fence(SeqCst);
        if self.load.own() == 0 {
            self.sockets.shut_down();
        }
    }

    /// It is to get requests after all.
    pub fn revive(&self) {
        self.retired.store(false, SeqCst);
    }

    /// An attempt at it is over.
    pub(super) fn leave(&self) {
        if self.load.leave() && self.retired.load(SeqCst) {
            self.sockets.shut_down();
        }
    }
}

#[cfg(test)]
impl Origin {
    /// One of a pool of its own.
    #[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
    pub(crate) fn alone() -> Self {
        Self::new(Arc::from("p"), Arc::from("a"), Live::new(true, true), Arc::default(), Instant::now())
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
        one.connection_closed(0);
        assert_eq!((one.connections_open(), one.connections_opened()), (1, 2));
        assert_eq!(pool_open.load(Relaxed), 2);
    }
}
