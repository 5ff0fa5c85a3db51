//! Who may ask, and how often?

use std::collections::HashMap;

use super::document::{Node, Section};
use super::notes::Notes;
use super::reader::Directive;
use super::scope::Scope;
use super::units;
use super::variables::{Known, Use, template};
use super::why;

/// Everybody is kept out.
pub(super) fn shut() -> Section {
    Section::default().with("deny", Node::list(["0.0.0.0/0", "::/0"]))
}

/// The `access` section. What cannot be carried keeps more people out than nginx does, never fewer.
pub(super) fn access(scope: &Scope<'_>, notes: &mut Notes) -> Section {
    let rules = scope.all_of(&["allow", "deny"]);
    let any = scope.word("satisfy") == Some("any") && !rules.is_empty();
    if let Some(guard) = why::guards(scope) {
        if any {
            notes.dropped(guard, "nobody is asked for a password here: who is not among the addresses may not ask");
            return ruled(&rules, notes);
        }
        notes.dropped(guard, "nobody is asked for a password here, so nobody may ask until you decide who may");
        return shut();
    }
    ruled(&rules, notes)
}

fn ruled(rules: &[&Directive], notes: &mut Notes) -> Section {
    let (mut allow, mut deny) = (Vec::new(), Vec::new());
    for (at, rule) in rules.iter().enumerate() {
        match (rule.name.as_str(), rule.arg(0)) {
            ("allow", "all") => return listed(Vec::new(), deny),
            ("deny", "all") if allow.is_empty() => return shut(),
            ("deny", "all") => return listed(allow, deny),
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
    // Who is in neither list may ask.
    listed(Vec::new(), deny)
}

fn listed(allow: Vec<String>, deny: Vec<String>) -> Section {
    Section::default().with("allow", Node::list(allow)).with("deny", Node::list(deny))
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

/// The `limits` section.
pub(super) fn limits(scope: &Scope<'_>, known: &Known, zones: &mut Zones<'_>, notes: &mut Notes) -> Section {
    let mut section = Section::default();
    let rates = scope.all("limit_req").into_iter().filter_map(|it| rate(it, scope, known, zones, notes));
    let rates: Vec<Section> = rates.collect();
    match rates.as_slice() {
        [] => {}
        [one] => section.put("rate", one.clone()),
        all => section.put("rate", Node::list(all.iter().cloned())),
    }
    for (at, directive) in scope.all("limit_conn").into_iter().enumerate() {
        if at > 0 {
            notes.dropped(directive, "a route has one limit of this kind");
        } else if let Some(concurrency) = concurrency(directive, scope, known, zones, notes) {
            section.put("concurrency", concurrency);
        }
    }
    match scope.word("client_max_body_size").map_or(Some(1 << 20), units::bytes) {
        Some(0) => {}
        Some(bytes) => section.put("body", units::size(bytes)),
        None => scope.all("client_max_body_size").into_iter().for_each(|it| notes.dropped(it, "no size")),
    }
    if let Some(directive) = scope.one("limit_rate") {
        match units::bytes(directive.arg(0)) {
            Some(0) => {}
            Some(bytes) => section.put("bandwidth", format!("{}/s", units::size(bytes))),
            None => notes.dropped(directive, "no size"),
        }
    }
    section
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
