//! Which descriptors did this process get at its start, beside the three standard ones? Whoever started it says their
//! numbers in the environment; nothing else here may open them, and each is taken once.

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::fcntl::{FcntlArg, fcntl};

/// Takes the descriptor of this number, which the process was started with.
///
/// # Errors
/// It is not open.
#[expect(unsafe_code, reason = "a number from the environment becomes a descriptor here, and nowhere else")]
pub(super) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a standard descriptor"));
    }
    // SAFETY: it is borrowed for one call, which says of a number that is no open descriptor that it is none.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    fcntl(borrowed, FcntlArg::F_GETFD)?;
    // SAFETY: it is open, and was when the process began: the environment says that it was passed to us. It is asked for
    // before anything else is opened, so that no other owner can have got this number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_open_or_is_a_standard_one_is_refused() {
        assert!(inherited(1).is_err());
        assert!(inherited(1_000_000).is_err());
    }
}
