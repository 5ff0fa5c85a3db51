//! Which sockets are open to an origin? So that connections that wait for a request can be closed when none will come.
//!
//! Pingora's pool cannot be asked to close them; a socket that is shut down ends its connection's wait there. Always
//! holds: a descriptor in here is open, since whoever closes a connection takes it out first, under the same lock.

use std::collections::HashMap;
use std::os::fd::RawFd;

use nix::sys::socket::{Shutdown, shutdown};
use parking_lot::Mutex;

/// Descriptors by the number of their connection.
#[derive(Debug, Default)]
pub(super) struct Sockets(Mutex<HashMap<u64, RawFd>>);

impl Sockets {
    pub(super) fn opened(&self, connection: u64, fd: RawFd) {
        self.0.lock().insert(connection, fd);
    }

    /// To be called before the descriptor is closed.
    pub(super) fn closed(&self, connection: u64) {
        self.0.lock().remove(&connection);
    }

    /// Ends all of them.
    pub(super) fn shut_down(&self) {
        for fd in self.0.lock().values() {
            // One that the other side has just closed is not connected any more.
            let _ = shutdown(*fd, Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_open_is_ended_and_what_was_closed_left_alone() {
        let sockets = Sockets::default();
        let ((ended, mut one), (kept, other)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        sockets.opened(1, ended.as_raw_fd());
        sockets.opened(2, kept.as_raw_fd());
        sockets.closed(2);
        sockets.shut_down();
        assert_eq!(one.read(&mut [0; 1]).unwrap(), 0);
        other.set_nonblocking(true).unwrap();
        assert_eq!((&other).read(&mut [0; 1]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}
