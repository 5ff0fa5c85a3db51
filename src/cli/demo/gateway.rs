//! Which gateway is it? The one `moorgate run` starts, on a thread of this process, with a file of its own.
//!
//! It is asked and reloaded as an operator would, over its admin address. Always holds: when this is dropped, the
//! gateway has left (or had its time to), and the folder of its file is gone.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use super::keys::NOISE;
use super::origins::{HEALTH, Origin};
use super::talk::Talk;
use crate::cli::places::Places;
use crate::cli::run;
use crate::lifecycle::signals::Leaving;

/// The pool's name.
const POOL: &str = "demo";
/// For the start, with the first round of probes.
const PATIENCE: Duration = Duration::from_secs(15);

/// A running gateway.
pub(super) struct Gateway {
    /// Where clients ask.
    pub(super) listens: SocketAddr,
    /// Where it shows how it is.
    pub(super) admin: SocketAddr,
    /// Before the folder, which is in use until it has left.
    _thread: Running,
    folder: Folder,
}

/// What it tells about itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Told {
    /// Further attempts, whatever made them necessary.
    pub(super) retries: u64,
    /// Requests answered otherwise than with 2xx, those whose client left not counted.
    pub(super) failures: u64,
}

impl Gateway {
    /// Starts it with these origins, and returns when it is ready.
    pub(super) async fn start(origins: &[Origin]) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        fs::write(folder.file(), text(origins)).context("cannot write the configuration")?;
        let (thread, announced) = Running::start(folder.file())?;
        let places = match timeout(PATIENCE, announced).await {
            Ok(Ok(places)) => places,
            // it ended before it could announce anything, and why it did is its result
            Ok(Err(_)) => return Err(thread.end().err().unwrap_or_else(|| anyhow!("the gateway ended at once"))),
            Err(_) => bail!("the gateway does not start within {PATIENCE:?}"),
        };
        let listens = places.listeners.first().copied().context("the gateway does not listen")?;
        let admin = places.admin.context("the gateway has no admin address")?;
        let gateway = Self { listens, admin, _thread: thread, folder };
        gateway.becomes_ready().await?;
        Ok(gateway)
    }

    async fn becomes_ready(&self) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        let mut admin = self.admin();
        loop {
            let answer = admin.ask("GET", "/readyz", "").await;
            match answer {
                Ok(answer) if answer.status == 200 => return Ok(()),
                _ if Instant::now() > end => bail!("the gateway is not ready within {PATIENCE:?}"),
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    }

    /// A conversation with its admin address.
    pub(super) fn admin(&self) -> Talk {
        Talk::to_admin(self.admin)
    }

    /// Puts these origins into the file, and has it reloaded.
    pub(super) async fn reload(&self, origins: &[Origin]) -> anyhow::Result<()> {
        // as operators should: a new file in place of the old one, never a half of it
        let new = self.folder.0.join("next.yaml");
        fs::write(&new, text(origins)).context("cannot write the configuration")?;
        fs::rename(&new, self.folder.file()).context("cannot replace the configuration")?;
        let answer = self.admin().ask("POST", "/reload", "content-length: 0\r\n").await.context("POST /reload")?;
        let told: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status != 200 || told["result"] != "applied" {
            bail!("the reload was answered with {}: {}", answer.status, String::from_utf8_lossy(&answer.body));
        }
        Ok(())
    }
}

