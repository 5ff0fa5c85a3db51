//! A pool: origins serving the same thing, how a request is shared out among them, and what is learned of them.

use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Serialize};

use super::each;
use super::number::{within_or_auto, within_or_off};
use super::place::did_you_mean;
use super::report::Invalid;
use super::units::{Auto, Duration, Off, Percent, Rate, time_above_zero};
use super::written::{Written, choices, unknown_word, written};

pub use super::args::Args;
pub use super::balance::{Algorithm, Balance, OnMissing};
pub use super::cache_status::CacheHeader;
pub use super::discovery::{Discovery, DnsName, DnsServer, Identity};
pub use super::guard::Guard;
pub use super::health::{Health, Panic, Probe, ProbeHttp};
pub use super::http_words::StatusRange;
pub use super::origin::{Origin, State};
pub use super::origin_tls::OriginTls;
pub use super::outlier::OutlierDetection;
pub use super::overload::Overload;
pub use super::slow_start::{Hold, SlowStart};

/// One entry of `pools`: origins serving the same thing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("anyOf" = [{ "required": ["origins"] }, { "required": ["discovery"] }]))]
pub struct Pool {
    /// How a request is shared out.
    pub balance: Balance,
    /// Which query arguments are part of `{args}`; all of them, normalised, unless `keep` or `drop` says otherwise.
    pub args: Args,
    /// The origins, at least one unless `discovery` finds them; their order has no meaning.
    #[serde(deserialize_with = "each::list")]
    pub origins: Vec<Origin>,
    /// What is spoken to the origins: `http1`; `h2`, HTTP/2 over TLS; `h2c`, HTTP/2 without it, by prior knowledge.
    /// WebSockets are asked for in HTTP/1.1 all the same.
    pub protocol: Protocol,
    /// TLS towards the origins.
    pub tls: Off<OriginTls>,
    /// The Host header the origins see: as the client sent it, the origin's address, or a literal.
    pub host: Host,
    /// Limits in time for an attempt.
    pub timeouts: Timeouts,
    /// Connections to the origins.
    pub connections: Connections,
    /// The header in which origins tell hit or miss of their caches, such as `x-cache`, or `cache-status` of RFC 9211.
    pub cache_status: Off<CacheHeader>,
    /// Retries as a share of first attempts.
    pub retry_budget: RetryBudget,
    /// Probes, and what follows from them.
    pub health: Health,
    /// How newcomers, and origins that were out, come into their share; off: all at once.
    pub slow_start: Off<SlowStart>,
    /// What a reload may do to the pool.
    pub guard: Off<Guard>,
    /// Finds the origins by a DNS name, in place of `origins`.
    pub discovery: Off<Discovery>,
}

impl Default for Pool {
    fn default() -> Self {
        Self {
            balance: Balance::default(),
            args: Args::default(),
            origins: Vec::new(),
            protocol: Protocol::default(),
            tls: Off::Off,
            host: Host::default(),
            timeouts: Timeouts::default(),
            connections: Connections::default(),
            retry_budget: RetryBudget::default(),
            health: Health::default(),
            slow_start: Off::On(SlowStart::default()),
            discovery: Off::Off,
            guard: Off::Off,
            cache_status: Off::Off,
        }
    }
}

/// What is spoken to origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 over TLS, agreed on by ALPN.
    H2,
    /// HTTP/2 without TLS, by prior knowledge.
    H2c,
}

written!(Host);
choices!(Protocol { Http1 = "http1", H2 = "h2", H2c = "h2c" });

/// The Host header the origins see.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Host {
    /// As the client sent it.
    #[default]
    Preserve,
    /// The origin's address.
    Address,
    /// This literal.
    Literal(String),
}

impl Written for Host {
    const EXPECTED: &'static str = "preserve, address, or a host such as origin.internal";

    fn parse(text: &str) -> Option<Self> {
        let is_gone_wrong = !text.contains(['.', ':']) && did_you_mean(text, ["preserve", "address"]).is_some();
        match text {
            "preserve" => Some(Self::Preserve),
            "address" => Some(Self::Address),
            _ if is_gone_wrong => None,
            _ => is_authority(text).then(|| Self::Literal(text.to_owned())),
        }
    }

    fn print(&self) -> String {
        match self {
            Self::Preserve => "preserve".to_owned(),
            Self::Address => "address".to_owned(),
            Self::Literal(host) => host.clone(),
        }
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[A-Za-z0-9._:\[\]-]+$", "examples": ["preserve", "address"] })
    }

    fn read(text: &str) -> Result<Self, Invalid> {
        let words = ["preserve", "address", "a host such as origin.internal"];
        Self::parse(text).ok_or_else(|| unknown_word(text, &words))
    }
}

/// Could this be a Host header?
fn is_authority(text: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-:[]".contains(&b);
    !text.is_empty() && text.len() <= 255 && text.bytes().all(is_plain)
}

/// The `timeouts` section of a pool, after defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// To a connection.
    #[serde(deserialize_with = "time_above_zero")]
    pub connect: Duration,
    /// Longest time without progress of a write to the origin.
    #[serde(deserialize_with = "time_above_zero")]
    pub send: Duration,
    /// Longest silence of the origin, before the header and between reads.
    #[serde(deserialize_with = "time_above_zero")]
    pub read: Duration,
    /// The same for SSE, Upgrade and gRPC.
    #[serde(deserialize_with = "time_above_zero")]
    pub stream: Duration,
    /// From the first attempt to the end of the answer.
    pub total: Off<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::seconds(1),
            send: Duration::seconds(10),
            read: Duration::seconds(10),
            stream: Duration::seconds(3600),
            total: Off::Off,
        }
    }
}

/// The `connections` section: connections to the origins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Connections {
    /// Open connections of the pool and process above which none is kept idle. `auto` is 320, and one more for each origin
    /// on each thread, 16,384 at most; above 320 it takes no more than a quarter of the hard limit of descriptors.
    #[serde(deserialize_with = "within_or_auto::<_, _, 0, { u32::MAX }>")]
    pub keepalive: Auto<u32>,
    /// How long an idle connection is kept; less than the origin keeps it: one that announces as little in `Keep-Alive:
    /// timeout=…` is named in a warning, once.
    #[serde(deserialize_with = "time_above_zero")]
    pub keepalive_timeout: Duration,
    /// Requests on one connection at most.
    #[serde(deserialize_with = "within_or_off::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub max_requests: Off<u32>,
    /// Age above which a connection takes no further request.
    pub max_age: Off<Duration>,
    /// Requests in flight at one origin at most, for those that say nothing else. When every origin that may be used
    /// has as many, the answer is 503 `limited`.
    #[serde(deserialize_with = "within_or_off::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub max_in_flight: Off<u32>,
    /// Connections being made to one origin at a time, until their handshakes are over; others wait for their turn,
    /// within `timeouts.connect`.
    #[serde(deserialize_with = "within_or_off::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub max_connecting: Off<u32>,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            keepalive: Auto::Auto,
            keepalive_timeout: Duration::seconds(15),
            max_requests: Off::On(1000),
            max_age: Off::Off,
            max_in_flight: Off::Off,
            max_connecting: Off::On(64),
        }
    }
}

/// The `retry_budget` section: retries as a share of first attempts, over all routes of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryBudget {
    /// Tries added by each first attempt.
    pub ratio: Percent,
    /// Tries added by each second.
    pub floor: Rate,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { ratio: Percent(20.0), floor: Rate(10.0) }
    }
}
