//! The tables of docs/configuration.md, made of the schema: which keys there are, what may be written, what holds where
//! nothing is, and what it means. Headings, what stands between them and the order of the keys are the document's own.

use std::collections::BTreeMap;
use std::iter::Peekable;

use serde_json::Value;

use super::schema;
use crate::config::generated;

const PAGE: &str = "docs/configuration.md";

/// What holds where a key is left out, if the schema has no word for it.
const LEFT_OUT: [(&str, &str); 32] = [
    ("routes", "all to the only pool"),
    ("process.resolver", "those of the system"),
    ("process.control_socket", "by user"),
    ("pools.NAME.args", "all arguments"),
    ("pools.NAME.origins", ""),
    ("pools.NAME.origins[].name", "the address as written"),
    ("pools.NAME.origins[].max_in_flight", "the pool's"),
    ("pools.NAME.tls.ca", "those of the system"),
    ("pools.NAME.health.probe.http", "TCP connect only"),
    ("pools.NAME.health.probe.http.host", "the pool's literal `host`, else the origin's name"),
    ("pools.NAME.health.probe.http.body_contains", "anything"),
    ("routes[].name", "`route-N`, by position"),
    ("routes[].match", "everything"),
    ("routes[].match.listeners", "any"),
    ("routes[].match.hosts", "any"),
    ("routes[].match.path", "any"),
    ("routes[].match.methods", "any"),
    ("routes[].match.headers", "any"),
    ("routes[].match.cookies", "any"),
    ("routes[].match.query", "any"),
    ("routes[].timeouts", "the pool's"),
    ("routes[].timeouts.send", "the pool's"),
    ("routes[].timeouts.read", "the pool's"),
    ("routes[].timeouts.stream", "the pool's"),
    ("routes[].timeouts.total", "the pool's"),
    ("routes[].respond.body", "empty"),
    ("routes[].limits.rate.name", "`rate`, or `rate-N` by its place in a list"),
    ("routes[].access", "everybody"),
    ("routes[].access.allow", "everybody"),
    ("routes[].access.deny", "nobody"),
    ("routes[].headers", "none"),
    ("routes[].buffering", "nothing"),
];

/// Where more is said of a key.
const SEE: [(&str, &str); 47] = [
    ("certificates", "[TLS](tls.md)"),
    ("trusted_proxies", "[behind a balancer](behind-a-balancer.md)"),
    ("client_address", "[behind a balancer](behind-a-balancer.md)"),
    ("routes", "[routing](routing.md)"),
    ("process.max_buffered", "[bodies](bodies.md)"),
    ("process.state", "[changing a pool](changing-a-pool.md)"),
    ("process.resolver", "[discovery](discovery.md)"),
    ("process.listeners[].proxy_protocol", "[behind a balancer](behind-a-balancer.md)"),
    ("process.listeners[].tls", "[TLS](tls.md)"),
    ("process.listeners[].tls.client_ca", "[TLS](tls.md)"),
    ("process.listeners[].tls.ticket_keys", "[TLS](tls.md)"),
    ("process.drain.upgrade", "[upgrading](upgrade.md)"),
    ("process.access_log.format", "[observability](observability.md)"),
    ("process.tracing", "[tracing](tracing.md)"),
    ("pools.NAME.balance", "[placement](placement.md) and [balancing](balancing.md)"),
    ("pools.NAME.balance.key", "[placement](placement.md)"),
    ("pools.NAME.balance.bounded_load", "[balancing](balancing.md)"),
    ("pools.NAME.args", "[placement](placement.md#which-arguments-count)"),
    ("pools.NAME.protocol", "[HTTP](http.md#upgrade)"),
    ("pools.NAME.tls", "[origins over TLS](origins-tls.md)"),
    ("pools.NAME.cache_status", "[plan](plan.md)"),
    ("pools.NAME.retry_budget", "[retries](retries.md#the-budget)"),
    ("pools.NAME.health", "[health](health.md)"),
    ("pools.NAME.health.min_healthy", "[health](health.md#who-goes)"),
    ("pools.NAME.health.panic", "[health](health.md#when-nobody-is-left)"),
    ("pools.NAME.health.overload", "[health](health.md#overload-is-not-death)"),
    ("pools.NAME.slow_start", "[changing a pool](changing-a-pool.md)"),
    ("pools.NAME.slow_start.hold", "[changing a pool](changing-a-pool.md#when-growth-stands-still)"),
    ("pools.NAME.guard", "[changing a pool](changing-a-pool.md#how-much-may-move) and [plan](plan.md)"),
    ("pools.NAME.discovery", "[discovery](discovery.md)"),
    ("pools.NAME.origins[].state", "[changing a pool](changing-a-pool.md#taking-an-origin-out)"),
    ("pools.NAME.connections.max_in_flight", "[balancing](balancing.md#limits)"),
    ("routes[].split", "[shaping traffic](traffic-shaping.md)"),
    ("routes[].respond", "[static answers](rules.md#answers-of-the-gateways-own)"),
    ("routes[].redirect", "[redirects](rules.md#redirects)"),
    ("routes[].retry", "[retries](retries.md)"),
    ("routes[].limits", "[limits](limits.md)"),
    ("routes[].limits.rate.shared", "[limits](limits.md#shared-by-replicas)"),
    ("routes[].access", "[behind a balancer](behind-a-balancer.md)"),
    ("routes[].headers", "[header lines](rules.md#header-lines)"),
    ("routes[].rewrite", "[paths](rules.md#paths)"),
    ("routes[].compression", "[bodies](bodies.md#compression)"),
    ("routes[].mirror", "[shaping traffic](traffic-shaping.md)"),
    ("routes[].buffering.response", "[bodies](bodies.md#answers-to-slow-clients)"),
    ("routes[].buffering.request", "[bodies](bodies.md#requests-of-slow-clients)"),
    ("routes[].limits.rate.key", "[templates](rules.md#templates)"),
    ("process.admin", "[observability](observability.md) and [the status page](status-page.md)"),
];

