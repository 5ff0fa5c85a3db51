//! What may a client cost, and what went wrong when it cost more?

use std::time::Duration;

use crate::resilience::Class;

/// What a client may cost this connection, taken anew from the current snapshot for every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the first byte of a request to the end of its header.
    pub header_timeout: Duration,
    /// Bytes of a request header at most.
    pub header_bytes: usize,
    /// Lines of a request header at most.
    pub headers: usize,
    /// Bytes of a request target at most.
    pub uri_bytes: usize,
    /// How long the connection may idle between requests.
    pub keepalive: Duration,
    /// Requests on the connection at most.
    pub keepalive_requests: u32,
    /// Age at which the connection is closed after its current answer.
    pub max_age: Option<Duration>,
    /// Time for each further 16 KiB of a request body, or its end.
    pub body_timeout: Duration,
    /// Longest time without progress of a pending write.
    pub send_timeout: Duration,
    /// Connections of its client at most.
    pub connections_per_client: Option<u32>,
}

/// Why the connection gave a request up, or its peer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not HTTP, or HTTP nobody may send.
    BadRequest,
    /// The header was not complete in time.
    HeaderTimeout,
    /// The header has too many bytes or lines.
    HeaderTooLarge,
    /// The target alone is too long.
    UriTooLong,
    /// The client left before its header was complete.
    Gone,
    /// The body came too slowly.
    BodyTimeout,
    /// The client did not take its answer.
    SendTimeout,
    /// HTTP/2 frames without end that ask for nothing.
    Flood,
}

impl Fault {
    /// The word it goes by in logs, metrics and answers.
    pub fn class(self) -> Class {
        match self {
            Self::BadRequest => Class::BadRequest,
            Self::HeaderTimeout | Self::BodyTimeout => Class::ClientTimeout,
            Self::HeaderTooLarge => Class::HeaderTooLarge,
            Self::UriTooLong => Class::UriTooLong,
            Self::Gone | Self::SendTimeout | Self::Flood => Class::ClientGone,
        }
    }
}
