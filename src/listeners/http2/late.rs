//! What does a client send for a request that came too late?
//!
//! A stream above the last one that GOAWAY names is ignored by the `h2` library, HEADERS, DATA and RST_STREAM alike, since the
//! client may have begun it before it was told. WINDOW_UPDATE alone it takes for one of a stream that never began, ends the
//! connection for it, and with it every request under way. gRPC's clients send it right behind their HEADERS.

use super::farewell::Goodbye;
use super::frames::{Frame, UNKNOWN, WINDOW_UPDATE};

/// Bytes from a frame's kind to the end of its header.
const FROM_KIND: usize = 6;

/// The bit before a stream's number, which says nothing (RFC 9113, section 4.1).
const RESERVED: u32 = 1 << 31;

/// Which streams are too late, and what came for them among the bytes that are looked at.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// As GOAWAY told last.
    last: Option<u32>,
    /// Where the kinds of those frames stand.
    found: Vec<usize>,
}

impl Late {
    /// The client is told.
    pub(super) fn told(&mut self, goodbye: Goodbye) {
        self.last = Some(goodbye.last);
    }

    /// The header of `frame` ends at `end` of what came. One that came in pieces stays as it is.
    pub(super) fn came(&mut self, frame: Frame, end: usize) {
        if frame.kind == WINDOW_UPDATE && self.last.is_some_and(|last| frame.stream & !RESERVED > last & !RESERVED) {
            self.found.extend(end.checked_sub(FROM_KIND));
        }
    }

    /// Makes frames that ask for nothing of those that were found in `bytes`.
    pub(super) fn unsay(&mut self, bytes: &mut [u8]) {
        for at in self.found.drain(..) {
            if let Some(kind) = bytes.get_mut(at) {
                *kind = UNKNOWN;
            }
        }
    }
}
