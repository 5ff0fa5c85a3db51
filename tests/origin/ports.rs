//! Which port is free, and stays free of strangers?
//!
//! Ports are taken below the range the kernel deals out to clients: a port of ours that is closed for a while is
//! then never dealt to somebody's outgoing connection, and nobody can be connected to himself on it. A socket bound
//! to it is the reservation, whether it listens or not: ports are looked for without `SO_REUSEADDR`, which would let
//! two share one that nobody listens on just then.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;

use nix::sys::socket::sockopt::ReuseAddr;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrIn, bind, listen, setsockopt, socket};

pub(crate) const BACKLOG: i32 = 1024;

/// A listener on a loopback port nobody else has.
pub(crate) fn listener() -> io::Result<TcpListener> {
    bound(alone)
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

/// A listener on this port, if nobody has it.
pub(crate) fn alone(port: u16) -> io::Result<TcpListener> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    bind(socket.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, port))?;
    // Whoever begins again at this address is not kept out by what is left of its connections.
    setsockopt(&socket, ReuseAddr, &true)?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    Ok(TcpListener::from(socket))
}
