//! Runs the gateway, from a file or from two arguments.
//!
//! Everything that can fail does so before the process says that it is ready: the file, the sockets, the logs, the
//! shards. Nothing is written to standard output unless the access log goes there.

use std::fmt;
use std::io;
use std::mem::take;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Instant, SystemTime};

use anyhow::{Context, anyhow};
use clap::Args;
use parking_lot::Mutex;
use serde_json::json;

use super::{ConfigFile, Exit};
use crate::admin::{self, Admin};
use crate::config::process::{self, Process};
use crate::config::units::{Auto, Off};
use crate::config::{self, Config, Loaded};
use crate::health::Prober;
use crate::lifecycle::kept::{self, Before, First, Instead};
use crate::lifecycle::reload::{self, Texts};
use crate::lifecycle::resolving::resolve_names;
use crate::lifecycle::signals::{self, Leaving};
use crate::lifecycle::supervise::Supervisor;
use crate::lifecycle::watch::{self, Look};
use crate::lifecycle::{self, By, Leave, Ledger, Manager, Readiness, Reloads, probing};
use crate::listeners::{self, Bound, Connections, Drain, Handed, Hooks, Listeners};
use crate::observe::access_log::{self, AccessLog, Format};
use crate::observe::{self, Metrics};
use crate::proxy::wire::Limits;
use crate::proxy::{Gateway, unheard};
use crate::snapshot::{ClientLimits, Snapshot, Store};

/// Runs the gateway
///
/// From a file, or without one from --listen and --origin. A signal ends it: TERM and QUIT in peace, INT or a second
/// TERM at once. HUP reloads the file, USR1 opens the logs anew.
#[derive(Args)]
pub(super) struct Run {
    #[command(flatten)]
    file: ConfigFile,
    /// Without a file: where to listen
    #[arg(long, value_name = "ADDRESS", requires = "origin", conflicts_with = "config")]
    listen: Vec<SocketAddr>,
    /// Without a file: where requests go
    #[arg(long, value_name = "ADDRESS", requires = "listen")]
    origin: Vec<String>,
    /// Without a file: the admin address; none if left out
    #[arg(long, value_name = "ADDRESS", requires = "listen")]
    admin: Option<SocketAddr>,
    /// Reload whenever the file changes
    #[arg(long, conflicts_with = "listen")]
    watch: bool,
    /// The folder of `process.state`, to be found even when the file is not
    #[arg(long, value_name = "FOLDER", conflicts_with = "listen")]
    state: Option<PathBuf>,
    /// Do not start with the text last served when the file cannot be
    #[arg(long, conflicts_with = "listen")]
    strict: bool,
}

impl Run {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        // before anything is opened: a number may only mean what it meant when the process began
        let sockets = lifecycle::activated()?;
        let (supervisor, held) = Supervisor::of_environment().context("the supervisor")?;
        let handed = Handed::new(sockets.into_iter().chain(held.sockets))?;
        let start = if self.listen.is_empty() {
            Start::with_file(self.file.path(), Before { state: self.state, last: held.last }, self.strict)?
        } else {
            Start::with_arguments(&self.text())?
        };
        let leaving = Leaving::default();
        let hear = |wishes| signals::hear(wishes, leaving.clone());
        let start = Start { watch: self.watch, handed, manager: Manager::of_environment(), ..start };
        start.supervised_by(supervisor).serve(&leaving, hear, |_| {})?;
        Ok(Exit::Done)
    }

    /// The file the arguments stand for.
    fn text(&self) -> String {
        let address = |address: &SocketAddr| json!({ "address": address });
        let process = json!({
            "listeners": self.listen.iter().map(address).collect::<Vec<_>>(),
            "admin": self.admin.as_ref().map_or(false.into(), address),
            "control_socket": false,
        });
        json!({ "version": 1, "process": process, "pools": { "origin": { "origins": self.origin } } }).to_string()
    }
}

/// Runs the gateway of `file` as a part of another command: deaf to signals, until `leaving` is told. `announce` learns
/// where it can be reached.
pub(super) fn inside(file: PathBuf, leaving: &Leaving, announce: impl FnOnce(Places)) -> anyhow::Result<()> {
    Start::with_file(file, Before::default(), false)?.serve(leaving, |_| Ok(()), announce)
}

/// What the file says, compiled; nothing is open yet.
struct Start {
    process: Process,
    texts: Texts,
    /// How the file was when it was read.
    look: Option<Look>,
    watch: bool,
    /// Sockets that listen already.
    handed: Handed,
    manager: Manager,
    store: Arc<Store>,
    ledger: Arc<Ledger>,
    metrics: Metrics,
    started: Instant,
}

