//! Which sockets that listen already were handed to us, and for which of our addresses are they?
//!
//! A service manager hands them over (socket activation), the generation before (an upgrade), or the supervisor (after a
//! crash): clients that wait in their queues notice nothing of the change. Always: each is a TCP socket that listens, or
//! none is taken; each is non-blocking and closed on exec from then on; one that no address is for is closed before
//! anything is bound, so that nobody waits in a queue that is never served.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockType, SockaddrLike, SockaddrStorage, getsockname, getsockopt, sockopt};

/// Sockets that listen, of which nobody has said yet what for.
#[derive(Debug, Default)]
pub struct Handed(Vec<Socket>);

#[derive(Debug)]
struct Socket {
    name: String,
    listener: TcpListener,
    local: SocketAddr,
    only_v6: bool,
}

/// A descriptor nothing can be accepted from.
#[derive(Debug, thiserror::Error)]
#[error("{name}, which was handed over, {unfit}; a listener takes a TCP socket that listens")]
pub struct HandedError {
    /// What it was called.
    pub name: String,
    /// Why it does not do.
    pub unfit: Unfit,
}

/// Why a descriptor is no socket of a listener.
#[derive(Debug)]
pub enum Unfit {
    /// A file, a pipe.
    NoSocket,
    /// UDP and the like.
    NoStream,
    /// Connected, or not yet listening.
    NotListening,
    /// A Unix socket and the like.
    NoAddress,
    /// The system says no.
    System(io::Error),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSocket => "is no socket",
            Self::NoStream => "is a socket of datagrams or packets",
            Self::NotListening => "does not listen",
            Self::NoAddress => "has no IP address",
            Self::System(error) => return write!(f, "cannot be used ({error})"),
        })
    }
}

impl From<Errno> for Unfit {
    fn from(errno: Errno) -> Self {
        if errno == Errno::ENOTSOCK { Self::NoSocket } else { Self::System(errno.into()) }
    }
}

impl Handed {
    /// Takes descriptors over, each with the name it is called by in what is said of it.
    ///
    /// # Errors
    /// The first that is no TCP socket that listens.
    pub fn new(sockets: impl IntoIterator<Item = (String, OwnedFd)>) -> Result<Self, HandedError> {
        let take = |(name, fd)| match Socket::known(fd) {
            Ok((listener, local, only_v6)) => Ok(Socket { name, listener, local, only_v6 }),
            Err(unfit) => Err(HandedError { name, unfit }),
        };
        sockets.into_iter().map(take).collect::<Result<_, _>>().map(Self)
    }

    /// For each of `addresses` the socket that was handed over for it, if any; closes the others.
    pub fn claim(mut self, addresses: &[SocketAddr]) -> Vec<Option<TcpListener>> {
        let mut claimed: Vec<Option<TcpListener>> = addresses.iter().map(|_| None).collect();
        // the exact one first, so that nobody takes what is somebody else's
        for is_for in [Socket::has, Socket::covers, Socket::has_ip_of] {
            let missing = claimed.iter_mut().zip(addresses).filter(|(found, _)| found.is_none());
            for (found, address) in missing {
                let Some(at) = self.0.iter().position(|socket| is_for(socket, *address)) else { continue };
                *found = Some(self.0.remove(at).taken_for(*address, addresses));
            }
        }
        for Socket { name, local, .. } in self.0 {
            log::warn!("{local} ({name}) was handed over, and no listener has that address: closed");
        }
        claimed
    }
}

