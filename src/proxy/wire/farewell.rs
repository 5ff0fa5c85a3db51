//! Who is to be told when the process is about to leave for good?
//!
//! Tunnels end when their ends do, so nobody looks at them again: each leaves word here how to wake it, and stays in the
//! book until its socket is closed. Always: whoever comes after the farewell was said finds it said.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::task::Waker;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The farewell of a process; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Farewell(Arc<Book>);

#[derive(Debug, Default)]
struct Book {
    /// Ordered with the book: one that is in it too late to be woken sees it.
    said: AtomicBool,
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
