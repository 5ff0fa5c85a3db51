//! Runs the gateway, from a file or from two arguments, on its own or in the place of another process.
//!
//! Nothing is opened before what is to be served is compiled.

use std::mem::take;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use anyhow::{Context, anyhow};
use clap::Args;
use serde_json::json;

use super::places::Places;
use super::takeover::Takeover;
use super::{ConfigFile, Exit, nowhere};
use crate::config::process::Process;
use crate::config::{self, Config, Loaded, Report};
use crate::lifecycle::kept::{self, Before, First, Instead};
use crate::lifecycle::reload::Texts;
use crate::lifecycle::signals::{self, Leaving};
use crate::lifecycle::supervise::Supervisor;
use crate::lifecycle::watch::Look;
use crate::lifecycle::{self, Ledger, Manager};
use crate::listeners::Handed;
use crate::observe::{self, Metrics};
use crate::snapshot::{Snapshot, Store};

const WITHOUT_A_FILE: &str = "\
    with one:     moorgate run --config FILE
    without one:  moorgate run --listen 0.0.0.0:8080 --origin 10.0.0.1:80 --origin 10.0.0.2:80
    to look at:   moorgate demo";

/// Runs the gateway
///
/// From a file, or without one from --listen and --origin. A signal ends it: TERM and QUIT in peace, INT or a second
/// TERM at once. HUP reloads the file, USR1 opens the logs anew, USR2 has a new process take over.
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
    /// Take over from the gateway whose control socket this is
    #[arg(long, value_name = "SOCKET")]
    takeover: Option<PathBuf>,
}

impl Run {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        // before anything is opened: a number may only mean what it meant when the process began
        let sockets = lifecycle::activated()?;
        let (supervisor, held) = Supervisor::of_environment().context("the supervisor")?;
        // a supervisor may have been given its own by a service manager
        let outlived = !(sockets.is_empty() && held.sockets.is_empty());
        let handed = Handed::new(sockets.into_iter().chain(held.sockets))?;
        let strict = self.strict || self.takeover.is_some();
        let start = if self.listen.is_empty() {
            let before = Before { state: self.state.clone(), last: held.last };
            Start::with_file(self.file.path(), before, strict).map_err(|error| self.advised(error))
        } else {
            Start::with_arguments(&self.text())
        };
        let start = match &self.takeover {
            Some(socket) => Start::after(start, socket)?,
            None => Start { outlived, ..start? },
        };
        let leaving = Leaving::default();
        let hear = |wishes| signals::hear(wishes, leaving.clone());
        let manager = Manager::of_environment();
        let start = Start { watch: self.watch, handed, manager, is_command: true, ..start };
        start.supervised_by(supervisor).serve(&leaving, hear, |_| {})?;
        Ok(Exit::Done)
    }

    /// Whoever has no file yet is told what there is to do.
    fn advised(&self, error: anyhow::Error) -> anyhow::Error {
        match self.file.existing() {
            None if error.is::<Report>() => anyhow!("{}\n{WITHOUT_A_FILE}", nowhere()),
            _ => error,
        }
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
pub(super) struct Start {
    pub(super) process: Process,
    pub(super) texts: Texts,
    /// How the file was when it was read.
    pub(super) look: Option<Look>,
    pub(super) watch: bool,
    /// Sockets that listen already.
    pub(super) handed: Handed,
    /// Somebody keeps the sockets open for whoever follows.
    pub(super) outlived: bool,
    pub(super) takeover: Option<Takeover>,
    pub(super) manager: Manager,
    /// Is it all this process does?
    pub(super) is_command: bool,
    pub(super) store: Arc<Store>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) metrics: Metrics,
    pub(super) started: Instant,
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
        let loaded = loaded.warned(compiled.warnings());
        lifecycle::warn(&loaded.warnings);
        let snapshot = compiled.read_from(&loaded);
        let ledger = Arc::new(Ledger::new(&snapshot, refused, SystemTime::now()));
        let (process, store) = (loaded.config.process, Arc::new(Store::new(snapshot)));
        Self {
            process,
            texts,
            look: None,
            watch: false,
            handed: Handed::default(),
            outlived: false,
            takeover: None,
            manager: Manager::default(),
            is_command: false,
            store,
            ledger,
            metrics,
            started,
        }
    }

    /// One who starts the next process if this one crashes.
    fn supervised_by(mut self, supervisor: Supervisor) -> Self {
        lifecycle::warn_of_engines(self.process.drain, supervisor.exists());
        self.texts.supervisor = supervisor;
        self
    }

    /// Takes over from the gateway whose control socket this is: with what that one serves in the place of what the file
    /// says. It is told why if that cannot be.
    fn after(start: anyhow::Result<Self>, socket: &Path) -> anyhow::Result<Self> {
        let mut takeover = Takeover::begin(socket)?;
        let start = start.and_then(|start| start.in_place_of(&mut takeover));
        let start = start.inspect_err(|error| takeover.heir().decline(&format!("{error:#}")))?;
        Ok(Self { takeover: Some(takeover), ..start })
    }

    fn in_place_of(self, takeover: &mut Takeover) -> anyhow::Result<Self> {
        let learned = takeover.learned().context("this version cannot go on from what the running process knows")?;
        let compile = |config: &Config| {
            let config = Config { process: self.process.clone(), ..config.clone() };
            learned.compile(&config, &self.metrics, now())
        };
        let offer = &mut takeover.heir().offer;
        let (loaded, compiled) = config::parse_with("the running configuration", &offer.text, compile)
            .context("this version cannot serve the running configuration")?;
        let snapshot = compiled.read_from(&loaded).numbered(offer.config_version);
        let snapshot = snapshot.under_the_process_of(&self.store.load());
        let (texts, refused) = (take(&mut offer.texts), take(&mut offer.refused));
        let ledger = Arc::new(Ledger::resumed(&snapshot, texts, refused, SystemTime::now()));
        self.metrics.is_generation(offer.generation + 1);
        let outlived = offer.outlived;
        takeover.goes_on_from(learned);
        Ok(Self { store: Arc::new(Store::new(snapshot)), ledger, outlived, ..self })
    }

    /// What goes wrong is told to the process this one was to take over from, too.
    pub(super) fn telling<T>(&mut self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        result.inspect_err(|error| {
            self.takeover.iter_mut().for_each(|takeover| takeover.heir().decline(&format!("{error:#}")));
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "the process's clock is read here")]
pub(super) fn now() -> Instant {
    Instant::now()
}
