//! Which part of its share does each member take now? Rule R2 over a compiled pool: for a pick, for `/status`, and for
//! weights that were raised, where the part is one of the points beyond the weight there was before.

use std::time::Instant;

use crate::balance::{Factor, Standing, effective_shares};
use crate::health::Verdict;

use super::{Member, Pool, Side};

impl Member {
    /// The weight at work: what it has, by the part it may take.
    pub fn effective_weight(&self) -> f64 {
        let (health, weight) = (self.origin.health(), f64::from(self.weight));
        let base = self.former.map_or(weight, f64::from);
        base * health.factor().part() + (weight - base) * health.factor_beyond().part()
    }

    /// The same in thousandths, for algorithms that count.
    pub(super) fn weight_at_work(&self) -> u64 {
        (self.effective_weight() * 1000.0) as u64
    }

    /// The part of the keys before a point of its own that it takes now.
    pub(super) fn part_at(&self, point: u32) -> Factor {
        match &self.base {
            Some(base) if !base.holds(point) => self.origin.health().factor_beyond(),
            _ => self.origin.health().factor(),
        }
    }

    /// Its first point at or after `hash` whose part holds the key.
    pub(super) fn taking_point(&self, hash: u32, own: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let health = self.origin.health();
        match &self.base {
            Some(base) if !health.factor_beyond().takes(hash) => {
                health.factor().takes(hash).then(|| base.point_after(hash)).flatten()
            }
            Some(_) => own(hash),
            None => health.factor().takes(hash).then(|| own(hash)).flatten(),
        }
    }

    /// The part of `weight`, as it is now, that is not to be grown into; `None`: all of it is there.
    pub(super) fn former_weight(&self, weight: u32) -> Option<u32> {
        let base = self.former.filter(|_| self.origin.health().is_raised()).unwrap_or(self.weight);
        (weight > base).then_some(base)
    }
}

impl Pool {
    /// The part of the requests that each member takes now, by its number: of the circle, or of the weights at work.
    pub fn effective_shares(&self) -> Vec<f64> {
        let serves = |side: &Side<'_>| self.at_work(*side).any(|member| !self.takes_nothing(member));
        match self.sides().find(serves) {
            Some(side) if !self.hashes => self
                .shares_by_weight(|member| if member.backup == side.backups { member.effective_weight() } else { 0.0 }),
            Some(side) => match self.handover.as_ref().filter(|_| !side.backups) {
                Some(handover) => handover.shares(self),
                None => self.shares_on(side, |member, point| member.part_at(point)),
            },
            None if !self.walks_in_panic => vec![0.0; self.members.len()],
            None if self.hashes => self.shares_in_panic(),
            None => self.shares_by_weight(|member| match member.is_drained() {
                true => member.effective_weight(),
                false => f64::from(member.placed_weight(false)),
            }),
        }
    }

    fn shares_by_weight(&self, weight: impl Fn(&Member) -> f64) -> Vec<f64> {
        let total: f64 = self.members.iter().map(&weight).sum();
        self.members.iter().map(|member| if total > 0.0 { weight(member) / total } else { 0.0 }).collect()
    }

    fn shares_on(&self, side: Side<'_>, part: impl Fn(&Member, u32) -> Factor) -> Vec<f64> {
        let part = |number: usize, point| self.member(number).map_or(Factor::NONE, |member| part(member, point));
        let mut shares = effective_shares(side.ring, part, |member| self.stands(side, member));
        shares.resize(self.members.len(), 0.0);
        shares
    }

    /// As the ring has it, over those that are asked first.
    fn shares_in_panic(&self) -> Vec<f64> {
        let is_joining = |member: &Member| member.origin.verdict() == Verdict::Joining;
        let known = |member: &&Member| !member.backup && member.address.is_known() && !member.is_drained();
        let joining = self.members.iter().filter(known).all(is_joining);
        let asked = |member: &&Member| member.address.is_known() && is_joining(member) == joining;
        let part = |number: usize, _| match self.member(number).filter(asked) {
            Some(member) if member.is_drained() => member.origin.health().factor(),
            Some(_) => Factor::FULL,
            None => Factor::NONE,
        };
        let stands =
            |member| Standing { usable: false, came: self.member(member).map_or(0, |one| one.came), new: false };
        let mut shares = effective_shares(&self.ring, part, stands);
        shares.resize(self.members.len(), 0.0);
        shares
    }

    /// Those of a side that may have any request: the usable ones, and those that give their share up step by step.
    pub(super) fn at_work<'p>(&'p self, side: Side<'p>) -> impl Iterator<Item = usize> + 'p {
        let going = side.board.partial_members().filter(move |member| !side.board.holds(*member));
        side.board.members().chain(going)
    }

    fn takes_nothing(&self, number: usize) -> bool {
        self.member(number).is_none_or(|member| member.origin.health().factor().is_none())
    }

    fn stands(&self, side: Side<'_>, number: usize) -> Standing {
        let (came, new) = self.member(number).map_or((0, false), |one| (one.came, one.origin.health().is_new()));
        Standing { usable: side.board.holds(number), came, new: new && came > 0 }
    }

