//! What is held for whom?

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::fault::refuse;
use super::report::Invalid;
use super::units::{Bytes, Off};
use super::written::Written;

/// What the memory of every process holds: more is a slip of the pen.
const MOST: Bytes = Bytes(1 << 30);
/// What Pingora keeps of a body, to send it from there and again: of a longer one nothing.
const REPLAYED: Bytes = Bytes(64 << 10);

/// The `buffering` section of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Buffering {
    /// Up to so much of an answer is taken from its origin at once and held for a client that reads slowly.
    #[serde(deserialize_with = "response")]
    pub response: Off<Bytes>,
    /// A request whose body has a length of at most so much, up to 64 KiB, is read whole before an origin is asked.
    #[serde(deserialize_with = "request")]
    pub request: Off<Bytes>,
}

fn response<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Off<Bytes>, D::Error> {
    within(deserializer, MOST)
}

fn request<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Off<Bytes>, D::Error> {
    within(deserializer, REPLAYED)
}

fn within<'de, D: Deserializer<'de>>(deserializer: D, most: Bytes) -> Result<Off<Bytes>, D::Error> {
    match Off::<Bytes>::deserialize(deserializer)? {
        Off::On(size) if size.0 == 0 || size > most => {
            let meant = format!("expected off, or a size up to {}", most.print());
            Err(refuse(&Invalid::new(format!("found \"{}\"", size.print()), meant)))
        }
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{config, said, with_pool};
    use super::*;

    fn route(section: &str) -> String {
        with_pool(&format!("origins: [a]\nroutes: [ {{ pool: origin, buffering: {section} }} ]"))
    }

    #[test]
    fn it_is_off_unless_a_size_is_written() {
        let of = |section: &str| config(&route(section)).routes[0].buffering.response;
        for section in ["off", "{}", "{ response: off }", "{ response: false }"] {
            assert_eq!(of(section), Off::Off, "{section}");
        }
        assert_eq!(of("{ response: 2MiB }"), Off::On(Bytes(2 << 20)));
        for (section, meant) in [
            ("{ response: 0 }", "buffering.response: found \"0\", expected off, or a size up to 1GiB"),
            ("{ response: 2GiB }", "expected off, or a size up to 1GiB"),
            ("{ request: 65KiB }", "buffering.request: found \"65KiB\", expected off, or a size up to 64KiB"),
        ] {
            let found = said(&route(section));
            let told = |line: &String| line.ends_with(meant);
            assert!(found.iter().any(told), "{found:?}");
        }
    }
}
