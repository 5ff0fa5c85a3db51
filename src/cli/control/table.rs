//! The answer of `/status` for people: a line on the process, then a table for each pool.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::Value;

use super::super::figures::{self, percent, short, span, time};

/// Headings of the table, and where their columns stand.
const COLUMNS: [(&str, CellAlignment); 11] = [
    ("ORIGIN", CellAlignment::Left),
    ("STATE", CellAlignment::Left),
    ("WEIGHT", CellAlignment::Right),
    ("SHARE", CellAlignment::Right),
    ("IN FLIGHT", CellAlignment::Right),
    ("REQUESTS", CellAlignment::Right),
    ("ERRORS", CellAlignment::Right),
    ("P50", CellAlignment::Right),
    ("P99", CellAlignment::Right),
    ("LAST PROBE", CellAlignment::Left),
    ("WHY", CellAlignment::Left),
];

/// All of it; with colours for a terminal.
pub(super) fn show(status: &Value, colour: bool) -> String {
    let mut out = String::new();
    let config = &status["config"];
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "up {}, generation {}, config version {} ({})",
        span(status["uptime"].as_f64()),
        number(&status["generation"]),
        number(&config["version"]),
        short(text(&config["digest"])),
    );
    if status["probes_stretched"] == true {
        out.push_str("more probes are due than may run: intervals are longer than configured\n");
    }
    for one in status["certificates"].as_array().into_iter().flatten() {
        if let Some(warning) = one["warning"].as_str() {
            let _ = writeln!(out, "{warning}");
        }
    }
    if config["confirm"].is_object() {
        let _ = writeln!(out, "{}", confirm(&config["confirm"]));
    }
    let texts = config["history"].as_array().map_or(&[][..], Vec::as_slice);
    for one in texts.iter().filter(|_| texts.len() > 1) {
        let _ = writeln!(out, "{}", history(one));
    }
    out.extend(status["splits"].as_object().into_iter().flatten().map(|(route, one)| split(route, one)));
    for (name, pool) in status["pools"].as_object().into_iter().flatten() {
        let short = if pool["short"] == true { ", short" } else { "" };
        let _ = writeln!(
            out,
            "\npool {name}: {}{}, ring {}, {} moved by the last change{short}",
            text(&pool["algorithm"]),
            pool["key"].as_str().map_or(String::new(), |key| format!(" {key}")),
            text(&pool["ring"]["fingerprint"]),
            percent(pool["ring"]["moved_ratio"].as_f64()),
        );
        out.push_str(&discovery(&pool["discovery"]));
        out.push_str(&keys(&pool["keys"]));
        out.push_str(&caches(&pool["cache"]));
        out.push_str(&origins(pool, colour));
    }
    out
}

/// A route that is shared out over pools.
fn split(route: &str, one: &Value) -> String {
    let share = |to: &Value| format!("{} {}", percent(to["share"].as_f64()), text(&to["pool"]));
    let to: Vec<_> = one["to"].as_array().into_iter().flatten().map(share).collect();
    format!("route {route} shared out by {}: {}\n", text(&one["key"]), to.join(", "))
}

/// Where the origins come from, when they are not written.
fn discovery(found: &Value) -> String {
    let Some(dns) = found["dns"].as_str() else { return String::new() };
    let answered = match found["answered"].as_f64() {
        Some(ago) => format!("answered {} ago", span(Some(ago))),
        None => "never answered".to_owned(),
    };
    let failure = found["failure"].as_str().map_or_else(String::new, |why| format!("; {why}"));
    format!("found by DNS: {dns}, {answered}{failure}\n")
}

/// A change that waits to be confirmed.
fn confirm(waits: &Value) -> String {
    let note = waits["note"].as_str().map_or_else(String::new, |note| format!("\n{note}"));
    let told = match waits["left"].as_f64() {
        Some(left) => format!("goes back in {} unless it is confirmed", span(Some(left))),
        None => {
            let names: Vec<_> = waits["waits_for"].as_array().into_iter().flatten().map(text).collect();
            let within = span(waits["within"].as_f64());
            format!("goes back {within} after these have joined, unless it is confirmed: {}", names.join(", "))
        }
    };
    told + &note
}

