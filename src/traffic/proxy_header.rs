//! Does a connection begin with a PROXY header (HAProxy's PROXY protocol, versions 1 and 2), and whom does it name?
//!
//! The bytes come in any number of pieces, so this is asked again with more of them until it is decided. What is
//! complete is read by `ppp`; where a header ends, how long it may be and what is to be ignored is told here, since
//! `ppp` takes a line cut in front of its last port for a broken one, holds LOCAL to an address it need not have, and
//! leaves checksums alone.

use std::net::{IpAddr, SocketAddr};

use ppp::{v1, v2};

/// How every line of version 1 begins.
const V1: &[u8] = b"PROXY ";

/// The longest line of version 1 with its end, as its specification has it.
const V1_BYTES: usize = 107;

/// How every header of version 2 begins.
const V2: &[u8] = v2::PROTOCOL_PREFIX;

/// Bytes before the addresses of version 2: these, version and command, family and protocol, length.
const V2_FIXED: usize = 16;

/// A header of version 2 may say it has 64 KiB. With a client's certificate in it, it has some 2 KiB.
const V2_BYTES: usize = 4096;

/// Version 2 without a proxied client, such as a balancer's own check.
const LOCAL: u8 = 0x20;

/// What a TLV has before its value: kind and length.
const TLV_HEAD: usize = 3;

/// What the bytes of a connection so far begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// No PROXY header.
    Other,
    /// Too few bytes to tell.
    Undecided,
    /// A PROXY header of which more has to come.
    Partial,
    /// A whole one of so many bytes. Without a source the connection is the sender's own, or of a kind that has no
    /// address, and the socket's stands.
    Header {
        /// Its length.
        length: usize,
        /// Who connected to the sender.
        source: Option<SocketAddr>,
    },
    /// It begins as a PROXY header and is none.
    Malformed,
}

impl Start {
    /// What `bytes` begin with.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(V1) {
            line(bytes)
        } else if bytes.starts_with(V2) {
            binary(bytes)
        } else if V1.starts_with(bytes) || V2.starts_with(bytes) {
            Self::Undecided
        } else {
            Self::Other
        }
    }
}

fn line(bytes: &[u8]) -> Start {
    let may_be = bytes.get(..V1_BYTES).unwrap_or(bytes);
    let Some(end) = memchr::memmem::find(may_be, b"\r\n") else {
        return if may_be.len() < V1_BYTES { Start::Partial } else { Start::Malformed };
    };
    let length = end + 2;
    // whatever follows UNKNOWN means nothing
    if may_be.strip_prefix(b"PROXY UNKNOWN").is_some_and(|rest| matches!(rest.first(), Some(b' ' | b'\r'))) {
        return Start::Header { length, source: None };
    }
    match v1::Header::try_from(may_be.get(..length).unwrap_or_default()).map(|header| header.addresses) {
        Ok(v1::Addresses::Tcp4(v1::IPv4 { source_address: ip, source_port, .. })) => {
            Start::Header { length, source: Some(SocketAddr::new(IpAddr::V4(ip), source_port)) }
        }
        Ok(v1::Addresses::Tcp6(v1::IPv6 { source_address: ip, source_port, .. })) => {
            Start::Header { length, source: Some(SocketAddr::new(IpAddr::V6(ip), source_port)) }
        }
        Ok(v1::Addresses::Unknown) | Err(_) => Start::Malformed,
    }
}

fn binary(bytes: &[u8]) -> Start {
    let Some(&[command, _, high, low]) = bytes.get(V2.len()..V2_FIXED) else { return Start::Partial };
    let length = V2_FIXED + usize::from(u16::from_be_bytes([high, low]));
    if length > V2_BYTES {
        return Start::Malformed;
    }
    let Some(bytes) = bytes.get(..length) else { return Start::Partial };
    // its family and all that follows are to be ignored
    if command == LOCAL {
        return Start::Header { length, source: None };
    }
    match v2::Header::try_from(bytes) {
        Ok(header) if is_whole(&header) => Start::Header { length, source: source(&header) },
        _ => Start::Malformed,
    }
}

fn source(header: &v2::Header<'_>) -> Option<SocketAddr> {
    if header.protocol != v2::Protocol::Stream {
        return None;
    }
    match header.addresses {
        v2::Addresses::IPv4(of) => Some(SocketAddr::new(of.source_address.into(), of.source_port)),
        v2::Addresses::IPv6(of) => Some(SocketAddr::new(of.source_address.into(), of.source_port)),
        v2::Addresses::Unix(_) | v2::Addresses::Unspecified => None,
    }
}

