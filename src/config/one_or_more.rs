//! A value that may be written alone or as a list. How it was written is kept, since it is part of every path below it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::reader::ONE_OR_MORE;

/// One, or a list; none is `off`.
#[derive(Debug, Clone, PartialEq)]
pub enum OneOrMore<T> {
    /// Written alone.
    One(T),
    /// Written as a list.
    More(Vec<T>),
}

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

impl<T> OneOrMore<T> {
    /// All of them.
    pub fn all(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(list) => list,
        }
    }

    /// All of them, to be changed.
    pub(super) fn all_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(one) => std::slice::from_mut(one),
            Self::More(list) => list,
        }
    }

    /// Each with its path, when all stand at `path`.
    pub fn at(&self, path: String) -> impl Iterator<Item = (String, &T)> {
        self.all().iter().enumerate().map(move |(number, one)| match self {
            Self::One(_) => (path.clone(), one),
            Self::More(_) => (format!("{path}[{number}]"), one),
        })
    }
}

impl<T: Serialize> Serialize for OneOrMore<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(one) => one.serialize(serializer),
            Self::More(list) if list.is_empty() => serializer.serialize_str("off"),
            Self::More(list) => list.serialize(serializer),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(ONE_OR_MORE, Either(PhantomData))
    }
}

struct Either<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for Either<T> {
    type Value = OneOrMore<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("off, a section or a list")
    }

    fn visit_unit<E: de::Error>(self) -> Result<OneOrMore<T>, E> {
        Ok(OneOrMore::default())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<OneOrMore<T>, D::Error> {
        T::deserialize(deserializer).map(OneOrMore::One)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, items: A) -> Result<OneOrMore<T>, A::Error> {
        super::each::list(de::value::SeqAccessDeserializer::new(items)).map(OneOrMore::More)
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMore<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMore{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [{ "enum": ["off", false] }, one, { "type": "array", "items": one }] })
    }
}
