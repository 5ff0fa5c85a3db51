//! How much of its share may one origin take? What growth, a raised weight, overload, a drain and a replacement
//! make of it together.
//!
//! The verdict that evidence leads to is an argument here; while it is out an origin takes nothing, and this says how it
//! comes back.

use std::ops::Not;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::course::{Look, Pace, Place};
use super::drain::Drain;
use super::overload::{Sight, Strain};
use super::policy::{Overload, SlowStart};
use super::ramp::Ramp;
use super::shed::Shed;
use super::{Held, Policy, Role, Target, Verdict, Why};
use crate::balance::Factor;

/// The share of one origin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Share<T = Instant> {
    /// It took no request yet, in a pool that did without it.
    #[serde(default, skip_serializing_if = "Not::not")]
    joins: bool,
    #[serde(default, skip_serializing_if = "Ramp::is_done")]
    ramp: Ramp<T>,
    /// The same for the points of a raised weight, beyond those of the old one.
    #[serde(default, skip_serializing_if = "Ramp::is_done")]
    raise: Ramp<T>,
    /// Why neither goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<Held>,
    /// What it gave up for being overloaded.
    #[serde(default, skip_serializing_if = "Shed::is_empty")]
    shed: Shed<T>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drain: Option<Drain<T>>,
    /// Since when it is parked: nothing of it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parked: Option<T>,
    /// It serves until others have its keys.
    #[serde(default, skip_serializing_if = "Not::not")]
    leaves: bool,
}

impl<T> Share<T> {
    /// The same with other times.
    pub(super) fn retimed<U>(self, time: &impl Fn(T) -> U) -> Share<U> {
        Share {
            joins: self.joins,
            ramp: self.ramp.retimed(time),
            raise: self.raise.retimed(time),
            held: self.held,
            shed: self.shed.retimed(time),
            drain: self.drain.map(|drain| drain.retimed(time)),
            parked: self.parked.map(time),
            leaves: self.leaves,
        }
    }
}

impl Share {
    /// All of it; if it `joins`, once it grew into it.
    pub(super) fn new(joins: bool) -> Self {
        Self {
            joins,
            ramp: Ramp::default(),
            raise: Ramp::default(),
            held: None,
            shed: Shed::default(),
            drain: None,
            parked: None,
            leaves: false,
        }
    }

    /// What is to be shown of an origin that serves, or may soon, in place of a plain `ruled`; `None`: that.
    pub(super) fn shown(&self, ruled: Verdict) -> Option<(Verdict, Why)> {
        match self.drain {
            _ if ruled == Verdict::Down => None,
            Some(drain) if drain.is_over() => Some((Verdict::Draining, Why::Drained)),
            Some(drain) => Some((Verdict::Draining, Why::Draining { percent: (drain.part() * 100.0).ceil() as u32 })),
            None if self.leaves && ruled.usable() => Some((Verdict::Leaving, Why::Succeeded)),
            None if ruled == Verdict::Up && self.shed.percent().is_some() => self.overloaded(),
            None if ruled == Verdict::Up && self.grows() => Some((Verdict::Ramping, self.growth())),
            None => None,
        }
    }

    fn overloaded(&self) -> Option<(Verdict, Why)> {
        let (percent, busy) = self.shed.percent()?;
        Some((Verdict::Overloaded, Why::Overloaded { percent, busy }))
    }

    fn growth(&self) -> Why {
        let ramp = if self.ramp.since().is_some() { &self.ramp } else { &self.raise };
        let percent = (ramp.part() * 100.0) as u32;
        match self.held {
            Some(held) => Why::Held { held, percent },
            None => Why::Growing { percent, left: ramp.left().as_secs() },
        }
    }

    /// The part that one in service may take, and that of the points beyond the weight it had before it was raised.
    pub(super) fn factors(&self) -> (Factor, Factor) {
        let drain = self.drain.map_or(1.0, |drain| drain.part());
        let all = Factor::new(self.ramp.part() * self.shed.part() * drain);
        (all, all.times(Factor::new(self.raise.part())))
    }

    /// What it gave up for being overloaded.
    pub(super) fn shed(&mut self) -> &mut Shed {
        &mut self.shed
    }

    /// How it stands among the others where one may have to shed load; `ruled`: what is held of it.
    pub(super) fn sight(&self, strain: Strain, ruled: Verdict, target: &Target, rule: &Overload) -> Sight {
        let serves = target.role == Role::Serves && !target.backup && self.drain.is_none() && self.parked.is_none();
        let weight = f64::from(target.weight);
        match ruled {
            _ if !serves || self.joins || ruled == Verdict::Joining => Sight::default(),
            Verdict::Down => Sight { strain, weight, hidden: weight, can_step: false },
            _ => {
                // The pool did without a newcomer: what that does not have yet is hidden from nobody.
                let own = if self.ramp.is_newcomer() { weight * self.ramp.part() } else { weight };
                let takes = weight * self.ramp.part() * self.shed.part();
                Sight { strain, weight: own, hidden: own - takes, can_step: self.shed.can_step(rule) }
            }
        }
    }

