//! What may a client cost, and what went wrong when it cost more?

use crate::resilience::Class;
use crate::snapshot::ClientLimits;

/// What a client may cost a connection: those of the current snapshot, anew for every request.
pub type Limits = ClientLimits;

/// Why the connection gave a request up, or its peer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not HTTP, or HTTP nobody may send.
    BadRequest,
    /// HTTP without TLS, on a listener that speaks TLS.
    PlainHttp,
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
    /// The process leaves and waits no longer.
    Cut,
}

impl Fault {
    /// The word it goes by in logs, metrics and answers.
    pub fn class(self) -> Class {
        match self {
            Self::BadRequest | Self::PlainHttp => Class::BadRequest,
            Self::HeaderTimeout | Self::BodyTimeout => Class::ClientTimeout,
            Self::HeaderTooLarge => Class::HeaderTooLarge,
            Self::UriTooLong => Class::UriTooLong,
            Self::Cut => Class::DrainTimeout,
            Self::Gone | Self::SendTimeout | Self::Flood => Class::ClientGone,
        }
    }

    /// What the client is told beside that word, if it helps.
    pub fn advice(self) -> &'static str {
        match self {
            Self::PlainHttp => "plain HTTP was sent to a port that speaks TLS, ask by https\n",
            _ => "",
        }
    }
}
