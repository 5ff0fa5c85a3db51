//! Where do spans go, and of which requests?

use std::fmt;

use http::{HeaderName, HeaderValue, header};
use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::Invalid;
use super::address::is_host;
use super::fault::refuse;
use super::units::{Duration, Name, Percent, time_above_zero};
use super::written::{self, As, Written, choices, written};

/// Where a collector takes spans when its address has no path.
const PATH: &str = "/v1/traces";

/// Header lines that each message has by itself.
const OURS: [HeaderName; 6] = [
    header::HOST,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
];

/// The `process.tracing` section: spans of requests and of their tries, for a collector of OpenTelemetry's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tracing {
    /// The collector, and how it is spoken to.
    pub otlp: Otlp,
    /// The part of the requests that is recorded where no parent's word counts, drawn for each.
    #[serde(default = "one_percent")]
    pub sample: Percent,
    /// Whose word counts on whether a trace that began elsewhere is recorded: that of trusted_proxies, anybody's or nobody's.
    /// The trace goes on all the same.
    #[serde(default)]
    pub parent: Parent,
    /// What this gateway is called in traces.
    #[serde(default = "own_name", deserialize_with = "name")]
    #[schemars(with = "Name")]
    pub service_name: String,
    /// Further attributes of the resource, such as deployment.environment.name.
    #[serde(default, with = "written::table")]
    #[schemars(with = "IndexMap<String, As<String>>")]
    pub resource: IndexMap<String, String>,
}

/// The `process.tracing.otlp` section: the collector, by OTLP over HTTP with protobuf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Otlp {
    /// Where it takes OTLP over HTTP, such as `http://127.0.0.1:4318`; without a path `/v1/traces`.
    pub endpoint: Endpoint,
    /// Header lines it wants, such as authorization; `/config` shows none of their values.
    #[serde(default, serialize_with = "written::table::serialize", deserialize_with = "further")]
    #[schemars(with = "IndexMap<String, As<HeaderValue>>")]
    pub headers: IndexMap<HeaderName, HeaderValue>,
    /// How long it may take over one message, from the connection to its answer.
    #[serde(default = "ten_seconds", deserialize_with = "time_above_zero")]
    pub timeout: Duration,
}

/// Whose word counts on whether a trace is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Parent {
    /// That of trusted proxies.
    #[default]
    Trusted,
    /// Everybody's.
    Any,
    /// Nobody's.
    None,
}

choices!(Parent { Trusted = "trusted", Any = "any", None = "none" }, "trusted, any or none");

/// `http://host[:port][/path]`, or with `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// By TLS?
    pub tls: bool,
    /// A name or an address, that of IPv6 without its brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Where spans go.
    pub path: String,
}

written!(Endpoint);

const fn one_percent() -> Percent {
    Percent(1.0)
}

fn own_name() -> String {
    "moorgate".to_owned()
}

const fn ten_seconds() -> Duration {
    Duration::seconds(10)
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Name::deserialize(deserializer).map(|Name(name)| name)
}

/// Header lines beside those that say what is sent to whom, and how far it goes.
fn further<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IndexMap<HeaderName, HeaderValue>, D::Error> {
    let lines: IndexMap<HeaderName, HeaderValue> = written::table::deserialize(deserializer)?;
    match lines.keys().find(|name| OURS.contains(name)) {
        Some(name) => Err(refuse(&Invalid::new(
            format!("found {:?}", name.as_str()),
            "which each message says itself: leave it out",
        ))),
        None => Ok(lines),
    }
}

impl Tracing {
    /// Takes out what nobody else is to see.
    pub(super) fn mask(&mut self) {
        self.otlp.headers.values_mut().for_each(|value| *value = HeaderValue::from_static("***"));
    }
}

impl Endpoint {
    const fn default_port(tls: bool) -> u16 {
        if tls { 443 } else { 80 }
    }

    /// Host and port, as a Host line says them.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == Self::default_port(self.tls) { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print())
    }
}

impl Written for Endpoint {
    const EXPECTED: &'static str = "http://host:port or https://host:port, such as http://127.0.0.1:4318";

