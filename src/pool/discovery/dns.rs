//! What do DNS servers say of a name?
//!
//! Each kind of record is a question of its own and an answer of its own: a family of addresses that could not be asked
//! for must not look as if it had gone. An answer that was cut short is repeated over TCP; if that fails, so does the
//! question. Nothing is cached: who asks has its own times, and other caches stand behind the servers.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ServerOrderingStrategy,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{RData, RecordType};
use hickory_resolver::{Resolver, TokioResolver};
use parking_lot::Mutex;
use tokio::time::timeout;

/// Time for one question to one server, when the system's settings do not say.
const TRY: Duration = Duration::from_secs(2);
/// How often it is put again.
const AGAIN: usize = 1;
/// Time for a question in all, whatever they say.
const PATIENCE: Duration = Duration::from_secs(6);

/// Whom to ask.
#[derive(Debug)]
pub struct Dns {
    /// None: those of the system.
    servers: Vec<SocketAddr>,
    /// Begun with the first question that finds the system's settings in order.
    resolver: Mutex<Option<TokioResolver>>,
}

/// What was found; never nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<T> {
    /// It, in no order.
    pub found: Vec<T>,
    /// How long it holds.
    pub ttl: Duration,
}

/// Why nothing was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// NXDOMAIN.
    #[error("there is no such name")]
    NoName,
    /// The name has no such record.
    #[error("the name has no such record")]
    NoRecord,
    /// Nobody could say.
    #[error("no answer: {0}")]
    Failed(String),
}

impl Unanswered {
    /// One word of a bounded set.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NoName => "no_name",
            Self::NoRecord => "empty",
            Self::Failed(_) => "failed",
        }
    }
}

impl Dns {
    /// Asks these servers, in their order; none: those of the system, its file of hosts first.
    pub fn new(servers: Vec<SocketAddr>) -> Self {
        Self { servers, resolver: Mutex::new(None) }
    }

    /// Are the system's servers asked?
    pub fn is_of_the_system(&self) -> bool {
        self.servers.is_empty()
    }

    /// IPv4 addresses of a host.
    ///
    /// # Errors
    /// None was told.
    pub async fn v4(&self, host: &str) -> Result<Answer<IpAddr>, Unanswered> {
        self.ask(host, RecordType::A, ip).await
    }

    /// IPv6 addresses of a host.
    ///
    /// # Errors
    /// None was told.
    pub async fn v6(&self, host: &str) -> Result<Answer<IpAddr>, Unanswered> {
        self.ask(host, RecordType::AAAA, ip).await
    }

    /// Addresses of a host, of either family.
    ///
    /// # Errors
    /// None was told; why no IPv4 address was, unless that is only that there is none.
    pub async fn addresses(&self, host: &str) -> Result<Answer<IpAddr>, Unanswered> {
        match tokio::join!(self.v4(host), self.v6(host)) {
            (Ok(v4), Ok(v6)) => {
                Ok(Answer { ttl: v4.ttl.min(v6.ttl), found: v4.found.into_iter().chain(v6.found).collect() })
            }
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(Unanswered::NoRecord), Err(why)) | (Err(why), Err(_)) => Err(why),
        }
    }

    /// The hosts and ports that SRV records of the lowest priority tell.
    ///
    /// # Errors
    /// None was told.
    pub async fn services(&self, name: &str) -> Result<Answer<(String, u16)>, Unanswered> {
        let told = |data: &RData| match data {
            RData::SRV(service) if !service.target.is_root() && service.port > 0 => {
                Some((service.priority, service.target.to_ascii(), service.port))
            }
            _ => None,
        };
        let Answer { found, ttl } = self.ask(name, RecordType::SRV, told).await?;
        let first = found.iter().map(|(priority, ..)| *priority).min();
        let found = found.into_iter().filter(|(priority, ..)| Some(*priority) == first);
        Ok(Answer { found: found.map(|(_, host, port)| (host, port)).collect(), ttl })
    }

    async fn ask<T>(
        &self,
        name: &str,
        kind: RecordType,
        told: impl Fn(&RData) -> Option<T>,
    ) -> Result<Answer<T>, Unanswered> {
        let resolver = self.resolver()?;
        resolver.clear_cache();
        let late = |_| Unanswered::Failed(format!("nothing within {PATIENCE:?}"));
        let answer = timeout(PATIENCE, resolver.lookup(name, kind)).await.map_err(late)?.map_err(why)?;
        let mut ttl = u32::MAX;
        let found = answer.answers().iter().filter_map(|record| {
            let value = told(&record.data)?;
            ttl = ttl.min(record.ttl);
            Some(value)
        });
        let found: Vec<T> = found.collect();
        if found.is_empty() { Err(Unanswered::NoRecord) } else { Ok(Answer { found, ttl: seconds(ttl) }) }
    }

    fn resolver(&self) -> Result<TokioResolver, Unanswered> {
        let mut resolver = self.resolver.lock();
        if let Some(resolver) = &*resolver {
            return Ok(resolver.clone());
        }
        let built = self.build().map_err(|error| Unanswered::Failed(error.to_string()))?;
        Ok(resolver.insert(built).clone())
    }

    fn build(&self) -> Result<TokioResolver, NetError> {
        let mut builder = if self.servers.is_empty() {
            Resolver::builder_tokio()?
        } else {
            let servers = self.servers.iter().map(|server| name_server(*server)).collect();
            let config = ResolverConfig::from_name_servers(servers);
            let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
            let options = builder.options_mut();
            (options.timeout, options.attempts, options.use_hosts_file) = (TRY, AGAIN, ResolveHosts::Never);
            options.server_ordering_strategy = ServerOrderingStrategy::UserProvidedOrder;
            builder
        };
        builder.options_mut().cache_size = 0;
        builder.build()
    }
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

fn ip(data: &RData) -> Option<IpAddr> {
    data.ip_addr()
}

fn seconds(ttl: u32) -> Duration {
    Duration::from_secs(ttl.into())
}

fn why(error: NetError) -> Unanswered {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain => Unanswered::NoName,
            ResponseCode::NoError => Unanswered::NoRecord,
            code => Unanswered::Failed(code.to_string()),
        },
        NetError::Dns(DnsError::ResponseCode(code)) => Unanswered::Failed(code.to_string()),
        other => Unanswered::Failed(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_resolver_says_becomes_one_of_three() {
        assert_eq!(why(NetError::Timeout).as_str(), "failed");
        assert_eq!(why(DnsError::ResponseCode(ResponseCode::ServFail).into()).as_str(), "failed");
        assert_eq!(why(NetError::Timeout).to_string(), "no answer: request timed out");
    }

    #[tokio::test]
    async fn the_system_knows_this_machine() {
        let dns = Dns::new(Vec::new());
        match dns.addresses("localhost").await {
            Ok(answer) => assert!(answer.found.iter().all(IpAddr::is_loopback), "{answer:?}"),
            // without a server in its settings nobody is asked
            Err(why) => assert_eq!(why.as_str(), "failed"),
        }
    }
}
