//! Is this address in one of these networks? Merged when compiled: looking one up is a binary search.
//!
//! An IPv4 address inside an IPv6 one (`::ffff:a.b.c.d`) is the IPv4 address, in lists and in questions alike, so
//! that the kind of the listening socket makes no difference.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Networks without overlap, sorted.
#[derive(Debug, Clone, Default)]
pub(super) struct Networks {
    v4: Vec<Ipv4Net>,
    v6: Vec<Ipv6Net>,
}

impl Networks {
    /// Those that were written.
    pub(super) fn of(written: &[IpNet]) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for net in written {
            match unmapped(*net) {
                IpNet::V4(net) => v4.push(net),
                IpNet::V6(net) => v6.push(net),
            }
        }
        Self { v4: Ipv4Net::aggregate(&v4), v6: Ipv6Net::aggregate(&v6) }
    }

    /// Is the list empty?
    pub(super) fn are_none(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// Does one of them hold `ip`?
    pub(super) fn contain(&self, ip: IpAddr) -> bool {
        // Without overlap only the last network that begins at or before the address can hold it.
        match ip.to_canonical() {
            IpAddr::V4(ip) => {
                let begun = self.v4.partition_point(|net| net.network() <= ip);
                self.v4[..begun].last().is_some_and(|net| net.contains(&ip))
            }
            IpAddr::V6(ip) => {
                let begun = self.v6.partition_point(|net| net.network() <= ip);
                self.v6[..begun].last().is_some_and(|net| net.contains(&ip))
            }
        }
    }
}

fn unmapped(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    let v4 = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(96));
    let v4 = v4.and_then(|(ip, length)| Ipv4Net::new(ip, length).ok());
    v4.map_or(net, IpNet::V4)
}
