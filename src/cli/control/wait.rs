//! Waits until whoever had to join has joined: `reload --wait`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

use super::Target;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// Origins of pools, as a reload and as `/status` name them.
type Origins = Vec<(String, String)>;

/// Waits for everybody the answer to a reload calls joining, at most `patience`; answers who still is then.
///
/// # Errors
/// The gateway does not answer, or another configuration is in force.
pub(super) fn for_newcomers(target: &Target, answer: &Value, patience: Duration) -> anyhow::Result<Origins> {
    let end = now() + patience;
    let mut left = named(&answer["joining"]);
    while !left.is_empty() {
        let reply = target.ask("GET", "/status")?;
        let status: Value = serde_json::from_str(&reply.body).context("the answer is no JSON")?;
        if status["config"]["version"] != answer["version"] {
            bail!("configuration {} is in force, not {} any more", status["config"]["version"], answer["version"]);
        }
        left.retain(|(pool, origin)| joins(&status, pool, origin));
        if left.is_empty() || now() >= end {
            break;
        }
        sleep(LOOK.min(end.saturating_duration_since(now())));
    }
    Ok(left)
}

fn named(joining: &Value) -> Origins {
    let of_pool = |(pool, origins): (&String, &Value)| {
        let names: Vec<_> = super::reload::names(origins).map(str::to_owned).collect();
        names.into_iter().map(|name| (pool.clone(), name)).collect::<Origins>()
    };
    joining.as_object().into_iter().flatten().flat_map(of_pool).collect()
}

/// One that is gone joins no more.
fn joins(status: &Value, pool: &str, origin: &str) -> bool {
    status["pools"][pool]["origins"][origin]["state"] == "joining"
}

#[expect(clippy::disallowed_methods, reason = "the command's own clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whoever_is_joining_is_waited_for_and_nobody_else() {
        let all = named(&json!({ "p": ["a", "b"], "q": ["a"], "r": [] }));
        let name = |pool: &str, origin: &str| (pool.to_owned(), origin.to_owned());
        assert_eq!(all, [name("p", "a"), name("p", "b"), name("q", "a")]);
        let status =
            json!({ "pools": { "p": { "origins": { "a": { "state": "joining" }, "b": { "state": "up" } } } } });
        let left: Vec<_> = all.into_iter().filter(|(pool, origin)| joins(&status, pool, origin)).collect();
        assert_eq!(left, [name("p", "a")]);
    }
}
