//! How is an address written? As it prints, in a fifth of the time when it is IPv4, as nearly all are: the formatting
//! machinery shows in the profile of a small request.

use std::fmt::Display;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use smallvec::SmallVec;

/// The longest that is written without the formatting machinery: `255.255.255.255`.
const LONGEST: usize = 15;

/// Appends an IP address.
pub fn push_ip(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(v4) => {
            let (text, length) = digits(v4);
            out.extend_from_slice(text.get(..length).unwrap_or_default());
        }
        IpAddr::V6(_) => print(address, out),
    }
}

/// An IP address by itself; that of version 4 takes nothing from the heap.
pub fn text(address: IpAddr) -> SmallVec<[u8; LONGEST + 1]> {
    match address {
        IpAddr::V4(v4) => {
            let (text, length) = digits(v4);
            let mut text = SmallVec::from(text);
            text.truncate(length);
            text
        }
        IpAddr::V6(_) => {
            let mut text = Vec::with_capacity(40);
            print(address, &mut text);
            text.into()
        }
    }
}

/// The text, and how much of it is meant.
fn digits(address: Ipv4Addr) -> ([u8; LONGEST + 1], usize) {
    // Each octet is put there with all its digits and a dot, and the next one over what it had too much.
    let mut text = [b'.'; LONGEST + 1];
    let mut end = 0;
    for octet in address.octets() {
        let Octet { digits, length } = OCTETS[usize::from(octet)];
        if let Some(place) = text.get_mut(end..end + digits.len()) {
            place.copy_from_slice(&digits);
        }
        end += usize::from(length);
    }
    (text, end.saturating_sub(1))
}

/// An octet in digits: their start and a dot or more behind them, and how much of it is meant, with one dot.
#[derive(Clone, Copy)]
struct Octet {
    digits: [u8; 4],
    length: u8,
}

/// All of them.
static OCTETS: [Octet; 256] = {
    let mut all = [Octet { digits: [b'.'; 4], length: 0 }; 256];
    let mut octet = 0;
    while octet < all.len() {
        let [hundreds, tens, ones] =
            [b'0' + (octet / 100) as u8, b'0' + (octet / 10 % 10) as u8, b'0' + (octet % 10) as u8];
        all[octet] = match octet {
            0..10 => Octet { digits: [ones, b'.', b'.', b'.'], length: 2 },
            10..100 => Octet { digits: [tens, ones, b'.', b'.'], length: 3 },
            _ => Octet { digits: [hundreds, tens, ones, b'.'], length: 4 },
        };
        octet += 1;
    }
    all
};

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
            prop_assert_eq!(text(socket.ip()).to_vec(), socket.ip().to_string().into_bytes());
        }
    }
}
