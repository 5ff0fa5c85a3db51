//! What would the gateway serve if every origin were well and every name resolved?
//!
//! Where a request goes follows from names and weights alone; an address that stands in for all lets commands ask the
//! pick of the data plane without touching the network.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use crate::config::units::Address;
use crate::config::{Complaint, Config, Invalid};
use crate::observe::Metrics;
use crate::snapshot::Snapshot;

/// The same with an address for every origin, so that nobody waits for a name to resolve.
pub(super) fn resolved(config: &Config) -> Config {
    let mut config = config.clone();
    for origin in config.pools.values_mut().flat_map(|pool| &mut pool.origins) {
        origin.address = Address::Ip(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)));
    }
    config
}

/// The file compiled as a reload would, with nobody to wait for.
#[expect(clippy::disallowed_methods, reason = "what learns nothing may begin at any time")]
pub(super) fn snapshot(config: &Config) -> Result<Snapshot, Vec<Complaint>> {
    let metrics = Metrics::new().map_err(|error| vec![Invalid::new(error.to_string(), "").at("")])?;
    Snapshot::compile(&resolved(config), None, &metrics, Instant::now())
}
