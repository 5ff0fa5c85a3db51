//! In which header do origins say whether they had an answer?

use http::HeaderName;
use schemars::{Schema, json_schema};

use super::written::{Written, written};

/// The name of that header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheHeader(pub HeaderName);

written!(CacheHeader);

impl Written for CacheHeader {
    const EXPECTED: &'static str = "the name of a header, such as x-cache or cache-status";

    fn parse(text: &str) -> Option<Self> {
        HeaderName::parse(text).map(Self)
    }

    fn print(&self) -> String {
        self.0.print()
    }

    fn schema() -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "examples": ["x-cache", "cache-status"] })
    }
}
