//! A change that waits to be confirmed: when it goes back by itself, and why. Rules C4 and C5.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::confirm::{Clock, Stage};
use super::ledger::ConfirmStatus;
use crate::config::pool::Guard;
use crate::config::units::Off;
use crate::health::{Brake, Summary, Tally, Verdict};
use crate::pool::{Member, Origin};
use crate::snapshot::blame::{Blame, Fares};
use crate::snapshot::{PoolTail, Snapshot, Upstream};

/// It.
pub(super) struct Pending {
    clock: Clock,
    newcomers: Vec<Arc<Origin>>,
    tried: Vec<Tried>,
    /// What all keys suffer, whichever moved.
    note: Option<String>,
}

/// A pool whose keys moved.
struct Tried {
    tail: Arc<PoolTail>,
    guard: Guard,
    /// How the pool fared before.
    before: Summary,
    /// Holds its growth.
    brake: Arc<Brake>,
}

impl Pending {
    /// `next`, which is on trial, takes the place of `old` now, and has to be confirmed within this.
    pub(super) fn new(within: Duration, old: &Snapshot, next: &Snapshot, now: Instant) -> Self {
        let newcomers = next.upstreams().iter().flat_map(|upstream| grows(old, upstream));
        let tried = next.upstreams().iter().filter_map(|upstream| {
            let name = upstream.pool.name();
            let Off::On(guard) = next.config().pools.get(&**name)?.guard else { return None };
            upstream.tail.trial.as_ref()?;
            let before = old.named(name)?.pool.members().iter().map(|member| member.origin().tally());
            let (before, brake) = (Tally::summary_of(before, now), Arc::clone(&upstream.pool.roster().brake));
            Some(Tried { tail: Arc::clone(&upstream.tail), guard, before, brake })
        });
        let windows = next.upstreams().iter().filter_map(|upstream| upstream.pool.roster().policy.slow_start);
        let longest = windows.map(|slow| slow.window).max().unwrap_or_default();
        let (newcomers, tried) = (newcomers.collect(), tried.collect());
        Self { clock: Clock::new(within, longest, now), newcomers, tried, note: None }
    }

    /// Looks again; answers why it goes back now.
    pub(super) fn look(&mut self, now: Instant) -> Option<String> {
        let is_over = self.clock.is_over(self.stage(), now);
        let mut note = None;
        for one in &self.tried {
            let blame = one.blame(now);
            one.brake.harm(matches!(blame, Blame::All(_)));
            match blame {
                Blame::Nobody => {}
                Blame::Change(why) => return Some(format!("pool {}: {why}", one.tail.name)),
                Blame::All(why) => note = Some(format!("pool {}: not by the change alone: {why}", one.tail.name)),
            }
        }
        if let (None, Some(note)) = (&self.note, &note) {
            log::warn!("{note}; nothing goes back for that, and nothing grows meanwhile");
        }
        self.note = note;
        is_over.then(|| format!("not confirmed within {:?}", self.clock.within()))
    }

    /// For people.
    pub(super) fn status(&self, now: Instant) -> ConfirmStatus {
        let left = self.clock.left(now).map(|left| left.as_secs_f64());
        let waits_for = self.waits_for().filter(|_| left.is_none());
        ConfirmStatus {
            within: self.clock.within().as_secs_f64(),
            left,
            waits_for: waits_for.map(|origin| format!("{}/{}", origin.pool(), origin.name())).collect(),
            note: self.note.clone(),
        }
    }

    fn waits_for(&self) -> impl Iterator<Item = &Arc<Origin>> {
        self.newcomers.iter().filter(|origin| origin.verdict() == Verdict::Joining || origin.health().is_growing())
    }

    /// How far in is the change?
    fn stage(&self) -> Stage {
        let joins = self.newcomers.iter().any(|origin| origin.verdict() == Verdict::Joining);
        let grows = self.newcomers.iter().any(|origin| origin.health().is_growing());
        match (joins, grows) {
            (_, true) => Stage::Growing,
            (true, false) => Stage::Joining,
            (false, false) => Stage::In,
        }
    }
}

/// Origins of a pool that the change brings or gives more weight: they are to come into their share first.
fn grows(old: &Snapshot, upstream: &Upstream) -> Vec<Arc<Origin>> {
    let Some(before) = old.named(upstream.pool.name()) else { return Vec::new() };
    let known = |member: &Member| before.pool.members().iter().find(|old| Arc::ptr_eq(old.origin(), member.origin()));
    let grows = |member: &&Member| known(member).is_none_or(|old| old.weight() < member.weight());
    upstream.pool.members().iter().filter(grows).map(|member| Arc::clone(member.origin())).collect()
}

impl Drop for Pending {
    fn drop(&mut self) {
        for one in &self.tried {
            one.brake.harm(false);
            one.tail.trial.as_deref().into_iter().for_each(crate::pool::Trial::end);
        }
    }
}

impl Tried {
    fn blame(&self, now: Instant) -> Blame {
        let Some(trial) = &self.tail.trial else { return Blame::Nobody };
        let (moved, stayed) = trial.seen(now);
        Fares { before: self.before, moved, stayed }.blame(&self.guard)
    }
}