/// What a pattern of the schema stands for, one and several.
const KINDS: [(&str, &str, &str); 19] = [
    (r"^\d+(\.\d+)?(us|ms|s|m|h)$", "time", "times"),
    (r"^\d+(KiB|MiB|GiB)?$", "size", "sizes"),
    (r"^\d+(KiB|MiB|GiB)?/s$", "size in a second", "sizes in a second"),
    (r"^\d+(\.\d+)?\s*%$", "share", "shares"),
    (r"^\d+(\.\d+)?x$", "multiple", "multiples"),
    (r"^\d+(\.\d+)?/(s|m|h)$", "rate", "rates"),
    (r"^[0-9a-fA-F:.]+(/\d+)?$", "network", "networks"),
    (r"^(\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:.]+\]):\d+$", "address to bind", "addresses to bind"),
    (r"^[0-9a-fA-F:.\[\]]+$", "address of a DNS server", "addresses of DNS servers"),
    (r"^[1-5]\d\d(-[1-5]\d\d)?$", "status, or a range of them", "statuses and ranges of them"),
    (r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", "header", "headers"),
    (r"^[!#$%&'*+.^_`|~0-9A-Z-]+$", "method", "methods"),
    (r"^(\*\.)?[A-Za-z0-9._-]+$|^\[[0-9a-fA-F:.]+\]$", "host", "hosts"),
    (r"^[^\s/*;,]+/(\*|[^\s/*;,]+)$", "media type", "media types"),
    (r"^/[!-~]*$", "path", "paths"),
    (r"^\S{1,255}$", "name", "names"),
    (r"\{", "template", "templates"),
    (r"^[45]\d\d$", "400 to 599", "400 to 599"),
    ("/", "file", "files"),
];

/// The keys of a section, whether each has to be written, by the section's path.
type Sections<'s> = BTreeMap<String, BTreeMap<String, (&'s Value, bool)>>;

