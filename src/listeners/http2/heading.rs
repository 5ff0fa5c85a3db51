//! Since when is a header under way?
//!
//! From the HEADERS frame to the last byte of its block nothing else may come on a connection (RFC 9113, section 4.3), so that
//! one client that stalls there holds all its streams up: it has the time a header may take. The preface counts as one.

use tokio::time::Instant;

use super::frames::{CONTINUATION, END_HEADERS, Frame, HEADERS};

/// The header that is read, if one is.
#[derive(Debug)]
pub(super) struct Heading {
    since: Option<Instant>,
    /// The last frame belongs to one.
    last: bool,
    /// Another frame of it has to follow.
    open: bool,
}

impl Heading {
    /// Of a connection whose next byte is the first of its preface.
    pub(super) fn preface() -> Self {
        Self { since: None, last: true, open: false }
    }

    /// This frame begins.
    pub(super) fn take(&mut self, frame: Frame) {
        self.last = matches!(frame.kind, HEADERS | CONTINUATION);
        if self.last {
            self.open = frame.flags & END_HEADERS == 0;
        }
        if frame.kind == HEADERS {
            self.since = None;
        }
    }

    /// Bytes came; `within`: the last frame is not whole.
    pub(super) fn came(&mut self, within: bool, now: impl FnOnce() -> Instant) {
        if self.open || self.last && within {
            self.since.get_or_insert_with(now);
        } else {
            self.since = None;
        }
    }

    /// Since when it is under way.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }
}
