//! Open client connections of one listener.

use std::sync::Arc;

use super::super::metrics::All;
use super::super::series::Level;

/// Counts the client connections of one listener.
pub struct ListenerMeters {
    all: Arc<All>,
    address: Box<str>,
    open: Level,
}

impl ListenerMeters {
    pub(in crate::observe) fn new(all: &Arc<All>, address: &str) -> Self {
        Self { all: Arc::clone(all), address: address.into(), open: all.connections.with(&[address]) }
    }

    /// Counts a connection for as long as the answer lives.
    pub fn connection(&self) -> ConnectionOpen {
        self.open.add(1);
        ConnectionOpen(self.open.clone())
    }
}

impl Drop for ListenerMeters {
    fn drop(&mut self) {
        self.all.by_listener.leave(&self.address, self, || self.all.connections.remove(&[&self.address]));
    }
}

/// A client connection that is open.
#[derive(Debug)]
#[must_use = "the connection counts as open until this is dropped"]
pub struct ConnectionOpen(Level);

impl Drop for ConnectionOpen {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}
