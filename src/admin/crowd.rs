//! Who has to go when more want in than there is room? Whoever has kept us waiting for the longest.
//!
//! A connection waits from the moment it may send a request, or has to take an answer, until it has. Always holds: only
//! a connection that waits is given up, never one whose answer is being worked out.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// So many connections at most.
#[derive(Debug)]
pub(super) struct Crowd {
    room: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// In the order in which they began to wait.
    since: BTreeMap<u64, Arc<Notify>>,
}

impl Crowd {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { room: Arc::new(Semaphore::new(most)), waiting: Mutex::default() })
    }

    /// A place, for which the one that waits longest has to go if there is none; `None` at the end of the runtime.
    pub(super) async fn enter(&self) -> Option<OwnedSemaphorePermit> {
        if self.room.available_permits() == 0 {
            let oldest = self.waiting.lock().since.pop_first();
            if let Some((_, gone)) = oldest {
                gone.notify_one();
            }
        }
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    /// Places that are free.
    pub(super) fn free(&self) -> usize {
        self.room.available_permits()
    }

    /// Waits for what the client has to do; `None`: its place is needed.
    pub(super) async fn wait<T>(&self, client: impl Future<Output = T>) -> Option<T> {
        let turn = Turn::new(&self.waiting);
        tokio::select! {
            biased;
            done = client => Some(done),
            () = turn.gone.notified() => None,
        }
    }
}

/// A place among those that wait, until it is dropped.
struct Turn<'a> {
    waiting: &'a Mutex<Waiting>,
    number: u64,
    gone: Arc<Notify>,
}

impl<'a> Turn<'a> {
    fn new(waiting: &'a Mutex<Waiting>) -> Self {
        let gone = Arc::new(Notify::new());
        let mut all = waiting.lock();
        let number = all.next;
        all.next += 1;
        all.since.insert(number, Arc::clone(&gone));
        drop(all);
        Self { waiting, number, gone }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.waiting.lock().since.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn the_one_that_waits_longest_goes() {
        let crowd = Crowd::new(2);
        let places = [crowd.enter().await, crowd.enter().await];
        assert!(places.iter().all(Option::is_some));
        assert_eq!(crowd.free(), 0);
        let (first, second) = (Arc::clone(&crowd), Arc::clone(&crowd));
        let [one, other] = places;
        let first = tokio::spawn(async move {
            let gave_up = first.wait(pending::<()>()).await.is_none();
            drop(one);
            gave_up
        });
        tokio::task::yield_now().await;
        let second = tokio::spawn(async move {
            let _other = other;
            second.wait(pending::<()>()).await
        });
        tokio::task::yield_now().await;
        assert!(crowd.enter().await.is_some());
        assert!(first.await.unwrap());
        assert!(!second.is_finished());
        second.abort();
    }

    #[tokio::test]
    async fn whoever_is_done_is_not_told_to_go() {
        let crowd = Crowd::new(1);
        assert_eq!(crowd.wait(ready(7)).await, Some(7));
        assert!(crowd.waiting.lock().since.is_empty());
    }
}
