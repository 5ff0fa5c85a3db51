//! Which path does an origin get, where a route strips a prefix or adds one?
//!
//! The route was found by what the path means ([`path::merged`]), but what is cut off are bytes the client sent, and all
//! behind them goes on as it came. So the prefix ends where the bytes before mean the prefix, and those behind mean the
//! rest. A path of which no place is that one is refused: the wrong path would reach what no route was written for.
//! Always: what goes out begins with a slash.

use smallvec::SmallVec;

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
        match behind(&whole, &self.strip) {
            None => Ok(0),
            Some(_) if path == whole.as_bytes() => Ok(self.strip.len()),
            Some(_) => arrival(path, &self.strip).ok_or(Denial::Prefix),
        }
    }

    /// What a client has to ask for to get `path` of the origin; `None`: it cannot.
    pub fn undone(&self, path: &str) -> Option<String> {
        let behind = behind(path, &self.add)?;
        let slash = if self.strip.is_empty() && behind.is_empty() { "/" } else { "" };
        Some(format!("{}{behind}{slash}", self.strip))
    }
}

/// Where a path that is not normal comes to `prefix` and does not climb out of it again: one walk over its segments, so
/// that a long one costs no more than to read it.
fn arrival(path: &[u8], prefix: &str) -> Option<usize> {
    let wanted: SmallVec<[&str; 8]> = prefix.split('/').skip(1).collect();
    // How deep the walk is, how many of its outermost segments are those of the prefix, and where it came to all of them.
    let (mut depth, mut common, mut arrived, mut end) = (0, 0, None, 0);
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        end += 1 + segment.len();
        match &*path::normalise(segment).ok()? {
            "" | "." => {}
            ".." => {
                depth = usize::checked_sub(depth, 1)?;
                common = common.min(depth);
                arrived = arrived.filter(|_| depth >= wanted.len());
            }
            name => {
                common += usize::from(common == depth && wanted.get(depth) == Some(&name));
                depth += 1;
                arrived = arrived.or((depth == wanted.len() && common == depth).then_some(end));
            }
        }
    }
    arrived
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
    fn a_path_without_a_meaning_is_refused() {
        for target in ["/..", "/api/../..", "/a%00", "/api//../x"] {
            assert_eq!(sent("/api", "", target), Err(Denial::Prefix), "{target}");
        }
        assert_eq!(sent("/api", "", "/api/x/../../api/../api/..").as_deref(), Ok("/api/x/../../api/../api/.."));
    }

    #[test]
    fn a_prefix_is_found_however_long_the_way_to_it() {
        for way in ["/./x/..", "/api/..", "/api/./..", "//x/.."] {
            let way = way.repeat(1000);
            assert_eq!(sent("/api", "", &format!("{way}/api/y")).as_deref(), Ok("/y"), "{way}");
        }
        let rest = "/x/./..".repeat(1000);
        assert_eq!(sent("/api/v1", "/v2", &format!("/%61pi/v1{rest}")), Ok(format!("/v2{rest}")));
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

    const PREFIXES: [(&str, &str); 6] =
        [("/a", ""), ("/a/b", ""), ("", "/v2"), ("/a", "/v2"), ("/a/b", "/a"), ("/b/a/b", "/")];

    fn targets() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec!["/", ".", "..", "%2e", "%61", "a", "b", "/a", "/b", "/..", "/a/b", "?"]);
        proptest::collection::vec(piece, 0..16).prop_map(|pieces| format!("/{}", pieces.concat()))
    }

    fn meaning(path: &str) -> Option<String> {
        path::merged(path.as_bytes()).ok().map(|merged| merged.path.into_owned())
    }

    /// How many bytes `strip` takes, by looking at every end of a segment.
    fn taken(path: &str, strip: &str, behind: &str) -> Option<usize> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1).chain([path.len()]);
        ends.into_iter().find(|end| {
            let (before, rest) = path.split_at(*end);
            let means_rest = if rest.is_empty() { behind.is_empty() } else { meaning(rest).as_deref() == Some(behind) };
            meaning(before).as_deref() == Some(strip) && means_rest
        })
    }

    proptest! {
        #[test]
        fn what_goes_out_is_what_stands_behind_the_prefix(target in targets()) {
            let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
            for (strip, add) in PREFIXES {
                let rewrite = tests::rewrite(strip, add);
                let Some(meant) = meaning(path) else {
                    prop_assert!(strip.is_empty() || rewrite.target(target.as_bytes()) == Err(Denial::Prefix), "{target}");
                    continue;
                };
                let end = match behind(&meant, strip) {
                    Some(behind) if !strip.is_empty() => taken(path, strip, behind).unwrap(),
                    _ => 0,
                };
                let out = rewrite.target(target.as_bytes()).map(|out| String::from_utf8(out).unwrap());
                let path = format!("{}{}", add.trim_end_matches('/'), &path[end..]);
                let slash = if path.is_empty() { "/" } else { "" };
                prop_assert_eq!(out, Ok(format!("{path}{slash}{query}")), "{} for {}", strip, target);
            }
        }
    }
}
