//! What a key of the file means: the reference of docs/configuration.md, whose tables are made of the schema, at hand.

use std::fmt::Write;

use clap::Args;
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use serde::Serialize;

use super::{Exit, Usage, print};
use crate::config::did_you_mean;

/// The reference itself, as people read it.
const REFERENCE: &str = include_str!("../../docs/configuration.md");

/// Columns a table may take.
const WIDTH: u16 = 100;

/// Says what a key of the configuration means
///
/// `moorgate explain pools.origin.health.min_healthy`; of a section it lists the keys, without a key the sections at the top.
#[derive(Args)]
pub(super) struct Explain {
    /// As `check` writes it: names of pools and places in lists do not matter
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let found = find(self.key.as_deref().unwrap_or_default()).map_err(Usage)?;
        let text = if self.json { serde_json::to_string_pretty(&found)? + "\n" } else { found.text() };
        print(&text)?;
        Ok(Exit::Done)
    }
}

/// A section, or the part of one that was asked for.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Section {
    /// Where its keys stand, as in `pools.NAME.health`; empty: at the top.
    path: String,
    /// What is said of all of it.
    text: String,
    keys: Vec<Key>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Key {
    key: String,
    /// What may be written.
    values: String,
    /// As the file would have it, or in words; empty: there is none.
    default: String,
    text: String,
}

impl Section {
    fn text(&self) -> String {
        let mut out = String::new();
        let path = if self.path.is_empty() { "the top of the file" } else { &self.path };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{path}");
        if !self.text.is_empty() {
            let _ = writeln!(out, "\n{}", self.text);
        }
        if !self.keys.is_empty() {
            let mut table = Table::new();
            table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
            table.set_header(["KEY", "VALUES", "DEFAULT", ""]);
            for key in &self.keys {
                table.add_row([&key.key, &key.values, &key.default, &key.text]);
            }
            out.push('\n');
            for line in table.lines() {
                let _ = writeln!(out, "{}", line.trim_end());
            }
        }
        out
    }
}

/// All sections of the reference, in its order.
fn sections() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut is_section = false;
    for line in REFERENCE.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            let path = heading.split('`').nth(1);
            is_section = path.is_some() || heading.ends_with("Top level");
            if is_section {
                sections.push(Section { path: path.unwrap_or_default().to_owned(), ..Section::default() });
            }
            continue;
        }
        let Some(section) = sections.last_mut().filter(|_| is_section) else { continue };
        if let Some(row) = line.strip_prefix("| `") {
            section.keys.extend(key(row));
        } else if !line.starts_with('|') {
            section.text += &format!("{}\n", plain(line));
        }
    }
    sections.iter_mut().for_each(|section| section.text = section.text.trim().to_owned());
    sections
}

/// A line of a table, its first two characters left out.
fn key(row: &str) -> Option<Key> {
    let mut cells = row.trim_end_matches(['|', ' ']).splitn(4, '|').map(str::trim);
    let key = cells.next()?.trim_end_matches('`').to_owned();
    let (values, default) = (plain(cells.next()?), plain(cells.next()?));
    Some(Key { key, values, default, text: plain(cells.next().unwrap_or_default()) })
}

/// Without the marks of Markdown; a link is what it is called, with the document in brackets.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('[') {
        out += before;
        let link = after.split_once("](").and_then(|(name, rest)| Some((name, rest.split_once(')')?)));
        match link.filter(|(name, _)| !name.contains(['[', ']'])) {
            Some((name, (place, after))) => {
                let _ = write!(out, "{name} (docs/{})", place.trim_start_matches("../docs/"));
                rest = after;
            }
            None => {
                out.push('[');
                rest = after;
            }
        }
    }
    (out + rest).replace('`', "")
}

