//! Which frames are these bytes?
//!
//! Frames come in pieces of any size: what is kept between them is the frame's header and how much of its payload is
//! still to come. Payload is passed over.

/// A frame's header (RFC 9113, section 4.1).
pub(super) const HEADER: usize = 9;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
/// A kind that nobody knows, and that is ignored therefore (RFC 9113, section 4.1).
pub(super) const UNKNOWN: u8 = 0xff;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;

/// A frame, as its header tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    /// Bytes of payload.
    pub(super) length: usize,
}

/// Follows the frames of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Frames {
    head: [u8; HEADER],
    known: usize,
    /// Bytes of payload still to come.
    left: usize,
}

impl Frames {
    /// Frames that follow on so many other bytes.
    pub(super) fn behind(bytes: usize) -> Self {
        Self { left: bytes, ..Self::default() }
    }

    /// Goes over `bytes`; `see` gets each frame once its header is whole, and the bytes behind that.
    pub(super) fn read(&mut self, bytes: &[u8], mut see: impl FnMut(Frame, &[u8])) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let payload = self.left.min(rest.len());
            self.left -= payload;
            rest = rest.get(payload..).unwrap_or_default();
            let (head, behind) = rest.split_at((HEADER - self.known).min(rest.len()));
            if let Some(space) = self.head.get_mut(self.known..self.known + head.len()) {
                space.copy_from_slice(head);
            }
            self.known += head.len();
            rest = behind;
            if self.known == HEADER {
                let frame = self.begin_payload();
                see(frame, rest);
            }
        }
    }

    /// Does a frame begin with the next byte?
    pub(super) fn is_between(self) -> bool {
        self.left == 0 && self.known == 0
    }

    /// Is payload of the last frame still to come?
    pub(super) fn is_within(self) -> bool {
        self.left > 0
    }

    fn begin_payload(&mut self) -> Frame {
        let [a, b, c, kind, flags, stream @ ..] = self.head;
        self.known = 0;
        self.left = u32::from_be_bytes([0, a, b, c]) as usize;
        Frame { kind, flags, stream: u32::from_be_bytes(stream), length: self.left }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    #[test]
    fn frames_are_seen_once_in_pieces_of_any_size() {
        let bytes =
            [b"preface".to_vec(), frame(4, 0, 0, b""), frame(DATA, 1, 3, b"hello"), frame(HEADERS, 5, 5, &[0x8c])]
                .concat();
        for size in 1..=bytes.len() {
            let (mut frames, mut seen) = (Frames::behind(7), Vec::new());
            for piece in bytes.chunks(size) {
                frames.read(piece, |frame, _| seen.push((frame.kind, frame.stream, frame.length)));
            }
            assert_eq!(seen, [(4, 0, 0), (0, 3, 5), (1, 5, 1)], "in pieces of {size}");
        }
    }
}
