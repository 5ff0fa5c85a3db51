//! A compiled pool as requests meet it: its origins, its counters, the Host they see, and where they tell of their caches.

use std::sync::Arc;
use std::time::Instant;

use http::HeaderValue;
use serde::{Deserialize, Serialize};

use super::Found;
use crate::balance;
use crate::config::{self, Complaint};
use crate::health::Tally;
use crate::observe::{Metrics, OriginMeters, PoolMeters, Sample};
use crate::pool::{Member, Pool, Trial};
use crate::traffic::CacheStatus;
use crate::traffic::headers::host_towards;

/// A compiled pool with its counters.
pub struct Upstream {
    /// The pool.
    pub pool: Pool,
    /// What outlives the snapshot in a request.
    pub tail: Arc<PoolTail>,
    /// Counters of its members, by their number.
    pub meters: Vec<Arc<OriginMeters>>,
    /// The Host its members see, by their number; `None`: the client's.
    pub hosts: Vec<Option<HeaderValue>>,
    /// Where its members say whether they had an answer.
    pub cache: Option<CacheStatus>,
    /// The part of their answers that came from their caches just before its placement last changed, if that is known.
    pub hit_ratio_before: Option<f64>,
    /// Share of the hash circle that changed its owner when this pool's placement last changed; 0 as long as it never
    /// did, 1 when key, arguments or `on_missing` changed.
    pub moved: f64,
    /// Whose share of the circle that changed, the greatest change first; only the greatest are kept.
    pub changed: Arc<[ShareChange]>,
    /// What may have moved then whatever its guard says: what was allowed once, and everything where no guard is asked.
    pub may_move: f64,
    /// Where its origins come from, when they are not written.
    pub found: Option<Found>,
}

/// A share of the circle that changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShareChange {
    /// Whose it is, or was.
    pub origin: String,
    /// What it was; 0: the origin is new.
    pub before: f64,
    /// What it became; 0: the origin is gone.
    pub after: f64,
}

/// Changes of shares that are kept.
const CHANGES: usize = 32;

/// What a request keeps of its pool once its answer has begun.
pub struct PoolTail {
    /// The pool's name.
    pub name: Arc<str>,
    /// The fingerprint of its configured ring.
    pub fingerprint: Arc<str>,
    /// Its counters.
    pub meters: Arc<PoolMeters>,
    /// How keys that moved fare, while the change that moved them may go back.
    pub trial: Option<Arc<Trial>>,
    /// The keys it is asked for.
    pub sample: Arc<Sample>,
}

impl Upstream {
    /// Of a compiled pool and its section; `before` is the same pool in the snapshot before.
    pub(super) fn compile(
        pool: Pool,
        written: &config::Pool,
        before: Option<&Self>,
        metrics: &Metrics,
        now: Instant,
    ) -> Result<Self, Complaint> {
        let name = pool.name();
        let fingerprint = match before {
            Some(before) if *before.tail.fingerprint == *pool.fingerprint() => Arc::clone(&before.tail.fingerprint),
            _ => Arc::from(pool.fingerprint()),
        };
        let (moved, changed) = before.map_or_else(Default::default, |before| moved(before, &pool));
        let stays = before.filter(|before| before.tail.fingerprint == fingerprint);
        let may_move = stays.map_or(1.0, |before| before.may_move);
        let hit_ratio_before = before.and_then(|before| match before.tail.fingerprint == fingerprint {
            true => before.hit_ratio_before,
            false => before.hit_ratio(now),
        });
        let meters = metrics.origins(name, pool.members().iter().map(|member| &**member.name()));
        let sample = before.map_or_else(|| Arc::new(Sample::new(now)), |before| Arc::clone(&before.tail.sample));
        let tail = PoolTail { name: Arc::clone(name), fingerprint, meters: metrics.pool(name), trial: None, sample };
        let (hosts, cache) = (hosts(written, &pool, before)?, CacheStatus::compile(&written.cache_status));
        let tail = Arc::new(tail);
        Ok(Self { tail, meters, hosts, cache, hit_ratio_before, moved, changed, may_move, found: None, pool })
    }

    /// The part of the recent answers of its members that came from their caches, as far as they say so.
    pub fn hit_ratio(&self, now: Instant) -> Option<f64> {
        let recent = Tally::summary_of(self.pool.members().iter().map(|member| member.origin().tally()), now);
        (recent.lookups > 0).then(|| recent.hits as f64 / recent.lookups as f64)
    }
}

/// The Host each member sees: one that is where it was sees what it saw.
fn hosts(
    written: &config::Pool,
    pool: &Pool,
    before: Option<&Upstream>,
) -> Result<Vec<Option<HeaderValue>>, Complaint> {
    let old = |member: &Member| {
        let before = before?;
        let number = before.pool.members().iter().position(|old| old.name() == member.name())?;
        before.hosts.get(number).cloned()
    };
    let tls = pool.settings().tls.is_some();
    let host = |(number, member): (usize, &Member)| match written.origins.get(number) {
        Some(origin) if member.successor().is_none() => host_towards(&written.host, &origin.address, tls),
        // One that another process had and no file names stands where it said.
        _ => old(member).map_or_else(|| host_towards(&written.host, &member.address().written(), tls), Ok),
    };
    let hosts = pool.members().iter().enumerate().map(host);
    hosts.collect::<Result<_, _>>().map_err(|invalid| invalid.at("host"))
}

/// Share of the circle that changed its owner with the last change of placement, and whose share that changed: this
/// one, if it is one.
fn moved(before: &Upstream, after: &Pool) -> (f64, Arc<[ShareChange]>) {
    match &before.pool {
        pool if pool.fingerprint() == after.fingerprint() => (before.moved, Arc::clone(&before.changed)),
        pool if pool.keys_as(after) => {
            let moved = balance::moved(&pool.placement(), &after.placement());
            (moved.ratio, changed(moved.shares))
        }
        _ => (1.0, Arc::default()),
    }
}

fn changed(shares: impl IntoIterator<Item = (String, balance::moved::Shares)>) -> Arc<[ShareChange]> {
    let change = |(origin, share): (_, balance::moved::Shares)| {
        let by = (share.after - share.before).abs();
        (by > 0.0).then_some((by, ShareChange { origin, before: share.before, after: share.after }))
    };
    let mut all: Vec<_> = shares.into_iter().filter_map(change).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().take(CHANGES).map(|(_, change)| change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_changed_shares_the_greatest_are_kept_and_who_kept_its_own_is_not_told_of() {
        let share = |number: u32| {
            let after = f64::from(number) / 1000.0;
            (number.to_string(), balance::moved::Shares { before: 0.01, after })
        };
        let kept = changed((0..100).map(share));
        assert_eq!(kept.len(), CHANGES);
        assert_eq!(kept[0], ShareChange { origin: "99".into(), before: 0.01, after: 0.099 });
        let all = changed([share(10), share(25), share(0)]);
        assert_eq!(all.iter().map(|change| &*change.origin).collect::<Vec<_>>(), ["25", "0"]);
    }
}