/// Do the TLVs fill the header, and does the checksum among them, if there is one, match?
fn is_whole(header: &v2::Header<'_>) -> bool {
    let mut start = V2_FIXED + header.address_bytes().len();
    for tlv in header.tlvs() {
        let Ok(tlv) = tlv else { return false };
        let value = start + TLV_HEAD;
        start = value + tlv.value.len();
        if tlv.kind == v2::Type::CRC32C as u8 && !matches(header.as_bytes(), value, &tlv.value) {
            return false;
        }
    }
    true
}

/// Is `sum` the CRC32c of the header, the four bytes at `place`, where it stands, taken as zero?
fn matches(header: &[u8], place: usize, sum: &[u8]) -> bool {
    let Ok(sum) = sum.try_into().map(u32::from_be_bytes) else { return false };
    let summed = header.iter().enumerate().map(|(at, byte)| if (place..place + 4).contains(&at) { 0 } else { *byte });
    crc32c(summed) == sum
}

/// Bit by bit: once a connection, over some hundred bytes.
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    const REVERSED: u32 = 0x82F6_3B78;
    !bytes.fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 0 { sum >> 1 } else { (sum >> 1) ^ REVERSED })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of version 2 with these bytes after its length.
    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [V2, &[command, family], &length, rest].concat()
    }

    const V4: [u8; 12] = [192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x67, 0, 80];

    fn with_sum(mut header: Vec<u8>) -> Vec<u8> {
        let at = header.len() - 4;
        let sum = crc32c(header.iter().copied());
        header[at..].copy_from_slice(&sum.to_be_bytes());
        header
    }

    #[track_caller]
    fn check(bytes: impl AsRef<[u8]>, source: Option<&str>) {
        let (bytes, source) = (bytes.as_ref(), source.map(|source| source.parse().unwrap()));
        let whole = Start::Header { length: bytes.len(), source };
        assert_eq!(Start::of(bytes), whole);
        assert_eq!(Start::of(&[bytes, b"GET / HTTP/1.1\r\n"].concat()), whole, "a request in the same packet");
        for cut in 0..bytes.len() {
            let expected = match cut {
                cut if bytes.starts_with(V1) && cut < V1.len() => Start::Undecided,
                cut if bytes.starts_with(V2) && cut < V2.len() => Start::Undecided,
                _ => Start::Partial,
            };
            assert_eq!(Start::of(&bytes[..cut]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_of_version_1_names_its_source_wherever_it_is_cut() {
        check("PROXY TCP4 192.0.2.7 10.0.0.1 4711 80\r\n", Some("192.0.2.7:4711"));
        check("PROXY TCP6 2001:db8::7 ::1 4711 80\r\n", Some("[2001:db8::7]:4711"));
        check("PROXY UNKNOWN\r\n", None);
        check("PROXY UNKNOWN ffff::1 a b c d e f g 65535\r\n", None);
    }

    #[test]
    fn version_2_names_its_source_wherever_it_is_cut() {
        check(v2(0x21, 0x11, &V4), Some("192.0.2.7:4711"));
        let v6 =
            [&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7][..], &[0; 16], &[0x12, 0x67, 0, 80]].concat();
        check(v2(0x21, 0x21, &v6), Some("[2001:db8::7]:4711"));
    }

    #[test]
    fn what_has_no_address_leaves_the_socket_s() {
        check(v2(0x20, 0x00, &[]), None);
        check(v2(0x20, 0x11, &[]), None);
        check(v2(0x20, 0x11, &V4), None);
        check(v2(0x21, 0x00, &[]), None);
        check(v2(0x21, 0x00, &[1, 2, 3]), None);
        check(v2(0x21, 0x12, &V4), None);
        check(v2(0x21, 0x31, &[0; 216]), None);
    }

    #[test]
    fn further_values_are_skipped_and_a_checksum_is_held_to() {
        let tlv = [4, 0, 3, 1, 2, 3];
        check(v2(0x21, 0x11, &[&V4[..], &tlv].concat()), Some("192.0.2.7:4711"));
        let summed = with_sum(v2(0x21, 0x11, &[&V4[..], &tlv, &[3, 0, 4, 0, 0, 0, 0]].concat()));
        check(&summed, Some("192.0.2.7:4711"));
        // what has another kind is another value, and no checksum
        let kind = V2_FIXED + V4.len() + tlv.len();
        for byte in (V2_FIXED..summed.len()).filter(|byte| *byte != kind) {
            let mut wrong = summed.clone();
            wrong[byte] ^= 0x10;
            assert_eq!(Start::of(&wrong), Start::Malformed, "byte {byte}");
        }
        assert_eq!(crc32c(b"123456789".iter().copied()), 0xE306_9283);
    }

    #[test]
    fn what_only_begins_as_one_is_malformed() {
        for line in [
            "PROXY TCP4 192.0.2.7 10.0.0.1 4711\r\n",
            "PROXY TCP4 192.0.2.7 10.0.0.1 4711 80 1\r\n",
            "PROXY TCP4 ::1 ::1 1 1\r\n",
            "PROXY TCP4 192.0.2.7 10.0.0.1 70000 80\r\n",
            "PROXY UDP4 192.0.2.7 10.0.0.1 1 1\r\n",
            "PROXY UNKNOWNS\r\n",
            "PROXY \r\n",
            "PROXY / HTTP/1.1\r\n",
        ] {
            assert_eq!(Start::of(line.as_bytes()), Start::Malformed, "{line:?}");
        }
        let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_BYTES - 16));
        check(&longest, None);
        let longer = format!("PROXY UNKNOWN {}", "x".repeat(V1_BYTES));
        assert_eq!(Start::of(longer.as_bytes()), Start::Malformed);
        for binary in [
            v2(0x11, 0x11, &V4),
            v2(0x22, 0x11, &V4),
            v2(0x21, 0x41, &V4),
            v2(0x21, 0x13, &V4),
            v2(0x21, 0x11, &V4[..11]),
            v2(0x21, 0x11, &[&V4[..], &[4, 0, 9, 1]].concat()),
            v2(0x21, 0x11, &[&V4[..], &[3, 0, 3, 1, 2, 3]].concat()),
            v2(0x21, 0x11, &[0; V2_BYTES]),
            v2(0x20, 0x00, &[0; V2_BYTES]),
        ] {
            assert_eq!(Start::of(&binary), Start::Malformed, "{binary:?}");
        }
    }

    #[test]
    fn everything_else_is_the_client_s_own() {
        for other in
            ["GET / HTTP/1.1\r\n", "PROPFIND / HTTP/1.1", "PRI * HTTP/2.0", "\r\n\r\nGET /", "\u{16}\u{3}\u{1}"]
        {
            assert_eq!(Start::of(other.as_bytes()), Start::Other, "{other:?}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let start = prop::sample::select(vec![b"".to_vec(), V1.to_vec(), b"PROXY TCP4 ".to_vec(), V2.to_vec()]);
        let v2 =
            (prop::sample::select(vec![0x20, 0x21]), 0_u8..0x42, any::<u8>()).prop_map(|(a, b, c)| vec![a, b, 0, c]);
        let rest = prop::collection::vec(any::<u8>(), 0..300);
        (start, prop::option::of(v2), rest).prop_map(|(a, b, c)| [a, b.unwrap_or_default(), c].concat())
    }

    proptest! {
        #[test]
        fn more_bytes_never_change_what_was_decided(bytes in bytes(), more in prop::collection::vec(any::<u8>(), 0..20)) {
            let now = Start::of(&bytes);
            if !matches!(now, Start::Undecided | Start::Partial) {
                prop_assert_eq!(Start::of(&[&bytes[..], &more].concat()), now);
            }
            if let Start::Header { length, .. } = now {
                prop_assert!(length <= bytes.len() && length <= V2_BYTES);
            }
        }

        #[test]
        fn nothing_stays_undecided_beyond_the_longest_header(bytes in bytes()) {
            let long = [bytes, vec![b'x'; V2_BYTES]].concat();
            prop_assert!(!matches!(Start::of(&long), Start::Undecided | Start::Partial));
        }

        #[test]
        fn what_is_written_is_read(source in any::<SocketAddr>(), to in any::<SocketAddr>()) {
            prop_assume!(source.is_ipv4() == to.is_ipv4());
            let written = v2::Builder::with_addresses(v2::Version::Two | v2::Command::Proxy, v2::Protocol::Stream, (source, to));
            let written = written.build().unwrap();
            let Start::Header { source: Some(read), .. } = Start::of(&written) else { panic!("{written:?}") };
            prop_assert_eq!((read.ip(), read.port()), (source.ip(), source.port()));
            let kind = if source.is_ipv4() { "TCP4" } else { "TCP6" };
            let line = format!("PROXY {kind} {} {} {} {}\r\n", source.ip(), to.ip(), source.port(), to.port());
            prop_assert_eq!(Start::of(line.as_bytes()), Start::Header { length: line.len(), source: Some(read) });
        }
    }
}
