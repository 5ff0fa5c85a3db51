//! A route: which requests it takes, where they go, and what holds for them.

use std::fmt;

use http::Method;
use indexmap::{IndexMap, IndexSet};
use ipnet::IpNet;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::action;
use super::buffering::Buffering;
use super::compression::Compression;
use super::each;
use super::edits;
use super::http_words;
use super::limits::Limits;
use super::mirror::Mirror;
use super::number::within;
use super::place::meant;
use super::report::Invalid;
use super::split::Split;
use super::units::{Duration, Name, Off, time_above_zero};
use super::written::{self, As, Written, choices, written};

pub use super::action::{Redirect, RedirectStatus, Respond};
pub use super::edits::{Edits, FieldName, Headers, Values};
pub use super::matching::{Match, PathMatch, Scheme};
pub use super::rewrite::{Redirects, Rewrite};

impl Route {
    /// The pools its requests go to.
    pub fn pools(&self) -> impl Iterator<Item = &str> {
        let shared = self.split.iter().flat_map(|split| split.to.iter().map(|share| share.pool.as_str()));
        shared.chain(Some(self.pool.as_str()).filter(|pool| !pool.is_empty()))
    }

    /// What it is told from others by in the configuration before and after, being at this number: its name, or what it
    /// matches, if its name is that of its number. No name has a space in it.
    pub fn identity(&self, number: usize) -> String {
        if self.name != Self::name_at(number) {
            return self.name.clone();
        }
        format!("match {}", serde_json::to_string(&self.matches).unwrap_or_default())
    }

    /// The name of a route that has none.
    pub(super) fn name_at(number: usize) -> String {
        format!("route-{}", number + 1)
    }
}

/// One entry of `routes`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("anyOf" = action::schema()))]
pub struct Route {
    /// Its name in logs and metrics; default `route-N` by its position, from 1.
    #[serde(deserialize_with = "name")]
    #[schemars(with = "Name")]
    pub name: String,
    /// Which requests it takes; left out it takes everything.
    #[serde(rename = "match")]
    pub matches: Match,
    /// Where they go, a pool by name. A route has one of `pool`, `split`, `respond` and `redirect`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// In place of a pool: several, with a share of the keys each.
    #[serde(deserialize_with = "action::split", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Off<Split>")]
    pub split: Option<Split>,
    /// In place of a pool: they are answered here.
    #[serde(deserialize_with = "action::respond", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Off<Respond>")]
    pub respond: Option<Respond>,
    /// In place of a pool: they are sent elsewhere.
    #[serde(deserialize_with = "action::redirect", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Off<Redirect>")]
    pub redirect: Option<Redirect>,
    /// What may be tried again; off is one try.
    #[serde(deserialize_with = "retry")]
    #[schemars(with = "Off<Retry>")]
    pub retry: Retry,
    /// Differences from the pool's time-outs.
    pub timeouts: RouteTimeouts,
    /// What a client may ask.
    #[serde(deserialize_with = "limits")]
    #[schemars(with = "Off<Limits>")]
    pub limits: Limits,
    /// Who may ask, by the address of the client, not by that of a trusted proxy.
    #[serde(deserialize_with = "access")]
    #[schemars(with = "Off<Access>")]
    pub access: Access,
    /// Forwarding headers.
    pub forwarded: Forwarded,
    /// Header lines that are set, added and removed.
    #[serde(deserialize_with = "edits::or_off")]
    #[schemars(with = "Off<Headers>")]
    pub headers: Headers,
    /// The path an origin gets.
    #[serde(deserialize_with = "edits::or_off")]
    #[schemars(with = "Off<Rewrite>")]
    pub rewrite: Rewrite,
    /// Places an origin names in Location, Content-Location and Refresh: keep them, or rewrite them into addresses that the
    /// client can reach.
    pub redirects: Redirects,
    /// `%2f` and `%5c` in a path: refuse answers 400, allow passes them on.
    pub encoded_slash: EncodedSlash,
    /// Which answers are compressed.
    pub compression: Off<Compression>,
    /// Copies of its requests for another pool.
    pub mirror: Off<Mirror>,
    /// What is held for slow clients.
    #[serde(deserialize_with = "buffering")]
    #[schemars(with = "Off<Buffering>")]
    pub buffering: Buffering,
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Name::deserialize(deserializer).map(|Name(name)| name)
}

fn retry<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Retry, D::Error> {
    Ok(match Off::deserialize(deserializer)? {
        Off::Off => Retry { tries: 1, ..Retry::default() },
        Off::On(retry) => retry,
    })
}

fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Limits, D::Error> {
    Ok(match Off::deserialize(deserializer)? {
        Off::Off => Limits::default(),
        Off::On(limits) => limits,
    })
}

fn access<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Access, D::Error> {
    Ok(match Off::deserialize(deserializer)? {
        Off::Off => Access::default(),
        Off::On(access) => access,
    })
}

fn buffering<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Buffering, D::Error> {
    Ok(match Off::deserialize(deserializer)? {
        Off::Off => Buffering::default(),
        Off::On(buffering) => buffering,
    })
}

