//! What does serde see of the tree?
//!
//! Scalars are texts unless a type asks for a number or a yes or no. A list element or an entry that fails is offered
//! again, without what was wrong in it, until it is left out itself: see [`super::reader`].

use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

use super::fault::Fault;
use super::place::one_of;
use super::reader::{At, Item, OFF, ONE_OR_MORE, Path, SHORT};
use super::tree::{Kind, Node};

/// Reads a plain scalar by one of serde's typed methods.
macro_rules! deserialize_plain {
    ($($method:ident $visit:ident $expected:literal),+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let parsed = match &self.node.kind {
                Kind::Scalar { text, quoted: false } => text.parse().ok(),
                _ => None,
            };
            self.settle(match parsed {
                Some(value) => visitor.$visit(value),
                None => Err(self.wrong($expected)),
            })
        })+
    };
}

impl<'de> de::Deserializer<'de> for At<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let result = match &self.node.kind {
            Kind::Scalar { .. } if self.node.is_nothing() => visitor.visit_unit(),
            Kind::Scalar { text, .. } => visitor.visit_str(text),
            Kind::List(items) => visitor.visit_seq(Items { at: self, list: items, next: 0 }),
            Kind::Section(entries) => {
                let list = entries.iter().map(|(key, entry)| Item::of(self, key, entry)).collect();
                visitor.visit_map(Entries { at: self, list, next: 0 })
            }
        };
        self.settle(result)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let value = match &self.node.kind {
            Kind::Scalar { text, .. } if matches!(text.as_str(), "true" | "on") => Ok(true),
            Kind::Scalar { text, .. } if matches!(text.as_str(), "false" | "off") => Ok(false),
            _ => Err(self.wrong("true or false")),
        };
        self.settle(value.and_then(|value| visitor.visit_bool(value)))
    }

    deserialize_plain!(
        deserialize_u8 visit_u8 "a number",
        deserialize_u16 visit_u16 "a number",
        deserialize_u32 visit_u32 "a number",
        deserialize_u64 visit_u64 "a number",
        deserialize_i8 visit_i8 "a number",
        deserialize_i16 visit_i16 "a number",
        deserialize_i32 visit_i32 "a number",
        deserialize_i64 visit_i64 "a number",
        deserialize_f32 visit_f32 "a number",
        deserialize_f64 visit_f64 "a number"
    );

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.settle(if self.node.is_nothing() { visitor.visit_none() } else { visitor.visit_some(self) })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.settle(match name {
            OFF if self.node.is_off() => visitor.visit_unit(),
            OFF => visitor.visit_newtype_struct(At { or_off: true, ..self }),
            ONE_OR_MORE => match &self.node.kind {
                Kind::List(items) => visitor.visit_seq(Items { at: self, list: items, next: 0 }),
                _ if self.node.is_off() => visitor.visit_unit(),
                _ => visitor.visit_newtype_struct(self),
            },
            _ => visitor.visit_newtype_struct(self),
        })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.kind {
            Kind::List(_) => self.deserialize_any(visitor),
            _ if self.node.is_off() => self.settle(visitor.visit_seq(Items { at: self, list: &[], next: 0 })),
            _ => self.settle(Err(self.wrong("a list"))),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.kind {
            Kind::Section(_) => self.deserialize_any(visitor),
            _ if self.node.is_off() => self.settle(visitor.visit_map(Entries { at: self, list: Vec::new(), next: 0 })),
            _ => self.settle(Err(self.wrong("a section"))),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let short = SHORT.iter().find(|(section, _)| *section == name).map(|(_, meant)| *meant);
        let fits = match &self.node.kind {
            Kind::Section(_) => true,
            Kind::Scalar { .. } if self.node.is_nothing() => self.path.key().is_some(),
            Kind::Scalar { .. } => short.is_some(),
            Kind::List(_) => false,
        };
        if !fits {
            return self.settle(Err(self.wrong(short.unwrap_or("a section"))));
        }
        self.settle(visitor.visit_map(Entries { at: self, list: self.known_entries(fields), next: 0 }))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match &self.node.kind {
            Kind::Scalar { text, .. } => {
                let variant: de::value::StrDeserializer<'_, Fault> = text.as_str().into_deserializer();
                self.settle(visitor.visit_enum(variant))
            }
            _ => self.settle(Err(self.wrong(&one_of(variants.iter().copied())))),
        }
    }

    serde::forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any i128 u128
    }
}

/// A list being read.
struct Items<'r> {
    at: At<'r>,
    list: &'r [Node],
    next: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    /// An element that fails is offered again, without what was wrong in it, until it is left out itself.
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        while self.list.get(self.next).is_some_and(|node| self.at.is_spoiled(node)) {
            self.next += 1;
        }
        let Some(node) = self.list.get(self.next) else { return Ok(None) };
        let path = Path::Index(self.at.path, self.next);
        let at = At { reader: self.at.reader, node, path: &path, or_off: false };
        let value = at.settle(seed.deserialize(at))?;
        self.next += 1;
        Ok(Some(value))
    }
}

/// A section being read.
struct Entries<'r> {
    at: At<'r>,
    list: Vec<Item<'r>>,
    next: usize,
}

impl<'de> de::MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        while self.list.get(self.next).is_some_and(|item| self.at.is_spoiled(item.node)) {
            self.next += 1;
        }
        let Some(item) = self.list.get(self.next) else { return Ok(None) };
        let key: de::value::StrDeserializer<'_, Fault> = item.key.into_deserializer();
        match seed.deserialize(key) {
            Ok(key) => Ok(Some(key)),
            Err(Fault::Fresh { found, meant }) => {
                self.at.note(item.place, self.at.path, (found, meant));
                self.at.spoil(item.node.id);
                Err(Fault::Noted)
            }
            Err(fault) => Err(fault),
        }
    }

    /// As with lists, an entry that fails is offered again.
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some(item) = self.list.get(self.next) else { return Err(Fault::Noted) };
        let path = item.path.map(|section| Path::Key(section, item.key));
        let path = path.as_ref().unwrap_or(self.at.path);
        let at = At { reader: self.at.reader, node: item.node, path, or_off: false };
        let value = at.settle(seed.deserialize(at))?;
        self.next += 1;
        Ok(value)
    }
}
