//! How many connections has each client open?
//!
//! Counted only while there is a limit, one count for the whole process, given back by `Drop`. An IPv6 client is its
//! network of /64: whoever has one address of it has all of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// What of an IPv6 address tells clients apart.
const NETWORK: u128 = !0 << 64;

/// The clients that have connections open.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<HashMap<IpAddr, u32>>);

impl Clients {
    /// One more connection of `ip`, unless it has `most` already.
    pub(super) fn admit(self: &Arc<Self>, ip: IpAddr, most: u32) -> Option<Stay> {
        let client = client(ip);
        let mut open = self.0.lock();
        let count = open.entry(client).or_insert(0);
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Stay { clients: Arc::clone(self), client })
    }
}

fn client(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & NETWORK).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// One connection of a client.
#[derive(Debug)]
pub(super) struct Stay {
    clients: Arc<Clients>,
    client: IpAddr,
}

impl Drop for Stay {
    fn drop(&mut self) {
        let mut open = self.clients.0.lock();
        let Entry::Occupied(mut count) = open.entry(self.client) else { return };
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_client_has_so_many_and_no_more() {
        let clients = Arc::new(Clients::default());
        let first = [clients.admit(ip("192.0.2.1"), 2), clients.admit(ip("::ffff:192.0.2.1"), 2)];
        assert!(first.iter().all(Option::is_some));
        assert!(clients.admit(ip("192.0.2.1"), 2).is_none());
        assert!(clients.admit(ip("192.0.2.2"), 2).is_some());
        drop(first);
        assert!(clients.admit(ip("192.0.2.1"), 1).is_some());
        assert!(clients.0.lock().is_empty(), "nothing is kept of who left");
    }

    #[test]
    fn an_ipv6_client_is_its_network() {
        let clients = Arc::new(Clients::default());
        let _one = clients.admit(ip("2001:db8:0:1::1"), 1).unwrap();
        assert!(clients.admit(ip("2001:db8:0:1:ffff::2"), 1).is_none());
        assert!(clients.admit(ip("2001:db8:0:2::1"), 1).is_some());
    }

    #[test]
    fn one_that_is_turned_away_is_counted_nowhere() {
        let clients = Arc::new(Clients::default());
        let _one = clients.admit(ip("192.0.2.1"), 1).unwrap();
        for _ in 0..3 {
            assert!(clients.admit(ip("192.0.2.1"), 1).is_none());
        }
        assert_eq!(clients.0.lock()[&ip("192.0.2.1")], 1);
    }
}
