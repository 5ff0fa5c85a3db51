//! Which query arguments make keys that are never asked for again?
//!
//! A time stamp or a signature in the key sends each request for the same thing to another origin, before any change
//! and after it: no ring can keep what is never repeated. First all arguments are counted; those whose values hardly
//! repeat are then left out, and everything is placed once more: how much of what is asked for meets another origin
//! than the last time it was asked for, with them and without.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};

use smallvec::SmallVec;

use super::asked::Seen;
use crate::balance;
use crate::config::{self, pool::Args};
use crate::pool::plan::Planner;
use crate::template::{Facts, Key, Keyed, args};

/// Names that are looked at at most.
const NAMES: usize = 512;
/// Values of one name that are remembered at most.
const VALUES: usize = 4096;
/// With fewer requests nothing can be said of an argument.
const LEAST: u64 = 100;
/// Values repeat when there are at most so many distinct ones a request.
const REPEATING: f64 = 0.5;
/// Things asked for that are remembered at most.
const THINGS: usize = 1_000_000;

/// Counts of the arguments of one pool.
#[derive(Default)]
pub(super) struct Arguments {
    names: HashMap<Vec<u8>, Argument>,
    requests: u64,
}

struct Argument {
    requests: u64,
    values: Distinct,
    /// Values together with the path they came with: what a key is made of.
    uses: Distinct,
}

/// An argument whose values hardly repeat.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unsteady {
    pub(super) name: String,
    /// Part of the requests that carry it.
    pub(super) requests: f64,
    /// Distinct values for each of them.
    pub(super) distinct: f64,
}

impl Arguments {
    /// One request more.
    pub(super) fn note(&mut self, facts: &Facts<'_>, key: &Key, requests: u64) {
        self.requests += requests;
        let Some(query) = facts.query().filter(|query| !query.is_empty()) else { return };
        let place = number(&[facts.host.as_bytes(), facts.path()]);
        args::each(query, |name, value| {
            if !key.admits(name) {
                return;
            }
            if !self.names.contains_key(name) {
                if self.names.len() >= NAMES {
                    return;
                }
                self.names.insert(name.to_vec(), Argument::default());
            }
            let Some(argument) = self.names.get_mut(name) else { return };
            argument.requests += requests;
            argument.values.add(number(&[value]));
            argument.uses.add(number(&[value, &place.to_le_bytes()]));
        });
    }

    /// The arguments whose values hardly repeat, the one in most requests first.
    pub(super) fn unsteady(&self) -> Vec<Unsteady> {
        let of = |part: u64, whole: u64| if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) };
        let suspicious = self.names.iter().filter(|(_, argument)| {
            argument.requests >= LEAST && of(argument.uses.count(), argument.requests) > REPEATING
        });
        let unsteady = suspicious.map(|(name, argument)| Unsteady {
            name: String::from_utf8_lossy(name).into_owned(),
            requests: of(argument.requests, self.requests),
            distinct: of(argument.values.count(), argument.requests),
        });
        let mut unsteady: Vec<Unsteady> = unsteady.collect();
        unsteady.sort_by(|a, b| b.requests.total_cmp(&a.requests).then_with(|| a.name.cmp(&b.name)));
        unsteady
    }
}

impl Default for Argument {
    fn default() -> Self {
        Self { requests: 0, values: Distinct::new(VALUES), uses: Distinct::new(VALUES) }
    }
}

/// Counts distinct numbers in bounded memory: when there are too many, only one of two is kept, then one of four.
struct Distinct {
    kept: HashSet<u64>,
    most: usize,
    left_out: u64,
}

impl Distinct {
    fn new(most: usize) -> Self {
        Self { kept: HashSet::new(), most, left_out: 0 }
    }

    fn add(&mut self, number: u64) {
        if number & self.left_out == 0 && self.kept.insert(number) && self.kept.len() > self.most {
            self.left_out = self.left_out << 1 | 1;
            let left_out = self.left_out;
            self.kept.retain(|number| number & left_out == 0);
        }
    }

    fn count(&self) -> u64 {
        self.kept.len() as u64 * (self.left_out + 1)
    }
}

fn number(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        hasher.write(part);
        hasher.write_u8(0xff);
    }
    hasher.finish()
}

