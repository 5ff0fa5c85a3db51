//! What holds for attempts at a pool's origins? The pool's settings in the types the data plane takes.

use std::sync::Arc;
use std::time::Duration;

use crate::config::route::RouteTimeouts;
use crate::config::units::{Auto, Off};
use crate::config::{idle, pool};
use crate::trust::Trust;

/// Settings of a pool.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What is spoken to the origins.
    pub protocol: Protocol,
    /// How TLS is spoken to them, if it is.
    pub tls: Option<Arc<Trust>>,
    /// Limits in time.
    pub timeouts: Timeouts,
    /// Connections.
    pub connections: Connections,
}

/// What is spoken to origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: agreed on by ALPN with TLS, by prior knowledge without.
    Http2,
}

/// Limits in time for an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeouts {
    /// To a connection.
    pub connect: Duration,
    /// Longest time without progress of a write to the origin.
    pub send: Duration,
    /// Longest silence of the origin.
    pub read: Duration,
    /// The same for SSE, Upgrade and gRPC.
    pub stream: Duration,
    /// From the first attempt to the end of the answer.
    pub total: Option<Duration>,
}

/// How connections are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Open connections of the pool above which none is kept idle.
    pub keepalive: usize,
    /// How long an idle one is kept.
    pub keepalive_timeout: Duration,
    /// Requests on one at most.
    pub max_requests: Option<u32>,
    /// Age above which one takes no further request.
    pub max_age: Option<Duration>,
}

impl Timeouts {
    /// These, with the differences of a route.
    pub fn for_route(&self, route: &RouteTimeouts) -> Self {
        Self {
            connect: self.connect,
            send: route.send.map_or(self.send, |send| send.0),
            read: route.read.map_or(self.read, |read| read.0),
            stream: route.stream.map_or(self.stream, |stream| stream.0),
            total: route.total.map_or(self.total, |total| on(total).map(|total| total.0)),
        }
    }
}

impl Settings {
    /// The settings as written; `tls`: what was made of their section of that name.
    pub fn compile(written: &pool::Pool, tls: Option<Arc<Trust>>) -> Self {
        let (timeouts, connections) = (&written.timeouts, &written.connections);
        Self {
            protocol: match written.protocol {
                pool::Protocol::Http1 => Protocol::Http1,
                pool::Protocol::H2 | pool::Protocol::H2c => Protocol::Http2,
            },
            tls,
            timeouts: Timeouts {
                connect: timeouts.connect.0,
                send: timeouts.send.0,
                read: timeouts.read.0,
                stream: timeouts.stream.0,
                total: on(timeouts.total).map(|total| total.0),
            },
            connections: Connections {
                keepalive: match connections.keepalive {
                    Auto::Auto => idle::FEW,
                    Auto::Fixed(written) => written as usize,
                },
                keepalive_timeout: connections.keepalive_timeout.0,
                max_requests: on(connections.max_requests),
                max_age: on(connections.max_age).map(|age| age.0),
            },
        }
    }
}

fn on<T>(value: Off<T>) -> Option<T> {
    match value {
        Off::Off => None,
        Off::On(value) => Some(value),
    }
}
