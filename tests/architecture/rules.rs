//! What must hold in every file? Each rule is one function from sources to findings; the budgets and the table
//! of doors are data at the top.

use crate::source::{Reference, Source};

/// Who may import whom; the same table stands in `src/lib.rs`. `None`: every room.
pub(crate) const DOORS: &[(&str, Option<&[&str]>)] = &[
    ("cli", None),
    ("admin", Some(&["lifecycle", "snapshot", "pool", "observe", "config", "health", "balance", "template"])),
    ("lifecycle", Some(&["listeners", "snapshot", "pool", "observe", "config", "health", "age"])),
    ("listeners", Some(&["proxy", "snapshot", "observe", "config", "traffic", "tls"])),
    (
        "proxy",
        Some(&["snapshot", "pool", "routing", "template", "traffic", "resilience", "observe", "balance", "health"]),
    ),
    (
        "snapshot",
        Some(&[
            "pool",
            "routing",
            "resilience",
            "traffic",
            "tls",
            "config",
            "template",
            "balance",
            "health",
            "observe",
            "age",
            "trust",
        ]),
    ),
    ("pool", Some(&["balance", "health", "resilience", "config", "template", "age", "trust"])),
    ("routing", Some(&["template", "config"])),
    ("balance", Some(&["template", "config", "age"])),
    ("health", Some(&["balance", "template", "config", "age", "trust"])),
    ("resilience", Some(&["template", "config", "age"])),
    ("traffic", Some(&["template", "config"])),
    ("observe", Some(&["template", "config", "age"])),
    ("template", Some(&["config"])),
    ("trust", Some(&["config"])),
    ("tls", Some(&["config"])),
    ("config", Some(&[])),
    ("age", Some(&[])),
    ("import", Some(&[])),
];

const KNOW_PINGORA: [&str; 5] = ["admin", "lifecycle", "listeners", "proxy", "trust"];
const FILES_THAT_KNOW_PINGORA: [&str; 2] = ["src/health/probe.rs", "src/resilience/failure.rs"];
const KNOW_ITS_HEADERS: [&str; 4] = ["config", "template", "routing", "traffic"];

/// Who reads the clock that may be set: whoever writes times down for people, and whoever compares those of files.
const READ_THE_WALL_CLOCK: [&str; 10] = [
    "src/admin/certificates.rs",
    "src/cli/run.rs",
    "src/config/file.rs",
    "src/lifecycle/reload.rs",
    "src/observe/access_log/clock.rs",
    "src/observe/access_log/mod.rs",
    "src/observe/log.rs",
    "src/proxy/record.rs",
    "src/proxy/unheard.rs",
    "src/tls/mod.rs",
];

const LINES_A_FILE: usize = 400;
const LINES_A_FUNCTION: usize = 50;
const LINES_A_HOOK: usize = 12;

const NAMES_THAT_SAY_NOTHING: [&str; 10] =
    ["util", "utils", "common", "core", "types", "helper", "helpers", "manager", "managers", "misc"];

/// Kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Import,
    Reexport,
    Pingora,
    Anyhow,
    FileLength,
    FunctionLength,
    HookLength,
    Head,
    FileName,
    Word,
    State,
    Swap,
    Status,
    Clock,
    Map,
}

/// One place where a rule does not hold.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) rule: Rule,
    pub(crate) place: String,
    pub(crate) what: String,
}

/// Every rule over all sources.
pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut found: Vec<Finding> = sources.iter().flat_map(check_one).collect();
    found.extend(one_swap(sources));
    found.extend(sources.iter().filter(|s| s.path == "src/lib.rs").flat_map(map_says_the_same));
    found
}

fn check_one(source: &Source) -> Vec<Finding> {
    let rules = [imports, reexports, crates, file_length, functions, head, file_name, words, state, statuses, clock];
    rules.iter().flat_map(|rule| rule(source)).collect()
}

fn finding(rule: Rule, source: &Source, line: usize, what: impl Into<String>) -> Finding {
    Finding { rule, place: format!("{}:{line}", source.path), what: what.into() }
}

/// The room a path of ours leads to.
fn room_of(reference: &Reference) -> Option<&str> {
    match reference.segments.as_slice() {
        [first, room, ..] if first == "crate" || first == "moorgate" => Some(room),
        _ => None,
    }
}

/// Tests may build what they need from any room; what ships may not.
fn imports(source: &Source) -> Vec<Finding> {
    let shipped = source.facts.references.iter().filter(|r| !r.in_test);
    let forbidden = shipped.filter(|r| room_of(r).is_some_and(|room| !may_open(source, room)));
    forbidden
        .map(|r| finding(Rule::Import, source, r.line, format!("may not import {}", r.segments.join("::"))))
        .collect()
}

