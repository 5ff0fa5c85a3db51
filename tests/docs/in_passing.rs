//! Is what the text names in passing there? Each `moorgate COMMAND --flag` of every page is one that the binary knows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.chain(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name))).collect()
}

/// Its flags; `None` if there is no such command.
fn flags(command: &str) -> Option<Vec<String>> {
    let help = Command::new(env!("CARGO_BIN_EXE_moorgate")).args([command, "--help"]).output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    let flags = Regex::new(r"(?m)^\s*(?:-[a-zA-Z], )?(--[a-z-]+)").unwrap();
    help.status.success().then(|| flags.captures_iter(&text).map(|found| found[1].to_owned()).collect())
}

#[test]
fn every_command_and_flag_that_is_named_is_known() {
    let named = Regex::new(r"`moorgate ([a-z]+)([^`]*)`").unwrap();
    let flag = Regex::new(r"--[a-z][a-z-]*").unwrap();
    let (mut known, mut count) = (BTreeMap::new(), 0);
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for found in named.captures_iter(&text) {
            let flags = known.entry(found[1].to_owned()).or_insert_with(|| flags(&found[1]));
            let flags = flags.as_ref().unwrap_or_else(|| panic!("{}: no command is {}", page.display(), &found[0]));
            // What follows `--` is another command's.
            let own = found[2].split(" -- ").next().unwrap_or_default();
            for flag in flag.find_iter(own) {
                let flag = flag.as_str();
                assert!(flags.iter().any(|one| one == flag), "{}: {} has no {flag}", page.display(), &found[0]);
            }
            count += 1;
        }
    }
    assert!(count > 40, "{count} were found");
}
