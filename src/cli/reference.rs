//! docs/commands.md, made of what the commands say of themselves.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use super::Arguments;
use crate::config::generated;

const PAGE: &str = "docs/commands.md";

const HEAD: &str = "# Commands

What each command takes, as `moorgate COMMAND --help` and `moorgate man` have it. Commands that speak to a running gateway do so
over its control socket, which they find by the configuration; those that only ask it something (`status`, `plan`, `key --top`) ask at
its admin address where there is no socket for them. Those that only read files never touch the network.

| exit code | |
|---|---|
| 0 | it is done |
| 1 | it could not be done; standard error says why |
| 2 | the command line asks for what cannot be |
| 3 | a guard refuses it |
| 130 | a signal ended it at once |
";

/// As a cell of a table; paragraphs become sentences.
fn cell(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
    let text = paragraphs.collect::<Vec<_>>().join(". ").replace(".. ", ". ");
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn row(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let words: Vec<_> = arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let takes_words = !words.is_empty() && arg.get_action().takes_values();
    let of = if takes_words { format!(": {}", words.join(", ")) } else { String::new() };
    let default = arg.get_default_values().iter().filter_map(|value| value.to_str());
    let default: Vec<_> =
        default.filter(|_| arg.get_action().takes_values()).map(|value| format!("`{value}`")).collect();
    let line = format!("| `{short}{}` | {} | {}{of} |\n", cell(&arg.to_string()), default.join(", "), cell(&help));
    line.replace("|  |", "| |")
}

fn section(command: &Command) -> String {
    let mut out = format!("\n## `moorgate {}`\n\n", command.get_name());
    let about = command.get_long_about().or_else(|| command.get_about()).map(ToString::to_string).unwrap_or_default();
    let mut paragraphs = about.trim().split("\n\n").map(|text| text.trim().to_owned());
    // The first says what it does, and ends without a stop in `--help`.
    let first = paragraphs.next().unwrap_or_default();
    let stop = if first.ends_with(['.', ':']) { "" } else { "." };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{first}{stop}");
    paragraphs.for_each(|text| _ = writeln!(out, "\n{text}"));
    let usage = command.clone().render_usage().to_string();
    let _ = writeln!(out, "\n```text\n{}\n```", usage.trim_start_matches("Usage: ").trim());
    let args: Vec<_> = command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help").collect();
    if !args.is_empty() {
        out += "\n| argument | default | |\n|---|---|---|\n";
        args.iter().for_each(|arg| out += &row(arg));
    }
    out
}

#[test]
fn the_page_of_commands_says_what_the_code_says() {
    let mut all = Arguments::command().disable_help_subcommand(true);
    all.build();
    let commands: String = all.get_subcommands().filter(|command| !command.is_hide_set()).map(section).collect();
    generated::holds(PAGE, &format!("{HEAD}{commands}"));
}
