//! May the origins of a pool grow into their shares now? The rules that look at all of them together: J2 and J4.
//!
//! Whoever grows sheds keys to those that have all of theirs, so nobody does while too few of these are left: when less
//! than half of the pool's weight is at full, everybody takes all at once; and what comes back while the pool is short,
//! or was a moment ago, is needed whole. Newcomers stand outside: the pool did without them before.

use std::ops::DerefMut;
use std::ops::Not;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::hold::Held;
use super::overload::Watch;
use super::tally::Window;
use super::{Brake, Policy, Target};
use crate::age::Age;

/// How long what is compared looks back: at a newcomer and the others, at the pool, at the pool before a change.
const RECENT: Duration = Duration::from_secs(30);
const NOW: Duration = Duration::from_secs(10);
const BEFORE: Duration = Duration::from_secs(60);
/// What was before a change says nothing about a growth that begins so long after it.
const OLD: Duration = Duration::from_secs(600);
/// It is looked whether growth is to be held this often.
const LOOK: Duration = Duration::from_secs(1);

/// A pool that was short is still coming back for so long: its origins are probed every two seconds at the latest, and
/// need two good probes when it is not short any more.
const RECOVERY: Duration = Duration::from_secs(10);

/// What is known of a pool beyond its origins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Course<T = Instant> {
    #[serde(default, skip_serializing_if = "Not::not")]
    short: bool,
    /// When it was short last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relieved: Option<T>,
    /// What it did in the minute before something new came to it or began to grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<(T, Box<Window>)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    looked: Option<T>,
    /// Whether one of its origins is overloaded: of the last seconds, and looked at again.
    #[serde(skip)]
    overload: Watch,
}

/// The course of a pool, handed from roster to roster. Only the judge changes it.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Course>);

/// One origin among the others of its pool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    pub(super) place: Place,
    /// Units of weight.
    pub(super) weight: u32,
    /// Since when it grows into its share.
    pub(super) grows: Option<Instant>,
}

/// What came of looking whether an origin's growth is to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look(pub(super) Option<Held>);

/// Where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// It is to be proven first.
    Joining,
    /// It is no part of the pool any more, or the pool did without it until a moment ago.
    Outside,
    /// It has all of its share.
    Full,
    /// It was out and grows again.
    Growing,
    /// It is out.
    Out,
}

/// How origins that grow go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// As time passes.
    Steady,
    /// They take all of their share from now on.
    AtOnce,
}

impl<T> Default for Course<T> {
    fn default() -> Self {
        Self { short: false, relieved: None, before: None, looked: None, overload: Watch::default() }
    }
}

impl<T> Course<T> {
    fn retimed<U>(self, time: &impl Fn(T) -> U) -> Course<U> {
        Course {
            short: self.short,
            relieved: self.relieved.map(time),
            before: self.before.map(|(at, window)| (time(at), window)),
            looked: self.looked.map(time),
            overload: self.overload,
        }
    }
}

impl Memory {
    /// Was the pool short of origins when it was judged last?
    pub fn is_short(&self) -> bool {
        self.0.lock().short
    }

    /// For the judge.
    pub(super) fn lock(&self) -> impl DerefMut<Target = Course> + '_ {
        self.0.lock()
    }

    /// What is known, as seen `now`.
    pub fn export(&self, now: Instant) -> Course<Age> {
        self.0.lock().clone().retimed(&|at| Age::of(at, now))
    }

    /// This is known.
    pub fn import(&self, course: &Course<Age>, now: Instant) {
        *self.0.lock() = course.clone().retimed(&|age: Age| age.at(now));
    }
}

impl Course {
    /// Is the pool short of origins?
    pub fn is_short(&self) -> bool {
        self.short
    }

    /// Has an overloaded origin of the pool shed load, if it is time to look.
    pub(super) fn relieve(&mut self, pool: &[Target], policy: &Policy, now: Instant) {
        self.overload.look(pool, policy, now);
    }

    /// The pool was judged.
    pub(super) fn note(&mut self, short: bool, now: Instant) {
        if self.short && !short {
            self.relieved = Some(now);
        }
        self.short = short;
    }

