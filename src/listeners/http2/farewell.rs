//! Does the `h2` library end the connection, and for what?
//!
//! It does so by GOAWAY with an error (RFC 9113, section 5.4.1), when frames make no sense or are too many; requests that
//! stood in them were never heard of.

use std::time::Duration;

use super::frames::{Frame, GOAWAY};
use crate::proxy::wire::{Fault, Wire};

const NO_ERROR: u32 = 0;
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// GOAWAY to one who asked for too much. Every stream may have been looked at, so that none is tried again for it.
pub(super) const TOO_MUCH: [u8; 17] = [0, 0, 8, GOAWAY, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0xb];

/// Why a connection ends that was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Farewell {
    /// The client asked for too much.
    Flood,
    /// The client does not keep to the protocol.
    Malformed,
}

impl Farewell {
    /// The connection is told of: among those that asked for too much, or like a stream that was refused before any hook.
    pub(in super::super) fn note(self, wire: &Wire) {
        match self {
            Self::Flood => wire.set_fault(Fault::Flood),
            Self::Malformed => {
                wire.refused(Fault::BadRequest, Duration::ZERO);
            }
        }
    }
}

/// What a GOAWAY says (RFC 9113, section 6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Goodbye {
    /// The last stream that may have been looked at.
    pub(super) last: u32,
    code: u32,
}

impl Goodbye {
    /// `None` for one in peace.
    pub(super) fn cause(self) -> Option<Farewell> {
        match self.code {
            NO_ERROR => None,
            ENHANCE_YOUR_CALM => Some(Farewell::Flood),
            _ => Some(Farewell::Malformed),
        }
    }
}

/// Bytes of payload that say it.
const SAYS: usize = 8;

/// Reads GOAWAYs whose payload comes in pieces of any size.
#[derive(Debug, Default)]
pub(super) struct Reading {
    payload: [u8; SAYS],
    known: usize,
    is_under_way: bool,
}

impl Reading {
    /// `frame`, before `behind`, goes out.
    pub(super) fn begin(&mut self, frame: Frame, behind: &[u8]) -> Option<Goodbye> {
        self.is_under_way = frame.kind == GOAWAY && frame.length >= SAYS;
        self.known = 0;
        self.go_on(behind)
    }

    /// `bytes` follow: what is said, once it is whole.
    pub(super) fn go_on(&mut self, bytes: &[u8]) -> Option<Goodbye> {
        if !self.is_under_way {
            return None;
        }
        for (space, byte) in self.payload.iter_mut().skip(self.known).zip(bytes) {
            (*space, self.known) = (*byte, self.known + 1);
        }
        if self.known < SAYS {
            return None;
        }
        self.is_under_way = false;
        let [a, b, c, d, code @ ..] = self.payload;
        Some(Goodbye { last: u32::from_be_bytes([a, b, c, d]), code: u32::from_be_bytes(code) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_goaway_with_an_error_is_for_cause() {
        let goaway = Frame { kind: GOAWAY, flags: 0, stream: 0, length: 8 };
        let said = |frame, code: u8| Reading::default().begin(frame, &[0, 0, 0, 9, 0, 0, 0, code, b'x']);
        let told = |frame, code| said(frame, code).and_then(Goodbye::cause);
        assert_eq!(told(goaway, 0), None);
        assert_eq!(told(goaway, 1), Some(Farewell::Malformed));
        assert_eq!(told(goaway, 0xb), Some(Farewell::Flood));
        assert_eq!(told(Frame { kind: 8, ..goaway }, 1), None);
        assert_eq!(said(goaway, 0), Some(Goodbye { last: 9, code: 0 }));
    }

    #[test]
    fn a_goodbye_is_read_in_pieces_of_any_size() {
        let goaway = Frame { kind: GOAWAY, flags: 0, stream: 0, length: 10 };
        let payload = [0, 0, 1, 0, 0, 0, 0, 0xb, b'w', b'y'];
        for size in 0..payload.len() {
            let (first, rest) = payload.split_at(size);
            let mut reading = Reading::default();
            let said = reading.begin(goaway, first).or_else(|| rest.chunks(1).find_map(|byte| reading.go_on(byte)));
            assert_eq!(said, Some(Goodbye { last: 256, code: 0xb }), "cut at {size}");
            assert_eq!(reading.go_on(&payload), None, "said once");
        }
    }
}
