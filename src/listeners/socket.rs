//! Through what does a connection reach its client? A socket, and TLS on it where its listener speaks that.
//!
//! Below the connection's own limits and above the kernel: bytes of HTTP go in and come out. Always: a read or write that
//! cannot go on has registered the task with the socket, so that it is woken.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use tokio::io::{Interest, ReadBuf};
use tokio::net::TcpStream;

use super::secured::{MOST, Secured};

/// A client's socket.
pub(super) enum Socket {
    Plain(Arc<TcpStream>),
    Tls(Box<Secured>),
}

impl Socket {
    /// The socket itself.
    pub(super) fn tcp(&self) -> &Arc<TcpStream> {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(secured) => secured.tcp(),
        }
    }

    /// Whether bytes wait here that came from the socket already.
    pub(super) fn holds_bytes(&self) -> bool {
        matches!(self, Self::Tls(secured) if secured.holds_bytes())
    }

    /// Whether bytes wait here that were taken and have not all left.
    pub(super) fn holds_back(&self) -> bool {
        matches!(self, Self::Tls(secured) if secured.holds_back())
    }

    /// Whether the client sent too much that is none of HTTP.
    pub(super) fn has_enough(&self) -> bool {
        matches!(self, Self::Tls(secured) if secured.has_enough())
    }

    /// Reads into `buf`, at most `space` bytes: how many.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        space: usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(tcp) => read(tcp, cx, buf, space),
            Self::Tls(secured) => loop {
                match secured.read(buf.initialize_unfilled_to(space.min(MOST))) {
                    Ok(count) => {
                        buf.advance(count);
                        return Poll::Ready(Ok(count));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(secured.poll_wanted(cx))?,
                    Err(error) => return Poll::Ready(Err(error)),
                }
            },
        }
    }

    /// Writes the start of `slices`, and before that what was held back: how many bytes of them were taken.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            let written = match self {
                Self::Plain(tcp) => {
                    ready!(tcp.poll_write_ready(cx))?;
                    tcp.try_write_vectored(slices)
                }
                Self::Tls(secured) => secured.write(slices),
            };
            match (written, &self) {
                (Err(error), Self::Tls(secured)) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(secured.poll_wanted(cx))?;
                }
                (Err(error), Self::Plain(_)) if error.kind() == io::ErrorKind::WouldBlock => {}
                (done, _) => return Poll::Ready(done),
            }
        }
    }

    /// The client is waited for: what it need not wait for leaves now.
    pub(super) fn falls_silent(&mut self) {
        if let Self::Tls(secured) = self {
            secured.falls_silent();
        }
    }

    /// Tells the client that nothing follows.
    pub(super) fn say_goodbye(&mut self) {
        if let Self::Tls(secured) = self {
            secured.say_goodbye();
        }
    }
}

fn read(tcp: &TcpStream, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>, space: usize) -> Poll<io::Result<usize>> {
    loop {
        ready!(tcp.poll_read_ready(cx))?;
        match tcp.try_read_buf(&mut (&mut *buf).limit(space)) {
            Ok(n) => {
                if n < space {
                    drained(tcp);
                }
                return Poll::Ready(Ok(n));
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Poll::Ready(Err(e)),
        }
    }
}

/// A read that did not fill its space emptied the socket: waits for the next edge without asking the kernel again, or
/// the parked connection would wake for nothing. The result only says what was told.
pub(super) fn drained(socket: &TcpStream) {
    let _ = socket.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
}
