//! Who is to be told when the process is about to leave for good?
//!
//! Tunnels end when their ends do, and requests that still run are looked at by nobody else: each leaves word here how to
//! wake it, and stays in the book until its socket is closed. A tunnel in the middle of a frame has until the last call.
//! Always: whoever comes after the farewell was said finds it said.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::task::{Context, Waker};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Fault, Wire};

/// The farewell of a process; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Farewell(Arc<Book>);

#[derive(Debug, Default)]
struct Book {
    /// Ordered with the book: one that is in it too late to be woken sees it.
    said: AtomicBool,
    last_called: AtomicBool,
    waiting: Mutex<HashMap<u64, Waker>>,
    /// Relaxed: numbers only have to differ.
    next: AtomicU64,
    left: Notify,
}

impl Farewell {
    /// Whoever waits ends now.
    pub fn say(&self) {
        self.0.said.store(true, SeqCst);
        self.0.waiting.lock().values().for_each(Waker::wake_by_ref);
    }

    /// Whether it was said.
    pub fn is_said(&self) -> bool {
        self.0.said.load(SeqCst)
    }

    /// Nobody is waited for any longer.
    pub fn call_last(&self) {
        self.0.last_called.store(true, SeqCst);
        self.say();
    }

    /// Whether nobody is waited for any longer.
    pub fn is_last_call(&self) -> bool {
        self.0.last_called.load(SeqCst)
    }

    /// Waits until everybody who was told has gone.
    pub async fn all_gone(&self) {
        loop {
            let left = self.0.left.notified();
            tokio::pin!(left);
            // registered before the book is read, so the last one's leaving is not missed
            left.as_mut().enable();
            if self.0.waiting.lock().is_empty() {
                return;
            }
            left.await;
        }
    }

    /// To be woken by `waker` when it is said.
    pub(super) fn await_it(&self, waker: &Waker) -> Waits {
        let number = self.0.next.fetch_add(1, Relaxed);
        self.0.waiting.lock().insert(number, waker.clone());
        Waits { book: Arc::clone(&self.0), number }
    }
}

/// A place in the book.
#[derive(Debug)]
pub(super) struct Waits {
    book: Arc<Book>,
    number: u64,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.book.waiting.lock().remove(&self.number);
        self.book.left.notify_waiters();
    }
}

/// The connection's side.
impl Wire {
    /// Whether the process says farewell to it; wakes the task when it does.
    pub fn hears_farewell(&self, cx: &mut Context<'_>) -> bool {
        let farewell = &self.home.farewell;
        self.waits.lock().get_or_insert_with(|| farewell.await_it(cx.waker()));
        farewell.is_said()
    }

    /// Whether what runs on it is to end now, with the process: a WebSocket is told first, and has until the last call.
    pub fn is_cut(&self) -> bool {
        let farewell = &self.home.farewell;
        let is = self.is_heard() && farewell.is_said() && (!self.is_websocket() || farewell.is_last_call());
        if is {
            self.set_fault(Fault::Cut);
        }
        is
    }

    /// The client was told that we leave.
    pub fn part(&self) {
        self.parted.store(true, Relaxed);
    }

    /// Whether the client was told that we leave.
    pub fn has_parted(&self) -> bool {
        self.parted.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everybody_in_the_book_is_woken_and_waited_for() {
        let farewell = Farewell::default();
        farewell.all_gone().await;
        let waits = farewell.await_it(Waker::noop());
        assert!(!farewell.is_said());
        farewell.say();
        assert!(farewell.is_said());
        let gone = tokio::spawn({
            let farewell = farewell.clone();
            async move { farewell.all_gone().await }
        });
        tokio::task::yield_now().await;
        assert!(!gone.is_finished());
        drop(waits);
        gone.await.unwrap();
    }
}
