//! Where in the file does a path of the document stand, and what was a word meant to be?
//!
//! Paths are those of the *read* document: while a list has elements that could not be read, the indices of the
//! others count without them. [`Places`] knows what was left out, so that whatever is said about an element still
//! names its own line, and nothing is said about values that are missing only because they were wrong.

use std::collections::HashSet;
use std::iter;

use super::tree::{Kind, Node, Place};

/// The places of everything written in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Places {
    root: Node,
    left_out: LeftOut,
}

/// What a document says that could not be read.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct LeftOut {
    /// Numbers of the nodes that are wrong.
    pub(super) spoiled: HashSet<u32>,
    /// Sections and the keys they lack because these are misspelt.
    pub(super) misspelt: HashSet<(u32, String)>,
}

/// What stands at a path, or as near to it as the file goes.
pub(super) struct Found<'a> {
    /// The path as the file counts.
    pub(super) path: String,
    pub(super) place: Place,
    /// The value itself, unless it is not written.
    pub(super) node: Option<&'a Node>,
    /// Was this value, or the one it would stand in, left out as wrong?
    spoiled: bool,
}

impl Places {
    pub(super) fn new(root: Node, left_out: LeftOut) -> Self {
        Self { root, left_out }
    }

    /// Line and column of the value at `path`, such as `pools.origin.balance.key` or `routes[2].match.path.regex`;
    /// of the nearest value around it when it is not written.
    pub fn locate(&self, path: &str) -> (u32, u32) {
        let place = self.find(path).place;
        (place.line, place.column)
    }

    /// Is anything at `path` or below it wrong by itself? Then nothing follows from it.
    pub(super) fn is_spoiled(&self, path: &str) -> bool {
        let found = self.find(path);
        found.spoiled || found.node.is_some_and(|node| self.holds_spoiled(node))
    }

    /// The keys of the section at `path`, the spoiled ones too.
    pub(super) fn keys(&self, path: &str) -> Vec<&str> {
        match self.find(path).node.map(|node| &node.kind) {
            Some(Kind::Section(entries)) => entries.keys().map(String::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Does the section at `path` have this key, be it a spoiled one?
    pub(super) fn has_key(&self, path: &str, key: &str) -> bool {
        matches!(self.find(path).node.map(|node| &node.kind), Some(Kind::Section(entries)) if entries.contains_key(key))
    }

    /// Does the file say anything at `path`?
    pub(super) fn is_written(&self, path: &str) -> bool {
        self.find(path).node.is_some()
    }

    /// The index of `text` in the list at `path`.
    pub(super) fn position(&self, path: &str, text: &str) -> Option<usize> {
        let Kind::List(items) = &self.find(path).node?.kind else { return None };
        let mut readable = items.iter().filter(|item| !self.left_out.spoiled.contains(&item.id));
        readable.position(|item| matches!(&item.kind, Kind::Scalar { text: written, .. } if written == text))
    }

    pub(super) fn find(&self, path: &str) -> Found<'_> {
        let mut found = Found {
            path: String::new(),
            place: self.root.place,
            node: Some(&self.root),
            spoiled: self.left_out.spoiled.contains(&self.root.id),
        };
        let (mut rest, mut key) = (path, self.root.place);
        while !rest.is_empty() {
            let Some(next) = found.node.and_then(|node| self.step(node, rest)) else {
                let missing = rest.trim_start_matches('.').split(['.', '[']).next().unwrap_or_default();
                found.spoiled |= found.node.is_some_and(|node| self.is_misspelt(node, missing));
                // What is not written is missing from what is named by this key.
                (found.node, found.place) = (None, key);
                break;
            };
            found.spoiled |= self.left_out.spoiled.contains(&next.node.id);
            found.path.push_str(&next.said);
            (found.node, found.place) = (Some(next.node), next.node.place);
            (rest, key) = (next.rest, next.key);
        }
        found.path.push_str(rest);
        found
    }

    fn step<'a, 'p>(&self, node: &'a Node, rest: &'p str) -> Option<Step<'a, 'p>> {
        match &node.kind {
            Kind::Scalar { .. } => None,
            Kind::Section(entries) => {
                let dot = if rest.starts_with('.') { "." } else { "" };
                let name = &rest[dot.len()..];
                // A name may hold dots: the longest key that fits is meant.
                let shorter = name.rmatch_indices(['.', '[']).map(|(end, _)| end);
                let mut ends = iter::once(name.len()).chain(shorter);
                let (key, entry) = ends.find_map(|end| entries.get_key_value(&name[..end]))?;
                let rest = &name[key.len()..];
                Some(Step { said: format!("{dot}{key}"), key: entry.key, node: &entry.value, rest })
            }
            Kind::List(items) => {
                let (index, rest) = rest.strip_prefix('[')?.split_once(']')?;
                let wanted: usize = index.parse().ok()?;
                let readable = |(_, item): &(usize, &Node)| !self.left_out.spoiled.contains(&item.id);
                let (written, node) = match self.left_out.spoiled.is_empty() {
                    true => (wanted, items.get(wanted)?),
                    false => items.iter().enumerate().filter(readable).nth(wanted)?,
                };
                Some(Step { said: format!("[{written}]"), key: node.place, node, rest })
            }
        }
    }

    fn is_misspelt(&self, section: &Node, key: &str) -> bool {
        self.left_out.misspelt.contains(&(section.id, key.to_owned()))
    }

    fn holds_spoiled(&self, node: &Node) -> bool {
        self.left_out.spoiled.contains(&node.id)
            || match &node.kind {
                Kind::Scalar { .. } => false,
                Kind::List(items) => items.iter().any(|item| self.holds_spoiled(item)),
                Kind::Section(entries) => entries.values().any(|entry| self.holds_spoiled(&entry.value)),
            }
    }
}

/// One key or index of a path.
struct Step<'a, 'p> {
    said: String,
    /// Where its name stands; of a list element, where it begins.
    key: Place,
    node: &'a Node,
    rest: &'p str,
}

/// The word of `known` that `found` was most likely meant to be.
pub fn did_you_mean<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let found = found.to_lowercase();
    let bearable = 1 + found.chars().count() / 4;
    known
        .into_iter()
        .map(|word| (strsim::osa_distance(&found, &word.to_lowercase()), word))
        .filter(|(distance, _)| *distance <= bearable)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// `did you mean "…"?`, or what is known when nothing is near.
pub fn meant<'a>(found: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match did_you_mean(found, known.clone()) {
        Some(word) => format!("did you mean \"{word}\"?"),
        None => format!("expected {}", one_of(known)),
    }
}

