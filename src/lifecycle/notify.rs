//! What does the service manager know of us? Ready, reloading, leaving, in systemd's notification protocol: one datagram
//! to the socket that `NOTIFY_SOCKET` names.
//!
//! Written here because the standard library has all of it, abstract addresses included. Always: a manager that does not
//! listen holds nobody up, and nothing depends on its having heard.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A manager whose queue is full is waited for so long.
const PATIENCE: Duration = Duration::from_secs(1);

/// The service manager, if there is one.
#[derive(Debug, Clone, Default)]
pub struct Manager(Option<Arc<UnixDatagram>>);

impl Manager {
    /// Whom the environment names.
    pub fn of_environment() -> Self {
        let Some(address) = env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else {
            return Self(None);
        };
        let address = address.to_string_lossy();
        Self::at(&address).unwrap_or_else(|error| {
            log::warn!("NOTIFY_SOCKET {address}: {error}; the service manager is not told anything");
            Self(None)
        })
    }

    /// Listening at this path, or abstract address behind `@`.
    fn at(address: &str) -> io::Result<Self> {
        let to = match address.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(address)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.connect_addr(&to)?;
        Ok(Self(Some(Arc::new(socket))))
    }

    /// Requests are welcome.
    pub(super) fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// A reload begins; [`Manager::ready`] ends it.
    pub(super) fn reloading(&self) {
        // by this clock the manager knows that it was not the reload before
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.as_micros()));
    }

    /// The process leaves.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=draining");
    }

    /// From now on `pid` is the process to look at: the one that took over. Said by the one that was, whom the manager
    /// believes.
    pub fn succeeded_by(&self, pid: u32) {
        self.tell(&format!("MAINPID={pid}"));
    }

    fn tell(&self, text: &str) {
        let Some(socket) = &self.0 else { return };
        if let Err(error) = socket.send(text.as_bytes()) {
            log::warn!("the service manager was not told {:?}: {error}", text.lines().next().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(socket: &UnixDatagram) -> String {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut text = [0; 500];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8(text[..length].to_vec()).unwrap()
    }

    #[test]
    fn paths_and_abstract_addresses_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify").display().to_string();
        let abstract_name = format!("moorgate-test-{}", std::process::id());
        let at_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
        for (socket, address) in [(UnixDatagram::bind(&path).unwrap(), path), (at_name, format!("@{abstract_name}"))] {
            let manager = Manager::at(&address).unwrap();
            manager.ready("well");
            assert_eq!(heard(&socket), "READY=1\nSTATUS=well");
            manager.stopping();
            assert_eq!(heard(&socket), "STOPPING=1\nSTATUS=draining");
            manager.succeeded_by(12);
            assert_eq!(heard(&socket), "MAINPID=12");
        }
    }

    #[test]
    fn a_reload_says_when_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = Manager::at(&path.display().to_string()).unwrap();
        let clock = || Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap()).as_micros();
        let before = clock();
        manager.reloading();
        let said = heard(&socket);
        let began = said.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap().parse::<u128>().unwrap();
        assert!((before..=clock()).contains(&began), "{said}");
    }

    #[test]
    fn a_manager_that_is_gone_or_never_was_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify").display().to_string();
        assert!(Manager::at(&path).is_err());
        let socket = UnixDatagram::bind(&path).unwrap();
        let manager = Manager::at(&path).unwrap();
        drop(socket);
        manager.ready("well");
        Manager::default().stopping();
    }
}
