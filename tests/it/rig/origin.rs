//! An origin process and what it can be asked to do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Command as Program, Stdio};

use nix::sys::signal::Signal;
use nix::sys::socket::sockopt::ReuseAddr;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, bind, setsockopt, socket};
use tempfile::TempDir;

use super::process::Process;
use super::script::{Close, Command, Connection, Counts, Door, Reply, Request, Rule};
use super::{PATIENCE, eventually, ports};

/// A running origin, known by its name on rings and in answers (`x-origin`).
pub(crate) struct Origin {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    control: SocketAddr,
    process: Process,
    /// Its address while the process is dead.
    held: Option<OwnedFd>,
    folder: TempDir,
}

/// Starts an origin of this name.
pub(crate) fn origin(name: &str) -> Origin {
    Origin::start(name, &[])
}

/// Starts one that answers at every address of the loopback network (127.x.y.z), on one port.
pub(crate) fn everywhere(name: &str) -> Origin {
    Origin::start(name, &["--everywhere"])
}

/// Starts one on each of these loopback addresses (127.0.0.N), all on one port, named by address and port.
pub(crate) fn neighbours(numbers: &[u8]) -> Vec<Origin> {
    let ip = |number: &u8| Ipv4Addr::new(127, 0, 0, *number);
    let port = eventually("a port that is free at each address", || {
        let port = ports::listener().unwrap().local_addr().unwrap().port();
        let free = |number| TcpListener::bind((ip(number), port)).is_ok();
        numbers.iter().all(free).then_some(port)
    });
    let start = |number: &u8| {
        let address = SocketAddr::from((ip(number), port)).to_string();
        Origin::start(&address, &["--listen", &address])
    };
    numbers.iter().map(start).collect()
}

fn start(name: &str, more: &[&str], folder: &TempDir) -> (Process, SocketAddr, SocketAddr) {
    let mut program = Program::new(env!("CARGO_BIN_EXE_moorgate-test-origin"));
    program.args(["--with-parent", "--name", name]).args(more).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process::start(&format!("origin {name}"), &mut program, &folder.path().join("output"));
    let mut line = String::new();
    BufReader::new(process.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (data, control) = line.trim().split_once(' ').unwrap_or_else(|| panic!("origin {name} did not start"));
    (process, data.parse().unwrap(), control.parse().unwrap())
}

/// Keeps an address that nobody listens on (it refuses) for one who begins there again.
fn hold(address: SocketAddr) -> nix::Result<OwnedFd> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, ReuseAddr, &true)?;
    if let SocketAddr::V4(address) = address {
        bind(socket.as_raw_fd(), &SockaddrIn::from(address))?;
    }
    Ok(socket)
}

impl Origin {
    fn start(name: &str, more: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let (process, address, control) = start(name, more, &folder);
        Self { name: name.to_owned(), address, control, process, held: None, folder }
    }

    /// One command, one reply.
    pub(crate) fn tell(&self, command: &Command) -> Reply {
        let mut stream = TcpStream::connect_timeout(&self.control, PATIENCE).unwrap();
        stream.set_read_timeout(Some(PATIENCE * 2)).unwrap();
        let mut text = serde_json::to_vec(command).unwrap();
        text.push(b'\n');
        stream.write_all(&text).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        let reply = serde_json::from_str(&line).unwrap();
        if let Reply::Mistake(mistake) = &reply {
            panic!("origin {}: {mistake}", self.name);
        }
        reply
    }

    /// These rules instead of all others.
    pub(crate) fn script(&self, rules: impl IntoIterator<Item = Rule>) {
        self.tell(&Command::Rules(rules.into_iter().collect()));
    }

    /// Everything it saw, connection by connection.
    pub(crate) fn seen(&self) -> Vec<Connection> {
        match self.tell(&Command::Seen) {
            Reply::Seen(seen) => seen,
            other => panic!("{other:?}"),
        }
    }

    /// The requests it saw, probes (`/healthz`) left out.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let all = self.seen().into_iter().flat_map(|connection| connection.requests);
        let mut requests: Vec<Request> = all.filter(|request| !request.line.contains(" /healthz ")).collect();
        requests.sort_by_key(|request| request.nth);
        requests
    }

    pub(crate) fn counts(&self) -> Counts {
        match self.tell(&Command::Counts) {
            Reply::Counts(counts) => counts,
            other => panic!("{other:?}"),
        }
    }

    /// How many requests it saw, probes (`/healthz`) left out.
    pub(crate) fn served(&self) -> u64 {
        let counts = self.counts();
        counts.requests - counts.by_path.get("/healthz").copied().unwrap_or(0)
    }

    pub(crate) fn forget(&self) {
        self.tell(&Command::Forget);
    }

    /// Waits until that many requests for a path were seen.
    pub(crate) fn await_requests(&self, path: &str, count: u64) {
        let within_ms = u64::try_from(PATIENCE.as_millis()).unwrap();
        let reply = self.tell(&Command::AwaitRequests { path: Some(path.to_owned()), count, within_ms });
        assert!(matches!(reply, Reply::Done), "origin {}: no {count} requests for {path}", self.name);
    }

    /// Waits until that many requests stand at a barrier.
    pub(crate) fn await_held(&self, name: &str, count: u64) {
        let within_ms = u64::try_from(PATIENCE.as_millis()).unwrap();
        let reply = self.tell(&Command::AwaitHeld { name: name.to_owned(), count, within_ms });
        assert!(matches!(reply, Reply::Done), "origin {}: no {count} requests at `{name}`", self.name);
    }

    pub(crate) fn release(&self, name: &str) {
        self.tell(&Command::Release(name.to_owned()));
    }

    /// Refuses connections from now on, or serves again.
    pub(crate) fn door(&self, door: Door) {
        self.tell(&Command::Door(door));
    }

    pub(crate) fn close_idle(&self, how: Close) {
        self.tell(&Command::CloseIdle(how));
    }

    pub(crate) fn idle_close(&self, after_ms: Option<u64>) {
        self.tell(&Command::IdleClose(after_ms));
    }

    /// Stops the process where it is (`SIGSTOP`): the kernel still accepts for it.
    pub(crate) fn freeze(&self) {
        self.process.signal(Signal::SIGSTOP);
    }

    pub(crate) fn thaw(&self) {
        self.process.signal(Signal::SIGCONT);
    }

    /// Kills the process; its port refuses, and stays its own.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
        self.held = Some(hold(self.address).unwrap());
    }

    /// A new process at the same address, which knows nothing of the old one's rules.
    pub(crate) fn restart(&mut self) {
        self.process.kill();
        (self.process, self.address, self.control) =
            start(&self.name, &["--listen", &self.address.to_string()], &self.folder);
        self.held = None;
    }
}
