//! What does the judge of a pool know of an origin besides its own evidence?

use std::time::Instant;

use super::{Role, Span};

/// What others know of an origin when its pool is judged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Units of weight.
    pub weight: u32,
    /// It serves only while no other may be asked.
    pub backup: bool,
    /// What it is to the pool.
    pub role: Role,
    /// Is there an address to connect to?
    pub known: bool,
    /// Since when requests were answered without a long gap, and when the last one was.
    pub answers: Option<Span>,
}

impl Seen {
    /// When a request was last answered.
    pub(super) fn answered(&self) -> Option<Instant> {
        Some(self.answers?.to)
    }
}
