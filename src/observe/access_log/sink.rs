//! Where lines go: a file, a FIFO, standard output or standard error.
//!
//! Always holds: opened for appending; whole lines in one write wherever the kernel allows it; on anything but a
//! file no write above 4,096 bytes unless one line is longer (a pipe takes such a write whole or not at all); and no
//! open or write waits for a reader. A FIFO is opened for reading as well, so that it needs none.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::libc::O_NONBLOCK;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::config::process;

/// What a pipe takes in one piece.
const PIPE_BUF: usize = 4096;

/// An open destination of lines.
pub(super) struct Sink {
    target: Target,
    file: File,
    /// A file on a disk: takes any size, and never has to be waited for.
    on_disk: bool,
}

/// What was asked for.
#[derive(Debug, Clone)]
enum Target {
    Stdout,
    Stderr,
    File(PathBuf),
}

/// How far a write came.
#[derive(Debug)]
pub(super) enum Progress {
    /// This many bytes are out; more may go at once.
    Wrote(usize),
    /// The reader takes nothing now.
    Full,
    /// The system refused.
    Failed(io::Error),
}

impl Sink {
    pub(super) fn open(path: &process::Sink) -> io::Result<Self> {
        Self::to(match path {
            process::Sink::Stdout => Target::Stdout,
            process::Sink::Stderr => Target::Stderr,
            process::Sink::File(path) => Target::File(path.clone()),
        })
    }

    fn to(target: Target) -> io::Result<Self> {
        let file = match &target {
            Target::Stdout => File::from(io::stdout().as_fd().try_clone_to_owned()?),
            Target::Stderr => File::from(io::stderr().as_fd().try_clone_to_owned()?),
            Target::File(path) => open(path)?,
        };
        let on_disk = file.metadata()?.is_file();
        Ok(Self { target, file, on_disk })
    }

    /// Opens the same path anew; the old file stays in use when that fails. Standard streams stay as they are.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        if let Target::File(_) = self.target {
            *self = Self::to(self.target.clone())?;
        }
        Ok(())
    }

    /// Writes the next piece of `lines`, waiting at most `patience` milliseconds for a reader to make room.
    pub(super) fn write(&mut self, lines: &[u8], patience: u16) -> Progress {
        let piece = if self.on_disk { lines } else { piece(lines) };
        if !self.on_disk && !self.ready(patience) {
            return Progress::Full;
        }
        match self.file.write(piece) {
            Ok(n) => Progress::Wrote(n),
            Err(error) if error.kind() == ErrorKind::Interrupted => Progress::Wrote(0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Progress::Full,
            Err(error) => Progress::Failed(error),
        }
    }

    /// May a piece be written without waiting? A pipe without a reader is ready: the write then says why not.
    fn ready(&self, patience: u16) -> bool {
        let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
        poll(&mut fds, PollTimeout::from(patience)).is_ok_and(|ready| ready > 0)
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Stdout => f.write_str("standard output"),
            Target::Stderr => f.write_str("standard error"),
            Target::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Opens a path for appending without ever waiting for a reader.
fn open(path: &Path) -> io::Result<File> {
    let fifo = path.metadata().is_ok_and(|found| found.file_type().is_fifo());
    OpenOptions::new().append(true).read(fifo).create(!fifo).mode(0o644).custom_flags(O_NONBLOCK).open(path)
}

/// As many whole lines as a pipe takes in one piece, or one longer line.
fn piece(lines: &[u8]) -> &[u8] {
    let room = &lines[..lines.len().min(PIPE_BUF)];
    let end = match memchr::memrchr(b'\n', room) {
        Some(last) => last + 1,
        None => memchr::memchr(b'\n', lines).map_or(lines.len(), |first| first + 1),
    };
    &lines[..end]
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;

    fn lines(lengths: &[usize]) -> Vec<u8> {
        lengths.iter().flat_map(|length| [vec![b'x'; length - 1], vec![b'\n']].concat()).collect()
    }

    #[test]
    fn a_pipe_gets_whole_lines_up_to_its_atomic_size() {
        assert_eq!(piece(&lines(&[100, 200])).len(), 300);
        assert_eq!(piece(&lines(&[4096, 1])).len(), 4096);
        assert_eq!(piece(&lines(&[4000, 97])).len(), 4000);
        assert_eq!(piece(&lines(&[5000, 10])).len(), 5000);
        assert_eq!(piece(b"half a line").len(), 11);
    }

    #[test]
    fn a_file_is_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "old\n").unwrap();
        let mut sink = Sink::open(&process::Sink::File(path.clone())).unwrap();
        assert!(matches!(sink.write(b"new\n", 0), Progress::Wrote(4)));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old\nnew\n");
    }

    #[test]
    fn a_fifo_without_a_reader_takes_what_it_holds_and_is_then_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let mut sink = Sink::open(&process::Sink::File(path.clone())).unwrap();
        let all = lines(&[100; 1000]);
        let mut written = 0;
        while let Progress::Wrote(n) = sink.write(&all[written..], 0) {
            assert!(n > 0 && n <= PIPE_BUF && n.is_multiple_of(100), "{n}");
            written += n;
        }
        assert!(written < all.len());
        let mut reader = File::open(&path).unwrap();
        let mut read = vec![0; written];
        reader.read_exact(&mut read).unwrap();
        assert_eq!(read, all[..written]);
        assert!(matches!(sink.write(&all[written..], 0), Progress::Wrote(_)));
    }

    #[test]
    fn a_path_that_cannot_be_opened_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Sink::open(&process::Sink::File(folder.path().join("none/log"))).is_err());
        assert!(Sink::open(&process::Sink::File(folder.path().into())).is_err());
    }

    #[test]
    fn a_failed_reopen_keeps_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
        let mut sink = Sink::open(&process::Sink::File(path.clone())).unwrap();
        std::fs::rename(&path, &moved).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(sink.reopen().is_err());
        sink.write(b"still\n", 0);
        std::fs::remove_dir(&path).unwrap();
        sink.reopen().unwrap();
        sink.write(b"anew\n", 0);
        assert_eq!(std::fs::read_to_string(&moved).unwrap(), "still\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "anew\n");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_are_whole_lines_and_add_up(lengths in proptest::collection::vec(0usize..6000, 1..20)) {
            let all: Vec<u8> = lengths.iter().flat_map(|n| [vec![b'x'; *n], vec![b'\n']].concat()).collect();
            let mut rest = all.as_slice();
            while !rest.is_empty() {
                let next = piece(rest);
                prop_assert_eq!(next.last(), Some(&b'\n'));
                prop_assert!(next.len() <= PIPE_BUF || next.iter().filter(|byte| **byte == b'\n').count() == 1);
                rest = &rest[next.len()..];
            }
        }
    }
}
