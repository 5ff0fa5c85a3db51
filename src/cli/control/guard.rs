//! What a guard refused, for people: the part that would move, from whom to whom, and the step that would pass.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::Value;

/// Rows of a table at most.
const ROWS: usize = 10;

/// The lines about these pools.
pub(super) fn told(pools: &Value) -> Vec<String> {
    pools.as_object().into_iter().flatten().flat_map(|(name, pool)| one(name, pool)).collect()
}

fn one(name: &str, pool: &Value) -> Vec<String> {
    let guard = &pool["guard"];
    let mut lines = vec![format!(
        "pool {name}: {} would move, guard.max_moved is {}",
        percent(&guard["moved"]),
        percent(&guard["max_moved"])
    )];
    let (least, moves) = (percent(&pool["least_possible"]), percent(&pool["moved_ratio"]));
    lines.push(format!("{moves} of the hash circle gets another owner, {least} is the least possible"));
    let pairs = pool["pairs"].as_array().map_or(&[][..], Vec::as_slice);
    let row = |pair: &Value| vec![text(&pair["from"]), text(&pair["to"]), percent(&pair["share"])];
    lines.extend(table(["FROM", "TO", "OF ALL"].as_slice(), 2, pairs.iter().map(row).collect()));
    let mut shares: Vec<_> = pool["shares"].as_object().into_iter().flatten().collect();
    // Stable: those that change alike stay in the order of their names.
    shares.sort_by(|(_, a), (_, b)| change(b).abs().total_cmp(&change(a).abs()));
    let row = |(name, share): (&String, &Value)| {
        let points = format!("{:+.1}", change(share) * 100.0);
        vec![name.clone(), percent(&share["before"]), percent(&share["after"]), points]
    };
    lines.extend(table(["ORIGIN", "BEFORE", "AFTER", "POINTS"].as_slice(), 1, shares.into_iter().map(row).collect()));
    lines.push(step(&guard["step"]));
    lines
}

fn step(step: &Value) -> String {
    let Some(edits) = step["origins"].as_array() else {
        return "no step passes now: what moved in the last ten minutes counts, and a changed key is everything".into();
    };
    let edits: Vec<String> = edits.iter().map(edit).collect();
    format!("a step that passes: {} ({})", edits.join(", "), percent(&step["moved"]))
}

fn edit(edit: &Value) -> String {
    let name = text(&edit["name"]);
    match (edit["before"].as_u64(), edit["after"].as_u64().unwrap_or_default()) {
        (Some(0), 1) => format!("add {name}"),
        (Some(0), weight) => format!("add {name} with weight {weight}"),
        (_, 0) => format!("remove {name}"),
        (_, weight) => format!("give {name} weight {weight}"),
    }
}

/// With the first columns on the left and the others on the right; nothing without rows.
fn table(headings: &[&str], left: usize, rows: Vec<Vec<String>>) -> Vec<String> {
    let more = rows.len().saturating_sub(ROWS);
    if rows.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings);
    rows.into_iter().take(ROWS).for_each(|row| _ = table.add_row(row));
    for index in left..headings.len() {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    if more > 0 {
        lines.push(format!(" and {more} more"));
    }
    lines
}

fn change(share: &Value) -> f64 {
    share["after"].as_f64().unwrap_or_default() - share["before"].as_f64().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").to_owned()
}

fn percent(ratio: &Value) -> String {
    ratio.as_f64().map_or_else(|| "-".into(), |ratio| format!("{:.1}%", ratio * 100.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_shows_who_gives_whom_how_much_and_the_step_that_passes() {
        let pools = json!({ "origin": {
            "moved_ratio": 0.3842, "least_possible": 0.33,
            "pairs": [{ "from": "a:80", "to": "c:80", "share": 0.25 }, { "from": "b:80", "to": "c:80", "share": 0.1342 }],
            "shares": {
                "a:80": { "before": 0.5, "after": 0.25 }, "b:80": { "before": 0.5, "after": 0.3658 },
                "c:80": { "before": 0.0, "after": 0.3842 },
            },
            "guard": {
                "max_moved": 0.2, "moved": 0.3842, "refused": true,
                "step": { "moved": 0.182, "origins": [{ "name": "c:80", "before": 0, "after": 1 }] },
            },
        } });
        let expected = "\
pool origin: 38.4% would move, guard.max_moved is 20.0%
38.4% of the hash circle gets another owner, 33.0% is the least possible
 FROM  TO    OF ALL
 a:80  c:80   25.0%
 b:80  c:80   13.4%
 ORIGIN  BEFORE  AFTER  POINTS
 c:80      0.0%  38.4%   +38.4
 a:80     50.0%  25.0%   -25.0
 b:80     50.0%  36.6%   -13.4
a step that passes: add c:80 (18.2%)";
        assert_eq!(told(&pools).join("\n"), expected);
    }

    #[test]
    fn long_tables_are_cut_and_a_step_that_is_not_there_is_said() {
        let pairs: Vec<Value> = (0..30).map(|n| json!({ "from": n.to_string(), "to": "x", "share": 0.01 })).collect();
        let told = told(&json!({ "p": { "pairs": pairs, "guard": { "step": null } } }));
        assert!(told.contains(&" and 20 more".to_owned()), "{told:?}");
        assert!(told.last().unwrap().starts_with("no step passes now"), "{told:?}");
    }
}
