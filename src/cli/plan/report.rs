//! What is said of a change: the JSON of `plan`, from which its tables are made too.

use indexmap::IndexMap;
use serde::Serialize;

use super::arguments::{Scatter, Unsteady};
use super::source::Skipped;
use crate::lifecycle::Guarded;
use crate::pool::cause::{Cause, What};
use crate::pool::plan::{Count, Plan};
use crate::snapshot::guard::Judgement;

/// All of it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// By name.
    pub(super) pools: IndexMap<String, PoolReport>,
    /// Does a guard refuse the change?
    pub(super) refused: bool,
    /// Where the keys come from: `keys`, `access_log`, `sample` or `generated`.
    pub(super) source: &'static str,
    /// Pools that are new, and pools that go.
    pub(super) added: Vec<String>,
    pub(super) removed: Vec<String>,
    /// Requests that go to another pool.
    pub(super) rerouted: Vec<Rerouted>,
    /// Requests no route takes, or whose pool is not looked at.
    pub(super) elsewhere: u64,
    /// Requests whose key hangs on what the source does not tell.
    pub(super) unknown: u64,
    /// Lines that could not be read.
    pub(super) skipped: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first_skipped: Option<String>,
}

/// Requests from one pool to another.
#[derive(Debug, Serialize)]
pub(super) struct Rerouted {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) requests: u64,
}

/// What a change does to a pool.
#[derive(Debug, Serialize)]
pub(super) struct PoolReport {
    /// Distinct keys.
    pub(super) keys: u64,
    /// Those that get another origin.
    pub(super) moved: u64,
    pub(super) moved_ratio: f64,
    /// The least part that has to move to get from the shares before to those after.
    pub(super) least_possible: f64,
    /// From whom to whom, the most keys first.
    pub(super) pairs: Vec<PairReport>,
    /// What each origin owns of the hash circle, by name.
    pub(super) shares: IndexMap<String, Shares>,
    /// The part of the hash circle that gets another owner, exactly; all of it when keys are made in another way.
    pub(super) circle: f64,
    /// What moves beyond the least possible: by the rings, and by arguments that hardly repeat.
    pub(super) excess: f64,
    pub(super) requests: Requests,
    /// What likely makes the excess, the worst first.
    pub(super) causes: Vec<CauseReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) guard: Option<Guarded>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra_origin_requests: Option<Extra>,
    /// Only one of so many keys was looked at, and counts were multiplied.
    #[serde(skip_serializing_if = "is_one")]
    pub(super) one_of: u64,
}

fn is_one(number: &u64) -> bool {
    *number == 1
}

#[derive(Debug, Serialize)]
pub(super) struct PairReport {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) keys: u64,
    pub(super) requests: u64,
}

/// What an origin has, before and after.
#[derive(Debug, Serialize)]
pub(super) struct Shares {
    pub(super) before: f64,
    pub(super) after: f64,
    /// The same of the requests.
    pub(super) requests: [f64; 2],
}

#[derive(Debug, Serialize)]
pub(super) struct Requests {
    /// Those with a key.
    pub(super) total: u64,
    pub(super) moved: u64,
    pub(super) moved_ratio: f64,
    /// Those without, which go anywhere.
    pub(super) spread: u64,
}

/// What likely moves keys that need not move.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum CauseReport {
    /// An argument whose values hardly repeat.
    Argument {
        argument: String,
        /// Part of the requests that carry it.
        requests: f64,
        /// Distinct values for each of them.
        distinct: f64,
        /// The line that takes it out of the key, and with it all others like it.
        line: String,
        /// Part of the keys that move when that line is in both files.
        moved_ratio: f64,
        /// Part of the requests that meet another origin after the change than the same thing met before it.
        now: f64,
        /// The same with that line.
        then: f64,
        /// Distinct keys with that line.
        keys: u64,
    },
    /// The same servers under other names.
    Renamed {
        /// `loopback`, `port` or `renamed`.
        spelling: &'static str,
        origins: Vec<[String; 2]>,
        lines: Vec<String>,
        moved_ratio: f64,
    },
    /// The same proportions on another scale.
    Rescaled { factor: f64, lines: Vec<String>, moved_ratio: f64 },
    /// Keys are made in another way.
    Key { setting: &'static str, before: String, after: String, moved_ratio: f64 },
}