fn sections(schema: &Value) -> Sections<'_> {
    let mut sections = BTreeMap::new();
    let mut left = vec![(String::new(), schema)];
    while let Some((path, value)) = left.pop() {
        let target = value["$ref"].as_str().map(|name| &schema["$defs"][name.trim_start_matches("#/$defs/")]);
        left.extend(target.map(|target| (path.clone(), target)));
        let either = value["anyOf"].as_array().map(Vec::as_slice).unwrap_or_default();
        // A list of what may stand alone has no further keys.
        let is_alone = |value: &Value| value.get("items").is_some_and(|item| either.contains(item));
        left.extend(either.iter().filter(|value| !is_alone(value)).map(|value| (path.clone(), value)));
        left.extend(value.get("items").map(|value| (format!("{path}[]"), value)));
        left.extend(value.get("additionalProperties").map(|value| (format!("{path}.NAME"), value)));
        let Some(keys) = value["properties"].as_object() else { continue };
        left.extend(keys.iter().map(|(key, value)| (joined(&path, key), value)));
        let required = value["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_required = |key: &str| required.iter().any(|name| name == key);
        sections.insert(path, keys.iter().map(|(key, value)| (key.clone(), (value, is_required(key)))).collect());
    }
    sections
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// A value that is one word, as a file has it.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// What may be written there.
fn values(value: &Value, many: bool) -> String {
    let one = |one: &str, several: &str| if many { several.to_owned() } else { one.to_owned() };
    let kinds: Vec<&str> = match &value["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if let Some(either) = value["anyOf"].as_array() {
        let mut either: Vec<_> =
            either.iter().filter(|one| one["type"] != "null").map(|one| values(one, many)).collect();
        either.sort_by_key(|words| words == "`off`");
        either.dedup();
        either.join(" or ")
    } else if let Some(words) = value["enum"].as_array() {
        // `false` is `off` in other words, which is said once for all keys.
        let words = words.iter().filter(|word| **word != false).filter_map(word).map(|word| format!("`{word}`"));
        // A number may be written as a text.
        let mut seen = Vec::new();
        words.for_each(|word| seen.extend((!seen.contains(&word)).then_some(word)));
        seen.join(", ")
    } else if let Some(word) = word(&value["const"]) {
        format!("`{word}`")
    } else if let Some(inner) = value.get("additionalProperties").filter(|inner| inner.is_object()) {
        format!("{} by name", values(inner, true))
    } else if value["$ref"].is_string() || kinds.contains(&"object") {
        one("section", "sections")
    } else if let Some(inner) = value.get("items") {
        format!("list of {}", values(inner, true))
    } else if kinds == ["boolean"] {
        "`true`, `false`".to_owned()
    } else if let Some(pattern) = value["pattern"].as_str() {
        let kind = KINDS.iter().find(|(known, ..)| *known == pattern);
        kind.map_or_else(|| one("text", "texts"), |(_, kind, kinds)| one(kind, kinds))
    } else if kinds.contains(&"string") {
        one("text", "texts")
    } else {
        numbers(value)
    }
}

fn numbers(value: &Value) -> String {
    // The greatest of 16 bits is no bound that anybody set, unless the least is one.
    let bound = |name: &str| word(&value[name]).filter(|bound| bound != "65535" || value["minimum"] != 0);
    match (bound("minimum").filter(|least| least != "0"), bound("maximum"), bound("exclusiveMinimum")) {
        (Some(least), Some(most), _) if least == most => format!("`{least}`"),
        (Some(least), Some(most), _) => format!("{least} to {most}"),
        (Some(least), None, _) => format!("{least} or more"),
        (None, Some(most), _) => format!("0 to {most}"),
        (None, None, Some(below)) => format!("above {below}"),
        (None, None, None) => "number".to_owned(),
    }
}

/// What holds where the key is left out.
fn default(path: &str, value: &Value, required: bool) -> String {
    if let Some((_, words)) = LEFT_OUT.iter().find(|(known, _)| *known == path) {
        return (*words).to_owned();
    }
    let default = &value["default"];
    match (word(default), default) {
        (Some(word), _) => format!("`{word}`"),
        (None, Value::Array(words)) if !words.is_empty() => {
            format!("`[{}]`", words.iter().filter_map(word).collect::<Vec<_>>().join(", "))
        }
        (None, Value::Object(keys)) if keys.values().any(|key| word(key).is_some() || key.is_object()) => {
            "see below".to_owned()
        }
        (None, Value::Array(_) | Value::Object(_)) => "none".to_owned(),
        _ if required => "required".to_owned(),
        _ => String::new(),
    }
}

fn row(section: &str, key: &str, (value, required): (&Value, bool)) -> String {
    let path = joined(section, key);
    let mut text = value["description"].as_str().unwrap_or_default().replace('\n', " ");
    if let Some((_, more)) = SEE.iter().find(|(known, _)| *known == path) {
        text += &format!(" See {more}.");
    }
    let cells = [format!("`{key}`"), values(value, false), default(&path, value, required), text];
    assert!(cells.iter().all(|cell| !cell.contains('|')), "{cells:?}");
    format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |")
}

/// The table of a section; `lines` stand behind its head, of which the rows are taken.
fn table<'l>(
    section: &str,
    mut keys: BTreeMap<String, (&Value, bool)>,
    lines: &mut Peekable<impl Iterator<Item = &'l str>>,
) -> String {
    let mut out = "| key | values | default | |\n|---|---|---|---|\n".to_owned();
    while let Some(line) = lines.next_if(|line| line.starts_with('|')) {
        let key = line.split('`').nth(1).unwrap_or_default();
        out += &keys.remove(key).map(|value| row(section, key, value)).unwrap_or_default();
    }
    keys.iter().for_each(|(key, value)| out += &row(section, key, *value));
    out
}

