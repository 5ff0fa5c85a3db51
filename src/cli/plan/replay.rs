//! Everything a source tells, placed in both files: route, key and origin before and after.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use super::arguments::Arguments;
use super::asked::{Asked, Seen, What};
use crate::cli::routed::pool_of;
use crate::pool::plan::{Literal, Planner};
use crate::snapshot::{Snapshot, Upstream};
use crate::template::Keyed;

/// The state of a replay.
pub(super) struct Replay<'s> {
    sides: [&'s Snapshot; 2],
    /// Do both files send every request to the same pool?
    same_routes: bool,
    pools: Vec<OnePool<'s>>,
    by_name: HashMap<&'s str, usize>,
    /// Requests that go to another pool: from which to which.
    pub(super) rerouted: BTreeMap<[String; 2], u64>,
    /// Requests no route takes, or whose pool is in one file alone.
    pub(super) elsewhere: u64,
    /// Requests whose key hangs on what the source does not tell.
    pub(super) unknown: u64,
}

/// A pool that is in both files.
pub(super) struct OnePool<'s> {
    pub(super) name: &'s str,
    pub(super) planner: Planner<'s>,
    pub(super) arguments: Arguments,
    before: Vec<u8>,
    after: Vec<u8>,
}

impl<'s> Replay<'s> {
    /// Of every pool in both files, or of this one alone.
    #[expect(clippy::disallowed_methods, reason = "pools that do nothing place alike at any time")]
    pub(super) fn new(before: &'s Snapshot, after: &'s Snapshot, only: Option<&str>) -> Self {
        let now = Instant::now();
        let wanted = |upstream: &&'s Upstream| only.is_none_or(|only| only == &**upstream.pool.name());
        let pool = |new: &'s Upstream| {
            let old = before.named(new.pool.name())?;
            Some(OnePool {
                name: new.pool.name(),
                planner: Planner::new(&old.pool, &new.pool, now),
                arguments: Arguments::default(),
                before: Vec::new(),
                after: Vec::new(),
            })
        };
        let pools: Vec<OnePool<'s>> = after.upstreams().iter().filter(wanted).filter_map(pool).collect();
        let by_name = pools.iter().enumerate().map(|(number, pool)| (pool.name, number)).collect();
        Self {
            sides: [before, after],
            same_routes: before.config().routes == after.config().routes,
            pools,
            by_name,
            rerouted: BTreeMap::new(),
            elsewhere: 0,
            unknown: 0,
        }
    }

    /// Places what was asked for.
    pub(super) fn take(&mut self, asked: &Asked<'_>) {
        match &asked.what {
            What::Key(key, pool) => {
                let wanted = |one: &&mut OnePool<'_>| pool.is_none_or(|pool| pool == one.name);
                self.pools.iter_mut().filter(wanted).for_each(|pool| pool.literal(*key, asked.requests));
            }
            What::Request(seen) => self.request(seen, asked.requests),
        }
    }

    fn request(&mut self, seen: &Seen<'_>, requests: u64) {
        let Some(number) = self.pool_of(seen, requests) else { return };
        if let Some(pool) = self.pools.get_mut(number)
            && !pool.take(seen, requests)
        {
            self.unknown += requests;
        }
    }

    /// The pool a request goes to in both files; counts it where it belongs if there is none.
    fn pool_of(&mut self, seen: &Seen<'_>, requests: u64) -> Option<usize> {
        let [old, new] = self.routed(seen);
        let number = self.number(old, new);
        match (old, new) {
            (Some(old), Some(new)) if old != new => {
                *self.rerouted.entry([old, new].map(str::to_owned)).or_default() += requests;
            }
            _ if number.is_none() => self.elsewhere += requests,
            _ => {}
        }
        number
    }

    /// The number of the pool a request goes to in both files.
    pub(super) fn found(&self, seen: &Seen<'_>) -> Option<usize> {
        let [old, new] = self.routed(seen);
        self.number(old, new)
    }

    fn number(&self, old: Option<&str>, new: Option<&str>) -> Option<usize> {
        new.filter(|new| old == Some(new)).and_then(|new| self.by_name.get(new).copied())
    }

    fn routed<'a>(&self, seen: &Seen<'a>) -> [Option<&'a str>; 2]
    where
        's: 'a,
    {
        let [before, after] = self.sides;
        let old = seen.pool.or_else(|| pool_of(before, &seen.facts, seen.knows));
        [old, if self.same_routes { old } else { pool_of(after, &seen.facts, seen.knows) }]
    }

    /// Of this pool only one of so many keys is told.
    pub(super) fn thinned(&mut self, pool: &str, one_of: u64) {
        let found = self.by_name.get(pool).and_then(|number| self.pools.get_mut(*number));
        found.into_iter().for_each(|pool| pool.planner.thinned(one_of));
    }

    /// The pools, when all is told.
    pub(super) fn pools(&self) -> &[OnePool<'s>] {
        &self.pools
    }

    /// The pools with all that was counted.
    pub(super) fn into_pools(self) -> Vec<OnePool<'s>> {
        self.pools
    }
}

impl OnePool<'_> {
    fn literal(&mut self, key: Literal<'_>, requests: u64) {
        match key {
            Literal::Key(b"") => self.planner.spread(requests),
            key => self.planner.literal(key, requests),
        }
    }

    /// `false`: the source does not tell enough.
    fn take(&mut self, seen: &Seen<'_>, requests: u64) -> bool {
        let [Some(old), new] = self.planner.keys() else {
            self.planner.spread(requests);
            return true;
        };
        self.before.clear();
        match (seen.make(old, &mut self.before), seen.key) {
            (Some(Keyed::Key), _) => {}
            (Some(Keyed::Spread), _) => {
                self.planner.spread(requests);
                return true;
            }
            (None, Some(key)) => {
                self.planner.literal(key, requests);
                return true;
            }
            (None, None) => return false,
        }
        self.arguments.note(&seen.facts, old, requests);
        if self.planner.alike() {
            self.planner.key(&self.before, &self.before, requests);
            return true;
        }
        self.after.clear();
        match new.and_then(|new| seen.make(new, &mut self.after)) {
            Some(Keyed::Key) => self.planner.key(&self.before, &self.after, requests),
            // It will go anywhere, or nobody knows where.
            _ => self.planner.literal(Literal::Key(&self.before), requests),
        }
        true
    }
}