/// A text that is or was in force.
fn history(one: &Value) -> String {
    let moved = one["moved_ratio"].as_object().into_iter().flatten();
    let moved = moved.map(|(pool, ratio)| format!(", moved {} of {pool}", percent(ratio.as_f64())));
    let ended = match (one["ended"].as_str(), one["why"].as_str()) {
        (None, _) => "in force".to_owned(),
        (Some(ended), None) => ended.replace('_', " "),
        (Some(ended), Some(why)) => format!("{}: {why}", ended.replace('_', " ")),
    };
    let (version, digest) = (number(&one["version"]), short(text(&one["digest"])));
    format!("  {version} ({digest}) since {}{}, {ended}", text(&one["since"]), moved.collect::<String>())
}

/// What it is asked for, if it is asked for anything.
fn keys(keys: &Value) -> String {
    let Some(distinct) = keys["distinct"].as_u64().filter(|distinct| *distinct > 0) else { return String::new() };
    let mut line = format!("keys: {distinct} distinct, {} seen once", percent(keys["seen_once_ratio"].as_f64()));
    if let Some(hottest) = keys["top"].get(0) {
        line.push_str(&format!(", hottest {} ({})", text(&hottest["key"]), percent(hottest["share"].as_f64())));
    }
    if let Some(moved) = keys["moved_ratio"].as_f64() {
        line.push_str(&format!(", {} moved by the last change", percent(Some(moved))));
    }
    let displaced: f64 =
        keys["displaced"].as_object().into_iter().flatten().filter_map(|(_, part)| part.as_f64()).sum();
    if displaced > 0.0 {
        line.push_str(&format!(", {} away from their owner", percent(Some(displaced))));
    }
    let warning = keys["warning"].as_str().map_or(String::new(), |warning| format!("warning: {warning}\n"));
    format!("{line}\n{warning}")
}

/// What the origins say of their caches, if anybody looks.
fn caches(cache: &Value) -> String {
    let Some(now) = cache["hit_ratio"].as_f64() else { return String::new() };
    let before = cache["hit_ratio_before"].as_f64();
    let before =
        before.map_or_else(String::new, |before| format!(", {} before the last change", percent(Some(before))));
    format!("caches of the origins: {} hits{before}\n", percent(Some(now)))
}

