//! How do messages travel between two generations? Over one Unix socket, none for longer than it may.
//!
//! Always: never a byte is read beyond the message that is waited for, since descriptors ride on what follows; half a
//! message is kept until the rest comes; only a process of the same user, or of root, is at the other end.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{MsgFlags, getsockopt, recv, send};

use super::message::{Garbled, HEAD, Kind, Message};
use super::rights;

/// Read at once at most: what a message says it holds is believed step by step.
const STEP: usize = 64 << 10;

/// One end.
#[derive(Debug)]
pub struct Line {
    stream: UnixStream,
    /// What has come of the next message.
    begun: Vec<u8>,
}

/// What came.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// A message.
    Said(Message),
    /// What is none.
    Garbled(String),
    /// Nothing in this time.
    Late,
    /// The other side hung up, or is gone.
    Gone,
}

impl Line {
    /// Over `stream`.
    ///
    /// # Errors
    /// Somebody else's process is at the other end.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        let peer = getsockopt(&stream, PeerCredentials)?.uid();
        if peer != 0 && peer != nix::unistd::geteuid().as_raw() {
            let why = format!("the process at the other end is of user {peer}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        stream.set_nonblocking(false)?;
        Ok(Self { stream, begun: Vec::new() })
    }

    /// Sends bytes that are no message, such as the first ones.
    ///
    /// # Errors
    /// They cannot be sent in this time.
    pub fn send(&mut self, bytes: &[u8], within: Duration) -> io::Result<()> {
        let end = now() + within;
        let mut left = bytes;
        while !left.is_empty() {
            match send(self.stream.as_raw_fd(), left, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
                Ok(sent) => left = left.get(sent..).unwrap_or_default(),
                Err(Errno::EAGAIN) if self.wait(PollFlags::POLLOUT, end)? => {}
                Err(Errno::EAGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Says this.
    ///
    /// # Errors
    /// It cannot be said in this time.
    pub fn say(&mut self, message: &Message, within: Duration) -> io::Result<()> {
        let bytes = message.encode().map_err(|garbled| io::Error::new(io::ErrorKind::InvalidData, garbled))?;
        self.send(&bytes, within)
    }

    /// Hands over descriptors.
    ///
    /// # Errors
    /// They cannot be sent in this time.
    pub fn give<D: AsFd>(&self, descriptors: &[D], within: Duration) -> io::Result<()> {
        self.stream.set_write_timeout(Some(within))?;
        rights::send(&self.stream, descriptors)
    }

    /// Receives descriptors.
    ///
    /// # Errors
    /// They do not come in this time, or something else does.
    pub fn take(&self, count: usize, within: Duration) -> io::Result<Vec<OwnedFd>> {
        self.stream.set_read_timeout(Some(within))?;
        rights::receive(&self.stream, count)
    }

    /// Do these bytes come first?
    pub fn begins_with(&mut self, bytes: &[u8], within: Duration) -> bool {
        let end = now() + within;
        while self.begun.len() < bytes.len() {
            if self.read(bytes.len(), end).is_err() {
                return false;
            }
        }
        std::mem::take(&mut self.begun) == bytes
    }

    /// Waits for a message.
    pub fn hear(&mut self, within: Duration) -> Heard {
        let end = now() + within;
        loop {
            match self.next(end) {
                Ok(Some(message)) => return Heard::Said(message),
                Ok(None) => {}
                Err(Broken::Garbled(garbled)) => return Heard::Garbled(garbled.to_string()),
                Err(Broken::Late) => return Heard::Late,
                Err(Broken::Gone) => return Heard::Gone,
            }
        }
    }

    /// Reads on; a message if it is whole by now.
    fn next(&mut self, end: Instant) -> Result<Option<Message>, Broken> {
        let Some(head) = self.begun.first_chunk::<HEAD>() else {
            self.read(HEAD, end)?;
            return Ok(None);
        };
        let (kind, length) = Kind::of_head(*head)?;
        if self.begun.len() < HEAD + length {
            self.read(HEAD + length, end)?;
            return Ok(None);
        }
        let content = self.begun.split_off(HEAD);
        self.begun.clear();
        Ok(Some(Message::decode(kind, content)?))
    }

    /// Reads once, until there are `wanted` bytes at most.
    fn read(&mut self, wanted: usize, end: Instant) -> Result<(), Broken> {
        let have = self.begun.len();
        self.begun.resize(wanted.min(have + STEP), 0);
        let room = self.begun.get_mut(have..).unwrap_or_default();
        let read = recv(self.stream.as_raw_fd(), room, MsgFlags::MSG_DONTWAIT);
        self.begun.truncate(have + read.unwrap_or(0));
        match read {
            Ok(0) => Err(Broken::Gone),
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(Errno::EAGAIN) => match self.wait(PollFlags::POLLIN, end) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Broken::Late),
                Err(_) => Err(Broken::Gone),
            },
            Err(_) => Err(Broken::Gone),
        }
    }

    /// Waits until the socket can be used so, or is broken; false: not in time.
    fn wait(&self, way: PollFlags, end: Instant) -> io::Result<bool> {
        let left = end.saturating_duration_since(now());
        let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.stream.as_fd(), way)], left) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }
}

