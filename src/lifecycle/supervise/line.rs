//! What do the supervisor and a process it started say to each other, and how does it look on the line between them?
//!
//! A message is one byte for its kind, two for the number of descriptors, two for the length of a text, and both. The
//! process takes what it is given first; later it only speaks, but for the end of a process it asked for. Always: whoever
//! reads waits for [`PATIENCE`] at most, so that neither can hold up the other.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::lifecycle::handoff::rights;

/// For each read and write.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is said.
#[derive(Debug)]
pub(super) enum Said {
    /// These sockets listen: held by the supervisor over a crash, served by the process.
    Sockets(Vec<OwnedFd>),
    /// The text last served, in a file of memory; nothing yet.
    Text(Option<OwnedFd>),
    /// The process leaves: nothing is to be held for another one.
    Leaving,
    /// At this path the process hands over to the next one.
    Control(PathBuf),
    /// Another process is to take over; the number tells one such wish from the next.
    Upgrade(u32),
    /// Whoever was started for that wish ended without having taken over, so.
    Ended(u32, String),
}

/// One end.
#[derive(Debug)]
pub(super) struct Line(UnixStream);

impl Line {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self(stream))
    }

    /// Two ends.
    pub(super) fn pair() -> io::Result<(Self, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((Self::new(ours)?, theirs))
    }

    /// For poll(2).
    pub(super) fn stream(&self) -> &UnixStream {
        &self.0
    }

    pub(super) fn say(&self, said: &Said) -> io::Result<()> {
        let (kind, descriptors, text) = match said {
            Said::Sockets(sockets) => (b'S', sockets.as_slice(), Vec::new()),
            Said::Text(text) => (b'T', text.as_slice(), Vec::new()),
            Said::Leaving => (b'L', &[][..], Vec::new()),
            Said::Control(path) => (b'C', &[][..], path.as_os_str().as_bytes().to_vec()),
            Said::Upgrade(number) => (b'U', &[][..], number.to_be_bytes().to_vec()),
            Said::Ended(number, how) => (b'E', &[][..], [&number.to_be_bytes(), how.as_bytes()].concat()),
        };
        let short = |length: usize| u16::try_from(length).map_err(|_| io::ErrorKind::InvalidInput);
        let ([a, b], [c, d]) = (short(descriptors.len())?.to_be_bytes(), short(text.len())?.to_be_bytes());
        (&self.0).write_all(&[&[kind, a, b, c, d], text.as_slice()].concat())?;
        rights::send(&self.0, descriptors)
    }

    /// Is there a message, or the end?
    pub(super) fn has_something(&self) -> bool {
        poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
    }

    /// The next message; waits for it.
    pub(super) fn hear(&self) -> io::Result<Said> {
        let mut head = [0; 5];
        (&self.0).read_exact(&mut head)?;
        let [kind, a, b, c, d] = head;
        let mut text = vec![0; u16::from_be_bytes([c, d]).into()];
        (&self.0).read_exact(&mut text)?;
        let mut descriptors = rights::receive(&self.0, u16::from_be_bytes([a, b]).into())?;
        match kind {
            b'S' => Ok(Said::Sockets(descriptors)),
            b'T' => Ok(Said::Text(descriptors.pop())),
            b'L' => Ok(Said::Leaving),
            b'C' => Ok(Said::Control(OsString::from_vec(text).into())),
            b'U' => numbered(&text).map(|(number, _)| Said::Upgrade(number)),
            b'E' => numbered(&text).map(|(number, how)| Said::Ended(number, how)),
            _ => Err(other_version()),
        }
    }
}

/// The number in front of a text.
fn numbered(text: &[u8]) -> io::Result<(u32, String)> {
    let (number, rest) = text.split_first_chunk().ok_or_else(other_version)?;
    Ok((u32::from_be_bytes(*number), String::from_utf8_lossy(rest).into_owned()))
}

fn other_version() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message of another version")
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        let (ours, theirs) = Line::pair().unwrap();
        let theirs = Line::new(theirs).unwrap();
        let file = || OwnedFd::from(File::open("/dev/null").unwrap());
        ours.say(&Said::Sockets((0..300).map(|_| file()).collect())).unwrap();
        ours.say(&Said::Text(Some(file()))).unwrap();
        ours.say(&Said::Text(None)).unwrap();
        ours.say(&Said::Leaving).unwrap();
        ours.say(&Said::Control("/run/a b".into())).unwrap();
        ours.say(&Said::Upgrade(7)).unwrap();
        ours.say(&Said::Ended(7, "exit status: 1".into())).unwrap();
        assert!(matches!(theirs.hear().unwrap(), Said::Sockets(sockets) if sockets.len() == 300));
        assert!(matches!(theirs.hear().unwrap(), Said::Text(Some(_))));
        assert!(matches!(theirs.hear().unwrap(), Said::Text(None)));
        assert!(matches!(theirs.hear().unwrap(), Said::Leaving));
        assert!(matches!(theirs.hear().unwrap(), Said::Control(path) if path.as_os_str() == "/run/a b"));
        assert!(matches!(theirs.hear().unwrap(), Said::Upgrade(7)));
        assert!(matches!(theirs.hear().unwrap(), Said::Ended(7, how) if how == "exit status: 1"));
        drop(ours);
        assert_eq!(theirs.hear().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_half_message_is_an_error_in_time() {
        let (ours, mut theirs) = Line::pair().unwrap();
        theirs.write_all(b"S\0\x02\0\0").unwrap();
        assert!(ours.hear().is_err());
        theirs.write_all(b"?\0\0\0\0").unwrap();
        assert_eq!(ours.hear().unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
