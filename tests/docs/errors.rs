//! Is everything that goes wrong explained? `docs/errors.md` has every mistake of a file as `check` says it, every warning
//! and error of the log, and what commands refuse, found in the sources, with what to do. `MOORGATE_WRITE_DOCUMENTS=1`
//! writes the page anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use super::meanings::MEANT;
use super::refusals;

const PAGE: &str = "docs/errors.md";
const BETWEEN: [&str; 2] = ["<!-- generated -->\n", "<!-- end of what is generated -->\n"];

pub(crate) fn root(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Every Rust file below, without its tests; none of `besides`, if that is a folder.
pub(crate) fn sources(folder: &Path, besides: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            if besides.is_empty() || !entry.ends_with(besides) {
                sources(&entry, besides, found);
            }
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&entry).unwrap();
            found.push(text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned());
        }
    }
}

/// What the log says as a warning or an error, `…` in place of what is different each time; not what only passes on the words
/// of others.
fn logged() -> BTreeSet<String> {
    let mut files = Vec::new();
    // What the demo says is no log of a gateway that serves.
    sources(&root("src"), "cli/demo", &mut files);
    let logs = Regex::new(r#"(?s)\b(?:warn|error)!\(\s*"((?:[^"\\]|\\.)*)""#).unwrap();
    let (goes_on, open) = (Regex::new(r"\\\n\s*").unwrap(), Regex::new(r"\{[^{}]*\}").unwrap());
    let texts = files.iter().flat_map(|file| logs.captures_iter(file)).map(|found| found[1].to_owned());
    let texts = texts.map(|text| open.replace_all(&goes_on.replace_all(&text, ""), "…").into_owned());
    texts.filter(|text| text.contains(|c: char| c.is_ascii_alphabetic())).collect()
}

/// The mistakes of a file that makes all of them, as `check` tells them: by section, key, and what is said.
fn mistakes() -> Vec<(String, String, String)> {
    let file = root("tests/config/every-mistake.yaml");
    let check = Command::new(env!("CARGO_BIN_EXE_moorgate")).arg("check").arg("-c").arg(&file).output().unwrap();
    let line = Regex::new(r"^(warning: )?.*?:\d+:\d+: ([^ ]+): (.*)$").unwrap();
    let index = Regex::new(r"\[\d+\]").unwrap();
    let text = String::from_utf8(check.stdout).unwrap();
    let found = text.lines().filter_map(|text| line.captures(text));
    let told = found.map(|found| {
        let key = index.replace_all(&found[2], "[]").into_owned();
        let section = key.split(['.', '[']).next().unwrap_or_default().to_owned();
        let warning = if found.get(1).is_some() { "warning: " } else { "" };
        (section, key, format!("{warning}{}", &found[3]))
    });
    told.collect()
}

pub(crate) fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn generated() -> String {
    let mut page = "## Mistakes of a file\n".to_owned();
    let (mut section, mut seen) = (String::new(), BTreeSet::new());
    for (of, key, said) in mistakes() {
        if !seen.insert((key.clone(), said.clone())) {
            continue;
        }
        if of != section {
            write!(page, "\n### In `{of}`\n\n| key | what is said |\n|---|---|\n").unwrap();
            section = of;
        }
        writeln!(page, "| `{}` | {} |", cell(&key), cell(&said.replace('<', "&lt;").replace('*', "\\*"))).unwrap();
    }
    page += "\n## Warnings and errors of the log\n";
    for (about, said) in MEANT {
        write!(page, "\n### {about}\n\n| the log says | what has happened | what to do |\n|---|---|---|\n").unwrap();
        for (text, happened, to_do) in said {
            writeln!(page, "| `{}` | {} | {} |", cell(text), cell(happened), cell(to_do)).unwrap();
        }
    }
    page + &refusals::generated()
}

#[test]
fn every_warning_and_error_of_the_log_has_a_meaning() {
    let meant: BTreeSet<String> =
        MEANT.iter().flat_map(|(_, said)| said.iter()).map(|said| said.0.to_owned()).collect();
    let logged = logged();
    assert!(logged.len() > 50, "{} were found", logged.len());
    let (unexplained, gone) = (logged.difference(&meant), meant.difference(&logged));
    let (unexplained, gone): (Vec<_>, Vec<_>) = (unexplained.collect(), gone.collect());
    assert!(
        unexplained.is_empty() && gone.is_empty(),
        "tests/docs/meanings.rs does not explain {unexplained:#?}, and explains what is not said any more: {gone:#?}"
    );
}

#[test]
fn the_page_of_errors_is_current() {
    let text = fs::read_to_string(root(PAGE)).unwrap();
    let (head, rest) = text.split_once(BETWEEN[0]).unwrap();
    let (_, tail) = rest.split_once(BETWEEN[1]).unwrap();
    let current = [head, BETWEEN[0], "\n", &generated(), "\n", BETWEEN[1], tail].concat();
    if std::env::var_os("MOORGATE_WRITE_DOCUMENTS").is_some() {
        fs::write(root(PAGE), &current).unwrap();
        return;
    }
    assert!(text == current, "{PAGE} is stale: MOORGATE_WRITE_DOCUMENTS=1 cargo test --test docs page_of_errors");
}
