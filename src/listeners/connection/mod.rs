//! What does Pingora get to see of a client's socket?
//!
//! [`Connection`] is the outermost stream of a client connection: header and body of an answer leave in one write, and
//! until the first hook of a request has run it owns that request: it holds the header to its size and its deadline,
//! keeps its first bytes, swallows what Pingora would say of a malformed one (which names Pingora) and writes our own
//! answer when Pingora closes. Always: a pending read or write of a client has a time limit, unless it waits for
//! nothing but the client's leaving. The socket itself belongs to the loop in `keepalive`, which closes it.

mod asked;
mod followed;
mod sending;
mod throttle;

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use self::asked::Digests;
use self::followed::Followed;
use super::alarm::Alarm;
use super::http2::{Http2, Refusal};
use super::outbox::{Outbox, first};
use super::pace::BodyPace;
use super::socket::Socket;
use crate::proxy::reject::canned_headers;
use crate::proxy::wire::{Fault, Frames, GOING_AWAY, Wire};
use crate::traffic::respell::may_be_odd;

/// How long a connection keeps what its next request needs: one that follows soon finds it all in place.
pub(super) const BRIEF: Duration = Duration::from_millis(500);

/// A client's socket as Pingora sees it.
pub(crate) struct Connection {
    socket: Socket,
    wire: Arc<Wire>,
    /// None while it idles.
    digests: Option<Digests>,
    /// Bytes read before it was known which protocol they are, or a head that was kept back.
    ahead: Vec<u8>,
    /// The start of a head that may have to be respelt, until it is whole.
    kept: Vec<u8>,
    /// What is ahead was kept back before.
    respelt: bool,
    outbox: Outbox,
    reading: Alarm,
    writing: Alarm,
    body: BodyPace,
    answered: bool,
    followed: Followed,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("peer", &self.wire.peer()).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    /// An answer that was cut short must not look as if it ended.
    fn drop(&mut self) {
        if self.outbox.is_empty() && !self.wire.ends_in_reset() {
            self.socket.say_goodbye();
        }
    }
}

impl Connection {
    /// `socket`, of which `ahead` has been read already.
    pub(super) fn new(socket: Socket, wire: Arc<Wire>, ahead: Vec<u8>) -> Self {
        let digests = Some(Digests::new(socket.tcp(), &wire));
        Self {
            socket,
            wire,
            digests,
            ahead,
            kept: Vec::new(),
            respelt: false,
            outbox: Outbox::default(),
            reading: Alarm::default(),
            writing: Alarm::default(),
            body: BodyPace::default(),
            answered: false,
            followed: Followed::default(),
        }
    }

    /// HTTP/2 is spoken from the first byte on.
    pub(crate) fn speak_h2(&mut self) {
        self.wire.speak_h2();
        self.followed = Followed::http2_from_the_start();
    }

    /// Whether bytes wait here that Pingora has not taken yet.
    pub(crate) fn holds_bytes(&self) -> bool {
        !self.ahead.is_empty() || self.socket.holds_bytes()
    }

    /// Ready once there is something to read, or the end; false when none came for `idle`. One that idles on gives
    /// back all memory it needs not hold.
    pub(crate) fn poll_wake(&mut self, cx: &mut Context<'_>, since: Instant, idle: Duration) -> Poll<bool> {
        if let Poll::Ready(readable) = self.socket.tcp().poll_read_ready(cx) {
            self.reading.clear();
            self.digests.get_or_insert_with(|| Digests::new(self.socket.tcp(), &self.wire));
            return Poll::Ready(readable.is_ok());
        }
        self.socket.falls_silent();
        if self.digests.is_some() && idle > BRIEF {
            ready!(self.reading.poll(cx, since + BRIEF));
            self.slim();
        }
        self.reading.poll(cx, since + idle).map(|()| false)
    }

    fn slim(&mut self) {
        self.digests = None;
        self.outbox = Outbox::default();
        self.writing = Alarm::default();
        self.followed.rest();
        self.wire.forget_head();
    }

