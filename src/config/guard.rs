//! How much may a change of a pool move?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::Percent;

/// The `guard` section: what a change of the pool may do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Guard {
    /// The greatest part of the hash circle a change may move to other origins. A changed key, `args` or `on_missing`
    /// counts as all of it.
    pub max_moved: Percent,
}

impl Default for Guard {
    fn default() -> Self {
        Self { max_moved: Percent(45.0) }
    }
}
