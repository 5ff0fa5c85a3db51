//! May this address ask? `deny` wins; a non-empty `allow` admits only what it lists.
//!
//! Always: how an address is written makes no difference ([`Networks`]).

use std::net::IpAddr;

use super::networks::Networks;
use crate::config::route;

/// The `access` section of a route.
#[derive(Debug, Clone, Default)]
pub struct Access {
    allow: Networks,
    deny: Networks,
}

impl Access {
    /// Compiles what was written.
    pub fn compile(written: &route::Access) -> Self {
        Self { allow: Networks::of(&written.allow), deny: Networks::of(&written.deny) }
    }

    /// May `ip` ask?
    pub fn admits(&self, ip: IpAddr) -> bool {
        !self.deny.contain(ip) && (self.allow.are_none() || self.allow.contain(ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn access(allow: &[&str], deny: &[&str]) -> Access {
        let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        Access::compile(&route::Access { allow: nets(allow), deny: nets(deny) })
    }

    #[track_caller]
    fn check(access: &Access, admitted: &[&str], refused: &[&str]) {
        for ip in admitted {
            assert!(access.admits(ip.parse().unwrap()), "{ip}");
        }
        for ip in refused {
            assert!(!access.admits(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn nothing_written_admits_everyone() {
        check(&Access::default(), &["10.0.0.1", "::1"], &[]);
    }

    #[test]
    fn an_allow_list_admits_what_it_lists() {
        let list = access(&["10.0.0.0/8", "2001:db8::/32"], &[]);
        check(&list, &["10.1.2.3", "2001:db8::1"], &["11.0.0.1", "::1", "9.255.255.255"]);
    }

    #[test]
    fn deny_wins() {
        let list = access(&["10.0.0.0/8"], &["10.1.0.0/16", "10.2.3.4/32"]);
        check(&list, &["10.0.0.1", "10.2.3.5"], &["10.1.2.3", "10.2.3.4"]);
        check(&access(&[], &["10.1.0.0/16"]), &["10.2.0.1", "::1"], &["10.1.0.1"]);
    }

    #[test]
    fn an_ipv4_address_is_the_same_however_it_is_written() {
        check(&access(&["10.0.0.0/8"], &[]), &["::ffff:10.0.0.1"], &["::ffff:11.0.0.1"]);
        check(&access(&["::ffff:10.0.0.0/104"], &[]), &["10.0.0.1", "::ffff:10.0.0.1"], &["11.0.0.1"]);
        check(&access(&["::/0"], &[]), &["::1"], &["10.0.0.1"]);
    }
}

#[cfg(test)]
mod properties {
    use std::net::Ipv4Addr;

    use ipnet::{IpNet, Ipv4Net};
    use proptest::prelude::*;

    use super::*;

    fn networks() -> impl Strategy<Value = Vec<IpNet>> {
        let near = (0u32..4096, 16u8..=32).prop_map(|(low, length)| (0x0A00_0000 | low << 8, length));
        let net = near.prop_map(|(ip, length)| IpNet::V4(Ipv4Net::new(Ipv4Addr::from(ip), length).unwrap()));
        prop::collection::vec(net, 0..12)
    }

    proptest! {
        #[test]
        fn merging_changes_no_answer(allow in networks(), deny in networks(), low in 0u32..0x0010_0000) {
            let ip = IpAddr::V4(Ipv4Addr::from(0x0A00_0000 | low));
            let held = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&ip));
            let expected = !held(&deny) && (allow.is_empty() || held(&allow));
            prop_assert_eq!(Access::compile(&route::Access { allow, deny }).admits(ip), expected);
        }
    }
}
