//! Do requests at one origin fail so often that it is due out? `outlier_detection`: failures in a row, or a part of them
//! among enough requests.
//!
//! Soft evidence: the floor of the pool says whether it goes, and while others fail as well it is kept. Once out it comes
//! back after a time that doubles with each repeat; what it did before says nothing then. 503 is no failure: overloaded
//! is not dead. Pure; time is an argument.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::passive::Ended;
use super::policy;

/// Pieces that a window is made of.
const PIECES: u32 = 10;
/// Ejections that far apart have nothing to do with each other.
const MEMORY: Duration = Duration::from_secs(600);

/// What failed requests make of an origin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Outlier<T = Instant> {
    /// The last window, the oldest piece first: no more than it is made of.
    #[serde(skip)]
    pieces: VecDeque<Piece>,
    due: Option<Due<T>>,
    /// It is out until then.
    until: Option<T>,
    /// Ejections, each soon after the one before, and when the last one was over.
    ejections: u32,
    last: Option<T>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    began: Instant,
    all: u32,
    failed: u32,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Due<T> {
    since: T,
    why: Failing,
}

/// Why it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failing {
    /// So many requests in a row failed.
    InARow(u32),
    /// So many percent of the last ones did.
    Ratio(u32),
}

impl Failing {
    /// One word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InARow(_) => "failures",
            Self::Ratio(_) => "error_ratio",
        }
    }
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InARow(count) => write!(f, "{count} requests in a row failed"),
            Self::Ratio(percent) => write!(f, "{percent}% of its requests failed"),
        }
    }
}

impl<T> Default for Outlier<T> {
    fn default() -> Self {
        Self { pieces: VecDeque::new(), due: None, until: None, ejections: 0, last: None }
    }
}

impl<T> Outlier<T> {
    /// Was there nothing?
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_none() && self.last.is_none()
    }

    /// The same with other times.
    pub(super) fn retimed<U>(self, time: &impl Fn(T) -> U) -> Outlier<U> {
        Outlier {
            pieces: self.pieces,
            due: self.due.map(|due| Due { since: time(due.since), why: due.why }),
            until: self.until.map(time),
            ejections: self.ejections,
            last: self.last.map(time),
        }
    }
}

