//! Is this the 400 that Pingora gives by itself?
//!
//! It answers a request whose authority is malformed before any hook sees it, with `:status: 400` and nothing else. No
//! other answer looks like that: all that hooks see is sent with a `date`, and trailers have no status. Ours keeps the
//! block as it is, which may tell the client of a new size of its table, and adds lines that are in nobody's table.

use std::io::IoSlice;

use smallvec::SmallVec;

use super::frames::{END_HEADERS, END_STREAM, Frame, Frames, HEADER, HEADERS};

/// `:status: 400` in the static table (RFC 7541, appendix A).
const STATUS_400: u8 = 0x8c;

/// Of how many bytes a block may be to be looked at: two new sizes of the table come before its one line.
const SHORT: usize = 16;

/// A refusal on its way out.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Refusal {
    /// Where its frame begins.
    pub(in super::super) at: usize,
    stream: u32,
    block: SmallVec<[u8; SHORT]>,
}

/// The first refusal in `parts`, which follow on what `frames` have seen.
pub(super) fn find(mut frames: Frames, parts: &[IoSlice<'_>]) -> Option<Refusal> {
    let (mut found, mut before) = (None, 0);
    for part in parts {
        frames.read(part, |frame, behind| {
            if found.is_none()
                && let Some(block) = bare(frame, behind)
                && let Some(at) = (before + part.len() - behind.len()).checked_sub(HEADER)
            {
                found = Some(Refusal { at, stream: frame.stream, block: block.into() });
            }
        });
        before += part.len();
    }
    found
}

/// The block of a frame that is a status of 400 and nothing else.
fn bare(frame: Frame, behind: &[u8]) -> Option<&[u8]> {
    let whole = (frame.kind, frame.flags) == (HEADERS, END_STREAM | END_HEADERS) && frame.length <= SHORT;
    let block = whole.then(|| behind.get(..frame.length)).flatten()?;
    (after_sizes(block) == [STATUS_400]).then_some(block)
}

/// `block` without the sizes of the table it begins with (RFC 7541, section 6.3).
fn after_sizes(mut block: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = block
        && first & 0xe0 == 0x20
    {
        block = rest;
        if first & 0x1f == 0x1f {
            let end = block.iter().position(|byte| byte & 0x80 == 0).map_or(block.len(), |last| last + 1);
            block = block.get(end..).unwrap_or_default();
        }
    }
    block
}

impl Refusal {
    /// Bytes of its frame.
    pub(in super::super) fn length(&self) -> usize {
        HEADER + self.block.len()
    }

    /// The frame in its place, with these headers.
    pub(in super::super) fn with(&self, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut block = self.block.to_vec();
        for (name, value) in headers {
            // a literal that is not indexed (RFC 7541, section 6.2.2)
            block.push(0);
            for text in [name, value] {
                let text = text.get(..text.len().min(126)).unwrap_or_default();
                block.push(u8::try_from(text.len()).unwrap_or_default());
                block.extend_from_slice(text.as_bytes());
            }
        }
        let [_, length @ ..] = u32::try_from(block.len()).unwrap_or_default().to_be_bytes();
        let head = [length.as_slice(), &[HEADERS, END_STREAM | END_HEADERS], &self.stream.to_be_bytes()].concat();
        [head, block].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::tests::frame;
    use super::*;

    fn found(parts: &[&[u8]]) -> Option<(usize, u32, usize)> {
        let parts: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        find(Frames::default(), &parts).map(|refusal| (refusal.at, refusal.stream, refusal.length()))
    }

    #[test]
    fn a_bare_400_is_found_and_nothing_like_it() {
        let bare = frame(1, 5, 7, &[0x8c]);
        let others = [
            frame(0, 1, 1, &bare),
            frame(1, 4, 1, &[0x8c]),
            frame(1, 5, 1, &[0x88]),
            frame(1, 5, 1, &[0xbe]),
            frame(1, 5, 1, &[0x20]),
            frame(1, 5, 1, &[0x3f, 0xff]),
            frame(1, 5, 1, &[0x8c, 0x61, 0]),
            frame(1, 5, 1, &[]),
        ]
        .concat();
        assert_eq!(found(&[&others]), None);
        assert_eq!(found(&[&others, &bare, &bare]), Some((others.len(), 7, 10)));
        assert_eq!(found(&[b"", &bare, &bare]), Some((0, 7, 10)));
    }

    /// A client that chose another size for its table is told so with the first answer.
    #[test]
    fn new_sizes_of_the_table_before_it_are_kept() {
        for sizes in [&[0x20][..], &[0x3f, 0xe1, 0x1f], &[0x20, 0x3f, 0xe1, 0x1f]] {
            let block = [sizes, &[0x8c]].concat();
            let bare = frame(1, 5, 7, &block);
            let refusal = find(Frames::default(), &[IoSlice::new(&bare)]).unwrap();
            assert_eq!(refusal.length(), bare.len());
            let ours = refusal.with(&[("proxy-status", "moorgate"), ("x", "")]);
            assert_eq!(ours[9..], [&block, &b"\0\x0cproxy-status\x08moorgate\0\x01x\0"[..]].concat());
            let mut seen = Vec::new();
            Frames::default().read(&ours, |frame, _| seen.push((frame.kind, frame.flags, frame.stream, frame.length)));
            assert_eq!(seen, [(1, 5, 7, ours.len() - 9)]);
        }
    }
}
