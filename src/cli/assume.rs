//! How is an origin to be thought of? `--assume ORIGIN=STATE`, with the part of its share where it takes a part:
//! `ORIGIN=overloaded:40%`.
//!
//! Left out, the part follows from the file: an overloaded origin made one step, and one that grows has just begun.

use anyhow::bail;

use super::Usage;
use crate::balance::Factor;
use crate::config::units::Percent;
use crate::config::written::Written as _;
use crate::health::{Policy, Verdict};

/// How an origin is thought of.
#[derive(Debug, PartialEq)]
pub(super) struct Assumed {
    /// What is held of it.
    pub(super) verdict: Verdict,
    /// The part of its share that it takes.
    pub(super) part: Factor,
}

/// The name of an origin, and how it is to be thought of in a pool of this policy.
pub(super) fn parse<'a>(line: &'a str, policy: &Policy) -> anyhow::Result<(&'a str, Assumed)> {
    let (name, said) = line.rsplit_once('=').unwrap_or((line, ""));
    let (state, part) = said.split_once(':').map_or((said, None), |(state, part)| (state, Some(part)));
    let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.as_str() == state);
    let part = part.map_or(Some(None), |text| Percent::parse(text).map(Some));
    let is_part = |part: &Percent| (0.0..=100.0).contains(&part.0);
    match (verdict, part) {
        (Some(verdict), Some(None)) => Ok((name, Assumed { verdict, part: usual(verdict, policy) })),
        (Some(verdict), Some(Some(part))) if takes_a_part(verdict) && is_part(&part) => {
            Ok((name, Assumed { verdict, part: Factor::new(part.ratio()) }))
        }
        _ => bail!(Usage(format!(
            "--assume {line}: expected ORIGIN=STATE, with up, kept, down or joining, or with overloaded, ramping or \
             draining and perhaps the part of its share, as in ORIGIN=overloaded:40%"
        ))),
    }
}

fn takes_a_part(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Overloaded | Verdict::Ramping | Verdict::Draining)
}

/// What one that stands so takes as a rule.
fn usual(verdict: Verdict, policy: &Policy) -> Factor {
    match verdict {
        Verdict::Overloaded => Factor::new(policy.overload.map_or(1.0, |rule| 1.0 - rule.step)),
        Verdict::Ramping => Factor::new(policy.slow_start.map_or(1.0, |slow| slow.from)),
        verdict if verdict.usable() => Factor::FULL,
        _ => Factor::NONE,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::health::SlowStart;

    fn policy() -> Policy {
        let slow = SlowStart { window: Duration::from_secs(60), from: 0.1, error_ratio: None, latency: None };
        let overload = crate::health::policy::Overload { step: 0.3, ..Default::default() };
        Policy { slow_start: Some(slow), overload: Some(overload), ..Policy::default() }
    }

    #[test]
    fn a_state_has_its_usual_part_or_the_one_that_is_said() {
        for (line, verdict, part) in [
            ("a=up", Verdict::Up, 1.0),
            ("a=kept", Verdict::Kept, 1.0),
            ("a=down", Verdict::Down, 0.0),
            ("a=joining", Verdict::Joining, 0.0),
            ("a=draining", Verdict::Draining, 0.0),
            ("a=draining:25%", Verdict::Draining, 0.25),
            ("a=overloaded", Verdict::Overloaded, 0.7),
            ("a=overloaded:40%", Verdict::Overloaded, 0.4),
            ("a=ramping", Verdict::Ramping, 0.1),
            ("a=ramping:100%", Verdict::Ramping, 1.0),
        ] {
            let (name, assumed) = parse(line, &policy()).unwrap();
            assert_eq!((name, assumed), ("a", Assumed { verdict, part: Factor::new(part) }), "{line}");
        }
        assert_eq!(parse("[::1]:80=down", &policy()).unwrap().0, "[::1]:80");
        let (_, assumed) = parse("a=overloaded", &Policy::default()).unwrap();
        assert_eq!(assumed.part, Factor::FULL, "nobody sheds anything where that is off");
    }

    #[test]
    fn what_is_no_state_or_no_part_is_refused() {
        for line in ["a", "a=", "a=dwon", "a=up:50%", "a=overloaded:", "a=overloaded:40", "a=ramping:101%", "a=down:1%"]
        {
            let said = parse(line, &policy()).unwrap_err().to_string();
            assert!(said.starts_with(&format!("--assume {line}: expected ORIGIN=STATE, with up, ")), "{said}");
        }
    }
}