    /// To be called right before the pool comes into force: who serves is not retired, and raised weights are grown into
    /// from now on. Who was parked is back as it was if somebody went `back`, else as one that was out for that time.
    pub fn take_over(&self, back: bool, now: Instant) {
        let slow = self.roster.policy.slow_start.as_ref();
        // While the pool is short whoever comes back is needed whole.
        let returns = slow.filter(|_| !self.roster.is_short());
        for member in &self.members {
            let health = member.origin.health();
            if member.is_placed() {
                member.origin.revive();
            }
            match (member.returns, back) {
                (true, true) => health.unpark(),
                (true, false) if member.is_placed() => health.come_back(returns.filter(|_| !member.backup), now),
                (true, false) => health.begin_drained(now),
                (false, _) => {}
            }
            if member.moves {
                health.moved();
            }
            slow.filter(|_| member.raised).into_iter().for_each(|slow| health.raise(slow, now));
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use fastrand::Rng;

    use super::*;
    use crate::config;
    use crate::config::units::Auto;
    use crate::health::Course;
    use crate::pool::tests::{compiled, section};
    use crate::pool::{Ask, Pick};

    fn weighted(weights: &[u16]) -> config::Pool {
        let mut section = section(&["a", "b", "c"][..weights.len()]);
        section.origins.iter_mut().zip(weights).for_each(|(origin, weight)| origin.weight = *weight);
        section
    }

    fn hashes() -> impl Iterator<Item = u32> {
        (0..2000_u32).map(|n| n.wrapping_mul(0x9e37_79b9))
    }

    fn taker(pool: &Pool, hash: u32) -> usize {
        let pick: Option<Pick> =
            pool.pick(&Ask { hash: Some(hash), tried: &[], now: Instant::now() }, &mut Rng::with_seed(0));
        pick.unwrap().member
    }

    /// `before`, changed to these weights and brought into force `now`.
    fn raised(before: &Pool, weights: &[u16], now: Instant) -> Pool {
        let pool = compiled(&weighted(weights), Some(before));
        pool.take_over(false, now);
        pool
    }

    #[test]
    fn r2_raised_weight_is_grown_into_beyond_the_old_one_alone() {
        let (start, mut course) = (Instant::now(), Course::default());
        let before = compiled(&weighted(&[1, 1, 1]), None);
        let pool = raised(&before, &[1, 4, 1], start);
        let mut owners: Vec<_> = hashes().map(|hash| taker(&before, hash)).collect();
        for seconds in [0, 15, 30, 45, 60] {
            pool.roster().judge(&mut course, start + Duration::from_secs(seconds));
            let part = 0.1 + 0.9 * seconds as f64 / 60.0;
            let member = &pool.members()[1];
            assert!((member.effective_weight() - (1.0 + 3.0 * part)).abs() < 1e-6, "{}", member.effective_weight());
            for (hash, owner) in hashes().zip(&mut owners) {
                let now = taker(&pool, hash);
                assert!(now == *owner || now == 1, "a key moved elsewhere than to the raised one");
                *owner = now;
            }
        }
        assert!(hashes().all(|hash| Some(taker(&pool, hash)) == pool.ring().owner(hash)));
        assert_eq!(pool.members()[1].origin().verdict(), Verdict::Up);
    }

    #[test]
    fn r2_a_key_moves_once_at_most_however_late_each_newcomer_is_proven() {
        let (start, mut course) = (Instant::now(), Course::default());
        let before = compiled(&section(&["a", "b", "c"]), None);
        let pool = compiled(&section(&["a", "b", "c", "d", "e", "f", "g"]), Some(&before));
        let proven = [(3, 0), (4, 7), (5, 35), (6, 130)];
        let first: Vec<usize> = hashes().map(|hash| taker(&before, hash)).collect();
        let mut owners = first.clone();
        for seconds in (0..=200).step_by(5) {
            let now = start + Duration::from_secs(seconds);
            for (member, at) in proven.iter().filter(|(_, at)| *at <= seconds) {
                pool.members()[*member].origin().health().connected(start + Duration::from_secs(*at));
            }
            pool.roster().judge(&mut course, now);
            let mut found = [0.0; 7];
            for ((hash, owner), first) in hashes().zip(&mut owners).zip(&first) {
                let now = taker(&pool, hash);
                assert!(now == *owner || *owner == *first && Some(now) == pool.ring().owner(hash), "at {seconds} s");
                *owner = now;
                found[now] += 1.0 / 2000.0;
            }
            let shares = pool.effective_shares();
            assert!(
                shares.iter().zip(found).all(|(share, found)| (share - found).abs() < 0.03),
                "{shares:?} {found:?}"
            );
        }
        assert!(hashes().zip(owners).all(|(hash, owner)| Some(owner) == pool.ring().owner(hash)));
    }

    #[test]
    fn shares_at_work_are_what_keys_find() {
        let start = Instant::now();
        let before = compiled(&weighted(&[2, 1, 1]), None);
        let pool = raised(&before, &[2, 9, 1], start);
        pool.roster().judge(&mut Course::default(), start + Duration::from_secs(20));
        let mut found = [0.0; 3];
        hashes().for_each(|hash| found[taker(&pool, hash)] += 1.0 / 2000.0);
        let shares = pool.effective_shares();
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(shares.iter().zip(found).all(|(share, found)| (share - found).abs() < 0.03), "{shares:?} {found:?}");
    }

    #[test]
    fn growth_of_a_weight_goes_on_over_further_reloads() {
        let (start, mut course) = (Instant::now(), Course::default());
        let before = compiled(&weighted(&[1, 1]), None);
        let first = raised(&before, &[3, 1], start);
        first.roster().judge(&mut course, start + Duration::from_secs(30));
        let again = raised(&first, &[3, 1], start + Duration::from_secs(30));
        again.roster().judge(&mut course, start + Duration::from_secs(30));
        assert!((again.members()[0].effective_weight() - 2.1).abs() < 1e-6);
        assert!(hashes().all(|hash| taker(&first, hash) == taker(&again, hash)));
        again.roster().judge(&mut course, start + Duration::from_secs(60));
        let later = raised(&again, &[3, 1], start + Duration::from_secs(61));
        assert!(later.members()[0].former.is_none(), "all of it is there");
        let lowered = raised(&again, &[1, 1], start + Duration::from_secs(62));
        assert_eq!(lowered.members()[0].effective_weight(), 1.0);
    }

    #[test]
    fn without_slow_start_a_raised_weight_counts_at_once() {
        let mut section = weighted(&[4, 1]);
        section.slow_start = config::units::Off::Off;
        let before = compiled(&weighted(&[1, 1]), None);
        let pool = compiled(&section, Some(&before));
        pool.take_over(false, Instant::now());
        assert_eq!(pool.members()[0].effective_weight(), 4.0);
        assert!(pool.board.is_even());
    }

    #[test]
    fn where_nobody_is_usable_the_shares_are_those_of_whoever_is_tried() {
        let pool = compiled(&weighted(&[1, 1]), None);
        pool.members().iter().for_each(|member| member.origin().health().publish(Verdict::Down));
        assert_eq!(pool.effective_shares(), pool.ring().shares());
        pool.members()[0].origin().health().publish(Verdict::Joining);
        assert_eq!(pool.effective_shares(), [0.0, 1.0]);
    }

    #[test]
    fn p4_growth_goes_on_over_a_reload_that_changes_all_else() {
        let (start, mut course) = (Instant::now(), Course::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        let old = compiled(&section(&["a", "b"]), None);
        let grown = compiled(&section(&["a", "b", "c"]), Some(&old));
        let health = Arc::clone(grown.members()[2].origin().health());
        health.connected(start);
        grown.roster().judge(&mut course, start);
        let part = || (health.factor().part() * 1000.0).round();
        assert_eq!((part(), health.verdict()), (100.0, Verdict::Ramping));
        grown.roster().judge(&mut course, at(30));
        let mut changed = section(&["c", "b", "a", "d"]);
        (changed.balance.key, changed.connections.keepalive) = ("{host}{path}".to_owned(), Auto::Fixed(7));
        let next = compiled(&changed, Some(&grown));
        next.take_over(false, at(30));
        next.roster().judge(&mut course, at(30));
        assert_eq!((part(), next.members()[0].origin().verdict()), (550.0, Verdict::Ramping));
        next.roster().judge(&mut course, at(45));
        assert_eq!(part(), 775.0);
    }

    #[test]
    fn r2_other_algorithms_share_by_weight_and_part_and_a_drained_one_gets_less_and_less() {
        let (start, mut course) = (Instant::now(), Course::default());
        let mut section = section(&["a", "b", "c"]);
        section.balance.algorithm = config::pool::Algorithm::RoundRobin;
        let old = compiled(&section, None);
        section.origins[1].weight = 2;
        (section.origins[2].state, section.origins[2].drain_over) =
            (config::pool::State::Drain, config::units::Off::On(config::units::Duration(Duration::from_secs(100))));
        section.slow_start = config::units::Off::Off;
        let pool = compiled(&section, Some(&old));
        pool.roster().judge(&mut course, start);
        pool.roster().judge(&mut course, start + Duration::from_secs(50));
        let shares = pool.effective_shares();
        assert!((shares[2] - 0.5 / 3.5).abs() < 1e-3, "{shares:?}");
        let ask = Ask { hash: None, tried: &[], now: start };
        let mut counts = [0; 3];
        (0..700).for_each(|_| counts[pool.pick(&ask, &mut Rng::with_seed(0)).unwrap().member] += 1);
        assert_eq!(counts, [200, 400, 100]);
        pool.roster().judge(&mut course, start + Duration::from_secs(101));
        (0..300).for_each(|_| counts[pool.pick(&ask, &mut Rng::with_seed(0)).unwrap().member] += 1);
        assert_eq!(counts[2], 100);
    }
}
