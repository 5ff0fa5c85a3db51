//! `supervise`: starts `run` and whoever follows it.

use std::ffi::OsString;

use anyhow::Context;
use clap::Args;

use super::{Exit, Usage};
use crate::config::process::Log;
use crate::lifecycle::{self, supervise};
use crate::observe;

/// Starts `run` again when it crashes, and keeps its clients waiting meanwhile: PID 1 of a container
///
/// Passes HUP, USR1, TERM, QUIT and INT on, reaps what is left behind, and ends with the exit code of the last process.
#[derive(Args)]
pub(super) struct Supervise {
    /// The command and its arguments
    #[arg(last = true, value_name = "run", default_value = "run")]
    command: Vec<OsString>,
}

impl Supervise {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        if self.command.first().is_none_or(|command| command != "run") {
            return Err(Usage("supervise takes `run`: moorgate supervise -- run --config FILE".to_owned()).into());
        }
        let sockets = lifecycle::activated()?.into_iter().map(|(_, socket)| socket).collect();
        observe::log::init(Log::default())?;
        // what is at this path by then is started after a crash: a binary that was replaced, too
        let program = std::env::current_exe().context("which program is this?")?;
        let code = supervise::supervise(program, self.command, sockets).context("cannot supervise")?;
        Ok(Exit::As(u8::try_from(code).unwrap_or(u8::MAX)))
    }
}
