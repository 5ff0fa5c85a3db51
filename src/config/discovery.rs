//! Which DNS name stands for the origins of a pool, and which servers are asked?

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Serialize};

use super::address::is_host;
use super::number::within_or_none;
use super::units::{Duration, time_above_zero};
use super::written::{Written, choices, written};

/// The port DNS servers listen on.
const DNS_PORT: u16 = 53;

/// The `discovery` section: the origins are whatever a DNS name stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Discovery {
    /// The name that is asked for.
    pub dns: DnsName,
    /// The port of all origins. May be left out with `identity: name`, where SRV records tell it.
    #[serde(default, deserialize_with = "within_or_none::<_, _, 1, 65535>", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u16>,
    /// The longest time between two questions; the TTL of an answer shortens it, unless it is 0.
    #[serde(default = "ten_seconds", deserialize_with = "time_above_zero")]
    pub refresh: Duration,
    /// What an origin is called on the ring: its address, or the name SRV records give it.
    #[serde(default)]
    pub identity: Identity,
}

const fn ten_seconds() -> Duration {
    Duration::seconds(10)
}

/// What an origin that was found is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Identity {
    /// As its address: each A and AAAA record is an origin.
    #[default]
    Address,
    /// As the target of an SRV record, whatever its address.
    Name,
}

choices!(Identity { Address = "address", Name = "name" });

/// A name to ask DNS for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DnsName(pub String);

/// A DNS server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DnsServer(pub SocketAddr);

written!(DnsName, DnsServer);

impl Written for DnsName {
    const EXPECTED: &'static str = "a DNS name such as origins.svc.internal";

    fn parse(text: &str) -> Option<Self> {
        is_host(text).then(|| Self(text.to_owned()))
    }

    fn print(&self) -> String {
        self.0.clone()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[A-Za-z0-9._-]+$" })
    }
}

impl Written for DnsServer {
    const EXPECTED: &'static str = "the IP address of a DNS server, such as 10.0.0.10 or [::1]:5353";

    fn parse(text: &str) -> Option<Self> {
        let bare = |text: &str| text.parse::<IpAddr>().ok();
        let bracketed = |text: &str| text.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok();
        let ip = bare(text).or_else(|| bracketed(text).map(IpAddr::from));
        let whole = || text.parse::<SocketAddr>().ok().filter(|server| server.port() > 0);
        ip.map(|ip| SocketAddr::new(ip, DNS_PORT)).or_else(whole).map(Self)
    }

    fn print(&self) -> String {
        self.0.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[0-9a-fA-F:.\[\]]+$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dns_server_is_an_address_with_the_port_of_dns_unless_written() {
        for (text, printed) in [
            ("10.0.0.10", "10.0.0.10:53"),
            ("10.0.0.10:5353", "10.0.0.10:5353"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[::1]:5353", "[::1]:5353"),
        ] {
            assert_eq!(DnsServer::parse(text).unwrap().print(), printed);
            assert_eq!(DnsServer::parse(printed), DnsServer::parse(text));
        }
        for text in ["", "dns.internal", "10.0.0.10:0", "10.0.0.10:", "10.0.0", "[::1"] {
            assert_eq!(DnsServer::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_is_no_name() {
        for text in ["origins.svc.internal", "_http._tcp.origins.internal.", "origins"] {
            assert_eq!(DnsName::parse(text).unwrap().print(), text);
        }
        for text in ["10.0.0.1", "origins:8080", "", "a b", "::1"] {
            assert_eq!(DnsName::parse(text), None, "{text}");
        }
    }
}
