//! Which keys are asked for most? `key --top`, by the status of the running gateway.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::{Value, json};

use super::key::which;
use crate::config::units::Percent;

/// The hottest keys of a pool, the only one if none is named.
pub(super) fn show(status: &Value, pool: Option<&str>, as_json: bool) -> anyhow::Result<String> {
    let pools = status["pools"].as_object();
    let names: Vec<&str> = pools.into_iter().flat_map(|pools| pools.keys().map(String::as_str)).collect();
    let found = match (pool, names.as_slice()) {
        (None, [only]) => Some(*only),
        (pool, _) => pool,
    };
    let Some((name, pool)) = found.and_then(|name| Some((name, pools?.get(name)?))) else {
        return Err(which(pool, &names));
    };
    let keys = &pool["keys"];
    if as_json {
        let told =
            ["distinct", "seen_once_ratio", "top", "warning"].map(|field| (field.to_owned(), keys[field].clone()));
        return Ok(format!("{}\n", json!(Value::Object(told.into_iter().collect()))));
    }
    let percent = |ratio: &Value| Percent::told(ratio.as_f64().unwrap_or_default());
    let once = percent(&keys["seen_once_ratio"]);
    let mut out = format!("pool {name}: {} distinct keys lately, {once} of them seen once\n", keys["distinct"]);
    if let Some(warning) = keys["warning"].as_str() {
        out.push_str(&format!("warning: {warning}\n"));
    }
    let top = keys["top"].as_array().filter(|top| !top.is_empty());
    out.push_str(&top.map_or_else(String::new, |top| table(top, percent)));
    Ok(out)
}

fn table(top: &[Value], percent: impl Fn(&Value) -> String) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["REQUESTS", "SHARE", "OWNER", "KEY"]);
    for key in top {
        let (requests, share) = (key["requests"].to_string(), percent(&key["share"]));
        table.add_row([requests, share, text(&key["owner"]), harmless(&text(&key["key"]))]);
    }
    for column in 0..2 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A text of a client's, for a terminal: what would steer it, or turn its line around, is spelled out.
pub(super) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\'' | '\\' => out.push(letter),
            _ => out.extend(letter.escape_debug()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Usage;

    fn status() -> Value {
        let top = json!([
            { "key": "/hot", "requests": 900, "share": 0.9, "owner": "10.0.0.1:80" },
            { "key": "/b", "requests": 7, "share": 0.007, "owner": null },
        ]);
        let keys = json!({ "distinct": 2, "seen_once_ratio": 0.5, "top": top, "warning": "few" });
        json!({ "pools": { "p": { "keys": keys }, "q": { "keys": { "distinct": 0, "top": [] } } } })
    }

    #[test]
    fn the_hottest_keys_are_a_table() {
        let expected = "\
pool p: 2 distinct keys lately, 50.0% of them seen once
warning: few
 REQUESTS  SHARE  OWNER        KEY
      900  90.0%  10.0.0.1:80  /hot
        7   0.7%  -            /b
";
        assert_eq!(show(&status(), Some("p"), false).unwrap(), expected);
        assert_eq!(
            show(&status(), Some("q"), false).unwrap(),
            "pool q: 0 distinct keys lately, 0.0% of them seen once\n"
        );
    }

    #[test]
    fn a_key_cannot_steer_the_terminal() {
        assert_eq!(harmless("/a\u{9b}31m\u{1b}[2J\u{202e}b\n"), "/a\\u{9b}31m\\u{1b}[2J\\u{202e}b\\n");
        assert_eq!(harmless("/é\"'\\ü"), "/é\"'\\ü");
    }

    #[test]
    fn json_is_what_the_status_says() {
        let said: Value = serde_json::from_str(&show(&status(), Some("p"), true).unwrap()).unwrap();
        assert_eq!((&said["distinct"], &said["top"][0]["key"]), (&json!(2), &json!("/hot")));
    }

    #[test]
    fn which_pool_is_asked_when_it_is_not_said() {
        for (pool, said) in
            [(None, "say which pool: --pool p | q"), (Some("shadow"), "no pool \"shadow\", there is p, q")]
        {
            let error = show(&status(), pool, false).unwrap_err();
            assert!(error.is::<Usage>());
            assert_eq!(error.to_string(), said);
        }
    }
}