    /// Is it new to its pool, and has not all of its share yet?
    pub(super) fn is_new(&self) -> bool {
        self.joins || self.ramp.is_newcomer()
    }

    /// Does it grow into a weight that was raised?
    pub(super) fn is_raised(&self) -> bool {
        self.raise.since().is_some()
    }

    /// Its weight was raised: it grows into what is beyond the old one.
    pub(super) fn raise(&mut self, slow: &SlowStart, now: Instant) {
        self.raise.join(slow, now);
    }

    /// It is drained as long as it is known.
    pub(super) fn begin_drained(&mut self, now: Instant) {
        (self.drain, self.parked) = (Some(Drain::done(now)), None);
    }

    /// It belongs to no pool from now on.
    pub(super) fn park(&mut self, now: Instant) {
        self.parked.get_or_insert(now);
    }

    /// It is back as it was.
    pub(super) fn unpark(&mut self) {
        self.parked = None;
    }

    /// It is back as one that was out for as long as it was parked; `slow`: how it grows.
    pub(super) fn come_back(&mut self, slow: Option<&SlowStart>, now: Instant) {
        if let Some(since) = self.parked.take() {
            self.ramp.resume(since, 0.0, slow, now);
        }
    }

    /// It is drained from now on, or goes on being drained, or serves again: as one that was out for that time, but
    /// with no less than it has.
    pub(super) fn take_role(&mut self, role: Role, slow: Option<&SlowStart>, now: Instant) {
        self.leaves = role == Role::Leaves;
        if self.parked.is_some() {
            return;
        }
        match (role, self.drain) {
            (Role::Drains(over), _) => {
                let new = if self.joins { Drain::done(now) } else { Drain::begin(now) };
                self.drain.get_or_insert(new).go_on(over, now);
            }
            (_, Some(drain)) => {
                self.drain = None;
                self.ramp.resume(drain.since(), drain.part(), slow, now);
            }
            (_, None) => {}
        }
    }

    /// It went out of service, or came into it; `slow`: how it grows, unless it is needed whole.
    pub(super) fn ruled(&mut self, was_in: bool, is_in: bool, slow: Option<&SlowStart>, needed: bool, now: Instant) {
        match (was_in, is_in) {
            (false, true) if std::mem::take(&mut self.joins) => {
                slow.into_iter().for_each(|slow| self.ramp.join(slow, now));
            }
            (false, true) => self.ramp.come_back(slow.filter(|_| !needed), now),
            (true, false) => self.ramp.leave(now),
            _ => {}
        }
    }

    /// Where it stands among the others of its pool.
    pub(super) fn place(&self, ruled: Verdict, proven: bool) -> Place {
        match ruled {
            _ if self.drain.is_some() || self.leaves => Place::Outside,
            Verdict::Joining => Place::Joining,
            Verdict::Down if self.joins || !proven => Place::Joining,
            Verdict::Down => Place::Out,
            _ if self.ramp.is_newcomer() => Place::Outside,
            _ if self.ramp.since().is_some() => Place::Growing,
            _ => Place::Full,
        }
    }

    /// Time passed. `looked`: what came of looking whether growth is to be held, where that was done.
    pub(super) fn go_on(&mut self, pace: Pace, looked: Option<Look>, policy: &Policy, now: Instant) {
        let slow = policy.slow_start.as_ref();
        if self.parked.is_some() {
            return [&mut self.ramp, &mut self.raise].into_iter().for_each(|ramp| ramp.rest(now));
        }
        if policy.overload.is_none() {
            self.shed.forget();
        }
        if self.drain.is_none() {
            let held = self.held;
            [&mut self.ramp, &mut self.raise].into_iter().for_each(|ramp| match pace {
                Pace::AtOnce => ramp.finish(),
                Pace::Steady => ramp.go_on(slow, held, now),
            });
        }
        if let Some(Look(held)) = looked {
            let held_out = [&self.ramp, &self.raise].iter().any(|ramp| ramp.was_held_out());
            self.held = held.filter(|held| !(held.wears_off() && held_out));
        }
        self.held = self.held.filter(|_| self.grows());
    }

    /// Since when it grows, into whatever; `None`: it does not.
    pub(super) fn grows_since(&self) -> Option<Instant> {
        self.ramp.since().max(self.raise.since()).filter(|_| self.drain.is_none())
    }

    /// What is to be told of although the verdict stays: does its growth stand still, is its drain over?
    pub(super) fn milestones(&self) -> (bool, bool) {
        (self.held.is_some(), self.drain.is_some_and(|drain| drain.is_over()))
    }

    /// Does time alone change it?
    pub(super) fn is_restless(&self) -> bool {
        self.grows() || self.drain.is_some_and(|drain| !drain.is_over())
    }

    fn grows(&self) -> bool {
        self.grows_since().is_some()
    }
}
