//! What goes over an HTTP/2 connection that neither Pingora nor a hook looks at?
//!
//! [`Http2`] follows the frames of both directions by their headers; payload is skipped. Inbound it holds frames that ask
//! for nothing to a budget ([`flood`]); outbound it finds the 400 that Pingora gives by itself ([`refusal`]), so that it
//! leaves in our words, and the end of a connection for cause ([`farewell`]), which no hook hears of. HTTP/1 connections have none of this.

mod farewell;
mod flood;
mod frames;
mod refusal;

use std::io::IoSlice;

use tokio::time::Instant;

use self::farewell::Farewell;
use self::flood::Budget;
use self::frames::Frames;
pub(super) use self::refusal::Refusal;
use super::preface::PREFACE;

/// The frames of one connection.
#[derive(Debug)]
pub(super) struct Http2 {
    inbound: Frames,
    outbound: Frames,
    budget: Budget,
}

impl Http2 {
    /// A connection whose next byte is the first of its preface.
    pub(super) fn new() -> Self {
        Self {
            inbound: Frames::behind(PREFACE.len()),
            outbound: Frames::default(),
            budget: Budget::new(Instant::now()),
        }
    }

    /// `bytes` came: false when there were too many frames that ask for nothing.
    #[must_use]
    pub(super) fn came(&mut self, bytes: &[u8]) -> bool {
        let (budget, mut within) = (&mut self.budget, true);
        self.inbound.read(bytes, |frame, _| within = within && budget.takes(frame, Instant::now));
        within
    }

    /// What tells the client that it asked for too much, unless it is in the middle of a frame of ours.
    pub(super) fn goaway(&self) -> Option<[u8; 17]> {
        self.outbound.is_between().then_some(farewell::TOO_MUCH)
    }

    /// The first refusal of Pingora's own in what is to be written next.
    pub(super) fn refusal(&self, parts: &[IoSlice<'_>]) -> Option<Refusal> {
        refusal::find(self.outbound, parts)
    }

    /// The first `count` bytes of `parts` go to the client: the farewell among them, if it is one for cause.
    pub(super) fn go(&mut self, parts: &[IoSlice<'_>], count: usize) -> Option<Farewell> {
        let (budget, mut left, mut told) = (&mut self.budget, count, None);
        for part in parts {
            let gone = part.get(..left).unwrap_or(part);
            self.outbound.read(gone, |frame, behind| {
                budget.sent(frame);
                told = told.or_else(|| farewell::of(frame, behind));
            });
            left -= gone.len();
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::frames::tests::frame;
    use super::*;

    /// A client that reads an answer in the smallest of steps is at work; one that only says so is not.
    #[test]
    fn what_is_sent_makes_up_for_its_window_updates() {
        let update = frame(8, 0, 0, &[0, 0, 0, 1]).repeat(2);
        let data = frame(0, 0, 1, b"data: 1\n\n");
        let (mut read, mut idle) = (Http2::new(), Http2::new());
        assert!(read.came(PREFACE) && idle.came(PREFACE));
        for _ in 0..10_000 {
            let (head, body) = data.split_at(5);
            assert_eq!(read.go(&[IoSlice::new(head), IoSlice::new(body)], data.len()), None);
            assert!(read.came(&update));
        }
        let sent = (0..10_000).take_while(|_| idle.came(&update)).count();
        assert!((999..2000).contains(&sent), "{sent}");
    }

    #[test]
    fn only_what_left_counts() {
        let mut http2 = Http2::new();
        let data = frame(0, 0, 1, b"12345");
        let parts = [IoSlice::new(&data), IoSlice::new(&data)];
        assert_eq!(http2.go(&parts, data.len() + 4), None);
        assert_eq!(http2.refusal(&[IoSlice::new(&data[4..])]), None);
        assert_eq!(http2.go(&[IoSlice::new(&data[4..])], data.len() - 4), None);
        let refused = frame(1, 5, 3, &[0x8c]);
        assert_eq!(http2.refusal(&[IoSlice::new(&refused)]).map(|refusal| refusal.at), Some(0));
    }
}
