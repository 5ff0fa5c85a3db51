//! Serves what a start has compiled, until it is told to leave or another process has taken over.
//!
//! Everything that can fail does so before the process says that it is ready: the sockets, the logs, the shards. Nothing is
//! written to standard output unless the access log goes there.

use std::io;
use std::mem::take;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::thread;

use anyhow::Context;
use parking_lot::Mutex;
use tokio::sync::watch as switch;

use super::estate::{self, Holdings, Reopen};
use super::places::Places;
use super::run::{Start, now};
use super::takeover::{Heritage, Sockets, Successor, Takeover};
use crate::admin::{self, Admin, Inherited, UpgradeStatus};
use crate::config;
use crate::config::process::{self, Process};
use crate::health::Prober;
use crate::lifecycle::handoff::message::Given;
use crate::lifecycle::handoff::upgrades::Upgrades;
use crate::lifecycle::resolving::resolve_names;
use crate::lifecycle::signals::{self, Leaving};
use crate::lifecycle::supervise::Supervisor;
use crate::lifecycle::{
    self, By, Inbox, Leave, Manager, Readiness, Reloads, Succession, Work, probing, recording, reload, renewal, watch,
};
use crate::listeners::{self, Bound, Connections, Doors, Drain, Handed, Hooks, Listeners};
use crate::observe::access_log::{self, AccessLog};
use crate::observe::{Minutes, Tracing};
use crate::proxy::wire::Buffers;
use crate::proxy::{Gateway, unheard};

/// What the parts of a serving process have in common.
struct Common {
    drain: Drain,
    readiness: Arc<Readiness>,
    manager: Manager,
    supervisor: Supervisor,
    succession: Succession,
    reloads: Reloads,
    leaving: Leaving,
    prober: Arc<Prober>,
    minutes: Arc<Minutes>,
    /// Set before anybody is answered.
    upgrades: Arc<OnceLock<Arc<Upgrades>>>,
    /// Descriptors of the listening sockets, for the next process.
    shared: Arc<Mutex<Shared>>,
    /// Is it this process that serves?
    turn: switch::Sender<bool>,
    /// How this process took over.
    upgrade: Arc<Mutex<Option<UpgradeStatus>>>,
    /// Are those before to open their logs anew?
    older_logs: Arc<AtomicBool>,
}

/// Sockets that are open.
struct Opened {
    bound: Vec<Bound>,
    admin: admin::Bound,
    /// All of them once more, for the next process.
    shared: Shared,
    /// Pipes that end with the processes before.
    before: Shared,
    /// What of it was the process's before.
    kept: Vec<Given>,
}

type Asked = Arc<Mutex<Option<Admin>>>;

/// Descriptors for the next process, and what each is.
type Shared = Vec<(Given, OwnedFd)>;

impl Start {
    /// Serves until `leaving` is told; `announce` learns where, when all is open.
    pub(super) fn serve(
        mut self,
        leaving: &Leaving,
        hear: impl FnOnce(signals::Wishes) -> io::Result<()>,
        announce: impl FnOnce(Places),
    ) -> anyhow::Result<()> {
        let descriptors = lifecycle::raise();
        let opened = Opened::new(&self.process, take(&mut self.handed), self.takeover.as_mut());
        let Opened { bound, admin, shared, before, kept } = self.telling(opened)?;
        let supervisor = self.texts.supervisor.clone();
        supervisor.will_serve(duplicates(&bound, &admin, &supervisor)?, admin.socket().map(Path::to_owned));
        let log = self.access_log();
        let log = Arc::new(self.telling(log)?);
        let tracing = self.tracing();
        let tracing = self.telling(tracing)?;
        let (common, inbox) = self.common(leaving);
        let places = Places::of(&bound, &admin);
        *common.shared.lock() = shared;
        let reopen = common.reopening(&log);
        let admin = self.answer(admin, &common, (before, reopen.clone()))?;
        hear(common.wished(reopen, &admin))?;
        let connections = Connections::new(lifecycle::max_connections(self.process.max_connections, descriptors));
        let hooks = (0..self.shards()).map(|shard| self.hooks(&common, (&*log, &tracing), shard));
        let (drain, metrics) = (common.drain.clone(), self.metrics.clone());
        let buffers = Buffers::new(usize::try_from(self.process.max_buffered.0).unwrap_or(usize::MAX), &metrics);
        let listeners = Listeners::start(bound, connections.clone(), drain, metrics, buffers, hooks)
            .context("cannot start the data plane")?;
        let work = self.work(&common);
        let has_file = self.texts.file.is_some();
        self.write_snapshots(&common, inbox)?;
        log::info!("moorgate {}: {places}", env!("CARGO_PKG_VERSION"));
        announce(places);
        match self.takeover.take() {
            Some(takeover) => {
                let heritage = Heritage::of(self.store.clone(), self.ledger.clone(), self.metrics.clone());
                common.take_over(takeover, kept, &admin, (heritage, has_file))?;
            }
            None => common.supervisor.serving(),
        }
        lifecycle::serve(listeners, work, common.leave(connections, self.process.drain));
        // lines that are given up are counted, and told to whoever took over
        tracing.end_within(access_log::FAREWELL);
        log.close(access_log::FAREWELL);
        tracing.wait();
        common.upgrades.get().iter().for_each(|upgrades| upgrades.finish());
        drop(admin.lock().take());
        log::info!("gone");
        Ok(())
    }

