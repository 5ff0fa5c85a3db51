//! Does the client wait for the start of a WebSocket frame, or is it in the middle of one?
//!
//! A frame of ours may stand only between two of the origin's, so their heads are followed (RFC 6455, section 5.2), and
//! nothing else of them. Bytes that are no frames are followed all the same and mean nothing. Always: behind a Close
//! frame no place is free, since nothing may follow one.

/// The longest head: two bytes, eight of length, four of mask.
const HEAD: usize = 14;

/// What goes out when we leave: Close, code 1001 ("going away"), not masked.
pub const GOING_AWAY: [u8; 4] = [0x88, 2, 0x03, 0xE9];

/// The frames on their way to a client, behind the header of the answer that switched to them.
#[derive(Debug)]
pub struct Frames(State);

#[derive(Debug)]
enum State {
    /// In the header of the answer; so many bytes of the empty line at its end came.
    Answer(u8),
    /// In the head of a frame; so many bytes of it came.
    Head([u8; HEAD], usize),
    /// So much of a frame is still to come.
    Payload(u64),
    /// A Close frame began.
    Closed,
}

impl Default for Frames {
    fn default() -> Self {
        Self(State::Answer(0))
    }
}

impl Frames {
    /// `bytes` go out.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            bytes = match &mut self.0 {
                State::Answer(ended) => {
                    *ended = match (*ended, first) {
                        (0 | 2, b'\r') | (1 | 3, b'\n') => *ended + 1,
                        (_, b'\r') => 1,
                        _ => 0,
                    };
                    if *ended == 4 {
                        self.0 = START;
                    }
                    rest
                }
                State::Head(head, came) => {
                    if let Some(place) = head.get_mut(*came) {
                        *place = *first;
                    }
                    *came += 1;
                    let came = *came;
                    if let Some(next) = behind(head.get(..came).unwrap_or_default()) {
                        self.0 = next;
                    }
                    rest
                }
                State::Payload(left) => {
                    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= here as u64;
                    if *left == 0 {
                        self.0 = START;
                    }
                    bytes.get(here..).unwrap_or_default()
                }
                State::Closed => return,
            };
        }
    }

    /// May a frame of ours follow?
    pub fn may_follow(&self) -> bool {
        matches!(self.0, State::Head(_, 0))
    }
}

const START: State = State::Head([0; HEAD], 0);

/// What follows this head; `None` while more of it has to come.
fn behind(head: &[u8]) -> Option<State> {
    let (&[kind, length], rest) = head.split_first_chunk::<2>()?;
    if kind & 0x0F == 8 {
        return Some(State::Closed);
    }
    let mask = if length & 0x80 == 0 { 0 } else { 4 };
    let (bytes, length) = match length & 0x7F {
        126 => (2, u64::from(u16::from_be_bytes(*rest.first_chunk()?))),
        127 => (8, u64::from_be_bytes(*rest.first_chunk()?)),
        short => (0, u64::from(short)),
    };
    let whole = rest.len() >= bytes + mask;
    whole.then_some(if length == 0 { START } else { State::Payload(length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";

    /// Where, counted from the end of the answer's header, a frame of ours may follow.
    fn places(frames: &[u8]) -> Vec<usize> {
        let mut followed = Frames::default();
        for byte in ANSWER {
            assert!(!followed.may_follow());
            followed.take(&[*byte]);
        }
        let mut places = Vec::new();
        for (at, byte) in frames.iter().enumerate() {
            places.extend(followed.may_follow().then_some(at));
            followed.take(&[*byte]);
        }
        places.extend(followed.may_follow().then_some(frames.len()));
        places
    }

    #[test]
    fn a_frame_of_ours_stands_between_frames() {
        assert_eq!(places(b""), [0]);
        assert_eq!(places(b"\x81\x02hi\x89\x00"), [0, 4, 6]);
        let long = [b"\x82\x7e\x01\x00".as_slice(), &[0; 256], b"\x82\x7f\0\0\0\0\0\0\0\x01x"].concat();
        assert_eq!(places(&long), [0, 260, 271]);
        assert_eq!(places(b"\x81\x81maskx\x81\x80mask"), [0, 7, 13]);
    }

    #[test]
    fn nothing_follows_a_close_or_the_middle_of_a_frame() {
        assert_eq!(places(b"\x88\x02\x03\xe8\x81\x00"), [0]);
        assert_eq!(places(b"\x81\x05hel"), [0]);
        assert_eq!(places(&GOING_AWAY), [0]);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_make_no_difference(bytes in prop::collection::vec(any::<u8>(), 0..400), cuts in prop::collection::vec(1_usize..40, 1..40)) {
            let bytes = [b"\r\n\r\n".as_slice(), &bytes].concat();
            let (mut whole, mut cut) = (Frames::default(), Frames::default());
            whole.take(&bytes);
            let (mut rest, mut cuts) = (&bytes[..], cuts.into_iter().cycle());
            while !rest.is_empty() {
                let (piece, more) = rest.split_at(cuts.next().unwrap().min(rest.len()));
                cut.take(piece);
                rest = more;
            }
            prop_assert_eq!(format!("{whole:?}"), format!("{cut:?}"));
        }
    }
}
