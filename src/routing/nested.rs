//! With which of many texts does this one begin?
//!
//! Texts are kept sorted, each with the longest other one it begins with. The last that is not above the text asked
//! about, and its ancestors, are all that can begin it: one binary search and a walk as long as texts are nested,
//! however many there are and however long the text is.

use std::collections::BTreeMap;
use std::iter;

/// Texts and what belongs to each.
#[derive(Debug)]
pub(super) struct Nested<T>(Vec<Node<T>>);

#[derive(Debug)]
struct Node<T> {
    text: String,
    parent: Option<usize>,
    value: T,
}

impl<T> Nested<T> {
    /// `value` makes what belongs to a text of what was given for it and what belongs to its parent.
    pub(super) fn build<G>(given: BTreeMap<String, G>, value: impl Fn(G, Option<&T>) -> T) -> Self {
        let mut nodes: Vec<Node<T>> = Vec::with_capacity(given.len());
        for (text, given) in given {
            let mut parent = nodes.len().checked_sub(1);
            while let Some(open) = parent.and_then(|at| nodes.get(at)).filter(|open| !text.starts_with(&open.text)) {
                parent = open.parent;
            }
            let above = parent.and_then(|at| nodes.get(at)).map(|node| &node.value);
            let value = value(given, above);
            nodes.push(Node { text, parent, value });
        }
        Self(nodes)
    }

    /// The texts that `whole` begins with, the longest first: what is left of `whole`, and what belongs to the text.
    pub(super) fn beginning<'s, 'w>(&'s self, whole: &'w str) -> impl Iterator<Item = (&'w str, &'s T)> {
        let mut next = self.0.partition_point(|node| node.text.as_str() <= whole).checked_sub(1);
        let line = iter::from_fn(move || {
            let node = self.0.get(next?)?;
            next = node.parent;
            Some(node)
        });
        line.filter_map(move |node| Some((whole.strip_prefix(&node.text)?, &node.value)))
    }
}

impl<T> Default for Nested<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_look_at_every_text_finds(texts in prop::collection::btree_set("[ab/]{0,5}", 0..20), whole in "[ab/]{0,8}") {
            let nested = Nested::build(texts.iter().map(|text| (text.clone(), text)).collect(), |text, _| text.clone());
            let found: Vec<_> = nested.beginning(&whole).map(|(_, text)| text.clone()).collect();
            let mut expected: Vec<_> = texts.iter().filter(|text| whole.starts_with(*text)).cloned().collect();
            expected.reverse();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn a_parent_is_the_longest_text_that_begins_its_child(texts in prop::collection::btree_set("[ab]{0,5}", 0..20)) {
            let given = texts.iter().map(|text| (text.clone(), text)).collect();
            let nested = Nested::build(given, |text, above: Option<&(String, usize)>| {
                (text.clone(), above.map_or(0, |(_, depth)| depth + 1))
            });
            for text in &texts {
                let depth = nested.beginning(text).next().map(|(_, (_, depth))| *depth);
                let others = texts.iter().filter(|other| *other != text && text.starts_with(*other)).count();
                prop_assert_eq!(depth, Some(others));
            }
        }
    }
}
