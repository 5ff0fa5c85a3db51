//! The commands that change what is in force: what was asked for, and how it ended, for people.

use std::io::{IsTerminal, Write};

use anyhow::bail;
use clap::Args;
use serde_json::Value;

use super::super::{Exit, colourful, print};
use super::{Target, guard, moved, wait};
use crate::config::units::{self, Percent};
use crate::config::written::Written;

/// Has the running gateway read its file again
#[derive(Args)]
pub(in crate::cli) struct Reload {
    #[command(flatten)]
    target: Target,
    /// Apply all but a changed `process` section, which takes a new process
    #[arg(long)]
    keep_process: bool,
    /// Let so much move this once, whatever guard.max_moved says
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    allow_moved: Option<Percent>,
    /// Go back unless `moorgate confirm` comes within this time from when all newcomers have their share
    #[arg(long, value_name = "TIME", value_parser = time)]
    confirm: Option<units::Duration>,
    /// Return when all newcomers are proven; exit code 1 if they are not in this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    wait: Option<units::Duration>,
    /// Print the answer as it is
    #[arg(long)]
    json: bool,
}

/// Keeps a configuration that `reload --confirm` put in force
#[derive(Args)]
pub(in crate::cli) struct Confirm {
    #[command(flatten)]
    target: Target,
    /// Print the answer as it is
    #[arg(long)]
    json: bool,
}

/// Has the running gateway go back to the configuration before
///
/// Origins that a reload dropped in the last ten minutes serve again at once. The file stays as it is; it is applied
/// again only by `reload`.
#[derive(Args)]
pub(in crate::cli) struct Rollback {
    #[command(flatten)]
    target: Target,
    /// Print the answer as it is
    #[arg(long)]
    json: bool,
}

/// Has the running gateway leave, as TERM does
///
/// Its readiness ends first, then what runs has time to finish.
#[derive(Args)]
pub(in crate::cli) struct Drain {
    #[command(flatten)]
    target: Target,
    /// Print the answer as it is
    #[arg(long)]
    json: bool,
}

impl Drain {
    pub(in crate::cli) fn run(self) -> anyhow::Result<Exit> {
        Ok(post(&self.target, "/drain", self.json)?.0)
    }
}

impl Confirm {
    pub(in crate::cli) fn run(self) -> anyhow::Result<Exit> {
        Ok(post(&self.target, "/confirm", self.json)?.0)
    }
}

impl Rollback {
    pub(in crate::cli) fn run(self) -> anyhow::Result<Exit> {
        Ok(post(&self.target, "/rollback", self.json)?.0)
    }
}

impl Reload {
    pub(in crate::cli) fn run(self) -> anyhow::Result<Exit> {
        let (exit, answer) = post(&self.target, &self.request(), self.json)?;
        let Some(patience) = self.wait.filter(|_| exit == Exit::Done) else { return Ok(exit) };
        let left = wait::for_newcomers(&self.target, &answer, patience.0)?;
        if left.is_empty() {
            return Ok(exit);
        }
        let left: Vec<_> = left.iter().map(|(pool, origin)| format!("{pool}/{origin}")).collect();
        bail!("still joining after {}: {}", patience.print(), left.join(", "));
    }

    fn request(&self) -> String {
        let mut asked = Vec::new();
        if self.keep_process {
            asked.push("keep_process=true".to_owned());
        }
        if let Some(Percent(allowed)) = self.allow_moved {
            asked.push(format!("allow_moved={allowed}%25"));
        }
        if let Some(within) = self.confirm {
            asked.push(format!("confirm={}", within.print()));
        }
        if asked.is_empty() { "/reload".to_owned() } else { format!("/reload?{}", asked.join("&")) }
    }
}

/// Asks, and tells how it ended.
fn post(target: &Target, path: &str, json: bool) -> anyhow::Result<(Exit, Value)> {
    let reply = target.ask("POST", path)?;
    let Ok(answer) = serde_json::from_str::<Value>(&reply.body) else {
        bail!("the gateway answers {}: {}", reply.status, reply.body.trim_end());
    };
    let done = reply.status == 200;
    if json {
        print(&format!("{}\n", reply.body.trim_end()))?;
    } else if done {
        print(&told(&answer, false))?;
        if matches!(answer["result"].as_str(), Some("applied" | "rolled_back")) {
            let colour = colourful(std::io::stdout().is_terminal());
            print(&moved::by(target, answer["version"].as_u64(), colour))?;
        }
    } else {
        let mut errors = std::io::stderr().lock();
        errors.write_all(told(&answer, colourful(errors.is_terminal())).as_bytes())?;
    }
    let exit = match reply.status {
        200 => Exit::Done,
        409 if answer["pools"].is_object() => Exit::Refused,
        _ => Exit::Failed,
    };
    Ok((exit, answer))
}

/// How a reload ended that nobody asked for by this command: the exit code, and what is told.
pub(super) fn ended(answer: &Value) -> (Exit, String) {
    let exit = match answer["result"].as_str() {
        Some("applied" | "unchanged") => Exit::Done,
        _ if answer["pools"].is_object() => Exit::Refused,
        _ => Exit::Failed,
    };
    (exit, told(answer, false))
}

fn percent(text: &str) -> Result<Percent, String> {
    Percent::parse(text).ok_or_else(|| format!("expected {}", Percent::EXPECTED))
}

fn time(text: &str) -> Result<units::Duration, String> {
    units::Duration::parse(text).ok_or_else(|| format!("expected {}", units::Duration::EXPECTED))
}

/// The answer to a reload, for people; with colours for a terminal.
fn told(answer: &Value, colour: bool) -> String {
    let mut lines = Vec::new();
    let result = answer["result"].as_str().unwrap_or("failed");
    match result {
        "refused" => {
            lines.extend(mistakes(&answer["mistakes"], ""));
            lines.extend(Some(guard::told(&answer["pools"], colour)).filter(|told| !told.is_empty()));
            lines.extend(answer["why"].as_str().map(str::to_owned));
        }
        "draining" => lines.push("draining: not ready any more, and gone when everybody is served".to_owned()),
        "failed" => lines.push(format!("failed: {}", answer["why"].as_str().unwrap_or("no reason given"))),
        _ => lines.push(format!(
            "{}: version {}, digest {}",
            result.replace('_', " "),
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
    if let Some(within) = answer["confirm_within"].as_f64() {
        lines.push(format!(
            "goes back unless `moorgate confirm` comes within {within} s from when all newcomers have their share"
        ));
    }
    lines.extend(mistakes(&answer["warnings"], "warning: "));
    if result == "refused" {
        let instead = answer["pools"].as_object().map_or("", |_| "; `reload --allow-moved PERCENT` allows more, once");
        lines.push(format!("refused: nothing changed{instead}"));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

pub(super) fn names(list: &Value) -> impl Iterator<Item = &str> {
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
            told(&answer, false),
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
            told(&answer, false),
            "m.yaml:7:18: pools: nothing, a pool\nm.yaml: no such file\nwarning: m.yaml:9:1: r: f, m\nrefused: nothing changed\n"
        );
    }

    #[test]
    fn what_could_not_be_tried_says_why() {
        assert_eq!(told(&json!({ "result": "failed", "why": "draining" }), false), "failed: draining\n");
    }
}
