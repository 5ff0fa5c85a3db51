//! When is load taken off an origin that has too much of it?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{Duration, Off, Percent, Times, share_above_zero, time_above_zero};

/// The `overload` section: the one of its pool that is overloaded sheds a part of its load, step by step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Overload {
    /// The greatest part of its share that an origin sheds at once; less where less of its answers say that it is
    /// overloaded.
    #[serde(deserialize_with = "share_above_zero")]
    pub step: Percent,
    /// The part of its share that it keeps in any case.
    #[serde(deserialize_with = "share_above_zero")]
    pub floor: Percent,
    /// How long it keeps to that, before it takes more again over four times as long.
    #[serde(deserialize_with = "time_above_zero")]
    pub recover: Duration,
    /// Answers slower than this multiple of the pool's median, and than 20 ms, say so as well as a 503.
    pub slow: Off<Times>,
}

impl Default for Overload {
    fn default() -> Self {
        Self { step: Percent(50.0), floor: Percent(10.0), recover: Duration::seconds(30), slow: Off::Off }
    }
}
