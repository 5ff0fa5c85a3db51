//! When is waiting over? A timer that costs nothing until something really waits, and little where waits are many.
//!
//! Most reads and writes of a connection are ready at once, so the timer is made at the first wait and kept. One that
//! is set already stays as it is while what is waited for comes later: it goes off in vain once in a whole wait, which
//! is less work than to set it anew for every request.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

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
        self.due = Some(due);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(due)));
        if sleep.deadline() > due {
            sleep.as_mut().reset(due);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= due {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;

    /// How long a wait of so many seconds takes, on a clock that jumps to the next timer.
    async fn waits(alarm: &mut Alarm, seconds: u64) -> Duration {
        let now = Instant::now();
        poll_fn(|cx| alarm.poll(cx, now + Duration::from_secs(seconds))).await;
        now.elapsed()
    }

    /// Waits that end early, as nearly all do.
    async fn is_left_alone(alarm: &mut Alarm, due: Instant) {
        assert!(poll_fn(|cx| Poll::Ready(alarm.poll(cx, due))).await.is_pending());
        alarm.clear();
    }

    #[tokio::test(start_paused = true)]
    async fn goes_off_when_it_is_due_whatever_it_was_set_to_before() {
        let mut alarm = Alarm::default();
        let now = Instant::now();
        let second = Duration::from_secs(1);
        for due in [5, 9, 3, 20] {
            is_left_alone(&mut alarm, now + due * second).await;
        }
        for due in [30, 2, 2, 7] {
            let took = waits(&mut alarm, due).await;
            assert!((due * 1000..due * 1000 + 10).contains(&(took.as_millis() as u64)), "{due} s took {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn is_set_once_for_waits_that_end_early() {
        let mut alarm = Alarm::default();
        let now = Instant::now();
        for due in 1..100 {
            is_left_alone(&mut alarm, now + Duration::from_secs(due)).await;
        }
        assert_eq!(alarm.sleep.unwrap().deadline(), now + Duration::from_secs(1));
    }
}
