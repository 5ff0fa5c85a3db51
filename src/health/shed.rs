//! What did an origin give up of its share because it was overloaded? Rule H7, as far as it concerns one origin.
//!
//! Pure: whoever looks at the whole pool says when it sheds, and how its last window was. Always holds: it never has less
//! than the floor, and gets back in a straight line what it gave up, except while it does badly.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::policy::Overload;

/// It may have all again after so many times the time to recover.
const RETURN: u32 = 4;

/// The part of its share an overloaded origin keeps to.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Shed<T = Instant> {
    /// `None`: it gave nothing up.
    given: Option<Given<T>>,
    /// It gave something up, and that was not told yet.
    #[serde(skip)]
    untold: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Given<T> {
    part: f64,
    /// What it was left with by the last step.
    first: f64,
    stepped: T,
    /// So much of what it answered said that it has too much to do.
    ratio: f64,
}

impl<T> Default for Shed<T> {
    fn default() -> Self {
        Self { given: None, untold: false }
    }
}

impl<T> Shed<T> {
    /// Has it all of its share?
    pub(super) fn is_empty(&self) -> bool {
        self.given.is_none()
    }

    /// The same with other times.
    pub(super) fn retimed<U>(self, time: &impl Fn(T) -> U) -> Shed<U> {
        let given = self.given.map(|given| {
            let (part, first) = (given.part.clamp(0.0, 1.0), given.first.clamp(0.0, 1.0));
            Given { part, first, stepped: time(given.stepped), ratio: given.ratio.clamp(0.0, 1.0) }
        });
        Shed { given, untold: self.untold }
    }
}

impl Shed {
    /// The part of its share it may take.
    pub(super) fn part(&self) -> f64 {
        self.given.map_or(1.0, |given| given.part)
    }

    /// For people, while it gave something up: the part it takes, and how it did before it did so, in percent.
    pub(super) fn percent(&self) -> Option<(u32, u32)> {
        let percent = |part: f64| (part * 100.0).round() as u32;
        self.given.map(|given| (percent(given.part).min(99), percent(given.ratio)))
    }

    /// Has it anything left to give?
    pub(super) fn can_step(&self, rule: &Overload) -> bool {
        self.part() > rule.floor
    }

    /// It gives something up; so much of what it answered said that it has too much to do.
    pub(super) fn step(&mut self, ratio: f64, rule: &Overload, now: Instant) {
        let part = (self.part() * (1.0 - ratio.min(rule.step))).max(rule.floor).min(self.part());
        if part < 1.0 {
            self.given = Some(Given { part, first: part, stepped: now, ratio });
            self.untold = true;
        }
    }

    /// So much time passed in which it was not stepped; `calm`: it did well.
    pub(super) fn pass(&mut self, time: Duration, calm: bool, rule: &Overload, now: Instant) {
        let Some(given) = &mut self.given else { return };
        if !calm || now.saturating_duration_since(given.stepped) < rule.recover {
            return;
        }
        let way = time.as_secs_f64() / rule.recover.saturating_mul(RETURN).as_secs_f64();
        given.part += (1.0 - given.first) * way;
        if given.part >= 1.0 {
            self.given = None;
        }
    }

    /// It takes back what it may shed at once: not it is overloaded, but all are.
    pub(super) fn step_back(&mut self, rule: &Overload) {
        let Some(given) = &mut self.given else { return };
        given.part += rule.step;
        if given.part >= 1.0 {
            self.given = None;
        }
    }

    /// It has all of its share again.
    pub(super) fn forget(&mut self) {
        self.given = None;
    }

    /// Did it give something up since this was last asked?
    pub(super) fn tell(&mut self) -> bool {
        std::mem::take(&mut self.untold)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    const RULE: Overload = Overload { step: 0.5, floor: 0.1, recover: Duration::from_secs(30), slow: None };
    const WINDOW: Duration = Duration::from_secs(5);

    #[test]
    fn a_step_is_as_great_as_what_was_too_much_and_bounded() {
        let (now, mut shed) = (Instant::now(), Shed::<Instant>::default());
        assert_eq!((shed.part(), shed.percent(), shed.tell()), (1.0, None, false));
        shed.step(0.2, &RULE, now);
        assert!((shed.part() - 0.8).abs() < 1e-9 && shed.tell() && !shed.tell());
        shed.step(0.9, &RULE, now);
        assert!((shed.part() - 0.4).abs() < 1e-9);
        assert_eq!(shed.percent(), Some((40, 90)));
        (0..9).for_each(|_| shed.step(1.0, &RULE, now));
        assert_eq!((shed.part(), shed.can_step(&RULE)), (0.1, false));
        shed.step(1.0, &Overload { floor: 0.5, ..RULE }, now);
        assert_eq!(shed.part(), 0.1, "a floor that was raised takes nothing away");
    }

    #[test]
    fn what_was_given_up_comes_back_in_a_straight_line_once_it_was_kept_to() {
        let (start, mut shed) = (Instant::now(), Shed::<Instant>::default());
        shed.step(0.5, &RULE, start);
        let mut parts = Vec::new();
        for window in 1..=31 {
            shed.pass(WINDOW, true, &RULE, start + WINDOW * window);
            parts.push((shed.part() * 1000.0).round() / 1000.0);
        }
        assert_eq!(parts[..6], [0.5, 0.5, 0.5, 0.5, 0.5, 0.521]);
        assert_eq!((parts[16], parts[28], parts[29], shed.percent()), (0.75, 1.0, 1.0, None));
    }

    #[test]
    fn a_pool_that_is_overloaded_takes_back_as_fast_as_one_sheds() {
        let (now, mut shed) = (Instant::now(), Shed::<Instant>::default());
        (0..2).for_each(|_| shed.step(1.0, &RULE, now));
        shed.step_back(&RULE);
        assert_eq!(shed.part(), 0.75);
        shed.step_back(&RULE);
        assert_eq!(shed.percent(), None);
    }

    #[test]
    fn nothing_comes_back_while_it_does_badly() {
        let (start, mut shed) = (Instant::now(), Shed::<Instant>::default());
        shed.step(0.5, &RULE, start);
        (1..50).for_each(|window| shed.pass(WINDOW, false, &RULE, start + WINDOW * window));
        assert_eq!(shed.part(), 0.5);
        shed.pass(WINDOW, true, &RULE, start + WINDOW * 50);
        assert!(shed.part() > 0.5);
        shed.step(0.3, &RULE, start + WINDOW * 51);
        shed.pass(WINDOW, true, &RULE, start + WINDOW * 52);
        assert!(shed.part() < 0.4, "it keeps to each step for as long");
    }
}
