//! Where do the others play? On a thread with a runtime of its own, so that a busy audience holds up no actor.
//!
//! Always holds: when it is dropped, every task on it is dropped and the thread has ended.

use std::io;
use std::thread::{self, JoinHandle};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A thread and its runtime.
#[derive(Debug)]
pub(super) struct Stage {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stage {
    /// An empty one.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            // ends by an error: nobody ever sends
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// For tasks to be spawned on it.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("a thread of the demo had panicked");
        }
    }
}
