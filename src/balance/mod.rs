//! Which origin owns this key? Pure arithmetic: time and randomness are arguments.
//!
//! A key is hashed once ([`hash`]); everything else about its place follows from that number and from the names
//! and weights of the pool: the [`ring`] says who owns it and who comes next, [`moved()`] what a change of the pool
//! moves, [`step`] how far it may go at once, [`share`] which keys an origin takes that may not have all of its share.
//! None of that knows health, load or configuration, so equal pools place keys equally on every replica. Requests that no
//! key places go to whom the pool's [`Balancer`] chooses, by turns, chance or [`Load`].

pub mod arcs;
pub mod bounded;
pub mod effective;
mod ewma;
mod failures;
mod least;
pub mod load;
pub mod moved;
mod random;
pub mod ring;
mod round_robin;
pub mod share;
#[cfg(test)]
mod slow_origin;
pub mod step;

use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::config::pool::{Algorithm, Balance};

pub use arcs::Arcs;
pub use bounded::Bounded;
pub use effective::{Standing, effective_shares, handed_shares};
pub use load::Load;
pub use moved::{Moved, moved};
pub use ring::Ring;
pub use round_robin::Turns;
pub use share::{Base, Factor, u};
pub use step::{Edit, Scale, Step};

/// A try that failed took at least this long, as far as the average of answers goes: rule R5.
const FAILED: Duration = Duration::from_secs(1);

/// How origins are chosen for requests that no key places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Balancer {
    /// In turn, smoothly by weight.
    RoundRobin,
    /// Whoever has least in flight for its weight.
    LeastInFlight,
    /// Of two drawn at random the one with less in flight for its weight.
    TwoChoices,
    /// Of two drawn at random the one that promises the earlier answer.
    PeakEwma {
        /// How long bad news is remembered.
        decay: Duration,
    },
    /// Any, by weight.
    Random,
}

/// One that may be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'l> {
    /// Its number, for the caller.
    pub member: usize,
    /// Its weight, in a unit of the caller's.
    pub weight: u64,
    /// What it is doing.
    pub load: &'l Load,
}

impl Balancer {
    /// The algorithm of a pool; `None`: its requests are placed by a key.
    pub fn compile(written: &Balance) -> Option<Self> {
        match written.algorithm {
            Algorithm::Hash => None,
            Algorithm::RoundRobin => Some(Self::RoundRobin),
            Algorithm::LeastInFlight => Some(Self::LeastInFlight),
            Algorithm::P2c => Some(Self::TwoChoices),
            Algorithm::PeakEwma => Some(Self::PeakEwma { decay: written.decay.0 }),
            Algorithm::Random => Some(Self::Random),
        }
    }

    /// One of the candidates, by its number; `None`: there is none. `turns` are the pool's.
    pub fn choose<'l, I: Iterator<Item = Candidate<'l>>>(
        self,
        candidates: impl Fn() -> I,
        turns: &Turns,
        now: Instant,
        random: &mut Rng,
    ) -> Option<usize> {
        match self {
            Self::RoundRobin => turns.next(candidates()),
            Self::LeastInFlight => least::least_in_flight(candidates(), now, random),
            Self::TwoChoices => least::two_choices(candidates, now, random),
            Self::PeakEwma { decay } => least::peak_ewma(candidates, decay, now, random),
            Self::Random => random::draw(candidates(), random).map(|drawn| drawn.member),
        }
    }

    /// An attempt at the origin of `load` came to an answer's header, or to nothing, after `took`. `failed`: a failure
    /// must not look like a fast answer.
    pub fn took(self, load: &Load, took: Duration, failed: bool, now: Instant) {
        if let Self::PeakEwma { decay } = self {
            load.took(if failed { took.max(FAILED) } else { took }, decay, now);
        }
    }

    /// The word it is configured by.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::LeastInFlight => "least_in_flight",
            Self::TwoChoices => "p2c",
            Self::PeakEwma { .. } => "peak_ewma",
            Self::Random => "random",
        }
    }
}

/// The place of a key on the hash circle: its CRC-32, as nginx's `hash … consistent` takes it.
pub fn hash(key: &[u8]) -> u32 {
    crc32fast::hash(key)
}
