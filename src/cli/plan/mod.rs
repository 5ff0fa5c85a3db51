//! What would a change of the file move? The `plan` command.
//!
//! Both files are compiled as a reload would, and every key is placed by the pick of the data plane in a pool in which
//! every origin is well. It never touches the network.

mod arguments;
mod asked;
mod found;
mod log_format;
mod log_line;
mod progress;
mod replay;
mod report;
mod source;
mod table;

use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::control::Target;
use super::{Exit, Usage, print, well};
use crate::admin::Sampled;
use crate::config::written::Written as _;
use crate::config::{self, Loaded, units::Percent};
use crate::pool::cause::causes;
use crate::snapshot::{Snapshot, guard};
use arguments::{Freed, freed};
use asked::{Asked, What};
use log_line::Shape;
use progress::Progress;
use replay::{OnePool, Replay};
use report::{CauseReport, PoolReport, Report, Rerouted};
use source::{Source, Text};

/// Say what a change of the file would move, from whom to whom, and why
///
/// Between two files keys come from a file, from an access log, or are made up when neither is named. Without --from the
/// running gateway is asked for what it serves and for a sample of its recent keys. Exit code 3: `guard.max_moved` would
/// refuse the change.
#[derive(clap::Args)]
pub(super) struct Plan {
    #[command(flatten)]
    target: Target,
    /// The configuration before; left out: what the running gateway serves
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// The configuration after
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// One literal key or one URL (http://…) a line; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "access_log")]
    keys: Option<PathBuf>,
    /// An access log of ours (json, upstream) or of nginx; - is standard input
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// nginx's log_format, its text or its whole directive, or `combined`
    #[arg(long, value_name = "FORMAT", requires = "access_log")]
    log_format: Option<String>,
    /// The host of requests that are logged without one
    #[arg(long, value_name = "NAME", requires = "access_log")]
    host: Option<String>,
    /// This pool alone
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// How many requests hit the origins' caches now, to say what the change costs behind them; the running gateway
    /// knows it by itself where `cache_status` is set
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    hit_ratio: Option<f64>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

fn percent(text: &str) -> Result<f64, String> {
    Percent::parse(text).map(Percent::ratio).ok_or_else(|| format!("expected {}", Percent::EXPECTED))
}

/// A file and what it compiles to.
struct Side {
    loaded: Loaded,
    snapshot: Snapshot,
}

impl Side {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let (loaded, snapshot) = config::load_with(path, well::snapshot)?;
        Ok(Self { loaded, snapshot })
    }
}

