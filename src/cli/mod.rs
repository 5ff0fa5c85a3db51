//! The commands: arguments in, exit code out.
//!
//! Each command is a struct of its own file, with its arguments as fields and a `run` that answers an [`Exit`]. A new
//! one takes its line in [`Command`] and its line in [`Command::run`]; one that does not exist yet is in neither.

mod assume;
mod bars;
mod control;
mod demo;
#[cfg(test)]
mod deployment;
mod estate;
mod explain;
mod figures;
mod import;
mod key;
mod moves;
mod offline;
mod pages;
mod places;
mod plan;
mod records;
#[cfg(test)]
mod reference;
mod request;
mod routed;
mod run;
mod serving;
mod supervise;
mod takeover;
mod top;
mod well;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};

use crate::config::Report;

/// Where a file is looked for when none is named.
const PLACES: [&str; 2] = ["/etc/moorgate/moorgate.yaml", "conf/moorgate.yaml"];

/// Runs the command named by the process's arguments.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(e) => {
            // Help and version are asked for; anything else is wrong usage. If nobody reads it, nobody misses it.
            let _ = e.print();
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
    };
    let exit = arguments.command.run().unwrap_or_else(|e| {
        // A report has its file on every line.
        let of = if e.is::<Report>() { "" } else { "moorgate: " };
        let _ = writeln!(std::io::stderr(), "{of}{e:#}");
        if e.is::<Usage>() { Exit::Misused } else { Exit::Failed }
    });
    exit.into()
}

/// An HTTP gateway that keeps every key on its origin while everything around it changes.
#[derive(Parser)]
#[command(name = "moorgate", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Run),
    Supervise(supervise::Supervise),
    Check(offline::Check),
    Dump(offline::Dump),
    Schema(offline::Schema),
    Explain(explain::Explain),
    Status(control::Status),
    Reload(control::Reload),
    Confirm(control::Confirm),
    Rollback(control::Rollback),
    Drain(control::Drain),
    Upgrade(control::Upgrade),
    Key(key::Key),
    Plan(plan::Plan),
    Import(import::Import),
    Demo(demo::Demo),
    Completions(pages::Completions),
    Man(pages::Man),
}

impl Command {
    fn run(self) -> anyhow::Result<Exit> {
        match self {
            Self::Run(command) => command.run(),
            Self::Supervise(command) => command.run(),
            Self::Check(command) => command.run(),
            Self::Dump(command) => command.run(),
            Self::Schema(command) => command.run(),
            Self::Explain(command) => command.run(),
            Self::Status(command) => command.run(),
            Self::Reload(command) => command.run(),
            Self::Confirm(command) => command.run(),
            Self::Rollback(command) => command.run(),
            Self::Drain(command) => command.run(),
            Self::Upgrade(command) => command.run(),
            Self::Key(command) => command.run(),
            Self::Plan(command) => command.run(),
            Self::Import(command) => command.run(),
            Self::Demo(command) => command.run(),
            Self::Completions(command) => command.run(),
            Self::Man(command) => command.run(),
        }
    }
}

/// How a command ends. Most wrong usage (2) is clap's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for is done.
    Done,
    /// It could not be done.
    Failed,
    /// The command line asks for what cannot be.
    Misused,
    /// A guard refuses it.
    Refused,
    /// A signal ended it.
    Stopped,
    /// As a process it started did.
    As(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Done => Self::SUCCESS,
            Exit::Failed => Self::FAILURE,
            Exit::Misused => Self::from(2),
            Exit::Refused => Self::from(3),
            Exit::Stopped => Self::from(130),
            Exit::As(code) => Self::from(code),
        }
    }
}

/// A command line that is well-formed but wrong: ends with 2 as what clap refuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(String);

/// `--config FILE`, which every command takes.
#[derive(Args)]
pub(crate) struct ConfigFile {
    /// The configuration [default: /etc/moorgate/moorgate.yaml, then conf/moorgate.yaml]
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFile {
    /// The file that was named, or the first that is there.
    pub(crate) fn path(&self) -> PathBuf {
        let found = || PLACES.iter().find(|place| Path::new(place).exists()).unwrap_or(&PLACES[0]);
        self.config.clone().unwrap_or_else(|| PathBuf::from(found()))
    }

    /// The same for a command that can do nothing without one.
    pub(crate) fn found(&self) -> anyhow::Result<PathBuf> {
        self.existing().with_context(|| format!("{}; name one with --config", nowhere()))
    }

    /// The same, or nothing when none was named and none is there.
    pub(crate) fn existing(&self) -> Option<PathBuf> {
        let found = || PLACES.iter().find(|place| Path::new(place).exists()).map(PathBuf::from);
        self.config.clone().or_else(found)
    }
}

/// None was named, and none is where it is looked for.
fn nowhere() -> String {
    let [first, then] = PLACES;
    format!("no configuration: neither {first} nor {then} is there")
}

/// May there be colours? On a terminal, unless its owner wants none.
pub(crate) fn colourful(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
}

/// Writes to standard output. Whoever stops reading, as `head` does, has read enough.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_named_file_is_taken_as_it_is() {
        let named = ConfigFile { config: Some("x.yaml".into()) };
        assert_eq!(named.path(), Path::new("x.yaml"));
    }
}
