//! Is there room for one more at an origin? Its own limit in flight, and in a pool with bounded load its part of the load:
//! rules R4 and R6.
//!
//! The load of the pool is added up at most once a pick, and only when an origin has more in flight than any cap allows
//! it anyway.

use std::cell::OnceCell;

use crate::balance::bounded::FLOOR;
use crate::balance::{Bounded, Candidate};

use super::{Member, Pool, Side};

/// The limits of those that are asked together, for one pick.
pub(super) struct Room<'p> {
    pool: &'p Pool,
    side: Side<'p>,
    bounded: OnceCell<Bounded>,
}

impl<'p> Room<'p> {
    pub(super) fn of(pool: &'p Pool, side: Side<'p>) -> Self {
        Self { pool, side, bounded: OnceCell::new() }
    }

    /// Is it below its limit and its cap?
    pub(super) fn below_both(&self, member: usize) -> bool {
        self.pool.member(member).is_some_and(|member| member.origin.in_flight() < self.most(member))
    }

    /// Is it below its limit?
    pub(super) fn below_limit(&self, member: usize) -> bool {
        self.pool.member(member).is_some_and(Self::is_below_limit)
    }

    pub(super) fn is_below_limit(member: &Member) -> bool {
        member.origin.in_flight() < member.max_in_flight
    }

    /// How many may be in flight there, as far as limit and cap go.
    pub(super) fn most(&self, member: &Member) -> usize {
        let Some(factor) = self.pool.bounded else { return member.max_in_flight };
        let cap =
            if member.origin.in_flight() < FLOOR { FLOOR } else { self.bounded(factor).cap(member.weight_at_work()) };
        cap.min(member.max_in_flight)
    }

    fn bounded(&self, factor: f64) -> &Bounded {
        let candidate = |number: usize| {
            let member = self.pool.member(number)?;
            Some(Candidate { member: number, weight: member.weight_at_work(), load: member.origin.load() })
        };
        self.bounded.get_or_init(|| Bounded::over(self.side.board.members().filter_map(candidate), factor))
    }
}
