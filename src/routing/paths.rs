//! Which routes of one host take this path, the most specific first?
//!
//! Prefixes are kept sorted, each with the longest other one it begins with. The last one not above a path, and its
//! ancestors, are all that can match it: one binary search and a walk as long as prefixes are nested, however long
//! the path is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;

use regex::Regex;

use super::condition::Conditions;
use super::pattern::Path;

/// The routes of one host.
#[derive(Debug, Default)]
pub(super) struct Paths {
    exact: HashMap<String, Ranked>,
    prefixes: Vec<Prefix>,
    regexes: Vec<(Regex, Ranked)>,
    any: Ranked,
}

/// Places of routes in the configuration, the most specific first.
pub(super) type Ranked = Vec<usize>;

#[derive(Debug)]
struct Prefix {
    /// Without a trailing slash.
    text: String,
    /// The longest other prefix this text begins with.
    parent: Option<usize>,
    routes: Ranked,
}

impl Paths {
    /// Sorts `entries` (route and path) by path and rank. Pairs of routes that nothing sets apart go to `ties`, the
    /// one later in the configuration first.
    pub(super) fn build(
        entries: Vec<(usize, Path)>,
        conditions: &[Conditions],
        ties: &mut BTreeSet<(usize, usize)>,
    ) -> Self {
        let (mut exact, mut prefixes, mut regexes) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut any = Vec::new();
        for (route, path) in entries {
            let same: &mut Ranked = match path {
                Path::Any => &mut any,
                Path::Exact(path) => exact.entry(path).or_default(),
                Path::Prefix(prefix) => prefixes.entry(prefix).or_default(),
                Path::Regex(regex) => {
                    let longest_first = (Reverse(regex.as_str().len()), regex.as_str().to_owned());
                    &mut regexes.entry(longest_first).or_insert_with(|| (regex, Vec::new())).1
                }
            };
            same.push(route);
        }
        let groups = exact.values_mut().chain(prefixes.values_mut()).chain(regexes.values_mut().map(|it| &mut it.1));
        groups.chain([&mut any]).for_each(|group| rank(group, conditions, ties));
        Self { exact, prefixes: nested(prefixes), regexes: regexes.into_values().collect(), any }
    }

    /// Groups of routes that take `path`, the most specific first.
    pub(super) fn matching(&self, path: &str) -> impl Iterator<Item = &Ranked> {
        let exact = self.exact.get(path);
        let mut next = self.prefixes.partition_point(|prefix| prefix.text.as_str() <= path).checked_sub(1);
        let prefixes = iter::from_fn(move || {
            let prefix = self.prefixes.get(next?)?;
            next = prefix.parent;
            Some(prefix)
        });
        let covering = prefixes.filter(move |prefix| prefix.covers(path)).map(|prefix| &prefix.routes);
        let regexes = self.regexes.iter().filter(move |(regex, _)| regex.is_match(path)).map(|(_, routes)| routes);
        exact.into_iter().chain(covering).chain(regexes).chain([&self.any])
    }
}

impl Prefix {
    /// Is `path` this prefix, or below it?
    fn covers(&self, path: &str) -> bool {
        path.strip_prefix(&self.text).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Finds each prefix's parent: in sorted order, the open ones are a stack.
fn nested(sorted: BTreeMap<String, Ranked>) -> Vec<Prefix> {
    let mut prefixes: Vec<Prefix> = Vec::with_capacity(sorted.len());
    for (text, routes) in sorted {
        let mut parent = prefixes.len().checked_sub(1);
        while let Some(open) = parent.and_then(|at| prefixes.get(at)).filter(|open| !text.starts_with(&open.text)) {
            parent = open.parent;
        }
        prefixes.push(Prefix { text, parent, routes });
    }
    prefixes
}

/// Sorts routes of one host and path, and notes those that are equally specific and can both match.
fn rank(routes: &mut Ranked, conditions: &[Conditions], ties: &mut BTreeSet<(usize, usize)>) {
    routes.sort_by_cached_key(|route| conditions[*route].order());
    for equals in routes.chunk_by(|a, b| conditions[*a].weight() == conditions[*b].weight()) {
        for (at, one) in equals.iter().enumerate() {
            let overlapping = equals[at + 1..].iter().filter(|other| conditions[*one].overlap(&conditions[**other]));
            ties.extend(overlapping.map(|other| (*one.max(other), *one.min(other))));
        }
    }
}