impl Start {
    /// Reads the file, or what was last served in its place.
    fn with_file(file: PathBuf, before: Before, strict: bool) -> anyhow::Result<Self> {
        let (metrics, started, look) = (Metrics::new()?, now(), Look::at(&file));
        let compile = |config: &Config| Snapshot::compile(config, None, &metrics, started);
        let First { loaded, compiled, read, instead, refused, kept } = kept::first(&file, before, strict, compile)
            .map_err(|instead| match instead {
                Instead::Wrong(report) => anyhow::Error::new(report),
                Instead::Refused(_) => anyhow::Error::new(instead),
            })?;
        observe::log::init(loaded.config.process.log)?;
        if let Some(instead) = instead {
            instead.to_string().lines().for_each(|line| log::error!("{line}"));
            log::error!("serving the text that was served last");
        }
        let texts = Texts { file: Some(file), read, kept, ..Texts::default() };
        Ok(Self { look: Some(look), ..Self::new(loaded, compiled, (texts, refused), metrics, started) })
    }

    /// Takes arguments in place of a file.
    fn with_arguments(text: &str) -> anyhow::Result<Self> {
        let (metrics, started) = (Metrics::new()?, now());
        let compile = |config: &Config| Snapshot::compile(config, None, &metrics, started);
        let (loaded, compiled) = config::parse_with("arguments", text, compile)?;
        observe::log::init(loaded.config.process.log)?;
        Ok(Self::new(loaded, compiled, (Texts::default(), Vec::new()), metrics, started))
    }

    fn new(
        loaded: Loaded,
        compiled: Snapshot,
        (texts, refused): (Texts, Vec<String>),
        metrics: Metrics,
        started: Instant,
    ) -> Self {
        reload::warn(&loaded.warnings);
        let snapshot = compiled.read_from(&loaded);
        let ledger = Arc::new(Ledger::new(&snapshot, refused, SystemTime::now()));
        let (process, store) = (loaded.config.process, Arc::new(Store::new(snapshot)));
        let (handed, manager) = (Handed::default(), Manager::default());
        Self { process, texts, look: None, watch: false, handed, manager, store, ledger, metrics, started }
    }

    /// One who starts the next process if this one crashes.
    fn supervised_by(mut self, supervisor: Supervisor) -> Self {
        lifecycle::warn_of_engines(self.process.drain, supervisor.exists());
        self.texts.supervisor = supervisor;
        self
    }

    /// Serves until `leaving` is told; `announce` learns where, when all is open.
    fn serve(
        mut self,
        leaving: &Leaving,
        hear: impl FnOnce(signals::Wishes) -> io::Result<()>,
        announce: impl FnOnce(Places),
    ) -> anyhow::Result<()> {
        let descriptors = lifecycle::raise();
        let supervisor = self.texts.supervisor.clone();
        let (bound, admin) = open(&self.process, take(&mut self.handed))?;
        let held = duplicates(&bound, &admin, &supervisor)?;
        let shards = self.shards();
        let log = Arc::new(self.access_log(shards)?);
        let connections = Connections::new(lifecycle::max_connections(self.process.max_connections, descriptors));
        let readiness = Arc::new(Readiness::told_to(take(&mut self.manager), supervisor.clone()));
        let drain = Drain::default();
        let (prober, (reloads, inbox)) = (Arc::new(Prober::new()), lifecycle::wishes(readiness.clone()));
        let places = Places::of(&bound, &admin);
        let asked = self.asked(&readiness, (&reloads, leaving), &prober);
        let admin = Arc::new(Mutex::new(Some(admin.serve(asked)?)));
        hear(wished(reloads.clone(), &log, &admin))?;
        let hooks = (0..shards).map(|shard| self.hooks(&log, shard));
        let listeners = Listeners::start(bound, connections.clone(), drain.clone(), self.metrics.clone(), hooks)
            .context("cannot start the data plane")?;
        let published = Box::new({
            let prober = prober.clone();
            move || prober.ring()
        });
        let (store, ledger, metrics) = (self.store.clone(), self.ledger.clone(), self.metrics.clone());
        let mut work = vec![
            ("resolver", resolve_names(prober.clone(), self.store.clone(), reloads.clone(), &self.process.resolver)),
            ("prober", probing::probe_origins(prober, self.store.clone(), readiness.clone(), reloads.clone())),
        ];
        if let (true, Some(file), Some(look)) = (self.watch, self.texts.file.clone(), self.look) {
            work.push(("watcher", watch::follow(file, look, reloads)));
        }
        reload::Reloader::new(self.texts, store, ledger, metrics, published).start(inbox)?;
        supervisor.serving(held);
        log::info!("moorgate {}: {places}", env!("CARGO_PKG_VERSION"));
        announce(places);
        let (told, times) = (leaving.told(), self.process.drain);
        lifecycle::serve(listeners, work, Leave { told, readiness, connections, drain, times });
        log.close(access_log::FAREWELL);
        drop(admin.lock().take());
        log::info!("gone");
        Ok(())
    }