    /// Reads into `buf`, at most `room` bytes.
    fn poll_fill(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>, room: usize) -> Poll<io::Result<usize>> {
        let space = buf.remaining().min(room);
        if !self.ahead.is_empty() {
            let n = self.ahead.len().min(space);
            buf.put_slice(self.ahead.drain(..n).as_slice());
            return Poll::Ready(Ok(n));
        }
        self.socket.poll_read(cx, buf, space)
    }

    /// Reads what Pingora gets to see. A head that may be odd is kept back until it is whole, and respelt.
    fn poll_next(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>, room: usize) -> Poll<io::Result<usize>> {
        let before = buf.filled().len();
        loop {
            let n = ready!(self.poll_fill(cx, buf, room.saturating_sub(self.kept.len())))?;
            if !self.wire.expects_head() {
                self.respelt = false;
                return Poll::Ready(Ok(n));
            }
            let came = buf.filled().get(before..).unwrap_or_default();
            if self.respelt || self.kept.is_empty() && (n == 0 || !may_be_odd(came)) {
                return Poll::Ready(Ok(n));
            }
            self.kept.extend_from_slice(came);
            buf.set_filled(before);
            let given_up = n == 0 || self.kept.len() >= room;
            if let Some(head) = self.wire.respell(&self.kept).or_else(|| given_up.then(|| self.kept.clone())) {
                self.ahead = head;
                self.kept = Vec::new();
                self.respelt = true;
            }
        }
    }

    /// What was kept back is all there is; who sent too much that is none of HTTP is not heard out.
    fn fails_to_read(&mut self) {
        let _ = self.wire.note_received(&std::mem::take(&mut self.kept));
        if self.socket.has_enough() {
            self.wire.reset_on_close();
        }
    }

    /// No more comes: what was kept back is handed over as it is.
    fn give_up_kept(&mut self) {
        self.ahead = std::mem::take(&mut self.kept);
        self.respelt = true;
    }

    /// Nothing to read: how long may that last?
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.wire.is_cut() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let heading = self.followed.http2().and_then(Http2::heading_since);
        if heading.is_none() && self.wire.is_heard() && !self.wire.wants_body() {
            self.reading.clear();
            return Poll::Pending;
        }
        let limits = self.wire.limits();
        let (due, fault) = if let Some(since) = heading {
            ready!(self.reading.poll(cx, since + limits.header_timeout));
            self.wire.refused(Fault::HeaderTimeout, since.elapsed());
            self.says_enough(cx);
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        } else if self.wire.is_heard() {
            self.wire.set_awaits_body(true);
            (self.body.due(limits.body_timeout), Some(Fault::BodyTimeout))
        } else if let Some(due) = self.wire.header_due() {
            (due, Some(Fault::HeaderTimeout))
        } else {
            (self.reading.due().unwrap_or_else(|| Instant::now() + limits.keepalive), None)
        };
        ready!(self.reading.poll(cx, due));
        if let Some(fault) = fault {
            self.wire.set_fault(fault);
        }
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    /// Puts our answer to an unheard request, if there is one, in the place of all that Pingora said.
    fn answer_once(&mut self) {
        if self.answered {
            return;
        }
        self.answered = true;
        if let Some(bytes) = self.wire.unheard(|unheard| unheard.answer()).flatten() {
            self.outbox.replace(&bytes);
        }
    }

    /// The client sends too much that asks for nothing: it is cut.
    fn is_flooded(&mut self, cx: &mut Context<'_>) {
        self.wire.set_fault(Fault::Flood);
        self.wire.reset_on_close();
        self.says_enough(cx);
    }

    /// The client of HTTP/2 does what we will not have: it is told so, if no frame of ours is under way.
    fn says_enough(&mut self, cx: &mut Context<'_>) {
        if let Some(goaway) = self.followed.http2().and_then(Http2::goaway) {
            self.outbox.take(&[IoSlice::new(&goaway)], goaway.len());
            // what does not leave at once has a client that reads nothing
            let _ = self.poll_send(cx, &[]);
        }
    }

