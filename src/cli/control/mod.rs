//! Commands to the running gateway: `status`, `reload`, `confirm`, `rollback`, `drain` and `upgrade`, as a client of its control socket
//! or admin address. Others ask it by [`Target`] too.

mod client;
mod door;
mod guard;
mod moved;
mod reload;
mod table;
mod upgrade;
mod wait;
mod watch;

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{ConfigFile, Exit, colourful, print};
use crate::config::units;
use crate::config::written::Written;
use client::{Reply, ask};
use door::{Door, Line};
pub(in crate::cli) use reload::{Confirm, Drain, Reload, Rollback};
pub(in crate::cli) use upgrade::Upgrade;

/// For a health check, which is repeated.
const BRIEFLY: Duration = Duration::from_secs(5);
/// For each read of an answer. A reload waits two seconds for a file that is being written.
const PATIENCE: Duration = Duration::from_secs(40);

/// Which gateway is asked: the one of the file, unless another is named.
#[derive(Args)]
pub(super) struct Target {
    #[command(flatten)]
    file: ConfigFile,
    /// The control socket, when it is not the one the file names
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The admin address to ask instead, or if nobody answers at --socket
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
}

/// Shows what is in force and how every origin is
#[derive(Args)]
pub(super) struct Status {
    #[command(flatten)]
    target: Target,
    /// Print the answer as it is
    #[arg(long)]
    json: bool,
    /// Only whether it is ready for requests, by exit code: for health checks
    ///
    /// Asks the admin address of the file, since the control socket may be somebody else's.
    #[arg(long, conflicts_with = "json")]
    ready: bool,
    /// Draw it on the whole terminal, again and again; `q` ends, `?` helps
    #[arg(long, conflicts_with_all = ["json", "ready"])]
    watch: bool,
    /// How often --watch asks
    #[arg(long, value_name = "TIME", default_value = "2s", requires = "watch", value_parser = interval)]
    interval: units::Duration,
}

impl Target {
    /// The file that names it, which need not be that of the gateway.
    pub(super) fn file(&self) -> anyhow::Result<PathBuf> {
        self.file.found()
    }

    /// What it answers to a question that is no wish.
    pub(super) fn get(&self, target: &str) -> anyhow::Result<String> {
        let reply = self.ask("GET", target)?;
        if reply.status != 200 {
            bail!("the gateway answers {}: {}", reply.status, reply.body.trim_end());
        }
        Ok(reply.body)
    }

    /// The same, in JSON.
    pub(super) fn get_json<T: DeserializeOwned>(&self, target: &str) -> anyhow::Result<T> {
        serde_json::from_str(&self.get(target)?).with_context(|| format!("what it answers to {target}"))
    }

    fn ask(&self, method: &str, target: &str) -> anyhow::Result<Reply> {
        self.ask_within(PATIENCE, method, target)
    }

    fn ask_within(&self, patience: Duration, method: &str, target: &str) -> anyhow::Result<Reply> {
        let line = self.door().and_then(|door| door.open(patience));
        let line = line.or_else(|error| self.instead(error, patience, method == "GET"));
        ask(&mut line?, method, target)
    }

    /// All places where it may be asked what changes nothing, the likeliest first.
    fn doors(&self) -> anyhow::Result<Vec<Door>> {
        let instead = match (&self.socket, self.admin) {
            (Some(_), address) => address,
            (None, Some(_)) => None,
            (None, None) => Door::admin_of(self.file.existing().as_deref()),
        };
        match (self.door(), instead.map(Door::Admin)) {
            (Ok(door), Some(instead)) if door != instead => Ok(vec![door, instead]),
            (Ok(door), _) => Ok(vec![door]),
            (Err(_), Some(instead)) => Ok(vec![instead]),
            (Err(error), None) => Err(error),
        }
    }

    /// Where it is asked: where one was told to, else at the control socket of the file.
    fn door(&self) -> anyhow::Result<Door> {
        match (&self.socket, self.admin) {
            (Some(path), _) => Ok(Door::Socket { path: path.clone(), file: None }),
            (None, Some(address)) => Ok(Door::Admin(address)),
            (None, None) => Door::of_file(self.file.existing().as_deref()),
        }
    }

    /// Where it is asked if that cannot be: at `--admin`, or at the admin address of the file. Another gateway may be there,
    /// so it is told of, and only asked what changes nothing.
    fn instead(&self, error: anyhow::Error, patience: Duration, only_looks: bool) -> anyhow::Result<Line> {
        let (open, mut errors) = (|address| Door::Admin(address).open(patience), std::io::stderr().lock());
        match (&self.socket, self.admin) {
            (Some(_), Some(address)) => return open(address),
            (None, None) => {}
            _ => return Err(error),
        }
        let Some(address) = Door::admin_of(self.file.existing().as_deref()) else { return Err(error) };
        match open(address) {
            Ok(line) if only_looks => {
                writeln!(errors, "{error}\nthe admin address {address} answers instead")?;
                Ok(line)
            }
            Ok(_) => bail!("{error}\nat the admin address {address} somebody answers: --admin {address} asks there"),
            Err(_) => bail!("{error}\nnobody answers at the admin address {address} either"),
        }
    }

    /// What it answers to a balancer.
    fn ask_readiness(&self) -> anyhow::Result<Reply> {
        let door = match (&self.socket, self.admin) {
            (None, None) => Door::nearest(self.file.existing().as_deref()),
            _ => self.door(),
        };
        ask(&mut door?.open(BRIEFLY)?, "GET", "/readyz")
    }
}

/// More often than this is a load, and nothing that can be read.
const QUICKEST: Duration = Duration::from_millis(200);

fn interval(text: &str) -> Result<units::Duration, String> {
    let interval = units::Duration::parse(text).filter(|interval| interval.0 >= QUICKEST);
    interval.ok_or_else(|| format!("expected {}, at least 200ms", units::Duration::EXPECTED))
}

impl Status {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if self.ready {
            let reply = self.target.ask_readiness()?;
            print(&format!("{}\n", reply.body.trim_end()))?;
            return Ok(if reply.status == 200 { Exit::Done } else { Exit::Failed });
        }
        if self.watch {
            return watch::watch(self.target.doors()?, self.interval.0);
        }
        let body = self.target.get("/status")?;
        if self.json {
            print(&format!("{}\n", body.trim_end()))?;
        } else {
            let status: Value = serde_json::from_str(&body).context("the answer is no JSON")?;
            print(&table::show(&status, colourful(std::io::stdout().is_terminal())))?;
        }
        Ok(Exit::Done)
    }
}
