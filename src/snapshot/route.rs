//! A compiled route: what becomes of its requests, and what holds for them.

use std::sync::Arc;

use super::{Action, Changes, Mirror, RouteLimits, Upstream};
use crate::config::route::EncodedSlash;
use crate::config::{self, Complaint, Config};
use crate::observe::{Metrics, RouteMeters};
use crate::pool::Timeouts;
use crate::resilience::Retry;
use crate::traffic::{Access, Buckets, Compression, Forwarding};

/// A compiled route.
pub struct Route {
    /// What outlives the snapshot in a request.
    pub tail: Arc<RouteTail>,
    /// What becomes of its requests.
    pub action: Action,
    /// What may be tried again.
    pub retry: Retry,
    /// The time-outs of its one pool, with the differences of this route.
    timeouts: Timeouts,
    /// What a client may ask, if there is a limit.
    pub limits: Option<Box<RouteLimits>>,
    /// Who may ask.
    pub access: Access,
    /// What becomes of forwarding headers.
    pub forwarding: Forwarding,
    /// `%2f` and `%5c` in a path are passed on.
    pub encoded_slash: bool,
    /// What it changes of requests and answers.
    pub changes: Changes,
    /// Which answers are compressed.
    pub compression: Option<Compression>,
    /// Copies of its requests for another pool.
    pub mirror: Option<Mirror>,
    /// How much of an answer may be held back for a client that reads slowly.
    pub holds_back: Option<u32>,
    /// How long the body of a request may be that is read whole before an origin is asked.
    pub reads_ahead: Option<u64>,
}

/// What a request keeps of its route once its answer has begun.
#[derive(Debug)]
pub struct RouteTail {
    /// The route's name.
    pub name: Arc<str>,
    /// Its counters.
    pub meters: Arc<RouteMeters>,
    /// What it answers itself stays out of the access log.
    pub unlogged: bool,
}

impl Route {
    /// Compiles what was written at this number; paths of complaints begin at the route.
    pub(super) fn compile(
        (number, written): (usize, &config::Route),
        config: &Config,
        pools: &[Upstream],
        (buckets, metrics): (&Buckets, &Metrics),
    ) -> Result<Self, Vec<Complaint>> {
        let identity = written.identity(number);
        let limits = RouteLimits::compile(&written.limits, (&*written.name, &*identity), buckets, metrics);
        let (action, changes, limits) =
            match (Action::compile(written, config, pools, metrics), Changes::compile(written), limits) {
                (Ok(action), Ok(changes), Ok(limits)) => (action, changes, limits),
                (action, changes, limits) => {
                    let found = action.err().flatten().into_iter();
                    let others = [changes.err(), limits.err()].into_iter().flatten().flatten();
                    return Err(found.chain(others).collect());
                }
            };
        // `config` has made sure that the pool exists; it may be wrong by itself.
        let upstream = action.only_pool().and_then(|pool| pools.get(pool));
        let pool = upstream.map(|upstream| &**upstream.pool.name());
        let tail = RouteTail {
            name: Arc::from(&*written.name),
            meters: metrics.route(&written.name, pool),
            unlogged: written.respond.as_ref().is_some_and(|respond| !respond.log),
        };
        let timeouts = upstream.map(|upstream| upstream.pool.settings().timeouts.for_route(&written.timeouts));
        Ok(Self {
            tail: Arc::new(tail),
            action,
            retry: Retry::compile(Some(&written.retry)),
            timeouts: timeouts.unwrap_or_default(),
            limits,
            access: Access::compile(&written.access),
            forwarding: Forwarding::compile(&written.forwarded),
            encoded_slash: written.encoded_slash == EncodedSlash::Allow,
            changes,
            compression: written.compression.on().map(Compression::compile),
            mirror: Mirror::compile(written, config, metrics),
            holds_back: written.buffering.response.on().map(|size| u32::try_from(size.0).unwrap_or(u32::MAX)),
            reads_ahead: written.buffering.request.on().map(|size| size.0),
        })
    }
}

impl Route {
    /// The time-outs of this pool of the route, with the differences of the route.
    pub fn timeouts(&self, pool: Option<usize>) -> &Timeouts {
        let Action::Split(split) = &self.action else { return &self.timeouts };
        split.legs().iter().find(|leg| Some(leg.pool) == pool).map_or(&self.timeouts, |leg| &leg.timeouts)
    }
}

/// A complaint about the route of this number, whose path began at the route.
pub(super) fn numbered(number: usize, mut complaint: Complaint) -> Complaint {
    complaint.path = format!("routes[{number}].{}", complaint.path);
    complaint
}
