//! When do failed requests put an origin out?

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::fault::refuse;
use super::number::{within, within_or_off};
use super::report::Invalid;
use super::units::{Duration, Off, Percent, time_above_zero};
use super::written::Written;

/// The `outlier_detection` section: failed requests put an origin out for a time, within `min_healthy`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OutlierDetection {
    /// So many failures in a row make it due out.
    #[serde(deserialize_with = "within_or_off::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub failures: Off<u32>,
    /// So does this part of failures among its requests.
    #[serde(deserialize_with = "share_or_off")]
    pub error_ratio: Off<Percent>,
    /// Of so many requests at least.
    #[serde(deserialize_with = "within::<_, _, 1, { u32::MAX }>")]
    #[schemars(range(min = 1))]
    pub min_requests: u32,
    /// Within this time.
    #[serde(deserialize_with = "time_above_zero")]
    pub window: Duration,
    /// How long it is out for the first time; twice as long each further time.
    #[serde(deserialize_with = "time_above_zero")]
    pub cooldown: Duration,
    /// At most this.
    #[serde(deserialize_with = "time_above_zero")]
    pub max_cooldown: Duration,
}

impl Default for OutlierDetection {
    fn default() -> Self {
        Self {
            failures: Off::On(5),
            error_ratio: Off::On(Percent(50.0)),
            min_requests: 20,
            window: Duration::seconds(10),
            cooldown: Duration::seconds(30),
            max_cooldown: Duration::seconds(300),
        }
    }
}

/// Whoever never fails has a share of 0% as well.
fn share_or_off<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Off<Percent>, D::Error> {
    match Off::<Percent>::deserialize(deserializer)? {
        Off::On(share) if share.0 <= 0.0 => {
            Err(refuse(&Invalid::new(format!("found \"{}\"", share.print()), "expected off, or a share above 0%")))
        }
        share => Ok(share),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::{config, with_pool};
    use super::*;

    fn said(algorithm: &str, section: &str) -> Vec<String> {
        let health = format!("health: {{ probe: {{ http: {{}} }}, outlier_detection: {section} }}");
        let text = with_pool(&format!("balance: {{ algorithm: {algorithm} }}\n    origins: [a]\n    {health}"));
        let mistakes = match parse("f", &text) {
            Ok(loaded) => loaded.warnings,
            Err(report) => report.mistakes,
        };
        mistakes.iter().map(|one| format!("{}: {}, {}", one.path, one.found, one.meant)).collect()
    }

    #[test]
    fn it_is_off_unless_written_and_then_as_by_default() {
        let of = |section: &str| {
            config(&with_pool(&format!("origins: [a]\n    {section}"))).pools["origin"].health.outlier_detection
        };
        assert_eq!(of("health:"), Off::Off);
        assert_eq!(of("health: { outlier_detection: {} }"), Off::On(OutlierDetection::default()));
        let Off::On(written) = of("health: { outlier_detection: { failures: off, window: 5s } }") else { panic!() };
        assert_eq!((written.failures, written.window), (Off::Off, Duration::seconds(5)));
    }

    #[test]
    fn a_pool_placed_by_a_key_is_warned_and_no_other() {
        assert_eq!(said("p2c", "{}"), [""; 0]);
        let warned = said("hash", "{ failures: 9 }");
        assert_eq!(warned.len(), 1);
        assert!(warned[0].contains("gives all of its keys to others"), "{warned:?}");
    }

    #[test]
    fn a_rule_that_finds_nobody_is_a_mistake() {
        let told = said("p2c", "{ failures: off, error_ratio: off }");
        assert!(told[0].ends_with("neither failures nor error_ratio, expected one of them, or off"), "{told:?}");
        assert_eq!(said("p2c", "{ failures: off }"), [""; 0]);
    }
}
