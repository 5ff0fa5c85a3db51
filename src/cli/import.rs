//! `import`: what a configuration of nginx would be in ours.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde_json::json;

use super::{Exit, offline, print};
use crate::config::{self, Severity};
use crate::import::{self, Fate, Flaw, Imported, Note};

/// Writes the configuration that does what an nginx.conf does
///
/// Reads the file and what it includes, and prints YAML with a comment for each directive that is not carried, or not quite, and
/// why; standard error has the same in short. What is printed passes `check`, unless files that it names (certificates) are
/// not here yet. docs/import.md says what is carried. It fails, and says so first, if what keeps somebody out could not be kept.
#[derive(Args)]
pub(super) struct Import {
    /// The configuration of nginx, or a file that one includes within `http`
    #[arg(value_name = "NGINX_CONF")]
    file: PathBuf,
    /// Where to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object: the YAML and all that is said of directives
    #[arg(long)]
    json: bool,
}

impl Import {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let imported = import::import(&self.file, &check)?;
        if let Some(output) = &self.output {
            fs::write(output, &imported.yaml).with_context(|| format!("cannot write {}", output.display()))?;
        }
        if self.json {
            let object = json!({ "yaml": imported.yaml, "notes": imported.notes, "check": said(&imported.flaws), "open": imported.open });
            print(&(serde_json::to_string_pretty(&object)? + "\n"))?;
        } else if self.output.is_none() {
            print(&imported.yaml)?;
        }
        // If nobody reads it, nobody misses it.
        _ = std::io::stderr().write_all(summary(&imported, &self.file).as_bytes());
        Ok(if imported.open.is_empty() { Exit::Done } else { Exit::Failed })
    }
}

/// What `check` says of this text.
fn check(text: &str) -> Vec<Flaw> {
    let Err(report) = config::parse_with("moorgate.yaml", text, offline::compile) else { return Vec::new() };
    let errors = report.mistakes.into_iter().filter(|mistake| mistake.severity == Severity::Error);
    errors.map(|it| Flaw { said: format!("{}, {}", it.found, it.meant), path: it.path }).collect()
}

fn said(flaws: &[Flaw]) -> Vec<String> {
    flaws.iter().map(|flaw| format!("{}: {}", flaw.path, flaw.said)).collect()
}

/// One line a directive, and how many there are.
fn summary(imported: &Imported, file: &Path) -> String {
    let mut text = String::new();
    for line in &imported.open {
        _ = writeln!(text, "OPEN: {line}");
    }
    for (fate, word) in [(Fate::NotCarried, "not carried"), (Fate::Differs, "differs")] {
        let mut lines: Vec<String> =
            imported.notes.iter().filter(|note| note.fate == fate).map(|it| line(it, word)).collect();
        lines.dedup();
        let mut seen = std::collections::HashSet::new();
        for line in lines.into_iter().filter(|line| seen.insert(line.clone())) {
            _ = writeln!(text, "{line}");
        }
    }
    for flaw in said(&imported.flaws) {
        _ = writeln!(text, "check: {flaw}");
    }
    let count = |fate| {
        let places: std::collections::HashSet<_> =
            imported.notes.iter().filter(|note| note.fate == fate).map(|note| (&note.place, &note.directive)).collect();
        places.len()
    };
    let (dropped, differs) = (count(Fate::NotCarried), count(Fate::Differs));
    let needless = count(Fate::Needless);
    _ = writeln!(
        text,
        "{}: {dropped} not carried, {differs} different, {needless} without a meaning here: see the comments",
        file.display()
    );
    text
}

fn line(note: &Note, word: &str) -> String {
    let place = if note.place.is_empty() { &note.section } else { &note.place };
    format!("{word}: {place}: {}: {}", note.directive, note.why)
}
