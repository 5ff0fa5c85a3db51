//! Where does a client's connection belong? To a listener, with which it closes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Farewell;

/// What all connections of one listener share.
#[derive(Debug)]
pub struct Home {
    listener: SocketAddr,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) farewell: Farewell,
}

impl Home {
    /// The listener at `listener`, as configured; connections close after their next answer once `draining` is set, and
    /// tunnels end with the `farewell`.
    pub fn new(listener: SocketAddr, draining: Arc<AtomicBool>, farewell: Farewell) -> Self {
        Self { listener, draining, farewell }
    }

    /// The listener's address as configured.
    pub fn listener(&self) -> SocketAddr {
        self.listener
    }
}