impl Socket {
    fn known(fd: OwnedFd) -> Result<(TcpListener, SocketAddr, bool), Unfit> {
        fcntl(&fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        if getsockopt(&fd, sockopt::SockType)? != SockType::Stream {
            return Err(Unfit::NoStream);
        }
        let Some(local) = local(&fd)? else { return Err(Unfit::NoAddress) };
        if !getsockopt(&fd, sockopt::AcceptConn)? {
            return Err(Unfit::NotListening);
        }
        let only_v6 = local.is_ipv6() && getsockopt(&fd, sockopt::Ipv6V6Only)?;
        let listener = TcpListener::from(fd);
        listener.set_nonblocking(true).map_err(Unfit::System)?;
        Ok((listener, local, only_v6))
    }

    fn has(&self, address: SocketAddr) -> bool {
        self.local == address
    }

    /// `[::]:80` takes the clients of `0.0.0.0:80` too: what systemd makes of `ListenStream=80`.
    fn covers(&self, address: SocketAddr) -> bool {
        let any = address.is_ipv4() && address.ip().is_unspecified() && self.local.ip().is_unspecified();
        any && self.local.is_ipv6() && !self.only_v6 && self.local.port() == address.port()
    }

    /// Any port will do where 0 is written.
    fn has_ip_of(&self, address: SocketAddr) -> bool {
        address.port() == 0 && self.local.ip() == address.ip()
    }

    fn taken_for(self, address: SocketAddr, all: &[SocketAddr]) -> TcpListener {
        let has_v4 = all.iter().any(|other| other.is_ipv4() && other.port() == address.port());
        if self.only_v6 && address.ip().is_unspecified() && !has_v4 {
            log::warn!("{address} ({}) was handed over for IPv6 alone: nobody serves IPv4 there", self.name);
        }
        self.listener
    }
}

/// The IP address a socket is bound to, if it has one.
fn local(fd: &impl AsFd) -> Result<Option<SocketAddr>, Errno> {
    use std::os::fd::AsRawFd;
    let found: SockaddrStorage = getsockname(fd.as_fd().as_raw_fd())?;
    Ok(match found.family() {
        Some(AddressFamily::Inet) => found.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into())),
        Some(AddressFamily::Inet6) => found.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;

    use nix::fcntl::OFlag;

    use super::*;

    /// A listener at `address`, and where.
    fn listening(address: &str) -> (OwnedFd, SocketAddr) {
        let socket = TcpListener::bind(address).unwrap();
        let local = socket.local_addr().unwrap();
        (socket.into(), local)
    }

    fn handed(sockets: Vec<OwnedFd>) -> Handed {
        let named = sockets.into_iter().enumerate().map(|(n, fd)| (format!("socket {n}"), fd));
        Handed::new(named).unwrap()
    }

    fn claimed(handed: Handed, addresses: &[SocketAddr]) -> Vec<Option<SocketAddr>> {
        let found = handed.claim(addresses);
        found.iter().map(|one| Some(one.as_ref()?.local_addr().unwrap())).collect()
    }

    #[test]
    fn each_address_gets_its_socket_and_the_rest_is_closed() {
        let ((a, at_a), (b, at_b), (c, at_c)) =
            (listening("127.0.0.1:0"), listening("127.0.0.1:0"), listening("[::1]:0"));
        let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
        let found = claimed(handed(vec![a, b, c]), &[at_c, nobody, at_a]);
        assert_eq!(found, [Some(at_c), None, Some(at_a)]);
        assert!(TcpStream::connect(at_b).is_err(), "a queue nobody serves");
    }

    #[test]
    fn an_exact_match_comes_before_any_other() {
        let ((a, at_a), (b, at_b)) = (listening("127.0.0.1:0"), listening("127.0.0.1:0"));
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        assert_eq!(claimed(handed(vec![a, b]), &[any, at_a]), [Some(at_b), Some(at_a)]);
        let (c, at_c) = listening("127.0.0.1:0");
        assert_eq!(claimed(handed(vec![c]), &[any, any]), [Some(at_c), None], "each socket once");
    }

    #[test]
    fn a_socket_of_both_families_does_for_ipv4() {
        let (both, at) = listening("[::]:0");
        let v4 = SocketAddr::from(([0, 0, 0, 0], at.port()));
        assert_eq!(claimed(handed(vec![both.try_clone().unwrap()]), &[v4]), [Some(at)]);
        assert_eq!(claimed(handed(vec![both]), &[v4, at]), [None, Some(at)], "unless it is somebody's own");
        let (v4_alone, at) = listening("0.0.0.0:0");
        let both = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, at.port()));
        assert_eq!(claimed(handed(vec![v4_alone]), &[both]), [None], "not the other way round");
    }

    #[test]
    fn what_is_taken_neither_blocks_nor_goes_to_children() {
        let (fd, at) = listening("127.0.0.1:0");
        fcntl(&fd, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        let taken = handed(vec![fd]).claim(&[at]).remove(0).unwrap();
        let flags = |what| fcntl(&taken, what).unwrap();
        assert!(FdFlag::from_bits_retain(flags(FcntlArg::F_GETFD)).contains(FdFlag::FD_CLOEXEC));
        assert!(OFlag::from_bits_retain(flags(FcntlArg::F_GETFL)).contains(OFlag::O_NONBLOCK));
    }

    #[test]
    fn whatever_cannot_be_accepted_from_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |fd: OwnedFd| Handed::new([("http".to_owned(), fd)]).unwrap_err().to_string();
        let (listener, at) = listening("127.0.0.1:0");
        let says = |what| format!("http, which was handed over, {what}; a listener takes a TCP socket that listens");
        assert_eq!(refused(tempfile::tempfile().unwrap().into()), says("is no socket"));
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(refused(udp.into()), says("is a socket of datagrams or packets"));
        let unix = UnixListener::bind(folder.path().join("s")).unwrap();
        assert_eq!(refused(unix.into()), says("has no IP address"));
        assert_eq!(refused(TcpStream::connect(at).unwrap().into()), says("does not listen"));
        drop(listener);
    }
}
