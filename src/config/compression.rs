//! Which answers are compressed, and how?

use indexmap::IndexSet;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::fault::refuse;
use super::report::Invalid;
use super::units::Bytes;
use super::written::{Written, choices, written};

/// The `compression` section of a route: answers are compressed for clients that take it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compression {
    /// With these; of what a client likes equally, the first.
    #[serde(deserialize_with = "some_algorithms")]
    #[schemars(length(min = 1))]
    pub algorithms: IndexSet<Algorithm>,
    /// Answers of these media types; text/* stands for all that begin with text/.
    #[serde(deserialize_with = "some_types")]
    #[schemars(length(min = 1))]
    pub types: IndexSet<MediaType>,
    /// A smaller answer stays as it is; one of unknown length counts as large.
    pub min: Bytes,
}

impl Default for Compression {
    fn default() -> Self {
        let types = ["text/*", "application/json"];
        Self {
            algorithms: [Algorithm::Zstd, Algorithm::Br, Algorithm::Gzip].into(),
            types: types.into_iter().filter_map(MediaType::parse).collect(),
            min: Bytes(1 << 10),
        }
    }
}

/// A content coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Br,
    /// RFC 1952.
    Gzip,
}

choices!(Algorithm { Zstd = "zstd", Br = "br", Gzip = "gzip" }, "zstd, br or gzip");

/// One media type, or all with the same beginning; in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MediaType {
    /// Before the slash.
    pub kind: String,
    /// Behind it; `None`: whatever it is.
    pub sub: Option<String>,
}

written!(MediaType);

impl Written for MediaType {
    const EXPECTED: &'static str = "a media type such as text/html or text/*";

    fn parse(text: &str) -> Option<Self> {
        let (kind, sub) = text.split_once('/')?;
        let is_token = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'+-.^_`|~".contains(&b))
        };
        (is_token(kind) && (sub == "*" || is_token(sub)))
            .then(|| Self { kind: kind.to_ascii_lowercase(), sub: (sub != "*").then(|| sub.to_ascii_lowercase()) })
    }

    fn print(&self) -> String {
        format!("{}/{}", self.kind, self.sub.as_deref().unwrap_or("*"))
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[^\s/*;,]+/(\*|[^\s/*;,]+)$" })
    }

    fn read(text: &str) -> Result<Self, Invalid> {
        let lower = text.to_ascii_lowercase();
        if lower == "text/event-stream" || lower.starts_with("application/grpc") {
            return Err(Invalid::new(format!("found {text:?}"), "leave it out: a stream is never compressed"));
        }
        Self::parse(text).ok_or_else(|| Invalid::new(format!("found {text:?}"), format!("expected {}", Self::EXPECTED)))
    }
}

fn some_algorithms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IndexSet<Algorithm>, D::Error> {
    some(IndexSet::deserialize(deserializer)?, Algorithm::EXPECTED)
}

fn some_types<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IndexSet<MediaType>, D::Error> {
    some(IndexSet::deserialize(deserializer)?, MediaType::EXPECTED)
}

fn some<T, E: serde::de::Error>(list: IndexSet<T>, expected: &str) -> Result<IndexSet<T>, E> {
    if list.is_empty() {
        return Err(refuse(&Invalid::new("found an empty list", format!("expected {expected}, or compression: off"))));
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, said, with_pool};
    use super::super::units::Off;
    use super::*;

    fn route(keys: &str) -> String {
        with_pool(&format!("origins: [a]\nroutes: [ {{ pool: origin, {keys} }} ]"))
    }

    #[test]
    fn it_is_off_unless_written_and_then_as_by_default() {
        let of = |keys: &str| config(&route(keys)).routes[0].compression.clone();
        assert_eq!((of("name: a"), of("compression: off")), (Off::Off, Off::Off));
        assert_eq!(of("compression: {}"), Off::On(Compression::default()));
        let Off::On(written) = of("compression: { algorithms: [gzip, zstd], types: [Text/*, image/svg+xml], min: 0 }")
        else {
            panic!()
        };
        assert_eq!(written.algorithms.into_iter().collect::<Vec<_>>(), [Algorithm::Gzip, Algorithm::Zstd]);
        assert_eq!(written.types.iter().map(Written::print).collect::<Vec<_>>(), ["text/*", "image/svg+xml"]);
        assert_eq!(written.min, Bytes(0));
    }

    #[test]
    fn what_cannot_be_meant_is_a_mistake() {
        for (section, told) in [
            ("algorithms: [deflate]", "unknown value \"deflate\""),
            ("algorithms: []", "found an empty list, expected zstd, br or gzip, or compression: off"),
            ("types: []", "found an empty list"),
            ("types: [text]", "found \"text\", expected a media type such as text/html or text/*"),
            ("types: [\"*/*\"]", "expected a media type"),
            ("types: [text/event-stream]", "a stream is never compressed"),
            ("types: [application/grpc+proto]", "a stream is never compressed"),
            ("level: 9", "unknown key"),
        ] {
            let mut found = said(&route(&format!("compression: {{ {section} }}")));
            found.retain(|line| !line.contains("probe"));
            assert!(found.len() == 1 && found[0].contains(told), "{section}: {found:?}");
        }
    }
}
