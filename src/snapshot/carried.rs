//! What does a process tell the next one of what it serves, beside the text? Rule U1: pools as they are, and what was
//! learned of them.
//!
//! [`Snapshot::compile_carried`] makes a snapshot in which every request is answered as in the one that was told of;
//! [`Snapshot::restore`] brings one that stands like it up to date. What was told is bounded, however much is known.

use std::time::Instant;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::settle::Before;
use super::{Past, ShareChange, Snapshot, Upstream, found, settle};
use crate::config::{self, Complaint, Config};
use crate::observe::{Metrics, sample};
use crate::pool::{self, Parked};
use crate::tls;
use crate::traffic::buckets;

/// Keys of samples that are told at most, of all pools together.
const KEYS: usize = 32_768;

/// Keys of rate limits that are told at most, of all limits together.
const LIMITED: usize = 65_536;

/// Who has requests under way, for routes that bound how many.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Seated(buckets::Seated);

/// All that is known of what is in force, and does not stand in its text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Carried {
    version: u64,
    pools: IndexMap<String, UpstreamCarried>,
    /// While pools are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<settle::Carried>,
    /// Pools that were there until not long ago.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gone: Vec<GoneCarried>,
    /// What limits of routes counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) limits: Option<buckets::Carried>,
    /// What sessions of clients go on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tls: Option<tls::Carried>,
}

/// A pool that is gone.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct GoneCarried {
    /// A whole configuration with its section.
    text: String,
    parked: pool::Gone,
}

/// What is known of one pool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct UpstreamCarried {
    pub(super) pool: pool::Carried,
    moved: f64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changed: Vec<ShareChange>,
    #[serde(default = "everything")]
    may_move: f64,
    #[serde(default)]
    hit_ratio_before: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) found: Option<found::Carried>,
    #[serde(default)]
    sample: sample::Carried,
}

impl Carried {
    pub(super) fn pool(&self, name: &str) -> Option<&UpstreamCarried> {
        self.pools.get(name)
    }

    /// Pools that are gone.
    pub(super) fn gone(&self, now: Instant) -> Vec<Parked> {
        self.gone.iter().filter_map(|gone| gone.again(now)).collect()
    }

    /// Do the pools of both have the same members, standing in the same places?
    pub fn is_shaped_as(&self, other: &Self) -> bool {
        let alike = |(one, other): ((&String, &UpstreamCarried), (&String, &UpstreamCarried))| {
            one.0 == other.0 && one.1.pool.is_shaped_as(&other.1.pool)
        };
        self.version == other.version
            && self.pools.len() == other.pools.len()
            && self.gone.len() == other.gone.len()
            && self.pools.iter().zip(&other.pools).all(alike)
    }
}

impl GoneCarried {
    fn of(parked: &Parked, config: &Config, now: Instant) -> Option<Self> {
        let section = (parked.pool().to_string(), parked.section()?.clone());
        let alone = Config { pools: [section].into_iter().collect(), routes: Vec::new(), ..config.clone() };
        Some(Self { text: config::dump(&alone), parked: parked.export(now)? })
    }

    /// `None`: nothing can be made of it here.
    fn again(&self, now: Instant) -> Option<Parked> {
        let read = config::parse("gone", &self.text).ok()?;
        Parked::again(&self.parked, read.config.pools.get(&self.parked.pool)?, now)
    }
}

/// Where nobody said what may move.
fn everything() -> f64 {
    1.0
}

impl UpstreamCarried {
    fn of(upstream: &Upstream, keys: usize, now: Instant) -> Self {
        Self {
            pool: upstream.pool.export(now),
            moved: upstream.moved,
            changed: upstream.changed.to_vec(),
            may_move: upstream.may_move,
            hit_ratio_before: upstream.hit_ratio_before,
            found: upstream.found.as_ref().map(|found| found.export(now)),
            sample: upstream.tail.sample.tell(keys, now),
        }
    }

    /// The same of a pool compiled here.
    pub(super) fn give(&self, upstream: Upstream, now: Instant) -> Upstream {
        upstream.tail.sample.hear(&self.sample, now);
        let [moved, may_move] = [self.moved, self.may_move].map(|part| part.clamp(0.0, 1.0));
        let changed = self.changed.clone().into();
        Upstream { moved, changed, may_move, hit_ratio_before: self.hit_ratio_before, ..upstream }
    }
}

impl Snapshot {
    /// Compiles `config` as another process has it in force, which told of it. Whose text it is says
    /// [`read_from`](Self::read_from).
    ///
    /// # Errors
    /// Everything that is wrong with it here, by path.
    pub fn compile_carried(
        config: &Config,
        carried: &Carried,
        metrics: &Metrics,
        now: Instant,
    ) -> Result<Self, Vec<Complaint>> {
        let snapshot = Self::assemble(config, Past::Told(carried), metrics, now)?;
        let before = carried.before.as_ref().and_then(|before| Before::told(before, &config.process));
        Ok(Self { version: carried.version.max(1), before, ..snapshot })
    }

    /// What is known of it, as seen `now`.
    pub fn export(&self, now: Instant) -> Carried {
        let keys = KEYS / self.pools.len().max(1);
        let pools = self.pools.iter();
        Carried {
            version: self.version,
            pools: pools.map(|one| (one.pool.name().to_string(), UpstreamCarried::of(one, keys, now))).collect(),
            before: self.before.as_ref().map(Before::export),
            gone: self.gone.iter().filter_map(|parked| GoneCarried::of(parked, &self.config, now)).collect(),
            limits: Some(self.buckets.tell(LIMITED, now)),
            tls: self.tls.export(),
        }
    }

    /// The same configuration, with whoever another process has in it by now; `None`: it cannot be compiled so.
    pub fn compiled_again(&self, carried: &Carried, metrics: &Metrics, now: Instant) -> Option<Self> {
        Some(Self::compile_carried(&self.config, carried, metrics, now).ok()?.in_place_of(self))
    }

    /// The requests under way that are limited in their number.
    pub fn seats(&self) -> Seated {
        Seated(self.buckets.tell_seats())
    }

    /// Those of another process, in place of what was heard before.
    pub fn hear_seats(&self, told: &Seated) {
        self.buckets.hear_seats(&told.0);
    }

    /// What another process learned since it told of it first. To be called before anybody is judged by it.
    pub fn restore(&self, carried: &Carried, now: Instant) {
        for upstream in &self.pools {
            let Some(told) = carried.pool(upstream.pool.name()) else { continue };
            upstream.pool.restore(&told.pool, now);
            upstream.tail.sample.hear(&told.sample, now);
        }
        if let Some(limits) = &carried.limits {
            self.buckets.hear(limits, now);
        }
        for gone in carried.gone.iter().map(|gone| &gone.parked) {
            self.gone
                .iter()
                .filter(|parked| **parked.pool() == *gone.pool)
                .for_each(|parked| parked.restore(gone, now));
        }
    }
}