/// A pool's section without these arguments in its key, and the lines that say so; `None` when its key cannot be
/// freed of them that way.
pub(super) fn freed(section: &config::Pool, names: &[String]) -> Option<(config::Pool, String)> {
    let mut section = section.clone();
    let mut line = String::new();
    if section.balance.key.contains("{uri}") {
        section.balance.key = section.balance.key.replace("{uri}", "{path}{args}");
        line = format!("balance: {{ key: \"{}\" }}, ", section.balance.key);
    }
    let plus = |list: &[String]| {
        let new = names.iter().filter(|name| !list.contains(name));
        list.iter().chain(new).cloned().collect::<Vec<_>>()
    };
    section.args = match &section.args {
        Args::All => Args::Drop(plus(&[])),
        Args::Drop(list) => Args::Drop(plus(list)),
        Args::Keep(list) => Args::Keep(list.iter().filter(|kept| !names.contains(kept)).cloned().collect()),
    };
    let (word, list) = match &section.args {
        Args::All => return None,
        Args::Keep(list) => ("keep", list),
        Args::Drop(list) => ("drop", list),
    };
    let quoted: Vec<String> = list.iter().map(|name| quoted(name)).collect();
    line.push_str(&format!("args: {{ {word}: [{}] }}", quoted.join(", ")));
    let key = Key::compile(&section).ok()?;
    let is_free = names.iter().all(|name| !key.admits(name.as_bytes()));
    is_free.then_some((section, line))
}

/// A name as it may stand in a list of the file.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let is_word = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_plain);
    // What YAML would take for something else.
    let is_taken =
        ["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&name.to_ascii_lowercase().as_str());
    if is_word && !is_taken { name.to_owned() } else { format!("{name:?}") }
}

/// Everything once more, with the key that was freed of some arguments beside the one it has.
pub(super) struct Freed {
    keys: [Key; 2],
    things: HashMap<u64, Thing>,
    left_out: u64,
}

/// What is asked for: what requests with one freed key have in common.
#[derive(Default)]
struct Thing {
    /// The freed key's hash before and after.
    hashes: [u32; 2],
    requests: u64,
    /// Requests by origin before and after, which are known by name.
    homes: [SmallVec<[(usize, u64); 2]>; 2],
}

/// What it came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scatter {
    /// Part of the requests that meet another origin after the change than the same thing met before it.
    pub(super) now: f64,
    /// The same when the arguments are no part of the key.
    pub(super) then: f64,
    /// Part of the keys that move then.
    pub(super) with: f64,
    /// Distinct keys then.
    pub(super) keys: u64,
}

impl Freed {
    /// By the sections before and after, both freed.
    pub(super) fn new(before: &config::Pool, after: &config::Pool) -> Option<Self> {
        let keys = [Key::compile(before).ok()?, Key::compile(after).ok()?];
        Some(Self { keys, things: HashMap::new(), left_out: 0 })
    }

    /// One request.
    pub(super) fn take(&mut self, seen: &Seen<'_>, planner: &Planner<'_>, requests: u64) {
        let [Some(old), Some(new)] = planner.keys() else { return };
        let hash = |key: &Key, out: &mut Vec<u8>| {
            out.clear();
            (seen.make(key, out) == Some(Keyed::Key)).then(|| balance::hash(out))
        };
        let mut out = Vec::new();
        let Some(freed_before) = hash(&self.keys[0], &mut out) else { return };
        let number = number(&[&out]);
        if number & self.left_out != 0 {
            return;
        }
        let after = [hash(&self.keys[1], &mut out), hash(old, &mut out), hash(new, &mut out)];
        let [Some(freed_after), Some(key_before), Some(key_after)] = after else { return };
        let thing = self.things.entry(number).or_default();
        thing.hashes = [freed_before, freed_after];
        thing.requests += requests;
        let homes = planner.homes(key_before, key_after);
        for (side, home) in thing.homes.iter_mut().zip(homes) {
            let Some(home) = home else { continue };
            match side.iter_mut().find(|(known, _)| *known == home) {
                Some((_, count)) => *count += requests,
                None => side.push((home, requests)),
            }
        }
        if self.things.len() > THINGS {
            self.left_out = self.left_out << 1 | 1;
            let left_out = self.left_out;
            self.things.retain(|number, _| number & left_out == 0);
        }
    }

