//! By which key, or without one, does an upstream share requests out?

use std::collections::HashMap;

use super::document::Section;
use super::notes::Notes;
use super::reader::Directive;
use super::variables::{Known, Part, Use, parts, plain, template};

/// `map` blocks by the variable they make.
pub(super) type Maps<'a> = HashMap<String, &'a Directive>;

/// The `balance` section of an upstream; `None`: the key that is the default here.
pub(super) fn balance(upstream: &Directive, known: &Known, maps: &Maps<'_>, notes: &mut Notes) -> Option<Section> {
    let algorithm = |name: &str| Some(Section::default().with("algorithm", name));
    for directive in upstream.inside() {
        match (directive.name.as_str(), directive.arg(0), directive.arg(1)) {
            ("hash", text, mode) => {
                let Some(section) = by_key(directive, &known.parts(text), maps, notes) else {
                    return algorithm("round_robin");
                };
                if mode != "consistent" {
                    notes.differs(directive, "keys are placed on a ring here, as by `consistent`: they move once, now");
                }
                return Some(section);
            }
            ("ip_hash", ..) => {
                notes.differs(directive, "the whole address is the key, on a ring: clients move once, now");
                return Some(Section::default().with("key", "{client_ip}"));
            }
            ("least_conn", ..) => return algorithm("least_in_flight"),
            ("random", "", _) => return algorithm("random"),
            ("random", _, "least_conn" | "") => return algorithm("p2c"),
            ("random", ..) | ("least_time", ..) => {
                notes.differs(directive, "the nearest is peak_ewma: by the time answers take and what is in flight");
                return algorithm("peak_ewma");
            }
            ("sticky", ..) => notes.dropped(directive, "no cookie is set here; a key of {cookie:NAME} keeps sessions"),
            _ => {}
        }
    }
    algorithm("round_robin")
}

/// `None`: no key of ours says the same.
fn by_key(directive: &Directive, parts: &[Part], maps: &Maps<'_>, notes: &mut Notes) -> Option<Section> {
    if let [Part::Variable(name)] = parts
        && let Some(map) = maps.get(name)
    {
        return by_map(map, directive, notes);
    }
    if plain(parts).is_some() {
        notes.dropped(directive, "a key that is the same for all requests");
        return None;
    }
    match template(parts, Use::Key) {
        Ok(key) => {
            // Of these nothing may be left.
            let empties = ["arg_", "args", "is_args", "query_string"];
            let is_empty = |part: &Part| matches!(part, Part::Variable(name) if empties.iter().any(|begins| name.starts_with(begins)));
            if key.contains("{header:") || key.contains("{cookie:") || parts.iter().all(is_empty) {
                notes.differs(directive, "requests without it are spread, not put on one server");
            }
            Some(Section::default().with("key", key))
        }
        Err(why) => {
            notes.dropped(directive, format!("{why}; requests go round instead"));
            None
        }
    }
}

/// A key that has another where it is missing: `""` or `default` of a map, and the variable itself.
fn by_map(map: &Directive, directive: &Directive, notes: &mut Notes) -> Option<Section> {
    let source = map.arg(0).trim_start_matches('$').to_ascii_lowercase();
    let mut instead = None;
    let mut key = None;
    let mut fails = false;
    for entry in map.inside() {
        let value = parts(entry.arg(0));
        let is_itself = value == [Part::Variable(source.clone())];
        match (entry.name.as_str(), is_itself) {
            ("hostnames" | "volatile", _) => {}
            ("", false) => instead = Some(value),
            (_, true) => key = Some(missing(&source)),
            ("default", false) => instead = instead.or(Some(value)),
            (pattern, false) => match captured(&source, pattern, &value) {
                Some(found) if key.is_none() => key = Some(found),
                _ => fails = true,
            },
        }
    }
    let instead = instead.map(|parts| template(&parts, Use::Key));
    match (key, instead, fails) {
        (Some(key), None, false) => Some(Section::default().with("key", key)),
        (Some(key), Some(Ok(instead)), false) => {
            notes.differs(directive, format!("{} is {key} where it is there, else {instead}", directive.arg(0)));
            Some(Section::default().with("key", key).with("on_missing", instead))
        }
        _ => {
            notes.dropped(directive, format!("the map of {} is no key; requests go round instead", map.place));
            None
        }
    }
}

