//! An attempt at an origin, from its choice to its end.
//!
//! An attempt counts as in flight from the choice of its origin until its lease is finished or dropped; dropped means that
//! nothing was learned. Its success
//! path takes no lock; a failure takes the short one of the origin's health.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use crate::balance::Balancer;
use crate::health::{Endpoint, Heard, Live};
use crate::resilience::Class;

use super::{Origin, Pass, Pick};

/// The permission to make one attempt at an origin.
#[derive(Debug)]
#[must_use = "an attempt is in flight only while its lease is held"]
pub struct Lease {
    origin: Slot,
    endpoint: Endpoint,
    pass: Pass,
    /// The algorithm that is to learn from it.
    balancer: Balancer,
    /// What was hashed, or drawn if there was nothing to hash.
    key: u32,
    /// Who asks.
    client: IpAddr,
    began: Instant,
    answer: Option<(u16, Instant)>,
    /// Did the answer come from the origin's own cache?
    hit: Option<bool>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer of this status, whole as far as the origin is concerned.
    Answered {
        /// The status.
        status: u16,
    },
    /// With this failure.
    Failed(Class),
    /// By us or the client, before its end.
    Abandoned,
}

/// A place at an origin, from the choice on: it counts as in flight until it is dropped.
#[derive(Debug)]
pub struct Slot(Arc<Origin>);

impl Slot {
    /// A place, if fewer than `most` are taken.
    pub(super) fn take(origin: &Arc<Origin>, most: usize) -> Option<Self> {
        let taken = if most == usize::MAX {
            origin.load().enter();
            true
        } else {
            origin.load().enter_below(most)
        };
        taken.then(|| Self(Arc::clone(origin)))
    }
}

impl Deref for Slot {
    type Target = Arc<Origin>;

