//! The control socket: a path only its owner may open, and only one gateway may hold.
//!
//! A path somebody listens on is an error that names who; one that is left over is replaced. The path is removed at
//! the end only if it still is the socket that was made here (a successor may have put its own in place).

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen, socket,
};
use nix::sys::stat::{Mode, fchmod};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 64;

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Somebody listens there.
    #[error("control socket {} is in use by {}", path.display(), holder(*pid))]
    InUse {
        /// The path.
        path: PathBuf,
        /// Who, when that can be told.
        pid: Option<i32>,
    },
    /// Something else is there.
    #[error("control socket {}: there is something else at this path", .0.display())]
    NoSocket(PathBuf),
    /// The system refuses.
    #[error("control socket {}: {cause}", path.display())]
    System {
        /// The path.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
}

fn holder(pid: Option<i32>) -> String {
    pid.map_or_else(|| "another process".into(), |pid| format!("process {pid}"))
}

/// Where the control socket is when the configuration does not say: `/run/moorgate/` for root, else
/// `$XDG_RUNTIME_DIR/moorgate/`; nowhere without that.
pub fn default_path() -> Option<PathBuf> {
    let folder = match nix::unistd::geteuid().is_root() {
        true => PathBuf::from("/run"),
        false => std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty())?.into(),
    };
    Some(folder.join("moorgate/control.sock"))
}

/// The path of a socket that is listened on; removed when this is dropped, unless it is another process's by then.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    is_ours: bool,
}

impl Claim {
    /// Listens on `path`.
    pub(super) fn new(path: &Path) -> Result<(Self, UnixListener), SocketError> {
        let failed = |cause: io::Error| SocketError::System { path: path.into(), cause };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        // Two gateways that start at once must not both take a left-over path for theirs to replace.
        let _lock = File::open(folder).ok().map(|folder| Flock::lock(folder, FlockArg::LockExclusive));
        let address = UnixAddr::new(path).map_err(|errno| failed(errno.into()))?;
        if let Ok(found) = fs::symlink_metadata(path) {
            Self::clear(path, &address, &found)?;
        }
        let listener = listen_privately(&address).map_err(|errno| failed(errno.into()))?;
        let made = fs::symlink_metadata(path).map_err(failed)?;
        let claim = Self { path: path.into(), identity: (made.dev(), made.ino()), is_ours: true };
        Ok((claim, UnixListener::from(listener)))
    }

    /// The path of a socket another process listened on, and still may remove.
    pub(super) fn inherited(path: &Path) -> Result<Self, SocketError> {
        let failed = |cause: io::Error| SocketError::System { path: path.into(), cause };
        let found = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self { path: path.into(), identity: (found.dev(), found.ino()), is_ours: false })
    }

    /// Listens anew if the path is gone, and is this process's; one more descriptor is for the next process.
    pub(super) fn again(&mut self) -> Option<io::Result<(UnixListener, OwnedFd)>> {
        let gone = || fs::symlink_metadata(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        (self.is_ours && gone()).then(|| {
            let (claim, listener) = Self::new(&self.path).map_err(io::Error::other)?;
            // what is there now may have the number of what was
            self.is_ours = false;
            *self = claim;
            Ok((listener.try_clone()?, listener.into()))
        })
    }

    /// Is it this process's to remove?
    pub(super) fn ours(&self) -> bool {
        self.is_ours
    }

    /// It is this process's to remove, or another's.
    pub(super) fn is_ours(&mut self, is_ours: bool) {
        self.is_ours = is_ours;
    }

    /// The path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes room at `path` if what is there is a socket nobody listens on.
    fn clear(path: &Path, address: &UnixAddr, found: &fs::Metadata) -> Result<(), SocketError> {
        if !found.file_type().is_socket() {
            return Err(SocketError::NoSocket(path.into()));
        }
        let failed = |cause: io::Error| SocketError::System { path: path.into(), cause };
        match held(address) {
            Ok(None) => fs::remove_file(path).map_err(failed),
            Ok(Some(pid)) => Err(SocketError::InUse { path: path.into(), pid: (pid > 0).then_some(pid) }),
            Err(errno) => Err(failed(errno.into())),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let same = || fs::symlink_metadata(&self.path).is_ok_and(|now| (now.dev(), now.ino()) == self.identity);
        if self.is_ours
            && same()
            && let Err(error) = fs::remove_file(&self.path)
        {
            log::warn!("control socket {}: cannot be removed: {error}", self.path.display());
        }
    }
}

/// Do both paths lead to one socket?
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    identity(one).is_some_and(|found| identity(other) == Some(found))
}

/// The process that listens at `address`, 0 when it cannot be told, `None` when nobody does.
fn held(address: &UnixAddr) -> Result<Option<i32>, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let asking = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(asking.as_raw_fd(), address) {
        Ok(()) => Ok(Some(getsockopt(&asking, PeerCredentials).map_or(0, |found| found.pid()))),
        Err(Errno::EAGAIN) => Ok(Some(0)),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// A listening socket with mode 0600 from its first moment: the mode is set before there is a path.
fn listen_privately(address: &UnixAddr) -> Result<OwnedFd, Errno> {
    let listener = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    fchmod(listener.as_fd(), Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(listener.as_raw_fd(), address)?;
    listen(&listener, Backlog::new(BACKLOG)?)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("moorgate/control.sock");
        (folder, path)
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn socket_and_folder_are_for_their_owner_alone() {
        let (_folder, path) = place();
        let (_claim, _listener) = Claim::new(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
    }

    #[test]
    fn a_socket_in_use_is_an_error_that_names_the_process() {
        let (_folder, path) = place();
        let (_claim, _listener) = Claim::new(&path).unwrap();
        let error = Claim::new(&path).unwrap_err().to_string();
        assert_eq!(error, format!("control socket {} is in use by process {}", path.display(), std::process::id()));
    }

    #[test]
    fn a_socket_nobody_listens_on_is_replaced() {
        let (_folder, path) = place();
        fs::create_dir(path.parent().unwrap()).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let (_claim, _listener) = Claim::new(&path).unwrap();
        assert!(Claim::new(&path).is_err());
    }

    #[test]
    fn another_file_is_left_alone() {
        let (_folder, path) = place();
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Claim::new(&path), Err(SocketError::NoSocket(_))));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn only_our_own_socket_is_removed_at_the_end() {
        let (_folder, path) = place();
        let (claim, listener) = Claim::new(&path).unwrap();
        fs::rename(&path, path.with_extension("old")).unwrap();
        let successor = UnixListener::bind(&path).unwrap();
        drop((claim, listener));
        assert!(path.exists());
        drop(successor);
        let (claim, listener) = Claim::new(&path).unwrap();
        drop((claim, listener));
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_was_passed_on_is_the_next_one_s_to_remove() {
        let (_folder, path) = place();
        let (mut first, _listener) = Claim::new(&path).unwrap();
        let mut next = Claim::inherited(&path).unwrap();
        drop(Claim::inherited(&path).unwrap());
        assert!(path.exists(), "one that does not take over after all leaves it");
        first.is_ours(false);
        next.is_ours(true);
        drop(first);
        assert!(path.exists());
        drop(next);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_is_too_long_is_an_error() {
        let (folder, _) = place();
        let of = |length: usize| folder.path().join("x".repeat(length - 1 - folder.path().as_os_str().len()));
        assert!(Claim::new(&of(107)).is_ok(), "as long as `check` lets it be");
        assert!(matches!(Claim::new(&of(108)), Err(SocketError::System { .. })));
    }
}
