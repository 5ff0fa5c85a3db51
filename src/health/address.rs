//! Where is an origin now? A literal address is fixed; a host name stands for whatever it was last resolved to.
//!
//! Reading never resolves: that happens in the background (`pool/discovery.rs`). A name once resolved stays so:
//! an answer that fails changes nothing.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::config::units;

/// Where an origin is configured to be.
#[derive(Debug, Clone)]
pub enum Address {
    /// At this place.
    Fixed(Endpoint),
    /// At a host name.
    Name(Arc<Resolved>),
}

/// A place one can connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// TCP.
    Ip(SocketAddr),
    /// A Unix socket.
    Unix(Arc<Path>),
}

/// A host name and the address in use for it.
#[derive(Debug)]
pub struct Resolved {
    host: String,
    port: u16,
    /// Written once in half a minute at most, read for each attempt.
    current: RwLock<Option<SocketAddr>>,
}

impl Address {
    /// The address written in the file; what `previous` was resolved to stays if the name is the same.
    pub fn compile(written: &units::Address, previous: Option<&Self>) -> Self {
        match written {
            units::Address::Ip(address) => Self::Fixed(Endpoint::Ip(*address)),
            units::Address::Unix(path) => Self::Fixed(Endpoint::Unix(Arc::from(path.as_path()))),
            units::Address::Name(host, port) => match previous {
                Some(Self::Name(same)) if same.host == *host && same.port == *port => Self::Name(Arc::clone(same)),
                _ => Self::Name(Arc::new(Resolved { host: host.clone(), port: *port, current: RwLock::new(None) })),
            },
        }
    }

    /// Is it configured to be at the same place?
    pub fn is_at(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fixed(one), Self::Fixed(other)) => one == other,
            (Self::Name(one), Self::Name(other)) => one.host == other.host && one.port == other.port,
            _ => false,
        }
    }

    /// It was resolved to this elsewhere; a name that was is not in doubt any more.
    pub fn found_at(self, resolved: Option<SocketAddr>) -> Self {
        if let (Self::Name(name), Some(resolved)) = (&self, resolved) {
            name.answered(&[resolved]);
        }
        self
    }

    /// As it is written.
    pub fn written(&self) -> units::Address {
        match self {
            Self::Fixed(Endpoint::Ip(address)) => units::Address::Ip(*address),
            Self::Fixed(Endpoint::Unix(path)) => units::Address::Unix(path.to_path_buf()),
            Self::Name(name) => units::Address::Name(name.host.clone(), name.port),
        }
    }

    /// What a name is resolved to now.
    pub fn resolved(&self) -> Option<SocketAddr> {
        match self {
            Self::Fixed(_) => None,
            Self::Name(name) => name.current(),
        }
    }

    /// Where to connect to now; `None`: not resolved yet.
    pub fn endpoint(&self) -> Option<Endpoint> {
        match self {
            Self::Fixed(endpoint) => Some(endpoint.clone()),
            Self::Name(name) => name.current().map(Endpoint::Ip),
        }
    }

    /// Is there a place to connect to?
    pub fn is_known(&self) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::Name(name) => name.current().is_some(),
        }
    }
}

impl Resolved {
    /// The host name.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address in use; `None`: never resolved.
    pub fn current(&self) -> Option<SocketAddr> {
        *self.current.read()
    }

    /// Takes an answer over: the address in use stays while it is among the answers, else the first in sorted order
    /// follows. Answers the new address if it changed.
    pub fn answered(&self, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        let first = *addresses.iter().min()?;
        let mut current = self.current.write();
        if current.is_some_and(|current| addresses.contains(&current)) {
            return None;
        }
        *current = Some(first);
        Some(first)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(host: &str, previous: Option<&Address>) -> Address {
        Address::compile(&units::Address::Name(host.to_owned(), 80), previous)
    }

    fn answer(address: &Address, answers: &[&str]) -> Option<String> {
        let Address::Name(name) = address else { panic!("no name") };
        let answers: Vec<SocketAddr> = answers.iter().map(|one| one.parse().unwrap()).collect();
        name.answered(&answers).map(|address| address.to_string())
    }

    #[test]
    fn name_is_unknown_until_it_is_resolved() {
        let address = name("a", None);
        assert!(!address.is_known() && address.endpoint().is_none());
        answer(&address, &["127.0.0.2:80"]);
        assert_eq!(address.endpoint().unwrap().to_string(), "127.0.0.2:80");
    }

    #[test]
    fn address_in_use_stays_while_it_is_among_the_answers() {
        let address = name("a", None);
        assert_eq!(answer(&address, &["127.0.0.3:80", "127.0.0.2:80"]).unwrap(), "127.0.0.2:80", "first in order");
        assert_eq!(answer(&address, &["127.0.0.1:80", "127.0.0.2:80"]), None);
        assert_eq!(answer(&address, &["127.0.0.9:80", "127.0.0.3:80"]).unwrap(), "127.0.0.3:80");
        assert_eq!(answer(&address, &[]), None, "an empty answer changes nothing");
        assert!(address.is_known());
    }

    #[test]
    fn reload_keeps_what_a_name_was_resolved_to() {
        let before = name("a", None);
        answer(&before, &["127.0.0.2:80"]);
        assert!(name("a", Some(&before)).is_known());
        assert!(!name("b", Some(&before)).is_known());
    }
}
