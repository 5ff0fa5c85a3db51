//! How does an answer leave?
//!
//! Small parts are gathered, large ones written as they are; what the socket does not take waits with Pingora, or here
//! where the route lets it be held back. Always: a client that takes nothing for `send_timeout` is given up.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use tokio::time::Instant;

use super::Connection;
use crate::proxy::wire::Fault;

impl Connection {
    /// Gathers `parts`, or writes them: how many bytes of them.
    pub(super) fn poll_parts(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let total = parts.iter().map(|part| part.len()).sum();
        let taken = loop {
            if self.outbox.take(parts, total) {
                break total;
            }
            let taken = match self.poll_send(cx, parts)? {
                Poll::Ready(taken) => taken,
                Poll::Pending => match self.outbox.hold_back(parts, self.wire.holds_back()) {
                    0 => return Poll::Pending,
                    held => held,
                },
            };
            if taken > 0 {
                break taken;
            }
        };
        self.follow(parts, taken);
        Poll::Ready(Ok(taken))
    }

    /// Writes until nothing waits.
    pub(super) fn poll_empty(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.outbox.is_empty() || self.socket.holds_back() {
            ready!(self.poll_send(cx, &[]))?;
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, more: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let sent = self.outbox.poll_send(cx, &mut self.socket, more);
        match sent {
            Poll::Ready(Ok(taken)) => {
                self.writing.clear();
                Poll::Ready(Ok(taken))
            }
            Poll::Ready(Err(e)) => {
                self.wire.set_unsent(self.outbox.length());
                Poll::Ready(Err(e))
            }
            Poll::Pending => {
                let limit = self.wire.limits().send_timeout;
                let due = self.writing.due().unwrap_or_else(|| Instant::now() + limit);
                ready!(self.writing.poll(cx, due));
                self.wire.set_unsent(self.outbox.length());
                self.wire.set_fault(Fault::SendTimeout);
                self.wire.reset_on_close();
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}
