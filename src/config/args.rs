//! Which query arguments are part of `{args}`?
//!
//! Names stay as they are written: their normal form, and what a `*` in them means, is the template's business.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fault::refuse;
use super::report::Invalid;
use super::units::Off;
use super::written::{Written, written};

/// `args`: which query arguments are part of `{args}` (compared after normalisation; a trailing `*` matches any rest).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Args {
    /// All of them.
    #[default]
    All,
    /// Only these.
    Keep(Vec<String>),
    /// All but these.
    Drop(Vec<String>),
}

/// `args` as written.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename = "Args", default, deny_unknown_fields)]
#[derive(Default)]
struct WrittenArgs {
    /// Only these are part of `{args}`; a `*` at the end of a name stands for any rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    keep: Option<Off<Vec<ArgName>>>,
    /// All but these are, with `*` as in `keep`.
    #[serde(skip_serializing_if = "Option::is_none")]
    drop: Option<Off<Vec<ArgName>>>,
}

#[derive(Debug, Clone)]
struct ArgName(String);

impl Written for ArgName {
    const EXPECTED: &'static str = "the name of an argument";

    fn parse(text: &str) -> Option<Self> {
        let is_name = !text.is_empty() && !text.contains(char::is_control);
        is_name.then(|| Self(text.to_owned()))
    }

    fn print(&self) -> String {
        self.0.clone()
    }

    fn schema() -> Schema {
        json_schema!({ "type": ["string", "number"], "minLength": 1 })
    }
}

written!(ArgName);

impl Serialize for Args {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let list = |names: &Vec<String>| Some(Off::On(names.iter().cloned().map(ArgName).collect()));
        let written = match self {
            Self::All => WrittenArgs::default(),
            Self::Keep(names) => WrittenArgs { keep: list(names), drop: None },
            Self::Drop(names) => WrittenArgs { keep: None, drop: list(names) },
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = match Off::<WrittenArgs>::deserialize(deserializer)? {
            Off::Off => WrittenArgs::default(),
            Off::On(written) => written,
        };
        match (names(written.keep), names(written.drop)) {
            (None, None) => Ok(Self::All),
            (Some(names), None) => Ok(Self::Keep(names)),
            (None, Some(names)) if names.is_empty() => Ok(Self::All),
            (None, Some(names)) => Ok(Self::Drop(names)),
            (Some(_), Some(_)) => Err(refuse(&Invalid::new("found both keep and drop", "expected one of them"))),
        }
    }
}

/// A list that is off is one that is not written: an empty one would keep nothing.
fn names(list: Option<Off<Vec<ArgName>>>) -> Option<Vec<String>> {
    Some(list?.on()?.iter().map(|ArgName(name)| name.clone()).collect())
}

impl JsonSchema for Args {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Args".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Off::<WrittenArgs>::json_schema(generator)
    }
}
