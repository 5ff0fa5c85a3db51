//! Whose turn is it to connect to an origin?
//!
//! A new process has no connection to anybody: all its requests would knock at once, and an origin whose queue of
//! unaccepted connections is short drops what does not fit, which its kernel makes up for a second later at the
//! earliest. So only so many connections to one origin are being made at a time, by the whole process. Always: turns
//! are given in the order of asking; one that is dropped, waited for or held, is the next one's.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The turns of one origin; clones are the same turns.
#[derive(Debug, Clone)]
pub struct Connecting {
    most: usize,
    free: Arc<Semaphore>,
}

/// The permission to make one connection.
#[derive(Debug)]
#[must_use = "the turn is over when it is dropped"]
pub struct Turn(#[expect(dead_code, reason = "held for its end")] OwnedSemaphorePermit);

impl Connecting {
    /// So many at a time; those of `before` go on if they were as many.
    pub(super) fn of(most: usize, before: Option<&Self>) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        let same = before.filter(|before| before.most == most).cloned();
        same.unwrap_or_else(|| Self { most, free: Arc::new(Semaphore::new(most)) })
    }

    /// Waits for a turn.
    pub async fn next(&self) -> Option<Turn> {
        // closed by nobody
        Arc::clone(&self.free).acquire_owned().await.ok().map(Turn)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_have_a_turn_and_the_others_follow_in_order() {
        let connecting = Connecting::of(3, None);
        let (now, most, order) = (AtomicUsize::new(0), AtomicUsize::new(0), parking_lot::Mutex::new(Vec::new()));
        let one = |n: u64| {
            let (connecting, now, most, order) = (&connecting, &now, &most, &order);
            async move {
                let _turn = connecting.next().await.unwrap();
                order.lock().push(n);
                most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                tokio::time::sleep(Duration::from_millis(n)).await;
                now.fetch_sub(1, Relaxed);
            }
        };
        let (a, b, c, d, e, f, g, h) = (one(0), one(1), one(2), one(3), one(4), one(5), one(6), one(7));
        tokio::join!(biased; a, b, c, d, e, f, g, h);
        assert_eq!(most.load(Relaxed), 3);
        assert_eq!(*order.lock(), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[tokio::test]
    async fn who_gives_up_waiting_takes_no_turn_along() {
        let connecting = Connecting::of(1, None);
        let first = connecting.next().await.unwrap();
        let mut gives_up = Box::pin(connecting.next());
        let mut waits = Box::pin(connecting.next());
        for waiting in [&mut gives_up, &mut waits] {
            assert!(tokio::time::timeout(Duration::ZERO, waiting.as_mut()).await.is_err());
        }
        drop(first);
        drop(gives_up);
        assert!(tokio::time::timeout(Duration::from_secs(5), waits).await.unwrap().is_some());
    }

    #[test]
    fn a_reload_keeps_turns_unless_their_number_changes() {
        let connecting = Connecting::of(8, None);
        assert!(Arc::ptr_eq(&Connecting::of(8, Some(&connecting)).free, &connecting.free));
        assert!(!Arc::ptr_eq(&Connecting::of(9, Some(&connecting)).free, &connecting.free));
    }
}
