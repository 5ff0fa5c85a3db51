//! How is an address written? As it prints, in a fifth of the time when it is IPv4, as nearly all are: the formatting
//! machinery shows in the profile of a small request.

use std::fmt::Display;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

/// The longest that is written without the formatting machinery: `255.255.255.255`.
const LONGEST: usize = 15;

/// Appends an IP address.
pub fn push_ip(address: IpAddr, out: &mut Vec<u8>) {
    let IpAddr::V4(address) = address else { return print(address, out) };
    // Each octet is put there with three digits and a dot, and the next one over what it had too much.
    let mut text = [b'.'; LONGEST + 1];
    let mut end = 0;
    for octet in address.octets() {
        let (digits, length) = digits(octet);
        if let Some(place) = text.get_mut(end..end + digits.len()) {
            place.copy_from_slice(&digits);
        }
        end += length + 1;
    }
    out.extend_from_slice(text.get(..end.saturating_sub(1)).unwrap_or_default());
}

/// The digits of an octet and a dot, and how many digits they are.
fn digits(octet: u8) -> ([u8; 4], usize) {
    let [hundreds, tens, ones] = [octet / 100, octet / 10 % 10, octet % 10].map(|digit| b'0' + digit);
    match octet {
        0..10 => ([ones, b'.', b'.', b'.'], 1),
        10..100 => ([tens, ones, b'.', b'.'], 2),
        100.. => ([hundreds, tens, ones, b'.'], 3),
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
