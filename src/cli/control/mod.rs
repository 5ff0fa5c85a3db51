//! Commands to the running gateway: `status` and `reload`, as a client of its control socket or admin address.

mod client;
mod door;
mod table;

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;

use super::{ConfigFile, Exit, print};
use client::{Reply, ask};
use door::Door;

/// For each read of an answer. A reload waits two seconds for a file that is being written.
const PATIENCE: Duration = Duration::from_secs(40);

/// Which gateway is asked: the one of the file, unless another is named.
#[derive(Args)]
struct Target {
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
}

/// Has the running gateway read its file again
#[derive(Args)]
pub(super) struct Reload {
    #[command(flatten)]
    target: Target,
    /// Apply all but a changed `process` section, which takes a new process
    #[arg(long)]
    keep_process: bool,
    /// Print the answer as it is
    #[arg(long)]
    json: bool,
}

impl Target {
    fn ask(&self, method: &str, target: &str) -> anyhow::Result<Reply> {
        let first = match (&self.socket, self.admin) {
            (Some(path), _) => Door::Socket { path: path.clone(), file: None },
            (None, Some(address)) => Door::Admin(address),
            (None, None) => Door::of_file(self.file.existing().as_deref())?,
        };
        let line = match (first.open(PATIENCE), self.admin) {
            (Err(_), Some(address)) if self.socket.is_some() => Door::Admin(address).open(PATIENCE),
            (line, _) => line,
        };
        ask(&mut line?, method, target)
    }
}

impl Status {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let reply = self.target.ask("GET", "/status")?;
        if reply.status != 200 {
            bail!("the gateway answers {}: {}", reply.status, reply.body.trim_end());
        }
        if self.json {
            print(&format!("{}\n", reply.body.trim_end()))?;
        } else {
            let status: Value = serde_json::from_str(&reply.body).context("the answer is no JSON")?;
            let terminal = std::io::stdout().is_terminal();
            let colour = terminal && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
            print(&table::show(&status, colour))?;
        }
        Ok(Exit::Done)
    }
}

impl Reload {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let target = if self.keep_process { "/reload?keep_process=true" } else { "/reload" };
        let reply = self.target.ask("POST", target)?;
        let Ok(answer) = serde_json::from_str::<Value>(&reply.body) else {
            bail!("the gateway answers {}: {}", reply.status, reply.body.trim_end());
        };
        let done = reply.status == 200;
        if self.json {
            print(&format!("{}\n", reply.body.trim_end()))?;
        } else if done {
            print(&told(&answer))?;
        } else {
            std::io::stderr().write_all(told(&answer).as_bytes())?;
        }
        Ok(if done { Exit::Done } else { Exit::Failed })
    }
}

/// The answer to a reload, for people.
fn told(answer: &Value) -> String {
    let mut lines = Vec::new();
    let result = answer["result"].as_str().unwrap_or("failed");
    match result {
        "refused" => lines.extend(mistakes(&answer["mistakes"], "")),
        "failed" => lines.push(format!("failed: {}", answer["why"].as_str().unwrap_or("no reason given"))),
        _ => lines.push(format!(
            "{result}: version {}, digest {}",
            answer["version"],
            answer["digest"].as_str().unwrap_or("-")
        )),
    }
    lines.extend(names(&answer["changed"]).map(|path| format!("changed: {path}")));
    for (pool, origins) in answer["joining"].as_object().into_iter().flatten() {
        let origins: Vec<_> = names(origins).collect();
        if !origins.is_empty() {
            lines.push(format!("joining {pool}: {}", origins.join(", ")));
        }
    }
    lines.extend(mistakes(&answer["warnings"], "warning: "));
    if result == "refused" {
        lines.push("refused: nothing changed".into());
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// `FILE:LINE:COL: path: what was found, what was meant`, one a mistake.
fn mistakes<'a>(list: &'a Value, before: &'a str) -> impl Iterator<Item = String> + 'a {
    list.as_array().into_iter().flatten().map(move |mistake| {
        let text = |name: &str| mistake[name].as_str().unwrap_or_default();
        let mut line = format!("{before}{}", text("file"));
        if mistake["line"].as_u64().unwrap_or(0) > 0 {
            line.push_str(&format!(":{}:{}", mistake["line"], mistake["column"]));
        }
        for (separator, part) in [(": ", text("path")), (": ", text("found")), (", ", text("meant"))] {
            if !part.is_empty() {
                line.push_str(separator);
                line.push_str(part);
            }
        }
        line
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_applied_reload_tells_what_changed_and_who_joins() {
        let answer = json!({
            "result": "applied", "version": 4, "digest": "ab", "changed": ["pools.origin.origins", "routes"],
            "joining": { "origin": ["c:80", "d:80"], "other": [] }, "warnings": [],
        });
        assert_eq!(
            told(&answer),
            "applied: version 4, digest ab\nchanged: pools.origin.origins\nchanged: routes\njoining origin: c:80, d:80\n"
        );
    }

    #[test]
    fn a_refused_reload_tells_every_mistake() {
        let answer = json!({
            "result": "refused",
            "mistakes": [
                { "file": "m.yaml", "line": 7, "column": 18, "path": "pools", "found": "nothing", "meant": "a pool" },
                { "file": "m.yaml", "line": 0, "column": 0, "path": "", "found": "no such file", "meant": "" },
            ],
            "warnings": [{ "file": "m.yaml", "line": 9, "column": 1, "path": "r", "found": "f", "meant": "m" }],
        });
        assert_eq!(
            told(&answer),
            "m.yaml:7:18: pools: nothing, a pool\nm.yaml: no such file\nwarning: m.yaml:9:1: r: f, m\nrefused: nothing changed\n"
        );
    }

    #[test]
    fn what_could_not_be_tried_says_why() {
        assert_eq!(told(&json!({ "result": "failed", "why": "draining" })), "failed: draining\n");
    }
}
