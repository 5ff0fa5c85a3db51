//! How is a request shared out among the origins of a pool?
//!
//! One pool has one algorithm. What only another algorithm reads is a mistake beside it, and is not printed.

use std::fmt;

use schemars::{JsonSchema, Schema, json_schema};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::report::Invalid;
use super::units::{Duration, Off, plain_number, time_above_zero};
use super::written::{As, Written, choices, unknown_word, written};

/// The `balance` section.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Balance {
    /// The one algorithm of the pool.
    pub algorithm: Algorithm,
    /// The template of the key; `hash` only.
    pub key: String,
    /// What happens when a part of the key is missing: `spread` by two choices, or another key template; `hash` only.
    pub on_missing: OnMissing,
    /// How far above its part of the load an origin may go before further requests pass on along the ring: a factor
    /// above 1; `hash` only.
    #[serde(deserialize_with = "factor_or_off")]
    #[schemars(with = "Off<As<Factor>>")]
    pub bounded_load: Off<f64>,
    /// How long a slow answer is remembered; `peak_ewma` only.
    #[serde(deserialize_with = "time_above_zero")]
    pub decay: Duration,
}

impl Default for Balance {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Hash,
            key: "{host}{path}{args}".to_owned(),
            on_missing: OnMissing::Spread,
            bounded_load: Off::Off,
            decay: Duration::seconds(10),
        }
    }
}

impl Serialize for Balance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut section = serializer.serialize_struct("Balance", 5)?;
        section.serialize_field("algorithm", &self.algorithm)?;
        if self.algorithm == Algorithm::Hash {
            section.serialize_field("key", &self.key)?;
            section.serialize_field("on_missing", &self.on_missing)?;
            section.serialize_field("bounded_load", &self.bounded_load)?;
        }
        if self.algorithm == Algorithm::PeakEwma {
            section.serialize_field("decay", &self.decay)?;
        }
        section.end()
    }
}

/// A factor above 1.
struct Factor(f64);

impl Written for Factor {
    const EXPECTED: &'static str = "a factor above 1, such as 1.5";

    fn parse(text: &str) -> Option<Self> {
        plain_number(text).filter(|factor| *factor > 1.0).map(Self)
    }

    fn print(&self) -> String {
        self.0.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 1 })
    }
}

fn factor_or_off<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Off<f64>, D::Error> {
    Ok(match Off::<As<Factor>>::deserialize(deserializer)? {
        Off::Off => Off::Off,
        Off::On(As(Factor(factor))) => Off::On(factor),
    })
}

/// How an origin is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Consistent hashing, placements equal to nginx's `hash … consistent`.
    Hash,
    /// In turn, smoothly by weight.
    RoundRobin,
    /// Whoever has least in flight for its weight.
    LeastInFlight,
    /// The less loaded of two drawn at random.
    P2c,
    /// Of two drawn at random the one that promises the earlier answer.
    PeakEwma,
    /// Any, by weight.
    Random,
}

choices!(Algorithm {
    Hash = "hash",
    RoundRobin = "round_robin",
    LeastInFlight = "least_in_flight",
    P2c = "p2c",
    PeakEwma = "peak_ewma",
    Random = "random",
}, "one such as round_robin: one pool, one algorithm");

/// `on_missing`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnMissing {
    /// Spread over the pool by two choices.
    Spread,
    /// Another key template.
    Key(String),
}

impl OnMissing {
    /// The key template, if it is one.
    pub fn template(&self) -> Option<&str> {
        match self {
            Self::Spread => None,
            Self::Key(template) => Some(template),
        }
    }
}

impl fmt::Display for OnMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread => f.write_str("spread"),
            Self::Key(template) => f.write_str(template),
        }
    }
}

impl Written for OnMissing {
    const EXPECTED: &'static str = "spread, or a key template";

    fn parse(text: &str) -> Option<Self> {
        match text {
            "spread" => Some(Self::Spread),
            // Without a variable every such request would go to one origin: a word gone wrong.
            _ => text.contains('{').then(|| Self::Key(text.to_owned())),
        }
    }

    fn print(&self) -> String {
        self.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "anyOf": [{ "const": "spread" }, { "type": "string", "pattern": "\\{" }] })
    }

    fn read(text: &str) -> Result<Self, Invalid> {
        Self::parse(text).ok_or_else(|| unknown_word(text, &["spread", "a key template"]))
    }
}

written!(OnMissing);
