//! Is all explained that a command refuses, and that keeps a gateway from starting? Its texts are found in the sources: what ends
//! a command (`bail!`, `anyhow!`, `ensure!`, `context`), errors with a text of their own, and reasons that others pass on.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use regex::Regex;

use super::errors::{cell, root, sources};
use super::meanings::Said;
use super::meanings_of_keys::{ABOUT_KEYS, UNSEEN};
use super::meanings_of_wishes::ABOUT_WISHES;

/// What ends a command, or is the text of an error.
const ENDS: &str = r#"(?s)(?:\b(?:bail|anyhow)!\(\s*(?:Usage\(\s*)?(?:format!\(\s*)?|\bensure!\([^;"]*?,\s*|\bcontext\(\s*|\bwith_context\(\|\|\s*format!\(\s*|\bUsage\(\s*(?:format!\(\s*)?|#\[error\(\s*)"((?:[^"\\]|\\.)*)""#;

/// A reason that somebody else passes on: in these files, of more than one word, and no line that ends.
const REASONS: &str = r#"(?s)(?:=>\s*|\bErr\(\s*|\bok_or\(\s*|\bok_or_else\(\|\|\s*|\bthen_some\(\s*|\bwhy: |\bdeclined\(\s*|\bconst [A-Z]+: &str =\s*|\bthen\(\|\|\s*|\bSome\(|;\n\s*)(?:format!\(\s*)?"((?:[^"\\]|\\.)*)""#;
const GIVE_REASONS: [&str; 11] = [
    "src/cli/demo/mod.rs",
    "src/cli/estate.rs",
    "src/cli/explain.rs",
    "src/cli/key.rs",
    "src/cli/plan/log_format.rs",
    "src/cli/serving.rs",
    "src/lifecycle/handoff/giver.rs",
    "src/lifecycle/handoff/taker.rs",
    "src/lifecycle/handoff/upgrades.rs",
    "src/lifecycle/reload.rs",
    "src/lifecycle/wish.rs",
];

const HEAD: &str = "\n## Commands\n
What a command prints on standard error when it does not do what it was asked, and what keeps a gateway from starting. It stands
behind `moorgate: `, often behind the path or the name that it is about, and what the system says of it follows behind a colon:
read such a line from the left, from what was wanted to why it cannot be. A command ends with 2 if its arguments are wrong, with 3
if a guard refuses, else with 1. An argument that it does not know, or that is no number where one is wanted, is told with what it
takes; `--help` has all of them. A path, a colon and what the system says, and no more, is a file that cannot be read or written.
";

const HEAD_OF_UNSEEN: &str = "\n### What is in the program, and not printed as it stands\n
So that nobody looks for it in vain.

| text | why not |
|---|---|
";

fn about() -> impl Iterator<Item = &'static (&'static str, &'static [Said])> {
    ABOUT_WISHES.iter().chain(&ABOUT_KEYS)
}

/// What `pattern` finds in a source, `…` in place of what is different each time.
fn found(pattern: &str, file: &str) -> BTreeSet<String> {
    let pattern = Regex::new(pattern).unwrap();
    let (goes_on, open) = (Regex::new(r"\\\n\s*").unwrap(), Regex::new(r"\{[^{}]*\}").unwrap());
    let plain = |text: &str| goes_on.replace_all(text, "").replace("\\n", " ").replace("\\\"", "\"");
    let texts = pattern.captures_iter(file).map(|found| plain(&found[1]));
    texts.map(|text| open.replace_all(&text, "…").into_owned()).collect()
}

fn refused() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(&root("src"), "", &mut files);
    let mut all: BTreeSet<String> = files.iter().flat_map(|file| found(ENDS, file)).collect();
    for file in GIVE_REASONS {
        let text = fs::read_to_string(root(file)).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let reasons = found(REASONS, text);
        assert!(!reasons.is_empty(), "{file} gives no reasons any more");
        all.extend(reasons.into_iter().filter(|text| text.trim_end() == text && text.contains(' ')));
    }
    all
}

/// A text that may hold a backtick.
fn code(text: &str) -> String {
    let fence = if text.contains('`') { "``" } else { "`" };
    let room = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    [fence, room, &cell(text), room, fence].concat()
}

/// The section of the page.
pub(crate) fn generated() -> String {
    let mut page = HEAD.to_owned();
    for (about, said) in about() {
        write!(page, "\n### {about}\n\n| what is printed | what has happened | what to do |\n|---|---|---|\n").unwrap();
        for (text, happened, to_do) in *said {
            writeln!(page, "| {} | {} | {} |", code(text), cell(happened), cell(to_do)).unwrap();
        }
    }
    page += HEAD_OF_UNSEEN;
    for (text, why) in UNSEEN {
        writeln!(page, "| {} | {} |", code(text), cell(why)).unwrap();
    }
    page
}

#[test]
fn everything_that_commands_refuse_has_a_meaning() {
    let seen = about().flat_map(|(_, said)| said.iter()).map(|said| said.0);
    let all: Vec<&str> = seen.chain(UNSEEN.iter().map(|(text, _)| *text)).collect();
    let meant: BTreeSet<String> = all.iter().map(|text| (*text).to_owned()).collect();
    assert_eq!(meant.len(), all.len(), "a text is explained twice");
    let refused = refused();
    assert!(refused.len() > 120, "{} were found", refused.len());
    let (unexplained, gone) = (refused.difference(&meant), meant.difference(&refused));
    let (unexplained, gone): (Vec<_>, Vec<_>) = (unexplained.collect(), gone.collect());
    assert!(
        unexplained.is_empty() && gone.is_empty(),
        "tests/docs/meanings_of_wishes.rs and meanings_of_keys.rs do not explain {unexplained:#?}, and explain what is not \
         said any more: {gone:#?}"
    );
}
