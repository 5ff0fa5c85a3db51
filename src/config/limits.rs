//! What may a client ask of a route, and how often?

use std::collections::{HashMap, HashSet};

use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::Config;
use super::fault::refuse;
use super::number::within;
use super::one_or_more::OneOrMore;
use super::place::Places;
use super::redis_url::RedisUrl;
use super::report::{Complaint, Invalid};
use super::units::{Bytes, Name, Off, Rate};
use super::written::{Written, written};

/// The `limits` section of a route.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// How often a client may ask: one limit, or a list of them.
    pub rate: OneOrMore<RateLimit>,
    /// How many requests of a client may be under way.
    pub concurrency: Off<Concurrency>,
    /// The largest body of a request; more is answered 413.
    pub body: Off<Bytes>,
    /// How fast an answer goes to its client, each by itself: `1MiB/s`.
    pub bandwidth: Off<Bandwidth>,
}

/// The `limits.concurrency` section: so many requests of each key at a time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Concurrency {
    /// A template of whose requests are counted together. Where a part of it is missing, the client's address is used.
    #[serde(default = "by_client", deserialize_with = "text")]
    pub key: String,
    /// How many may be under way. A tunnel or a stream is until it ends.
    #[serde(deserialize_with = "within::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub max: u32,
    /// What is answered beyond that.
    #[serde(default = "too_many", deserialize_with = "within::<_, _, 400, 599>")]
    #[schemars(range(min = 400, max = 599))]
    pub status: u16,
    /// Nobody is turned away: who would be is logged and counted.
    #[serde(default)]
    pub dry_run: bool,
}

/// Bytes in a second, written as a size and `/s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth(pub u64);

written!(Bandwidth);

impl Written for Bandwidth {
    const EXPECTED: &'static str = "a size in a second, such as 512KiB/s or 10MiB/s";

    fn parse(text: &str) -> Option<Self> {
        let Bytes(bytes) = Bytes::parse(text.strip_suffix("/s")?)?;
        (bytes > 0).then_some(Self(bytes))
    }

    fn print(&self) -> String {
        format!("{}/s", Bytes(self.0).print())
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^\d+(KiB|MiB|GiB)?/s$" })
    }
}

/// One entry of `limits.rate`: so many requests in a time for each key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// What it is called in logs and metrics. One name is one count on every route that uses it; left out, the count is
    /// the route's own.
    #[serde(default, deserialize_with = "name", skip_serializing_if = "String::is_empty")]
    #[schemars(with = "Name")]
    pub name: String,
    /// A template of whose requests are counted together. Where a part of it is missing, the client's address is used.
    #[serde(default = "by_client", deserialize_with = "text")]
    pub key: String,
    /// How many requests in a second, a minute or an hour: `10/s`, `30/m`, `5/h`.
    #[serde(deserialize_with = "above_zero")]
    pub rate: Rate,
    /// How many may come at once beyond that, as nginx's `burst` with `nodelay`.
    #[serde(default, deserialize_with = "within::<_, _, 0, 1_000_000>")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub burst: u32,
    /// What is answered beyond both.
    #[serde(default = "too_many", deserialize_with = "within::<_, _, 400, 599>")]
    #[schemars(range(min = 400, max = 599))]
    pub status: u16,
    /// Nobody is turned away: who would be is logged and counted.
    #[serde(default)]
    pub dry_run: bool,
    /// Who counts together with other gateways; off: each counts for itself.
    #[serde(default)]
    pub shared: Off<Shared>,
}

/// The `limits.rate.shared` section: gateways of the same configuration share one count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// The Redis that counts for all of them: `redis://[user:password@]host[:port][/db]`.
    pub redis: RedisUrl,
}

impl RateLimit {
    /// Takes out what nobody else is to see.
    pub(super) fn mask(&mut self) {
        if let Off::On(shared) = &mut self.shared {
            shared.redis = shared.redis.masked();
        }
    }

    /// Do both count the same? What follows from a count may differ.
    pub(super) fn counts_as(&self, other: &Self) -> bool {
        self.key == other.key && self.rate == other.rate && self.burst == other.burst && self.shared == other.shared
    }
}

fn by_client() -> String {
    "{client_ip}".to_owned()
}

const fn too_many() -> u16 {
    429
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Name::deserialize(deserializer).map(|Name(name)| name)
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() {
        return Err(refuse(&Invalid::new("found \"\"", "expected a template such as {client_ip}")));
    }
    Ok(text)
}

fn above_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    let rate = Rate::deserialize(deserializer)?;
    // Time between two requests is counted in nanoseconds, and for no longer than a day.
    if !(1.0 / 86_400.0..=1e6).contains(&rate.0) {
        return Err(refuse(&Invalid::new("a rate out of range", "expected 1/h at least and 1000000/s at most")));
    }
    Ok(rate)
}

