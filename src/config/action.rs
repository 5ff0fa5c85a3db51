//! What does a route do with its requests, if not send them to one pool? It answers, or it sends the client elsewhere.

use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::number::within;
use super::place::{Places, meant, one_of};
use super::report::{Complaint, Invalid, Severity};
use super::route::Route;
use super::split::Split;
use super::units::Off;
use super::written::{Written, written};

/// The `respond` section of a route: an answer of the gateway's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Respond {
    /// Its status, from 200 on.
    #[serde(deserialize_with = "within::<_, _, 200, 599>")]
    #[schemars(range(min = 200, max = 599))]
    pub status: u16,
    /// Its body, a template. A `204`, `205` or `304` has none.
    pub body: String,
    /// In place of both: 200 while the process is ready, 503 while it is not, as the admin address's `/readyz` has it.
    pub ready: bool,
    /// Whether such a request has a line in the access log; it counts in the metrics in any case.
    pub log: bool,
}

impl Default for Respond {
    fn default() -> Self {
        Self { status: 200, body: String::new(), ready: false, log: true }
    }
}

/// The `redirect` section of a route: the client is sent elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// 301 or 308 for good, 302 or 307 for now, 303 to ask with GET; a client keeps its method with 307 and 308.
    #[serde(default)]
    pub status: RedirectStatus,
    /// Where to, a template: `http://` or `https://` and a host, or a path of the same host.
    pub to: String,
}

/// A status that sends a client elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedirectStatus(pub u16);

impl Default for RedirectStatus {
    fn default() -> Self {
        Self(301)
    }
}

impl Written for RedirectStatus {
    const EXPECTED: &'static str = "301, 302, 303, 307 or 308";

    fn parse(text: &str) -> Option<Self> {
        ["301", "302", "303", "307", "308"].contains(&text).then(|| text.parse().ok().map(Self))?
    }

    fn print(&self) -> String {
        self.0.to_string()
    }

    fn schema() -> Schema {
        json_schema!({ "enum": [301, 302, 303, 307, 308, "301", "302", "303", "307", "308"] })
    }
}

written!(RedirectStatus);

pub(super) fn respond<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Respond>, D::Error> {
    Off::deserialize(deserializer).map(some)
}

pub(super) fn split<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Split>, D::Error> {
    Off::deserialize(deserializer).map(some)
}

pub(super) fn redirect<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Redirect>, D::Error> {
    Off::deserialize(deserializer).map(some)
}

fn some<T>(written: Off<T>) -> Option<T> {
    match written {
        Off::Off => None,
        Off::On(value) => Some(value),
    }
}

/// What a route can do, of which it does one.
const ACTIONS: [&str; 4] = ["pool", "split", "redirect", "respond"];

/// One of them is written.
pub(super) fn schema() -> Value {
    ACTIONS.into_iter().map(|key| json!({ "required": [key] })).collect()
}

/// What is wrong with what `route`, at `path`, does.
pub(super) fn check(path: &str, route: &Route, places: &Places) -> Vec<(Severity, Complaint)> {
    let mut said = Vec::new();
    let mut error = |at: String, found: String, meant: String| {
        said.push((Severity::Error, Invalid::new(found, meant).at(at)));
    };
    let at = |key: &str| format!("{path}.{key}");
    // The pools that are wrong by themselves are known all the same.
    let known = || places.keys("pools");
    let chosen = chosen(route);
    match *chosen {
        [] if !ACTIONS.iter().any(|key| places.is_spoiled(&at(key))) => {
            let meant = format!("expected a pool: {}; or split, redirect or respond", one_of(known()));
            error(at("pool"), "missing".to_owned(), meant);
        }
        [first, second, ..] => {
            error(at(second), format!("found beside \"{first}\""), format!("expected one of {}", one_of(ACTIONS)));
        }
        _ => {}
    }
    if !route.pool.is_empty() && !places.has_key("pools", &route.pool) {
        error(at("pool"), format!("unknown pool \"{}\"", route.pool), meant(&route.pool, known()));
    }
    if let Some(respond) = &route.respond {
        let at = |key: &str| format!("{path}.respond.{key}");
        let other = [("status", respond.status != Respond::default().status), ("body", !respond.body.is_empty())];
        if let (true, Some((key, _))) = (respond.ready, other.iter().find(|(_, is_written)| *is_written)) {
            error(at(key), "found beside \"ready: true\"".to_owned(), "readiness has a status and a body".to_owned());
        }
        if matches!(respond.status, 204 | 205 | 304) && !respond.body.is_empty() {
            error(at("body"), format!("found a body of status {}", respond.status), "expected none".to_owned());
        }
    }
    said
}

/// What it does, by the names of the keys.
fn chosen(route: &Route) -> Vec<&'static str> {
    let is_chosen = |key: &&&str| match **key {
        "pool" => !route.pool.is_empty(),
        "split" => route.split.is_some(),
        "redirect" => route.redirect.is_some(),
        "respond" => route.respond.is_some(),
        _ => false,
    };
    ACTIONS.iter().filter(is_chosen).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, with_pool};

    fn route(keys: &str) -> Vec<String> {
        let said =
            said(&format!("{}routes: [ {{ {keys} }} ]\n", with_pool("health: { probe: off }\n    origins: [a]")));
        said.into_iter()
            .map(|line| line.split_once("routes[0].").map_or(line.clone(), |(_, said)| said.to_owned()))
            .collect()
    }

    #[test]
    fn a_route_does_one_thing() {
        for keys in ["pool: origin", "respond: {}", "redirect: { to: / }", "pool: origin, respond: off, redirect: off"]
        {
            assert_eq!(route(keys), [""; 0], "{keys}");
        }
        assert_eq!(route(""), ["pool: missing, expected a pool: origin; or split, redirect or respond"]);
        assert_eq!(route("respond: off"), ["pool: missing, expected a pool: origin; or split, redirect or respond"]);
        let beside =
            |first: &str| format!("found beside \"{first}\", expected one of pool, split, redirect or respond");
        assert_eq!(route("respond: {}, pool: origin"), [format!("respond: {}", beside("pool"))]);
        assert_eq!(route("respond: {}, redirect: { to: / }"), [format!("respond: {}", beside("redirect"))]);
        assert_eq!(route("respond: { status: 99 }").len(), 1, "nothing follows from what could not be read");
    }

    #[test]
    fn an_answer_says_nothing_twice() {
        let ready = "found beside \"ready: true\", readiness has a status and a body";
        assert_eq!(route("respond: { ready: true, body: x }"), [format!("respond.body: {ready}")]);
        assert_eq!(route("respond: { ready: true, status: 204 }"), [format!("respond.status: {ready}")]);
        assert_eq!(route("respond: { ready: true, log: false }"), [""; 0]);
        assert_eq!(
            route("respond: { status: 304, body: x }"),
            ["respond.body: found a body of status 304, expected none"]
        );
        assert_eq!(route("respond: { status: 204 }"), [""; 0]);
    }

    #[test]
    fn a_redirect_has_a_status_that_redirects_and_a_place() {
        assert_eq!(
            route("redirect: { status: 300, to: / }"),
            ["redirect.status: found \"300\", expected 301, 302, 303, 307 or 308"]
        );
        assert_eq!(route("redirect: { status: 301 }"), ["redirect.to: missing, it has no default"]);
    }
}