    /// When all is told.
    pub(super) fn scatter(&self, planner: &Planner<'_>) -> Option<Scatter> {
        let (mut requests, mut now, mut then, mut moved) = (0.0, 0.0, 0.0, 0_u64);
        for thing in self.things.values() {
            let weight = thing.requests as f64;
            requests += weight;
            now += thing.scattered() * weight;
            let [before, after] = planner.homes(thing.hashes[0], thing.hashes[1]);
            if before != after {
                moved += 1;
                then += weight;
            }
        }
        let things = self.things.len() as u64;
        (things > 0).then(|| Scatter {
            now: now / requests,
            then: then / requests,
            with: moved as f64 / things as f64,
            keys: things * (self.left_out + 1),
        })
    }
}

impl Thing {
    /// The chance that a request after the change meets another origin than one before it.
    fn scattered(&self) -> f64 {
        let [before, after] = &self.homes;
        let whole = (self.requests as f64).powi(2);
        let meets = before.iter().map(|(home, count)| {
            let there = after.iter().find(|(other, _)| other == home).map_or(0, |(_, count)| *count);
            *count as f64 * there as f64
        });
        1.0 - meets.sum::<f64>() / whole
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::cli::request::Request;

    fn section(more: &str) -> config::Pool {
        let text = format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 127.0.0.1:0 }} ] }}\npools: {{ p: {{ {more}, origins: [a] }} }}\n"
        );
        config::parse("f", &text).unwrap_or_else(|report| panic!("{report}")).config.pools["p"].clone()
    }

    fn noted(key: &Key, urls: impl IntoIterator<Item = String>) -> Vec<Unsteady> {
        let (mut arguments, headers) = (Arguments::default(), HeaderMap::new());
        for url in urls {
            let request = Request::parse("GET", &url, &headers).unwrap();
            arguments.note(&request.facts("GET", None, &headers), key, 1);
        }
        arguments.unsteady()
    }

    #[test]
    fn arguments_that_hardly_repeat_are_told_with_their_shares() {
        let key = Key::compile(&section("args: { drop: [gone] }")).unwrap();
        let url = |n: u32| format!("http://h/{}?id={}&gone={n}&size={}{}", n % 3, n % 40, n % 4, stamp(n));
        fn stamp(n: u32) -> String {
            if n.is_multiple_of(2) { format!("&t={n}") } else { String::new() }
        }
        let [stamp] = &noted(&key, (0..10_000).map(url))[..] else { panic!("t alone") };
        assert_eq!(stamp.name, "t");
        assert!((stamp.requests - 0.5).abs() < 0.01 && stamp.distinct > 0.9, "{stamp:?}");
        assert_eq!(noted(&key, (0..50).map(url)), [], "too few to say anything");
    }

    #[test]
    fn a_stamp_that_changes_by_the_second_is_found_by_what_it_stands_beside() {
        let key = Key::compile(&section("protocol: http1")).unwrap();
        let url = |n: u32| format!("http://h/{}?t={}", n % 700, n / 500);
        let [stamp] = &noted(&key, (0..10_000).map(url))[..] else { panic!("t alone") };
        assert!(stamp.distinct < 0.01, "{stamp:?}");
    }

    #[test]
    fn the_line_that_frees_a_key_adds_to_what_is_written() {
        let names = ["t".to_owned(), "_".to_owned(), "no".to_owned()];
        for (written, line) in [
            ("protocol: http1", Some("args: { drop: [t, _, \"no\"] }")),
            ("args: { drop: [t, \"utm_*\"] }", Some("args: { drop: [t, \"utm_*\", _, \"no\"] }")),
            ("args: { keep: [id, t] }", Some("args: { keep: [id] }")),
            ("args: { keep: [\"*\"] }", None),
            (
                "balance: { key: \"{host}{uri}\" }",
                Some("balance: { key: \"{host}{path}{args}\" }, args: { drop: [t, _, \"no\"] }"),
            ),
        ] {
            assert_eq!(freed(&section(written), &names).map(|(_, line)| line).as_deref(), line, "{written}");
        }
    }

    #[test]
    fn distinct_numbers_are_counted_within_a_few_percent() {
        let mut distinct = Distinct::new(1000);
        for n in 0..50_000_u64 {
            distinct.add(number(&[&(n % 20_000).to_le_bytes()]));
        }
        let count = distinct.count();
        assert!((18_000..22_000).contains(&count), "{count}");
    }
}
