//! Which requests does a route take? Its `match` section.

use std::net::SocketAddr;

use http::{HeaderName, Method};
use indexmap::{IndexMap, IndexSet};
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fault::refuse;
use super::http_words::{HostPattern, Path};
use super::report::Invalid;
use super::units::Off;
use super::written::{self, As, choices};

/// The `match` section; an empty list matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Match {
    /// The scheme: what the listener speaks, not what a header says; off is any.
    pub scheme: Off<Scheme>,
    /// Addresses of listeners, as in `process.listeners`.
    #[serde(with = "written::list")]
    #[schemars(with = "Vec<As<SocketAddr>>")]
    pub listeners: Vec<SocketAddr>,
    /// Exact names, or `*.` and a domain for everything below it; no ports.
    #[serde(deserialize_with = "hosts")]
    #[schemars(with = "Vec<HostPattern>")]
    pub hosts: Vec<String>,
    /// The path: one of `exact`, `prefix` and `regex`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
    /// Methods, in capitals.
    #[serde(with = "written::list")]
    #[schemars(with = "Vec<As<Method>>")]
    pub methods: IndexSet<Method>,
    /// Headers and their exact values.
    #[serde(with = "written::table")]
    #[schemars(with = "IndexMap<String, As<String>>")]
    pub headers: IndexMap<HeaderName, String>,
    /// Cookies and their exact values.
    #[serde(with = "written::table")]
    #[schemars(with = "IndexMap<String, As<String>>")]
    pub cookies: IndexMap<String, String>,
    /// Query arguments and their exact values.
    #[serde(with = "written::table")]
    #[schemars(with = "IndexMap<String, As<String>>")]
    pub query: IndexMap<String, String>,
}

fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let hosts: Vec<HostPattern> = Deserialize::deserialize(deserializer)?;
    Ok(hosts.into_iter().map(|HostPattern(host)| host).collect())
}

/// `scheme` of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
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

/// `path` as written: one of three.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "PathMatch", default, deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
struct WrittenPath {
    /// This path alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    exact: Option<Path>,
    /// This path and all below it, by whole segments; a trailing slash is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<Path>,
    /// An expression that fits the whole path.
    #[serde(skip_serializing_if = "Option::is_none")]
    regex: Option<String>,
}

impl Serialize for PathMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let none = WrittenPath::default();
        let written = match self {
            Self::Exact(path) => WrittenPath { exact: Some(Path(path.clone())), ..none },
            Self::Prefix(path) => WrittenPath { prefix: Some(Path(path.clone())), ..none },
            Self::Regex(regex) => WrittenPath { regex: Some(regex.clone()), ..none },
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PathMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match WrittenPath::deserialize(deserializer)? {
            WrittenPath { exact: Some(Path(path)), prefix: None, regex: None } => Ok(Self::Exact(path)),
            WrittenPath { exact: None, prefix: Some(Path(path)), regex: None } => Ok(Self::Prefix(path)),
            WrittenPath { exact: None, prefix: None, regex: Some(regex) } => Ok(Self::Regex(regex)),
            WrittenPath { exact: None, prefix: None, regex: None } => {
                Err(refuse(&Invalid::new("found no path", "expected exact, prefix or regex")))
            }
            _ => Err(refuse(&Invalid::new("found more than one path", "expected one of exact, prefix and regex"))),
        }
    }
}

impl JsonSchema for PathMatch {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PathMatch".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> Schema {
        WrittenPath::json_schema(generator)
    }
}

choices!(Scheme { Http = "http", Https = "https" });