/// The page with its tables as the schema has them.
fn page(there: &str, schema: &Value) -> String {
    let mut left = sections(schema);
    let mut section = None;
    let mut lines = there.lines().peekable();
    let mut out = String::new();
    while let Some(line) = lines.next() {
        if let Some(heading) = line.strip_prefix('#') {
            let path = heading.split('`').nth(1).or(heading.ends_with("Top level").then_some(""));
            section = path.and_then(|path| left.remove_entry(path));
            assert!(path.is_none() || section.is_some(), "{PAGE}: {heading}: there is no such section, or twice");
        }
        match section.take_if(|_| line.starts_with("| key |")) {
            Some((path, keys)) => out += &table(&path, keys, &mut lines),
            None => out += &format!("{line}\n"),
        }
    }
    let missing: Vec<_> = left.keys().collect();
    assert!(missing.is_empty(), "{PAGE} has no heading with the path and no line `| key |` for {missing:?}");
    out
}

#[test]
fn the_configuration_reference_says_what_the_code_says() {
    generated::holds(PAGE, &page(&generated::read(PAGE), &schema()));
}

#[test]
fn every_word_about_a_key_is_about_one_that_is_there() {
    let schema = schema();
    let sections = sections(&schema);
    let paths: Vec<_> = sections.iter().flat_map(|(at, keys)| keys.keys().map(|key| joined(at, key))).collect();
    for (path, _) in LEFT_OUT.iter().chain(&SEE) {
        assert!(paths.iter().any(|known| known == path), "{path}");
    }
}

#[test]
fn every_pattern_of_the_schema_has_a_name() {
    let text = serde_json::to_string(&schema()).unwrap();
    for (pattern, kind, _) in KINDS {
        assert!(text.contains(&serde_json::to_string(pattern).unwrap()), "{kind}: {pattern}");
    }
}

#[test]
fn what_may_be_written_is_told_in_few_words() {
    let told = |value: &str| values(&serde_json::from_str(value).unwrap(), false);
    assert_eq!(
        told(r#"{"anyOf":[{"enum":["off",false]},{"type":"integer","minimum":1,"maximum":9}]}"#),
        "1 to 9 or `off`"
    );
    assert_eq!(told(r##"{"items":{"$ref":"#/$defs/X"},"type":"array"}"##), "list of sections");
    assert_eq!(told(r##"{"additionalProperties":{"$ref":"#/$defs/X"},"type":"object"}"##), "sections by name");
    assert_eq!(told(r#"{"type":"number","exclusiveMinimum":1}"#), "above 1");
    assert_eq!(told(r#"{"enum":["a","b"]}"#), "`a`, `b`");
}
