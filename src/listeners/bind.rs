//! Which sockets do we listen on? Bound before anything is announced, so that a taken address is an error of the start.

use std::io;
use std::iter;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind as bind_to, listen, setsockopt, socket, sockopt,
};

use crate::config::client::ProxyProtocol;
use crate::config::process::Listener;

/// A listening socket.
#[derive(Debug)]
pub struct Bound {
    pub(super) socket: TcpListener,
    /// As configured: its port may be 0.
    pub(super) address: SocketAddr,
    pub(super) h2c: bool,
    pub(super) proxy_protocol: ProxyProtocol,
    /// Its number, if it speaks TLS.
    pub(super) tls: Option<usize>,
    /// Origins are told of clients' certificates, by any listener.
    pub(super) names_clients: bool,
}

impl Bound {
    /// The address the socket has: with the port the kernel chose, if 0 was written.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The socket once more, for somebody else.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone().map(OwnedFd::from)
    }
}

/// An address that could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}")]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// Why.
    pub cause: io::Error,
}

/// Binds all `listeners`, or none. `handed`: in their order, the sockets that listen for them already.
///
/// # Errors
/// The first address that cannot be bound.
pub fn bind(listeners: &[Listener], handed: Vec<Option<TcpListener>>) -> Result<Vec<Bound>, BindError> {
    let names_clients = listeners.iter().any(|one| one.tls.on().is_some_and(|tls| tls.client_headers));
    let one = |(number, (listener, handed)): (usize, (&Listener, Option<TcpListener>))| {
        let bind = || open(listener.address, only_v6(listener.address, listeners));
        let socket = handed.map_or_else(bind, Ok);
        let socket = socket.map_err(|e| BindError { address: listener.address, cause: e.into() })?;
        let Listener { address, h2c, proxy_protocol, ref tls } = *listener;
        Ok(Bound { socket, address, h2c, proxy_protocol, tls: tls.on().map(|_| number), names_clients })
    };
    listeners.iter().zip(handed.into_iter().chain(iter::repeat_with(|| None))).enumerate().map(one).collect()
}

/// `[::]` takes IPv4 clients too, unless a listener of its own has that port.
fn only_v6(address: SocketAddr, all: &[Listener]) -> bool {
    all.iter().any(|other| other.address.is_ipv4() && other.address.port() == address.port())
}

fn open(address: SocketAddr, only_v6: bool) -> nix::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(family, SockType::Stream, flags, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    if address.is_ipv6() {
        setsockopt(&fd, sockopt::Ipv6V6Only, &only_v6)?;
    }
    bind_to(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
    // as long a queue as `net.core.somaxconn` allows
    listen(&fd, Backlog::MAXALLOWABLE)?;
    Ok(TcpListener::from(fd))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::units::Off;

    fn listener(address: &str) -> Listener {
        Listener { address: address.parse().unwrap(), h2c: false, proxy_protocol: ProxyProtocol::Off, tls: Off::Off }
    }

    #[test]
    fn a_taken_address_is_named() {
        let first = bind(&[listener("127.0.0.1:0")], Vec::new()).unwrap();
        let taken = first[0].local().unwrap();
        let error = bind(&[listener(&taken.to_string())], Vec::new()).unwrap_err();
        assert!(error.to_string().starts_with(&format!("cannot listen on {taken}: ")), "{error}");
    }

    #[test]
    fn what_was_handed_over_is_not_bound_again() {
        let handed = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = handed.local_addr().unwrap();
        let all = [listener("127.0.0.1:0"), listener(&address.to_string())];
        let bound = bind(&all, vec![None, Some(handed)]).unwrap();
        assert_eq!(bound[1].local().unwrap(), address);
        assert_ne!(bound[0].local().unwrap(), address);
    }

    #[test]
    fn v4_and_v6_may_have_a_port_each() {
        let v4 = bind(&[listener("0.0.0.0:0")], Vec::new()).unwrap();
        let port = v4[0].local().unwrap().port();
        drop(v4);
        let both = [listener(&format!("[::]:{port}")), listener(&format!("0.0.0.0:{port}"))];
        // the port may be taken by somebody else meanwhile, but then not with one of the two alone
        match bind(&both, Vec::new()) {
            Ok(bound) => assert_eq!(bound.len(), 2),
            Err(error) => assert_eq!(error.address, both[0].address, "{error}"),
        }
    }
}
