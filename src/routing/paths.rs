//! Which routes of one host take this path, the most specific first?
//!
//! Exact paths are hashed, prefixes and the beginnings of regexes nested: of however many, only those are looked at
//! that the path begins with.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use regex::Regex;

use super::condition::Conditions;
use super::nested::Nested;
use super::pattern::Path;

/// The routes of one host.
#[derive(Debug, Default)]
pub(super) struct Paths {
    exact: HashMap<String, Ranked>,
    /// Without a trailing slash.
    prefixes: Nested<Ranked>,
    /// The longest first.
    regexes: Vec<(Regex, Ranked)>,
    /// Which of `regexes` can match what begins so, in their order.
    starts: Nested<Vec<usize>>,
    any: Ranked,
}

/// Places of routes in the configuration, the most specific first.
pub(super) type Ranked = Vec<usize>;

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
                Path::Regex { regex, start } => {
                    let longest_first = (Reverse(regex.as_str().len()), regex.as_str().to_owned());
                    &mut regexes.entry(longest_first).or_insert_with(|| (regex, start, Vec::new())).2
                }
            };
            same.push(route);
        }
        let groups = exact.values_mut().chain(prefixes.values_mut()).chain(regexes.values_mut().map(|it| &mut it.2));
        groups.chain([&mut any]).for_each(|group| rank(group, conditions, ties));
        let mut starts: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (place, (_, start, _)) in regexes.values().enumerate() {
            starts.entry(start.clone()).or_default().push(place);
        }
        Self {
            exact,
            prefixes: Nested::build(prefixes, |routes, _| routes),
            regexes: regexes.into_values().map(|(regex, _, routes)| (regex, routes)).collect(),
            starts: Nested::build(starts, merged),
            any,
        }
    }

    /// Groups of routes that take `path`, the most specific first.
    pub(super) fn matching(&self, path: &str) -> impl Iterator<Item = &Ranked> {
        let exact = self.exact.get(path);
        let by_segment = |rest: &str| rest.is_empty() || rest.starts_with('/');
        let covering = self.prefixes.beginning(path).filter(move |(rest, _)| by_segment(rest)).map(|(_, it)| it);
        let possible = self.starts.beginning(path).next().into_iter().flat_map(|(_, places)| places);
        let regexes = possible.filter_map(|place| self.regexes.get(*place));
        let matched = regexes.filter(move |(regex, _)| regex.is_match(path)).map(|(_, routes)| routes);
        exact.into_iter().chain(covering).chain(matched).chain([&self.any])
    }
}

/// What can match a longer beginning is its own and all that can match a shorter one.
fn merged(mut own: Vec<usize>, shorter: Option<&Vec<usize>>) -> Vec<usize> {
    own.extend(shorter.into_iter().flatten());
    own.sort_unstable();
    own
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
