//! How is one value written, read and described?
//!
//! Whatever the operator writes as a single word implements [`Written`] once, types of other crates too, and gets
//! its serde, its schema and its wording of mistakes from here. What is printed reads back as the same value.

use std::borrow::Cow;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

use indexmap::IndexMap;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::fault::refuse;
use super::report::Invalid;

/// A value that is written as one word.
pub trait Written: Sized {
    /// What is expected, as the end of a sentence.
    const EXPECTED: &'static str;

    /// The value of `text`; `None` when it is none.
    fn parse(text: &str) -> Option<Self>;

    /// As it is written.
    fn print(&self) -> String;

    /// Its JSON Schema.
    fn schema() -> Schema;

    /// The value of `text`, or what is wrong with it.
    fn read(text: &str) -> Result<Self, Invalid> {
        Self::parse(text).ok_or_else(|| Invalid::new(format!("found {text:?}"), format!("expected {}", Self::EXPECTED)))
    }
}

/// Gives a [`Written`] type of ours its serde and its schema, so that it can stand in a field as it is.
macro_rules! written {
    ($($type:ty),+) => {
        $(
            impl serde::Serialize for $type {
                fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    $crate::config::written::serialize(self, serializer)
                }
            }

            impl<'de> serde::Deserialize<'de> for $type {
                fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                    $crate::config::written::deserialize(deserializer)
                }
            }

            impl schemars::JsonSchema for $type {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> std::borrow::Cow<'static, str> {
                    stringify!($type).into()
                }

                fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                    <Self as $crate::config::written::Written>::schema()
                }
            }
        )+
    };
}
pub(super) use written;

/// A choice between words: gives an enum of plain variants everything, from its words alone.
macro_rules! choices {
    ($type:ident { $first:ident = $word:literal $(, $other:ident = $or:literal)* $(,)? }) => {
        choices!($type { $first = $word $(, $other = $or)* }, concat!($word $(, " or ", $or)*));
    };
    ($type:ident { $($variant:ident = $word:literal),+ $(,)? }, $expected:expr) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $word,)+
                })
            }
        }

        impl $crate::config::written::Written for $type {
            const EXPECTED: &'static str = $expected;

            fn parse(text: &str) -> Option<Self> {
                match text {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn print(&self) -> String {
                self.to_string()
            }

            fn schema() -> schemars::Schema {
                schemars::json_schema!({ "enum": [$($word),+] })
            }

            fn read(text: &str) -> Result<Self, $crate::config::report::Invalid> {
                Self::parse(text).ok_or_else(|| {
                    $crate::config::written::unknown_word(text, &[$($word),+])
                })
            }
        }

        $crate::config::written::written!($type);
    };
}
pub(super) use choices;

/// What is said of a word that a choice does not know.
pub(super) fn unknown_word(text: &str, words: &[&str]) -> Invalid {
    Invalid::new(format!("unknown value {text:?}"), super::place::meant(text, words.iter().copied()))
}

/// For `#[serde(with = "written")]`.
pub(super) fn serialize<T: Written, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.print())
}

/// For `#[serde(with = "written")]`.
pub(super) fn deserialize<'de, T: Written, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Word(PhantomData))
}

struct Word<T>(PhantomData<T>);

impl<T: Written> de::Visitor<'_> for Word<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        T::read(text).map_err(|invalid| refuse(&invalid))
    }
}

/// A [`Written`] type of another crate inside a list, a section or an option.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct As<T>(pub(super) T);

impl<T: Written> Serialize for As<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, serializer)
    }
}

impl<'de, T: Written> Deserialize<'de> for As<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer).map(Self)
    }
}

impl<T: Written> JsonSchema for As<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::EXPECTED.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        T::schema()
    }
}

/// Lists of [`Written`] values of other crates.
pub(super) mod list {
    use super::{As, Deserialize, Deserializer, Serializer, Written};

    pub(in crate::config) fn serialize<'a, C, T, S>(list: &'a C, serializer: S) -> Result<S::Ok, S::Error>
    where
        &'a C: IntoIterator<Item = &'a T>,
        T: Written + 'a,
        S: Serializer,
    {
        serializer.collect_seq(list.into_iter().map(Written::print))
    }

    pub(in crate::config) fn deserialize<'de, C, D>(deserializer: D) -> Result<C, D::Error>
    where
        C: IntoIterator<Item: Written> + FromIterator<<C as IntoIterator>::Item>,
        D: Deserializer<'de>,
    {
        let list: Vec<As<C::Item>> = Deserialize::deserialize(deserializer)?;
        Ok(list.into_iter().map(|As(value)| value).collect())
    }
}

/// Sections of [`Written`] keys and values.
pub(super) mod table {
    use super::{As, Deserializer, Hash, IndexMap, Invalid, Serializer, Written, refuse};

    pub(in crate::config) fn serialize<K, V, S>(table: &IndexMap<K, V>, serializer: S) -> Result<S::Ok, S::Error>
    where
        K: Written,
        V: Written,
        S: Serializer,
    {
        serializer.collect_map(table.iter().map(|(key, value)| (key.print(), value.print())))
    }

    pub(in crate::config) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<IndexMap<K, V>, D::Error>
    where
        K: Written + Hash + Eq,
        V: Written,
        D: Deserializer<'de>,
    {
        let written: Vec<(As<K>, As<V>)> = super::super::each::pairs(deserializer)?;
        let mut table = IndexMap::with_capacity(written.len());
        for (As(key), As(value)) in written {
            let name = key.print();
            if table.insert(key, value).is_some() {
                return Err(refuse(&Invalid::new(format!("found {name:?} twice"), "expected each name once")));
            }
        }
        Ok(table)
    }
}