    fn common(&mut self, leaving: &Leaving) -> (Common, Inbox) {
        let takes_over = self.takeover.is_some();
        let doors = if takes_over { Doors::held() } else { Doors::default() };
        let manager = take(&mut self.manager);
        let supervisor = self.texts.supervisor.clone();
        let readiness = Arc::new(Readiness::told_to(manager.clone(), supervisor.clone()));
        let (reloads, inbox) = lifecycle::wishes(readiness.clone());
        let common = Common {
            drain: Drain::with(doors.that_outlive_us(self.outlived)),
            readiness,
            manager,
            supervisor,
            succession: Succession::new(takes_over),
            reloads,
            leaving: leaving.clone(),
            prober: Arc::new(Prober::new()),
            minutes: Arc::new(Minutes::new(self.metrics.clone())),
            upgrades: Arc::default(),
            shared: Arc::default(),
            turn: switch::Sender::new(!takes_over),
            upgrade: Arc::default(),
            older_logs: Arc::default(),
        };
        (common, inbox)
    }

    /// Answers at the admin address and the control socket; at once, unless another process does.
    fn answer(
        &self,
        bound: admin::Bound,
        common: &Common,
        (before, reopen): (Shared, Reopen),
    ) -> anyhow::Result<Asked> {
        let refused = (!self.is_command).then_some("the gateway is part of another command");
        let launch = estate::launch(bound.socket().map(Path::to_owned), refused, &common.supervisor);
        let asked = self.asked(common, bound.socket());
        let admin = Arc::new(Mutex::new(Some(bound.serve(asked, self.takeover.is_none())?)));
        let (life, end_of_life) = estate::life()?;
        let holdings = Holdings {
            sockets: common.shared.clone(),
            before,
            life,
            store: self.store.clone(),
            ledger: self.ledger.clone(),
            metrics: self.metrics.clone(),
            reloads: common.reloads.clone(),
            drain: common.drain.clone(),
            admin: admin.clone(),
            leaving: common.leaving.clone(),
            succession: common.succession.clone(),
            manager: common.manager.clone(),
            supervisor: common.supervisor.clone(),
            outlived: self.outlived,
            reopen,
        };
        common.upgrades.get_or_init(|| Upgrades::new(holdings.estate(), launch, end_of_life));
        Ok(admin)
    }

    fn work(&self, common: &Common) -> Vec<(&'static str, Work)> {
        let (prober, reloads, store) = (&common.prober, &common.reloads, &self.store);
        let probing = probing::probe_origins(prober.clone(), store.clone(), common.readiness.clone(), reloads.clone());
        let resolving = resolve_names(prober.clone(), store.clone(), reloads.clone(), &self.process.resolver);
        // what is seen before another process has said what it learned would count twice
        let in_turn = |work| lifecycle::in_turn(common.turn.subscribe(), work);
        let renewal = renewal::follow(store.clone(), reloads.clone());
        let recording = recording::record(common.minutes.clone());
        let all = [("resolver", resolving), ("prober", probing), ("renewal", renewal), ("recorder", recording)];
        let mut work = Vec::from(all.map(|(name, work)| (name, in_turn(work))));
        if let (true, Some(file), Some(look)) = (self.watch, self.texts.file.clone(), self.look) {
            work.push(("watcher", watch::follow(file, look, reloads.clone())));
        }
        work
    }