    /// Whether the client was told that we leave: at the end of a drain, once no frame of the origin's is cut.
    fn parts(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.wire.hears_farewell(cx) {
            return false;
        }
        if !self.wire.has_parted() && self.followed.frames().is_some_and(Frames::may_follow) {
            self.outbox.take(&[IoSlice::new(&GOING_AWAY)], GOING_AWAY.len());
            self.wire.part();
            // what does not leave at once has a client that reads nothing
            let _ = self.poll_send(cx, &[]);
        }
        self.wire.has_parted()
    }

    /// Writes what stands before a refusal of Pingora's own; then that, in our words.
    fn poll_refuse(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
        refusal: &Refusal,
    ) -> Poll<io::Result<usize>> {
        if refusal.at > 0 {
            return self.poll_parts(cx, &first(parts, refusal.at));
        }
        while !self.outbox.is_empty() {
            ready!(self.poll_send(cx, &[]))?;
        }
        let headers =
            canned_headers(Fault::BadRequest.class(), self.wire.refused(Fault::BadRequest, Duration::ZERO).as_str());
        self.outbox.replace(&refusal.with(&headers.each_ref().map(|(name, value)| (*name, value.as_str()))));
        self.follow(parts, refusal.length());
        Poll::Ready(Ok(refusal.length()))
    }

    /// `taken` bytes of `parts` go to the client.
    fn follow(&mut self, parts: &[IoSlice<'_>], taken: usize) {
        if let Some(farewell) = self.followed.http2_mut().and_then(|http2| http2.go(parts, taken)) {
            farewell.note(&self.wire);
        }
        if !self.wire.is_websocket() {
            return;
        }
        if let Some(frames) = self.followed.frames_mut() {
            first(parts, taken).iter().for_each(|part| frames.take(part));
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.wire.is_websocket() && this.parts(cx) {
            // as if the client had left: the tunnel ends as one whose end was its client's
            return Poll::Ready(Ok(()));
        }
        let idles = this.wire.is_heard() && !this.wire.wants_body();
        ready!(this.poll_send_on(cx, idles))?;
        let room = if this.wire.is_heard() { usize::MAX } else { this.wire.header_room() };
        if room == 0 {
            this.wire.set_fault(Fault::HeaderTooLarge);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let before = buf.filled().len();
        let n = loop {
            match this.poll_next(cx, buf, room) {
                Poll::Ready(Ok(n)) => break n,
                Poll::Ready(Err(error)) => {
                    this.fails_to_read();
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => {
                    let gone = ready!(this.poll_patience(cx));
                    if this.kept.is_empty() {
                        return Poll::Ready(gone);
                    }
                    // Pingora answers nobody of whom it read nothing: the next read fails as this one did
                    this.give_up_kept();
                }
            }
        };
        this.reading.clear();
        if let Some(http2) = this.followed.http2_mut()
            && !http2.came(buf.filled_mut().get_mut(before..).unwrap_or_default())
        {
            this.is_flooded(cx);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        if n > 0 && !this.wire.note_received(buf.filled().get(before..).unwrap_or_default()) {
            this.wire.set_fault(Fault::BadRequest);
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        if n > 0 && idles && !this.wire.is_h2() {
            this.wire.next_came();
        }
        if this.wire.wants_body() {
            this.wire.set_awaits_body(false);
            this.body.came(n);
        } else {
            this.body = BodyPace::default();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if !this.wire.is_heard() {
            // Pingora's own word on a request no hook saw
            this.wire.set_fault(Fault::BadRequest);
            return Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()));
        }
        if this.wire.has_parted() {
            // behind a Close nothing may follow; an origin that goes on is cut
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        match this.followed.http2().and_then(|http2| http2.refusal(parts)) {
            Some(refusal) => this.poll_refuse(cx, parts, &refusal),
            None => this.poll_parts(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        match this.poll_empty(cx)? {
            Poll::Pending if this.wire.holds_back() == 0 => Poll::Pending,
            // what is held back leaves with every later poll
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.answer_once();
        ready!(self.poll_empty(cx))?;
        self.socket.say_goodbye();
        // the peer may be gone already, which is no failure of a shutdown
        let _ = nix::sys::socket::shutdown(self.socket.tcp().as_raw_fd(), nix::sys::socket::Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}
