//! Commands that need nothing but the file: what is wrong with it, what it means, how it may be written.
//!
//! `check` says what a reload would say: the file is loaded and compiled by the same functions.

use std::path::Path;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{ConfigFile, Exit, print};
use crate::config::{self, Complaint, Config, Invalid, Loaded, Mistake, Report, Severity};
use crate::observe::Metrics;
use crate::snapshot::Snapshot;

/// Says what a reload would say of the file
///
/// One line a mistake, with its place, what was found and what was meant. Exit code 1 when the file is refused;
/// warnings alone leave it 0.
#[derive(Args)]
pub(super) struct Check {
    #[command(flatten)]
    file: ConfigFile,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let path = self.file.found()?;
        let verdict = Verdict::of(&path, load(&path));
        print(&if self.json { verdict.json() } else { verdict.text() })?;
        Ok(if verdict.is_refused { Exit::Failed } else { Exit::Done })
    }
}

/// Prints the effective configuration: the file with every default filled in
#[derive(Args)]
pub(super) struct Dump {
    #[command(flatten)]
    file: ConfigFile,
    /// Print JSON instead of YAML
    #[arg(long)]
    json: bool,
}

impl Dump {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let loaded = load(&self.file.found()?)?;
        print(&if self.json { pretty(&loaded.config) } else { config::dump(&loaded.config) })?;
        Ok(Exit::Done)
    }
}

/// Prints the JSON Schema of the file, for editors
#[derive(Args)]
pub(super) struct Schema {}

impl Schema {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        print(&pretty(&config::schema()))?;
        Ok(Exit::Done)
    }
}

fn load(path: &Path) -> Result<Loaded, Report> {
    config::load_with(path, compile).map(|(loaded, compiled)| loaded.warned(compiled.warnings()))
}

/// What a reload would put in force; nobody asks for its counters.
#[expect(clippy::disallowed_methods, reason = "a command may look at the clock")]
pub(super) fn compile(config: &Config) -> Result<Snapshot, Vec<Complaint>> {
    let metrics = Metrics::new().map_err(|error| vec![Invalid::new(error.to_string(), "").at("")])?;
    Snapshot::compile(config, None, &metrics, Instant::now())
}

fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// What `check` has to say.
struct Verdict {
    file: String,
    is_refused: bool,
    /// In the order of the file, warnings among them.
    mistakes: Vec<Mistake>,
}

impl Verdict {
    fn of(path: &Path, loaded: Result<Loaded, Report>) -> Self {
        let file = path.display().to_string();
        match loaded {
            Ok(loaded) => Self { file, is_refused: false, mistakes: loaded.warnings },
            Err(report) => Self { file, is_refused: true, mistakes: report.mistakes },
        }
    }

    fn text(&self) -> String {
        let mut text: String = self.mistakes.iter().map(|mistake| format!("{mistake}\n")).collect();
        if !self.is_refused {
            text += &format!("{}: ok\n", self.file);
        }
        text
    }

    fn json(&self) -> String {
        let of = |severity| self.mistakes.iter().filter(move |m| m.severity == severity).collect::<Vec<_>>();
        pretty(&json!({
            "file": self.file,
            "result": if self.is_refused { "refused" } else { "ok" },
            "mistakes": of(Severity::Error),
            "warnings": of(Severity::Warning),
        }))
    }
}