    fn write_snapshots(&mut self, common: &Common, inbox: Inbox) -> io::Result<()> {
        let (store, ledger, metrics) = (self.store.clone(), self.ledger.clone(), self.metrics.clone());
        let prober = common.prober.clone();
        let published = Box::new(move || prober.ring());
        let reloader = reload::Reloader::new(take(&mut self.texts), store, ledger, metrics, published);
        // as long as another process serves the same, nothing else comes into force
        let reloader = if self.takeover.is_some() { reloader.resting() } else { reloader };
        reloader.start(inbox)
    }

    /// What a shard serves with.
    fn hooks(&self, common: &Common, (log, tracing): (&AccessLog, &Tracing), shard: usize) -> Hooks<Gateway> {
        let readiness = common.readiness.clone();
        let ready = Arc::new(move || readiness.ask());
        let proxy = Gateway::new(self.store.clone(), log.shard(shard), shard, ready).traced(tracing.shard(shard));
        let (limits, store, lines) = (self.store.clone(), self.store.clone(), log.shard(shard));
        let (callers, secured, metrics) = (self.store.clone(), self.store.clone(), self.metrics.clone());
        Hooks {
            beside: Box::pin(proxy.beside()),
            proxy,
            limits: Box::new(move || Arc::clone(limits.load().client_limits())),
            unheard: Box::new(move |unheard| unheard::record(unheard, &store, &lines)),
            trust: Box::new(move |ip| callers.load().callers().trust(ip)),
            terms: Box::new(move |listener| secured.load().tls().terms(listener).cloned()),
            rejected: Box::new(move |reason| metrics.connection_rejected(reason)),
        }
    }

    /// What is asked at the admin address.
    fn asked(&self, common: &Common, socket: Option<&Path>) -> admin::Gateway {
        let (metrics, [shown, store, running, sampled]) = (self.metrics.clone(), [(); 4].map(|()| self.store.clone()));
        let (readiness, reloads, prober, started) =
            (common.readiness.clone(), common.reloads.clone(), common.prober.clone(), self.started);
        let (ledger, leaving, upgrade) = (self.ledger.clone(), common.leaving.clone(), common.upgrade.clone());
        let (shared, minutes, told) = (common.shared.clone(), common.minutes.clone(), self.metrics.clone());
        let (generation, [calls, upgrades]) = (self.metrics.generation(), [(); 2].map(|()| common.upgrades.clone()));
        admin::Gateway {
            ready: Box::new(move || readiness.ask()),
            metrics: Box::new(move || {
                let shown = shown.load();
                admin::show(&shown, now());
                admin::show_certificates(&shown, &metrics);
                metrics.encode().map_err(|error| error.to_string())
            }),
            status: Box::new(move || {
                let status = admin::Status::of(&store.load(), &prober, &ledger, started, now());
                let status = status.with(&told, &minutes, now());
                admin::Status { generation, upgrade: upgrade.lock().clone(), ..status }
            }),
            config: Box::new(move || config::dump_masked(running.load().config())),
            sample: Box::new(move |pool| admin::Sampled::of(&sampled.load(), pool, now())),
            socket: socket.map(Path::to_owned),
            made_anew: Box::new(move |next| replace_control(&mut shared.lock(), next)),
            handoff: Box::new(move |stream| _ = calls.get().map(|upgrades| upgrades.call(stream))),
            upgrade: Arc::new(move |binary| {
                let upgrades = upgrades.clone();
                let upgrade = move || match upgrades.get() {
                    Some(upgrades) => upgrades.upgrade(binary.as_deref()),
                    None => Err("the process is starting".to_owned()),
                };
                let upgrade = tokio::task::spawn_blocking(upgrade);
                Box::pin(async move { upgrade.await.unwrap_or_else(|_| Err("a defect, see the log".to_owned())) })
            }),
            leave: Box::new(move || _ = leaving.tell()),
            change: Arc::new(move |wish| {
                let reloads = reloads.clone();
                Box::pin(async move { reloads.grant(wish).await })
            }),
        }
    }

