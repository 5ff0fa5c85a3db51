//! How much may a change of a pool move?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{Off, Percent, Times};

/// The `guard` section: what a change of the pool may do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Guard {
    /// The greatest part of the hash circle a reload may move to other origins. A changed key, `args` or `on_missing`
    /// counts as all of it.
    pub max_moved: Percent,
    /// The greatest part of errors that keys that moved may have while a change waits to be confirmed, before it goes
    /// back by itself.
    pub error_ratio: Off<Percent>,
    /// The same for their slowest hundredth: a multiple of what it was in the pool before the change.
    pub latency: Off<Times>,
}

impl Default for Guard {
    fn default() -> Self {
        Self { max_moved: Percent(45.0), error_ratio: Off::On(Percent(5.0)), latency: Off::On(Times(3.0)) }
    }
}