/// The `retry` section: what may be tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// Tries in all, the first included; 1 switches all retrying off.
    // Pingora stops at 16 whatever is asked.
    #[serde(deserialize_with = "within::<_, _, 1, 16>")]
    #[schemars(range(min = 1, max = 16))]
    pub tries: u32,
    /// How long after the first attempt a further one may start.
    #[serde(deserialize_with = "time_above_zero")]
    pub within: Duration,
    /// Conditions for GET, HEAD, OPTIONS and TRACE.
    pub safe: IndexSet<Condition>,
    /// Conditions for every other method.
    pub other: IndexSet<Condition>,
    /// Conditions for single methods, in place of the two above.
    #[serde(serialize_with = "print_methods", deserialize_with = "methods")]
    #[schemars(with = "IndexMap<String, Vec<Condition>>")]
    pub methods: IndexMap<Method, IndexSet<Condition>>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            tries: 2,
            within: Duration::seconds(3),
            safe: [Condition::Connect, Condition::Stale, Condition::Reset].into(),
            other: [Condition::Connect].into(),
            methods: IndexMap::new(),
        }
    }
}

fn methods<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IndexMap<Method, IndexSet<Condition>>, D::Error> {
    let written: Vec<(As<Method>, IndexSet<Condition>)> = each::pairs(deserializer)?;
    Ok(written.into_iter().map(|(As(method), conditions)| (method, conditions)).collect())
}

fn print_methods<S: Serializer>(
    methods: &IndexMap<Method, IndexSet<Condition>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(methods.iter().map(|(method, conditions)| (method.as_str(), conditions)))
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

impl Condition {
    /// May a request that meets this have been processed by the origin?
    pub fn may_have_been_processed(self) -> bool {
        !matches!(self, Self::Connect | Self::NonIdempotent)
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect => f.write_str("connect"),
            Self::Stale => f.write_str("stale"),
            Self::Reset => f.write_str("reset"),
            Self::Timeout => f.write_str("timeout"),
            Self::Status(status) => write!(f, "{status}"),
            Self::Status5xx => f.write_str("5xx"),
            Self::NonIdempotent => f.write_str("non_idempotent"),
        }
    }
}

impl Written for Condition {
    const EXPECTED: &'static str = "a condition such as connect, stale or 502";

    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "connect" => Self::Connect,
            "stale" => Self::Stale,
            "reset" => Self::Reset,
            "timeout" => Self::Timeout,
            "5xx" => Self::Status5xx,
            "non_idempotent" => Self::NonIdempotent,
            _ => Self::Status(http_words::status(text).filter(|status| *status >= 400)?),
        })
    }

    fn print(&self) -> String {
        self.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [
            { "enum": ["connect", "stale", "reset", "timeout", "5xx", "non_idempotent"] },
            { "type": "integer", "minimum": 400, "maximum": 599 },
            { "type": "string", "pattern": "^[45]\\d\\d$" },
        ] })
    }

    fn read(text: &str) -> Result<Self, Invalid> {
        let words = ["connect", "stale", "reset", "timeout", "5xx", "non_idempotent", "a status from 400 to 599"];
        let is_number = text.bytes().all(|b| b.is_ascii_digit());
        let meant = || if is_number { format!("expected {}", super::place::one_of(words)) } else { meant(text, words) };
        Self::parse(text).ok_or_else(|| Invalid::new(format!("unknown condition {text:?}"), meant()))
    }
}

written!(Condition);

/// Differences of a route from its pool's time-outs; `None` inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RouteTimeouts {
    /// Longest time without progress of a write to the origin.
    #[serde(deserialize_with = "some_time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Duration")]
    pub send: Option<Duration>,
    /// Longest silence of the origin, before the header and between reads.
    #[serde(deserialize_with = "some_time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Duration")]
    pub read: Option<Duration>,
    /// The same for SSE, Upgrade and gRPC.
    #[serde(deserialize_with = "some_time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Duration")]
    pub stream: Option<Duration>,
    /// From the first attempt to the end of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Off<Duration>")]
    pub total: Option<Off<Duration>>,
}

fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    time_above_zero(deserializer).map(Some)
}

/// The `access` section: `deny` wins; a non-empty `allow` admits only what it lists.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// Networks that may ask: with any of them only these.
    #[serde(with = "written::list")]
    #[schemars(with = "Vec<As<IpNet>>")]
    pub allow: Vec<IpNet>,
    /// Networks that may not, whatever `allow` says.
    #[serde(with = "written::list")]
    #[schemars(with = "Vec<As<IpNet>>")]
    pub deny: Vec<IpNet>,
}

/// The `forwarded` section: forwarding headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Forwarded {
    /// X-Forwarded-For, -Proto, -Host and X-Real-IP: append the client to what it sent, set what we know alone, or off.
    pub x_forwarded: XForwarded,
    /// The header of RFC 7239.
    pub forwarded: bool,
    /// X-Request-ID: keep a usable one, make a new one always, or off.
    pub request_id: RequestId,
}

impl Default for Forwarded {
    fn default() -> Self {
        Self { x_forwarded: XForwarded::Append, forwarded: false, request_id: RequestId::Keep }
    }
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

choices!(XForwarded { Append = "append", Set = "set", Off = "off" });
choices!(RequestId { Keep = "keep", Make = "make", Off = "off" });
choices!(EncodedSlash { Refuse = "refuse", Allow = "allow" });
