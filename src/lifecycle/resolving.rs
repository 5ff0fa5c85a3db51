//! Where are the origins? Names of the snapshot in force are resolved, and pools that find their origins asked for them;
//! what comes of it is logged and counted. The prober is woken when a name is elsewhere, the one that writes snapshots
//! when origins come or go.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::probing::rosters;
use super::server::Work;
use super::wish::Reloads;
use crate::config::pool::DnsServer;
use crate::health::Prober;
use crate::pool::discovery::{Dns, Finding, Names, Resolution, Seeker, resolve};
use crate::snapshot::Store;

/// So many origins are named in a line of the log.
const NAMES: usize = 20;

/// The resolver's work; `servers`: whom it asks, none: those of the system.
pub fn resolve_names(prober: Arc<Prober>, store: Arc<Store>, reloads: Reloads, servers: &[DnsServer]) -> Work {
    let servers: Vec<SocketAddr> = servers.iter().map(|DnsServer(address)| *address).collect();
    Box::new(move || {
        let (prober, store, reloads) = (prober.clone(), store.clone(), reloads.clone());
        let dns = Arc::new(Dns::new(servers.clone()));
        Box::pin(async move {
            tokio::join!(follow_names(&dns, &prober, &store), seek_origins(&dns, &store, &reloads));
        })
    })
}

async fn follow_names(dns: &Arc<Dns>, prober: &Prober, store: &Store) {
    // goes on until the process ends and the runtime with it
    let (_never, shutdown) = watch::channel(false);
    let (dns, runtime) = (Arc::clone(dns), Handle::current());
    let names = Names::new(move |host: &str, port| resolve(&dns, &runtime, host, port));
    names.run(|| rosters(store), |found| tell_name(&found, prober), shutdown).await;
}

async fn seek_origins(dns: &Arc<Dns>, store: &Store, reloads: &Reloads) {
    let (_never, shutdown) = watch::channel(false);
    let sink = |finding| tell_finding(&finding, store, reloads);
    Seeker::new(Arc::clone(dns)).run(|| store.load().sought().collect(), sink, shutdown).await;
}

fn tell_name(found: &Resolution, prober: &Prober) {
    match found {
        Resolution::Moved { host, address } => {
            log::info!("{host} is at {address}");
            prober.ring();
        }
        Resolution::Failed { host, error } => log::warn!("{host}: {error}; its address stays as it is"),
    }
}

fn tell_finding(finding: &Finding, store: &Store, reloads: &Reloads) {
    match finding {
        Finding::Changed { pool, came, went } => {
            log::info!("pool {pool}: DNS tells other origins{}{}", list("new", came), list("gone", went));
            reloads.found();
        }
        Finding::Asked { pool, result } => {
            if let Some(upstream) = store.load().named(pool) {
                upstream.tail.meters.asked_dns(result);
            }
        }
        Finding::Failed { pool, dns, why } => log::warn!("pool {pool}: {dns}: {why}; its origins stay as they are"),
    }
}

/// Names for a line of the log.
fn list(what: &str, names: &[String]) -> String {
    match names {
        [] => String::new(),
        _ if names.len() <= NAMES => format!("; {what}: {}", names.join(", ")),
        _ => format!("; {what}: {} and {} more", names[..NAMES].join(", "), names.len() - NAMES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_few_and_counts_the_others() {
        let names: Vec<String> = (0..22).map(|n| n.to_string()).collect();
        assert_eq!(list("new", &names[..0]), "");
        assert_eq!(list("new", &names[..2]), "; new: 0, 1");
        assert!(list("gone", &names).ends_with(", 19 and 2 more"));
    }
}