/// What the change costs behind the origins' caches.
#[derive(Debug, Serialize)]
pub(super) struct Extra {
    pub(super) hit_ratio: f64,
    /// Part of the requests that miss before the change.
    pub(super) missed_before: f64,
    /// The same right after it, before anything was fetched again.
    pub(super) missed_after: f64,
    /// Fetches until every moved key was fetched once; none when the keys are made up.
    pub(super) requests: Option<u64>,
}

impl Report {
    /// What is known beside the pools.
    pub(super) fn skipped(&mut self, skipped: Skipped) {
        self.skipped = skipped.lines;
        self.first_skipped = skipped.first.map(|(line, why)| format!("line {line}: {why}"));
    }
}

impl PoolReport {
    /// From what was counted and judged; `alike`: keys are made the same way.
    pub(super) fn new(plan: &Plan, alike: bool, judgement: Option<&Judgement>, causes: Vec<CauseReport>) -> Self {
        let (moved_ratio, requests_ratio) = plan.moved.of(plan.keys);
        let circle = if alike { plan.circle.ratio } else { 1.0 };
        let moves = if alike { circle } else { moved_ratio };
        let scattered = causes.iter().map(CauseReport::scatters).fold(0.0, f64::max);
        let pair = |pair: &crate::pool::plan::Pair| PairReport {
            from: pair.from.clone(),
            to: pair.to.clone(),
            keys: pair.count.keys,
            requests: pair.count.requests,
        };
        Self {
            keys: plan.keys.keys,
            moved: plan.moved.keys,
            moved_ratio,
            least_possible: plan.circle.least_possible,
            pairs: plan.pairs.iter().map(pair).collect(),
            shares: shares(plan),
            circle,
            excess: (moves - plan.circle.least_possible).max(0.0) + scattered,
            requests: Requests {
                total: plan.keys.requests,
                moved: plan.moved.requests,
                moved_ratio: requests_ratio,
                spread: plan.spread,
            },
            causes,
            guard: judgement.map(Guarded::of),
            extra_origin_requests: None,
            one_of: plan.one_of,
        }
    }

    /// Adds what the change costs when so many requests hit; `counted`: the keys are real ones.
    pub(super) fn with_hit_ratio(mut self, hit_ratio: f64, counted: bool) -> Self {
        let cold = hit_ratio * self.requests.moved_ratio;
        self.extra_origin_requests = Some(Extra {
            hit_ratio,
            missed_before: 1.0 - hit_ratio,
            missed_after: 1.0 - hit_ratio + cold,
            requests: counted.then_some((self.moved as f64 * hit_ratio).round() as u64),
        });
        self
    }

    /// Does the guard refuse it?
    pub(super) fn refused(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.refused)
    }
}

fn shares(plan: &Plan) -> IndexMap<String, Shares> {
    let total = plan.keys.requests;
    let of = |requests: u64| Count { keys: 0, requests }.of(Count { keys: 0, requests: total }).1;
    let shares = plan.circle.shares.iter().map(|(name, shares)| {
        let traffic = plan.traffic.get(name).copied().unwrap_or_default();
        (name.clone(), Shares { before: shares.before, after: shares.after, requests: traffic.map(of) })
    });
    shares.collect()
}

impl CauseReport {
    /// Of an argument; `line` takes out all that are like it.
    pub(super) fn argument(unsteady: Unsteady, line: &str, scatter: &Scatter) -> Self {
        Self::Argument {
            argument: unsteady.name,
            requests: unsteady.requests,
            distinct: unsteady.distinct,
            line: line.to_owned(),
            moved_ratio: scatter.with,
            now: scatter.now,
            then: scatter.then,
            keys: scatter.keys,
        }
    }

    /// What it moves beyond what the rings do.
    fn scatters(&self) -> f64 {
        match self {
            Self::Argument { now, then, .. } => now - then,
            _ => 0.0,
        }
    }
}

impl From<Cause> for CauseReport {
    fn from(Cause { what, instead, moved }: Cause) -> Self {
        match what {
            What::Renamed(spelling, origins) => Self::Renamed {
                spelling: spelling.as_str(),
                origins: origins.into_iter().map(|(old, new)| [old, new]).collect(),
                lines: instead,
                moved_ratio: moved,
            },
            What::Rescaled(factor) => Self::Rescaled { factor, lines: instead, moved_ratio: moved },
            What::Key(setting, before, after) => Self::Key { setting, before, after, moved_ratio: moved },
        }
    }
}
