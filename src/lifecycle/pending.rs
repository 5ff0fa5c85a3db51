//! A change that waits to be confirmed: when it goes back by itself, and why. Rules C4 and C5.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::confirm::Clock;
use super::ledger::ConfirmStatus;
use crate::config::pool::Guard;
use crate::config::units::Off;
use crate::health::Verdict;
use crate::pool::{Origin, Summary, Tally};
use crate::snapshot::blame::{Blame, Fares};
use crate::snapshot::{PoolTail, Snapshot};

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
}

impl Pending {
    /// `next`, which is on trial, takes the place of `old` now, and has to be confirmed within this.
    pub(super) fn new(within: Duration, old: &Snapshot, next: &Snapshot, now: Instant) -> Self {
        let members = next.upstreams().iter().flat_map(|upstream| upstream.pool.members());
        let newcomers = members.map(|member| member.origin()).filter(|origin| origin.verdict() == Verdict::Joining);
        let tried = next.upstreams().iter().filter_map(|upstream| {
            let name = upstream.pool.name();
            let Off::On(guard) = next.config().pools.get(&**name)?.guard else { return None };
            upstream.tail.trial.as_ref()?;
            let before = old.named(name)?.pool.members().iter().map(|member| member.origin().tally());
            Some(Tried { tail: Arc::clone(&upstream.tail), guard, before: Tally::summary_of(before, now) })
        });
        let (newcomers, tried) = (newcomers.cloned().collect(), tried.collect());
        Self { clock: Clock::new(within, now), newcomers, tried, note: None }
    }

    /// Looks again; answers why it goes back now.
    pub(super) fn look(&mut self, now: Instant) -> Option<String> {
        let joining = self.waits_for().next().is_some();
        let is_over = self.clock.is_over(joining, now);
        let mut note = None;
        for one in &self.tried {
            match one.blame(now) {
                Blame::Nobody => {}
                Blame::Change(why) => return Some(format!("pool {}: {why}", one.tail.name)),
                Blame::All(why) => note = Some(format!("pool {}: not by the change alone: {why}", one.tail.name)),
            }
        }
        if let (None, Some(note)) = (&self.note, &note) {
            log::warn!("{note}; nothing goes back for that");
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
        self.newcomers.iter().filter(|origin| origin.verdict() == Verdict::Joining)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.tried.iter().filter_map(|one| one.tail.trial.as_deref()).for_each(crate::pool::Trial::end);
    }
}

impl Tried {
    fn blame(&self, now: Instant) -> Blame {
        let Some(trial) = &self.tail.trial else { return Blame::Nobody };
        let (moved, stayed) = trial.seen(now);
        Fares { before: self.before, moved, stayed }.blame(&self.guard)
    }
}
