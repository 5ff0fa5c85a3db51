//! `moorgate upgrade`: has a new process take over, and tells what became of its file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use serde_json::Value;

use super::super::run::now;
use super::super::{Exit, print};
use super::{Target, reload};

/// For the new process to start, take over and serve for a while.
const PATIENCE: Duration = Duration::from_secs(95);

/// Between two looks at what becomes of the file.
const LOOK: Duration = Duration::from_millis(200);

/// Has a new process take over from the running one, without a request lost
///
/// It serves what the running one serves; its file comes into force once no connection of that one can begin a request.
#[derive(Args)]
pub(in crate::cli) struct Upgrade {
    #[command(flatten)]
    target: Target,
    /// The program to start [default: the one the running process was started from]
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Return when the new process serves alone, before its file is in force
    #[arg(long)]
    no_wait: bool,
    /// Print the answers as they are
    #[arg(long)]
    json: bool,
}

impl Upgrade {
    pub(in crate::cli) fn run(self) -> anyhow::Result<Exit> {
        let request = match &self.binary {
            Some(binary) => format!("/upgrade?binary={}", escaped(&absolute(binary)?)),
            None => "/upgrade".to_owned(),
        };
        let reply = self.target.ask_within(PATIENCE, "POST", &request)?;
        let Ok(answer) = serde_json::from_str::<Value>(&reply.body) else {
            bail!("the gateway answers {}: {}", reply.status, reply.body.trim_end());
        };
        if self.json {
            print(&format!("{}\n", reply.body.trim_end()))?;
        }
        if reply.status != 200 {
            bail!("{}; the running process serves on", answer["why"].as_str().unwrap_or("no reason given"));
        }
        if !self.json {
            let program = answer["program"].as_str().unwrap_or("-");
            print(&format!("upgraded: process {} of version {program} serves\n", answer["pid"]))?;
        }
        if self.no_wait { Ok(Exit::Done) } else { self.follow(now()) }
    }

    /// Waits for what becomes of the file.
    fn follow(&self, since: Instant) -> anyhow::Result<Exit> {
        loop {
            let status: Value = self.target.get_json("/status")?;
            let upgrade = &status["upgrade"];
            if upgrade["over"] != false {
                return self.tell(&upgrade["file"]);
            }
            if now().saturating_duration_since(since) > PATIENCE {
                let mut errors = std::io::stderr().lock();
                writeln!(errors, "process {} still serves; the file comes into force later", upgrade["pid"])?;
                return Ok(Exit::Done);
            }
            sleep(LOOK);
        }
    }

    fn tell(&self, file: &Value) -> anyhow::Result<Exit> {
        if file.is_null() {
            return Ok(Exit::Done);
        }
        let (exit, told) = reload::ended(file);
        if self.json {
            print(&format!("{file}\n"))?;
        } else if exit == Exit::Done {
            print(&told)?;
        } else {
            let mut errors = std::io::stderr().lock();
            writeln!(errors, "{told}the new process serves on with what was in force")?;
        }
        Ok(exit)
    }
}

/// The running process has a folder of its own.
fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path)?;
    Ok(path.to_string_lossy().into_owned())
}

/// As a value in a query.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_');
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_the_query() {
        assert_eq!(escaped("/usr/bin/moor gate%&é"), "/usr/bin/moor%20gate%25%26%C3%A9");
    }
}