    /// Looks at a pool whose origins stand so, if it is time: which growth is to be held?
    pub(super) fn look(
        &mut self,
        pool: &[Target],
        stand: &[Standing],
        policy: &Policy,
        brake: &Brake,
        now: Instant,
    ) -> Vec<Look> {
        let grows = stand.iter().any(|one| one.grows.is_some());
        if !grows && !stand.iter().any(|one| one.place == Place::Joining) {
            (self.before, self.looked) = (None, None);
            return Vec::new();
        }
        let is_old = |(at, _): &mut (Instant, Box<Window>)| !grows && now.saturating_duration_since(*at) > OLD;
        self.before.take_if(is_old);
        let (_, before) = self.before.get_or_insert_with(|| (now, Box::new(window(pool, BEFORE, now))));
        let due = self.looked.is_none_or(|last| now.saturating_duration_since(last) >= LOOK);
        let (true, true, Some(slow)) = (due, grows, &policy.slow_start) else { return Vec::new() };
        self.looked = Some(now);
        let by_pool = brake.held().or_else(|| Held::by_pool(&window(pool, NOW, now), before));
        let all = window(pool, RECENT, now);
        let by_itself = |(target, since): (&Target, Option<Instant>)| {
            let back = now.saturating_duration_since(since?).min(RECENT);
            let one = std::slice::from_ref(target);
            let rest = all.without(&window(one, RECENT, now));
            Held::by_itself(&window(one, back, now), &rest, slow)
        };
        pool.iter().zip(stand).map(|(one, stands)| Look(by_itself((one, stands.grows)).or(by_pool))).collect()
    }

    /// Is whoever comes back needed whole?
    pub(super) fn needs_all(&self, now: Instant) -> bool {
        let recovers = |relieved| now.saturating_duration_since(relieved) < RECOVERY;
        self.short || self.relieved.is_some_and(recovers)
    }
}

/// What happened at all of these within `back`.
pub(super) fn window(pool: &[Target], back: Duration, now: Instant) -> Window {
    let mut window = Window::default();
    pool.iter().for_each(|target| target.live.tally().add_to(&mut window, back, now));
    window
}

impl Pace {
    /// For a pool whose origins, with their weights, stand so.
    pub(super) fn of(pool: &[Standing]) -> Self {
        let weight = |wanted: fn(Place) -> bool| -> u64 {
            pool.iter().filter(|one| wanted(one.place)).map(|one| u64::from(one.weight)).sum()
        };
        let (all, full) =
            (weight(|place| !matches!(place, Place::Joining | Place::Outside)), weight(|place| place == Place::Full));
        if full * 2 < all { Self::AtOnce } else { Self::Steady }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::Place::{Full, Growing, Joining, Out, Outside};
    use super::*;

    #[test]
    fn nobody_grows_while_less_than_half_of_the_weight_is_at_full() {
        let pace = |pool: &[(Place, u32)]| {
            let standing = |(place, weight): &(Place, u32)| Standing { place: *place, weight: *weight, grows: None };
            Pace::of(&pool.iter().map(standing).collect::<Vec<_>>())
        };
        assert_eq!(pace(&[(Full, 1), (Growing, 1)]), Pace::Steady);
        assert_eq!(pace(&[(Full, 1), (Growing, 1), (Out, 1)]), Pace::AtOnce);
        assert_eq!(pace(&[(Full, 2), (Growing, 1), (Out, 1)]), Pace::Steady, "by weight");
        assert_eq!(pace(&[(Full, 1), (Outside, 1), (Joining, 9)]), Pace::Steady, "the pool did without them");
        assert_eq!(pace(&[(Out, 1), (Outside, 1)]), Pace::AtOnce);
    }

    #[test]
    fn what_comes_back_is_needed_whole_while_the_pool_is_short_and_a_moment_longer() {
        let (start, mut course) = (Instant::now(), Course::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!course.needs_all(at(0)));
        course.note(true, at(0));
        assert!(course.needs_all(at(500)));
        course.note(false, at(500));
        course.note(false, at(505));
        assert!(course.needs_all(at(509)) && !course.needs_all(at(510)));
    }
}
