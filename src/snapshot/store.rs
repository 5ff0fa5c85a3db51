//! Which snapshot is in force? The one atomic swap of the gateway.
//!
//! A reload is one [`publish`](Store::publish), seen by every thread with its next request; whoever holds an older
//! snapshot keeps it whole. One task publishes (see `lifecycle::reload`), so no update is lost.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::Snapshot;

/// The snapshot in force.
pub struct Store(ArcSwap<Snapshot>);

impl Store {
    /// Begins with `first`.
    pub fn new(first: Snapshot) -> Self {
        Self(ArcSwap::from_pointee(first))
    }

    /// The snapshot in force now; what is done with it belongs to it to the end.
    pub fn load(&self) -> Arc<Snapshot> {
        self.0.load_full()
    }

    /// Puts `next` in force for all that begins from now on.
    pub fn publish(&self, next: Snapshot) {
        self.0.store(Arc::new(next));
    }
}
