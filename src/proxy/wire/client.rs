//! What does a connection by TLS tell of its client?

use std::sync::Arc;

use http::HeaderValue;

use super::Wire;

impl Wire {
    /// `https` where the listener speaks TLS, else `http`.
    pub fn scheme(&self) -> &'static str {
        self.home.scheme()
    }

    /// Are origins told of clients' certificates, if not of this one's?
    pub fn names_clients(&self) -> bool {
        self.home.names_clients()
    }

    /// What they are told of this one's.
    pub fn client(&self) -> Option<&HeaderValue> {
        self.home.client()
    }

    /// The same connection, whose client showed a certificate: this is what origins are told of it.
    pub fn of_client(&self, told: &str) -> Arc<Self> {
        let home = self.home.of_client(HeaderValue::from_str(told).ok());
        Self::new(self.peer, self.caller, Arc::new(home), self.limits())
    }
}
