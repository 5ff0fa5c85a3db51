//! One request of a connection, from its first byte on: how long, how large, and how it was really written.
//!
//! Pingora escapes a request line it would have to refuse, so what the client wrote is kept here until it is judged.
//! Always: `received` is the request's own bytes or nothing; bytes whose owner is not known are never guessed at. A body
//! is followed to its end, so that what comes behind it is known for the next request's.

use std::sync::Arc;

use tokio::time::Instant;

use super::body::{Body, End, Malformed};
use super::limits::{Fault, Limits};
use crate::observe::RequestId;
use crate::template::bytes;

/// Bytes of a request's start that are kept for the log when no hook sees it.
const START: usize = 256;

/// The request under way.
#[derive(Debug)]
pub(super) struct Turn {
    limits: Arc<Limits>,
    /// Every byte of the request but its body, and of what came along behind it, while `known`.
    head: Vec<u8>,
    known: bool,
    /// Bytes handed over before the first hook, kept or not.
    seen: usize,
    began: Option<Instant>,
    /// How many bytes of `head` are the request's.
    used: Option<usize>,
    body: Option<Body>,
    /// It began on a connection of which nothing was left.
    fresh: bool,
    /// The target as it came, where Pingora was given another spelling.
    target: Option<Vec<u8>>,
    fault: Option<Fault>,
    id: Option<RequestId>,
}

impl Turn {
    pub(super) fn new(limits: impl Into<Arc<Limits>>) -> Self {
        Self {
            limits: limits.into(),
            head: Vec::new(),
            known: true,
            seen: 0,
            began: None,
            used: None,
            body: None,
            fresh: true,
            target: None,
            fault: None,
            id: None,
        }
    }

    /// The next request may begin; `settled`: nothing of it came yet.
    pub(super) fn begin(&mut self, limits: impl Into<Arc<Limits>>, settled: bool) {
        let whole = self.body.take().is_none_or(|body| body.is_done());
        let used = self.used.take().filter(|used| self.known && whole && *used <= self.head.len());
        self.known = settled || used.is_some();
        match used {
            Some(used) if !settled => drop(self.head.drain(..used)),
            _ => self.head.clear(),
        }
        self.limits = limits.into();
        self.seen = self.head.len();
        self.began = (!self.head.is_empty()).then(Instant::now);
        self.fresh = settled;
        self.target = None;
        self.fault = None;
        self.id = None;
    }

    /// The first bytes came and are kept back until the head is whole: its deadline runs.
    pub(super) fn keep_back(&mut self) {
        self.began.get_or_insert_with(Instant::now);
    }

