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

/// The farewell that `frame`, before `behind`, is; `None` for one in peace.
pub(super) fn of(frame: Frame, behind: &[u8]) -> Option<Farewell> {
    let code = behind.get(4..8).filter(|_| frame.kind == GOAWAY)?;
    match u32::from_be_bytes(code.try_into().ok()?) {
        NO_ERROR => None,
        ENHANCE_YOUR_CALM => Some(Farewell::Flood),
        _ => Some(Farewell::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_goaway_with_an_error_is_for_cause() {
        let goaway = Frame { kind: GOAWAY, flags: 0, stream: 0, length: 8 };
        let told = |frame, code: u8| of(frame, &[0, 0, 0, 9, 0, 0, 0, code, b'x']);
        assert_eq!(told(goaway, 0), None);
        assert_eq!(told(goaway, 1), Some(Farewell::Malformed));
        assert_eq!(told(goaway, 0xb), Some(Farewell::Flood));
        assert_eq!(told(Frame { kind: 8, ..goaway }, 1), None);
        assert_eq!(of(goaway, &[0; 7]), None);
    }
}