fn origins(pool: &Value, colour: bool) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(COLUMNS.map(|(heading, _)| heading));
    let mut states = Vec::new();
    for (name, origin) in pool["origins"].as_object().into_iter().flatten() {
        table.add_row(row(name, origin));
        states.push(text(&origin["state"]));
    }
    for (index, (_, alignment)) in COLUMNS.iter().enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(*alignment);
        }
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let at = lines.first().and_then(|heading| heading.find("STATE")).unwrap_or(0);
    let mut out = String::new();
    for (number, line) in lines.iter().enumerate() {
        match number.checked_sub(1).and_then(|row| states.get(row)) {
            Some(state) if colour => out.push_str(&coloured(line, at, state)),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

fn row(name: &str, origin: &Value) -> [String; 11] {
    let weight = &origin["weight"];
    let (configured, effective) = (number(&weight["configured"]), number(&weight["effective"]));
    let probe = &origin["last_probe"];
    [
        name.to_owned(),
        text(&origin["state"]).to_owned(),
        if configured == effective { configured } else { format!("{effective} of {configured}") },
        percent(origin["share"].as_f64()),
        number(&origin["in_flight"]),
        number(&origin["requests"]),
        percent(origin["error_ratio"].as_f64()),
        time(origin["p50"].as_f64()),
        time(origin["p99"].as_f64()),
        match probe["result"].as_str() {
            Some(result) => format!("{result}, {} ago", span(probe["age"].as_f64())),
            None => "-".to_owned(),
        },
        why(origin),
    ]
}

/// Why it is in its state, and where it moves to if it does.
fn why(origin: &Value) -> String {
    let (why, to) = (text(&origin["why"]), &origin["moving_to"]);
    match to["why"].as_str() {
        Some(proven) => format!("{why}; moving to {}: {proven}", text(&to["address"])),
        None => why.to_owned(),
    }
}

/// The line with the state at its place in a colour of its own.
fn coloured(line: &str, at: usize, state: &str) -> String {
    let style = Style::new().fg_color(Some(match state {
        "up" => AnsiColor::Green.into(),
        "down" => AnsiColor::Red.into(),
        _ => AnsiColor::Yellow.into(),
    }));
    // Columns are counted in characters, and a name may hold others than ASCII.
    let from = line.char_indices().nth(at).map_or(line.len(), |(index, _)| index);
    match line[from..].strip_prefix(state) {
        Some(rest) => format!("{}{style}{state}{style:#}{rest}", &line[..from]),
        None => line.to_owned(),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}

/// A number without a needless fraction.
fn number(value: &Value) -> String {
    figures::number(value.as_f64())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status() -> Value {
        json!({
            "generation": 1, "uptime": 7384.2, "config": { "version": 3, "digest": "0123456789abcdef" },
            "pools": { "origin": {
                "algorithm": "hash", "key": "{host}{path}{args}", "panic": "keep", "short": true,
                "ring": { "fingerprint": "00112233aabbccdd", "moved_ratio": 0.25 },
                "origins": {
                    "10.0.0.1:80": {
                        "state": "up", "why": "probes pass", "weight": { "configured": 1, "effective": 1.0 },
                        "share": 0.5, "in_flight": 3, "requests": 1200, "error_ratio": 0.001, "p50": 0.0021,
                        "p99": 1.5, "last_probe": { "result": "good", "age": 1.25 },
                    },
                    "b": {
                        "state": "down", "why": "refused", "moving_to": { "address": "10.0.0.9:80", "why": "1 of 2 good probes" }, "weight": { "configured": 2, "effective": 0.0 },
                        "share": 0.5, "in_flight": 0, "requests": 0, "error_ratio": null, "p50": null,
                        "p99": null, "last_probe": null,
                    },
                },
            } },
        })
    }

    #[test]
    fn a_pool_is_a_table() {
        let expected = "\
up 2h 3m, generation 1, config version 3 (0123456789ab)

pool origin: hash {host}{path}{args}, ring 00112233aabbccdd, 25.0% moved by the last change, short
 ORIGIN       STATE  WEIGHT  SHARE  IN FLIGHT  REQUESTS  ERRORS    P50    P99  LAST PROBE      WHY
 10.0.0.1:80  up          1  50.0%          3      1200    0.1%  2.1ms  1.50s  good, 1.2s ago  probes pass
 b            down   0 of 2  50.0%          0         0       -      -      -  -               refused; moving to 10.0.0.9:80: 1 of 2 good probes
";
        assert_eq!(show(&status(), false), expected);
    }

    #[test]
    fn a_route_that_is_shared_out_is_a_line() {
        let mut status = status();
        let to = json!([{ "pool": "gray", "share": 0.05 }, { "pool": "stable", "share": 0.95 }]);
        status["splits"] = json!({ "web": { "key": "{client_ip}", "to": to } });
        let shown = show(&status, false);
        assert_eq!(shown.lines().nth(1), Some("route web shared out by {client_ip}: 5.0% gray, 95.0% stable"));
    }

    #[test]
    fn h1_intervals_that_stretch_are_told() {
        let mut status = status();
        status["probes_stretched"] = true.into();
        let shown = show(&status, false);
        assert_eq!(
            shown.lines().nth(1),
            Some("more probes are due than may run: intervals are longer than configured")
        );
    }

    #[test]
    fn texts_before_are_told_with_their_end() {
        let mut status = status();
        let since = "2026-11-30T00:53:20.250Z";
        status["config"]["history"] = json!([
            { "version": 3, "digest": "0123456789abcdef", "since": since, "moved_ratio": {}, "ended": null, "why": null },
            { "version": 2, "digest": "ab", "since": since, "moved_ratio": { "p": 0.25 }, "ended": "reverted", "why": "no word" },
            { "version": 1, "digest": "cd", "since": since, "moved_ratio": {}, "ended": "rolled_back", "why": null },
        ]);
        let expected = format!(
            "  3 (0123456789ab) since {since}, in force\n  2 (ab) since {since}, moved 25.0% of p, reverted: no word\n  \
             1 (cd) since {since}, rolled back\n\npool origin"
        );
        let shown = show(&status, false);
        assert!(shown.contains(&expected), "{shown}");
        status["config"]["history"].as_array_mut().unwrap().truncate(1);
        assert!(!show(&status, false).contains("in force"), "nothing came before");
    }

    #[test]
    fn what_waits_for_a_confirm_is_told_with_its_time() {
        let mut status = status();
        status["config"]["confirm"] = json!({ "within": 60.0, "left": 42.0, "waits_for": [], "note": null });
        assert!(show(&status, false).contains("\ngoes back in 42.0s unless it is confirmed\n"));
        status["config"]["confirm"]["note"] = "all fail".into();
        assert!(show(&status, false).contains("it is confirmed\nall fail\n"));
        status["config"]["confirm"] =
            json!({ "within": 60.0, "left": null, "waits_for": ["p/a", "p/b"], "note": null });
        let told = "goes back 1m 0s after these have joined, unless it is confirmed: p/a, p/b";
        assert!(show(&status, false).contains(told), "{}", show(&status, false));
    }

    #[test]
    fn keys_are_told_in_a_line_and_what_is_wrong_with_them_in_another() {
        assert_eq!(keys(&json!({ "distinct": 0 })), "");
        let some = json!({
            "distinct": 40, "seen_once_ratio": 0.25, "top": [{ "key": "/hot", "share": 0.5 }, { "key": "/b", "share": 0.1 }],
            "moved_ratio": 0.3, "displaced": { "down": 0.1, "ramp": 0.05 }, "warning": "few",
        });
        assert_eq!(
            keys(&some),
            "keys: 40 distinct, 25.0% seen once, hottest /hot (50.0%), 30.0% moved by the last change, \
             15.0% away from their owner\nwarning: few\n"
        );
    }

    #[test]
    fn caches_are_told_before_and_after_a_change() {
        assert_eq!(caches(&Value::Null), "");
        let said = caches(&json!({ "hit_ratio": 0.61, "hit_ratio_before": 0.9 }));
        assert_eq!(said, "caches of the origins: 61.0% hits, 90.0% before the last change\n");
        assert_eq!(
            caches(&json!({ "hit_ratio": 1.0, "hit_ratio_before": null })),
            "caches of the origins: 100.0% hits\n"
        );
    }

    #[test]
    fn where_origins_are_found_is_told_and_why_they_are_not() {
        assert_eq!(discovery(&Value::Null), "");
        let some = |answered: Value, failure: Value| {
            discovery(&json!({ "dns": "o.test", "identity": "address", "answered": answered, "failure": failure }))
        };
        assert_eq!(some(2.5.into(), Value::Null), "found by DNS: o.test, answered 2.5s ago\n");
        let never = some(Value::Null, "there is no such name".into());
        assert_eq!(never, "found by DNS: o.test, never answered; there is no such name\n");
    }

    #[test]
    fn only_the_state_is_coloured_and_nothing_moves() {
        let plain = show(&status(), false);
        let colourful = show(&status(), true);
        assert!(colourful.contains("\u{1b}[31mdown\u{1b}[0m"));
        let mut stripped = colourful;
        for code in ["\u{1b}[31m", "\u{1b}[32m", "\u{1b}[0m"] {
            stripped = stripped.replace(code, "");
        }
        assert_eq!(stripped, plain);
    }
}
