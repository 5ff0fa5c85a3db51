//! A pool: origins serving the same thing, how a request is shared out among them, and what is learned of them.

use std::time;

use http::{HeaderName, HeaderValue, Method};
use indexmap::IndexMap;

use super::units::{Address, Duration, Off, Percent, Rate};

/// One entry of `pools`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// How a request is shared out.
    pub balance: Balance,
    /// Which query arguments are part of `{args}`.
    pub args: Args,
    /// The origins, in the order of the file (which has no meaning).
    pub origins: Vec<Origin>,
    /// What is spoken to the origins.
    pub protocol: Protocol,
    /// The Host header the origins see.
    pub host: Host,
    /// Limits in time for an attempt.
    pub timeouts: Timeouts,
    /// Connections to the origins.
    pub connections: Connections,
    /// Retries as a share of first attempts.
    pub retry_budget: RetryBudget,
    /// Probes, and what follows from them.
    pub health: Health,
}

/// The `balance` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    /// The one algorithm of the pool.
    pub algorithm: Algorithm,
    /// The template of the key.
    pub key: String,
    /// What happens when a part of the key is missing.
    pub on_missing: OnMissing,
}

/// How an origin is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Consistent hashing, placements equal to nginx's `hash … consistent`.
    Hash,
}

/// `on_missing`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnMissing {
    /// Spread over the pool by two choices.
    Spread,
    /// Another key template.
    Key(String),
}

/// `args`: which query arguments are part of `{args}` (compared after normalisation; a trailing `*` matches any rest).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Args {
    /// All of them.
    #[default]
    All,
    /// Only these.
    Keep(Vec<String>),
    /// All but these.
    Drop(Vec<String>),
}

/// One origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Where it is.
    pub address: Address,
    /// What it is called on the ring and everywhere else: as written, default the address as written.
    pub name: String,
    /// Units of weight, 1 to 1000; 160 points each.
    pub weight: u16,
}

/// What is spoken to origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 without TLS, by prior knowledge.
    H2c,
}

/// The Host header the origins see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// As the client sent it.
    Preserve,
    /// The origin's address.
    Address,
    /// This literal.
    Literal(String),
}

/// The `timeouts` section of a pool, after defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// To a connection.
    pub connect: Duration,
    /// Longest time without progress of a write to the origin.
    pub send: Duration,
    /// Longest silence of the origin, before the header and between reads.
    pub read: Duration,
    /// The same for SSE, Upgrade and gRPC.
    pub stream: Duration,
    /// From the first attempt to the end of the answer.
    pub total: Off<Duration>,
}

/// The `connections` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Open connections of the pool and process above which none is kept idle.
    pub keepalive: u32,
    /// How long an idle connection is kept.
    pub keepalive_timeout: Duration,
    /// Requests on one connection at most.
    pub max_requests: Off<u32>,
    /// Age above which a connection takes no further request.
    pub max_age: Off<Duration>,
}

/// The `retry_budget` section: rule T3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryBudget {
    /// Tries added by each first attempt.
    pub ratio: Percent,
    /// Tries added by each second.
    pub floor: Rate,
}

/// The `health` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// How origins are probed.
    pub probe: Off<Probe>,
    /// Share of origins soft evidence may never take below.
    pub min_healthy: Percent,
    /// What happens when every origin is out.
    pub panic: Panic,
}

/// `panic`: rule H5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panic {
    /// Try them all the same.
    Keep,
    /// Answer 503 at once.
    Fail,
}

/// The `probe` section.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Time between two probes of an origin.
    pub interval: Duration,
    /// Time for one probe in all.
    pub timeout: Duration,
    /// What is asked; `None`: a TCP connect only.
    pub http: Option<ProbeHttp>,
    /// Good results in a row that bring an origin in.
    pub rise: u32,
    /// Bad results in a row that make it due out.
    pub fall: u32,
}

/// The `http` section of a probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeHttp {
    /// Method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Host; `None`: the pool's literal `host`, else the origin's name.
    pub host: Option<String>,
    /// Further headers.
    pub headers: IndexMap<HeaderName, HeaderValue>,
    /// Statuses that are good.
    pub expect: Vec<StatusRange>,
    /// Statuses that say "alive but overloaded".
    pub overloaded: Vec<StatusRange>,
    /// Text a good answer's body has to hold (looked for in its first 64 KiB).
    pub body_contains: Option<String>,
}

/// Statuses from `first` to `last`, both included; written `200` or `200-399`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    /// The lowest.
    pub first: u16,
    /// The highest.
    pub last: u16,
}

impl StatusRange {
    /// Is `status` one of these?
    pub fn contains(&self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        let seconds = |n| Duration(time::Duration::from_secs(n));
        Self { connect: seconds(1), send: seconds(10), read: seconds(10), stream: seconds(3600), total: Off::Off }
    }
}
