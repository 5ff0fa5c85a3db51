//! Which path does an origin get, where a route strips a prefix or adds one?
//!
//! The route was found by what the path means ([`path::merged`]), but what is cut off are bytes the client sent, and all
//! behind them goes on as it came. So the prefix ends where the bytes before mean the prefix, and those behind mean the
//! rest. A path of which no place is that one is refused: the wrong path would reach what no route was written for.
//! Always: what goes out begins with a slash.

use super::Denial;
use crate::config::route;
use crate::config::{Complaint, Invalid};
use crate::template::path;

/// The compiled `rewrite` section of a route. Both prefixes end without a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// Normalised.
    strip: Box<str>,
    add: Box<str>,
}

/// Ends of segments that are looked at in a path that is not normal: each costs a look at all before it.
const ENDS: usize = 64;

impl Rewrite {
    /// Compiles what was written; `None`: every path stays. Paths of complaints begin at the section.
    ///
    /// # Errors
    /// A prefix is no path that a route could match.
    pub fn compile(written: &route::Rewrite) -> Result<Option<Self>, Complaint> {
        let strip = written.strip_prefix.as_deref().unwrap_or_default();
        let add = written.add_prefix.as_deref().unwrap_or_default();
        let means = |prefix: &str, key: &str| match path::merged(prefix.as_bytes()) {
            Ok(merged) => Ok(merged.path.trim_end_matches('/').into()),
            Err(why) => Err(Invalid::new(format!("found {prefix:?}: {why}"), "expected a path without it").at(key)),
        };
        means(add, "add_prefix").map(|_: Box<str>| ())?;
        let rewrite = Self { strip: means(strip, "strip_prefix")?, add: add.trim_end_matches('/').into() };
        Ok((!rewrite.strip.is_empty() || !rewrite.add.is_empty()).then_some(rewrite))
    }

    /// The target an origin gets for `target`, which is in origin form.
    ///
    /// # Errors
    /// [`Denial::Prefix`]: where the prefix ends cannot be told.
    pub fn target(&self, target: &[u8]) -> Result<Vec<u8>, Denial> {
        if target.first() != Some(&b'/') {
            // `OPTIONS *` is for the whole server.
            return Ok(target.to_vec());
        }
        let end = memchr::memchr(b'?', target).unwrap_or(target.len());
        let (path, query) = target.split_at(end);
        let rest = path.get(self.end_of_prefix(path)?..).unwrap_or_default();
        let mut out = Vec::with_capacity(self.add.len() + rest.len() + query.len() + 1);
        out.extend_from_slice(self.add.as_bytes());
        out.extend_from_slice(rest);
        if out.first() != Some(&b'/') {
            out.insert(0, b'/');
        }
        out.extend_from_slice(query);
        Ok(out)
    }

    /// How many bytes of `path` the prefix takes; none, if it does not stand there.
    fn end_of_prefix(&self, path: &[u8]) -> Result<usize, Denial> {
        if self.strip.is_empty() {
            return Ok(0);
        }
        let whole = path::merged(path).map_err(|_| Denial::Prefix)?.path;
        let Some(behind) = behind(&whole, &self.strip) else { return Ok(0) };
        if path == whole.as_bytes() {
            return Ok(self.strip.len());
        }
        let slashes = memchr::memchr_iter(b'/', path).filter(|at| *at > 0);
        let fits = |end: &usize| {
            let (before, rest) = path.split_at(*end);
            let means = |bytes, meaning: &str| path::merged(bytes).is_ok_and(|merged| merged.path == meaning);
            means(before, &self.strip) && (rest.is_empty() && behind.is_empty() || means(rest, behind))
        };
        slashes.take(ENDS).chain([path.len()]).find(fits).ok_or(Denial::Prefix)
    }

    /// What a client has to ask for to get `path` of the origin; `None`: it cannot.
    pub fn undone(&self, path: &str) -> Option<String> {
        let behind = behind(path, &self.add)?;
        let slash = if self.strip.is_empty() && behind.is_empty() { "/" } else { "" };
        Some(format!("{}{behind}{slash}", self.strip))
    }
}