/// As a variable that may be missing.
fn missing(source: &str) -> String {
    match source.split_once('_') {
        Some(("arg", name)) => format!("{{arg:{name}}}"),
        _ => template(&[Part::Variable(source.to_owned())], Use::Key).unwrap_or_default(),
    }
}

/// The group of an expression over the path.
fn captured(source: &str, pattern: &str, value: &[Part]) -> Option<String> {
    let expression = pattern.strip_prefix("~*").map(|text| format!("(?i){text}"));
    let expression = expression.or_else(|| pattern.strip_prefix('~').map(str::to_owned))?;
    let [Part::Variable(group)] = value else { return None };
    let is_first =
        group == "1" || expression.contains(&format!("?<{group}>")) || expression.contains(&format!("?P<{group}>"));
    let is_path = matches!(source, "uri" | "request_uri" | "document_uri");
    (is_first && is_path).then(|| format!("{{path:{expression}}}"))
}

#[cfg(test)]
mod tests {
    use super::super::reader::Place;
    use super::*;

    fn directive(name: &str, args: &[&str], block: Vec<Directive>) -> Directive {
        let place = Place { file: "f".into(), line: 1 };
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Directive { name: name.to_owned(), args, block: Some(block), place }
    }

    fn by(name: &str, args: &[&str], map: &[(&str, &str)]) -> (String, usize) {
        let entries = map.iter().map(|(key, value)| directive(key, &[value], Vec::new())).collect();
        let map = directive("map", &["$arg_user", "$key"], entries);
        let maps = Maps::from([("key".to_owned(), &map)]);
        let upstream = directive("upstream", &["u"], vec![directive(name, args, Vec::new())]);
        let mut notes = Notes::of("u");
        let section = balance(&upstream, &Known::default(), &maps, &mut notes);
        (section.unwrap_or_default().print(&[]).replace('\n', " ").trim().to_owned(), notes.said.len())
    }

    #[test]
    fn keys_and_algorithms_are_ours() {
        for (name, args, expected) in [
            ("hash", &["$request_uri", "consistent"][..], ("key: \"{uri}\"", 0)),
            ("hash", &["$uri$is_args$args", "consistent"], ("key: \"{nginx_uri}{nginx_is_args}{nginx_args}\"", 0)),
            ("hash", &["$arg_id"], ("key: \"{nginx_arg:id}\"", 2)),
            ("hash", &["$host$arg_id", "consistent"], ("key: \"{host}{nginx_arg:id}\"", 0)),
            ("hash", &["$http_x", "consistent"], ("key: \"{header:x}\"", 1)),
            ("hash", &["x", "consistent"], ("algorithm: round_robin", 1)),
            ("hash", &["$msec", "consistent"], ("algorithm: round_robin", 1)),
            ("ip_hash", &[], ("key: \"{client_ip}\"", 1)),
            ("least_conn", &[], ("algorithm: least_in_flight", 0)),
            ("random", &["two", "least_conn"], ("algorithm: p2c", 0)),
            ("keepalive", &["2"], ("algorithm: round_robin", 0)),
        ] {
            let (found, notes) = by(name, args, &[]);
            assert_eq!((found.as_str(), notes), expected, "{name} {args:?}");
        }
    }

    #[test]
    fn a_map_that_fills_in_for_what_is_missing_is_on_missing() {
        let map = [("", "$request_uri"), ("default", "$arg_user")];
        let (found, _) = by("hash", &["$key", "consistent"], &map);
        assert_eq!(found, "key: \"{arg:user}\" on_missing: \"{uri}\"");
        let (found, _) = by("hash", &["$key", "consistent"], &[("default", "$uri"), ("~.", "$arg_user")]);
        assert_eq!(found, "key: \"{arg:user}\" on_missing: \"{nginx_uri}\"");
        assert_eq!(by("hash", &["$key", "consistent"], &[("a", "b")]).0, "algorithm: round_robin");
    }
}