/// The thread it runs on; it is told to leave, and waited for, when this is dropped.
struct Running {
    leaving: Leaving,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Running {
    fn start(file: PathBuf) -> io::Result<(Self, oneshot::Receiver<Places>)> {
        let leaving = Leaving::default();
        let (announce, announced) = oneshot::channel();
        let told = leaving.clone();
        let serve = move || run::inside(file, &told, |places| drop(announce.send(places)));
        let thread = thread::Builder::new().name("gateway".to_owned()).spawn(serve)?;
        Ok((Self { leaving, thread: Some(thread) }, announced))
    }

    /// Waits for its end: it leaves at once when its clients are gone, and after its drain at the latest.
    fn end(mut self) -> anyhow::Result<()> {
        self.join()
    }

    fn join(&mut self) -> anyhow::Result<()> {
        self.leaving.tell();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(anyhow!("the gateway panicked")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.join() {
            log::error!("{error:#}");
        }
    }
}

/// What it says of its origins: their states, by name.
pub(super) async fn states(admin: &mut Talk) -> anyhow::Result<Vec<(String, String)>> {
    let answer = admin.ask("GET", "/status", "").await.context("GET /status")?;
    let status: Value = serde_json::from_slice(&answer.body).context("GET /status")?;
    let origins = status["pools"][POOL]["origins"].as_object().context("/status shows no origins")?;
    let state =
        |(name, origin): (&String, &Value)| (name.clone(), origin["state"].as_str().unwrap_or_default().to_owned());
    Ok(origins.iter().map(state).collect())
}

/// What it has counted.
pub(super) async fn told(admin: &mut Talk) -> anyhow::Result<Told> {
    let answer = admin.ask("GET", "/metrics", "").await.context("GET /metrics")?;
    let text = String::from_utf8_lossy(&answer.body);
    let failed = |labels: &str| !["code=\"2", "code=\"499\""].iter().any(|fine| labels.contains(fine));
    Ok(Told {
        retries: sum(&text, "moorgate_retries_total", |_| true),
        failures: sum(&text, "moorgate_requests_total", failed),
    })
}

/// The sum of a metric's series whose labels are `wanted`.
fn sum(text: &str, metric: &str, wanted: impl Fn(&str) -> bool) -> u64 {
    let series = text.lines().filter_map(|line| {
        let (labels, value) = line.strip_prefix(metric)?.strip_prefix('{')?.rsplit_once("} ")?;
        value.parse::<f64>().ok().filter(|_| wanted(labels))
    });
    series.sum::<f64>() as u64
}

/// The configuration with these origins.
fn text(origins: &[Origin]) -> String {
    let origin = |origin: &Origin| json!({ "address": origin.address.to_string(), "name": origin.name });
    let any_port = || json!({ "address": "127.0.0.1:0" });
    // a busy machine makes everybody miss a probe, which says nothing about an origin
    let probe = json!({ "fall": 5, "http": { "path": HEALTH } });
    let pool = json!({
        "balance": { "algorithm": "hash", "key": "{host}{path}{args}" },
        "args": { "drop": [NOISE] },
        "origins": origins.iter().map(origin).collect::<Vec<_>>(),
        "health": { "probe": probe },
        // short enough for a step of the demo
        "slow_start": { "window": "2s" },
    });
    json!({
        "version": 1,
        "process": {
            "listeners": [any_port()],
            "admin": any_port(),
            "control_socket": false,
            "access_log": false,
            "log": { "level": "error" },
            "drain": { "lame_duck": "0s", "timeout": "1s" },
        },
        "pools": { POOL: pool },
    })
    .to_string()
}

/// A folder that goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let name = format!("moorgate-demo-{}-{:08x}", std::process::id(), fastrand::u32(..));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    fn file(&self) -> PathBuf {
        self.0.join("moorgate.yaml")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            log::error!("{} stays: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::database::Database;
    use super::super::stage::Stage;
    use super::*;
    use crate::config;

    #[test]
    fn failures_are_summed_without_what_was_answered_and_who_left() {
        let text = "# TYPE moorgate_requests_total counter\n\
            moorgate_requests_total{code=\"200\",pool=\"p\"} 7\n\
            moorgate_requests_total{code=\"502\",pool=\"p\"} 2\n\
            moorgate_requests_total{code=\"503\",pool=\"p\"} 1\n";
        assert_eq!(sum(text, "moorgate_requests_total", |labels| !labels.contains("code=\"2")), 3);
        assert_eq!(sum(text, "moorgate_requests", |_| true), 0, "the name is taken whole");
    }

    #[test]
    fn its_file_has_no_mistake() {
        let stage = Stage::new("origins").unwrap();
        let origin = |at| Origin::new(&stage, format!("cache-{at}"), 1, Arc::new(Database::new())).unwrap();
        let origins: Vec<_> = (0..3).map(origin).collect();
        let loaded = config::parse("demo.yaml", &text(&origins)).unwrap();
        assert_eq!((loaded.config.pools[POOL].origins.len(), loaded.warnings), (3, vec![]));
    }

    #[test]
    fn the_folder_goes_with_its_owner() {
        let folder = Folder::new().unwrap();
        fs::write(folder.file(), "x").unwrap();
        let path = folder.0.clone();
        drop(folder);
        assert!(!path.exists());
    }
}
