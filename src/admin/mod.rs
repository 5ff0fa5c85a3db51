//! The admin address and the control socket: how the process is asked what it does, and told to reload.
//!
//! Served on a thread of its own until the process exits, draining or not. What is asked is answered by closures
//! ([`Gateway`]), so that this room neither knows who is ready nor who writes snapshots.

mod answer;
mod certificates;
mod crowd;
mod forward;
mod page;
mod query;
mod recent;
mod restore;
mod sample;
mod serve;
mod socket;
mod splits;
mod status;
mod turn;
mod view;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::config::Process;
use crate::config::units::Off;
use crate::lifecycle::handoff::give::Outcome;
use crate::lifecycle::handoff::message::Given;
use crate::lifecycle::{ReloadOutcome, Wish};
pub use certificates::{CertificateStatus, show_certificates};
use restore::Claimed;
pub use restore::MadeAnew;
pub use sample::{PoolSample, Sampled, SampledKey};
use socket::Claim;
pub use socket::{SocketError, default_path};
pub use splits::{ShareStatus, SplitStatus};
pub use status::{
    CacheStatus, ConfigStatus, KeyStatus, KeysStatus, OriginStatus, PoolStatus, ProbeStatus, RecentStatus, RingStatus,
    Status, StepsStatus, UpgradeStatus, WeightStatus,
};
use turn::{Turn, Whose};
pub use view::show;

/// Tells the recent keys of this pool, or of all.
pub type Samples = dyn Fn(Option<&str>) -> Sampled + Send + Sync;

/// An answer that is still being worked out.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the rest of the process answers, each in a moment except for a change.
pub struct Gateway {
    /// Is it ready for requests, and if not, why? Asking counts: a lame duck waits for who asks.
    pub ready: Box<dyn Fn() -> Result<(), &'static str> + Send + Sync>,
    /// All metrics as text.
    pub metrics: Box<dyn Fn() -> Result<String, String> + Send + Sync>,
    /// What `/status` shows.
    pub status: Box<dyn Fn() -> Status + Send + Sync>,
    /// The configuration in force, every default filled in.
    pub config: Box<dyn Fn() -> String + Send + Sync>,
    /// The recent keys of this pool, or of all.
    pub sample: Box<Samples>,
    /// The path of the control socket.
    pub socket: Option<PathBuf>,
    /// Somebody at the control socket wants to take over.
    pub handoff: Box<dyn Fn(UnixStream) + Send + Sync>,
    /// The control socket was made anew.
    pub made_anew: Box<MadeAnew>,
    /// Starts this program, or that of the process, to take over, and tells how that ended.
    pub upgrade: Arc<dyn Fn(Option<PathBuf>) -> Later<Outcome> + Send + Sync>,
    /// Has the process leave, in peace.
    pub leave: Box<dyn Fn() + Send + Sync>,
    /// Has another configuration come into force.
    pub change: Arc<dyn Fn(Wish) -> Later<ReloadOutcome> + Send + Sync>,
}

/// Where it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The admin address, if there is one.
    pub address: Option<SocketAddr>,
    /// The control socket.
    pub socket: SocketPlace,
}

/// Where the control socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketPlace {
    /// Nowhere.
    Off,
    /// At the default path of the user; a folder that cannot be written is no reason not to start.
    Default,
    /// Here.
    At(PathBuf),
}

impl Settings {
    /// As the `process` section says.
    pub fn of(process: &Process) -> Self {
        let socket = match &process.control_socket {
            None => SocketPlace::Default,
            Some(Off::Off) => SocketPlace::Off,
            Some(Off::On(path)) => SocketPlace::At(path.clone()),
        };
        Self { address: process.admin.on().map(|admin| admin.address), socket }
    }
}

/// Why nobody can be asked.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The admin address cannot be had.
    #[error("admin address {address}: {cause}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// Why.
        cause: io::Error,
    },
    /// The control socket cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The thread cannot be started.
    #[error("admin: {0}")]
    Thread(io::Error),
}

/// Sockets that are taken and not yet served.
#[derive(Debug)]
pub struct Bound {
    network: Option<TcpListener>,
    local: Option<(Claim, UnixListener)>,
}

/// What another process handed over.
#[derive(Debug, Default)]
pub struct Inherited {
    /// The socket of the admin address.
    pub network: Option<TcpListener>,
    /// The control socket, and a path that leads to it.
    pub local: Option<(PathBuf, OwnedFd)>,
}

impl Bound {
    /// Takes the admin address and the control socket, each unless it was `inherited`; who asks has to wait until
    /// [`Bound::serve`].
    pub fn new(settings: &Settings, inherited: Inherited) -> Result<Self, StartError> {
        let local = match (&settings.socket, inherited.local) {
            (SocketPlace::Off, _) => None,
            (SocketPlace::At(path), inherited) => Some(claim(path, inherited)?),
            (SocketPlace::Default, inherited) => at_default_path(inherited)?,
        };
        let network = match (settings.address, inherited.network) {
            (Some(_), Some(listener)) => Some(listener),
            (address, _) => address.map(listen).transpose()?,
        };
        Ok(Self { network, local })
    }