/// What is wrong with limits together: one name is one count, so it is said once what it counts.
pub(super) fn check(config: &Config, places: &Places) -> Vec<Complaint> {
    let mut known: HashMap<&str, (String, &RateLimit)> = HashMap::new();
    let mut complaints = Vec::new();
    for (number, route) in config.routes.iter().enumerate() {
        let at_rate = format!("routes[{number}].limits.rate");
        let mut here = HashSet::new();
        for (path, limit) in route.limits.rate.at(at_rate).filter(|(_, limit)| !limit.name.is_empty()) {
            let Some((first, other)) = known.get(&*limit.name) else {
                here.insert(&limit.name);
                known.insert(&limit.name, (path, limit));
                continue;
            };
            let (line, _) = places.locate(first);
            let at_name = format!("{path}.name");
            if !limit.counts_as(other) {
                let found = format!("the limit \"{}\" is another one in line {line}", limit.name);
                let meant = "expected the same key, rate, burst and shared, or another name";
                complaints.push(Invalid::new(found, meant).at(at_name));
            } else if !here.insert(&limit.name) {
                let found = format!("the limit \"{}\" a second time", limit.name);
                complaints.push(Invalid::new(found, format!("it stands in line {line} already")).at(at_name));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, said, with_pool};

    /// A route with these limits, and what it says of them.
    fn with(limits: &str) -> String {
        with_pool(&format!(
            "origins: [a]\n    health: {{ probe: off }}\nroutes:\n  - {{ name: a, pool: origin, limits: {limits} }}"
        ))
    }

    #[test]
    fn a_rate_is_written_alone_or_as_one_of_a_list() {
        let rate = "{ name: r, key: \"{client_ip}\", rate: 10/s, burst: 0, status: 429, dry_run: false, shared: off }";
        let [alone, list] = [rate, &format!("[{rate}]")]
            .map(|rate| config(&with(&format!("{{ rate: {rate} }}"))).routes[0].limits.clone());
        assert_eq!(alone.rate.all(), list.rate.all());
        assert_ne!(alone, list);
        assert_eq!(config(&with("{ rate: { name: r, rate: 10/s } }")).routes[0].limits, alone);
        for off in ["off", "{ rate: off }", "{ rate: [], body: off, concurrency: off, bandwidth: off }"] {
            assert_eq!(config(&with(off)).routes[0].limits, super::Limits::default(), "{off}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_limit_is_told_at_its_place() {
        for (limits, expected) in [
            ("{ rate: { rate: 0/s } }", "routes[0].limits.rate.rate: a rate out of range, expected 1/h"),
            (
                "{ rate: [ { rate: 1/s }, { rate: 2/d } ] }",
                "routes[0].limits.rate[1].rate: found \"2/d\", expected a rate such as",
            ),
            ("{ rate: { rate: 1/s, shared: { redis: \"redis:r\" } } }", "routes[0].limits.rate.shared.redis: found"),
            ("{ rate: {} }", "routes[0].limits.rate.rate: missing"),
            ("{ rate: 10/s }", "routes[0].limits.rate: found \"10/s\", expected a section"),
            (
                "{ rate: { rate: 1/s, status: 200 } }",
                "routes[0].limits.rate.status: found \"200\", expected a number from 400 to 599",
            ),
            (
                "{ rate: { rate: 1/s, bursts: 2 } }",
                "routes[0].limits.rate.bursts: unknown key, did you mean \"burst\"?",
            ),
            ("{ concurrency: { max: 0 } }", "routes[0].limits.concurrency.max: found \"0\", expected a number from 1"),
            (
                "{ bandwidth: 10MiB }",
                "routes[0].limits.bandwidth: found \"10MiB\", expected off, or a size in a second",
            ),
            ("{ bandwidth: 0/s }", "routes[0].limits.bandwidth: found \"0/s\", expected off, or a size in a second"),
            ("{ body: 10MB }", "routes[0].limits.body: found \"10MB\", expected off, or a number of bytes"),
        ] {
            let said = said(&with(limits));
            assert!(said.len() == 1 && said[0].contains(expected), "{limits}: {said:?}");
        }
    }

    #[test]
    fn one_name_is_one_limit() {
        let second = |limits: &str| {
            format!(
                "{}  - {{ name: b, pool: origin, match: {{ hosts: [b] }}, limits: {limits} }}\n",
                with("{ rate: { name: r, rate: 1/s } }")
            )
        };
        assert_eq!(said(&second("{ rate: { name: r, rate: 60/m, status: 503, dry_run: true } }")), [""; 0]);
        let other = said(&second("{ rate: [ { name: r, rate: 2/s } ] }"));
        assert!(
            other[0].contains("routes[1].limits.rate[0].name: the limit \"r\" is another one in line 8"),
            "{other:?}"
        );
        let twice = said(&with("{ rate: [ { name: r, rate: 1/s }, { name: r, rate: 1/s } ] }"));
        assert!(twice[0].contains("the limit \"r\" a second time, it stands in line 8 already"), "{twice:?}");
    }
}