    /// Whether nothing of the request was handed over.
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh && self.seen == 0
    }

    /// What is handed over has another target than `target`, which came.
    pub(super) fn respelt(&mut self, target: Vec<u8>) {
        self.target = Some(target);
    }

    /// The target as it came, if Pingora has another.
    pub(super) fn own_target(&mut self) -> Option<Vec<u8>> {
        self.target.take()
    }

    /// `bytes` came; `heard`: the header was complete before.
    pub(super) fn take(&mut self, bytes: &[u8], heard: bool) -> Result<(), Malformed> {
        self.began.get_or_insert_with(Instant::now);
        let mut bytes = bytes;
        if !heard {
            self.seen += bytes.len();
        } else if let (Some(body), true) = (&mut self.body, self.known) {
            let own = body.read(bytes)?;
            bytes = bytes.get(own..).unwrap_or_default();
            // so much of a next request is none Pingora reads ahead: it is a tunnel
            self.known = self.head.len() + bytes.len() <= self.used.unwrap_or(0) + self.limits.header_bytes;
        } else if bytes.len() > 1 {
            // a tunnel; only the one byte Pingora looks ahead belongs to a next request
            self.known = false;
        }
        if self.known {
            self.head.extend_from_slice(bytes);
        } else {
            self.head = Vec::new();
        }
        Ok(())
    }

    /// The header is complete and a body follows, which ends at `end`. Whether it can be followed: not when nobody
    /// knows where the header began.
    pub(super) fn has_body(&mut self, end: End) -> Result<bool, Malformed> {
        let Some(header) = self.received().and_then(header_end) else {
            self.known = false;
            return Ok(false);
        };
        let mut body = Body::new(end);
        let own = body.read(self.head.get(header..).unwrap_or_default())?;
        self.head.drain(header..header + own);
        self.used = Some(header);
        self.body = Some(body);
        Ok(true)
    }

    /// The request is over and was `used` bytes long, if it had no body.
    pub(super) fn end(&mut self, used: usize) {
        self.used.get_or_insert(used);
    }

    /// Gives the memory of a request that is over back.
    pub(super) fn forget(&mut self) {
        self.head = Vec::new();
    }

    /// The bytes of the request as received.
    pub(super) fn received(&self) -> Option<&[u8]> {
        (self.known && !self.head.is_empty()).then_some(&self.head)
    }

    /// The first bytes of the request.
    pub(super) fn start(&self) -> &[u8] {
        self.head.get(..START).unwrap_or(&self.head)
    }

    /// When its first byte came.
    pub(super) fn began(&self) -> Option<Instant> {
        self.began
    }

    /// Bytes its header may still have.
    pub(super) fn room(&self) -> usize {
        self.limits.header_bytes.saturating_sub(self.seen)
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn set_limits(&mut self, limits: Arc<Limits>) {
        self.limits = limits;
    }

    /// The first finding stands.
    pub(super) fn blame(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    pub(super) fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The id of a request no hook saw.
    pub(super) fn id(&mut self) -> RequestId {
        *self.id.get_or_insert_with(RequestId::random)
    }

    /// Why a request no hook saw ended. What Pingora calls malformed may be too long or have too many lines.
    pub(super) fn verdict(&self) -> Fault {
        let fault = self.fault.unwrap_or(Fault::Gone);
        let target = target(first_line(&self.head)).len();
        let lines = memchr::memchr_iter(b'\n', &self.head).count();
        match fault {
            Fault::BadRequest | Fault::HeaderTooLarge if target > self.limits.uri_bytes => Fault::UriTooLong,
            // the request line and the empty one are no headers
            Fault::BadRequest if lines > self.limits.headers.saturating_add(2) => Fault::HeaderTooLarge,
            other => other,
        }
    }
}

/// Where the header that `head` begins with is over: behind its empty line.
pub(super) fn header_end(head: &[u8]) -> Option<usize> {
    let mut line = head.iter().position(|b| !matches!(b, b'\r' | b'\n'))?;
    loop {
        line += memchr::memchr(b'\n', head.get(line..)?)? + 1;
        match head.get(line..)? {
            [b'\n', ..] => return Some(line + 1),
            [b'\r', b'\n', ..] => return Some(line + 2),
            _ => {}
        }
    }
}

/// The request line in `head`, without its end.
pub(super) fn first_line(head: &[u8]) -> &[u8] {
    let start = head.iter().position(|b| !matches!(b, b'\r' | b'\n')).unwrap_or(head.len());
    let line = head.get(start..).unwrap_or_default();
    let line = line.get(..memchr::memchr(b'\n', line).unwrap_or(line.len())).unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// All between the method and the version, or the end.
fn target(line: &[u8]) -> &[u8] {
    let start = memchr::memchr(b' ', line).map_or(line.len(), |at| at + 1);
    let end = memchr::memrchr(b' ', line).filter(|end| *end >= start).unwrap_or(line.len());
    line.get(start..end).unwrap_or_default()
}

/// Whether the target of the request line in `head` has no space, control byte or `#`.
pub(super) fn plain_target(head: &[u8]) -> bool {
    !bytes::any(target(first_line(head)), |byte| (byte <= b' ') | (byte == 0x7f) | (byte == b'#'))
}

#[cfg(test)]
mod tests {
    use super::super::tests::limits;
    use super::*;

    #[test]
    fn a_target_with_a_space_a_control_byte_or_a_fragment_is_not_plain() {
        for (line, plain) in [
            ("GET /a HTTP/1.1\r\n", true),
            ("\r\nGET /a%20b?c=%2f HTTP/1.1\r\n", true),
            ("GET /\u{e9} HTTP/1.1\n", true),
            ("GET /a b HTTP/1.1\r\n", false),
            ("GET /a\u{1} HTTP/1.1\r\n", false),
            ("GET /a#f HTTP/1.1\r\n", false),
            ("GET  /a HTTP/1.1\r\n", false),
            ("GET /a\t HTTP/1.1\r\n", false),
        ] {
            assert_eq!(plain_target(line.as_bytes()), plain, "{line:?}");
        }
    }

    fn turn(head: &[u8]) -> Turn {
        let mut turn = Turn::new(limits());
        turn.begin(limits(), true);
        turn.take(head, false).unwrap();
        turn
    }

    #[test]
    fn what_is_wrong_with_an_unheard_request_is_told_from_its_head() {
        let lines = format!("GET / HTTP/1.1\r\n{}", "a: b\r\n".repeat(300));
        let target = format!("GET /{} HTTP/1.1\r\n", "a".repeat(9000));
        for (head, found, told) in [
            ("\u{16}\u{3}\u{1}", Fault::BadRequest, Fault::BadRequest),
            (lines.as_str(), Fault::BadRequest, Fault::HeaderTooLarge),
            (target.as_str(), Fault::HeaderTooLarge, Fault::UriTooLong),
            ("GET / HT", Fault::HeaderTimeout, Fault::HeaderTimeout),
        ] {
            let mut turn = turn(head.as_bytes());
            turn.blame(found);
            assert_eq!(turn.verdict(), told);
            assert_eq!(turn.start().len(), head.len().min(256));
        }
    }

    #[test]
    fn a_tunnel_is_not_remembered() {
        let mut turn = turn(b"GET / HTTP/1.1\r\n\r\n");
        turn.take(&[b'x'; 4096], true).unwrap();
        assert_eq!(turn.received(), None);
        assert_eq!(turn.head.capacity(), 0);
        let mut behind_a_body = super::tests::turn(b"GET / HTTP/1.1\r\n\r\nhello");
        behind_a_body.has_body(End::Length(5)).unwrap();
        for _ in 0..17 {
            behind_a_body.take(&[b'x'; 4096], true).unwrap();
        }
        assert_eq!((behind_a_body.received(), behind_a_body.head.capacity()), (None, 0));
    }

    #[test]
    fn what_stands_behind_a_body_is_the_next_request_s() {
        let chunked = "POST / HTTP/1.1\r\nA: b\n\n3\r\na b\r\n0\r\n\r\nGET /b HTTP/1.1\r\n\r\n";
        let counted = "\r\nPOST / HTTP/1.1\r\n\r\na bGET /b HTTP/1.1\r\n\r\n";
        for (bytes, end) in [(chunked, End::Chunked), (counted, End::Length(3))] {
            for cut in header_end(bytes.as_bytes()).unwrap()..bytes.len() {
                let (first, second) = bytes.as_bytes().split_at(cut);
                let mut turn = turn(first);
                assert_eq!(turn.has_body(end), Ok(true));
                turn.take(second, true).unwrap();
                turn.end(1);
                turn.begin(limits(), false);
                assert_eq!(turn.received(), Some(&b"GET /b HTTP/1.1\r\n\r\n"[..]), "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_body_that_is_no_chunks_is_found_out_wherever_it_came() {
        let head = b"POST / HTTP/1.1\r\n\r\n";
        assert_eq!(turn(&[&head[..], b"\r\n\r\nGET"].concat()).has_body(End::Chunked), Err(Malformed));
        let mut turn = turn(head);
        assert_eq!(turn.has_body(End::Chunked), Ok(true));
        assert_eq!(turn.take(b"1\r\na\r\n;", true), Err(Malformed));
    }

    #[test]
    fn behind_a_body_that_was_not_read_nothing_is_guessed() {
        let mut turn = turn(b"POST / HTTP/1.1\r\n\r\n3\r\na b");
        turn.has_body(End::Chunked).unwrap();
        turn.end(19 + 3);
        turn.begin(limits(), false);
        assert_eq!(turn.received(), None);
        assert_eq!(turn.has_body(End::Chunked), Ok(false), "where its header began is not known");
        assert_eq!(turn.room(), limits().header_bytes);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_judged(head in proptest::collection::vec(any::<u8>(), 0..200)) {
            let plain = plain_target(&head);
            let line = first_line(&head);
            prop_assert!(plain || line.iter().filter(|b| **b == b' ').count() > 0);
        }

        #[test]
        fn a_target_of_ordinary_bytes_is_plain(target in "[!-\"$-~]{1,100}") {
            let head = format!("GET {target} HTTP/1.1\r\nHost: a b\r\n\r\n");
            prop_assert!(plain_target(head.as_bytes()));
        }
    }
}
