//! What do a client connection and Pingora's hooks know of each other?
//!
//! The connection type sees bytes but no requests, the hooks see requests but no bytes: `Wire` is the one thing both
//! hold. The connection puts it into Pingora's `proxy_digest`, so [`Wire::of`] finds it on every session, HTTP/2
//! streams included. Always: until [`Wire::hook_ran`] the connection owns the request (header deadline and size, answers
//! of its own); from then on the hooks do. A connection lives on one thread, so every atomic here is `Relaxed`: they
//! only make the type `Sync`, which Pingora asks for. The lock is held for a few instructions and never awaited under.

mod body;
mod buffers;
mod client;
mod farewell;
mod frames;
mod held;
mod home;
mod limits;
mod refused;
mod serving;
mod turn;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use pingora_proxy::Session;
use tokio::time::Instant;

pub use self::body::End;
pub use self::buffers::{Buffers, Share, Use};
pub use self::farewell::Farewell;
use self::farewell::Waits;
pub use self::frames::{Frames, GOING_AWAY};
use self::held::Held;
pub use self::home::Home;
pub use self::limits::{Fault, Limits};
use self::refused::Refused;
pub use self::serving::Serving;
use self::turn::Turn;
use super::reject;
use crate::observe::RequestId;
use crate::traffic::respell::respell;

/// What is shared between a client connection and the hooks that serve its requests.
#[derive(Debug)]
pub struct Wire {
    peer: SocketAddr,
    caller: SocketAddr,
    home: Arc<Home>,
    opened: Instant,
    h2: AtomicBool,
    /// Bytes handed to Pingora since the connection began, and those of them that finished requests used up.
    received: AtomicU64,
    eaten: AtomicU64,
    heard: AtomicBool,
    body_wanted: AtomicBool,
    body_awaited: AtomicBool,
    next_came: AtomicBool,
    requests: AtomicU32,
    serving: AtomicU32,
    reset: AtomicBool,
    websocket: AtomicBool,
    parted: AtomicBool,
    held: Held,
    waits: Mutex<Option<Waits>>,
    turn: Mutex<Turn>,
    refused: Refused,
}

/// A request that ended before any hook saw it.
#[derive(Debug, Clone, Copy)]
pub struct Unheard<'a> {
    /// The connection.
    pub wire: &'a Wire,
    /// Why it ended.
    pub fault: Fault,
    /// The first bytes of it, at most 256.
    pub head: &'a [u8],
    /// The id our answer gives it.
    pub request_id: RequestId,
    /// From its first byte to its end.
    pub took: Duration,
}

impl Unheard<'_> {
    /// Our answer on HTTP/1, unless nobody waits for one.
    pub fn answer(&self) -> Option<Bytes> {
        (self.fault != Fault::Gone && !self.wire.is_h2()).then(|| reject::canned(self.fault, self.request_id.as_str()))
    }
}

/// The hooks' side.
impl Wire {
    /// The connection `session` came on. `None` only for streams our listeners did not open.
    pub fn of(session: &Session) -> Option<Arc<Self>> {
        let digest = session.downstream_session.digest()?;
        digest.proxy_digest.as_ref()?.user_data.as_ref()?.downcast_ref::<Arc<Self>>().cloned()
    }

    /// The first hook of a request runs: the header is complete, its deadline is over, and what Pingora writes from
    /// now on goes out. Hold the guard as long as the request lives.
    pub fn hook_ran(self: &Arc<Self>) -> Serving {
        self.heard.store(true, Relaxed);
        self.requests.fetch_add(1, Relaxed);
        self.serving.fetch_add(1, Relaxed);
        Serving(self.clone())
    }

    /// Whether the target came without a space, a control byte or `#`. `parsed` are the header's bytes as Pingora has
    /// them, already escaped: they are looked at when the received ones are not at hand (a request pipelined behind
    /// a body), and always for HTTP/2.
    pub fn target_is_plain(&self, parsed: &[u8]) -> bool {
        self.turn.lock().received().map_or_else(|| turn::plain_target(parsed), turn::plain_target)
    }

    /// The target as the client sent it, where Pingora was given another spelling.
    pub fn own_target(&self) -> Option<Vec<u8>> {
        self.turn.lock().own_target()
    }

    /// The request line as received, where it differs from what Pingora made of it.
    pub fn odd_line(&self) -> Option<Vec<u8>> {
        let turn = self.turn.lock();
        turn.received().filter(|head| !turn::plain_target(head)).map(|head| turn::first_line(head).to_vec())
    }

