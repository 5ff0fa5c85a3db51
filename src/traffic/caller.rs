//! On whose behalf is a request made? Who connects asks for themselves, unless they are a trusted proxy that names the
//! client (promise P10, rule U8).
//!
//! The header is read from its right end, where the nearest proxy wrote, and only as far as each address met is a trusted
//! one: what stands left of the first that is not was written by nobody we know. Always: an element that names no
//! address ends the walk, so that nobody can hide behind one.

use std::net::IpAddr;

use http::header::{FORWARDED, HeaderMap, HeaderName};
use ipnet::IpNet;

use super::forwarded;
use super::networks::Networks;
use crate::config::client::ClientAddress;

/// Whose word about the client counts, and where it stands.
#[derive(Debug, Clone)]
pub struct Callers {
    trusted: Networks,
    header: Option<HeaderName>,
    /// The header is the one of RFC 7239.
    is_forwarded: bool,
}

impl Callers {
    /// Compiles what was written.
    pub fn compile(trusted: &[IpNet], header: &ClientAddress) -> Self {
        let (header, is_forwarded) = match header {
            ClientAddress::XForwardedFor => (Some(HeaderName::from_static("x-forwarded-for")), false),
            ClientAddress::Forwarded => (Some(FORWARDED), true),
            ClientAddress::Header(name) => (Some(name.clone()), false),
            ClientAddress::Off => (None, false),
        };
        Self { trusted: Networks::of(trusted), header, is_forwarded }
    }

    /// Does the word of `ip` count?
    pub fn trust(&self, ip: IpAddr) -> bool {
        self.trusted.contain(ip)
    }

    /// Who asks, when `caller` has sent these headers.
    pub fn client(&self, caller: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = caller.to_canonical();
        let Some(header) = self.header.as_ref().filter(|_| self.trust(client)) else { return client };
        let lines = headers.get_all(header).iter().rev();
        for element in lines.flat_map(|line| FromRight { left: Some(line.as_bytes()), at: b',' }) {
            let named = if self.is_forwarded { sender(element) } else { node(element) };
            match named {
                Some(ip) => client = ip.to_canonical(),
                None if element.is_empty() => {}
                None => break,
            }
            if !self.trust(client) {
                break;
            }
        }
        client
    }
}

/// The pieces of a line from its right end, cut where `at` stands outside of quotes, trimmed. What is left of a quote
/// that never began stays in one piece, which names nobody.
struct FromRight<'a> {
    left: Option<&'a [u8]>,
    at: u8,
}

impl<'a> Iterator for FromRight<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.left.take()?;
        let mut quoted = false;
        for (index, byte) in text.iter().enumerate().rev() {
            let before = text.get(..index).unwrap_or_default();
            match *byte {
                b'"' if !(quoted && is_escaped(before)) => quoted = !quoted,
                byte if byte == self.at && !quoted => {
                    self.left = Some(before);
                    return Some(text.get(index + 1..).unwrap_or_default().trim_ascii());
                }
                _ => {}
            }
        }
        Some(text.trim_ascii())
    }
}

/// Does an odd number of backslashes stand at the end?
fn is_escaped(before: &[u8]) -> bool {
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The sender of one element of RFC 7239.
fn sender(element: &[u8]) -> Option<IpAddr> {
    let pairs = FromRight { left: Some(element), at: b';' };
    let mut senders = pairs.filter_map(|pair| {
        let (name, value) = pair.split_at_checked(4)?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    });
    let value = senders.next().filter(|_| senders.next().is_none())?;
    node(&forwarded::text(value)?)
}

/// An address, with or without a port; IPv6 with a port in brackets.
fn node(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        let (ip, port) = rest.split_once(']')?;
        return ip.parse().ok().filter(|ip: &IpAddr| ip.is_ipv6() && is_port(port));
    }
    match text.parse() {
        Ok(ip) => Some(ip),
        Err(_) => {
            let (ip, port) = text.split_at_checked(text.find(':')?)?;
            ip.parse().ok().filter(|ip: &IpAddr| ip.is_ipv4() && is_port(port))
        }
    }
}

