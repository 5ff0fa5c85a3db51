//! What is fixed while the process lives: threads, listeners, the admin address, sockets, logs.
//!
//! A reload that changes anything here is refused as a whole ("takes an upgrade").

use std::net::SocketAddr;
use std::path::PathBuf;

use super::units::{Auto, Bytes, Duration, Off};

/// The `process` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Data-plane shards; `auto` is one per core.
    pub threads: Auto<u16>,
    /// Sockets for clients.
    pub listeners: Vec<Listener>,
    /// The admin address (default 127.0.0.1:9180).
    pub admin: Off<Admin>,
    /// The Unix socket for commands. `None` when the key is absent: the default path of the user.
    pub control_socket: Option<Off<PathBuf>>,
    /// Client connections at most; `auto` is (hard limit of descriptors - 256) / 2.
    pub max_connections: Auto<u32>,
    /// How the process leaves.
    pub drain: Drain,
    /// One line a request.
    pub access_log: Off<AccessLog>,
    /// What the process says about itself (standard error).
    pub log: Log,
}

/// One listening socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The address to bind.
    pub address: SocketAddr,
    /// Accept HTTP/2 by prior knowledge beside HTTP/1.
    pub h2c: bool,
}

/// The `admin` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admin {
    /// The address to bind.
    pub address: SocketAddr,
}

/// The `drain` section: rules U4 and U5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drain {
    /// How long after TERM everything is still accepted while `/readyz` says 503.
    pub lame_duck: Duration,
    /// How long connections may go on after the lame duck.
    pub timeout: Duration,
}

/// Where access log lines go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file or a FIFO, opened for appending; reopened on USR1.
    File(PathBuf),
}

/// The `access_log` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// Where lines go.
    pub path: Sink,
    /// Their shape.
    pub format: AccessFormat,
}

/// The shape of an access log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessFormat {
    /// One JSON object a line.
    Json,
    /// The line an nginx user's awk reads, with nginx's lists over all attempts.
    Upstream,
    /// nginx's and Apache's combined format.
    Combined,
    /// A template of our own variables.
    Template(String),
}

/// The `log` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// The least important level that is written.
    pub level: log::LevelFilter,
    /// The shape of a line.
    pub format: LogFormat,
}

/// The shape of a line of the process log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The `client_limits` section: what a client may cost us.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientLimits {
    /// From the first byte of a request to the end of its header.
    pub header_timeout: Duration,
    /// How long a connection may idle between requests.
    pub keepalive: Duration,
    /// Requests on one connection at most.
    pub keepalive_requests: u32,
    /// Age at which a connection is closed after its current answer.
    pub max_age: Off<Duration>,
    /// Time for each further 16 KiB of a request body, or its end.
    pub body_timeout: Duration,
    /// Longest time without progress of a pending write.
    pub send_timeout: Duration,
    /// Bytes of a request header at most (431).
    pub header_bytes: Bytes,
    /// Header lines of a request at most (431).
    pub headers: u32,
    /// Bytes of a request target at most (414).
    pub uri_bytes: Bytes,
}
