//! Who may ask, and how often?

use std::collections::{HashMap, HashSet};

use super::document::{Node, Section};
use super::guards;
use super::networks;
use super::notes::Notes;
use super::reader::Directive;
use super::scope::Scope;
use super::trusted::Trust;
use super::units;
use super::variables::{Known, Use, template};

/// Everybody is kept out.
pub(super) fn shut() -> Section {
    Section::default().with("deny", Node::list(["0.0.0.0/0", "::/0"]))
}

/// Nobody may ask this route any more.
pub(super) fn shut_up(route: &mut Section) {
    route.entries.retain(|entry| entry.key != "access");
    route.put("access", shut());
}

/// Who may ask.
enum Admitted {
    Nobody,
    /// Those of the first list, or all where it is empty, but none of the second.
    These(Vec<String>, Vec<String>),
}

impl Admitted {
    /// Both must admit.
    fn and(self, other: Self) -> Self {
        let (Self::These(mut allow, mut deny), Self::These(others, denied)) = (self, other) else {
            return Self::Nobody;
        };
        if allow.is_empty() {
            allow = others;
        } else if !others.is_empty() {
            allow = networks::common(&allow, &others);
            if allow.is_empty() {
                return Self::Nobody;
            }
        }
        deny.extend(denied);
        let mut seen = HashSet::new();
        deny.retain(|network| seen.insert(network.clone()));
        Self::These(allow, deny)
    }

    fn section(self) -> Section {
        match self {
            Self::Nobody => shut(),
            Self::These(allow, deny) => {
                Section::default().with("allow", Node::list(allow)).with("deny", Node::list(deny))
            }
        }
    }
}

/// The `access` section of what comes through all these blocks. What cannot be carried keeps more people out than nginx does,
/// never fewer.
pub(super) fn access(scopes: &[&Scope<'_>], trust: &Trust, notes: &mut Notes) -> Section {
    let all = Admitted::These(Vec::new(), Vec::new());
    scopes.iter().fold(all, |found, scope| found.and(admitted(scope, trust, notes))).section()
}

fn admitted(scope: &Scope<'_>, trust: &Trust, notes: &mut Notes) -> Admitted {
    let rules = scope.all_of(&["allow", "deny"]);
    let any = scope.word("satisfy") == Some("any") && !rules.is_empty();
    let found = match guards::guard(scope) {
        Some(guard) if any => {
            notes.dropped(guard, "nobody is asked for a password here: who is not among the addresses may not ask");
            ruled(&rules, true, notes)
        }
        Some(guard) => {
            notes.dropped(guard, "nobody is asked for a password here, so nobody may ask until you decide who may");
            return Admitted::Nobody;
        }
        None => ruled(&rules, false, notes),
    };
    let asks = matches!(&found, Admitted::These(allow, deny) if !allow.is_empty() || !deny.is_empty());
    match rules.first() {
        Some(rule) if asks && Trust::of(scope) != *trust => {
            let why = "not all servers take the client's address from where this one does, so nobody may ask until you decide who may";
            notes.dropped(rule, why);
            Admitted::Nobody
        }
        _ => found,
    }
}

/// By `allow` and `deny`; `else_nobody`: who is in neither may not ask.
fn ruled(rules: &[&Directive], else_nobody: bool, notes: &mut Notes) -> Admitted {
    let (mut allow, mut deny) = (Vec::new(), Vec::new());
    let mut ends_open = !else_nobody;
    for (at, rule) in rules.iter().enumerate() {
        match (rule.name.as_str(), rule.arg(0)) {
            (name, "all") => {
                ends_open = name == "allow";
                break;
            }
            (_, "unix:") => notes.dropped(rule, "clients come by TCP"),
            (name, network) => match units::network(network) {
                Some(network) if name == "allow" => {
                    if rules.iter().skip(at + 1).any(|later| later.name == "deny" && later.arg(0) != "all") {
                        notes.differs(rule, "a `deny` behind it wins here, if both hold the address");
                    }
                    allow.push(network);
                }
                Some(network) => deny.push(network),
                None => notes.dropped(rule, "no address and no network"),
            },
        }
    }
    match (ends_open, allow.is_empty()) {
        // Who is in neither list may ask.
        (true, _) => Admitted::These(Vec::new(), deny),
        (false, true) => Admitted::Nobody,
        (false, false) => Admitted::These(allow, deny),
    }
}

/// Zones of limits, and the names their limits have.
#[derive(Default)]
pub(super) struct Zones<'a> {
    pub(super) rate: HashMap<String, &'a Directive>,
    pub(super) concurrency: HashMap<String, &'a Directive>,
    /// Zone, burst and key, and the name that was given to them.
    pub(super) named: Vec<(String, String)>,
}

