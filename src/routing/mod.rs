//! Which route does this request belong to? The most specific one, whatever the order in the file.
//!
//! Host exact, then the longest wildcard, then none; within that path exact, then the longest prefix (by segments),
//! then regex (the longer text, then the smaller), then none; then a method given, most headers, most cookies, most
//! arguments, a scheme given, a listener given. Two routes that are equal in all of this and can both match are refused when compiled, so that nothing
//! hangs on chance. [`Table::find`] allocates nothing, and takes time by the depth of host and path, not by the
//! number of routes; of regexes it tries those whose first letters are the path's.

mod condition;
mod nested;
mod paths;
mod pattern;
mod split;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;

use http::{HeaderMap, Method};

use crate::config::{Complaint, Invalid, Route};
use condition::Conditions;
use paths::Paths;
use pattern::{Host, Path};

pub use split::Split;

/// All routes, ready to be asked.
#[derive(Debug)]
pub struct Table {
    /// By the route's place in the configuration.
    conditions: Vec<Conditions>,
    exact: HashMap<String, Paths>,
    /// By the domain below the wildcard.
    below: HashMap<String, Paths>,
    any: Paths,
}

/// What routes look at.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The normalised host, without port; empty when there is none.
    pub host: &'a str,
    /// The normalised path with runs of `/` merged.
    pub path: &'a str,
    /// The method.
    pub method: &'a Method,
    /// The header lines.
    pub headers: &'a HeaderMap,
    /// What follows the first `?` of the target, as received.
    pub query: &'a [u8],
    /// What the listener speaks: `http` or `https`.
    pub scheme: &'a str,
    /// The address of the listener it came in by, as configured.
    pub listener: SocketAddr,
}

impl Table {
    /// Compiles `routes`, or says all that is wrong with them.
    pub fn compile(routes: &[Route]) -> Result<Self, Vec<Complaint>> {
        let mut complaints = Vec::new();
        let mut hosts: HashMap<Host, Vec<(usize, Path)>> = HashMap::new();
        for (index, route) in routes.iter().enumerate() {
            match Path::parse(route.matches.path.as_ref()) {
                Ok(path) => {
                    for host in hosts_of(route) {
                        hosts.entry(host).or_default().push((index, path.clone()));
                    }
                }
                Err((key, why)) => complaints.push(why.at(format!("routes[{index}].match.path.{key}"))),
            }
        }
        let conditions = routes.iter().map(|route| Conditions::of(&route.matches)).collect();
        let mut table = Self { conditions, exact: HashMap::new(), below: HashMap::new(), any: Paths::default() };
        let mut ties = BTreeSet::new();
        for (host, entries) in hosts {
            let paths = Paths::build(entries, &table.conditions, &mut ties);
            match host {
                Host::Exact(name) => _ = table.exact.insert(name, paths),
                Host::Below(domain) => _ = table.below.insert(domain, paths),
                Host::Any => table.any = paths,
            }
        }
        complaints.extend(ties.into_iter().map(|(later, earlier)| tied(routes, later, earlier)));
        if complaints.is_empty() { Ok(table) } else { Err(complaints) }
    }

    /// The place of the request's route in the configuration.
    pub fn find(&self, request: &Request<'_>) -> Option<usize> {
        let exact = self.exact.get(request.host);
        let wildcards = (!self.below.is_empty()).then(|| parents(request.host).filter_map(|it| self.below.get(it)));
        let tiers = exact.into_iter().chain(wildcards.into_iter().flatten()).chain([&self.any]);
        let routes = tiers.flat_map(|paths| paths.matching(request.path)).flatten();
        routes.copied().find(|route| self.conditions[*route].met_by(request))
    }
}

/// The domains above `host`, the longest first.
fn parents(host: &str) -> impl Iterator<Item = &str> {
    host.match_indices('.').map(|(dot, _)| &host[dot + 1..])
}

/// Each host of a route once.
fn hosts_of(route: &Route) -> HashSet<Host> {
    if route.matches.hosts.is_empty() {
        return HashSet::from([Host::Any]);
    }
    route.matches.hosts.iter().map(|written| Host::of(written)).collect()
}

