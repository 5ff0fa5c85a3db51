//! All that is known about a finished request: what the access log writes down.
//!
//! Everything is borrowed from the request's own context: building a record costs no allocation.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use super::trace::TraceId;
use crate::template::Facts;

/// One finished request.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// What the client asked. Of a request that could not be read: what was understood of it, the rest empty.
    pub facts: Facts<'a>,
    /// The request line as received, without its line end, when it is not `METHOD target PROTOCOL` (absolute form,
    /// or a request that could not be read).
    pub request_line: Option<&'a [u8]>,
    /// `HTTP/1.0`, `HTTP/1.1` or `HTTP/2.0`.
    pub protocol: &'a str,
    /// When the answer was finished.
    pub time: SystemTime,
    /// The status the client saw; 499 when it left before one.
    pub status: u16,
    /// Bytes of body sent to the client.
    pub bytes_sent: u64,
    /// Bytes of body received from the client.
    pub bytes_received: u64,
    /// From the first byte of the request to the last of the answer.
    pub request_time: Duration,
    /// Its id.
    pub request_id: &'a str,
    /// The route, if one was found.
    pub route: Option<&'a str>,
    /// The pool, if there was one.
    pub pool: Option<&'a str>,
    /// The fingerprint of the ring that was in force.
    pub ring: Option<&'a str>,
    /// The key, if it was formed.
    pub key: Option<&'a [u8]>,
    /// Every try, in order.
    pub attempts: &'a [Attempt<'a>],
    /// The error class when the answer is ours, or the answer was cut.
    pub error: Option<&'static str>,
    /// The limit that it was beyond, whether it was turned away or not.
    pub limited: Option<&'a str>,
    /// The trace it is part of, if anything is traced.
    pub trace: Option<TraceId>,
}

/// One try of a request at one origin.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The origin's name.
    pub origin: &'a str,
    /// Where it was reached.
    pub address: Peer<'a>,
    /// The status it answered, if it did.
    pub status: Option<u16>,
    /// To a connection; `None` when one was reused or none was made.
    pub connect_time: Option<Duration>,
    /// From the start of the try to its end.
    pub response_time: Duration,
    /// On a connection that had served before?
    pub reused: bool,
    /// `ok`, `status` (the answer was thrown away for another try) or an error class.
    pub outcome: &'static str,
    /// `hit`, `miss` or `other`: what the origin said of its own cache.
    pub cache: Option<&'static str>,
}

/// Where an origin was reached.
#[derive(Debug, Clone, Copy)]
pub enum Peer<'a> {
    /// An IP address.
    Ip(SocketAddr),
    /// The path of a Unix socket.
    Unix(&'a str),
    /// Its name had not been resolved.
    Unknown,
}
