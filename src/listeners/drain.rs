//! Has the leaving begun? From then on no connection takes another request once it has answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::watch;

/// The one switch of a process; clones are the same switch.
#[derive(Debug, Clone)]
pub struct Drain {
    /// What requests look at: cheaper than a look into the channel.
    flag: Arc<AtomicBool>,
    begun: Arc<watch::Sender<bool>>,
}

impl Default for Drain {
    fn default() -> Self {
        Self { flag: Arc::default(), begun: Arc::new(watch::Sender::new(false)) }
    }
}

impl Drain {
    /// Listening sockets close; every answer from now on is its connection's last.
    pub fn begin(&self) {
        self.flag.store(true, Relaxed);
        self.begun.send_replace(true);
    }

    /// Waits until it has begun.
    pub async fn begun(&self) {
        // the sender lives as long as this does
        let _ = self.begun.subscribe().wait_for(|begun| *begun).await;
    }

    /// The switch as Pingora wants it.
    pub(super) fn watch(&self) -> watch::Receiver<bool> {
        self.begun.subscribe()
    }

    /// The switch as a flag.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }
}
