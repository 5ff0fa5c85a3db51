//! Who serves the running configuration beside this process? The one before it, until none of its connections can begin
//! a request any more, and the one after it, once it has taken over for good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::sync::watch;

/// What a process that is succeeded knows of it; clones know the same.
#[derive(Debug, Clone)]
pub struct Succession {
    passed: Arc<watch::Sender<bool>>,
    predecessor: Arc<watch::Sender<bool>>,
    gone: Arc<watch::Sender<bool>>,
    /// Relaxed: it tells of nothing but itself.
    quiet: Arc<AtomicBool>,
}

impl Default for Succession {
    fn default() -> Self {
        Self::new(false)
    }
}

impl Succession {
    /// Of a process that `takes_over` from another one, or does not.
    pub fn new(takes_over: bool) -> Self {
        let switch = |on| Arc::new(watch::Sender::new(on));
        let [predecessor, gone] = [(); 2].map(|()| switch(!takes_over));
        Self { passed: switch(false), predecessor, gone, quiet: Arc::default() }
    }

    /// No connection of the process before can begin a request any more. Was that so already?
    pub fn predecessor_quiets(&self) -> bool {
        self.predecessor.send_replace(true)
    }

    /// Waits for that.
    pub(super) async fn predecessor_is_quiet(&self) {
        // the sender lives as long as this does
        let _ = self.predecessor.subscribe().wait_for(|quiet| *quiet).await;
    }

    /// The process before is gone: nothing is told of what it counts any more.
    pub fn predecessor_goes(&self) {
        self.gone.send_replace(true);
    }

    /// Waits for that.
    pub(super) async fn predecessor_is_gone(&self) {
        // the sender lives as long as this does
        let _ = self.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// Another process has taken over for good.
    pub fn pass(&self) {
        self.passed.send_replace(true);
    }

    /// Waits for that.
    pub(super) async fn passed(&self) {
        // the sender lives as long as this does
        let _ = self.passed.subscribe().wait_for(|passed| *passed).await;
    }

    /// No connection can begin a request any more.
    pub(super) fn is_quiet(&self) {
        self.quiet.store(true, Relaxed);
    }

    /// Is it so?
    pub fn quiet(&self) -> bool {
        self.quiet.load(Relaxed)
    }
}
