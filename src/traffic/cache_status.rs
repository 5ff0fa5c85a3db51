//! Did an origin have the answer in its cache? What it says of that itself, in a header the pool names.
//!
//! `Cache-Status` is read as RFC 9211 has it; every other header by the words caches have in common: `HIT`, `TCP_MISS`,
//! `Hit from cloudfront`, `MISS, HIT`, nginx's `EXPIRED` and `STALE`. An answer that passed several caches was a hit if
//! one of them had it: whatever is behind that one was not asked.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::config::pool::CacheHeader;
use crate::config::units::Off;

/// Where to look.
#[derive(Debug, Clone)]
pub struct CacheStatus {
    header: HeaderName,
    is_standard: bool,
}

/// What an origin said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cached {
    /// It had it.
    Hit,
    /// It had to fetch it.
    Miss,
    /// It did not look, or says something of its own.
    Other,
}

impl CacheStatus {
    /// Compiles what was written; `None`: nobody looks.
    pub fn compile(written: &Off<CacheHeader>) -> Option<Self> {
        let CacheHeader(header) = written.on()?;
        Some(Self { header: header.clone(), is_standard: header.as_str() == "cache-status" })
    }

    /// What an answer says; `None`: nothing.
    pub fn read(&self, headers: &HeaderMap) -> Option<Cached> {
        let lines = headers.get_all(&self.header).into_iter().map(HeaderValue::as_bytes);
        let caches = lines.flat_map(|line| line.split(|byte| *byte == b','));
        caches.map(|cache| if self.is_standard { standard(cache) } else { word(cache) }).reduce(Cached::or)
    }
}

impl Cached {
    /// The word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Other => "other",
        }
    }

    /// Of two caches on the way.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Hit, _) | (_, Self::Hit) => Self::Hit,
            (Self::Miss, _) | (_, Self::Miss) => Self::Miss,
            (Self::Other, Self::Other) => Self::Other,
        }
    }
}

/// `ExampleCache; hit; ttl=376`, or `fwd` with the reason why it was forwarded.
fn standard(cache: &[u8]) -> Cached {
    let parameters = cache.split(|byte| *byte == b';').skip(1).map(<[u8]>::trim_ascii);
    let said = parameters.filter_map(|parameter| match parameter {
        b"hit" | b"hit=?1" => Some(Cached::Hit),
        // It did not look, or may not answer from what it has.
        b"fwd=bypass" | b"fwd=method" | b"fwd=request" => Some(Cached::Other),
        _ => parameter.starts_with(b"fwd=").then_some(Cached::Miss),
    });
    said.reduce(Cached::or).unwrap_or(Cached::Other)
}

/// The words of one cache: letters and digits, apart from everything else.
fn word(cache: &[u8]) -> Cached {
    let words = cache.split(|byte| !byte.is_ascii_alphanumeric());
    let said = words.map(|word| match word.to_ascii_lowercase().as_slice() {
        // Old as it may be, nobody was asked.
        b"hit" | b"stale" | b"updating" => Cached::Hit,
        b"miss" | b"expired" => Cached::Miss,
        _ => Cached::Other,
    });
    said.reduce(Cached::or).unwrap_or(Cached::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str, lines: &[&str]) -> Option<&'static str> {
        let written = Off::On(CacheHeader(header.parse().unwrap()));
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header.parse::<HeaderName>().unwrap(), line.parse().unwrap());
        }
        CacheStatus::compile(&written).unwrap().read(&headers).map(Cached::as_str)
    }

    #[test]
    fn the_words_caches_use_are_understood() {
        for (line, expected) in [
            ("HIT", "hit"),
            ("miss", "miss"),
            ("TCP_HIT", "hit"),
            ("TCP_MEM_HIT from a.example", "hit"),
            ("Miss from cloudfront", "miss"),
            ("MISS, HIT", "hit"),
            ("EXPIRED", "miss"),
            ("STALE", "hit"),
            ("BYPASS", "other"),
            ("", "other"),
            ("hitting", "other"),
        ] {
            assert_eq!(read("x-cache", &[line]), Some(expected), "{line}");
        }
        assert_eq!(read("x-cache", &["MISS", "HIT"]), Some("hit"), "two lines");
        assert_eq!(read("x-cache", &[]), None);
    }

    #[test]
    fn cache_status_is_read_as_the_standard_has_it() {
        for (line, expected) in [
            ("ExampleCache; hit", "hit"),
            ("ExampleCache; hit; ttl=376", "hit"),
            ("ExampleCache; fwd=uri-miss; stored", "miss"),
            ("ExampleCache; fwd=stale; fwd-status=304", "miss"),
            ("ExampleCache; fwd=bypass", "other"),
            ("Origin; fwd=miss, Edge; hit", "hit"),
            ("hit", "other"),
            ("hit; detail=\"x\"", "other"),
        ] {
            assert_eq!(read("cache-status", &[line]), Some(expected), "{line}");
        }
    }

    #[test]
    fn nobody_looks_unless_a_header_is_named() {
        assert!(CacheStatus::compile(&Off::Off).is_none());
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_header_is_too_strange(line in proptest::collection::vec(0x20_u8..0xff, 0..60), standard in any::<bool>()) {
            let header = HeaderName::from_static(if standard { "cache-status" } else { "x-cache" });
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&line) {
                headers.insert(header.clone(), value);
                let read = CacheStatus { header, is_standard: standard }.read(&headers);
                prop_assert!(read.is_some());
            }
        }
    }
}