    fn deref(&self) -> &Arc<Origin> {
        &self.0
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Lease {
    pub(super) fn new(pick: Pick, now: Instant) -> Self {
        let Pick { origin, endpoint, pass, balancer, key, .. } = pick;
        let client = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self { origin, endpoint, pass, balancer, key, client, began: now, answer: None, hit: None }
    }

    /// The same, and this client asks for it.
    pub fn asked_by(self, client: IpAddr) -> Self {
        Self { client, ..self }
    }

    /// The origin.
    pub fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Where to connect to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The pass that took the origin.
    pub fn pass(&self) -> Pass {
        self.pass
    }

    /// What was hashed, or drawn if there was nothing to hash.
    pub fn key(&self) -> u32 {
        self.key
    }

    /// When the attempt began.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// A connection to the origin is held. One that was tried because every origin was out is in at once.
    pub fn connected(&self, now: Instant) {
        if self.pass == Pass::Panic {
            self.health().connected(now);
        }
    }

    /// A header came, any header: the origin lives. To be called when it comes, since an answer may run for hours;
    /// [`finish`](Self::finish) does it if nobody did.
    pub fn answered(&mut self, status: u16, now: Instant) {
        if self.answer.is_none() {
            self.answer = Some((status, now));
            self.health().answered(now);
            self.heard(status == OVERLOADED, now);
            self.took(is_failure(status), now);
        }
    }

    /// The answer came from the origin's own cache, or did not though it might have.
    pub fn looked_up(&mut self, hit: bool) {
        self.hit = Some(hit);
    }

    /// The attempt ended.
    pub fn finish(mut self, outcome: Outcome, now: Instant) {
        let (error, failed, unfit) = match outcome {
            Outcome::Abandoned | Outcome::Failed(Class::BodyTooLarge | Class::Deadline) => return,
            Outcome::Answered { status } => {
                self.answered(status, now);
                (status >= 500, is_failure(status), Some(status >= 500 && status != OVERLOADED))
            }
            // Failures of ours or of the client say nothing about the origin.
            Outcome::Failed(Class::LocalLimit | Class::ClientGone | Class::ClientTimeout | Class::DrainTimeout) => {
                return;
            }
            // It ends connections in good order.
            Outcome::Failed(Class::Unprocessed) => return,
            Outcome::Failed(class) => {
                self.failed(class, now);
                self.took(true, now);
                // A kept connection that was closed is neither a request that failed nor one that did not.
                (true, true, (class != Class::Stale).then_some(true))
            }
        };
        if failed {
            self.origin.load().failed(now);
        }
        let took = self.answer.map(|(_, at)| at.saturating_duration_since(self.began));
        self.origin.tally().record(error, took, self.hit, now);
        if let Some(unfit) = unfit {
            self.health().ended(unfit);
        }
    }

    /// What traffic says about the origin's health: rule H2.
    fn failed(&self, class: Class, now: Instant) {
        if class == Class::ResponseTimeout && self.answer.is_none() {
            self.heard(true, now);
        }
        match class {
            Class::ConnectRefused => self.health().refused(),
            // One that answered and fell silent later answers.
            Class::ConnectTimeout | Class::ResponseTimeout if self.answer.is_none() => {
                self.health().timed_out(self.key, self.began, now);
            }
            _ => {}
        }
    }

    /// What an answer, or that there is none in time, says of the origin's load: rule H7.
    fn heard(&self, busy: bool, now: Instant) {
        let (key, client, took) = (self.key, self.client, now.saturating_duration_since(self.began));
        self.health().heard(&Heard { key, client, busy, took });
    }

    fn took(&self, failed: bool, now: Instant) {
        self.balancer.took(self.origin.load(), now.saturating_duration_since(self.began), failed, now);
    }

    fn health(&self) -> &Arc<Live> {
        self.origin.health()
    }
}

/// More than it can do: no failure of the origin's.
const OVERLOADED: u16 = 503;

/// Does an answer of this status count as a failed try where load is weighed? Rule R5.
fn is_failure(status: u16) -> bool {
    status >= 500 || status == 429
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::time::Duration;

    use fastrand::Rng;

    use super::*;
    use crate::config::pool::OutlierDetection;
    use crate::config::units::Off;
    use crate::health::{Course, Verdict, Why};
    use crate::pool::tests::{compiled, only_origin, pick_any, pool, section};
    use crate::pool::{Ask, Pool};

    #[test]
    fn every_lease_gives_back_what_it_took() {
        let pool = pool(&["a"]);
        let origin = only_origin(&pool);
        let now = Instant::now();
        let outcomes =
            [Outcome::Answered { status: 200 }, Outcome::Failed(Class::Reset), Outcome::Abandoned].into_iter();
        let leases: Vec<_> = outcomes.map(|outcome| (pick_any(&pool).lease(now), outcome)).collect();
        let dropped = pick_any(&pool).lease(now);
        assert_eq!(origin.in_flight(), 4);
        drop(dropped);
        for (lease, outcome) in leases {
            lease.finish(outcome, now);
        }
        assert_eq!(origin.in_flight(), 0);
    }

    #[test]
    fn failures_of_ours_and_of_clients_count_against_nobody() {
        let pool = pool(&["a"]);
        let now = Instant::now();
        let of_others = [
            Class::LocalLimit,
            Class::ClientGone,
            Class::ClientTimeout,
            Class::DrainTimeout,
            Class::BodyTooLarge,
            Class::Deadline,
        ];
        for class in of_others {
            pick_any(&pool).lease(now).finish(Outcome::Failed(class), now);
        }
        pick_any(&pool).lease(now).finish(Outcome::Abandoned, now);
        assert_eq!(only_origin(&pool).tally().attempts(), 0);
        pick_any(&pool).lease(now).finish(Outcome::Failed(Class::Reset), now);
        pick_any(&pool).lease(now).finish(Outcome::Answered { status: 500 }, now);
        let tally = only_origin(&pool).tally();
        assert_eq!((tally.attempts(), tally.errors()), (2, 2));
    }

    /// Three origins; every request to the first is answered so, for as long as a window lasts.
    fn answered_by_one_with(status: u16) -> Pool {
        let (pool, start, mut course) = (pool(&["a", "b", "c"]), Instant::now(), Course::default());
        pool.roster().judge(&mut course, start);
        for n in 0..300_u32 {
            let ask = Ask { hash: Some(n.wrapping_mul(0x9e37_79b9)), tried: &[], now: start };
            let pick = pool.pick(&ask, &mut Rng::with_seed(1)).unwrap();
            let status = if pick.member == 0 { status } else { 200 };
            let lease = pick.lease(start).asked_by([10, 0, 0, n as u8].into());
            lease.finish(Outcome::Answered { status }, start);
        }
        pool.roster().judge(&mut course, start + Duration::from_secs(5));
        pool
    }

    /// Rule H7: hashing pins a client to one origin, so that what it is told it is told there.
    #[test]
    fn a_503_speaks_of_the_origin_s_load_and_a_429_of_a_client() {
        for (status, part) in [(503, 0.5), (429, 1.0), (500, 1.0), (200, 1.0)] {
            let pool = answered_by_one_with(status);
            let parts: Vec<_> = pool.members().iter().map(|one| one.origin().health().factor().part()).collect();
            assert_eq!(parts, [part, 1.0, 1.0], "{status}");
        }
    }

    #[test]
    fn a_503_is_no_failure_that_puts_an_origin_out() {
        let mut written = section(&["a", "b", "c"]);
        written.health.probe = Off::Off;
        written.health.outlier_detection = Off::On(OutlierDetection::default());
        for (status, verdict) in [(503, Verdict::Up), (429, Verdict::Up), (500, Verdict::Down)] {
            let (pool, now, mut course) = (compiled(&written, None), Instant::now(), Course::default());
            pool.roster().judge(&mut course, now);
            for n in 0..300_u32 {
                let ask = Ask { hash: Some(n.wrapping_mul(0x9e37_79b9)), tried: &[], now };
                let pick = pool.pick(&ask, &mut Rng::with_seed(1)).unwrap();
                let status = if pick.member == 0 { status } else { 200 };
                pick.lease(now).finish(Outcome::Answered { status }, now);
            }
            pool.roster().judge(&mut course, now);
            assert_eq!(only_origin(&pool).health().verdict(), verdict, "{status}");
        }
    }

    #[test]
    fn a_connection_that_was_closed_ends_no_row_of_failures() {
        let mut written = section(&["a", "b", "c"]);
        written.health.probe = Off::Off;
        written.health.outlier_detection = Off::On(OutlierDetection { failures: Off::On(2), ..Default::default() });
        for (between, verdict) in [
            (Outcome::Failed(Class::Stale), Verdict::Down),
            (Outcome::Abandoned, Verdict::Down),
            (Outcome::Answered { status: 200 }, Verdict::Up),
        ] {
            let (pool, now, mut course) = (compiled(&written, None), Instant::now(), Course::default());
            pool.roster().judge(&mut course, now);
            for outcome in [Outcome::Failed(Class::Reset), between, Outcome::Failed(Class::Reset)] {
                let asked = |n: u32| {
                    let ask = Ask { hash: Some(n.wrapping_mul(0x9e37_79b9)), tried: &[], now };
                    pool.pick(&ask, &mut Rng::with_seed(1)).filter(|pick| pick.member == 0)
                };
                (0..300).find_map(asked).unwrap().lease(now).finish(outcome, now);
            }
            pool.roster().judge(&mut course, now);
            assert_eq!(only_origin(&pool).health().verdict(), verdict, "{between:?}");
        }
    }

    #[test]
    fn time_to_the_header_counts_and_not_the_time_of_the_body() {
        let pool = pool(&["a"]);
        let now = Instant::now();
        let mut lease = pick_any(&pool).lease(now);
        lease.answered(200, now + Duration::from_millis(20));
        lease.finish(Outcome::Answered { status: 200 }, now + Duration::from_secs(900));
        let origin = only_origin(&pool);
        assert_eq!(origin.health().last_answer(), Some(now + Duration::from_millis(20)));
        let p50 = origin.tally().summary(now + Duration::from_secs(900)).p50.unwrap();
        assert!((18..=22).contains(&p50.as_millis()), "{p50:?}");
    }

    #[test]
    fn connection_in_panic_brings_the_origin_in_and_none_else_does() {
        let pool = pool(&["a"]);
        let now = Instant::now();
        let before = pick_any(&pool).lease(now);
        let origin = only_origin(&pool);
        origin.health().publish(Verdict::Down);
        before.connected(now);
        let in_panic = pick_any(&pool).lease(now);
        assert_eq!((before.pass(), in_panic.pass()), (Pass::Own, Pass::Panic));
        assert_ne!(origin.health().report().why, Why::Connected, "it was picked before the origin went out");
        in_panic.connected(now);
        pool.roster().judge(&mut Course::default(), now);
        assert_eq!(origin.health().report().why, Why::Connected);
    }

    #[test]
    fn time_outs_on_five_keys_are_evidence_and_one_after_a_header_is_not() {
        let pool = pool(&["a", "b"]);
        let start = Instant::now();
        let end = start + Duration::from_secs(10);
        let lease = |hash| {
            let member = pool.ring().owner(hash).unwrap();
            let ask = Ask { hash: Some(hash), tried: &[], now: start };
            (member, pool.pick(&ask, &mut Rng::with_seed(1)).unwrap().lease(start))
        };
        let leases: Vec<_> = (0..40_u32).map(|n| lease(n.wrapping_mul(0x9e37_79b9))).collect();
        for (member, mut lease) in leases {
            match member {
                0 => lease.finish(Outcome::Failed(Class::ResponseTimeout), end),
                _ => {
                    lease.answered(200, start + Duration::from_secs(6));
                    lease.finish(Outcome::Failed(Class::ResponseTimeout), end);
                }
            }
        }
        pool.roster().judge(&mut Course::default(), end);
        let verdicts: Vec<_> = pool.members().iter().map(|member| member.origin().health().report().why).collect();
        assert_eq!(verdicts[0], Why::Hung);
        assert_ne!(verdicts[1], Why::Hung);
    }
}
