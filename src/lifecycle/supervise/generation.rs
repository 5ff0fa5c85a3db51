//! What does the supervisor know of a process it started? Its number, since when it lives, and what it says.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use super::line::{Line, Said};

/// A process that was started.
pub(super) struct Generation {
    pub(super) pid: Pid,
    pub(super) since: Instant,
    /// Until it breaks off.
    line: Option<Line>,
}

impl Generation {
    pub(super) fn new(pid: Pid, line: Line, since: Instant) -> Self {
        Self { pid, since, line: Some(line) }
    }

    /// For poll(2).
    pub(super) fn line(&self) -> Option<BorrowedFd<'_>> {
        Some(self.line.as_ref()?.stream().as_fd())
    }

    /// What it said and was not heard yet.
    pub(super) fn says(&mut self) -> Option<Said> {
        let mut ready = [PollFd::new(self.line()?, PollFlags::POLLIN)];
        if poll(&mut ready, PollTimeout::ZERO) != Ok(1) {
            return None;
        }
        let said = self.line.as_ref()?.hear().ok();
        if said.is_none() {
            self.line = None;
        }
        said
    }
}
