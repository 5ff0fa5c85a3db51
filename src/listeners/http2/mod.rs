//! What goes over an HTTP/2 connection that neither Pingora nor a hook looks at?
//!
//! [`Http2`] follows the frames of both directions by their headers; payload is skipped. Inbound it holds frames that ask
//! for nothing to a budget ([`flood`]); outbound it finds the 400 that Pingora gives by itself ([`refusal`]), so that it
//! leaves in our words, and the end of a connection for cause ([`farewell`]), which no hook hears of. A header that does not
//! come to its end has its time ([`heading`]); who was told goodbye may not know it yet ([`late`]). HTTP/1 connections have
//! none of this.

mod farewell;
mod flood;
mod frames;
mod heading;
mod late;
mod refusal;

use std::io::IoSlice;

use tokio::time::Instant;

use self::farewell::{Farewell, Goodbye, Reading};
use self::flood::Budget;
use self::frames::Frames;
use self::heading::Heading;
use self::late::Late;
pub(super) use self::refusal::Refusal;
use super::preface::PREFACE;

/// The frames of one connection.
#[derive(Debug)]
pub(super) struct Http2 {
    inbound: Frames,
    outbound: Frames,
    budget: Budget,
    heading: Heading,
    late: Late,
    goodbye: Reading,
}

impl Http2 {
    /// A connection whose next byte is the first of its preface.
    pub(super) fn new() -> Self {
        Self {
            inbound: Frames::behind(PREFACE.len()),
            outbound: Frames::default(),
            budget: Budget::new(Instant::now()),
            heading: Heading::preface(),
            late: Late::default(),
            goodbye: Reading::default(),
        }
    }

    /// `bytes` came, of which those that speak of requests too late are made to say nothing: false when there were too many
    /// frames that ask for nothing.
    #[must_use]
    pub(super) fn came(&mut self, bytes: &mut [u8]) -> bool {
        let (budget, heading, late, mut within) = (&mut self.budget, &mut self.heading, &mut self.late, true);
        let whole = bytes.len();
        self.inbound.read(bytes, |frame, behind| {
            heading.take(frame);
            late.came(frame, whole - behind.len());
            within = within && budget.takes(frame, Instant::now);
        });
        self.late.unsay(bytes);
        self.heading.came(self.inbound.is_within(), Instant::now);
        within
    }

    /// Since when a header is under way.
    pub(super) fn heading_since(&self) -> Option<Instant> {
        self.heading.since()
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
        let (budget, late, mut left, mut told) = (&mut self.budget, &mut self.late, count, None);
        let mut hear = |goodbye: Option<Goodbye>| {
            let Some(goodbye) = goodbye else { return };
            late.told(goodbye);
            told = told.or(goodbye.cause());
        };
        for part in parts {
            let gone = part.get(..left).unwrap_or(part);
            hear(self.goodbye.go_on(gone));
            self.outbound.read(gone, |frame, behind| {
                budget.sent(frame);
                hear(self.goodbye.begin(frame, behind));
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
        assert!(read.came(&mut { *PREFACE }) && idle.came(&mut { *PREFACE }));
        for _ in 0..10_000 {
            let (head, body) = data.split_at(5);
            assert_eq!(read.go(&[IoSlice::new(head), IoSlice::new(body)], data.len()), None);
            assert!(read.came(&mut update.clone()));
        }
        let sent = (0..10_000).take_while(|_| idle.came(&mut update.clone())).count();
        assert!((999..2000).contains(&sent), "{sent}");
    }

    #[test]
    fn a_header_is_under_way_from_its_first_byte_to_its_last() {
        let whole = [frame(1, 5, 1, b"block"), frame(0, 0, 3, b"a body")].concat();
        let parts = [frame(1, 1, 1, b"blo"), frame(9, 0, 1, b"c"), frame(9, 4, 1, b"k")].concat();
        let under_way = |bytes: &[u8]| {
            let mut http2 = Http2::new();
            assert!(
                http2.heading_since().is_none() && http2.came(&mut { *PREFACE }) && http2.heading_since().is_none()
            );
            assert!(http2.came(&mut bytes.to_vec()));
            http2.heading_since().is_some()
        };
        for (bytes, end) in [(&whole, 14), (&parts, parts.len())] {
            let seen: Vec<_> = (1..bytes.len()).filter(|count| under_way(&bytes[..*count])).collect();
            assert_eq!(seen, (9..end).collect::<Vec<_>>());
        }
        let mut preface = Http2::new();
        assert!(preface.came(&mut PREFACE[..23].to_vec()) && preface.heading_since().is_some());
        assert!(preface.came(&mut PREFACE[23..].to_vec()) && preface.heading_since().is_none());
    }

    #[test]
    fn each_header_has_its_own_time() {
        let (mut http2, header) = (Http2::new(), frame(1, 5, 1, b"block"));
        assert!(http2.came(&mut [&PREFACE[..], &header[..10]].concat()));
        let first = http2.heading_since().unwrap();
        assert!(http2.came(&mut header[10..12].to_vec()) && http2.heading_since() == Some(first), "more of it");
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(http2.came(&mut [&header[12..], &header[..10]].concat()));
        assert!(http2.heading_since().unwrap() > first, "the next");
    }

    /// Where the socket is full the header of a GOAWAY may leave without what it says.
    #[test]
    fn what_came_too_late_is_found_however_the_goodbye_left() {
        let goaway = frame(7, 0, 0, &[0, 0, 0, 5, 0, 0, 0, 0]);
        for cut in 0..=goaway.len() {
            let mut http2 = Http2::new();
            assert!(http2.came(&mut { *PREFACE }));
            let (first, rest) = goaway.split_at(cut);
            assert_eq!(http2.go(&[IoSlice::new(first)], first.len()), None);
            assert_eq!(http2.go(&[IoSlice::new(rest)], rest.len()), None);
            let kinds = [5, 7].map(|stream| {
                let mut update = frame(8, 0, stream, &[0, 0, 0, 1]);
                assert!(http2.came(&mut update));
                update[3]
            });
            assert_eq!(kinds, [8, 0xff], "cut at {cut}");
        }
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