fn tied(routes: &[Route], later: usize, earlier: usize) -> Complaint {
    let name = |index: usize| routes.get(index).map_or("", |route| route.name.as_str());
    let found = format!("\"{}\" and \"{}\" (routes[{earlier}]) can match the same request", name(later), name(earlier));
    let meant = "let one be more specific: host, path, method, more headers, cookies or arguments, scheme or listener";
    Invalid::new(found, meant).at(format!("routes[{later}].match"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::config::route::{Match, PathMatch, Scheme};
    use crate::config::units::Off;

    pub(super) fn route(name: &str, matches: Match) -> Route {
        Route { name: name.to_owned(), matches, ..Route::default() }
    }

    /// `HOST PATH` in one text: `-` takes any; a path starts with `=`, `^` (prefix) or `~` (regex).
    pub(super) fn matches(written: &str) -> Match {
        let (host, path) = written.split_once(' ').unwrap();
        let (kind, text) = path.split_at(1);
        let path = match kind {
            "=" => Some(PathMatch::Exact(text.to_owned())),
            "^" => Some(PathMatch::Prefix(text.to_owned())),
            "~" => Some(PathMatch::Regex(text.to_owned())),
            _ => None,
        };
        let hosts = if host == "-" { vec![] } else { host.split(',').map(str::to_owned).collect() };
        Match { hosts, path, ..Match::default() }
    }

    /// `GET /` of the host `h`, by a listener nobody names.
    pub(super) fn plain(headers: &HeaderMap) -> Request<'_> {
        let listener = ([127, 0, 0, 1], 9).into();
        Request { host: "h", path: "/", method: &Method::GET, headers, query: b"", scheme: "http", listener }
    }

    fn table(written: &[&str]) -> Table {
        let routes: Vec<_> = written.iter().map(|text| route(text, matches(text))).collect();
        Table::compile(&routes).unwrap()
    }

    #[track_caller]
    fn check(written: &[&str], requests: &[(&str, &str, &str)]) {
        let (forth, back) = (written.to_vec(), written.iter().rev().copied().collect::<Vec<_>>());
        for written in [forth, back] {
            let table = table(&written);
            for (host, path, expected) in requests {
                let found = table
                    .find(&Request { host, path, ..plain(&HeaderMap::new()) })
                    .map_or("none", |index| written[index]);
                assert_eq!(found, *expected, "{host} {path}");
            }
        }
    }

    #[test]
    fn an_exact_host_goes_before_the_longest_wildcard_before_none() {
        check(
            &["a.example.org -", "*.example.org -", "*.org -", "- -"],
            &[
                ("a.example.org", "/", "a.example.org -"),
                ("b.example.org", "/", "*.example.org -"),
                ("c.b.example.org", "/", "*.example.org -"),
                ("example.org", "/", "*.org -"),
                ("org", "/", "- -"),
                ("badexample.org", "/", "*.org -"),
                ("", "/", "- -"),
            ],
        );
    }

    #[test]
    fn an_exact_path_goes_before_the_longest_prefix_before_regex_before_none() {
        check(
            &["- =/a/b", "- ^/a/b", "- ^/a", "- ~/a.*|/r/[0-9]+", "- ~/r/[0-9]", "- -"],
            &[
                ("h", "/a/b", "- =/a/b"),
                ("h", "/a/b/", "- ^/a/b"),
                ("h", "/a/b/c", "- ^/a/b"),
                ("h", "/a/bc", "- ^/a"),
                ("h", "/a", "- ^/a"),
                ("h", "/ab", "- ~/a.*|/r/[0-9]+"),
                ("h", "/r/1", "- ~/a.*|/r/[0-9]+"),
                ("h", "/r", "- -"),
                ("h", "*", "- -"),
            ],
        );
    }

    #[test]
    fn a_trailing_slash_of_a_prefix_is_ignored() {
        check(
            &["- ^/api/", "- ^/"],
            &[("h", "/api", "- ^/api/"), ("h", "/api/x", "- ^/api/"), ("h", "/apix", "- ^/"), ("h", "*", "none")],
        );
    }

    #[test]
    fn a_host_whose_paths_do_not_match_leaves_the_request_to_the_next() {
        check(
            &["a.org ^/api", "*.org ^/img", "- -"],
            &[("a.org", "/api", "a.org ^/api"), ("a.org", "/img", "*.org ^/img"), ("a.org", "/", "- -")],
        );
    }

    #[test]
    fn a_route_may_name_several_hosts() {
        check(&["a.org,*.a.org,a.org -"], &[("a.org", "/", "a.org,*.a.org,a.org -"), ("org", "/", "none")]);
    }

    #[test]
    fn method_then_headers_then_cookies_then_arguments_decide() {
        let mut routes: Vec<_> = (0..6).map(|index| route(&format!("{index}"), Match::default())).collect();
        let pair = |name: &str| [(name.to_owned(), "1".to_owned())];
        routes[1].matches.query = pair("q").into_iter().collect();
        routes[2].matches.cookies = pair("c").into_iter().collect();
        routes[3].matches.headers = [(http::HeaderName::from_static("x-h"), "1".to_owned())].into_iter().collect();
        routes[4].matches.methods = [Method::POST].into_iter().collect();
        routes[5].matches = routes[4].matches.clone();
        routes[5].matches.cookies = pair("c").into_iter().collect();
        let table = Table::compile(&routes).unwrap();
        let find = |method: &Method, headers: &[(&'static str, &'static str)], query: &str| {
            let headers = headers
                .iter()
                .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            table.find(&Request { method, query: query.as_bytes(), ..plain(&headers) })
        };
        assert_eq!(find(&Method::GET, &[], ""), Some(0));
        assert_eq!(find(&Method::GET, &[], "q=1"), Some(1));
        assert_eq!(find(&Method::GET, &[("cookie", "c=1")], "q=1"), Some(2));
        assert_eq!(find(&Method::GET, &[("cookie", "c=1"), ("x-h", "1")], "q=1"), Some(3));
        assert_eq!(find(&Method::POST, &[("x-h", "1")], "q=1"), Some(4));
        assert_eq!(find(&Method::POST, &[("cookie", "c=1")], ""), Some(5));
    }

    #[test]
    fn a_scheme_then_a_listener_decide_at_last() {
        let listeners = [1, 2].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let mut routes: Vec<_> = (0..5).map(|index| route(&format!("{index}"), Match::default())).collect();
        routes[1].matches.listeners = listeners.to_vec();
        routes[2].matches.scheme = Off::On(Scheme::Http);
        routes[3].matches.query = [("q".to_owned(), "1".to_owned())].into_iter().collect();
        routes[4].matches.scheme = Off::On(Scheme::Https);
        let find = |routes: &[Route], scheme: &str, listener: SocketAddr, query: &str| {
            let headers = HeaderMap::new();
            let request = Request { scheme, listener, query: query.as_bytes(), ..plain(&headers) };
            Table::compile(routes).unwrap().find(&request).map(|index| routes[index].name.parse().unwrap())
        };
        let other = ([127, 0, 0, 1], 3).into();
        assert_eq!(find(&routes, "http", listeners[0], "q=1"), Some(3));
        assert_eq!(find(&routes, "http", listeners[0], ""), Some(2));
        assert_eq!(find(&routes, "https", listeners[0], ""), Some(4));
        routes.retain(|route| route.matches.scheme == Off::Off);
        assert_eq!(find(&routes, "http", listeners[1], ""), Some(1));
        assert_eq!(find(&routes, "http", other, ""), Some(0));
        routes.remove(0);
        assert_eq!(find(&routes, "http", other, ""), None::<usize>);
    }

    #[track_caller]
    fn check_complaints(routes: &[Route], expected: &[&str]) {
        let complaints = Table::compile(routes).map(|_| ()).unwrap_err();
        let said: Vec<_> = complaints.iter().map(|one| format!("{}: {}", one.path, one.found)).collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn two_routes_that_tie_are_refused_and_both_named() {
        let routes = ["- ^/api", "- ^/img", "- ^/api/"].map(|text| route(text, matches(text)));
        let expected = r#"routes[2].match: "- ^/api/" and "- ^/api" (routes[0]) can match the same request"#;
        check_complaints(&routes, &[expected]);
        let routes = ["b.org,a.org -", "a.org,*.org -", "*.org -"].map(|text| route(text, matches(text)));
        let second = r#"routes[1].match: "a.org,*.org -" and "b.org,a.org -" (routes[0]) can match the same request"#;
        let third = r#"routes[2].match: "*.org -" and "a.org,*.org -" (routes[1]) can match the same request"#;
        check_complaints(&routes, &[second, third]);
    }

    #[test]
    fn routes_that_cannot_both_match_do_not_tie() {
        let mut routes = vec![route("a", Match::default()), route("b", Match::default())];
        for (route, value) in routes.iter_mut().zip(["1", "2"]) {
            route.matches.headers = [(http::HeaderName::from_static("x-h"), value.to_owned())].into_iter().collect();
        }
        assert!(Table::compile(&routes).is_ok());
        let by = |port| vec![SocketAddr::from(([127, 0, 0, 1], port))];
        let of = |port, scheme| Match { listeners: by(port), scheme, ..Match::default() };
        let [http, https] = [Scheme::Http, Scheme::Https].map(Off::On);
        let apart = [of(1, http), of(2, http), of(1, https)].map(|matches| route("r", matches));
        assert!(Table::compile(&apart).is_ok());
        let same = [of(1, http), of(1, http)].map(|matches| route("r", matches));
        assert!(Table::compile(&same).is_err());
    }

    #[test]
    fn every_mistake_is_told_at_its_place() {
        let routes = ["- ~/a(", "- =/../a", "- ^/", "- -"].map(|text| route(text, matches(text)));
        let expected = [r#"routes[0].match.path.regex: "/a(""#, r#"routes[1].match.path.exact: "/../a""#];
        check_complaints(&routes, &expected);
    }
}

#[cfg(test)]
mod properties {
    use std::cmp::Reverse;

    use http::{HeaderName, HeaderValue};
    use proptest::prelude::*;

    use super::tests::{matches, plain, route};
    use super::*;
    use crate::config::route::{Match, PathMatch, Scheme};
    use crate::config::units::Off;

    const METHODS: [Method; 3] = [Method::GET, Method::PUT, Method::POST];

    prop_compose! {
        fn any_match()(
            host in prop::sample::select(vec!["-", "a.b", "*.b", "c.a.b", "*.a.b", "a.b,*.a.b"]),
            path in prop::sample::select(vec!["-", "=/", "=/x", "=/x/", "^/", "^/x", "^/x/y", "^/xy", "~/x.*", "~/[xy]+"]),
            methods in prop::sample::subsequence(METHODS.to_vec(), 0..=2),
            header in prop::option::of("[12]"), cookie in prop::option::of("[12]"), argument in prop::option::of("[12]"),
            scheme in prop::sample::select(vec![Off::Off, Off::On(Scheme::Http), Off::On(Scheme::Https)]),
            ports in prop::sample::subsequence(vec![1, 2], 0..=2),
        ) -> Match {
            let mut matches = matches(&format!("{host} {path}"));
            matches.methods = methods.into_iter().collect();
            matches.headers = header.map(|value| (HeaderName::from_static("h"), value)).into_iter().collect();
            matches.cookies = cookie.map(|value| ("c".to_owned(), value)).into_iter().collect();
            matches.query = argument.map(|value| ("q".to_owned(), value)).into_iter().collect();
            matches.scheme = scheme;
            matches.listeners = ports.into_iter().map(listener).collect();
            matches
        }
    }

    fn listener(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    /// Host, path, method, the values of one header, one cookie and one argument, scheme and listener.
    type Asked = (&'static str, &'static str, Method, [Option<String>; 3], (&'static str, u16));

    const DOORS: [(&str, u16); 4] = [("http", 1), ("https", 1), ("http", 2), ("https", 2)];

    const HOSTS: [&str; 6] = ["", "b", "a.b", "c.a.b", "d.c.a.b", "x"];
    const PATHS: [&str; 8] = ["/", "/x", "/x/", "/x/y", "/xy", "/x/y/z", "*", "/yx"];

    fn every_request() -> Vec<Asked> {
        let values = || [None, Some("1".to_owned()), Some("2".to_owned())];
        let mut all = Vec::new();
        for (host, path, method) in product(&HOSTS, &PATHS, &METHODS) {
            for (header, cookie, argument) in product(&values(), &values(), &values()) {
                let values = [header, cookie, argument];
                all.extend(DOORS.map(|door| (host, path, method.clone(), values.clone(), door)));
            }
        }
        all
    }

    fn product<A: Clone, B: Clone, C: Clone>(a: &[A], b: &[B], c: &[C]) -> Vec<(A, B, C)> {
        let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
        pairs.flat_map(|(a, b)| c.iter().map(move |c| (a.clone(), b.clone(), c.clone()))).collect()
    }

    /// The rule read out: how specific is this route for this request? Greater wins.
    fn specificity(matches: &Match, asked: &Asked) -> Option<impl Ord + use<>> {
        let (host, path, method, values, (scheme, port)) = asked;
        let of_host = |written: &String| match written.strip_prefix('*') {
            Some(end) if host.ends_with(end) => Some((1, end.len())),
            None if written == host => Some((2, 0)),
            _ => None,
        };
        let host =
            if matches.hosts.is_empty() { Some((0, 0)) } else { matches.hosts.iter().filter_map(of_host).max() }?;
        let path = match &matches.path {
            None => Some((0, 0, Reverse(String::new()))),
            Some(PathMatch::Exact(text)) => (text == path).then_some((3, 0, Reverse(String::new()))),
            Some(PathMatch::Prefix(text)) => {
                let text = text.trim_end_matches('/');
                let below = format!("{path}/").starts_with(&format!("{text}/"));
                below.then_some((2, text.len(), Reverse(String::new())))
            }
            Some(PathMatch::Regex(text)) => {
                let rest = path.strip_prefix('/').unwrap_or_default();
                // Said without a regex: compiling one takes milliseconds in a test.
                let met = match text.as_str() {
                    "/x.*" => rest.starts_with('x'),
                    _ => !rest.is_empty() && rest.trim_matches(['x', 'y']).is_empty(),
                };
                met.then(|| (1, text.len(), Reverse(text.clone())))
            }
        }?;
        let written = [matches.headers.values().next(), matches.cookies.values().next(), matches.query.values().next()];
        let met =
            written.iter().zip(values).all(|(written, value)| written.is_none_or(|it| Some(it) == value.as_ref()));
        let method_met = matches.methods.is_empty() || matches.methods.contains(method);
        let scheme_met = matches.scheme.on().is_none_or(|written| written.as_str() == *scheme);
        let listener_met = matches.listeners.is_empty() || matches.listeners.contains(&listener(*port));
        let came_by = (matches.scheme != Off::Off, !matches.listeners.is_empty());
        let rank = || (host, path, !matches.methods.is_empty(), written.map(|one| one.is_some()), came_by);
        (met && method_met && scheme_met && listener_met).then(rank)
    }

    /// The table of those of `routes` that tie with none before them.
    fn table(routes: &mut Vec<Route>) -> Table {
        loop {
            let complaints = match Table::compile(routes) {
                Ok(table) => return table,
                Err(complaints) => complaints,
            };
            let tied = |index: usize| complaints.iter().any(|one| one.path == format!("routes[{index}].match"));
            routes.remove((0..routes.len()).rfind(|index| tied(*index)).unwrap());
        }
    }

    fn find<'a>(table: &Table, routes: &'a [Route], asked: &Asked) -> Option<&'a str> {
        let (host, path, method, [header, cookie, argument], (scheme, port)) = asked;
        let mut headers = HeaderMap::new();
        let mut put = |name, value: String| headers.insert(name, HeaderValue::from_str(&value).unwrap());
        _ = header.clone().map(|value| put("h", value));
        _ = cookie.as_ref().map(|value| put("cookie", format!("x=1; c={value}")));
        let query = argument.as_ref().map_or(String::new(), |value| format!("x=2&q={value}"));
        let (query, listener) = (query.as_bytes(), listener(*port));
        let request = Request { host, path, method, query, scheme, listener, ..plain(&headers) };
        table.find(&request).map(|index| routes[index].name.as_str())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        #[test]
        fn the_most_specific_route_wins_whatever_the_order(
            written in prop::collection::vec(any_match(), 1..24),
            requests in prop::sample::subsequence(every_request(), 40),
            seed: u64,
        ) {
            let named = written.into_iter().enumerate().map(|(index, one)| route(&index.to_string(), one));
            let mut routes: Vec<_> = named.collect();
            let forth = table(&mut routes);
            let mut shuffled = routes.clone();
            fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
            let back = Table::compile(&shuffled).unwrap();
            for asked in &requests {
                let ranked = routes.iter().filter_map(|it| Some((specificity(&it.matches, asked)?, it.name.as_str())));
                let expected = ranked.max_by(|a, b| a.0.cmp(&b.0)).map(|(_, name)| name);
                prop_assert_eq!(find(&forth, &routes, asked), expected);
                prop_assert_eq!(find(&back, &shuffled, asked), expected);
            }
        }

        #[test]
        fn a_tie_is_seen_exactly_when_two_routes_are_equal_for_some_request(one in any_match(), other in any_match()) {
            let both = [route("one", one), route("other", other)];
            let equal = every_request().iter().any(|asked| {
                let [a, b] = [&both[0], &both[1]].map(|it| specificity(&it.matches, asked));
                a.zip(b).is_some_and(|(a, b)| a == b)
            });
            prop_assert_eq!(Table::compile(&both).is_err(), equal);
        }
    }
}
