//! What may a client cost us? The `client_limits` section in the units of the data plane.

use std::time::Duration;

use crate::config::process;
use crate::config::units::Off;

/// What a client may cost us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLimits {
    /// From the first byte of a request to the end of its header.
    pub header_timeout: Duration,
    /// How long a connection may idle between requests.
    pub keepalive: Duration,
    /// Requests on one connection at most.
    pub keepalive_requests: u32,
    /// Age at which a connection is closed after its current answer.
    pub max_age: Option<Duration>,
    /// Time for each further 16 KiB of a request body, or its end.
    pub body_timeout: Duration,
    /// Longest time without progress of a pending write.
    pub send_timeout: Duration,
    /// Connections of one client at most.
    pub connections_per_client: Option<u32>,
    /// Bytes of a request header at most.
    pub header_bytes: usize,
    /// Header lines of a request at most.
    pub headers: usize,
    /// Bytes of a request target at most.
    pub uri_bytes: usize,
}

impl ClientLimits {
    pub(super) fn compile(written: &process::ClientLimits) -> Self {
        Self {
            header_timeout: written.header_timeout.0,
            keepalive: written.keepalive.0,
            keepalive_requests: written.keepalive_requests,
            max_age: match written.max_age {
                Off::Off => None,
                Off::On(age) => Some(age.0),
            },
            body_timeout: written.body_timeout.0,
            send_timeout: written.send_timeout.0,
            connections_per_client: written.connections_per_client.on().copied(),
            header_bytes: usize::try_from(written.header_bytes.0).unwrap_or(usize::MAX),
            headers: written.headers as usize,
            uri_bytes: usize::try_from(written.uri_bytes.0).unwrap_or(usize::MAX),
        }
    }
}
