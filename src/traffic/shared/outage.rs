//! Does Redis answer, and was it said that it does not? Each outage is one line of the log, and one when it is over.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What is known of one server. Orderings are relaxed: whoever learns of it a moment later does no harm.
pub(super) struct Outage {
    place: String,
    /// There is no connection.
    cut_off: AtomicBool,
    told: AtomicBool,
}

impl Outage {
    /// None, so far, of the server at this place.
    pub(super) fn of(place: String) -> Self {
        Self { place, cut_off: AtomicBool::new(false), told: AtomicBool::new(false) }
    }

    /// Is it not worth asking?
    pub(super) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Relaxed)
    }

    /// There is a connection, or none and why.
    pub(super) fn connected(&self, state: Result<(), &dyn Display>) {
        self.cut_off.store(state.is_err(), Relaxed);
        if let Err(why) = state {
            self.tell(why);
        }
    }

    /// A request was not answered: one of so many that it is an outage?
    pub(super) fn begins_after(&self, many: bool) {
        if many {
            self.tell(&"it does not answer in time");
        }
    }

    /// A request was answered.
    pub(super) fn is_over(&self) {
        if self.told.load(Relaxed) && self.told.swap(false, Relaxed) {
            log::info!("redis {}: counts shared limits again", self.place);
        }
    }

    fn tell(&self, why: &dyn Display) {
        if !self.told.swap(true, Relaxed) {
            log::warn!("redis {}: {why}; shared limits are counted here until it is back", self.place);
        }
    }
}
