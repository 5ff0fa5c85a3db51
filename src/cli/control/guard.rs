//! What a guard refused, for people: as `plan` would have told it before, by the hash circle alone.

use indexmap::IndexMap;
use serde_json::Value;

use super::super::moves::Lines;
use crate::config::units::Percent;
use crate::lifecycle::{Movement, PairMoved};

/// The text about these pools, as the gateway answers it.
pub(super) fn told(pools: &Value, colour: bool) -> String {
    // Another version's gateway may answer in another shape: then that it refuses is all that is said.
    let pools: IndexMap<String, Movement> = serde_json::from_value(pools.clone()).unwrap_or_default();
    let mut lines = Lines::new(colour);
    for (name, pool) in &pools {
        lines.gap();
        one(name, pool, &mut lines);
    }
    lines.into_text()
}

fn one(name: &str, pool: &Movement, lines: &mut Lines) {
    lines.line(&format!("pool {name}"), &format!("{} of the hash circle", Percent::told(pool.moved_ratio)));
    lines.least(pool.least_possible, pool.moved_ratio);
    lines.guard(&pool.guard);
    if pool.guard.step.is_none() {
        lines.line("", "what moved in the last ten minutes counts, and a changed key is everything");
    }
    let row = |pair: &PairMoved| (vec![pair.from.clone(), pair.to.clone(), Percent::told(pair.share)], pair.share);
    let left_out = |rest: &[PairMoved]| Percent::told(rest.iter().map(|pair| pair.share).sum());
    lines.pairs(&["OF ALL"], &pool.pairs, row, left_out);
    lines.shares(pool.shares.iter().map(|(name, share)| (name.as_str(), share.before, share.after)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(step: &Value) -> Value {
        json!({ "origin": {
            "moved_ratio": 0.3842, "least_possible": 0.33,
            "pairs": [{ "from": "a:80", "to": "c:80", "share": 0.25 }, { "from": "b:80", "to": "c:80", "share": 0.1342 }],
            "shares": {
                "a:80": { "before": 0.5, "after": 0.25 }, "b:80": { "before": 0.5, "after": 0.3658 },
                "c:80": { "before": 0.0, "after": 0.3842 },
            },
            "guard": { "max_moved": 0.2, "moved": 0.3842, "refused": true, "step": step },
        } })
    }

    #[test]
    fn a_refusal_shows_who_gives_whom_how_much_and_the_step_that_passes() {
        let step = json!({ "moved": 0.182, "origins": [{ "name": "c:80", "before": 0, "after": 1 }] });
        let expected = "\
pool origin 38.4% of the hash circle
least       33.0% has to move for the new shares; of the circle 38.4% does
guard       refused: 38.4% is above max_moved 20.0%
            a step that passes: add c:80 (18.2%)

 FROM  TO    OF ALL
 a:80  c:80   25.0%  ████████████████████
 b:80  c:80   13.4%  ███████████

 ORIGIN  BEFORE  AFTER  POINTS  █ BOTH  ░ BEFORE  ▓ AFTER
 a:80     50.0%  25.0%   -25.0  ██████████░░░░░░░░░░
 b:80     50.0%  36.6%   -13.4  ███████████████░░░░░
 c:80      0.0%  38.4%   +38.4  ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
";
        assert_eq!(told(&refused(&step), false), expected);
    }

    #[test]
    fn that_no_step_passes_is_said_with_its_reason() {
        let told = told(&refused(&Value::Null), false);
        assert!(
            told.contains("\n            no step towards it passes\n            what moved in the last ten"),
            "{told}"
        );
    }
}
