//! How does an answer leave?
//!
//! Small parts are gathered, large ones written as they are; what the socket does not take waits with Pingora, or here
//! where the route lets it be held back. What was gathered leaves when Pingora writes no more for now, which is when it asks
//! whether the client says something. Always: a client that takes nothing for `send_timeout` is given up.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use tokio::time::Instant;

use super::Connection;
use crate::proxy::wire::Fault;

impl Connection {
    /// Gathers `parts`, or writes them, as fast as they may go: how many bytes of them.
    pub(super) fn poll_parts(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match self.wire.bandwidth() {
            None => self.poll_all(cx, parts),
            Some(bandwidth) => self.poll_slice(cx, parts, bandwidth),
        }
    }

    /// Gathers `parts`, or writes them: how many bytes of them.
    pub(super) fn poll_all(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let total = parts.iter().map(|part| part.len()).sum();
        let taken = loop {
            if !self.wire.has_next() && self.outbox.take(parts, total) {
                break total;
            }
            let taken = match self.poll_send(cx, parts)? {
                Poll::Ready(taken) => taken,
                Poll::Pending => match self.outbox.hold_back(parts, self.wire.holds_back(), self.wire.buffers()) {
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

    /// Pingora writes no more for now (HTTP/1: a length that is not reached is no reason to flush for it). Pending while
    /// bytes are held back and it `idles`: what it read then would be of the next request, and it would not ask again.
    pub(super) fn poll_send_on(&mut self, cx: &mut Context<'_>, idles: bool) -> Poll<io::Result<()>> {
        if self.wire.is_h2() || !self.wire.is_heard() {
            return Poll::Ready(Ok(()));
        }
        match self.poll_empty(cx) {
            Poll::Pending if !idles || self.wire.holds_back() == 0 => Poll::Ready(Ok(())),
            sent => sent,
        }
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
            Poll::Pending if self.wire.is_cut() => {
                self.wire.set_unsent(self.outbox.length());
                self.wire.reset_on_close();
                Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()))
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
