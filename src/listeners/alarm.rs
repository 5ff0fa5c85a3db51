//! When is waiting over? A timer that costs nothing until something really waits.
//!
//! Most reads and writes of a connection are ready at once, so the timer is made at the first wait and kept.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep, sleep_until};

/// A timer, set or not.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    due: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// When it goes off, if it is set.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Nothing is waited for any more.
    pub(super) fn clear(&mut self) {
        self.due = None;
    }

    /// Ready once `due` has come; wakes the task then.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, due: Instant) -> Poll<()> {
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if self.due != Some(due) {
            self.due = Some(due);
            sleep.as_mut().reset(due);
        }
        sleep.as_mut().poll(cx)
    }
}
