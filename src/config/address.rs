//! Where is something on the network? Addresses of origins, of sockets to bind, networks, and hosts as written.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;
use schemars::{Schema, json_schema};

use super::written::{Written, written};

/// Without a port in an origin's address.
const DEFAULT_PORT: u16 = 80;
/// The same over TLS.
pub(super) const HTTPS: u16 = 443;

/// Bytes of the path of a Unix socket at most: `sun_path` has 108, and one ends it.
pub(super) const LONGEST_SOCKET: usize = 107;

/// Where an origin is: an IP address with a port, a name to be resolved, or a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// `10.0.0.1:80` or `[::1]:80`; without a port 80 is taken.
    Ip(SocketAddr),
    /// A host name and a port (80 when none is written), resolved in the background.
    Name(String, u16),
    /// `unix:/path`.
    Unix(PathBuf),
}

written!(Address);

impl Address {
    /// Does the text of an address leave its port out?
    pub(super) fn is_portless(text: &str) -> bool {
        !text.starts_with("unix:") && if text.starts_with('[') { text.ends_with(']') } else { !text.contains(':') }
    }

    /// The same with another port.
    pub(super) fn set_port(&mut self, port: u16) {
        match self {
            Self::Ip(address) => address.set_port(port),
            Self::Name(_, of_name) => *of_name = port,
            Self::Unix(_) => {}
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Written for Address {
    const EXPECTED: &'static str = "IP:port, [IPv6]:port, name[:port] or unix:/path";

    fn parse(text: &str) -> Option<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            let is_path = path.starts_with('/') && !path.contains('\0');
            return is_path.then(|| Self::Unix(PathBuf::from(path)));
        }
        if let Some(bracketed) = text.strip_prefix('[') {
            let (ip, rest) = bracketed.split_once(']')?;
            let port = if rest.is_empty() { DEFAULT_PORT } else { port(rest.strip_prefix(':')?)? };
            return Some(Self::Ip((ip.parse::<Ipv6Addr>().ok()?, port).into()));
        }
        let (host, port) = match text.split_once(':') {
            Some((host, digits)) => (host, port(digits)?),
            None => (text, DEFAULT_PORT),
        };
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Some(Self::Ip((ip, port).into()));
        }
        is_host(host).then(|| Self::Name(host.to_owned(), port))
    }

    fn print(&self) -> String {
        self.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "examples": ["10.0.0.1:8080", "[::1]:8080", "unix:/run/app.sock"] })
    }
}

/// A port that can be connected to.
fn port(digits: &str) -> Option<u16> {
    let is_plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|port| is_plain && *port > 0)
}

/// Is this a host name? Labels of letters, digits, `-` and `_`; the last one holds a letter, or it would be an IPv4
/// address gone wrong.
pub(super) fn is_host(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let bytes = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        (1..=63).contains(&label.len()) && bytes && !label.starts_with('-') && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(is_label) && last.contains(|c: char| c.is_ascii_alphabetic())
}

impl Written for SocketAddr {
    const EXPECTED: &'static str = "an IP address and a port, such as 0.0.0.0:8080 or [::]:8080";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn print(&self) -> String {
        self.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^(\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:.]+\]):\d+$" })
    }
}

impl Written for IpNet {
    const EXPECTED: &'static str = "an IP address or a network such as 10.0.0.0/8";

    fn parse(text: &str) -> Option<Self> {
        let network = text.parse::<Self>().ok().or_else(|| text.parse::<IpAddr>().ok().map(Self::from));
        network.map(|network| network.trunc())
    }

    fn print(&self) -> String {
        self.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[0-9a-fA-F:.]+(/\d+)?$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, printed: &str) {
        let address = Address::parse(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(address.to_string(), printed);
        assert_eq!(Address::parse(printed), Some(address));
    }

    #[test]
    fn an_address_is_an_ip_a_name_or_a_socket() {
        check("10.20.1.11:8080", "10.20.1.11:8080");
        check("10.20.1.11", "10.20.1.11:80");
        check("[::1]:9001", "[::1]:9001");
        check("[::1]", "[::1]:80");
        check("origin.internal:8080", "origin.internal:8080");
        check("localhost", "localhost:80");
        check("my_app.svc.", "my_app.svc.:80");
        check("unix:/run/app.sock", "unix:/run/app.sock");
        assert!(matches!(Address::parse("127.0.0.1:1"), Some(Address::Ip(_))));
        assert!(matches!(Address::parse("a1:1"), Some(Address::Name(..))));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            ":80",
            "10.0.0.1:",
            "10.0.0.1:0",
            "10.0.0.1:80800",
            "10.0.0.1:+80",
            "::1",
            "::1:80",
            "[::1",
            "[::1]80",
            "10.0.0.1.5:80",
            "10.0.0:80",
            "a b:80",
            "http://a",
            "a/b",
            "unix:",
            "unix:run",
            "-a:80",
            "a..b",
            "host:http",
        ] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_network_may_be_one_address_and_loses_its_host_bits() {
        let printed = |text: &str| IpNet::parse(text).map(|net| net.print());
        assert_eq!(printed("10.0.0.1").as_deref(), Some("10.0.0.1/32"));
        assert_eq!(printed("127.0.0.1/8").as_deref(), Some("127.0.0.0/8"));
        assert_eq!(printed("::1").as_deref(), Some("::1/128"));
        assert_eq!(printed("10.0.0.0/33"), None);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_refused_or_prints_what_parses_to_the_same(text in "[a-z0-9.:/\\[\\]_ -]{0,24}|\\PC{0,12}") {
            if let Some(address) = Address::parse(&text) {
                prop_assert_eq!(Address::parse(&address.to_string()), Some(address));
            }
        }
    }
}
