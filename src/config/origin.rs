//! One server of a pool: where it is, and what it is called.
//!
//! The name is what the ring knows. It is the address as written unless given, so a name once given keeps its keys
//! when the address changes.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::number::within_or_off;
use super::units::{Address, Duration, Name, Off};
use super::written::{self, As, Written, choices};

/// One origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenOrigin")]
pub struct Origin {
    /// Where it is.
    pub address: Address,
    /// What it is called on the ring and everywhere else: as written, default the address as written.
    pub name: String,
    /// Units of weight, 1 to 1000; 160 points each.
    pub weight: u16,
    /// It serves only while no other origin may be asked; always probed. It stands on a ring of its own, so no key
    /// moves when it comes or goes.
    pub backup: bool,
    /// Requests in flight there at most; `None`: as the pool says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<Off<u32>>,
    /// Does it serve, or is it drained?
    pub state: State,
    /// A drain takes this long; off: it is over at once.
    pub drain_over: Off<Duration>,
    /// Its address has the port of plain HTTP because none was written.
    #[serde(skip)]
    pub portless: bool,
}

impl Origin {
    /// One of this name, with the default of every other key.
    pub fn at(address: Address, name: String) -> Self {
        let (state, drain_over) = (State::Serve, Off::Off);
        let portless = false;
        Self { address, name, weight: full_weight(), backup: false, max_in_flight: None, state, drain_over, portless }
    }
}

/// `state`: what an operator wants of an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// To serve.
    #[default]
    Serve,
    /// To get no new request, and to move nothing when it is removed.
    Drain,
}

choices!(State { Serve = "serve", Drain = "drain" });

/// An origin as written; its address alone is its short form.
#[derive(Deserialize, JsonSchema)]
#[serde(rename = "Origin", deny_unknown_fields)]
struct WrittenOrigin {
    /// `IP:port`, `[IPv6]:port`, `unix:/path` or `name[:port]` (without a port 80, with `tls` 443). Names are resolved in the background.
    #[schemars(with = "Address")]
    address: WrittenAddress,
    /// What it is called on the ring and everywhere else: the address as written unless given. A name that stays
    /// keeps its keys when the address changes.
    #[serde(default)]
    name: Option<Name>,
    /// Units of weight, 160 points each.
    #[serde(default = "full_weight", deserialize_with = "weight")]
    #[schemars(range(min = 1, max = 1000))]
    weight: u16,
    /// It serves only while no other origin may be asked; it stands on a ring of its own, so no key moves when it comes
    /// or goes.
    #[serde(default)]
    backup: bool,
    /// Requests in flight there at most, in place of what the pool's `connections` say.
    #[serde(default, deserialize_with = "limit")]
    max_in_flight: Option<Off<u32>>,
    /// `serve`, or `drain`: it gets no new request, and its removal moves nothing.
    #[serde(default)]
    state: State,
    /// How long a drain takes, from all of its share to nothing; off: it is over at once.
    #[serde(default)]
    drain_over: Off<Duration>,
}

impl From<WrittenOrigin> for Origin {
    fn from(written: WrittenOrigin) -> Self {
        let portless = Address::is_portless(&written.address.text);
        let WrittenOrigin { address: WrittenAddress { address, text }, name, weight, .. } = written;
        let WrittenOrigin { backup, max_in_flight, state, drain_over, .. } = written;
        let name = name.map_or(text, |Name(name)| name);
        Self { address, name, weight, backup, max_in_flight, state, drain_over, portless }
    }
}

impl JsonSchema for Origin {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AddressOrOrigin".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [Address::schema(), generator.subschema_for::<WrittenOrigin>()] })
    }
}

/// An address and its text, which names the origin.
struct WrittenAddress {
    address: Address,
    text: String,
}

impl Written for WrittenAddress {
    const EXPECTED: &'static str = Address::EXPECTED;

    fn parse(text: &str) -> Option<Self> {
        let address = Address::parse(text).filter(|_| Name::parse(text).is_some())?;
        Some(Self { address, text: text.to_owned() })
    }

    fn print(&self) -> String {
        self.text.clone()
    }

    fn schema() -> Schema {
        Address::schema()
    }
}

impl<'de> Deserialize<'de> for WrittenAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written::deserialize(deserializer)
    }
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Off<u32>>, D::Error> {
    within_or_off::<_, _, 1, { u32::MAX }>(deserializer).map(Some)
}

const fn full_weight() -> u16 {
    1
}

fn weight<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let As(Weight(weight)) = As::deserialize(deserializer)?;
    Ok(weight)
}

struct Weight(u16);

impl Written for Weight {
    const EXPECTED: &'static str = "a number from 1 to 1000, to drain an origin use \"state: drain\"";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().filter(|weight| (1..=1000).contains(weight)).map(Self)
    }

    fn print(&self) -> String {
        self.0.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": 1000 })
    }
}
