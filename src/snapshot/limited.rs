//! What may a client ask of a route? Its limits as requests meet them, each with its counter.

use std::sync::Arc;

use crate::config::Complaint;
use crate::config::limits;
use crate::observe::{LimitMeters, Metrics, SharedMeters};
use crate::traffic::{Buckets, Concurrency, Rate};

/// What the limit of a body is called in logs and metrics.
const BODY: &str = "body";

/// The limits of a route, in the order in which they are asked.
pub struct RouteLimits {
    /// How often.
    pub rates: Vec<RateLimit>,
    /// Is one of them shared with other processes?
    pub is_shared: bool,
    /// How many at a time.
    pub concurrency: Option<Limit<Concurrency>>,
    /// How long a body.
    pub body: Option<Limit<u64>>,
    /// How many bytes of an answer in a second.
    pub bandwidth: Option<u64>,
}

/// A limit and its counter.
pub struct Limit<T> {
    /// The limit.
    pub is: T,
    /// Counts whom it turned away.
    pub meters: Arc<LimitMeters>,
}

/// A limit of how often, its counters, and that of a shared one.
pub struct RateLimit {
    /// The limit.
    pub is: Rate,
    /// Counts whom it turned away.
    pub meters: Arc<LimitMeters>,
    /// Counts whom nobody else knew about; `None`: it is not shared.
    pub shared: Option<Arc<SharedMeters>>,
}

impl RouteLimits {
    /// Compiles what was written of `route`, which is told from others by `identity`; `None`: nothing. Paths of complaints
    /// begin at the route.
    pub(super) fn compile(
        written: &limits::Limits,
        (route, identity): (&str, &str),
        buckets: &Buckets,
        metrics: &Metrics,
    ) -> Result<Option<Box<Self>>, Vec<Complaint>> {
        let mut complaints = Vec::new();
        let mut rates = Vec::new();
        for (index, (path, one)) in written.rate.at("limits.rate".to_owned()).enumerate() {
            match Rate::compile(one, identity, index, buckets) {
                Ok(is) => rates.push(RateLimit {
                    meters: metrics.limit(route, is.name()),
                    shared: one.shared.on().map(|_| metrics.shared_limit(is.name())),
                    is,
                }),
                Err(invalid) => complaints.push(invalid.at(format!("{path}.key"))),
            }
        }
        let concurrency = written.concurrency.on().map(|one| Concurrency::compile(one, identity, buckets)).transpose();
        let concurrency = concurrency.unwrap_or_else(|invalid| {
            complaints.push(invalid.at("limits.concurrency.key"));
            None
        });
        if !complaints.is_empty() {
            return Err(complaints);
        }
        let concurrency = concurrency.map(|is| Limit { meters: metrics.limit(route, is.name()), is });
        let body = written.body.on().map(|bytes| Limit { is: bytes.0, meters: metrics.limit(route, BODY) });
        let bandwidth = written.bandwidth.on().map(|bandwidth| bandwidth.0);
        let is_shared = rates.iter().any(|rate| rate.shared.is_some());
        let is_none = *written == limits::Limits::default();
        Ok((!is_none).then(|| Box::new(Self { is_shared, rates, concurrency, body, bandwidth })))
    }
}