    /// A body is to be read, up to `end`: `body_timeout` counts from now on. Whether it is followed there, so that
    /// nothing else can be taken for its end; `None`: it is malformed.
    pub fn body_wanted(&self, end: End) -> Option<bool> {
        self.body_wanted.store(true, Relaxed);
        self.turn.lock().has_body(end).ok()
    }

    /// The whole body has been read, or the connection became a tunnel: `body_timeout` no longer counts.
    pub fn body_ended(&self) {
        self.body_wanted.store(false, Relaxed);
    }

    /// Whether more of the body was asked for and has not come (HTTP/1).
    pub fn awaits_body(&self) -> bool {
        self.body_awaited.load(Relaxed)
    }

    /// The request is over; its header had `header` bytes as parsed, `body` bytes of body were read (HTTP/1 only).
    pub fn request_finished(&self, header: usize, body: usize) {
        let used = header.saturating_add(body);
        self.eaten.fetch_add(used as u64, Relaxed);
        self.turn.lock().end(used);
    }

    /// Whether the answer under way must be the connection's last: drain, age, or number of requests.
    pub fn must_close(&self) -> bool {
        let limits = self.limits();
        self.home.draining.load(Relaxed)
            || self.requests.load(Relaxed) >= limits.keepalive_requests
            || limits.max_age.is_some_and(|age| self.opened.elapsed() >= age)
    }

    /// How long until it is as old as a connection may be; `None` where it may be of any age.
    pub fn age_left(&self) -> Option<Duration> {
        self.limits().max_age.map(|age| age.saturating_sub(self.opened.elapsed()))
    }

    /// Requests so far.
    pub fn requests(&self) -> u32 {
        self.requests.load(Relaxed)
    }

    /// The answer was cut short: the connection ends in a reset, so that no client takes the part for the whole.
    pub fn reset_on_close(&self) {
        self.reset.store(true, Relaxed);
    }

    /// What the origin sends from the next header on is frames of a WebSocket.
    pub fn websocket_begins(&self) {
        self.websocket.store(true, Relaxed);
    }

    /// What went wrong on the client's side of this request, if it was found here.
    pub fn fault(&self) -> Option<Fault> {
        self.turn.lock().fault()
    }

    /// The socket's other end.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Who connected: whom the PROXY header names, or the socket's other end.
    pub fn caller(&self) -> SocketAddr {
        self.caller
    }

    /// The listener's address as configured.
    pub fn listener(&self) -> SocketAddr {
        self.home.listener()
    }

    /// The memory of the process for answers on their way.
    pub fn buffers(&self) -> &Arc<Buffers> {
        &self.home.buffers
    }

    /// Whether HTTP/2 is spoken.
    pub fn is_h2(&self) -> bool {
        self.h2.load(Relaxed)
    }

    /// When the first byte of the current request came (HTTP/1).
    pub fn began(&self) -> Option<std::time::Instant> {
        self.turn.lock().began().map(Instant::into_std)
    }
}

/// The connection's side.
impl Wire {
    /// A connection from `peer`, just accepted, that `caller` made.
    pub fn new(peer: SocketAddr, caller: SocketAddr, home: Arc<Home>, limits: impl Into<Arc<Limits>>) -> Arc<Self> {
        Arc::new(Self {
            peer,
            caller,
            home,
            opened: Instant::now(),
            h2: AtomicBool::new(false),
            received: AtomicU64::new(0),
            eaten: AtomicU64::new(0),
            heard: AtomicBool::new(false),
            body_wanted: AtomicBool::new(false),
            body_awaited: AtomicBool::new(false),
            next_came: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            serving: AtomicU32::new(0),
            reset: AtomicBool::new(false),
            websocket: AtomicBool::new(false),
            parted: AtomicBool::new(false),
            held: Held::default(),
            waits: Mutex::new(None),
            turn: Mutex::new(Turn::new(limits)),
            refused: Refused::default(),
        })
    }

    /// HTTP/2 is spoken from the first byte on: its streams are the hooks' from the start.
    pub fn speak_h2(&self) {
        self.h2.store(true, Relaxed);
        self.heard.store(true, Relaxed);
    }

    /// The next request may begin. Bytes of it that came along with the last one count as its first.
    pub fn begin_turn(&self, limits: impl Into<Arc<Limits>>) {
        self.heard.store(false, Relaxed);
        self.body_wanted.store(false, Relaxed);
        self.body_awaited.store(false, Relaxed);
        self.next_came.store(false, Relaxed);
        self.held.begin();
        self.turn.lock().begin(limits, self.is_settled());
    }

    /// Whether nothing was ever handed over.
    pub fn is_silent(&self) -> bool {
        self.received.load(Relaxed) == 0
    }

