//! What holds for the health of a pool's origins? The `health` section in the numbers the judge takes.

use std::time::Duration;

use crate::config::pool;
use crate::config::units::Off;

/// The `health` section of a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// How origins are probed; `None`: not at all, and everything is up.
    pub probing: Option<Probing>,
    /// The part of a pool that soft evidence may take out.
    pub spare: f64,
    /// `panic: fail`: soft evidence may take out the last one.
    pub fail: bool,
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
    /// The section as written.
    pub fn compile(written: &pool::Health) -> Self {
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
        Self { probing, spare: 1.0 - written.min_healthy.0 / 100.0, fail: written.panic == pool::Panic::Fail }
    }

    /// How many of `members` soft evidence may take out.
    pub fn spare_of(&self, members: usize) -> usize {
        // Percentages are rarely whole in binary: 10 % of 10 is 1.
        (members as f64 * self.spare + 1e-9).floor() as usize
    }

    /// How much of `weight` soft evidence may take out.
    pub fn spare_weight(&self, weight: u64) -> f64 {
        weight as f64 * self.spare + 1e-9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_is_rounded_down_and_never_by_a_binary_fraction() {
        let spare = |percent: f64, members| {
            Policy { probing: None, spare: 1.0 - percent / 100.0, fail: false }.spare_of(members)
        };
        assert_eq!([spare(50.0, 1), spare(50.0, 2), spare(50.0, 3), spare(50.0, 10)], [0, 1, 1, 5]);
        assert_eq!([spare(90.0, 10), spare(70.0, 10), spare(100.0, 10), spare(0.0, 10)], [1, 3, 0, 10]);
    }
}