    fn parse(text: &str) -> Option<Self> {
        let (tls, rest) = match text.split_once("://")? {
            ("http", rest) => (false, rest),
            ("https", rest) => (true, rest),
            _ => return None,
        };
        let (place, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok().filter(|port| *port > 0)?),
            _ => (place, Self::default_port(tls)),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_known = match bare {
            Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_host(host) || host.parse::<std::net::Ipv4Addr>().is_ok(),
        };
        let is_path = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte));
        let path = if path.len() > 1 { path } else { PATH };
        (is_known && is_path).then(|| Self { tls, host: bare.unwrap_or(host).to_owned(), port, path: path.to_owned() })
    }

    fn print(&self) -> String {
        format!("{}://{}{}", if self.tls { "https" } else { "http" }, self.authority(), self.path)
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^https?://[^@/?#\s]+(/[^?#\s]*)?$" })
    }

    /// What it says may hold a password, which is not repeated.
    fn read(text: &str) -> Result<Self, Invalid> {
        Self::parse(text).ok_or_else(|| Invalid::new("found something else", format!("expected {}", Self::EXPECTED)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::default::dump_masked;
    use super::super::parse;
    use super::super::tests::said;
    use super::*;

    fn text(tracing: &str) -> String {
        format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 0.0.0.0:80 }} ], tracing: {tracing} }}\n\
             pools: {{ a: {{ origins: [o], health: {{ probe: off }} }} }}\n"
        )
    }

    #[test]
    fn an_endpoint_reads_as_it_prints() {
        for (text, printed) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otlp.example/", "https://otlp.example/v1/traces"),
            ("http://collector:80/in/v1/traces", "http://collector/in/v1/traces"),
            ("https://[::1]:443/x", "https://[::1]/x"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!(endpoint.print(), printed);
            assert_eq!(Endpoint::parse(printed).as_ref(), Some(&endpoint));
        }
        for wrong in [
            "127.0.0.1:4318",
            "grpc://a",
            "http://",
            "http://a:0",
            "http://a:b",
            "http://u:p@a",
            "http://a/x?y",
            "http://a b",
            "http://[x]",
        ] {
            assert_eq!(Endpoint::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_left_out_has_its_default_and_what_is_wrong_is_told() {
        let read = parse("f", &text("{ otlp: { endpoint: \"http://c:4318\" } }")).unwrap().config.process.tracing;
        let read = read.on().unwrap().clone();
        assert_eq!((read.sample, read.parent, read.service_name.as_str()), (Percent(1.0), Parent::Trusted, "moorgate"));
        assert_eq!(read.otlp.timeout, Duration::seconds(10));
        assert_eq!(said(&text("off")), [""; 0]);
        assert!(said(&text("{}"))[0].contains("process.tracing.otlp: missing"), "{:?}", said(&text("{}")));
        let secret = said(&text("{ otlp: { endpoint: \"http://u:hunter2@c\" } }"));
        assert!(secret[0].contains("expected http://host:port") && !secret[0].contains("hunter2"), "{secret:?}");
        let word = said(&text("{ parent: all, otlp: { endpoint: \"http://c\" } }"));
        assert!(word[0].contains("process.tracing.parent: unknown parent \"all\""), "{word:?}");
    }

    #[test]
    fn what_a_message_says_itself_is_refused() {
        for name in OURS {
            let told = said(&text(&format!("{{ otlp: {{ endpoint: \"http://c\", headers: {{ {name}: x }} }} }}")));
            assert!(told[0].contains(&format!("process.tracing.otlp.headers: found \"{name}\"")), "{told:?}");
        }
    }

    #[test]
    fn headers_are_not_shown_to_others() {
        let tracing = "{ otlp: { endpoint: \"http://c\", headers: { authorization: Bearer hunter2 } } }";
        let config = parse("f", &text(tracing)).unwrap().config;
        let masked = dump_masked(&config);
        assert!(masked.contains("authorization: '***'") && !masked.contains("hunter2"), "{masked}");
    }
}
