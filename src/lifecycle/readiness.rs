//! Is the process ready for requests? What `/readyz` says, the service manager and the supervisor are told, and how long
//! ago somebody asked.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use super::notify::Manager;
use super::supervise::Supervisor;

const STARTING: u8 = 0;
const READY: u8 = 1;
const LEAVING: u8 = 2;

/// Starting, ready, leaving: each once, in this order.
#[derive(Debug)]
pub struct Readiness {
    /// Relaxed: nothing else is read because of it.
    state: AtomicU8,
    /// Milliseconds from `born` to the latest question, plus one; 0 while nobody asked.
    asked: AtomicU64,
    born: Instant,
    manager: Manager,
    supervisor: Supervisor,
}

impl Default for Readiness {
    fn default() -> Self {
        Self::told_to(Manager::default(), Supervisor::default())
    }
}

impl Readiness {
    /// Starting; `manager` is told of every change, `supervisor` of the end.
    pub fn told_to(manager: Manager, supervisor: Supervisor) -> Self {
        Self { state: AtomicU8::new(STARTING), asked: AtomicU64::new(0), born: Instant::now(), manager, supervisor }
    }

    /// The first round of probes is over, or took too long.
    pub fn begin(&self) {
        // one that is leaving does not come back
        if self.state.compare_exchange(STARTING, READY, Relaxed, Relaxed).is_ok() {
            self.manager.ready("serving");
        }
    }

    /// From now on nobody should send anything new.
    pub fn end(&self) {
        if self.state.swap(LEAVING, Relaxed) != LEAVING {
            self.manager.stopping();
            self.supervisor.leaving();
        }
    }

    /// A reload begins: requests are as welcome as before.
    pub(super) fn reloading(&self) {
        if self.state.load(Relaxed) == READY {
            self.manager.reloading();
        }
    }

    /// It ended so.
    pub(super) fn reloaded(&self, how: &str) {
        if self.state.load(Relaxed) == READY {
            self.manager.ready(&format!("serving; last reload: {how}"));
        }
    }

    /// What a balancer is told; that it asked is remembered.
    ///
    /// # Errors
    /// Why the process is not ready.
    pub fn ask(&self) -> Result<(), &'static str> {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.asked.store(now + 1, Relaxed);
        match self.state.load(Relaxed) {
            STARTING => Err("starting"),
            READY => Ok(()),
            _ => Err("draining"),
        }
    }

    /// How long ago somebody last asked: `None` if nobody did.
    pub(super) fn since_asked(&self) -> Option<Duration> {
        let asked = self.asked.load(Relaxed).checked_sub(1)?;
        Some(self.born.elapsed().saturating_sub(Duration::from_millis(asked)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_between_its_first_probes_and_its_leaving() {
        let readiness = Readiness::default();
        assert_eq!(readiness.since_asked(), None);
        assert_eq!(readiness.ask(), Err("starting"));
        readiness.begin();
        assert_eq!(readiness.ask(), Ok(()));
        readiness.end();
        readiness.begin();
        assert_eq!(readiness.ask(), Err("draining"));
        assert!(readiness.since_asked().is_some());
    }
}