impl Outlier {
    /// Since when it is due out, if it is.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.map(|due| due.since)
    }

    /// Why, and for how many more seconds it is out; none while it is kept.
    pub(super) fn why(&self, now: Instant) -> Option<(Failing, u64)> {
        let left = self.until.map_or(0, |until| until.saturating_duration_since(now).as_secs_f64().ceil() as u64);
        self.due.map(|due| (due.why, left))
    }

    /// Takes the requests that ended since the last time; answers whether what was counted is to be forgotten.
    pub(super) fn weigh(&mut self, ended: Ended, rule: Option<&policy::Outlier>, now: Instant) -> bool {
        let Some(rule) = rule else {
            *self = Self::default();
            return false;
        };
        self.add(ended, rule, now);
        let failing = self.failing(ended.row, rule);
        match (&mut self.due, failing) {
            (None, Some(why)) => self.due = Some(Due { since: now, why }),
            (Some(due), Some(why)) if self.until.is_none() => due.why = why,
            (Some(_), None) if self.until.is_none() => self.due = None,
            (Some(_), _) if self.until.is_some_and(|until| now >= until) => {
                self.clear();
                return true;
            }
            _ => {}
        }
        false
    }

    /// It was put out.
    pub(super) fn ejected(&mut self, rule: &policy::Outlier, now: Instant) {
        let soon = self.last.is_some_and(|last| now.saturating_duration_since(last) <= MEMORY);
        let doublings = if soon { self.ejections } else { 0 };
        let wait = rule.cooldown.saturating_mul(2_u32.saturating_pow(doublings)).min(rule.max_cooldown);
        self.ejections = doublings.saturating_add(1);
        self.until = Some(now + wait);
        self.last = self.until;
    }

    /// It is in service all the same: what it does there counts.
    pub(super) fn kept(&mut self) {
        self.until = None;
    }

    /// It has shown that it answers.
    pub(super) fn clear(&mut self) {
        (self.due, self.until) = (None, None);
        self.pieces.clear();
    }

    fn add(&mut self, ended: Ended, rule: &policy::Outlier, now: Instant) {
        let age = |piece: &Piece| now.saturating_duration_since(piece.began);
        let length = rule.window / PIECES;
        match self.pieces.back_mut().filter(|last| age(last) < length) {
            Some(last) => {
                last.all = last.all.saturating_add(ended.all);
                last.failed = last.failed.saturating_add(ended.failed);
            }
            None => self.pieces.push_back(Piece { began: now, all: ended.all, failed: ended.failed }),
        }
        while self.pieces.front().is_some_and(|first| age(first) >= rule.window) {
            self.pieces.pop_front();
        }
    }

    fn failing(&self, row: u32, rule: &policy::Outlier) -> Option<Failing> {
        if rule.failures.is_some_and(|failures| row >= failures) {
            return Some(Failing::InARow(row));
        }
        let sum = |of: fn(&Piece) -> u32| self.pieces.iter().map(|piece| u64::from(of(piece))).sum::<u64>();
        let (all, failed) = (sum(|piece| piece.all), sum(|piece| piece.failed));
        let ratio = failed as f64 / all.max(1) as f64;
        let enough = all >= u64::from(rule.min_requests);
        let much = enough && rule.error_ratio.is_some_and(|most| ratio >= most);
        much.then_some(Failing::Ratio((ratio * 100.0).round() as u32))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    const RULE: policy::Outlier = policy::Outlier {
        failures: Some(5),
        error_ratio: Some(0.5),
        min_requests: 20,
        window: Duration::from_secs(10),
        cooldown: Duration::from_secs(30),
        max_cooldown: Duration::from_secs(300),
    };

    fn ended(all: u32, failed: u32, row: u32) -> Ended {
        Ended { all, failed, row }
    }

    #[test]
    fn failures_in_a_row_or_a_part_of_enough_requests_make_it_due() {
        let now = Instant::now();
        let why = |these: Ended| {
            let mut outlier = Outlier::<Instant>::default();
            outlier.weigh(these, Some(&RULE), now);
            outlier.why(now).map(|(why, _)| why)
        };
        assert_eq!(why(ended(4, 4, 4)), None);
        assert_eq!(why(ended(5, 5, 5)), Some(Failing::InARow(5)));
        assert_eq!(why(ended(19, 15, 1)), None, "too few");
        assert_eq!(why(ended(20, 9, 1)), None);
        assert_eq!(why(ended(40, 30, 1)), Some(Failing::Ratio(75)));
    }

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let (start, mut outlier) = (Instant::now(), Outlier::<Instant>::default());
        for second in 0..100 {
            let failed = u32::from(second < 8) * 2;
            outlier.weigh(ended(2, failed, 0), Some(&RULE), start + Duration::from_secs(second));
            let due = outlier.due().is_some();
            assert_eq!(due, (9..=12).contains(&second), "at {second} s: {outlier:?}");
        }
        assert!(outlier.pieces.len() <= PIECES as usize);
    }

    #[test]
    fn one_that_is_kept_is_due_as_long_as_it_fails() {
        let (now, mut outlier) = (Instant::now(), Outlier::<Instant>::default());
        outlier.weigh(ended(5, 5, 5), Some(&RULE), now);
        outlier.weigh(ended(9, 9, 14), Some(&RULE), now);
        assert_eq!(outlier.why(now), Some((Failing::InARow(14), 0)));
        outlier.weigh(ended(1, 0, 0), Some(&RULE), now);
        assert_eq!(outlier.due(), None);
    }

    #[test]
    fn one_that_is_out_comes_back_after_a_time_that_doubles() {
        let (mut now, mut outlier, mut waits) = (Instant::now(), Outlier::default(), Vec::new());
        for _ in 0..6 {
            outlier.weigh(ended(5, 5, 5), Some(&RULE), now);
            outlier.ejected(&RULE, now);
            assert!(!outlier.weigh(ended(3, 0, 0), Some(&RULE), now), "late answers change nothing");
            let from = now;
            while !outlier.weigh(Ended::default(), Some(&RULE), now) {
                now += Duration::from_secs(1);
            }
            waits.push((now - from).as_secs());
            assert!(outlier.due().is_none() && outlier.pieces.is_empty());
        }
        assert_eq!(waits, [30, 60, 120, 240, 300, 300]);
        now += MEMORY * 2;
        outlier.ejected(&RULE, now);
        assert_eq!(outlier.until, Some(now + RULE.cooldown));
    }

    #[test]
    fn a_rule_that_is_switched_off_holds_nothing_against_anybody() {
        let (now, mut outlier) = (Instant::now(), Outlier::<Instant>::default());
        outlier.weigh(ended(5, 5, 5), Some(&RULE), now);
        outlier.ejected(&RULE, now);
        outlier.weigh(Ended::default(), None, now);
        assert!(outlier.due().is_none() && outlier.until.is_none());
    }
}
