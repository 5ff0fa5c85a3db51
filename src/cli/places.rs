//! Where can a gateway be reached?

use std::fmt;
use std::net::SocketAddr;

use crate::admin;
use crate::listeners::Bound;

/// Where it can be reached.
pub(super) struct Places {
    /// By clients.
    pub(super) listeners: Vec<SocketAddr>,
    /// The admin address.
    pub(super) admin: Option<SocketAddr>,
}

impl Places {
    pub(super) fn of(bound: &[Bound], admin: &admin::Bound) -> Self {
        Self { listeners: bound.iter().filter_map(|one| one.local().ok()).collect(), admin: admin.address() }
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listeners = self.listeners.iter().map(|address| format!("listening on {address}"));
        let all: Vec<_> = listeners.chain(self.admin.map(|address| format!("admin on {address}"))).collect();
        f.write_str(&all.join(", "))
    }
}
