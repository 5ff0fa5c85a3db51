//! What a shell and `man` want to know of the commands.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man as Page;

use super::{Arguments, Exit, print};

/// Prints what completes these commands in a shell
///
/// bash: `moorgate completions bash > /usr/share/bash-completion/completions/moorgate`; zsh: into a folder of `$fpath` as
/// `_moorgate`; fish: `~/.config/fish/completions/moorgate.fish`.
#[derive(Args)]
pub(super) struct Completions {
    /// Of which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "moorgate", &mut text);
        print(&String::from_utf8(text).context("completions are text")?)?;
        Ok(Exit::Done)
    }
}

/// Prints the manual, or writes the page of each command
///
/// `moorgate man | man -l -` shows it; `moorgate man --to /usr/local/share/man/man1` puts `moorgate.1`, `moorgate-run.1` and the
/// others where `man moorgate` and `man moorgate-run` find them.
#[derive(Args)]
pub(super) struct Man {
    /// Write a file for each command into this folder, which has to exist
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        match &self.to {
            None => {
                let mut text = Vec::new();
                Page::new(Arguments::command()).render(&mut text)?;
                print(&String::from_utf8(text).context("a page is text")?)?;
            }
            Some(folder) => print(&write(folder)?)?,
        }
        Ok(Exit::Done)
    }
}

/// Writes every page; answers what was written, a line each.
fn write(folder: &Path) -> anyhow::Result<String> {
    anyhow::ensure!(folder.is_dir(), "{}: no such folder", folder.display());
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut said = String::new();
    for page in command.get_subcommands().chain([&command]) {
        let file = Page::new(page.clone()).generate_to(folder).with_context(|| folder.display().to_string())?;
        said += &format!("{}\n", file.display());
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_page() {
        let folder = tempfile::tempdir().unwrap();
        let said = write(folder.path()).unwrap();
        let commands = Arguments::command();
        for command in commands.get_subcommands() {
            let page =
                std::fs::read_to_string(folder.path().join(format!("moorgate-{}.1", command.get_name()))).unwrap();
            let name = format!(".TH moorgate-{} 1", command.get_name());
            assert!(page.contains(&name) && page.contains(".SH SYNOPSIS"), "{page}");
            assert!(page.contains(".SH OPTIONS"), "{page}");
        }
        assert!(folder.path().join("moorgate.1").is_file());
        assert_eq!(said.lines().count(), commands.get_subcommands().count() + 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = write(Path::new("/nonexistent/man")).unwrap_err().to_string();
        assert_eq!(error, "/nonexistent/man: no such folder");
    }

    #[test]
    fn every_shell_can_complete_every_command() {
        for shell in clap::ValueEnum::value_variants() {
            let mut text = Vec::new();
            clap_complete::generate::<Shell, _>(*shell, &mut Arguments::command(), "moorgate", &mut text);
            let text = String::from_utf8(text).unwrap();
            for command in Arguments::command().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell}: {}", command.get_name());
            }
        }
    }
}
