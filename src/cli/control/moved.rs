//! What did a change that is in force move? As the running gateway tells it afterwards, in the tables of `plan`.

use indexmap::IndexMap;
use serde::Deserialize;

use super::super::moves::Lines;
use super::super::top::harmless;
use super::Target;
use crate::config::units::Percent;
use crate::snapshot::ShareChange;

/// What is read of `/status`.
#[derive(Deserialize)]
struct Seen {
    config: Config,
    pools: IndexMap<String, Pool>,
}

#[derive(Deserialize)]
struct Config {
    history: Vec<Text>,
}

#[derive(Deserialize)]
struct Text {
    version: u64,
    moved_ratio: IndexMap<String, f64>,
}

#[derive(Deserialize)]
struct Pool {
    ring: Ring,
}

#[derive(Deserialize)]
struct Ring {
    changed: Vec<ShareChange>,
}

/// What the configuration of this version moved; nothing where that cannot be learned, for the change is made.
pub(super) fn by(target: &Target, version: Option<u64>, colour: bool) -> String {
    match (target.get_json::<Seen>("/status"), version) {
        (Ok(seen), Some(version)) => told(&seen, version, colour),
        _ => String::new(),
    }
}

fn told(seen: &Seen, version: u64, colour: bool) -> String {
    let mut lines = Lines::new(colour);
    // Another change may have come in between.
    let text = seen.config.history.first().filter(|text| text.version == version);
    for (name, moved) in text.into_iter().flat_map(|text| &text.moved_ratio).filter(|(_, moved)| **moved > 0.0) {
        lines.gap();
        lines.line(&format!("pool {}", harmless(name)), &format!("{} of the hash circle moved", Percent::told(*moved)));
        let changed = seen.pools.get(name).into_iter().flat_map(|pool| &pool.ring.changed);
        lines.shares(changed.map(|one| (one.origin.as_str(), one.before, one.after)));
    }
    match lines.into_text() {
        text if text.is_empty() => text,
        text => format!("\n{text}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn seen() -> Seen {
        let changed = json!([
            { "origin": "c:80", "before": 0.0, "after": 0.4 },
            { "origin": "a:80", "before": 0.5, "after": 0.3 },
        ]);
        let history = json!([
            { "version": 4, "moved_ratio": { "p": 0.4, "q": 0.0 } },
            { "version": 3, "moved_ratio": { "p": 1.0 } },
        ]);
        let pools = json!({ "p": { "ring": { "changed": changed } }, "q": { "ring": { "changed": changed } } });
        serde_json::from_value(json!({ "config": { "history": history }, "pools": pools })).unwrap()
    }

    #[test]
    fn what_moved_is_told_of_the_pools_that_moved() {
        let expected = "
pool p      40.0% of the hash circle moved

 ORIGIN  BEFORE  AFTER  POINTS  █ BOTH  ░ BEFORE  ▓ AFTER
 c:80      0.0%  40.0%   +40.0  ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓
 a:80     50.0%  30.0%   -20.0  ████████████░░░░░░░░
";
        assert_eq!(told(&seen(), 4, false), expected);
    }

    #[test]
    fn nothing_is_told_of_another_change() {
        assert_eq!(told(&seen(), 3, false), "");
    }
}