    /// Whether the finished requests used up all that was handed over: nothing of the next one came yet.
    pub fn is_settled(&self) -> bool {
        self.received.load(Relaxed) == self.eaten.load(Relaxed)
    }

    /// Nothing of the next request came yet although the counts differ (chunk framing is in no count).
    pub fn settle(&self) {
        self.eaten.store(self.received.load(Relaxed), Relaxed);
    }

    /// `bytes` are handed to Pingora; false when they make the body malformed, and are not to be.
    #[must_use]
    pub fn note_received(&self, bytes: &[u8]) -> bool {
        self.received.fetch_add(bytes.len() as u64, Relaxed);
        self.is_h2() || self.turn.lock().take(bytes, self.is_heard()).is_ok()
    }

    /// Whether the next bytes are the first of a head.
    pub fn expects_head(&self) -> bool {
        !self.is_heard() && self.turn.lock().is_fresh()
    }

    /// `head`, of which nothing was handed over, and what is to be handed over in its place; `None`: more has to come
    /// first. Its deadline runs from now on.
    pub fn respell(&self, head: &[u8]) -> Option<Vec<u8>> {
        let mut turn = self.turn.lock();
        turn.keep_back();
        let end = turn::header_end(head)?;
        let (head, behind) = head.split_at(end);
        let respelt = respell(head, self.scheme());
        if let Some(target) = respelt.as_ref().and_then(|respelt| respelt.target.clone()) {
            turn.respelt(target);
        }
        Some([respelt.as_ref().map_or(head, |respelt| &respelt.head), behind].concat())
    }

    /// Other limits hold from now on (HTTP/2, which has no turns).
    pub fn set_limits(&self, limits: Arc<Limits>) {
        self.turn.lock().set_limits(limits);
    }

    /// The connection is parked: nothing of the last request is kept.
    pub fn forget_head(&self) {
        self.turn.lock().forget();
    }

    /// Whether a hook has run for the current request.
    pub fn is_heard(&self) -> bool {
        self.heard.load(Relaxed)
    }

    /// Whether a body is being read.
    pub fn wants_body(&self) -> bool {
        self.body_wanted.load(Relaxed)
    }

    /// More of the body was asked for and has not come yet, or it has.
    pub fn set_awaits_body(&self, awaited: bool) {
        self.body_awaited.store(awaited, Relaxed);
    }

    /// Requests being served now.
    pub fn serving(&self) -> u32 {
        self.serving.load(Relaxed)
    }

    /// Whether the connection is to end in a reset.
    pub fn ends_in_reset(&self) -> bool {
        self.reset.load(Relaxed)
    }

    /// Whether it is a WebSocket.
    pub fn is_websocket(&self) -> bool {
        self.websocket.load(Relaxed)
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        *self.turn.lock().limits()
    }

    /// When the current header must be complete: `None` while nothing of it came.
    pub fn header_due(&self) -> Option<Instant> {
        let turn = self.turn.lock();
        Some(turn.began()? + turn.limits().header_timeout)
    }

    /// Bytes the current header may still have.
    pub fn header_room(&self) -> usize {
        self.turn.lock().room()
    }

    /// Notes what is wrong with the current request; the first finding stands.
    pub fn set_fault(&self, fault: Fault) {
        self.turn.lock().blame(fault);
    }

    /// Whether a request broke off before any hook saw it.
    pub fn broke_off(&self) -> bool {
        !self.is_heard() && self.turn.lock().began().is_some()
    }