/// The section this path is, or the one key of a section.
fn find(asked: &str) -> Result<Section, String> {
    let steps: Vec<&str> = asked.split(['.', '[', ']']).filter(|step| !step.is_empty()).collect();
    let all = sections();
    let named = |path: &str| path.replace("[]", ".#");
    let is = |path: &str, steps: &[&str]| {
        let path = named(path);
        let mut left = steps.iter().peekable();
        for part in path.split('.').filter(|part| !part.is_empty()) {
            match part {
                // the place in a list may be left out
                "#" => _ = left.next_if(|step| step.bytes().all(|byte| byte.is_ascii_digit())),
                "NAME" => _ = left.next(),
                part if left.next() == Some(&part) => (),
                _ => return false,
            }
        }
        left.next().is_none()
    };
    if let Some(section) = all.iter().position(|section| is(&section.path, &steps)) {
        return Ok(all.into_iter().nth(section).unwrap_or_default());
    }
    let Some((last, before)) = steps.split_last() else { return Err(nothing(asked, &all)) };
    let Some(section) = all.iter().find(|section| is(&section.path, before)) else {
        return Err(nothing(asked, &all));
    };
    let Some(key) = section.keys.iter().find(|key| key.key == *last) else {
        let known = section.keys.iter().map(|key| key.key.as_str());
        let meant = match did_you_mean(last, known.clone()) {
            Some(word) => format!("did you mean \"{word}\"?"),
            None => format!("its keys are {}", known.collect::<Vec<_>>().join(", ")),
        };
        let place = if section.path.is_empty() { "the top of the file" } else { &section.path };
        return Err(format!("no key \"{last}\" in {place}; {meant}"));
    };
    Ok(Section { path: section.path.clone(), text: String::new(), keys: vec![key.clone()] })
}

/// No section of that name.
fn nothing(asked: &str, all: &[Section]) -> String {
    let known = all.iter().map(|section| section.path.as_str());
    match did_you_mean(asked, known) {
        Some(path) => format!("no section for \"{asked}\", did you mean \"{path}\"?"),
        None => format!("no section for \"{asked}\"; `moorgate explain` without a key lists those at the top"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_the_path_that_check_writes() {
        let found = find("pools.origin.health.min_healthy").unwrap();
        assert_eq!((found.path.as_str(), found.keys.len()), ("pools.NAME.health", 1));
        assert_eq!((found.keys[0].key.as_str(), found.keys[0].default.as_str()), ("min_healthy", "50%"));
        assert_eq!(found.keys[0].values, "share");
        assert!(found.text().starts_with("pools.NAME.health\n\n KEY "), "{}", found.text());
        for same in ["pools.origin.origins[1].weight", "pools.origin.origins.1.weight", "pools.x.origins.weight"] {
            assert_eq!(find(same).unwrap().keys[0].default, "1", "{same}");
        }
        assert_eq!(find("routes[0].limits.rate.burst").unwrap().keys[0].key, "burst");
    }

    #[test]
    fn a_section_lists_its_keys() {
        let probe = find("pools.p.health.probe").unwrap();
        assert!(probe.keys.iter().any(|key| key.key == "interval" && key.default == "2s"), "{probe:?}");
        assert_eq!(find("").unwrap().keys[0].key, "version");
        assert!(find("pools").is_ok() && find("routes").is_ok());
    }

    #[test]
    fn a_key_that_is_not_there_is_refused_with_what_was_meant() {
        let said = find("pools.p.health.min_helthy").unwrap_err();
        assert_eq!(said, "no key \"min_helthy\" in pools.NAME.health; did you mean \"min_healthy\"?");
        assert!(find("poools.p").unwrap_err().contains("no section"));
        assert!(find("[[..]]").is_ok(), "nothing asked for is the top");
    }

    #[test]
    fn nothing_of_markdown_is_left() {
        for section in sections() {
            for text in
                section.keys.iter().flat_map(|key| [&key.text, &key.values, &key.default]).chain([&section.text])
            {
                assert!(!text.contains("](") && !text.contains('`'), "{}: {text}", section.path);
            }
        }
        assert_eq!(plain("see [a](b.md#c), `x[]`, [d](e.md)"), "see a (docs/b.md#c), x[], d (docs/e.md)");
    }

    #[test]
    fn every_key_of_the_reference_is_found() {
        let all = sections();
        assert!(all.len() > 40, "{}", all.len());
        for section in &all {
            for key in &section.keys {
                let path = format!("{}.{}", section.path, key.key);
                let found = find(&path).unwrap();
                assert!(found.path == section.path || !found.keys.is_empty(), "{path}");
            }
        }
    }
}
