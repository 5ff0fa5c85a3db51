//! One thing that was asked for, as a source of keys tells it.

use crate::pool::plan::Literal;
use crate::template::{Facts, Key, Keyed, Need};

/// A key or a request, and how often it was asked for.
pub(super) struct Asked<'a> {
    pub(super) what: What<'a>,
    pub(super) requests: u64,
}

/// What is known of it.
pub(super) enum What<'a> {
    /// What was hashed, and nothing else; in this pool, or in all.
    Key(Literal<'a>, Option<&'a str>),
    /// The request.
    Request(Seen<'a>),
}

/// A request as it was seen.
pub(super) struct Seen<'a> {
    pub(super) facts: Facts<'a>,
    /// What of it is known beside host, path and arguments.
    pub(super) knows: &'a dyn Fn(Need<'_>) -> bool,
    /// The pool it went to, when that was written down.
    pub(super) pool: Option<&'a str>,
    /// What was hashed, when that was written down.
    pub(super) key: Option<Literal<'a>>,
}

/// What is done with everything a source tells.
pub(super) type Take<'t> = dyn FnMut(&Asked<'_>) + 't;

impl<'a> Asked<'a> {
    /// One request for this key.
    pub(super) fn key(key: &'a [u8]) -> Self {
        Self { what: What::Key(Literal::Key(key), None), requests: 1 }
    }

    /// This request, once.
    pub(super) fn request(seen: Seen<'a>) -> Self {
        Self { what: What::Request(seen), requests: 1 }
    }
}

impl Seen<'_> {
    /// Appends the key this request has by `key`; `None` when that needs what the source does not tell.
    pub(super) fn make(&self, key: &Key, out: &mut Vec<u8>) -> Option<Keyed> {
        key.render_known(&self.facts, self.knows, out)
    }
}
