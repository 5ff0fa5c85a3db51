//! What is the gateway like at this moment? One look at the snapshot in force, for `/status` and for the gauges of
//! `/metrics`, so that both tell the same and neither costs the data plane anything.

use std::time::Instant;

use indexmap::IndexMap;

use super::status::{ConfigStatus, OriginStatus, PoolStatus, ProbeStatus, RingStatus, Status, WeightStatus};
use crate::config::pool::Panic;
use crate::health::Verdict;
use crate::observe::{OriginView, PoolView};
use crate::pool::Member;
use crate::snapshot::{Snapshot, Upstream};

impl Status {
    /// The state of everything in `snapshot`; `started`: when the process was.
    pub fn of(snapshot: &Snapshot, started: Instant, now: Instant) -> Self {
        let pool = |upstream: &Upstream| (upstream.tail.name.to_string(), pool(snapshot, upstream, now));
        Self {
            generation: 1,
            uptime: now.saturating_duration_since(started).as_secs_f64(),
            config: ConfigStatus { version: snapshot.version(), digest: snapshot.digest().to_owned() },
            pools: snapshot.upstreams().iter().map(pool).collect(),
        }
    }
}

/// Sets the gauges of all that is in `snapshot`.
pub fn show(snapshot: &Snapshot) {
    for upstream in snapshot.upstreams() {
        let shares = upstream.pool.ring().shares();
        for (number, member) in upstream.pool.members().iter().enumerate() {
            let Some(meters) = upstream.meters.get(number) else { continue };
            let (origin, in_flight) = (member.origin(), member.origin().in_flight());
            let open = usize::try_from(origin.connections_open()).unwrap_or(usize::MAX);
            meters.show(&OriginView {
                up: origin.verdict().usable(),
                in_flight,
                active: in_flight.min(open),
                idle: open.saturating_sub(in_flight),
                weight: f64::from(member.weight()),
                effective: f64::from(member.weight()),
                share: shares.get(number).copied().unwrap_or_default(),
            });
        }
        upstream.tail.meters.show(&PoolView {
            states: &Verdict::ALL.map(|verdict| (verdict.as_str(), upstream.pool.roster().count(verdict))),
            short: upstream.pool.roster().is_short(),
            fingerprint: &upstream.tail.fingerprint,
            moved: upstream.moved,
        });
    }
}

fn pool(snapshot: &Snapshot, upstream: &Upstream, now: Instant) -> PoolStatus {
    let shares = upstream.pool.ring().shares();
    let panic = snapshot.config().pools.get(&*upstream.tail.name).map(|written| written.health.panic);
    let origin = |(number, member): (usize, &Member)| {
        (member.name().to_string(), origin(member, shares.get(number).copied().unwrap_or_default(), now))
    };
    PoolStatus {
        algorithm: "hash",
        key: upstream.pool.key().text().to_owned(),
        ring: RingStatus { fingerprint: upstream.tail.fingerprint.to_string(), moved_ratio: upstream.moved },
        panic: if panic == Some(Panic::Fail) { "fail" } else { "keep" },
        short: upstream.pool.roster().is_short(),
        origins: upstream.pool.members().iter().enumerate().map(origin).collect::<IndexMap<_, _>>(),
    }
}

fn origin(member: &Member, share: f64, now: Instant) -> OriginStatus {
    let (origin, report) = (member.origin(), member.origin().health().report());
    let recent = origin.tally().summary(now);
    OriginStatus {
        state: report.verdict.as_str(),
        why: report.why.to_string(),
        address: member.address().endpoint().map(|endpoint| endpoint.to_string()),
        weight: WeightStatus { configured: member.weight(), effective: f64::from(member.weight()) },
        share,
        in_flight: origin.in_flight() as u64,
        requests: origin.tally().attempts(),
        error_ratio: recent.error_ratio,
        p50: recent.p50.map(|time| time.as_secs_f64()),
        p99: recent.p99.map(|time| time.as_secs_f64()),
        last_probe: report.last_probe.map(|(grade, at)| ProbeStatus {
            result: grade.as_str(),
            age: now.saturating_duration_since(at).as_secs_f64(),
        }),
    }
}
