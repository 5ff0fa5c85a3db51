//! What does the supervisor know of a process it started? Its number, since when it lives, and what it says.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nix::unistd::Pid;

use super::line::{Line, Said};

/// A process that was started.
pub(super) struct Generation {
    pub(super) pid: Pid,
    pub(super) since: Instant,
    /// Who asked for it, by which number, if somebody did.
    pub(super) asked_by: Option<(Pid, u32)>,
    /// Until it breaks off.
    line: Option<Line>,
}

impl Generation {
    pub(super) fn new(pid: Pid, line: Line, since: Instant) -> Self {
        Self { pid, since, asked_by: None, line: Some(line) }
    }

    /// Tells it something, if it still listens.
    pub(super) fn tell(&self, said: &Said) {
        if let Some(Err(error)) = self.line.as_ref().map(|line| line.say(said)) {
            log::warn!("process {} does not listen: {error}", self.pid);
        }
    }

    /// For poll(2).
    pub(super) fn line(&self) -> Option<BorrowedFd<'_>> {
        Some(self.line.as_ref()?.stream().as_fd())
    }

    /// What it said and was not heard yet.
    pub(super) fn says(&mut self) -> Option<Said> {
        let said = self.line.as_ref().filter(|line| line.has_something())?.hear().ok();
        if said.is_none() {
            self.line = None;
        }
        said
    }
}
