//! What holds for the health of a pool's origins? The `health` and `slow_start` sections in the numbers the judge takes.

use std::time::Duration;

use crate::config::units::Off;
use crate::config::{Pool, pool};

/// The `health` and `slow_start` sections of a pool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// How origins are probed; `None`: not at all, and everything is up.
    pub probing: Option<Probing>,
    /// The part of a pool that soft evidence may take out.
    pub spare: f64,
    /// `panic: fail`: soft evidence may take out the last one.
    pub fail: bool,
    /// How origins come into their share; `None`: at once.
    pub slow_start: Option<SlowStart>,
    /// When an overloaded origin sheds load; `None`: never.
    pub overload: Option<Overload>,
    /// When failed requests make an origin due out; `None`: never.
    pub outlier: Option<Outlier>,
}

/// When an overloaded origin sheds load: rule H7.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overload {
    /// The greatest part of its share that it sheds at once.
    pub step: f64,
    /// The part of its share that it keeps.
    pub floor: f64,
    /// How long it keeps to that, before it takes more again.
    pub recover: Duration,
    /// Answers that take longer than this multiple of the pool's median count as well.
    pub slow: Option<f64>,
}

/// When failed requests make an origin due out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlier {
    /// So many in a row.
    pub failures: Option<u32>,
    /// Or more than this part of them,
    pub error_ratio: Option<f64>,
    /// of so many at least,
    pub min_requests: u32,
    /// within this time.
    pub window: Duration,
    /// How long it is out for the first time; twice as long each further time,
    pub cooldown: Duration,
    /// at most this.
    pub max_cooldown: Duration,
}

/// How origins come into their share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlowStart {
    /// From the first part to all of it.
    pub window: Duration,
    /// The part a newcomer begins with.
    pub from: f64,
    /// Growth pauses while more of its answers are errors than this.
    pub error_ratio: Option<f64>,
    /// Growth pauses while its median time is above this multiple of the rest of the pool's.
    pub latency: Option<f64>,
}

/// How often probes run, and how many of them say something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probing {
    /// Time between two probes of an origin.
    pub interval: Duration,
    /// Time for one probe in all.
    pub timeout: Duration,
    /// Good results in a row that bring an origin in.
    pub rise: u32,
    /// Bad results in a row that make it due out.
    pub fall: u32,
    /// Probes ask over HTTP. A TCP connect says nothing about a hung process: the kernel answers for it.
    pub http: bool,
}

impl Policy {
    /// The sections as written.
    pub fn compile(pool: &Pool) -> Self {
        let written = &pool.health;
        let probing = match &written.probe {
            Off::Off => None,
            Off::On(probe) => Some(Probing {
                interval: probe.interval.0,
                timeout: probe.timeout.0,
                rise: probe.rise,
                fall: probe.fall,
                http: probe.http.is_some(),
            }),
        };
        Self {
            probing,
            spare: 1.0 - written.min_healthy.0 / 100.0,
            fail: written.panic == pool::Panic::Fail,
            slow_start: pool.slow_start.on().map(SlowStart::compile),
            overload: written.overload.on().map(Overload::compile),
            outlier: written.outlier_detection.on().map(Outlier::compile),
        }
    }

    /// Is what answers say to be looked at, and not only what is learned at once?
    pub(super) fn looks_at_answers(&self) -> bool {
        self.overload.is_some() || self.outlier.is_some()
    }

    /// How many of `members` soft evidence may take out.
    pub fn spare_of(&self, members: usize) -> usize {
        // Percentages are rarely whole in binary: 10 % of 10 is 1.
        (members as f64 * self.spare + 1e-9).floor() as usize
    }

    /// Is so much of the weight of a pool enough to serve for all of it?
    pub fn is_enough(&self, proven: u64, all: u64) -> bool {
        proven as f64 >= all as f64 * (1.0 - self.spare) - 1e-9
    }

    /// How much of `weight` soft evidence may take out.
    pub fn spare_weight(&self, weight: u64) -> f64 {
        weight as f64 * self.spare + 1e-9
    }
}

impl Overload {
    fn compile(written: &pool::Overload) -> Self {
        Self {
            step: written.step.ratio(),
            floor: written.floor.ratio(),
            recover: written.recover.0,
            slow: written.slow.on().map(|times| times.0),
        }
    }
}

impl Outlier {
    fn compile(written: &pool::OutlierDetection) -> Self {
        Self {
            failures: written.failures.on().copied(),
            error_ratio: written.error_ratio.on().map(|share| share.ratio()),
            min_requests: written.min_requests,
            window: written.window.0,
            cooldown: written.cooldown.0,
            max_cooldown: written.max_cooldown.0,
        }
    }
}

/// As where nothing is written.
impl Default for Overload {
    fn default() -> Self {
        Self::compile(&pool::Overload::default())
    }
}

/// As where nothing is written but that it is on.
impl Default for Outlier {
    fn default() -> Self {
        Self::compile(&pool::OutlierDetection::default())
    }
}

impl SlowStart {
    fn compile(written: &pool::SlowStart) -> Self {
        let hold = written.hold.on();
        Self {
            window: written.window.0,
            from: written.from.ratio(),
            error_ratio: hold.and_then(|hold| hold.error_ratio.on()).map(|share| share.ratio()),
            latency: hold.and_then(|hold| hold.latency.on()).map(|times| times.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_is_rounded_down_and_never_by_a_binary_fraction() {
        let spare =
            |percent: f64, members| Policy { spare: 1.0 - percent / 100.0, ..Policy::default() }.spare_of(members);
        assert_eq!([spare(50.0, 1), spare(50.0, 2), spare(50.0, 3), spare(50.0, 10)], [0, 1, 1, 5]);
        assert_eq!([spare(90.0, 10), spare(70.0, 10), spare(100.0, 10), spare(0.0, 10)], [1, 3, 0, 10]);
    }
}
