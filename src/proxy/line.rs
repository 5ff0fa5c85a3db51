//! What is a connection to an origin that the shard keeps itself? A socket without TLS, counted as long as it is open.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::pool::Origin;

/// A connection to an origin.
#[derive(Debug)]
pub(super) struct Line {
    socket: Socket,
    origin: Arc<Origin>,
    number: u64,
}

/// What it goes through.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Line {
    /// A connection that was just made: its origin's of this number.
    pub(super) fn new(socket: Socket, origin: Arc<Origin>, number: u64) -> Self {
        origin.connection_opened();
        Self { socket, origin, number }
    }

    pub(super) fn fd(&self) -> RawFd {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_raw_fd(),
            Socket::Unix(socket) => socket.as_raw_fd(),
        }
    }

    pub(super) fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// Its origin has neither closed it nor said anything, by what the reactor knows: no system call is made to ask about
    /// one that is quiet.
    pub(super) fn is_quiet(&self) -> bool {
        let read = match &self.socket {
            Socket::Tcp(socket) => socket.try_read(&mut [0]),
            Socket::Unix(socket) => socket.try_read(&mut [0]),
        };
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.origin.connection_closed(self.number);
    }
}

impl Socket {
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Unix(socket) => Pin::new(socket).poll_read(cx, buf),
        }
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        match (self, parts) {
            (Self::Tcp(socket), [one]) => Pin::new(socket).poll_write(cx, one),
            (Self::Unix(socket), [one]) => Pin::new(socket).poll_write(cx, one),
            (Self::Tcp(socket), parts) => Pin::new(socket).poll_write_vectored(cx, parts),
            (Self::Unix(socket), parts) => Pin::new(socket).poll_write_vectored(cx, parts),
        }
    }

    /// What is written does not wait for more.
    pub(super) fn send_at_once(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_nodelay(true),
            Self::Unix(_) => Ok(()),
        }
    }

    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
        }
    }
}
