//! What does TLS make of a socket?
//!
//! [`Secured`] reads and writes without waiting: `WouldBlock` means that the socket cannot go on just now. A record is
//! read with one call of the kernel where it can be, and small parts of an answer leave as one record. Always: bytes that
//! were taken are either in the kernel or held back here as they are, since the library must be offered the same again;
//! and a client that sends records without data, new keys over and over, is cut. What the library says in one step of a
//! handshake leaves as one; its last word in TLS 1.3, tickets that nobody waits for, with the first answer, or once the client
//! is waited for.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::Arc;
use std::task::{Context, Poll};

use openssl::error::ErrorStack;
use openssl::ssl::{Error, ErrorCode, Ssl, SslContext, SslRef, SslStream, SslVersion};
use tokio::net::TcpStream;

use super::socket::drained;

/// Bytes of one record at most.
pub(super) const MOST: usize = 16 << 10;

/// The header of a record, which the library asks for first.
const HEADER: usize = 5;

/// What is read from the socket where the library asks for a header: mostly the whole record of a request.
const PIECE: usize = 2048;

/// So many records more without data than with it, and the client is cut. A handshake has some twenty, new keys come once
/// in millions of records; each costs as much as a small request, and the library answers it within one read.
const IDLE_RECORDS: u32 = 256;

/// A socket that speaks TLS.
pub(super) struct Secured {
    stream: SslStream<Below>,
    /// It is the socket's taking that is waited for, also where the library reads: it answers what it reads.
    wants_to_write: bool,
    /// Taken, and not yet in the kernel.
    sending: Vec<u8>,
    /// The handshake is done, and nothing went wrong since.
    is_sound: bool,
}

/// The socket as the library sees it.
struct Below {
    socket: Arc<TcpStream>,
    /// Read already; the library has had the start of it.
    ahead: Vec<u8>,
    start: usize,
    /// Records more without data than with it.
    idle: u32,
    /// A handshake is on: what the library writes is `said`.
    shakes: bool,
    /// Written by the library, and not yet in the kernel.
    said: Vec<u8>,
}

impl Secured {
    /// On these terms, a server on `socket`, of which `ahead` was read already.
    pub(super) fn new(socket: Arc<TcpStream>, ahead: Vec<u8>, terms: &SslContext) -> Result<Self, ErrorStack> {
        let mut ssl = Ssl::new(terms)?;
        ssl.set_accept_state();
        let below = Below { socket, ahead, start: 0, idle: 0, shakes: true, said: Vec::new() };
        let stream = SslStream::new(ssl, below)?;
        Ok(Self { stream, wants_to_write: false, sending: Vec::new(), is_sound: false })
    }

    pub(super) fn tcp(&self) -> &Arc<TcpStream> {
        &self.stream.get_ref().socket
    }

    /// What was agreed on.
    pub(super) fn ssl(&self) -> &SslRef {
        self.stream.ssl()
    }

    /// Goes on with the handshake: done, or an error.
    pub(super) fn shake_hands(&mut self) -> io::Result<()> {
        self.speak()?;
        let shaken = self.stream.do_handshake();
        if shaken.is_err() || self.ssl().version2() != Some(SslVersion::TLS1_3) {
            self.speak()?;
        }
        shaken.map_err(|error| self.failed(error))?;
        self.stream.get_mut().shakes = false;
        self.is_sound = true;
        Ok(())
    }

    /// Sends what was said.
    fn speak(&mut self) -> io::Result<()> {
        let spoken = self.stream.get_mut().speak();
        self.wants_to_write = spoken.is_err();
        spoken
    }

    /// The client is waited for: nothing stays here meanwhile. What the socket does not take leaves with the next record.
    pub(super) fn falls_silent(&mut self) {
        // an error is met again by whoever reads or writes next
        let _ = self.stream.get_mut().speak();
    }

    /// Waits for what the last `WouldBlock` was about.
    pub(super) fn poll_wanted(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.wants_to_write { self.tcp().poll_write_ready(cx) } else { self.tcp().poll_read_ready(cx) }
    }

    pub(super) fn holds_bytes(&self) -> bool {
        self.stream.ssl().pending() > 0 || !self.stream.get_ref().ahead.is_empty()
    }

    pub(super) fn holds_back(&self) -> bool {
        !self.sending.is_empty()
    }

    /// The client sent too many records without data.
    pub(super) fn has_enough(&self) -> bool {
        self.stream.get_ref().idle > IDLE_RECORDS
    }