    /// What a shard serves with.
    fn hooks(&self, log: &AccessLog, shard: usize) -> Hooks<Gateway> {
        let proxy = Gateway::new(self.store.clone(), log.shard(shard), shard);
        let (limits, store, lines) = (self.store.clone(), self.store.clone(), log.shard(shard));
        let (callers, metrics) = (self.store.clone(), self.metrics.clone());
        Hooks {
            beside: Box::pin(proxy.watchdog().run()),
            proxy,
            limits: Box::new(move || client_limits(limits.load().client_limits())),
            unheard: Box::new(move |unheard| unheard::record(unheard, &store, &lines)),
            trust: Box::new(move |ip| callers.load().callers().trust(ip)),
            rejected: Box::new(move |reason| metrics.connection_rejected(reason)),
        }
    }

    /// What is asked at the admin address.
    fn asked(
        &self,
        readiness: &Arc<Readiness>,
        (reloads, leaving): (&Reloads, &Leaving),
        prober: &Arc<Prober>,
    ) -> admin::Gateway {
        let (metrics, [shown, store, running, sampled]) = (self.metrics.clone(), [(); 4].map(|()| self.store.clone()));
        let (readiness, reloads, prober, started) = (readiness.clone(), reloads.clone(), prober.clone(), self.started);
        let (ledger, leaving) = (self.ledger.clone(), leaving.clone());
        admin::Gateway {
            ready: Box::new(move || readiness.ask()),
            metrics: Box::new(move || {
                admin::show(&shown.load(), now());
                metrics.encode().map_err(|error| error.to_string())
            }),
            status: Box::new(move || admin::Status::of(&store.load(), &prober, &ledger, started, now())),
            config: Box::new(move || config::dump(running.load().config())),
            sample: Box::new(move |pool| admin::Sampled::of(&sampled.load(), pool, now())),
            leave: Box::new(move || _ = leaving.tell()),
            change: Arc::new(move |wish| {
                let reloads = reloads.clone();
                Box::pin(async move { reloads.grant(wish).await })
            }),
        }
    }

    fn shards(&self) -> usize {
        match self.process.threads {
            Auto::Auto => available_parallelism().map_or(1, usize::from),
            Auto::Fixed(threads) => threads.into(),
        }
    }

    fn access_log(&self, shards: usize) -> anyhow::Result<AccessLog> {
        let Off::On(process::AccessLog { path, format }) = &self.process.access_log else {
            return Ok(AccessLog::off());
        };
        let format = Format::compile(format).map_err(|invalid| anyhow!("process.access_log.format: {invalid}"))?;
        Ok(AccessLog::open(path, &format, shards, &self.metrics)?)
    }
}

/// Opens what clients and the admin address are served at, or takes what was handed over for it.
fn open(process: &Process, handed: Handed) -> anyhow::Result<(Vec<Bound>, admin::Bound)> {
    let settings = admin::Settings::of(process);
    let addresses = process.listeners.iter().map(|listener| listener.address).chain(settings.address);
    let mut handed = handed.claim(&addresses.collect::<Vec<_>>());
    let of_admin = settings.address.and_then(|_| handed.pop().flatten());
    Ok((listeners::bind(&process.listeners, handed)?, admin::Bound::new(&settings, of_admin)?))
}

/// What a supervisor holds, so that nobody is refused while the next process starts.
fn duplicates(bound: &[Bound], admin: &admin::Bound, supervisor: &Supervisor) -> io::Result<Vec<OwnedFd>> {
    if !supervisor.exists() {
        return Ok(Vec::new());
    }
    bound.iter().map(Bound::duplicate).chain(admin.duplicate()).collect()
}

/// What signals set off.
fn wished(reloads: Reloads, log: &Arc<AccessLog>, admin: &Arc<Mutex<Option<Admin>>>) -> signals::Wishes {
    let (log, admin) = (log.clone(), admin.clone());
    signals::Wishes {
        reload: Box::new(move || reloads.trigger(By::Signal)),
        reopen: Box::new(move || log.reopen()),
        farewell: Box::new(move || admin.lock().iter_mut().for_each(Admin::remove_socket)),
    }
}

/// Where it can be reached.
pub(super) struct Places {
    /// By clients.
    pub(super) listeners: Vec<SocketAddr>,
    /// The admin address.
    pub(super) admin: Option<SocketAddr>,
}

impl Places {
    fn of(bound: &[Bound], admin: &admin::Bound) -> Self {
        Self { listeners: bound.iter().filter_map(|one| one.local().ok()).collect(), admin: admin.address() }
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listeners = self.listeners.iter().map(|address| format!("listening on {address}"));
        let all: Vec<_> = listeners.chain(self.admin.map(|address| format!("admin on {address}"))).collect();
        f.write_str(&all.join(", "))
    }
}

fn client_limits(limits: &ClientLimits) -> Limits {
    Limits {
        header_timeout: limits.header_timeout,
        header_bytes: limits.header_bytes,
        headers: limits.headers,
        uri_bytes: limits.uri_bytes,
        keepalive: limits.keepalive,
        keepalive_requests: limits.keepalive_requests,
        max_age: limits.max_age,
        body_timeout: limits.body_timeout,
        send_timeout: limits.send_timeout,
    }
}

#[expect(clippy::disallowed_methods, reason = "the process's clock is read here")]
fn now() -> Instant {
    Instant::now()
}