    pub(super) fn shards(&self) -> usize {
        self.process.shards()
    }
}

/// The control socket was made anew; it is not given away any more once the process has begun to leave.
fn replace_control(shared: &mut Shared, next: OwnedFd) {
    if let Some((_, control)) = shared.iter_mut().find(|(given, _)| matches!(given, Given::Control(_))) {
        *control = next;
    }
}

/// What a supervisor holds, so that nobody is refused while the next process starts.
fn duplicates(bound: &[Bound], admin: &admin::Bound, supervisor: &Supervisor) -> io::Result<Vec<OwnedFd>> {
    if !supervisor.exists() {
        return Ok(Vec::new());
    }
    bound.iter().map(Bound::share).chain(admin.duplicate()).collect()
}

impl Common {
    /// Opens logs anew; those before are told.
    fn reopening(&self, log: &Arc<AccessLog>) -> Reopen {
        let (log, older) = (log.clone(), self.older_logs.clone());
        Arc::new(move || {
            log.reopen();
            older.store(true, Relaxed);
        })
    }

    /// What signals set off.
    fn wished(&self, reopen: Reopen, admin: &Asked) -> signals::Wishes {
        let (reloads, admin, upgrades) = (self.reloads.clone(), admin.clone(), self.upgrades.clone());
        signals::Wishes {
            reload: Box::new(move || reloads.trigger(By::Signal)),
            reopen: Box::new(move || reopen()),
            upgrade: Box::new(move || {
                let upgrades = upgrades.clone();
                // how it ended is in the log
                let upgrade = move || _ = upgrades.get().map(|upgrades| upgrades.upgrade(None));
                if let Err(error) = thread::Builder::new().name("upgrade".to_owned()).spawn(upgrade) {
                    log::error!("upgrade: no thread: {error}");
                }
            }),
            farewell: Box::new(move || admin.lock().iter_mut().for_each(Admin::remove_socket)),
        }
    }

    fn take_over(
        &self,
        takeover: Takeover,
        kept: Vec<Given>,
        admin: &Asked,
        (heritage, has_file): (Heritage, bool),
    ) -> anyhow::Result<()> {
        *self.upgrade.lock() = Some(takeover.status());
        let successor = Successor {
            drain: self.drain.clone(),
            admin: admin.clone(),
            readiness: self.readiness.clone(),
            reloads: self.reloads.clone(),
            leaving: self.leaving.clone(),
            succession: self.succession.clone(),
            turn: self.turn.clone(),
            supervisor: self.supervisor.clone(),
            shown: self.upgrade.clone(),
            heritage,
            has_file,
            older_logs: self.older_logs.clone(),
        };
        takeover.go_on(kept, successor)
    }

    fn leave(&self, connections: Arc<Connections>, times: process::Drain) -> Leave {
        let shared = self.shared.clone();
        Leave {
            told: self.leaving.told(),
            readiness: self.readiness.clone(),
            connections,
            drain: self.drain.clone(),
            succession: self.succession.clone(),
            closing: Box::new(move || shared.lock().clear()),
            times,
        }
    }
}

impl Opened {
    /// Opens what clients and the admin address are served at, or takes what was handed over for it.
    fn new(process: &Process, handed: Handed, mut takeover: Option<&mut Takeover>) -> anyhow::Result<Self> {
        let settings = admin::Settings::of(process);
        let addresses = process.listeners.iter().map(|listener| listener.address).chain(settings.address);
        let Sockets { network, control, before } = match &mut takeover {
            Some(takeover) => takeover.sockets()?,
            None => Sockets { network: handed, ..Sockets::default() },
        };
        let mut network = network.claim(&addresses.collect::<Vec<_>>());
        let of_admin = settings.address.and_then(|_| network.pop().flatten());
        let bound = listeners::bind(&process.listeners, network)?;
        let admin = admin::Bound::new(&settings, Inherited { network: of_admin, local: control })?;
        let listener = |one: &Bound| Ok((Given::Listener(one.local()?.to_string()), one.share()?));
        let mut shared = bound.iter().map(listener).collect::<io::Result<Vec<_>>>()?;
        shared.extend(admin.share()?);
        let kept = takeover.map(|takeover| takeover.kept(&bound, &admin)).unwrap_or_default();
        Ok(Self { bound, admin, shared, before, kept })
    }
}