/// `a, b or c`.
pub(super) fn one_of<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.into_iter().collect();
    match words.as_slice() {
        [] => "nothing".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    const TEXT: &str = "\
pools:
  a.b:
    origins:
      - x
      - { address: y }
      - z
  a:
    host:
routes: [ { pool: a } ]
";

    fn places(spoiled: &[&str]) -> Places {
        let (root, _) = tree::build(TEXT).unwrap();
        let mut places = Places::new(root, LeftOut::default());
        let ids: Vec<_> = spoiled.iter().map(|path| places.find(path).node.unwrap().id).collect();
        places.left_out.spoiled.extend(ids);
        places
    }

    #[test]
    fn a_path_leads_to_its_line_and_column() {
        let places = places(&[]);
        assert_eq!(places.locate("pools.a.b.origins[1].address"), (5, 20));
        assert_eq!(places.locate("routes[0].pool"), (9, 19));
        assert_eq!(places.locate("pools.a.host"), (8, 5));
    }

    #[test]
    fn a_section_has_the_keys_that_are_written_whole() {
        let places = places(&["pools.a.b"]);
        let known = ["a.b", "a", "b", "a.b.origins", ""].map(|key| places.has_key("pools", key));
        assert_eq!(known, [true, true, false, false, false]);
        assert!(!places.has_key("routes", "pool") && !places.has_key("nothing", "a"));
    }

    #[test]
    fn what_is_not_written_stands_where_it_would_belong() {
        let places = places(&[]);
        assert_eq!(places.locate("pools.a.b.origins[0].weight"), (4, 9));
        assert_eq!(places.locate("routes[0].match.hosts[3]"), (9, 11));
        assert_eq!(places.locate("process.threads"), (1, 1));
        assert_eq!(places.find("process.threads").path, "process.threads");
    }

    #[test]
    fn elements_left_out_do_not_shift_the_places_of_others() {
        let places = places(&["pools.a.b.origins[0]"]);
        assert_eq!(places.locate("pools.a.b.origins[1]"), (6, 9));
        assert_eq!(places.find("pools.a.b.origins[1].name").path, "pools.a.b.origins[2].name");
    }

    #[test]
    fn a_wrong_value_spoils_what_holds_it_and_nothing_else() {
        let places = places(&["pools.a.b.origins[1].address"]);
        assert!(places.is_spoiled("pools.a.b.origins[1].address"));
        assert!(places.is_spoiled("pools.a.b.origins"));
        assert!(!places.is_spoiled("pools.a.b.origins[0]"));
        assert!(!places.is_spoiled("pools.a"));
        assert!(!places.is_spoiled("routes"));
    }

    #[test]
    fn the_nearest_word_is_proposed_and_none_that_is_far() {
        let known = ["hash", "round_robin", "random"];
        assert_eq!(did_you_mean("hahs", known), Some("hash"));
        assert_eq!(did_you_mean("Hash", known), Some("hash"));
        assert_eq!(did_you_mean("roundrobin", known), Some("round_robin"));
        assert_eq!(did_you_mean("least", known), None);
        assert_eq!(meant("x", known), "expected hash, round_robin or random");
    }
}
