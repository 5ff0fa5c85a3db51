//! Is it this process's turn to answer? While two generations hand over, at most one accepts, and what reaches the one
//! that is succeeded all the same is answered by the other.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::sync::watch;

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// This process accepts.
    Ours,
    /// Nobody does, for a moment.
    Nobodys,
    /// Another process accepts.
    Theirs,
    /// It does so for good.
    Passed,
}

/// The turn of the admin address and the control socket; clones are the same turn.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    whose: Arc<watch::Sender<Whose>>,
    /// Sockets that are accepted from. Ordered after the turn they saw, and before the question whether any is.
    accepting: Arc<AtomicUsize>,
}

struct Accepting(Arc<AtomicUsize>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Turn {
    pub(super) fn new(whose: Whose) -> Self {
        Self { whose: Arc::new(watch::Sender::new(whose)), accepting: Arc::default() }
    }

    pub(super) fn is(&self, whose: Whose) {
        self.whose.send_replace(whose);
    }

    /// Whose it is.
    pub(super) fn whose(&self) -> Whose {
        *self.whose.borrow()
    }

    /// Does another process answer?
    pub(super) fn is_theirs(&self) -> bool {
        matches!(self.whose(), Whose::Theirs | Whose::Passed)
    }

    /// Waits until it is somebody's: what is answered in between would be in nobody's books a moment later.
    pub(super) async fn is_somebodys(&self) {
        // whoever gives turns is gone only when the process is
        let _ = self.whose.subscribe().wait_for(|whose| *whose != Whose::Nobodys).await;
    }

    /// Is no socket accepted from?
    pub(super) fn rests(&self) -> bool {
        self.accepting.load(SeqCst) == 0
    }

    /// What comes next from a socket, when it is our turn; nothing if it never will be again.
    pub(super) async fn accept<T, F>(&self, socket: impl Fn() -> F) -> Option<io::Result<T>>
    where
        F: Future<Output = io::Result<T>>,
    {
        let mut whose = self.whose.subscribe();
        loop {
            // counted before the turn is looked at, so that whoever ended it waits for this
            self.accepting.fetch_add(1, SeqCst);
            let accepting = Accepting(self.accepting.clone());
            let now = *whose.borrow_and_update();
            match now {
                Whose::Ours => tokio::select! {
                    accepted = socket() => return Some(accepted),
                    _ = whose.changed() => continue,
                },
                Whose::Passed => return None,
                Whose::Nobodys | Whose::Theirs => drop(accepting),
            }
            // whoever ends turns is gone only when the process is
            let _ = whose.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_accepted_out_of_turn() {
        let turn = Turn::new(Whose::Nobodys);
        let waits = turn.clone();
        let waiting = tokio::spawn(async move { waits.accept(|| std::future::ready(Ok(7))).await });
        tokio::task::yield_now().await;
        assert!(turn.rests() && !waiting.is_finished());
        turn.is(Whose::Ours);
        assert_eq!(waiting.await.unwrap().unwrap().unwrap(), 7);
        assert!(turn.rests() && !turn.is_theirs());
    }

    #[tokio::test]
    async fn a_question_waits_until_it_is_somebody_s_turn() {
        let turn = Turn::new(Whose::Nobodys);
        let waits = turn.clone();
        let waiting = tokio::spawn(async move { waits.is_somebodys().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        turn.is(Whose::Theirs);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn a_turn_that_ends_stops_an_accept() {
        let turn = Turn::new(Whose::Ours);
        let waits = turn.clone();
        let waiting = tokio::spawn(async move { waits.accept(std::future::pending::<io::Result<()>>).await });
        tokio::task::yield_now().await;
        assert!(!turn.rests());
        turn.is(Whose::Theirs);
        while !turn.rests() {
            tokio::task::yield_now().await;
        }
        assert!(turn.is_theirs() && !waiting.is_finished());
        turn.is(Whose::Passed);
        assert!(waiting.await.unwrap().is_none() && turn.is_theirs());
    }
}
