//! A route whose requests are shared out over several pools: which of them does this one go to?

use std::sync::Arc;

use super::{RouteTail, Upstream};
use crate::config::{self, Complaint, Config};
use crate::observe::Metrics;
use crate::pool::Timeouts;
use crate::routing;
use crate::template::{Facts, Need, Scope, Template, address, args};

/// A compiled `split` section.
#[derive(Debug)]
pub struct Split {
    key: Template,
    shares: routing::Split,
    legs: Vec<Leg>,
}

/// One of its pools, with what of the route is of one pool.
#[derive(Debug)]
pub struct Leg {
    /// Its number.
    pub pool: usize,
    /// What outlives the snapshot in a request.
    pub tail: Arc<RouteTail>,
    /// Its time-outs, with the differences of the route.
    pub timeouts: Timeouts,
}

impl Split {
    /// The split of a written route; paths of complaints begin at the route. A pool that does not exist was complained of
    /// before: `None`.
    pub(super) fn compile(
        written: &config::Route,
        split: &config::split::Split,
        config: &Config,
        pools: &[Upstream],
        metrics: &Metrics,
    ) -> Result<Self, Option<Complaint>> {
        let key = Template::compile(&split.key, Scope::Key).map_err(|invalid| Some(invalid.at("split.key")))?;
        let shares = routing::Split::new(split.to.iter().map(|to| (to.pool.as_str(), to.share.0)));
        let leg = |to: &config::split::Share| {
            let pool = config.pools.get_index_of(&to.pool)?;
            let timeouts = pools.get(pool)?.pool.settings().timeouts.for_route(&written.timeouts);
            let meters = metrics.route(&written.name, Some(&to.pool));
            let tail = RouteTail { name: Arc::from(&*written.name), meters, unlogged: false };
            Some(Leg { pool, tail: Arc::new(tail), timeouts })
        };
        let legs = split.to.iter().map(leg).collect::<Option<Vec<_>>>().ok_or(None)?;
        Ok(Self { key, shares, legs })
    }

    /// Where a request goes; `None`: no pool has a share.
    pub fn choose(&self, facts: &Facts<'_>) -> Option<&Leg> {
        let key = self.key(facts).unwrap_or_else(|| client(facts));
        self.legs.get(self.shares.choose(&key)?)
    }

    /// The same for a request of which not all is known; `None` when it hangs on what is not.
    pub fn choose_known(&self, facts: &Facts<'_>, known: &dyn Fn(Need<'_>) -> bool) -> Option<&Leg> {
        if !self.key.needs().all(known) {
            return None;
        }
        let key = self.key(facts).or_else(|| known(Need::Client).then(|| client(facts)))?;
        self.legs.get(self.shares.choose(&key)?)
    }

    /// `None`: a part of it is missing, or all of it is empty.
    fn key(&self, facts: &Facts<'_>) -> Option<Vec<u8>> {
        let mut key = Vec::with_capacity(128);
        self.key.render(facts, &args::Policy::All, &mut key).ok()?;
        Some(key).filter(|key| !key.is_empty())
    }

    /// The pools, in the order of the file.
    pub fn legs(&self) -> &[Leg] {
        &self.legs
    }
}

/// What stands in for a key that is missing.
fn client(facts: &Facts<'_>) -> Vec<u8> {
    let mut key = Vec::with_capacity(16);
    address::push_ip(facts.client_ip.to_canonical(), &mut key);
    key
}
