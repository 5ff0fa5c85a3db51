//! Runs the gateway, from a file or from two arguments.
//!
//! Everything that can fail does so before the process says that it is ready: the file, the sockets, the logs, the
//! shards. Nothing is written to standard output unless the access log goes there.

use std::fmt;
use std::io;
use std::net::SocketAddr;
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
use crate::config::{self, Config};
use crate::health::Prober;
use crate::lifecycle::signals::{self, Told};
use crate::lifecycle::{self, By, Leave, Ledger, Readiness, Reloads, probing, reload};
use crate::listeners::{self, Bound, Connections, Drain, Hooks, Listeners};
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
}

impl Run {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let file = self.listen.is_empty().then(|| self.file.path());
        Start::read(file, || self.text())?.serve(signals::hear, |_| {})?;
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

/// Runs the gateway of `file` as a part of another command: deaf to signals, until `told` turns true. `announce` learns
/// where it can be reached.
pub(super) fn inside(file: PathBuf, told: Told, announce: impl FnOnce(Places)) -> anyhow::Result<()> {
    Start::read(Some(file), String::new)?.serve(|_| Ok(told), announce)
}

/// What the file says, compiled; nothing is open yet.
struct Start {
    process: Process,
    file: Option<PathBuf>,
    store: Arc<Store>,
    ledger: Arc<Ledger>,
    metrics: Metrics,
    started: Instant,
}

impl Start {
    /// Reads `file`, or without one the `arguments` in its place.
    fn read(file: Option<PathBuf>, arguments: impl FnOnce() -> String) -> anyhow::Result<Self> {
        let metrics = Metrics::new()?;
        let started = now();
        let compile = |config: &Config| Snapshot::compile(config, None, &metrics, started);
        let (loaded, snapshot) = match &file {
            Some(file) => config::load_with(file, compile)?,
            None => config::parse_with("arguments", &arguments(), compile)?,
        };
        let process = loaded.config.process.clone();
        observe::log::init(process.log)?;
        reload::warn(&loaded.warnings);
        metrics.configuration(1, false);
        let snapshot = snapshot.read_from(&loaded);
        let ledger = Arc::new(Ledger::new(&snapshot, [], SystemTime::now()));
        Ok(Self { process, file, store: Arc::new(Store::new(snapshot)), ledger, metrics, started })
    }

    /// Serves until what `hear` answers turns true; `announce` learns where, when all is open.
    fn serve(
        self,
        hear: impl FnOnce(signals::Wishes) -> io::Result<Told>,
        announce: impl FnOnce(Places),
    ) -> anyhow::Result<()> {
        let descriptors = lifecycle::raise();
        let bound = listeners::bind(&self.process.listeners)?;
        let admin = admin::Bound::new(&admin::Settings::of(&self.process))?;
        let shards = self.shards();
        let log = Arc::new(self.access_log(shards)?);
        let connections = Connections::new(lifecycle::max_connections(self.process.max_connections, descriptors));
        let (drain, readiness) = (Drain::default(), Arc::new(Readiness::default()));
        let (prober, (reloads, inbox)) = (Arc::new(Prober::new()), lifecycle::wishes());
        let places = Places::of(&bound, &admin);
        let admin = Arc::new(Mutex::new(Some(admin.serve(self.asked(&readiness, &reloads, &prober))?)));
        let told = hear(wished(reloads, &log, &admin))?;
        let hooks = (0..shards).map(|shard| self.hooks(&log, shard));
        let listeners = Listeners::start(bound, connections.clone(), drain.clone(), self.metrics.clone(), hooks)
            .context("cannot start the data plane")?;
        let published = Box::new({
            let prober = prober.clone();
            move || prober.ring()
        });
        let (store, ledger, metrics) = (self.store.clone(), self.ledger.clone(), self.metrics.clone());
        reload::Reloader::new(self.file.clone(), store, ledger, metrics, published).start(inbox)?;
        let work = vec![
            ("resolver", probing::resolve_names(prober.clone(), self.store.clone())),
            ("prober", probing::probe_origins(prober, self.store.clone(), readiness.clone())),
        ];
        log::info!("moorgate {}: {places}", env!("CARGO_PKG_VERSION"));
        announce(places);
        lifecycle::serve(listeners, work, Leave { told, readiness, connections, drain, times: self.process.drain });
        log.close(access_log::FAREWELL);
        drop(admin.lock().take());
        log::info!("gone");
        Ok(())
    }

    /// What a shard serves with.
    fn hooks(&self, log: &AccessLog, shard: usize) -> Hooks<Gateway> {
        let proxy = Gateway::new(self.store.clone(), log.shard(shard), shard);
        let (limits, store, lines) = (self.store.clone(), self.store.clone(), log.shard(shard));
        Hooks {
            beside: Box::pin(proxy.watchdog().run()),
            proxy,
            limits: Box::new(move || client_limits(limits.load().client_limits())),
            unheard: Box::new(move |unheard| unheard::record(unheard, &store, &lines)),
        }
    }

    /// What is asked at the admin address.
    fn asked(&self, readiness: &Arc<Readiness>, reloads: &Reloads, prober: &Arc<Prober>) -> admin::Gateway {
        let (metrics, [shown, store, running]) = (self.metrics.clone(), [(); 3].map(|()| self.store.clone()));
        let (readiness, reloads, prober, started) = (readiness.clone(), reloads.clone(), prober.clone(), self.started);
        let ledger = self.ledger.clone();
        admin::Gateway {
            ready: Box::new(move || readiness.ask()),
            metrics: Box::new(move || {
                admin::show(&shown.load(), now());
                metrics.encode().map_err(|error| error.to_string())
            }),
            status: Box::new(move || admin::Status::of(&store.load(), &prober, &ledger, started, now())),
            config: Box::new(move || config::dump(running.load().config())),
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