    /// The path of the control socket.
    pub fn socket(&self) -> Option<&Path> {
        self.local.as_ref().map(|(claim, _)| claim.path())
    }

    /// Each socket once more, for another process.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn share(&self) -> io::Result<Vec<(Given, OwnedFd)>> {
        let mut all = Vec::new();
        if let Some(listener) = &self.network {
            all.push((Given::Admin(listener.local_addr()?.to_string()), listener.try_clone()?.into()));
        }
        if let Some((claim, listener)) = &self.local {
            all.push((Given::Control(claim.path().display().to_string()), listener.try_clone()?.into()));
        }
        Ok(all)
    }

    /// Is the control socket one that was inherited?
    pub fn inherits_socket(&self) -> bool {
        self.local.as_ref().is_some_and(|(claim, _)| !claim.ours())
    }

    /// The admin address, its port known.
    pub fn address(&self) -> Option<SocketAddr> {
        self.network.as_ref()?.local_addr().ok()
    }

    /// Another descriptor of the socket of the admin address, if there is one.
    pub fn duplicate(&self) -> Option<io::Result<OwnedFd>> {
        Some(self.network.as_ref()?.try_clone().map(OwnedFd::from))
    }

    /// Answers on a thread of its own until the answer is dropped; from the start, or when it is `open`ed.
    pub fn serve(self, gateway: Gateway, open: bool) -> Result<Admin, StartError> {
        let turn = Turn::new(if open { Whose::Ours } else { Whose::Nobodys });
        let gateway = Arc::new(gateway);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
        let (claim, local) = self.local.unzip();
        let claim = Claimed::new(Mutex::new(claim));
        if let Some(listener) = self.network {
            listener.set_nonblocking(true).map_err(StartError::Thread)?;
            let _inside = runtime.enter();
            let listener = tokio::net::TcpListener::from_std(listener).map_err(StartError::Thread)?;
            runtime.spawn(serve::network(listener, turn.clone(), Arc::clone(&gateway)));
        }
        if let Some(listener) = local {
            let _inside = runtime.enter();
            let served = restore::answer(listener, &turn, &gateway).map_err(StartError::Thread)?;
            runtime.spawn(restore::keep(served, claim.clone(), turn.clone(), gateway));
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("admin".into()).spawn(move || {
            // Ends by an error: nobody ever sends.
            let _ = runtime.block_on(stopped);
        });
        Ok(Admin { stop: Some(stop), thread: Some(thread.map_err(StartError::Thread)?), turn, claim })
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).map_err(|cause| StartError::Address { address, cause })
}

/// Listens at `path`, or goes on with what was inherited if it is the same socket.
fn claim(path: &Path, inherited: Option<(PathBuf, OwnedFd)>) -> Result<(Claim, UnixListener), SocketError> {
    match inherited.filter(|(leads, _)| socket::is_same(leads, path)) {
        Some((_, listener)) => Ok((Claim::inherited(path)?, UnixListener::from(listener))),
        None => Claim::new(path),
    }
}

fn at_default_path(inherited: Option<(PathBuf, OwnedFd)>) -> Result<Option<(Claim, UnixListener)>, StartError> {
    let Some(path) = default_path() else {
        log::info!("no control socket: neither root nor XDG_RUNTIME_DIR");
        return Ok(None);
    };
    match claim(&path, inherited) {
        Err(error @ SocketError::System { .. }) => {
            log::warn!("no control socket: {error}");
            Ok(None)
        }
        claimed => Ok(Some(claimed?)),
    }
}

/// The admin room at work. Dropping it closes its sockets and removes the control socket.
#[derive(Debug)]
pub struct Admin {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    turn: Turn,
    claim: Claimed,
}

impl Admin {
    /// Accepts nobody for a moment.
    pub fn hold(&self) {
        self.turn.is(Whose::Nobodys);
    }

    /// Is nobody accepted?
    pub fn rests(&self) -> bool {
        self.turn.rests()
    }

    /// Accepts (again); the path of the control socket is this process's.
    pub fn open(&mut self) {
        self.claim.lock().iter_mut().for_each(|claim| claim.is_ours(true));
        self.turn.is(Whose::Ours);
    }

    /// Another process accepts where this one did, and keeps the control socket or not.
    pub fn pass_on(&mut self, keeps_socket: bool) {
        self.claim.lock().iter_mut().for_each(|claim| claim.is_ours(!keeps_socket));
        self.turn.is(Whose::Theirs);
    }

    /// It does so for good: the sockets close here.
    pub fn leave_it(&self) {
        self.turn.is(Whose::Passed);
    }