impl Plan {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let sides = self.sides()?;
        for pool in found::unknown(&sides) {
            let told = "its origins are found by DNS, which is not asked: others stand for them";
            let _ = writeln!(std::io::stderr(), "pool {pool}: {told}");
        }
        let sides = found::fill(sides)?;
        let report = self.report(&sides, &self.source(&sides)?, &mut Progress::new())?;
        if self.json {
            print(&format!("{}\n", serde_json::to_string(&report)?))?;
        } else {
            print(&table::show(&report, super::colourful(std::io::stdout().is_terminal())))?;
        }
        Ok(if report.refused { Exit::Refused } else { Exit::Done })
    }

    fn sides(&self) -> anyhow::Result<[Side; 2]> {
        let before = match &self.from {
            Some(from) => Side::read(from)?,
            None => {
                let text = self.target.get("/config")?;
                let (loaded, snapshot) = config::parse_with("the running configuration", &text, well::snapshot)?;
                let side = Side { loaded, snapshot };
                if found::is_whole(&side) { side } else { found::running(side, &self.target.get_json("/status")?)? }
            }
        };
        Ok([before, Side::read(&self.to)?])
    }

    /// The keys: of a file, of a log, of the gateway, or of nobody.
    fn source(&self, sides: &[Side; 2]) -> anyhow::Result<Source> {
        Ok(match (&self.keys, &self.access_log) {
            (Some(keys), _) => Source::Keys(Text::of(keys)?),
            (None, Some(log)) => {
                let shape = Shape::of(self.log_format.as_deref(), self.host.as_deref())?;
                Source::AccessLog(Text::of(log)?, shape)
            }
            (None, None) if self.from.is_some() => Source::Generated,
            (None, None) => {
                let pools = sides[0].snapshot.upstreams().iter().map(|upstream| &**upstream.pool.name());
                let wanted = pools.filter(|name| self.pool.as_ref().is_none_or(|pool| pool == name));
                let samples = wanted.map(|name| self.target.get_json::<Sampled>(&Sampled::target(name)));
                let pools = samples.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flat_map(|sample| sample.pools);
                Source::Sample(Sampled { pools: pools.collect() })
            }
        })
    }

    fn report(&self, sides: &[Side; 2], source: &Source, progress: &mut Progress) -> anyhow::Result<Report> {
        let [before, after] = [&sides[0].snapshot, &sides[1].snapshot];
        let mut replay = Replay::new(before, after, self.pool.as_deref());
        if let Source::Sample(sampled) = source {
            sampled.pools.iter().for_each(|(pool, sample)| replay.thinned(pool, sample.one_of));
        }
        if let Some(pool) = &self.pool
            && replay.pools().is_empty()
        {
            bail!(Usage(format!("no pool \"{pool}\" in both files")));
        }
        let mut read = 0_u64;
        let skipped = source.each(progress, &mut |asked| {
            read += 1;
            replay.take(asked);
        })?;
        if let (0, Some((line, why))) = (read, &skipped.first) {
            bail!("none of its {} lines can be read; line {line}: {why}", skipped.lines);
        }
        let scattered = scattered(sides, &replay, source, progress)?;
        let names = |one: &Snapshot, other: &Snapshot| {
            let alone =
                one.upstreams().iter().map(|pool| &**pool.pool.name()).filter(|name| other.named(name).is_none());
            alone.map(str::to_owned).collect::<Vec<_>>()
        };
        let rerouted = replay.rerouted.iter().map(|([from, to], requests)| Rerouted {
            from: from.clone(),
            to: to.clone(),
            requests: *requests,
        });
        let mut report = Report {
            rerouted: rerouted.collect(),
            elsewhere: replay.elsewhere,
            unknown: replay.unknown,
            source: source.word(),
            added: names(after, before),
            removed: names(before, after),
            pools: Default::default(),
            refused: false,
            skipped: 0,
            first_skipped: None,
        };
        report.skipped(skipped);
        for (pool, arguments) in replay.into_pools().into_iter().zip(scattered) {
            let name = pool.name.to_owned();
            report.pools.insert(name, self.pool(sides, pool, arguments, source));
        }
        report.refused = report.pools.values().any(PoolReport::refused);
        Ok(report)
    }

    fn pool(&self, sides: &[Side; 2], pool: OnePool<'_>, mut found: Vec<CauseReport>, source: &Source) -> PoolReport {
        let [before, after] = sides;
        let sections = [before, after].map(|side| side.loaded.config.pools.get(pool.name));
        if let [Some(old), Some(new)] = sections {
            found.extend(causes(old, new).into_iter().map(CauseReport::from));
        }
        let (name, judgement) = (pool.name, guard::judge(&before.snapshot, &after.snapshot, pool.name));
        let alike = pool.planner.alike();
        let report = PoolReport::new(&pool.planner.finish(), alike, judgement.as_ref(), found);
        match self.hit_ratio.or_else(|| source.hit_ratio(name)) {
            Some(hit_ratio) => report.with_hit_ratio(hit_ratio, !matches!(source, Source::Generated)),
            None => report,
        }
    }
}

/// What arguments whose values hardly repeat do, by pool: for that everything is told a second time.
fn scattered(
    sides: &[Side; 2],
    replay: &Replay<'_>,
    source: &Source,
    progress: &mut Progress,
) -> anyhow::Result<Vec<Vec<CauseReport>>> {
    let mut suspects: Vec<_> = replay.pools().iter().map(|pool| Suspects::of(sides, pool)).collect();
    if suspects.iter().any(Option::is_some) {
        source.each(progress, &mut |asked| again(&mut suspects, replay, asked))?;
    }
    let told = suspects.into_iter().zip(replay.pools());
    Ok(told.map(|(suspects, pool)| suspects.map_or_else(Vec::new, |suspects| suspects.causes(pool))).collect())
}

fn again(suspects: &mut [Option<Suspects>], replay: &Replay<'_>, asked: &Asked<'_>) {
    let What::Request(seen) = &asked.what else { return };
    let Some(number) = replay.found(seen) else { return };
    if let (Some(Some(suspects)), Some(pool)) = (suspects.get_mut(number), replay.pools().get(number)) {
        suspects.freed.take(seen, &pool.planner, asked.requests);
    }
}

/// Arguments that are suspected, and the key without them.
struct Suspects {
    arguments: Vec<arguments::Unsteady>,
    line: String,
    freed: Freed,
}

/// With the arguments left out there have to be clearly fewer keys, or nothing was repeated anyway.
const FEWER: f64 = 0.8;

impl Suspects {
    fn of(sides: &[Side; 2], pool: &OnePool<'_>) -> Option<Self> {
        let arguments = pool.arguments.unsteady();
        let names: Vec<String> = arguments.iter().map(|argument| argument.name.clone()).collect();
        if names.is_empty() {
            return None;
        }
        let [before, after] = sides.each_ref().map(|side| freed(side.loaded.config.pools.get(pool.name)?, &names));
        let ((before, _), (after, line)) = (before?, after?);
        Some(Self { arguments, line, freed: Freed::new(&before, &after)? })
    }

    fn causes(self, pool: &OnePool<'_>) -> Vec<CauseReport> {
        let Some(scatter) = self.freed.scatter(&pool.planner) else { return Vec::new() };
        if scatter.keys as f64 > pool.planner.count() as f64 * FEWER {
            return Vec::new();
        }
        self.arguments.into_iter().map(|argument| CauseReport::argument(argument, &self.line, &scatter)).collect()
    }
}

#[cfg(test)]
mod tests;
