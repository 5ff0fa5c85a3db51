//! The `demo` command: the first incident, played in one process on loopback.
//!
//! Origins with a cache each before one slow database, the gateway that `moorgate run` starts, and a steady load; then
//! an origin dies and returns, and the pool grows. What was promised is held against what origins, clients and the
//! gateway's metrics say: 0 if it was kept, 1 if not. Always holds: it ends by itself, and nothing is left behind, also
//! when a signal ends it.

mod board;
mod cache;
mod census;
mod database;
mod gateway;
mod keys;
mod load;
mod origins;
mod scene;
mod stage;
mod step;
mod table;
mod talk;
mod view;

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, timeout};

use super::{Exit, print};
use board::Board;
use census::Asking;
use database::Database;
use gateway::Gateway;
use keys::Keys;
use load::Load;
use origins::Origin;
use scene::Scene;
use stage::Stage;
use step::Step;
use view::View;

/// For the start and for waits for probes.
const BESIDES: Duration = Duration::from_secs(23);
/// For all keys to be asked for, if a step is not longer: on a busy machine only some are.
const CENSUS: Duration = Duration::from_secs(6);

/// Shows that keys stay in place while origins die, return and join
///
/// In one process, on loopback, in less than a minute: origins with a cache each before a slow database, the gateway,
/// a steady load. Exit code 1 when a promise was not kept.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Origins at first
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=64))]
    origins: u16,
    /// Origins in the end
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(3..=128))]
    grow_to: u16,
    /// Keys that are asked for
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(20..=20_000))]
    keys: u32,
    /// Requests a second
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(10..=20_000))]
    rate: u32,
    /// Seconds each of the four steps lasts
    #[arg(long, value_name = "S", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Other keys, and another origin that dies
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object with the figures of each step, and nothing else
    #[arg(long)]
    json: bool,
}

impl Demo {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if let Some(mistake) = self.mistake() {
            writeln!(io::stderr(), "{mistake}")?;
            return Ok(Exit::Misused);
        }
        let limit = self.limit();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            tokio::select! {
                played = timeout(limit, self.play()) => match played {
                    Ok(Err(error)) if is_unread(&error) => Ok(Exit::Done),
                    Ok(ended) => ended,
                    Err(_) => bail!("not over within {limit:?}: this machine may be too busy for --rate {}", self.rate),
                },
                heard = stopped() => heard.map(|()| Exit::Stopped),
            }
        })
    }

    /// What is wrong with the arguments together.
    fn mistake(&self) -> Option<String> {
        let (from, to) = (self.origins, self.grow_to);
        (to <= from).then(|| format!("--grow-to {to} is no growth from --origins {from}"))
    }

    fn limit(&self) -> Duration {
        BESIDES + 5 * self.length().max(CENSUS)
    }

    fn length(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }
}

/// Whoever stops reading, as `head` does, has seen enough.
fn is_unread(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Waits for a signal that ends the demo.
async fn stopped() -> anyhow::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (mut hangup, mut quit) = (signal(SignalKind::hangup())?, signal(SignalKind::quit())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
        _ = quit.recv() => {}
    }
    Ok(())
}

impl Demo {
    async fn play(&self) -> anyhow::Result<Exit> {
        let began = Instant::now();
        let mut view = View::new(self.json);
        let (on_stage, clients) = (Stage::new("origins")?, Stage::new("clients")?);
        let database = Arc::new(Database::new());
        let names: Arc<[String]> = (1..=self.grow_to).map(|number| format!("cache-{number}")).collect();
        let origins = self.origins(&on_stage, &names, &database)?;
        let first = origins.get(..self.origins.into()).unwrap_or(&origins);
        for origin in first {
            origin.rise().await?;
        }
        let gateway = Gateway::start(first).await?;
        view.say(&self.told(&gateway))?;
        let keys = Arc::new(Keys::new(self.seed, self.keys as usize));
        let victim = self.victim(&keys);
        let patience = self.length().max(CENSUS);
        let asking = Asking { gateway: gateway.listens, keys: Arc::clone(&keys), names, patience };
        let first = asking.ask("").await;
        if first.failed > 0 {
            bail!("{} of the first {} requests failed", first.failed, first.asked);
        }
        let load = Load::start(&clients, gateway.listens, &keys, self.rate.into());
        let board = Arc::new(Board::new(origins, database, Arc::clone(load.tally())));
        let watching = tokio::spawn(board::watch(Arc::clone(&board), gateway.admin()));
        let scene = Scene { gateway, board, asking, origins: self.origins.into(), victim, length: self.length() };
        let steps = scene.play(first, &mut view).await;
        watching.abort();
        load.finish().await;
        drop(scene);
        self.tell(&steps?, began.elapsed(), &mut view)
    }

    fn origins(&self, stage: &Stage, names: &[String], database: &Arc<Database>) -> io::Result<Vec<Origin>> {
        // twice its share: also what it takes over when another dies
        let holds = 2 * self.keys as usize / usize::from(self.origins);
        names.iter().map(|name| Origin::new(stage, name.clone(), holds, Arc::clone(database))).collect()
    }

    /// Who dies follows from the seed.
    fn victim(&self, keys: &Keys) -> usize {
        keys.hashes().first().map_or(0, |hash| *hash as usize % usize::from(self.origins))
    }

    /// What it begins with.
    fn told(&self, gateway: &Gateway) -> String {
        let Self { origins, keys, rate, .. } = self;
        format!(
            "{origins} origins with a cache each, one slow database, a gateway on {}.\n\
             {keys} keys, {rate} requests a second, each with a ts of its own that no key holds.\n\
             To look on meanwhile: http://{}/\n",
            gateway.listens, gateway.admin
        )
    }

    /// Says how it ended.
    fn tell(&self, steps: &[Step], took: Duration, view: &mut View) -> anyhow::Result<Exit> {
        let kept = steps.iter().all(|step| step.broken.is_empty());
        let took = took.as_secs_f64();
        let verdict = if kept {
            "As promised: one owner for each key, only what had to move moved, nothing failed."
        } else {
            "NOT AS PROMISED, see above."
        };
        view.verdict(kept, &format!("{verdict}\n{took:.0} s."))?;
        if self.json {
            let told = json!({
                "origins": self.origins, "grow_to": self.grow_to, "keys": self.keys, "rate": self.rate,
                "seconds": self.seconds, "seed": self.seed, "took": took, "kept": kept, "steps": steps,
            });
            print(&format!("{told:#}\n"))?;
        }
        Ok(if kept { Exit::Done } else { Exit::Failed })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        demo: Demo,
    }

    fn demo(line: &[&str]) -> Demo {
        Line::try_parse_from([&["demo"], line].concat()).unwrap().demo
    }

    #[test]
    fn the_default_takes_less_than_a_minute() {
        assert!(demo(&[]).limit() < Duration::from_secs(60));
        assert_eq!(demo(&[]).mistake(), None);
    }

    #[test]
    fn a_pool_that_does_not_grow_is_wrong_usage() {
        let mistake = demo(&["--origins", "12", "--grow-to", "12"]).mistake();
        assert_eq!(mistake.as_deref(), Some("--grow-to 12 is no growth from --origins 12"));
        assert!(Line::try_parse_from(["demo", "--keys", "3"]).is_err());
    }
}
