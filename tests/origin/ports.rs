//! Which port is free, and stays free of strangers?
//!
//! Ports are taken below the range the kernel deals out to clients: a port of ours that is closed for a while is
//! then never dealt to somebody's outgoing connection, and nobody can be connected to himself on it. The listener
//! itself is the reservation.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// A listener on a loopback port nobody else has.
pub(crate) fn listener() -> io::Result<TcpListener> {
    bound(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)))
}

/// A listener on a port that `bind` could have.
pub(crate) fn bound(bind: impl Fn(u16) -> io::Result<TcpListener>) -> io::Result<TcpListener> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first_dealt = range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0);
    if first_dealt > 12_000 {
        for _ in 0..64 {
            if let Ok(listener) = bind(fastrand::u16(10_000..first_dealt)) {
                return Ok(listener);
            }
        }
    }
    bind(0)
}
