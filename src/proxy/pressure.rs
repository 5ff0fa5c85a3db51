//! Would a socket take more, and does it hold something for us? The kernel's answer, at one moment.
//!
//! For a descriptor that somebody else owns and waits on: a `mio::Poll` of its own asks without touching that wait,
//! and without `unsafe`, which poll(2) by a bare number would need. Three system calls, so it is for the rare moment.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

/// A socket at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pressure {
    /// Bytes written now would be taken: nothing waits to be.
    pub(super) takes: bool,
    /// Something came that was not read.
    pub(super) holds: bool,
}

/// Reads the pressure of any socket.
#[derive(Debug, Default)]
pub(super) struct Gauge(Option<(Poll, Events)>);

impl Gauge {
    /// How it stands with `fd`. What cannot be told looks like a socket that is idle and full.
    pub(super) fn read(&mut self, fd: RawFd) -> Pressure {
        self.ask(fd).unwrap_or(Pressure { takes: false, holds: false })
    }

    fn ask(&mut self, fd: RawFd) -> io::Result<Pressure> {
        let (poll, events) = match &mut self.0 {
            Some(made) => made,
            none => none.insert((Poll::new()?, Events::with_capacity(1))),
        };
        poll.registry().register(&mut SourceFd(&fd), Token(0), Interest::READABLE | Interest::WRITABLE)?;
        let polled = poll.poll(events, Some(Duration::ZERO));
        poll.registry().deregister(&mut SourceFd(&fd))?;
        polled?;
        let seen = |what: fn(&mio::event::Event) -> bool| events.iter().any(what);
        Ok(Pressure { takes: seen(mio::event::Event::is_writable), holds: seen(mio::event::Event::is_readable) })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_says_whether_it_takes_more_and_holds_something() {
        let mut gauge = Gauge::default();
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let fd = near.as_raw_fd();
        assert_eq!(gauge.read(fd), Pressure { takes: true, holds: false });
        far.write_all(b"x").unwrap();
        assert_eq!(gauge.read(fd), Pressure { takes: true, holds: true });
        near.read_exact(&mut [0; 1]).unwrap();
        near.set_nonblocking(true).unwrap();
        while near.write(&[0; 65536]).is_ok() {}
        assert_eq!(gauge.read(fd), Pressure { takes: false, holds: false });
        assert_eq!(gauge.read(-1), Pressure { takes: false, holds: false });
    }
}