    /// Reads into `buf`; 0 is the end.
    pub(super) fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.stream.ssl_read(buf) {
            Ok(count) => {
                // one for the record itself
                let idle = &mut self.stream.get_mut().idle;
                *idle = idle.saturating_sub(2);
                Ok(count)
            }
            Err(error) if is_end(&error) => Ok(0),
            Err(error) => {
                let error = self.failed(error);
                if error.kind() == ErrorKind::WouldBlock {
                    self.falls_silent();
                }
                Err(error)
            }
        }
    }

    /// Writes what was held back, then one record of `slices`: how many bytes of them were taken.
    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        while !self.sending.is_empty() {
            let written = self.stream.ssl_write(&self.sending).map_err(|error| self.failed(error))?;
            self.sending.drain(..written);
        }
        self.sending = Vec::new();
        let mut parts = slices.iter().filter(|part| !part.is_empty());
        let (first, second) = (parts.next(), parts.next());
        match (first, second) {
            (None, _) => Ok(0),
            (Some(one), None) => self.write_record(one.get(..MOST).unwrap_or(one)),
            (Some(first), Some(_)) if first.len() >= MOST => self.write_record(first.get(..MOST).unwrap_or(first)),
            (Some(_), Some(_)) => self.write_record(&gathered(slices)),
        }
    }

    fn write_record(&mut self, record: &[u8]) -> io::Result<usize> {
        match self.stream.ssl_write(record) {
            Ok(written) => Ok(written),
            Err(error) => match self.failed(error) {
                error if error.kind() == ErrorKind::WouldBlock => {
                    self.sending = record.to_vec();
                    Ok(record.len())
                }
                error => Err(error),
            },
        }
    }

    fn failed(&mut self, error: Error) -> io::Error {
        self.wants_to_write = error.code() == ErrorCode::WANT_WRITE;
        let error = into_io(error);
        self.is_sound = self.is_sound && error.kind() == ErrorKind::WouldBlock;
        error
    }

    /// Tells the client that nothing follows, unless something should have.
    pub(super) fn say_goodbye(&mut self) {
        if std::mem::take(&mut self.is_sound) && self.sending.is_empty() {
            // it may have left already, or take nothing any more
            let _ = self.stream.shutdown();
        }
    }
}

/// The start of `slices`, as one record.
fn gathered(slices: &[IoSlice<'_>]) -> Vec<u8> {
    let mut record = Vec::with_capacity(slices.iter().map(|part| part.len()).sum::<usize>().min(MOST));
    for part in slices {
        let space = MOST - record.len();
        record.extend_from_slice(part.get(..space).unwrap_or(part));
    }
    record
}

/// The client said that nothing follows, or closed without a word; what that means to a request, HTTP knows.
fn is_end(error: &Error) -> bool {
    match error.code() {
        ErrorCode::ZERO_RETURN => true,
        ErrorCode::SYSCALL => error.io_error().is_none(),
        _ => false,
    }
}

fn into_io(error: Error) -> io::Error {
    match error.code() {
        ErrorCode::WANT_READ | ErrorCode::WANT_WRITE => ErrorKind::WouldBlock.into(),
        _ => error.into_io_error().unwrap_or_else(|error| io::Error::new(ErrorKind::InvalidData, error)),
    }
}

impl Below {
    /// Sends what was said.
    fn speak(&mut self) -> io::Result<()> {
        while !self.said.is_empty() {
            let sent = self.socket.try_write(&self.said).map_err(no_retry)?;
            self.said.drain(..sent);
        }
        self.said = Vec::new();
        Ok(())
    }

    /// The library takes of what was read already.
    fn take(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.ahead.get(self.start..).unwrap_or_default().read(buf)?;
        self.start += count;
        if self.start >= self.ahead.len() {
            (self.ahead, self.start) = (Vec::new(), 0);
        }
        Ok(count)
    }

    /// A header of a record is asked for.
    fn count(&mut self) -> io::Result<()> {
        self.idle += 1;
        if self.idle > IDLE_RECORDS { Err(io::Error::other("too many records without data")) } else { Ok(()) }
    }
}

impl Read for Below {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.ahead.is_empty() && buf.len() > HEADER {
            let count = self.socket.try_read(buf).map_err(no_retry)?;
            if count < buf.len() {
                drained(&self.socket);
            }
            return Ok(count);
        }
        if self.ahead.is_empty() {
            let mut piece = [0; PIECE];
            let count = self.socket.try_read(&mut piece).map_err(no_retry)?;
            if count < PIECE {
                drained(&self.socket);
            }
            self.ahead = piece.get(..count).unwrap_or_default().to_vec();
        }
        if !self.ahead.is_empty() && buf.len() == HEADER {
            self.count()?;
        }
        self.take(buf)
    }
}

impl Write for Below {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.shakes {
            self.said.extend_from_slice(buf);
            return Ok(buf.len());
        }
        if self.said.is_empty() {
            return self.socket.try_write(buf).map_err(no_retry);
        }
        let both = [IoSlice::new(&self.said), IoSlice::new(buf)];
        let sent = self.socket.try_write_vectored(&both).map_err(no_retry)?;
        let of_this = sent.saturating_sub(self.said.len());
        self.said.drain(..sent - of_this);
        if of_this == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(of_this) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket that is not connected any more would be asked again for ever.
fn no_retry(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::NotConnected { ErrorKind::ConnectionReset.into() } else { error }
}
