//! How origins are probed, and what follows from it.

use http::{HeaderName, HeaderValue, Method};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::http_words::{Path, StatusRange};
use super::number::within;
use super::outlier::OutlierDetection;
use super::overload::Overload;
use super::units::{Duration, Off, Percent, time_above_zero};
use super::written::{self, As, choices};

/// The `health` section: probes, and what follows from them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Health {
    /// How origins are probed.
    pub probe: Off<Probe>,
    /// When failed requests put an origin out; `{}` for its defaults.
    pub outlier_detection: Off<OutlierDetection>,
    /// Share of origins soft evidence may never take below.
    pub min_healthy: Percent,
    /// What happens when every origin is out: keep tries them all the same, fail answers 503 at once.
    pub panic: Panic,
    /// When load is taken off an origin that has too much of it.
    pub overload: Off<Overload>,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            probe: Off::On(Probe::default()),
            outlier_detection: Off::Off,
            min_healthy: Percent(50.0),
            panic: Panic::Keep,
            overload: Off::On(Overload::default()),
        }
    }
}

/// `panic`: rule H5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Panic {
    /// Try them all the same.
    Keep,
    /// Answer 503 at once.
    Fail,
}

choices!(Panic { Keep = "keep", Fail = "fail" });

/// The `probe` section: how origins are probed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Probe {
    /// Time between two probes of an origin.
    #[serde(deserialize_with = "time_above_zero")]
    pub interval: Duration,
    /// Time for one probe in all.
    #[serde(deserialize_with = "time_above_zero")]
    pub timeout: Duration,
    /// What is asked, `{}` for `/`; left out: a TCP connect only.
    #[serde(deserialize_with = "probe_http", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Off<ProbeHttp>")]
    pub http: Option<ProbeHttp>,
    /// Good results in a row that bring an origin in.
    #[serde(deserialize_with = "within::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub rise: u32,
    /// Bad results in a row that make it due out.
    #[serde(deserialize_with = "within::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub fall: u32,
}

impl Default for Probe {
    fn default() -> Self {
        Self { interval: Duration::seconds(2), timeout: Duration::seconds(1), http: None, rise: 2, fall: 3 }
    }
}

fn probe_http<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ProbeHttp>, D::Error> {
    Ok(match Off::deserialize(deserializer)? {
        Off::Off => None,
        Off::On(http) => Some(http),
    })
}

/// The `http` section of a probe: what is asked, and what is a good answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeHttp {
    /// The method it is asked with.
    #[serde(with = "written")]
    #[schemars(with = "As<Method>")]
    pub method: Method,
    /// Path and query.
    #[serde(deserialize_with = "path")]
    #[schemars(with = "Path")]
    pub path: String,
    /// The Host that is asked for; left out: the pool's literal `host`, else the origin's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Further headers.
    #[serde(with = "written::table")]
    #[schemars(with = "IndexMap<String, As<HeaderValue>>")]
    pub headers: IndexMap<HeaderName, HeaderValue>,
    /// Statuses that are good.
    pub expect: Vec<StatusRange>,
    /// Statuses that say "alive but overloaded".
    pub overloaded: Vec<StatusRange>,
    /// Text a good answer's body has to hold (looked for in its first 64 KiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_contains: Option<String>,
}

impl Default for ProbeHttp {
    fn default() -> Self {
        let only = |status| StatusRange { first: status, last: status };
        Self {
            method: Method::GET,
            path: "/".to_owned(),
            host: None,
            headers: IndexMap::new(),
            expect: vec![StatusRange { first: 200, last: 399 }],
            overloaded: vec![only(429), only(503)],
            body_contains: None,
        }
    }
}

fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Path::deserialize(deserializer).map(|Path(path)| path)
}
