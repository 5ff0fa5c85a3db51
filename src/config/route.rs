//! A route: which requests it takes, where they go, and what holds for them.

use http::{HeaderName, Method};
use indexmap::{IndexMap, IndexSet};
use ipnet::IpNet;

use super::units::{Duration, Off};

/// One entry of `routes`.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// Its name in logs and metrics; default `route-N` by its position, from 1.
    pub name: String,
    /// Which requests it takes; empty takes everything.
    pub matches: Match,
    /// The pool they go to, by name.
    pub pool: String,
    /// What may be tried again.
    pub retry: Retry,
    /// Differences from the pool's time-outs.
    pub timeouts: RouteTimeouts,
    /// Who may ask.
    pub access: Access,
    /// Forwarding headers.
    pub forwarded: Forwarded,
    /// `%2f` and `%5c` in a path: rule K5.
    pub encoded_slash: EncodedSlash,
}

/// The `match` section; an empty list matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Match {
    /// Exact names, or `*.` and a domain.
    pub hosts: Vec<String>,
    /// The path.
    pub path: Option<PathMatch>,
    /// Methods.
    pub methods: IndexSet<Method>,
    /// Headers and their exact values.
    pub headers: IndexMap<HeaderName, String>,
    /// Cookies and their exact values.
    pub cookies: IndexMap<String, String>,
    /// Query arguments and their exact values.
    pub query: IndexMap<String, String>,
}

/// `path` of a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathMatch {
    /// This path alone.
    Exact(String),
    /// This path and all below it, by whole segments; a trailing slash is ignored.
    Prefix(String),
    /// The whole path, anchored.
    Regex(String),
}

/// The `retry` section: rules T1 to T4. `None` where the built-in policy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all, the first included; 1 switches all retrying off.
    pub tries: u32,
    /// How long after the first attempt a further one may start.
    pub within: Duration,
    /// Conditions for GET, HEAD, OPTIONS and TRACE.
    pub safe: IndexSet<Condition>,
    /// Conditions for every other method.
    pub other: IndexSet<Condition>,
    /// Conditions for single methods, in place of the two above.
    pub methods: IndexMap<Method, IndexSet<Condition>>,
}

/// Why a try may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Condition {
    /// Refused, unreachable, timed out, TLS failed: nothing was sent.
    Connect,
    /// A pooled connection closed before a byte came back.
    Stale,
    /// A fresh connection closed before the header.
    Reset,
    /// No answer within `read`.
    Timeout,
    /// This status.
    Status(u16),
    /// Any status from 500 to 599.
    Status5xx,
    /// Allows `stale`, `reset`, `timeout` and statuses for methods that are not idempotent.
    NonIdempotent,
}

/// Differences of a route from its pool's time-outs; `None` inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RouteTimeouts {
    /// See [`super::pool::Timeouts::send`].
    pub send: Option<Duration>,
    /// See [`super::pool::Timeouts::read`].
    pub read: Option<Duration>,
    /// See [`super::pool::Timeouts::stream`].
    pub stream: Option<Duration>,
    /// See [`super::pool::Timeouts::total`].
    pub total: Option<Off<Duration>>,
}

/// The `access` section: `deny` wins; a non-empty `allow` admits only what it lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Networks that may ask.
    pub allow: Vec<IpNet>,
    /// Networks that may not.
    pub deny: Vec<IpNet>,
}

/// The `forwarded` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarded {
    /// X-Forwarded-For, -Proto and X-Real-IP.
    pub x_forwarded: XForwarded,
    /// The header of RFC 7239.
    pub forwarded: bool,
    /// X-Request-ID.
    pub request_id: RequestId,
}

/// What happens to X-Forwarded-*.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XForwarded {
    /// The client is added to what it sent.
    Append,
    /// What it sent is replaced.
    Set,
    /// Passed on untouched.
    Off,
}

/// What happens to X-Request-ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestId {
    /// Kept when the client sent a usable one, else made.
    Keep,
    /// Always made.
    Make,
    /// Neither made nor changed.
    Off,
}

/// `encoded_slash`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EncodedSlash {
    /// 400.
    #[default]
    Refuse,
    /// Passed on.
    Allow,
}
