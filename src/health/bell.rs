//! How does the judge hear of what happened before it looks by itself?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Live;

/// Wakes the judge before its time.
#[derive(Debug, Default)]
pub struct Bell {
    notify: Notify,
    /// Origins of which something was learned, each once.
    rung: Mutex<Vec<Arc<Live>>>,
    /// Everything is to be looked at.
    all: AtomicBool,
}

impl Bell {
    /// Wakes the judge to look at everything: something changed that no origin tells, such as the snapshot or an address.
    pub fn ring(&self) {
        self.all.store(true, Relaxed);
        self.notify.notify_one();
    }

    /// Is everything to be looked at?
    pub fn take_all(&self) -> bool {
        self.all.swap(false, Relaxed)
    }

    /// Wakes the judge to look at this origin.
    pub(super) fn ring_for(&self, live: &Arc<Live>) {
        self.rung.lock().push(Arc::clone(live));
        self.notify.notify_one();
    }

    /// Waits for the next ring; one that came meanwhile counts.
    pub async fn wait(&self) {
        self.notify.notified().await;
    }

    /// The origins that rang.
    pub fn take(&self) -> Vec<Arc<Live>> {
        std::mem::take(&mut *self.rung.lock())
    }
}