fn may_open(source: &Source, room: &str) -> bool {
    let Some(own) = source.room() else { return source.path != "src/main.rs" || room == "cli" };
    if own == room {
        return true;
    }
    match DOORS.iter().find(|(name, _)| *name == own) {
        Some((_, None)) => room != "*",
        Some((_, Some(rooms))) => rooms.contains(&room),
        None => false,
    }
}

/// A door is not widened by handing on what lies behind another.
fn reexports(source: &Source) -> Vec<Finding> {
    let Some(own) = source.room() else { return Vec::new() };
    let handed_on = source.facts.references.iter().filter(|r| r.exported && room_of(r).is_some_and(|room| room != own));
    handed_on.map(|r| finding(Rule::Reexport, source, r.line, format!("hands on {}", r.segments.join("::")))).collect()
}

fn crates(source: &Source) -> Vec<Finding> {
    if !source.path.starts_with("src/") {
        return Vec::new();
    }
    let room = source.room().unwrap_or("");
    let knows = KNOW_PINGORA.contains(&room) || FILES_THAT_KNOW_PINGORA.contains(&source.path.as_str());
    let judge = |r: &Reference| {
        let name = r.segments.first()?.as_str();
        if name == "anyhow" && room != "cli" {
            return Some(finding(Rule::Anyhow, source, r.line, "anyhow is for cli"));
        }
        let headers = name == "pingora_http" && KNOW_ITS_HEADERS.contains(&room);
        let pingora = name == "pingora" || name.starts_with("pingora_");
        (pingora && !knows && !headers).then(|| finding(Rule::Pingora, source, r.line, format!("may not know {name}")))
    };
    source.facts.references.iter().filter_map(judge).collect()
}

fn file_length(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().count().saturating_sub(source.facts.test_lines);
    let long = (lines > LINES_A_FILE).then(|| {
        finding(Rule::FileLength, source, 1, format!("{lines} lines without its tests; at most {LINES_A_FILE}"))
    });
    long.into_iter().collect()
}

fn functions(source: &Source) -> Vec<Finding> {
    let judge = |f: &crate::source::Function| {
        let what = |cap: usize| format!("{} has {} lines; at most {cap}", f.name, f.lines);
        if f.hook && f.lines > LINES_A_HOOK {
            return Some(finding(Rule::HookLength, source, f.line, what(LINES_A_HOOK)));
        }
        (f.lines > LINES_A_FUNCTION && !f.excused)
            .then(|| finding(Rule::FunctionLength, source, f.line, what(LINES_A_FUNCTION)))
    };
    source.facts.functions.iter().filter_map(judge).collect()
}

/// The first lines say what the module is for.
fn head(source: &Source) -> Vec<Finding> {
    let lines = source.text.lines().take_while(|l| l.starts_with("//!")).map(|l| l.trim_start_matches("//!").trim());
    let head = lines.collect::<Vec<_>>().join(" ");
    let sentence = head.split_whitespace().count() >= 3 && head.contains(['.', '?', ':', '!']);
    let missing = (!sentence).then(|| finding(Rule::Head, source, 1, "starts without a `//!` sentence"));
    missing.into_iter().collect()
}

fn file_name(source: &Source) -> Vec<Finding> {
    let parts = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    let bad = parts.filter(|part| NAMES_THAT_SAY_NOTHING.contains(part));
    bad.map(|name| finding(Rule::FileName, source, 1, format!("`{name}` says nothing"))).collect()
}

fn words(source: &Source) -> Vec<Finding> {
    let left = ["todo", "unimplemented", "dbg"];
    let macros = source.facts.macros.iter().filter(|m| left.contains(&m.name.as_str()));
    let macros = macros.map(|m| finding(Rule::Word, source, m.line, format!("{}!", m.name)));
    let attributes = source.facts.attributes.iter().map(|a| finding(Rule::Word, source, a.line, a.name.clone()));
    macros.chain(attributes).chain(words_of_text(&source.path, &source.text)).collect()
}

