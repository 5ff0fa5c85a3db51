//! Why can a value not be read, on the way through serde?
//!
//! Serde's own messages become what was found and what was meant; a fault travels until the reader has noted it.

use std::fmt;

use serde::de::{self, Unexpected};

use super::report::Invalid;

/// Divides what was found from what was meant on the way through serde, which knows a single text only.
const DIVIDER: char = '\u{1f}';

/// The error that carries `invalid` through serde.
pub(super) fn refuse<E: de::Error>(invalid: &Invalid) -> E {
    E::custom(format_args!("{}{DIVIDER}{}", invalid.found, invalid.meant))
}

/// Why a value cannot be read.
#[derive(Debug)]
pub(super) enum Fault {
    /// Not yet noted: the value at hand is wrong.
    Fresh { found: String, meant: String },
    /// The section at hand lacks this key.
    Missing(&'static str),
    /// Noted at the value that is wrong.
    Noted,
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fresh { found, meant } => write!(f, "{found}, {meant}"),
            Self::Missing(key) => write!(f, "{key} is missing"),
            Self::Noted => f.write_str("noted already"),
        }
    }
}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        let text = message.to_string();
        let (found, meant) = text.split_once(DIVIDER).unwrap_or((&text, ""));
        Self::Fresh { found: found.to_owned(), meant: meant.to_owned() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            Unexpected::Str(text) => format!("found {text:?}"),
            Unexpected::Unit | Unexpected::Option => "found nothing".to_owned(),
            Unexpected::Seq => "found a list".to_owned(),
            Unexpected::Map => "found a section".to_owned(),
            other => format!("found {other}"),
        };
        Self::Fresh { found, meant: format!("expected {expected}") }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }
}