fn option<'d>(directive: &'d Directive, name: &str) -> Option<&'d str> {
    directive.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
}

/// The zone of a `limit_req_zone` or `limit_conn_zone`.
pub(super) fn zone_of(directive: &Directive) -> String {
    option(directive, "zone").and_then(|zone| zone.split(':').next()).unwrap_or_default().to_owned()
}

/// The `limits` section of what comes through all these blocks, in their order. nginx counts a request once, in the first of
/// them that counts.
pub(super) fn limits(scopes: &[&Scope<'_>], known: &Known, zones: &mut Zones<'_>, notes: &mut Notes) -> Section {
    let mut section = Section::default();
    let counting = |name: &str| scopes.iter().find(|scope| scope.one(name).is_some());
    let rates: Vec<Section> = counting("limit_req").map_or_else(Vec::new, |scope| {
        scope.all("limit_req").into_iter().filter_map(|it| rate(it, scope, known, zones, notes)).collect()
    });
    match rates.as_slice() {
        [] => {}
        [one] => section.put("rate", one.clone()),
        all => section.put("rate", Node::list(all.iter().cloned())),
    }
    if let Some(scope) = counting("limit_conn") {
        for (at, directive) in scope.all("limit_conn").into_iter().enumerate() {
            if at > 0 {
                notes.dropped(directive, "a route has one limit of this kind");
            } else if let Some(concurrency) = concurrency(directive, scope, known, zones, notes) {
                section.put("concurrency", concurrency);
            }
        }
    }
    if let Some(bytes) = body(scopes, notes) {
        section.put("body", units::size(bytes));
    }
    if let Some(directive) = scopes.last().and_then(|scope| scope.one("limit_rate")) {
        match units::bytes(directive.arg(0)) {
            Some(0) => {}
            Some(bytes) => section.put("bandwidth", format!("{}/s", units::size(bytes))),
            None => notes.dropped(directive, "no size"),
        }
    }
    section
}

/// The smallest size that one of them has for bodies.
fn body(scopes: &[&Scope<'_>], notes: &mut Notes) -> Option<u64> {
    let mut found = None;
    for scope in scopes {
        match scope.word("client_max_body_size").map_or(Some(1 << 20), units::bytes) {
            Some(0) => {}
            Some(bytes) => found = Some(found.map_or(bytes, |before: u64| before.min(bytes))),
            None => scope.all("client_max_body_size").into_iter().for_each(|it| notes.dropped(it, "no size")),
        }
    }
    found
}

fn key(zone: &Directive, directive: &Directive, known: &Known, notes: &mut Notes) -> Option<String> {
    match template(&known.parts(zone.arg(0)), Use::Key) {
        Ok(key) if key.contains('{') => Some(key),
        Ok(_) => {
            notes.dropped(directive, "its key is the same for all requests");
            None
        }
        Err(why) => {
            notes.dropped(directive, format!("its key, {}, cannot be carried: {why}", zone.arg(0)));
            None
        }
    }
}

fn status(scope: &Scope<'_>, name: &str) -> String {
    scope.word(name).unwrap_or("503").to_owned()
}

fn rate(
    directive: &Directive,
    scope: &Scope<'_>,
    known: &Known,
    zones: &mut Zones<'_>,
    notes: &mut Notes,
) -> Option<Section> {
    let zone_name = option(directive, "zone").unwrap_or_default();
    let Some(zone) = zones.rate.get(zone_name).copied() else {
        notes.dropped(directive, "there is no such zone");
        return None;
    };
    let key = key(zone, directive, known, notes)?;
    let in_a = |unit: &'static str| Some((option(zone, "rate")?.strip_suffix(unit)?.strip_suffix("r/")?, unit));
    let Some((number, unit)) = in_a("s").or_else(|| in_a("m")) else {
        notes.dropped(directive, "its zone has no rate");
        return None;
    };
    let burst = option(directive, "burst").unwrap_or("0");
    if burst != "0" && !directive.args.iter().any(|arg| arg == "nodelay") {
        notes.differs(directive, "nothing is delayed here: as with `nodelay`");
    }
    let what = format!("{zone_name} {burst} {key}");
    let name = match zones.named.iter().find(|(known, _)| *known == what) {
        Some((_, name)) => name.clone(),
        None => {
            let others = zones.named.iter().filter(|(known, _)| known.split(' ').next() == Some(zone_name)).count();
            let name = if others == 0 { zone_name.to_owned() } else { format!("{zone_name}-{}", others + 1) };
            if others > 0 {
                notes.differs(directive, "another burst is another count here");
            }
            zones.named.push((what, name.clone()));
            name
        }
    };
    let mut section = Section::default().with("name", name).with("key", key).with("rate", format!("{number}/{unit}"));
    if burst != "0" {
        section.put("burst", burst.to_owned());
    }
    section.put("status", status(scope, "limit_req_status"));
    if scope.is_on("limit_req_dry_run") {
        section.put("dry_run", true);
    }
    Some(section)
}

fn concurrency(
    directive: &Directive,
    scope: &Scope<'_>,
    known: &Known,
    zones: &Zones<'_>,
    notes: &mut Notes,
) -> Option<Section> {
    let Some(zone) = zones.concurrency.get(directive.arg(0)).copied() else {
        notes.dropped(directive, "there is no such zone");
        return None;
    };
    let key = key(zone, directive, known, notes)?;
    notes.differs(directive, "each route counts for itself");
    let mut section = Section::default().with("key", key).with("max", directive.arg(1).to_owned());
    section.put("status", status(scope, "limit_conn_status"));
    if scope.is_on("limit_conn_dry_run") {
        section.put("dry_run", true);
    }
    Some(section)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHUT, route, yaml};

    /// `/` with these words, which goes on to @app with those.
    fn by_files(first: &str, named: &str) -> String {
        let text = yaml(&format!(
            "limit_req_zone $binary_remote_addr zone=one:1m rate=5r/s; limit_req_zone $binary_remote_addr zone=two:1m rate=7r/s;\n\
             server {{ location / {{ {first} try_files $uri @app; }} location @app {{ {named} proxy_pass http://a; }} }}"
        ));
        route(&text, "port-80")
    }

    #[test]
    fn a_location_that_tries_files_keeps_out_whom_it_kept_out_before() {
        for guard in ["auth_basic x;", "auth_request /auth;", "deny all;"] {
            assert!(by_files(guard, "").contains(SHUT), "{guard}");
            assert!(by_files("", guard).contains(SHUT), "{guard}");
        }
        let both =
            by_files("allow 10.0.0.0/8; deny all;", "deny 10.9.0.1; allow 10.9.0.0/16; allow 192.0.2.1; deny all;");
        assert!(both.contains("access: { allow: [10.9.0.0/16], deny: [10.9.0.1] }"), "{both}");
        assert!(by_files("allow 10.0.0.1; deny all;", "allow 10.0.0.2; deny all;").contains(SHUT));
        assert!(by_files("deny 10.0.0.1;", "").contains("access: { deny: [10.0.0.1] }"));
    }

    #[test]
    fn a_request_is_counted_where_nginx_counts_it_first() {
        assert!(by_files("limit_req zone=one;", "").contains("rate: { name: one"));
        let text = by_files("limit_req zone=one;", "limit_req zone=two;");
        assert!(text.contains("name: one") && !text.contains("name: two"), "{text}");
        assert!(by_files("", "limit_req zone=two;").contains("rate: { name: two"));
        assert!(by_files("client_max_body_size 10;", "client_max_body_size 0;").contains("body: 10"));
    }

    #[test]
    fn where_either_is_enough_who_is_in_no_list_may_not_ask() {
        let of = |rules: &str| {
            yaml(&format!("server {{ satisfy any; auth_basic x; {rules} location / {{ proxy_pass http://a; }} }}"))
        };
        assert!(of("allow 10.0.0.0/8;").contains("access: { allow: [10.0.0.0/8] }"));
        assert!(of("deny 10.0.0.1;").contains(SHUT));
        assert!(of("allow 10.0.0.0/8; deny all;").contains("access: { allow: [10.0.0.0/8] }"));
        assert!(!of("allow all;").contains("access:"));
        let alone = yaml("server { satisfy any; deny 10.0.0.1; location / { proxy_pass http://a; } }");
        assert!(alone.contains("access: { deny: [10.0.0.1] }"), "{alone}");
    }
}
