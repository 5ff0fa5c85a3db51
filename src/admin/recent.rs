//! How fast does it go lately? What `/status` tells of the last minute, and of the last ten in steps.

use std::time::{Duration, Instant};

use super::status::{RecentStatus, Status, StepsStatus};
use crate::health::{Summary, Tally};
use crate::observe::minutes::{STEP, Step};
use crate::observe::{Metrics, Minutes};
use crate::snapshot::Upstream;

/// What is recent at an origin.
const MINUTE: Duration = Duration::from_secs(60);

/// No rate is told of less than this: one request a moment after the start is not a thousand a second.
const LEAST: Duration = Duration::from_secs(5);

/// The last minute of a pool, that its origins are set beside.
pub(super) struct Pace {
    /// Of all its origins, of those that were dropped not long ago as well.
    pub(super) all: Summary,
    /// So much of that minute is known.
    seconds: f64,
}

impl Pace {
    /// That of a pool in a process that is `up` for so long.
    pub(super) fn of(upstream: &Upstream, up: Duration, now: Instant) -> Self {
        let members = upstream.pool.members().iter().map(|member| member.origin());
        let parked = upstream.pool.parked().into_iter().flat_map(|parked| parked.stays(now)).map(|stay| &stay.origin);
        let tallies: Vec<&Tally> = members.chain(parked).map(|origin| origin.tally()).collect();
        // what a process before this one counted goes back further than this one does
        let reach = tallies.iter().filter_map(|tally| tally.reach(now)).max().unwrap_or_default();
        let seconds = up.max(reach).clamp(LEAST, MINUTE).as_secs_f64();
        Self { all: Tally::summary_of(tallies, now), seconds }
    }

    /// So many in that minute, as a rate by the second.
    pub(super) fn rate(&self, attempts: u64) -> f64 {
        attempts as f64 / self.seconds
    }

    /// So many of all.
    pub(super) fn part(&self, attempts: u64) -> Option<f64> {
        (self.all.attempts > 0).then(|| attempts as f64 / self.all.attempts as f64)
    }
}

impl Status {
    /// The same with the last minutes in steps.
    pub fn with(mut self, metrics: &Metrics, minutes: &Minutes, now: Instant) -> Self {
        let remembered = minutes.remembered(now);
        self.recent = RecentStatus {
            step: STEP.as_secs_f64(),
            age: remembered.age.map(|age| age.as_secs_f64()),
            steps: StepsStatus::of(&remembered.all),
        };
        self.config.drift = metrics.is_drifted();
        for (name, pool) in &mut self.pools {
            pool.recent = remembered.pools.get(&**name).map(|steps| StepsStatus::of(steps)).unwrap_or_default();
        }
        self
    }
}

impl StepsStatus {
    fn of(steps: &[Step]) -> Self {
        let each = |count: fn(&Step) -> u64| steps.iter().map(count).collect();
        Self {
            requests: each(|step| step.requests),
            errors: each(|step| step.errors),
            retries: each(|step| step.retries),
            suppressed: each(|step| step.suppressed),
        }
    }
}
