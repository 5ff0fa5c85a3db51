//! What is part of the contract, but comes with a later version?
//!
//! Such a key is refused rather than ignored, unless its value switches it off. A feature that arrives takes its
//! line out of these tables and adds its field or its variant; nothing else names them.

use super::tree::{Kind, Node};

/// Keys by the section they stand in, with the value besides "off" that changes nothing.
const KEYS: &[(&str, &str, Option<&str>)] = &[];

/// What is said of it.
pub(super) const FOUND: &str = "not supported yet";
/// What helps.
pub(super) const MEANT: &str = "leave it out or switch it off";

/// Does `key` come to `section` later?
pub(super) fn has_key(section: &str, key: &str) -> bool {
    KEYS.iter().any(|(s, k, _)| (*s, *k) == (section, key))
}

/// The keys that come to `section` later.
pub(super) fn keys(section: &str) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(move |(s, ..)| *s == section).map(|(_, key, _)| *key)
}

/// Every section and key, for the test that none of them has arrived.
#[cfg(test)]
pub(super) fn all_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYS.iter().map(|(section, key, _)| (*section, *key))
}

/// Does `value` leave the feature of `key` switched off?
pub(super) fn is_off(section: &str, key: &str, value: &Node) -> bool {
    let neutral = KEYS.iter().find(|(s, k, _)| (*s, *k) == (section, key)).and_then(|(.., neutral)| *neutral);
    let is_neutral = matches!(&value.kind, Kind::Scalar { text, .. } if Some(text.as_str()) == neutral);
    is_neutral || is_empty(value)
}

/// Nothing, "off", or a list or section of such values.
fn is_empty(value: &Node) -> bool {
    match &value.kind {
        Kind::Scalar { .. } => value.is_nothing() || value.is_off(),
        Kind::List(items) => items.iter().all(is_empty),
        Kind::Section(entries) => entries.values().all(|entry| is_empty(&entry.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree;
    use super::*;

    fn off(section: &str, key: &str, value: &str) -> bool {
        let (root, _) = tree::build(&format!("{key}: {value}")).unwrap();
        let Kind::Section(entries) = &root.kind else { panic!("no section") };
        is_off(section, key, &entries[key].value)
    }

    #[test]
    fn whatever_switches_a_feature_off_is_taken() {
        for value in ["off", "false", "", "~", "{}", "[]", "{ response: off }", "{ request: { set: {}, remove: [] } }"]
        {
            assert!(off("Route", "buffering", value), "{value}");
        }
    }

    #[test]
    fn whatever_switches_it_on_is_not() {
        for value in ["on", "true", "1", "{ response: 1MiB }", "[x]", "keep"] {
            assert!(!off("Route", "buffering", value), "{value}");
        }
    }
}
