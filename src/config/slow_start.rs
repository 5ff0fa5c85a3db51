//! How does an origin come into its share?

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::fault::refuse;
use super::report::Invalid;
use super::units::{Duration, Off, Percent, Times, time_above_zero};
use super::written::Written;

/// The `slow_start` section: newcomers, and origins that were out, grow into their share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SlowStart {
    /// From the first part to all of the share; an origin that was out takes as long as it was, at most this.
    #[serde(deserialize_with = "time_above_zero")]
    pub window: Duration,
    /// The part of its share a newcomer begins with.
    #[serde(deserialize_with = "above_zero")]
    pub from: Percent,
    /// When growth pauses.
    pub hold: Off<Hold>,
}

/// The `hold` section: growth pauses while the newcomer does worse than this.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hold {
    /// Part of its answers that may be errors.
    pub error_ratio: Off<Percent>,
    /// Multiple of the median time of the rest of the pool that its own may be.
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

/// Without any request nothing would be learned of a newcomer.
fn above_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Percent, D::Error> {
    let share = Percent::deserialize(deserializer)?;
    if share.0 <= 0.0 {
        return Err(refuse(&Invalid::new(format!("found \"{}\"", share.print()), "expected a share above 0%")));
    }
    Ok(share)
}
