//! Where does a client's connection belong? To a listener, with which it closes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::HeaderValue;

use super::{Buffers, Farewell};

/// What all connections of one listener share.
#[derive(Debug)]
pub struct Home {
    listener: SocketAddr,
    tls: bool,
    names_clients: bool,
    client: Option<HeaderValue>,
    pub(super) draining: Arc<AtomicBool>,
    pub(super) farewell: Farewell,
    pub(super) buffers: Arc<Buffers>,
}

impl Home {
    /// The listener at `listener`, as configured, which speaks TLS or does not; connections close after their next answer once `draining` is set, and
    /// tunnels end with the `farewell`; what is held for them is taken of `buffers`.
    pub fn new(
        listener: SocketAddr,
        tls: bool,
        draining: Arc<AtomicBool>,
        farewell: Farewell,
        buffers: Arc<Buffers>,
    ) -> Self {
        Self { listener, tls, names_clients: false, client: None, draining, farewell, buffers }
    }

    /// Origins are told of clients' certificates, here or at another listener.
    #[must_use]
    pub fn naming_clients(self, names_clients: bool) -> Self {
        Self { names_clients, ..self }
    }

    /// For a client of its own, of whose certificate origins are told this.
    pub(super) fn of_client(&self, told: Option<HeaderValue>) -> Self {
        let (draining, farewell) = (Arc::clone(&self.draining), self.farewell.clone());
        let buffers = Arc::clone(&self.buffers);
        let Self { listener, tls, names_clients, .. } = *self;
        Self { listener, tls, names_clients, client: told, draining, farewell, buffers }
    }

    /// What they are told of the client's.
    pub(super) fn client(&self) -> Option<&HeaderValue> {
        self.client.as_ref()
    }

    /// Are origins told of clients' certificates?
    pub(super) fn names_clients(&self) -> bool {
        self.names_clients
    }

    /// What its clients' requests begin with: `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// The listener's address as configured.
    pub fn listener(&self) -> SocketAddr {
        self.listener
    }
}
