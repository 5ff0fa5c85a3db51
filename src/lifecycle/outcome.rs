//! How did a reload end? The answer of `POST /reload`, of the command, and of the log line.

use std::time::Duration;

use indexmap::IndexMap;
use serde::Serialize;

use super::movement::Movement;
use crate::config::units::Percent;
use crate::config::{Mistake, Report, Severity};
use crate::health::Verdict;
use crate::snapshot::Snapshot;

/// What is asked of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ReloadAsk {
    /// Apply all but a changed `process` section instead of refusing the file.
    pub keep_process: bool,
    /// This once so much may move, whatever `guard.max_moved` of any pool says.
    pub allow_moved: Option<Percent>,
    /// Goes back by itself unless it is confirmed within this.
    pub confirm: Option<Duration>,
    /// Who asks.
    pub by: By,
}

/// Who asks for a reload?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// Somebody who means this file, now.
    #[default]
    Command,
    /// HUP.
    Signal,
    /// The file changed.
    Watch,
    /// An upgrade is over.
    Upgrade,
}

/// How it ended; serialises to the JSON that is answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "result", rename_all = "lowercase")]
pub enum ReloadOutcome {
    /// The file is in force.
    Applied(InForce),
    /// The file says what was in force already; the version stays.
    Unchanged(InForce),
    /// What waited to be confirmed stays.
    Confirmed(InForce),
    /// An earlier text is in force again.
    #[serde(rename = "rolled_back")]
    RolledBack(InForce),
    /// It went back to an earlier text by itself.
    Reverted(InForce),
    /// The file is not taken, and nothing changed.
    Refused {
        /// Every error in the file.
        mistakes: Vec<Mistake>,
        /// Warnings beside them.
        warnings: Vec<Mistake>,
    },
    /// A guard does not let it pass, and nothing changed.
    #[serde(rename = "refused")]
    Guarded {
        /// What it would move, by pool; a pool that is named here is one whose guard refuses.
        pools: IndexMap<String, Movement>,
        /// What the file could do better.
        warnings: Vec<Mistake>,
    },
    /// It is not the time for it, and nothing changed.
    #[serde(rename = "refused")]
    Declined {
        /// Why.
        why: String,
    },
    /// Nobody could try: the process is leaving.
    Failed {
        /// Why.
        why: String,
    },
}

/// What is in force after a reload.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct InForce {
    /// How many configurations were put in force since the start.
    pub version: u64,
    /// SHA-256 of the text, in hex.
    pub digest: String,
    /// Paths whose values differ from before.
    pub changed: Vec<String>,
    /// By pool, the origins that have to pass their probes first.
    pub joining: IndexMap<String, Vec<String>>,
    /// What the file could do better.
    pub warnings: Vec<Mistake>,
    /// It goes back by itself unless it is confirmed within so many seconds from when all newcomers are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm_within: Option<f64>,
}

impl ReloadOutcome {
    /// Refused for the mistakes of a report.
    pub fn refused(report: Report) -> Self {
        let is_error = |mistake: &Mistake| mistake.severity == Severity::Error;
        let (mistakes, warnings) = report.mistakes.into_iter().partition(is_error);
        Self::Refused { mistakes, warnings }
    }

    /// It is not the time for it.
    pub(super) fn declined(why: &str) -> Self {
        Self::Declined { why: why.to_owned() }
    }

    /// What the file could do better.
    pub fn warnings(&self) -> &[Mistake] {
        match self {
            Self::Applied(now) | Self::Unchanged(now) | Self::Confirmed(now) => &now.warnings,
            Self::RolledBack(now) | Self::Reverted(now) => &now.warnings,
            Self::Refused { warnings, .. } | Self::Guarded { warnings, .. } => warnings,
            Self::Declined { .. } | Self::Failed { .. } => &[],
        }
    }

    /// The word of the answer, and of the metric.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Applied(_) => "applied",
            Self::Unchanged(_) => "unchanged",
            Self::Confirmed(_) => "confirmed",
            Self::RolledBack(_) => "rolled_back",
            Self::Reverted(_) => "reverted",
            Self::Refused { .. } | Self::Guarded { .. } | Self::Declined { .. } => "refused",
            Self::Failed { .. } => "failed",
        }
    }
}

/// What is in force with `snapshot`.
pub(super) fn in_force(snapshot: &Snapshot, changed: Vec<String>, warnings: Vec<Mistake>) -> InForce {
    let mut joining: IndexMap<String, Vec<String>> = IndexMap::new();
    for upstream in snapshot.upstreams() {
        let new = upstream.pool.members().iter().filter(|member| member.origin().verdict() == Verdict::Joining);
        let names: Vec<_> = new.map(|member| member.name().to_string()).collect();
        if !names.is_empty() {
            joining.insert(upstream.pool.name().to_string(), names);
        }
    }
    let digest = snapshot.digest().to_owned();
    InForce { version: snapshot.version(), digest, changed, joining, warnings, confirm_within: None }
}

/// The same for people, on one line.
pub(super) fn told(now: &InForce) -> String {
    let changed = if now.changed.is_empty() { "no value changed".to_owned() } else { now.changed.join(", ") };
    let joining: Vec<_> = now.joining.iter().map(|(pool, names)| format!("{pool}: {}", names.join(", "))).collect();
    if joining.is_empty() { changed } else { format!("{changed}; joining {}", joining.join("; ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_applied_reload_says_what_is_in_force() {
        let joining = IndexMap::from([("origin".to_owned(), vec!["b:80".to_owned()])]);
        let changed = vec!["pools.origin.origins".to_owned()];
        let applied =
            ReloadOutcome::Applied(InForce { version: 4, digest: "ab".into(), changed, joining, ..InForce::default() });
        assert_eq!(
            serde_json::to_value(&applied).unwrap(),
            json!({
                "result": "applied", "version": 4, "digest": "ab", "changed": ["pools.origin.origins"],
                "joining": { "origin": ["b:80"] }, "warnings": [],
            })
        );
        assert_eq!(applied.word(), "applied");
    }

    #[test]
    fn the_word_of_an_outcome_is_the_one_that_is_answered() {
        let (pools, nothing) = (IndexMap::new(), Vec::new);
        for outcome in [
            ReloadOutcome::Applied(InForce::default()),
            ReloadOutcome::Unchanged(InForce::default()),
            ReloadOutcome::Confirmed(InForce::default()),
            ReloadOutcome::Reverted(InForce::default()),
            ReloadOutcome::RolledBack(InForce::default()),
            ReloadOutcome::Refused { mistakes: nothing(), warnings: nothing() },
            ReloadOutcome::Guarded { pools, warnings: nothing() },
            ReloadOutcome::declined("no"),
            ReloadOutcome::Failed { why: "no".into() },
        ] {
            assert_eq!(serde_json::to_value(&outcome).unwrap()["result"], outcome.word());
        }
    }

    #[test]
    fn a_refusal_keeps_warnings_apart_from_mistakes() {
        let error = Mistake::of_file("m.yaml", "nothing", "a file");
        let warning = Mistake { severity: Severity::Warning, path: "pools".into(), ..error.clone() };
        let report = Report { file: "m.yaml".into(), mistakes: vec![warning, error] };
        let refused = serde_json::to_value(ReloadOutcome::refused(report)).unwrap();
        assert_eq!(refused["result"], "refused");
        assert_eq!(
            refused["mistakes"],
            json!([{ "file": "m.yaml", "line": 0, "column": 0, "path": "", "found": "nothing", "meant": "a file" }])
        );
        assert_eq!(refused["warnings"][0]["path"], "pools");
    }
}
