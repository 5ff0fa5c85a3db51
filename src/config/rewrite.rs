//! Which path does an origin get, and what becomes of the places that it names?

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::http_words::Path;
use super::matching::PathMatch;
use super::report::{Complaint, Invalid, Severity};
use super::route::Route;
use super::written::choices;

/// The `rewrite` section of a route: the path an origin gets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rewrite {
    /// Taken off the front, by whole segments, where it stands there; a trailing slash is ignored.
    #[serde(deserialize_with = "path", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Path")]
    pub strip_prefix: Option<String>,
    /// Then put in front; a trailing slash is ignored.
    #[serde(deserialize_with = "path", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Path")]
    pub add_prefix: Option<String>,
}

fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Path::deserialize(deserializer).map(|Path(path)| Some(path))
}

/// `redirects`: the places an origin names in Location, Content-Location and Refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redirects {
    /// As they came.
    #[default]
    Keep,
    /// Turned into addresses that the client can reach.
    Rewrite,
}

choices!(Redirects { Keep = "keep", Rewrite = "rewrite" });

/// What is to be said of the rewrites of `route`, at `path`.
pub(super) fn check(path: &str, route: &Route) -> Vec<(Severity, Complaint)> {
    let mut said = Vec::new();
    let rewrite = [("strip_prefix", &route.rewrite.strip_prefix), ("add_prefix", &route.rewrite.add_prefix)];
    for (key, prefix) in rewrite.into_iter().filter_map(|(key, prefix)| Some((key, prefix.as_deref()?))) {
        if prefix.contains('?') {
            let found = format!("found {prefix:?}");
            said.push((
                Severity::Error,
                Invalid::new(found, "expected a path alone").at(format!("{path}.rewrite.{key}")),
            ));
        }
    }
    let strip = route.rewrite.strip_prefix.as_deref().map(|prefix| prefix.trim_end_matches('/'));
    if let Some(strip) = strip.filter(|strip| !is_implied(strip, route)) {
        let found = format!("\"match\" takes requests without {strip:?}, whose path stays as it is");
        let meant = "let \"match.path\" begin with it";
        said.push((Severity::Warning, Invalid::new(found, meant).at(format!("{path}.rewrite.strip_prefix"))));
    }
    said
}

/// Does each path that the route takes begin with the prefix?
fn is_implied(strip: &str, route: &Route) -> bool {
    let begins = |path: &str| path.strip_prefix(strip).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    match &route.matches.path {
        None => strip.is_empty(),
        Some(PathMatch::Exact(path) | PathMatch::Prefix(path)) => begins(path),
        // As far as a text tells: what stands behind the prefix begins with a slash, or nothing does.
        Some(PathMatch::Regex(regex)) => begins(regex),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, with_pool};

    fn route(keys: &str) -> Vec<String> {
        said(&format!(
            "{}routes: [ {{ pool: origin, {keys} }} ]\n",
            with_pool("health: { probe: off }\n    origins: [a]")
        ))
    }

    #[test]
    fn a_prefix_that_requests_need_not_have_is_warned_of() {
        for path in ["prefix: /api", "prefix: /api/", "prefix: /api/v1", "exact: /api", "regex: '/api/.*'"] {
            assert_eq!(route(&format!("match: {{ path: {{ {path} }} }}, rewrite: {{ strip_prefix: /api/ }}")), [""; 0]);
        }
        for path in ["match: { path: { prefix: /apis } }", "match: { path: { prefix: / } }", "retry: {}"] {
            let said = route(&format!("{path}, rewrite: {{ strip_prefix: /api }}"));
            assert!(said.len() == 1 && said[0].contains("without \"/api\""), "{said:?}");
        }
        assert_eq!(route("rewrite: { add_prefix: /v2 }"), [""; 0]);
    }

    #[test]
    fn a_prefix_is_a_path_alone() {
        for prefix in ["v2", "'/v2?x'", "'/a b'"] {
            let said = route(&format!("rewrite: {{ add_prefix: {prefix} }}"));
            assert!(said.len() == 1 && said[0].contains("expected a path"), "{said:?}");
        }
        assert!(route("redirects: rewrit")[0].ends_with("did you mean \"rewrite\"?"));
    }
}
