//! How does an answer keep to its bandwidth?
//!
//! Only so much is taken of Pingora at once as may go now; until the next slice may, it waits with its origin. That its
//! client takes nothing meanwhile is nobody's fault, so no other time limit runs.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use tokio::time::Instant;

use super::super::alarm::Alarm;
use super::super::outbox::first;
use super::Connection;
use crate::traffic::{Pace, slice};

/// The pace of one answer of a connection.
pub(super) struct Throttle {
    /// Which it is.
    answer: u32,
    per_second: u64,
    /// None before its header is out.
    pace: Option<Pace>,
    due: Instant,
    alarm: Alarm,
}

impl Throttle {
    pub(super) fn new(per_second: u64, answer: u32) -> Self {
        Self { answer, per_second, pace: None, due: Instant::now(), alarm: Alarm::default() }
    }

    /// Which answer of its connection it is of.
    pub(super) fn answer(&self) -> u32 {
        self.answer
    }

    /// Ready once more may go; wakes the task then.
    fn poll_due(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.due;
        if Instant::now() < due {
            ready!(self.alarm.poll(cx, due));
        }
        Poll::Ready(())
    }

    /// So many bytes went. The first are the header, which Pingora writes by itself: they are free.
    fn went(&mut self, bytes: usize) {
        let now = Instant::now();
        match &mut self.pace {
            Some(pace) => self.due = pace.went(bytes, now.into_std()).into(),
            None => self.pace = Some(Pace::new(self.per_second, now.into_std())),
        }
    }
}

impl Connection {
    /// The next slice of `parts`, once it may go: how many bytes of them that is.
    pub(super) fn poll_slice(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
        (per_second, answer): (u64, u32),
    ) -> Poll<io::Result<usize>> {
        let Some(throttle) = self.followed.pace_mut(per_second, answer) else { return self.poll_all(cx, parts) };
        let most = if throttle.pace.is_some() { slice(per_second) } else { usize::MAX };
        if throttle.poll_due(cx).is_pending() {
            // what was gathered of the slice before does not wait with this one
            if let Poll::Ready(Err(error)) = self.poll_empty(cx) {
                return Poll::Ready(Err(error));
            }
            let is_cut = self.wire.is_cut();
            return if is_cut { Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())) } else { Poll::Pending };
        }
        let taken = ready!(self.poll_all(cx, &first(parts, most)))?;
        if let Some(throttle) = self.followed.pace_mut(per_second, answer) {
            throttle.went(taken);
        }
        Poll::Ready(Ok(taken))
    }
}
