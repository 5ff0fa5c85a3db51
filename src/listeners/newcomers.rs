//! How does a listening socket close without a client being reset that was told it is connected?
//!
//! The kernel resets whoever is in the queue of a socket that closes, and answers a client's first packet for as long as
//! it is open: between the last look into the queue and the close there is always room for one more. So the socket goes
//! deaf to first packets before it is emptied. What completes a handshake that has begun is still heard; who calls
//! meanwhile repeats itself after a second, and is refused by then, as everybody is once the socket is closed.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockFilter, SockRef};

/// For handshakes that have begun: a few round trips of a balancer, one around half the world.
pub(super) const HANDSHAKE: Duration = Duration::from_millis(200);

// Of classic BPF; the packet begins with its TCP header, whose flags are its 14th byte.
const LOAD_FLAGS: SockFilter = SockFilter::new(0x30, 0, 0, 13);
const PASS_UNLESS_SYN: SockFilter = SockFilter::new(0x45, 0, 1, 0x02);
const DROP: SockFilter = SockFilter::new(0x06, 0, 0, 0);
const PASS: SockFilter = SockFilter::new(0x06, 0, 0, u32::MAX);

/// Nobody can begin to connect any more. It cannot be undone for whoever else holds the socket.
///
/// # Errors
/// The system does not know filters, or forbids them.
pub(super) fn refuse(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).attach_filter(&[LOAD_FLAGS, PASS_UNLESS_SYN, DROP, PASS])
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn who_is_connected_stays_and_nobody_else_is_told_so() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let to = listener.local_addr().unwrap();
            let mut before = TcpStream::connect(to).unwrap();
            refuse(&listener).unwrap();
            let late = TcpStream::connect_timeout(&to, Duration::from_millis(100)).unwrap_err();
            assert_eq!(late.kind(), ErrorKind::TimedOut, "{address}");
            let (mut accepted, _) = listener.accept().unwrap();
            drop(listener);
            before.write_all(b"in").unwrap();
            accepted.read_exact(&mut [0; 2]).unwrap();
            accepted.write_all(b"out").unwrap();
            drop(accepted);
            let mut answer = String::new();
            before.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "out", "{address}");
            assert_eq!(TcpStream::connect(to).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
    }
}