enum Broken {
    Garbled(Garbled),
    Late,
    Gone,
}

impl From<Garbled> for Broken {
    fn from(garbled: Garbled) -> Self {
        Self::Garbled(garbled)
    }
}

#[expect(clippy::disallowed_methods, reason = "what is waited for has an end")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::message::tests::example;
    use super::*;

    const SOON: Duration = Duration::from_secs(10);
    const SHORT: Duration = Duration::from_millis(20);

    fn pair() -> (Line, Line) {
        let (a, b) = UnixStream::pair().unwrap();
        (Line::new(a).unwrap(), Line::new(b).unwrap())
    }

    #[test]
    fn messages_and_descriptors_arrive_in_the_order_they_were_sent() {
        let (mut a, mut b) = pair();
        for kind in Kind::ALL {
            a.say(&example(kind), SOON).unwrap();
            a.give(&[io::stdin(), io::stdin()], SOON).unwrap();
        }
        for kind in Kind::ALL {
            assert_eq!(b.hear(SOON), Heard::Said(example(kind)));
            assert_eq!(b.take(2, SOON).unwrap().len(), 2);
        }
        assert_eq!(b.hear(Duration::ZERO), Heard::Late);
        drop(a);
        assert_eq!(b.hear(SOON), Heard::Gone);
    }

    #[test]
    fn half_a_message_waits_for_its_rest() {
        let (mut a, mut b) = pair();
        let bytes = example(Kind::Offer).encode().unwrap();
        for byte in bytes.chunks(1) {
            assert_eq!(b.hear(Duration::ZERO), Heard::Late);
            a.stream.write_all(byte).unwrap();
        }
        assert_eq!(b.hear(Duration::ZERO), Heard::Said(example(Kind::Offer)));
        a.stream.write_all(&bytes[..9]).unwrap();
        drop(a);
        assert_eq!(b.hear(SOON), Heard::Gone);
    }

    #[test]
    fn a_long_message_passes_and_one_nobody_reads_does_not() {
        let (mut a, mut b) = pair();
        let long = Message::State(vec![7; 3 << 20]);
        let sent = long.clone();
        let sender = std::thread::spawn(move || a.say(&sent, SOON).map(|()| a));
        assert_eq!(b.hear(SOON), Heard::Said(long.clone()));
        let mut a = sender.join().unwrap().unwrap();
        assert_eq!(a.say(&long, SHORT).unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(b);
        assert!(a.say(&long, SOON).is_err());
    }

    #[test]
    fn what_is_no_message_is_told() {
        for (bytes, said) in [
            (&b"GET / HTTP/1.1\r\n"[..], "no message begins with the byte 71"),
            (&[1, 255, 0, 0, 0], "a message of 4278190080 bytes"),
            (&[1, 0, 0, 0, 2, b'{', b'}'], "hello: missing field"),
        ] {
            let (mut a, mut b) = pair();
            a.send(bytes, SOON).unwrap();
            let heard = b.hear(SOON);
            assert!(matches!(&heard, Heard::Garbled(why) if why.starts_with(said)), "{heard:?}");
        }
    }
}