    /// Removes the control socket, for an exit that drops nothing.
    pub fn remove_socket(&mut self) {
        *self.claim.lock() = None;
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.stop = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the admin thread had panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::lifecycle::InForce;

    fn gateway() -> Gateway {
        Gateway {
            ready: Box::new(|| Ok(())),
            handoff: Box::new(|_| ()),
            made_anew: Box::new(|_| ()),
            socket: None,
            upgrade: Arc::new(|_| Box::pin(async { Err("nobody to start".to_owned()) })),
            metrics: Box::new(|| Ok("moorgate_generation 1\n".into())),
            status: Box::new(Status::default),
            config: Box::new(|| "version: 1\n".into()),
            sample: Box::new(|_| Sampled::default()),
            leave: Box::new(|| ()),
            change: Arc::new(|_| Box::pin(async { ReloadOutcome::Unchanged(InForce::default()) })),
        }
    }

    fn start(folder: &tempfile::TempDir) -> (Admin, SocketAddr, PathBuf) {
        let path = folder.path().join("control.sock");
        let settings = Settings { address: Some(([127, 0, 0, 1], 0).into()), socket: SocketPlace::At(path.clone()) };
        let bound = Bound::new(&settings, Inherited::default()).unwrap();
        let address = bound.address().unwrap();
        (bound.serve(gateway(), true).unwrap(), address, path)
    }

    fn exchange(mut stream: impl Read + Write, request: &str) -> String {
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn tcp(address: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    #[test]
    fn both_doors_answer() {
        let folder = tempfile::tempdir().unwrap();
        let (_admin, address, path) = start(&folder);
        let ask = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        for answer in [exchange(tcp(address), ask), exchange(UnixStream::connect(&path).unwrap(), ask)] {
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.ends_with("\r\n\r\nmoorgate_generation 1\n"), "{answer}");
            assert!(!answer.to_lowercase().contains("pingora"), "{answer}");
        }
    }

    #[test]
    fn a_reload_is_asked_for_and_answered() {
        let folder = tempfile::tempdir().unwrap();
        let (_admin, _, path) = start(&folder);
        let ask = "POST /reload HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let answer = exchange(UnixStream::connect(&path).unwrap(), ask);
        assert!(answer.contains("\"result\":\"unchanged\""), "{answer}");
    }

    #[test]
    fn a_control_socket_that_was_removed_is_made_anew_and_one_of_somebody_else_s_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (admin, _, path) = start(&folder);
        let ask = "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let again = || {
            thread::sleep(Duration::from_millis(20));
            UnixStream::connect(&path).ok()
        };
        for _ in 0..2 {
            std::fs::remove_file(&path).unwrap();
            let stream = (0..1000).find_map(|_| again()).expect("it is back within twenty seconds");
            assert!(exchange(stream, ask).ends_with("ok\n"));
        }
        std::fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(admin);
        assert!(path.exists(), "the other's");
        drop(other);
    }

    #[test]
    fn a_connection_is_kept_for_the_next_request() {
        let folder = tempfile::tempdir().unwrap();
        let (_admin, address, _) = start(&folder);
        let two = "HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut stream = tcp(address);
        for _ in 0..3 {
            stream.write_all(two.as_bytes()).unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            assert!(String::from_utf8(head).unwrap().contains("200 OK"));
        }
    }

    #[test]
    fn nonsense_is_a_bad_request_without_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let (_admin, address, _) = start(&folder);
        let answer = exchange(tcp(address), "NONSENSE\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        assert!(!answer.to_lowercase().contains("pingora"), "{answer}");
    }

    #[test]
    fn silent_clients_do_not_keep_others_from_the_control_socket() {
        let folder = tempfile::tempdir().unwrap();
        let (_admin, address, path) = start(&folder);
        let _silent: Vec<_> = (0..100).map(|_| tcp(address)).collect();
        let ask = "GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        assert!(exchange(UnixStream::connect(&path).unwrap(), ask).ends_with("ok\n"));
        assert!(exchange(tcp(address), ask).ends_with("ok\n"));
    }

    #[test]
    fn silent_clients_that_come_again_and_again_keep_nobody_from_learning_that_all_is_well() {
        let folder = tempfile::tempdir().unwrap();
        let (_admin, address, _) = start(&folder);
        let mut silent: Vec<_> = (0..100).map(|_| tcp(address)).collect();
        for again in &mut silent {
            let client = tcp(address);
            // Less than a silent client is waited for.
            client.set_read_timeout(Some(serve::HEADER / 2)).unwrap();
            assert!(exchange(client, "GET /readyz HTTP/1.0\r\n\r\n").ends_with("ready\n"));
            *again = tcp(address);
        }
    }

    #[test]
    fn the_end_closes_the_doors() {
        let folder = tempfile::tempdir().unwrap();
        let (admin, address, path) = start(&folder);
        let _silent = tcp(address);
        drop(admin);
        assert!(!path.exists());
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn an_address_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let settings = Settings { address: Some(address), socket: SocketPlace::Off };
        let error = Bound::new(&settings, Inherited::default()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("admin address {address}: ")), "{error}");
    }
}
