//! What is read of `/status`, in the order it is told.
//!
//! What an older gateway does not tell is as if there were nothing; what a newer one tells besides is left alone. Texts
//! come from files, names from DNS: what would steer a terminal is spelled out before anything is drawn.

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer};

use super::super::super::top::harmless;
use crate::snapshot::ShareChange;

/// All of it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Facts {
    pub(super) program: String,
    pub(super) generation: u64,
    pub(super) upgrade: Option<Upgrade>,
    pub(super) uptime: f64,
    pub(super) recent: Recent,
    pub(super) config: Config,
    pub(super) probes_stretched: bool,
    pub(super) certificates: Vec<Certificate>,
    pub(super) pools: IndexMap<Text, Pool>,
}

/// A text that does nothing to a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Text(pub(super) String);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Upgrade {
    pub(super) pid: u32,
    pub(super) over: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Certificate {
    pub(super) warning: Option<Text>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Config {
    pub(super) version: u64,
    pub(super) history: Vec<Put>,
    pub(super) drift: bool,
    pub(super) confirm: Option<Confirm>,
}

/// A text that is or was in force.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Put {
    pub(super) version: u64,
    pub(super) digest: String,
    pub(super) since: Text,
    pub(super) moved_ratio: IndexMap<Text, f64>,
    pub(super) ended: Option<Text>,
    pub(super) why: Option<Text>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Confirm {
    pub(super) left: Option<f64>,
    pub(super) waits_for: Vec<Text>,
}

/// The last minutes of all requests.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Recent {
    pub(super) step: f64,
    #[serde(flatten)]
    pub(super) steps: Steps,
}

/// What was counted in each step, the oldest first.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Steps {
    pub(super) requests: Vec<u64>,
    pub(super) errors: Vec<u64>,
    pub(super) retries: Vec<u64>,
    pub(super) suppressed: Vec<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pool {
    pub(super) algorithm: String,
    pub(super) key: Option<Text>,
    pub(super) ring: Ring,
    pub(super) keys: Keys,
    pub(super) cache: Option<Cache>,
    pub(super) short: bool,
    pub(super) rate: f64,
    pub(super) error_ratio: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) recent: Steps,
    pub(super) discovery: Option<Discovery>,
    pub(super) origins: IndexMap<Text, Origin>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ring {
    pub(super) fingerprint: String,
    pub(super) moved_ratio: f64,
    pub(super) changed: Vec<ShareChange>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Keys {
    pub(super) distinct: u64,
    pub(super) moved_ratio: Option<f64>,
    pub(super) displaced: IndexMap<Text, f64>,
    pub(super) warning: Option<Text>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cache {
    pub(super) hit_ratio: Option<f64>,
    pub(super) hit_ratio_before: Option<f64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Discovery {
    pub(super) failure: Option<Text>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Origin {
    pub(super) state: Text,
    pub(super) why: Text,
    pub(super) backup: bool,
    pub(super) progress: Option<f64>,
    pub(super) address: Option<Text>,
    pub(super) moving_to: Option<Moving>,
    pub(super) weight: Weight,
    pub(super) share: f64,
    pub(super) in_flight: u64,
    pub(super) rate: f64,
    pub(super) served: Option<f64>,
    pub(super) error_ratio: Option<f64>,
    pub(super) p50: Option<f64>,
    pub(super) p99: Option<f64>,
    pub(super) last_probe: Option<Probe>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Moving {
    pub(super) address: Option<Text>,
    pub(super) why: Text,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct Weight {
    pub(super) configured: f64,
    pub(super) effective: f64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Probe {
    pub(super) result: Text,
    pub(super) fault: Option<Text>,
    pub(super) age: f64,
}

impl Origin {
    /// Is it part of the pool still? Who is parked is not.
    pub(super) fn belongs(&self) -> bool {
        self.state.0 != "parked"
    }

    /// Does it get requests?
    pub(super) fn serves(&self) -> bool {
        ["up", "ramping", "overloaded", "kept", "leaving"].contains(&self.state.0.as_str())
    }

    /// Is it on its way from one state to another?
    pub(super) fn is_on_the_way(&self) -> bool {
        !["up", "down", "kept", "parked"].contains(&self.state.0.as_str()) || self.moving_to.is_some()
    }
}

impl Pool {
    /// How many are in service, and how many there are.
    pub(super) fn in_service(&self) -> (usize, usize) {
        let origins = || self.origins.values().filter(|origin| origin.belongs());
        (origins().filter(|origin| origin.serves()).count(), origins().count())
    }

    /// The part of the keys that is away from its owner.
    pub(super) fn displaced(&self) -> f64 {
        self.keys.displaced.values().sum()
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self(harmless(&String::deserialize(from)?)))
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_nothing_and_what_is_unknown_is_left_alone() {
        let facts: Facts = serde_json::from_str("{\"generation\":2,\"moons\":[1],\"pools\":{\"p\":{}}}").unwrap();
        assert_eq!((facts.generation, facts.pools.len()), (2, 1));
        assert!(serde_json::from_str::<Facts>("[1]").is_err());
    }

    #[test]
    fn no_name_and_no_reason_steers_the_terminal() {
        let told = "{\"pools\":{\"p\\u001b[2J\":{\"origins\":{\"a\\u009bm\":{\"why\":\"x\\u202ey\"}}}}}";
        let facts: Facts = serde_json::from_str(told).unwrap();
        let (name, pool) = facts.pools.get_index(0).unwrap();
        let (origin, what) = pool.origins.get_index(0).unwrap();
        assert_eq!([&*name.0, &*origin.0, &*what.why.0], ["p\\u{1b}[2J", "a\\u{9b}m", "x\\u{202e}y"]);
    }
}
