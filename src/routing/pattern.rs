//! What does a route say about host and path?
//!
//! Patterns are kept as the request will be: paths normalised with runs of `/` merged, prefixes without a trailing
//! slash, so that equal patterns are equal texts.

use regex::Regex;
use regex_syntax::hir::literal::Extractor;

use crate::config::Invalid;
use crate::config::route::PathMatch;
use crate::template;

/// A pattern for the host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Host {
    /// Any, also none at all.
    Any,
    /// Any below this domain, at any depth, but not the domain itself.
    Below(String),
    /// This one.
    Exact(String),
}

/// A pattern for the path.
#[derive(Debug, Clone)]
pub(super) enum Path {
    /// Any.
    Any,
    /// The whole path.
    Regex {
        /// Anchored at both ends.
        regex: Regex,
        /// What every path it matches begins with.
        start: String,
    },
    /// This path and all below it, by whole segments; `/` is the empty text.
    Prefix(String),
    /// This one.
    Exact(String),
}

impl Host {
    /// An entry of `hosts`, which the configuration holds in lower case and without a trailing dot.
    pub(super) fn of(written: &str) -> Self {
        match written.strip_prefix("*.") {
            Some(domain) => Self::Below(domain.to_owned()),
            None => Self::Exact(written.to_owned()),
        }
    }
}

impl Path {
    /// The `path` of a match; a mistake comes with the key it is at.
    pub(super) fn parse(written: Option<&PathMatch>) -> Result<Self, (&'static str, Invalid)> {
        match written {
            None => Ok(Self::Any),
            Some(PathMatch::Exact(path)) => normal(path).map(Self::Exact).map_err(|why| ("exact", why)),
            Some(PathMatch::Prefix(path)) => match normal(path) {
                Ok(path) => Ok(Self::Prefix(path.trim_end_matches('/').to_owned())),
                Err(why) => Err(("prefix", why)),
            },
            Some(PathMatch::Regex(text)) => whole_path(text).map_err(|why| ("regex", why)),
        }
    }
}

/// The pattern as a request's path will be spelt.
fn normal(written: &str) -> Result<String, Invalid> {
    let refused = |meant: String| Invalid::new(format!("{written:?}"), meant);
    if written.contains('?') {
        return Err(refused("a path has no `?`; arguments are matched by `query`".to_owned()));
    }
    let merged = template::path::merged(written.as_bytes()).map_err(|error| refused(error.to_string()))?;
    Ok(merged.path.into_owned())
}

/// A regex that has to match the whole path.
fn whole_path(text: &str) -> Result<Path, Invalid> {
    let refused = |error: &dyn std::error::Error| Invalid::new(format!("{text:?}"), said(error));
    // On its own first: a text such as `a)(b` would be whole only inside our group.
    let parsed = regex_syntax::parse(text).map_err(|error| refused(&error))?;
    let regex = Regex::new(&format!(r"\A(?:{text})\z")).map_err(|error| refused(&error))?;
    let literals = Extractor::new().extract(&parsed);
    let start = literals.longest_common_prefix().and_then(|start| str::from_utf8(start).ok());
    Ok(Path::Regex { regex, start: start.unwrap_or_default().to_owned() })
}

/// The last line of a regex error says it; those before draw the pattern over several lines.
fn said(error: &dyn std::error::Error) -> String {
    let whole = error.to_string();
    let last = whole.lines().last().unwrap_or_default();
    format!("not a regex: {}", last.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(written: &PathMatch) -> Result<Path, (&'static str, Invalid)> {
        Path::parse(Some(written))
    }

    #[test]
    fn a_path_is_kept_as_requests_are_matched() {
        let exact = |text: &str| match path(&PathMatch::Exact(text.to_owned())) {
            Ok(Path::Exact(path)) => path,
            other => panic!("{other:?}"),
        };
        assert_eq!(exact("/a//b/./c/"), "/a/b/c/");
        assert_eq!(exact("/%7euser/caf\u{e9}"), "/~user/caf%C3%A9");
        let prefix = |text: &str| match path(&PathMatch::Prefix(text.to_owned())) {
            Ok(Path::Prefix(path)) => path,
            other => panic!("{other:?}"),
        };
        assert_eq!(prefix("/api/"), "/api");
        assert_eq!(prefix("/"), "");
    }

    #[test]
    fn a_regex_matches_the_whole_path() {
        let matches = |text: &str, it: &str| match path(&PathMatch::Regex(text.to_owned())) {
            Ok(Path::Regex { regex, .. }) => regex.is_match(it),
            other => panic!("{other:?}"),
        };
        assert!(matches("/tran/[a-z]+", "/tran/x"));
        assert!(!matches("/tran/[a-z]+", "/tran/x/1"));
        assert!(!matches("/tran", "/a/tran"));
        assert!(matches("/a|/ab", "/ab") && !matches("/a|/b", "/bc"));
        assert!(!matches("(?m)^/a$", "/a\n/b"));
    }

    #[test]
    fn a_regex_says_what_its_paths_begin_with() {
        let check = |text: &str, expected: &str| match path(&PathMatch::Regex(text.to_owned())) {
            Ok(Path::Regex { start, .. }) => assert_eq!(start, expected, "{text}"),
            other => panic!("{other:?}"),
        };
        check("/tran/[a-z-]+/.*", "/tran/");
        check(r"/v1\.2/x?", "/v1.2/");
        check("/a/(x|y)", "/a/");
        check("/ab|/ac", "/a");
        check("(?i)/a", "/");
        check("/ab*", "/a");
        check(".*/x", "");
        check("", "");
        check("[a&&b]", "");
    }

    #[test]
    fn what_cannot_be_a_path_is_refused_at_its_key() {
        let refused = |written: PathMatch, expected: &str| {
            let (key, why) = path(&written).unwrap_err();
            assert_eq!(format!("{key}: {why}"), expected);
        };
        let text = |text: &str| text.to_owned();
        let query = r#"prefix: "/a?b=1", a path has no `?`; arguments are matched by `query`"#;
        refused(PathMatch::Prefix(text("/a?b=1")), query);
        refused(PathMatch::Exact(text("/../a")), r#"exact: "/../a", the path climbs above the root"#);
        refused(PathMatch::Regex(text("/a(")), r#"regex: "/a(", not a regex: unclosed group"#);
        refused(PathMatch::Regex(text("/a)(b")), r#"regex: "/a)(b", not a regex: unopened group"#);
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            _ = Path::parse(Some(&PathMatch::Exact(text.clone())));
            _ = Path::parse(Some(&PathMatch::Prefix(text.clone())));
            _ = Path::parse(Some(&PathMatch::Regex(text)));
        }
    }
}
