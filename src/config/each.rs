//! How is a long list or section read when one entry of it is wrong?
//!
//! The entry is left out and the next one read, so that a file with many mistakes is still read once. Only for
//! [`super::reader`], which has noted the mistake and offers no entry for ever.

use std::fmt;
use std::marker::PhantomData;

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, de};

use super::units::Name;

/// A list.
pub(super) fn list<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(List(PhantomData))
}

/// A section whose keys are names of the operator's choice.
pub(super) fn table<'de, T, D>(deserializer: D) -> Result<IndexMap<String, T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let entries = pairs::<Name, T, D>(deserializer)?;
    Ok(entries.into_iter().map(|(Name(name), value)| (name, value)).collect())
}

/// The entries of a section.
pub(super) fn pairs<'de, K, V, D>(deserializer: D) -> Result<Vec<(K, V)>, D::Error>
where
    K: Deserialize<'de>,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_map(Pairs(PhantomData))
}

struct List<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        loop {
            match items.next_element() {
                Ok(Some(item)) => list.push(item),
                Ok(None) => return Ok(list),
                Err(_) => {}
            }
        }
    }
}

struct Pairs<K, V>(PhantomData<(K, V)>);

impl<'de, K: Deserialize<'de>, V: Deserialize<'de>> de::Visitor<'de> for Pairs<K, V> {
    type Value = Vec<(K, V)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a section")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut entries: A) -> Result<Vec<(K, V)>, A::Error> {
        let mut list = Vec::new();
        loop {
            let key = match entries.next_key() {
                Ok(Some(key)) => key,
                Ok(None) => return Ok(list),
                Err(_) => continue,
            };
            if let Ok(value) = entries.next_value() {
                list.push((key, value));
            }
        }
    }
}