/// What stands behind `prefix`, by whole segments.
fn behind<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    path.strip_prefix(prefix).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn rewrite(strip: &str, add: &str) -> Rewrite {
        let some = |path: &str| (!path.is_empty()).then(|| path.to_owned());
        Rewrite::compile(&route::Rewrite { strip_prefix: some(strip), add_prefix: some(add) }).unwrap().unwrap()
    }

    fn sent(strip: &str, add: &str, target: &str) -> Result<String, Denial> {
        rewrite(strip, add).target(target.as_bytes()).map(|target| String::from_utf8(target).unwrap())
    }

    #[test]
    fn a_prefix_goes_by_whole_segments_and_the_rest_goes_on_byte_for_byte() {
        for (target, expected) in [
            ("/api", "/"),
            ("/api?x", "/?x"),
            ("/api/", "/"),
            ("/api/a%2db/./c//d?e=/api", "/a%2db/./c//d?e=/api"),
            ("//api/x", "/x"),
            ("/%61pi/x%61", "/x%61"),
            ("/ap%69", "/"),
            ("/./api/x", "/x"),
            ("/x/../api/y", "/y"),
            ("/api/../api/y", "/y"),
            ("/api/x/../y", "/x/../y"),
            ("/api/.", "/."),
            ("/api//x", "//x"),
            ("/apis/x", "/apis/x"),
            ("/other", "/other"),
            ("/api/../other", "/api/../other"),
            ("*", "*"),
        ] {
            assert_eq!(sent("/api/", "", target).as_deref(), Ok(expected), "{target}");
        }
        for (target, expected) in
            [("/api", "/v2"), ("/api/", "/v2/"), ("/api/x?y", "/v2/x?y"), ("/api?y", "/v2?y"), ("/x", "/v2/x")]
        {
            assert_eq!(sent("/api", "/v2/", target).as_deref(), Ok(expected), "{target}");
        }
        for target in ["/", "/caf%c3%a9", "/é", "/%7Eann", "/a//b", "/a/./b", "/100%", "//a?b"] {
            assert_eq!(sent("", "/v2", target), Ok(format!("/v2{target}")), "{target}");
        }
        assert_eq!(sent("/a/b", "", "/a/b/../b//c").as_deref(), Ok("//c"));
        assert_eq!(sent("/é", "", "/%c3%a9/x").as_deref(), Ok("/x"));
    }

    #[test]
    fn a_path_whose_prefix_has_no_end_is_refused() {
        let deep = format!("/x{}/api", "/..//x".repeat(ENDS));
        for target in ["/api/x/../../api/../api/..", "/..", "/a%00", &deep] {
            let sent = sent("/api", "", target);
            assert!(sent == Err(Denial::Prefix) || sent == Ok(target.to_owned()), "{target}: {sent:?}");
        }
        assert_eq!(sent("/api", "", &format!("/x{}/../api/y", "/./x/..".repeat(ENDS))), Err(Denial::Prefix));
    }

    #[test]
    fn what_an_origin_names_is_found_by_what_it_gets() {
        let undone = |strip, add, path| rewrite(strip, add).undone(path);
        assert_eq!(undone("/api", "", "/login").as_deref(), Some("/api/login"));
        assert_eq!(undone("/api", "", "/").as_deref(), Some("/api/"));
        assert_eq!(undone("/api", "/v2", "/v2").as_deref(), Some("/api"));
        assert_eq!(undone("/api", "/v2", "/v2/x").as_deref(), Some("/api/x"));
        assert_eq!(undone("/api", "/v2", "/v22/x"), None);
        assert_eq!(undone("", "/v2", "/v2").as_deref(), Some("/"));
    }

    #[test]
    fn nothing_to_do_is_nothing() {
        let compile = |strip: &str, add: &str| {
            Rewrite::compile(&route::Rewrite { strip_prefix: Some(strip.into()), add_prefix: Some(add.into()) })
        };
        assert_eq!(compile("/", "/"), Ok(None));
        assert_eq!(compile("/a/../..", "/").unwrap_err().path, "strip_prefix");
        assert_eq!(compile("/", "/..").unwrap_err().path, "add_prefix");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    fn targets() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec!["/", ".", "..", "%2e", "%61", "a", "b", "/a", "/b", "?"]);
        proptest::collection::vec(piece, 0..16).prop_map(|pieces| format!("/{}", pieces.concat()))
    }

    proptest! {
        #[test]
        fn what_goes_out_means_what_stands_behind_the_prefix(target in targets()) {
            let path = target.split('?').next().unwrap();
            let Ok(meant) = path::merged(path.as_bytes()).map(|merged| merged.path.into_owned()) else { return Ok(()) };
            for strip in ["/a", "/a/b"] {
                let Ok(out) = tests::rewrite(strip, "").target(target.as_bytes()) else { continue };
                let out = String::from_utf8(out).unwrap();
                prop_assert!(out.starts_with('/'));
                let rest = out.split('?').next().unwrap();
                prop_assert!(target.ends_with(rest.strip_prefix('/').unwrap_or(rest)) || target.contains(&format!("{rest}?")) || rest == "/", "{target} {out}");
                let got = path::merged(rest.as_bytes()).unwrap().path.into_owned();
                match behind(&meant, strip) {
                    Some("") => prop_assert_eq!(got, "/"),
                    Some(behind) => prop_assert_eq!(got, behind),
                    None => prop_assert_eq!(got, meant.clone()),
                }
            }
        }
    }
}