    /// Why a request ended before any hook saw it: `None` when nothing of it came. What Pingora calls malformed may
    /// be too long or have too many lines; the head tells.
    pub fn unheard<T>(&self, tell: impl FnOnce(Unheard<'_>) -> T) -> Option<T> {
        if self.is_heard() {
            return None;
        }
        let mut turn = self.turn.lock();
        let took = turn.began()?.elapsed();
        let request_id = turn.id();
        Some(tell(Unheard { wire: self, fault: turn.verdict(), head: turn.start(), request_id, took }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::buffers::tests::plenty;
    use super::*;

    /// Ordinary limits, for other rooms too.
    pub(crate) fn limits() -> Limits {
        let second = Duration::from_secs(1);
        Limits {
            header_timeout: 10 * second,
            header_bytes: 65536,
            headers: 100,
            uri_bytes: 8192,
            keepalive: 65 * second,
            keepalive_requests: 3,
            max_age: None,
            body_timeout: 30 * second,
            send_timeout: 30 * second,
            connections_per_client: None,
        }
    }

    const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1234);

    fn wire() -> Arc<Wire> {
        let home = Home::new(
            ([127, 0, 0, 1], 80).into(),
            false,
            Arc::new(AtomicBool::new(false)),
            Farewell::default(),
            plenty(),
        );
        Wire::new(PEER, PEER, Arc::new(home), limits())
    }

    fn take(wire: &Wire, bytes: &[u8]) {
        assert!(wire.note_received(bytes));
    }

    fn serve(wire: &Arc<Wire>, header: usize, body: usize) {
        drop(wire.hook_ran());
        wire.request_finished(header, body);
    }

    #[test]
    fn the_received_line_is_judged_and_not_the_escaped_one() {
        let wire = wire();
        wire.begin_turn(limits());
        take(&wire, b"GET /a b HTTP/1.1\r\n\r\n");
        assert!(!wire.target_is_plain(b"GET /a%20b HTTP/1.1\r\n\r\n"));
        assert_eq!(wire.odd_line().as_deref(), Some(&b"GET /a b HTTP/1.1"[..]));
    }

    #[test]
    fn bytes_of_a_pipelined_request_are_the_first_of_the_next_turn() {
        let wire = wire();
        wire.begin_turn(limits());
        take(&wire, b"GET /a HTTP/1.1\r\n\r\nGET /b c HTTP/1.1\r\n\r\n");
        serve(&wire, 19, 0);
        assert!(!wire.is_settled());
        wire.begin_turn(limits());
        assert!(wire.header_due().is_some(), "the deadline of a request begins with its first byte");
        assert!(!wire.target_is_plain(b"GET /b%20c HTTP/1.1\r\n\r\n"));
        serve(&wire, 21, 0);
        assert!(wire.is_settled());
    }

    #[test]
    fn behind_a_body_that_is_not_followed_the_parsed_line_is_judged() {
        let wire = wire();
        wire.begin_turn(limits());
        take(&wire, b"POST /a HTTP/1.1\r\n\r\n");
        let serving = wire.hook_ran();
        assert_eq!(wire.body_wanted(End::Length(99)), Some(true));
        take(&wire, b"1234GET /b HTTP/1.1\r\n\r\n");
        wire.body_ended();
        wire.request_finished(20, 4);
        drop(serving);
        wire.begin_turn(limits());
        assert!(wire.target_is_plain(b"GET /b HTTP/1.1\r\n\r\n"));
        assert!(!wire.target_is_plain(b"GET /b#c HTTP/1.1\r\n\r\n"));
    }

    #[test]
    fn a_body_that_is_no_chunks_is_not_handed_on() {
        let wire = wire();
        wire.begin_turn(limits());
        take(&wire, b"POST /a HTTP/1.1\r\n\r\n");
        let _serving = wire.hook_ran();
        assert_eq!(wire.body_wanted(End::Chunked), Some(true));
        assert!(!wire.note_received(b"\r\n\r\nGET /b HTTP/1.1\r\n\r\n"));
    }

    #[test]
    fn the_last_allowed_request_and_a_drain_close() {
        let draining = Arc::new(AtomicBool::new(false));
        let home =
            Arc::new(Home::new(([127, 0, 0, 1], 80).into(), false, draining.clone(), Farewell::default(), plenty()));
        let wire = Wire::new(PEER, PEER, home, limits());
        let first = wire.hook_ran();
        assert!(!wire.must_close());
        let rest = [wire.hook_ran(), wire.hook_ran()];
        assert!(wire.must_close(), "the third of three");
        assert_eq!(wire.serving(), 3);
        drop((first, rest));
        assert_eq!(wire.serving(), 0);
        let home =
            Arc::new(Home::new(([127, 0, 0, 1], 80).into(), false, draining.clone(), Farewell::default(), plenty()));
        let wire = Wire::new(PEER, PEER, home, limits());
        assert!(!wire.must_close());
        draining.store(true, Relaxed);
        assert!(wire.must_close());
    }

    #[test]
    fn an_unheard_request_is_told_of_once_something_came() {
        let wire = wire();
        wire.begin_turn(limits());
        assert_eq!(wire.unheard(|u| u.fault), None, "nothing came");
        take(&wire, b"GET");
        assert_eq!(wire.unheard(|u| (u.fault, u.answer().is_some())), Some((Fault::Gone, false)));
        wire.set_fault(Fault::HeaderTimeout);
        let ids = [wire.unheard(|u| u.request_id), wire.unheard(|u| u.request_id)];
        assert_eq!(ids[0], ids[1], "log and answer name the same id");
        assert!(wire.unheard(|u| u.answer()).flatten().unwrap().starts_with(b"HTTP/1.1 408 "));
        let serving = wire.hook_ran();
        assert_eq!(wire.unheard(|u| u.fault), None, "a hook has it");
        drop(serving);
    }
}
