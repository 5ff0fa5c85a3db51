//! What do origins ask on a miss? One database behind all of them, slow and with few places: what bled in the first
//! incident.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Queries that run at once; further ones wait.
const PLACES: usize = 24;
/// Milliseconds a query takes.
const TAKES: std::ops::Range<u64> = 20..40;

/// The database all origins share.
#[derive(Debug)]
pub(super) struct Database {
    places: Semaphore,
    /// Relaxed: a count that orders nothing.
    queries: AtomicU64,
}

impl Database {
    /// Nobody asked it yet.
    pub(super) fn new() -> Self {
        Self { places: Semaphore::new(PLACES), queries: AtomicU64::new(0) }
    }

    /// Waits for a place, and then for the answer.
    pub(super) async fn query(&self) {
        self.queries.fetch_add(1, Relaxed);
        let _place = self.places.acquire().await;
        sleep(Duration::from_millis(fastrand::u64(TAKES))).await;
    }

    /// How often it was asked.
    pub(super) fn queries(&self) -> u64 {
        self.queries.load(Relaxed)
    }
}