/// Words no file of the repository may hold, whatever its language.
pub(crate) fn words_of_text(path: &str, text: &str) -> Vec<Finding> {
    const FORBIDDEN: [&str; 4] =
        [concat!("/wo", "rk/"), concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    let hits = text.lines().enumerate().flat_map(|(at, line)| {
        let words = FORBIDDEN.iter().filter(move |word| line.contains(**word));
        words.map(move |word| (at + 1, *word))
    });
    hits.map(|(line, word)| Finding { rule: Rule::Word, place: format!("{path}:{line}"), what: word.to_owned() })
        .collect()
}

fn state(source: &Source) -> Vec<Finding> {
    let shipped = source.facts.stateful.iter().filter(|s| !s.in_test);
    shipped.map(|s| finding(Rule::State, source, s.line, format!("{} holds state", s.name))).collect()
}

/// The one swap is `snapshot::Store`.
fn one_swap(sources: &[Source]) -> Vec<Finding> {
    let in_snapshot = |source: &Source| source.room() == Some("snapshot");
    let outside = sources.iter().filter(|s| s.path.starts_with("src/") && !in_snapshot(s)).flat_map(|source| {
        let uses = source.facts.references.iter().filter(|r| r.segments.first().is_some_and(|s| s == "arc_swap"));
        uses.map(|r| finding(Rule::Swap, source, r.line, "arc_swap is for snapshot"))
    });
    let fields = sources.iter().filter(|s| in_snapshot(s));
    let fields = fields.flat_map(|s| s.facts.swaps.iter().map(move |swap| (s, swap)));
    let more = fields.skip(1).map(|(s, swap)| finding(Rule::Swap, s, swap.line, "a second swap: there is one"));
    outside.chain(more).collect()
}

/// Statuses are given in one place.
fn statuses(source: &Source) -> Vec<Finding> {
    let allowed = source.path == "src/proxy/reject.rs" || source.room() == Some("admin");
    if allowed || !source.path.starts_with("src/") {
        return Vec::new();
    }
    let named = source.facts.references.iter().filter(|r| {
        let at = r.segments.iter().position(|s| s == "StatusCode");
        !r.in_test && at.is_some_and(|at| at + 1 < r.segments.len())
    });
    let named = named.map(|r| finding(Rule::Status, source, r.line, r.segments.join("::")));
    let numbers = source.facts.statuses.iter().filter(|s| !s.in_test);
    named.chain(numbers.map(|s| finding(Rule::Status, source, s.line, s.name.clone()))).collect()
}

/// Whatever lasts, waits or grows older does so by a clock that nobody sets.
fn clock(source: &Source) -> Vec<Finding> {
    if READ_THE_WALL_CLOCK.contains(&source.path.as_str()) || !source.path.starts_with("src/") {
        return Vec::new();
    }
    let reads = |r: &&Reference| {
        let last = r.segments.iter().rev().take(2).map(String::as_str).collect::<Vec<_>>();
        matches!(last[..], ["now", "SystemTime" | "Timestamp" | "Zoned" | "Utc" | "Local"])
    };
    let named = source.facts.references.iter().filter(|r| !r.in_test).filter(reads);
    let named = named.map(|r| finding(Rule::Clock, source, r.line, r.segments.join("::")));
    // Pingora's word for when a connection came about
    let text = source.text.lines().enumerate().filter(|(_, line)| line.contains("established_ts"));
    named.chain(text.map(|(at, _)| finding(Rule::Clock, source, at + 1, "established_ts"))).collect()
}

/// `src/lib.rs` shows the same doors, and has no room without one.
fn map_says_the_same(source: &Source) -> Vec<Finding> {
    let shown: Vec<(String, Option<Vec<String>>)> = source.text.lines().filter_map(door).flatten().collect();
    let mut found = Vec::new();
    for (room, may) in DOORS {
        let may = may.map(|rooms| sorted(rooms.iter().map(|r| (*r).to_owned())));
        let line = shown.iter().find(|(name, _)| name == room);
        if line.map(|(_, rooms)| rooms) != Some(&may) {
            found.push(finding(Rule::Map, source, 1, format!("the doors of `{room}` are not those of the test")));
        }
    }
    let rooms = source.text.lines().filter_map(|l| l.strip_prefix("pub mod ")).map(|l| l.trim_end_matches(';'));
    let unknown = rooms.filter(|room| !DOORS.iter().any(|(name, _)| name == room));
    found.extend(unknown.map(|room| finding(Rule::Map, source, 1, format!("`{room}` has no line in the table"))));
    found
}

/// `//! a, b -> c, d` as one entry for each of `a` and `b`.
fn door(line: &str) -> Option<Vec<(String, Option<Vec<String>>)>> {
    let (from, to) = line.strip_prefix("//! ")?.split_once(" -> ")?;
    let known = |name: &str| DOORS.iter().any(|(room, _)| *room == name);
    let from: Vec<&str> = from.split(", ").collect();
    if !from.iter().all(|name| known(name)) {
        return None;
    }
    let to = match to {
        "every room" => None,
        "nothing of ours" => Some(Vec::new()),
        rooms => Some(sorted(rooms.split(", ").map(str::to_owned))),
    };
    Some(from.into_iter().map(|name| (name.to_owned(), to.clone())).collect())
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