/// Nothing, or a colon and a port, which RFC 7239 lets a proxy hide.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(forwarded::is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callers(header: &str) -> Callers {
        use crate::config::written::Written as _;
        let trusted: Vec<IpNet> = ["10.0.0.0/8", "fd00::/8"].iter().map(|net| net.parse().unwrap()).collect();
        Callers::compile(&trusted, &ClientAddress::parse(header).unwrap())
    }

    #[track_caller]
    fn check(header: &str, caller: &str, lines: &[&str], client: &str) {
        let callers = callers(header);
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(callers.header.clone().unwrap(), line.parse().unwrap());
        }
        assert_eq!(callers.client(caller.parse().unwrap(), &headers).to_string(), client, "{lines:?}");
    }

    #[test]
    fn p10_who_is_not_trusted_asks_for_themselves() {
        check("x-forwarded-for", "192.0.2.1", &["198.51.100.7"], "192.0.2.1");
        check("x-forwarded-for", "::ffff:192.0.2.1", &["198.51.100.7"], "192.0.2.1");
        check("forwarded", "192.0.2.1", &["for=198.51.100.7"], "192.0.2.1");
        check("cf-connecting-ip", "192.0.2.1", &["198.51.100.7"], "192.0.2.1");
        let off = callers("off");
        assert_eq!((off.trust([10, 0, 0, 1].into()), off.header), (true, None));
        let nobody = Callers::compile(&[], &ClientAddress::default());
        assert!(!nobody.trust("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn p10_a_trusted_proxy_is_read_from_the_right() {
        check("x-forwarded-for", "10.0.0.1", &[], "10.0.0.1");
        check("x-forwarded-for", "10.0.0.1", &["198.51.100.7"], "198.51.100.7");
        check("x-forwarded-for", "10.0.0.1", &["1.1.1.1, 198.51.100.7"], "198.51.100.7");
        check("x-forwarded-for", "10.0.0.1", &["1.1.1.1,198.51.100.7,10.0.0.9 , 10.1.1.1"], "198.51.100.7");
        check("x-forwarded-for", "10.0.0.1", &["1.1.1.1", "198.51.100.7", "10.0.0.9"], "198.51.100.7");
        check("x-forwarded-for", "10.0.0.1", &["10.3.3.3, 10.2.2.2"], "10.3.3.3");
        check("x-forwarded-for", "fd00::1", &["2001:db8::7, ::ffff:10.0.0.9"], "2001:db8::7");
        check("cf-connecting-ip", "10.0.0.1", &["198.51.100.7"], "198.51.100.7");
    }

    #[test]
    fn addresses_with_ports_are_taken() {
        for (text, ip) in [("198.51.100.7:4711", "198.51.100.7"), ("[2001:db8::7]:4711", "2001:db8::7")] {
            check("x-forwarded-for", "10.0.0.1", &[text], ip);
        }
        check("x-forwarded-for", "10.0.0.1", &["[2001:db8::7]"], "2001:db8::7");
    }

    #[test]
    fn what_names_no_address_ends_the_walk() {
        for text in ["1.1.1.1, unknown", "1.1.1.1, 2.2.2.2:x", "1.1.1.1, [2.2.2.2]", "1.1.1.1, [::1", "1.1.1.1, a:1"] {
            check("x-forwarded-for", "10.0.0.1", &[text], "10.0.0.1");
        }
        check("x-forwarded-for", "10.0.0.1", &["1.1.1.1, nobody, 10.0.0.9"], "10.0.0.9");
        check("x-forwarded-for", "10.0.0.1", &["198.51.100.7, , "], "198.51.100.7");
    }

    #[test]
    fn forwarded_is_read_with_its_quotes() {
        check("forwarded", "10.0.0.1", &["for=1.1.1.1, FOR=198.51.100.7;proto=https"], "198.51.100.7");
        check("forwarded", "10.0.0.1", &["proto=https; for=\"[2001:db8::7]:4711\";by=10.0.0.1"], "2001:db8::7");
        check("forwarded", "10.0.0.1", &["for=\"[2001:db8::7]:_hidden\"", "for=\"10.0.0.9:_p\""], "2001:db8::7");
        check("forwarded", "10.0.0.1", &["for=\"198.51.100.\\7\""], "198.51.100.7");
        check("forwarded", "10.0.0.1", &["for=198.51.100.7;host=\"a,b;for=1.1.1.1\""], "198.51.100.7");
        check("forwarded", "10.0.0.1", &["for=198.51.100.7;host=\"\\\",for=1.1.1.1\""], "198.51.100.7");
        for nobody in ["for=unknown", "for=_hidden", "proto=https", "for=1.1.1.1;for=2.2.2.2"] {
            check("forwarded", "10.0.0.1", &["for=1.1.1.1", nobody], "10.0.0.1");
        }
    }

    #[test]
    fn a_quote_a_client_left_open_swallows_no_proxy() {
        check("forwarded", "10.0.0.1", &["for=\", for=198.51.100.7"], "198.51.100.7");
        check("forwarded", "10.0.0.1", &["for=1.1.1.1;host=\"x, for=198.51.100.7, for=10.0.0.9"], "198.51.100.7");
    }
}

#[cfg(test)]
mod properties {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    fn callers(is_forwarded: bool) -> Callers {
        let header = if is_forwarded { ClientAddress::Forwarded } else { ClientAddress::XForwardedFor };
        Callers::compile(&["10.0.0.0/8".parse().unwrap()], &header)
    }

    proptest! {
        /// Whatever stands left of what trusted proxies wrote, the client is whom they met.
        #[test]
        fn p10_nothing_a_client_writes_changes_who_it_is(
            spoof in prop::collection::vec("[ -~]{0,40}", 0..3),
            joined in any::<bool>(),
            is_forwarded in any::<bool>(),
            hops in 0_u8..4,
        ) {
            let callers = callers(is_forwarded);
            let element = |ip: &str| if is_forwarded { format!("for={ip}") } else { ip.to_owned() };
            let mut written = vec![element("198.51.100.7")];
            written.extend((0..hops).map(|hop| element(&format!("10.0.0.{hop}"))));
            let mut lines = spoof.clone();
            match lines.pop() {
                Some(last) if joined => lines.push(format!("{last}, {}", written.join(", "))),
                last => lines.extend(last.into_iter().chain([written.join(", ")])),
            }
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(callers.header.clone().unwrap(), line.parse().unwrap());
            }
            let client = callers.client(Ipv4Addr::new(10, 9, 9, 9).into(), &headers);
            prop_assert_eq!(client.to_string(), "198.51.100.7", "{:?}", lines);
        }

        #[test]
        fn any_bytes_name_somebody(line in prop::collection::vec(any::<u8>(), 0..60), is_forwarded in any::<bool>()) {
            let callers = callers(is_forwarded);
            let Ok(line) = http::HeaderValue::from_bytes(&line) else { return Ok(()) };
            let headers = HeaderMap::from_iter([(callers.header.clone().unwrap(), line)]);
            callers.client(Ipv4Addr::new(10, 9, 9, 9).into(), &headers);
        }
    }
}
