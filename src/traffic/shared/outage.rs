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

#[cfg(test)]
mod tests {
    use super::*;

    fn outage() -> Outage {
        Outage::of("redis:6379".to_owned())
    }

    fn was_told(outage: &Outage) -> bool {
        outage.told.load(Relaxed)
    }

    #[test]
    fn a_connection_that_is_lost_is_an_outage_until_a_request_is_answered() {
        let outage = outage();
        assert!(!outage.is_cut_off() && !was_told(&outage));
        outage.connected(Err(&"refused"));
        assert!(outage.is_cut_off() && was_told(&outage));
        // A connection alone counts for nobody: it may be one to a server that answers nothing.
        outage.connected(Ok(()));
        assert!(!outage.is_cut_off() && was_told(&outage));
        outage.connected(Err(&"refused"));
        outage.connected(Ok(()));
        outage.is_over();
        assert!(!was_told(&outage));
    }

    #[test]
    fn a_late_answer_is_no_outage_and_many_are() {
        let outage = outage();
        outage.begins_after(false);
        assert!(!was_told(&outage));
        outage.begins_after(true);
        assert!(was_told(&outage) && !outage.is_cut_off(), "it may be asked all the same");
        outage.is_over();
        assert!(!was_told(&outage));
    }
}
