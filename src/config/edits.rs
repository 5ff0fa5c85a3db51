//! Which headers does a route set, add and take out? On the way to an origin and on the way back.

use std::fmt;
use std::hash::{Hash, Hasher};

use http::HeaderName;
use indexmap::{IndexMap, IndexSet};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::each;
use super::fault::refuse;
use super::report::{Complaint, Invalid, Severity};
use super::route::Route;
use super::units::Off;
use super::written::{Written, written};

/// The `headers` section of a route.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Headers {
    /// Of requests on their way to an origin.
    #[serde(deserialize_with = "or_off")]
    #[schemars(with = "Off<Edits>")]
    pub request: Edits,
    /// Of answers on their way to the client.
    #[serde(deserialize_with = "or_off")]
    #[schemars(with = "Off<Edits>")]
    pub response: Edits,
}

/// What is done to a header: first `remove`, then `set`, then `add`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Edits {
    /// Headers and the only values they have: a template, or a list of them. One that comes out empty is no line.
    #[serde(deserialize_with = "lines")]
    #[schemars(with = "IndexMap<String, Values>")]
    pub set: IndexMap<FieldName, Values>,
    /// Headers and further values, templates as well.
    #[serde(deserialize_with = "lines")]
    #[schemars(with = "IndexMap<String, Values>")]
    pub add: IndexMap<FieldName, Values>,
    /// Headers that are taken out.
    pub remove: IndexSet<FieldName>,
}

/// The name of a header, spelt as it goes out; letter case makes no difference.
#[derive(Debug, Clone)]
pub struct FieldName(pub String);

/// One value, or a list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values(pub Vec<String>);

impl PartialEq for FieldName {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for FieldName {}

impl Hash for FieldName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.bytes().for_each(|byte| byte.to_ascii_lowercase().hash(state));
    }
}

impl Written for FieldName {
    const EXPECTED: &'static str = "the name of a header";

    fn parse(text: &str) -> Option<Self> {
        text.parse::<HeaderName>().is_ok().then(|| Self(text.to_owned()))
    }

    fn print(&self) -> String {
        self.0.clone()
    }

    fn schema() -> Schema {
        <HeaderName as Written>::schema()
    }
}

written!(FieldName);

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &*self.0 {
            [one] => serializer.serialize_str(one),
            all => serializer.collect_seq(all),
        }
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMore)
    }
}

struct OneOrMore;

impl<'de> de::Visitor<'de> for OneOrMore {
    type Value = Values;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, or a list of values")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Values, E> {
        Ok(Values(vec![text.to_owned()]))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Values, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element()? {
            values.push(value);
        }
        Ok(Values(values))
    }
}

impl JsonSchema for Values {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Values".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = || <String as Written>::schema();
        json_schema!({ "anyOf": [one(), { "type": "array", "items": one() }] })
    }
}

/// A section, or all of its defaults where it is off.
pub(super) fn or_off<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(match Off::deserialize(deserializer)? {
        Off::Off => T::default(),
        Off::On(written) => written,
    })
}

fn lines<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IndexMap<FieldName, Values>, D::Error> {
    let written: Vec<(FieldName, Values)> = each::pairs(deserializer)?;
    let mut lines = IndexMap::with_capacity(written.len());
    for (name, values) in written {
        let print = name.print();
        if lines.insert(name, values).is_some() {
            return Err(refuse(&Invalid::new(
                format!("found {print:?} twice"),
                "expected each name once, with a list",
            )));
        }
    }
    Ok(lines)
}

/// What is wrong with the edits of `route`, at `path`.
pub(super) fn check(path: &str, route: &Route) -> Vec<(Severity, Complaint)> {
    let mut said = Vec::new();
    for (way, edits) in [("request", &route.headers.request), ("response", &route.headers.response)] {
        let at = |key: &str| format!("{path}.headers.{way}.{key}");
        let lines = [("set", &edits.set), ("add", &edits.add)];
        let named = lines.into_iter().flat_map(|(key, lines)| lines.keys().map(move |name| (key, name)));
        let named = named.map(|(key, name)| (format!("{}.{}", at(key), name.0), name));
        let removed = edits.remove.iter().enumerate().map(|(i, name)| (format!("{}[{i}]", at("remove")), name));
        for (at, name) in named.chain(removed) {
            if let Some((why, meant)) = not_to_edit(&name.0.to_ascii_lowercase(), way) {
                said.push((Severity::Error, Invalid::new(format!("\"{}\" {why}", name.0), meant).at(at)));
            }
        }
    }
    said
}

/// Why a header is not for a route to edit, and what is.
fn not_to_edit(name: &str, way: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "content-length" | "transfer-encoding" => {
            ("says where a body ends, which is not for a route to say", "leave it out")
        }
        "connection" | "keep-alive" | "proxy-connection" | "te" | "trailer" | "upgrade" | "http2-settings" => {
            ("is said on each hop anew", "leave it out")
        }
        "expect" if way == "request" => ("is between a client and the origin that it waits for", "leave it out"),
        "host" if way == "request" => ("is the pool's to say", "set \"host\" of the pool"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::default::dump;
    use super::super::tests::{config, said, with_pool};

    fn file(headers: &str) -> String {
        let pool = with_pool("health: { probe: off }\n    origins: [a]");
        format!("{pool}routes:\n  - pool: origin\n    headers: {headers}\n")
    }

    #[test]
    fn names_keep_their_spelling_and_values_may_be_lists() {
        let text = file(
            "{ request: { set: { X-A: '1', x-b: [\"{host}\", b] }, remove: [X-C] }, response: { add: { Vary: Accept } } }",
        );
        let headers = &config(&text).routes[0].headers;
        let lines: Vec<_> = headers.request.set.iter().map(|(name, values)| (&*name.0, &*values.0)).collect();
        assert_eq!(lines, [("X-A", &["1".to_owned()][..]), ("x-b", &["{host}".to_owned(), "b".to_owned()][..])]);
        assert_eq!(config(&dump(&config(&text))), config(&text));
        for off in ["off", "{ request: off, response: { set: off, add: {}, remove: [] } }"] {
            assert_eq!(config(&file(off)).routes[0].headers, super::Headers::default(), "{off}");
        }
    }

    #[test]
    fn what_is_not_for_a_route_to_edit_is_refused_at_its_place() {
        let text = file(
            "{ request: { set: { Host: a, X-A: b }, remove: [X-B, TE] }, response: { add: { content-length: '1' }, set: { Host: a } } }",
        );
        assert_eq!(
            said(&text),
            [
                "9:40: routes[0].headers.request.set.Host: \"Host\" is the pool's to say, set \"host\" of the pool",
                "9:67: routes[0].headers.request.remove[1]: \"TE\" is said on each hop anew, leave it out",
                "9:109: routes[0].headers.response.add.content-length: \"content-length\" says where a body ends, which is \
                 not for a route to say, leave it out",
            ]
        );
    }

    #[test]
    fn a_name_stands_once_and_is_one() {
        assert_eq!(
            said(&file("{ request: { set: { X-A: a, x-a: b } } }")),
            ["9:32: routes[0].headers.request.set: found \"x-a\" twice, expected each name once, with a list"]
        );
        let said = said(&file("{ request: { set: { 'x y': a }, remove: ['a:b'] } }"));
        assert!(said.len() == 2 && said.iter().all(|line| line.ends_with("expected the name of a header")), "{said:?}");
    }
}
