//! How does an origin come into its share?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::units::{Duration, Off, Percent, Times, share_above_zero, time_above_zero};

/// The `slow_start` section: newcomers, and origins that were out, grow into their share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlowStart {
    /// From the first part to all of the share; an origin that was out takes as long as it was, at most this.
    #[serde(deserialize_with = "time_above_zero")]
    pub window: Duration,
    /// The part of its share a newcomer begins with.
    #[serde(deserialize_with = "share_above_zero")]
    pub from: Percent,
    /// When growth pauses.
    pub hold: Off<Hold>,
}

/// The `hold` section: growth pauses while the newcomer does worse than this.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hold {
    /// Part of a newcomer's answers that may be errors.
    pub error_ratio: Off<Percent>,
    /// Multiple of the median time of the rest of the pool that a newcomer's may be.
    pub latency: Off<Times>,
}

impl Default for SlowStart {
    fn default() -> Self {
        Self { window: Duration::seconds(60), from: Percent(10.0), hold: Off::On(Hold::default()) }
    }
}

impl Default for Hold {
    fn default() -> Self {
        Self { error_ratio: Off::On(Percent(5.0)), latency: Off::On(Times(3.0)) }
    }
}
