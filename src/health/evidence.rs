//! What can be learned of an origin, from probes and from traffic?
//!
//! What fails on our own side (descriptors, ports, memory) is no evidence and has no word here.

use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Something learned of one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// A probe came to this.
    Probe(Grade),
    /// The TCP connect that followed a refusal came to this.
    Confirm(Grade),
    /// A request got no answer in time.
    TimedOut {
        /// Tells requests apart: the hash of its key.
        key: u32,
        /// When the request went out.
        since: Instant,
    },
    /// A request that tried it while every origin was out got through.
    Connected,
    /// The judge itself was held up until now: what was gathered meanwhile says nothing about origins.
    Stalled,
}

/// What a probe came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// As expected.
    Good,
    /// Alive, with more to do than it can.
    Overloaded,
    /// Anything else.
    Bad(Fault),
}

/// What was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The connection was refused.
    Refused,
    /// There is no way to it.
    Unreachable,
    /// No connection in time.
    ConnectTimeout,
    /// Connected, and no whole answer in time.
    Timeout,
    /// The connection was closed or reset before the answer was whole.
    Closed,
    /// This status.
    Status(u16),
    /// The body does not hold what it has to.
    Body,
    /// What came back is no HTTP.
    Malformed,
    /// There was no TLS session.
    Tls,
    /// Its certificate is not one to be believed.
    Certificate,
    /// It agreed to no HTTP/2.
    NoHttp2,
}

impl Grade {
    /// The label of `moorgate_probes_total`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Overloaded => "overloaded",
            Self::Bad(_) => "bad",
        }
    }

    /// The fault of a bad one.
    pub const fn fault(self) -> Option<Fault> {
        match self {
            Self::Bad(fault) => Some(fault),
            Self::Good | Self::Overloaded => None,
        }
    }
}

impl Fault {
    /// One word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::ConnectTimeout => "connect_timeout",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Status(_) => "status",
            Self::Body => "body",
            Self::Malformed => "malformed",
            Self::Tls => "tls",
            Self::Certificate => "certificate",
            Self::NoHttp2 => "no_http2",
        }
    }

    /// The origin, or the way to it, said no at once: hard evidence if it says so twice.
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Refused | Self::Unreachable)
    }

    /// Was there an answer, if not the right one? Then the origin lives.
    pub const fn answered(self) -> bool {
        matches!(self, Self::Status(_) | Self::Body)
    }

    /// Did it take all the time that there was?
    pub const fn waited(self) -> bool {
        matches!(self, Self::ConnectTimeout | Self::Timeout)
    }

    /// Was there a connection?
    pub const fn connected(self) -> bool {
        !matches!(self, Self::Refused | Self::Unreachable | Self::ConnectTimeout)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "status {status}"),
            Self::ConnectTimeout => f.write_str("connect timeout"),
            Self::Tls => f.write_str("TLS handshake failed"),
            Self::Certificate => f.write_str("certificate not trusted"),
            Self::NoHttp2 => f.write_str("no HTTP/2 by ALPN"),
            fault => f.write_str(fault.as_str()),
        }
    }
}
