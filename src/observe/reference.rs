//! The tables of docs/metrics.md, made of what is registered: name, kind, labels, unit and meaning of each metric. What
//! stands between them and which table a metric stands in is the document's own.

use std::collections::BTreeMap;

use super::book::{Book, Described};
use super::metrics::Metrics;
use crate::config::generated;

const PAGE: &str = "docs/metrics.md";

const HEAD: &str = "| metric | kind | labels | unit | what it says |\n|---|---|---|---|---|\n";

/// By what its name ends with; a count of what it is named after has none.
fn unit(name: &str) -> &'static str {
    let name = name.trim_end_matches("_total");
    let units = [("_timestamp_seconds", "s since 1970"), ("_seconds", "s"), ("_bytes", "bytes"), ("_ratio", "0 to 1")];
    let units =
        units.into_iter().chain([("_share", "0 to 1"), ("_up", "0, 1"), ("_short", "0, 1"), ("_drift", "0, 1")]);
    units.into_iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

fn row(metric: &Described) -> String {
    let Described { name, kind, labels, help } = metric;
    let labels = labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
    let kind = format!("{kind:?}").to_lowercase();
    assert!(!help.contains(['|', '\n']), "{name}: {help}");
    format!("| `{name}` | {kind} | {labels} | {} | {help} |\n", unit(name))
        .replace("|  |", "| |")
        .replace("|  |", "| |")
}

fn page(there: &str, metrics: Vec<Described>) -> String {
    let mut left: BTreeMap<&str, Described> = metrics.into_iter().map(|metric| (metric.name, metric)).collect();
    let mut out = String::new();
    let mut lines = there.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("| metric |") {
            out += HEAD;
            // what is below the head
            lines.next();
        } else if let Some(rest) = line.strip_prefix("| `moorgate_") {
            let name = format!("moorgate_{}", rest.split('`').next().unwrap_or_default());
            out += &left.remove(name.as_str()).map(|metric| row(&metric)).unwrap_or_default();
        } else {
            out += &format!("{line}\n");
        }
    }
    let missing: Vec<_> = left.keys().collect();
    assert!(missing.is_empty(), "{PAGE} has no line that begins with | `NAME` in any of its tables for {missing:?}");
    out
}

#[test]
fn the_reference_of_metrics_says_what_the_code_says() {
    let book = Book::default();
    let _metrics = Metrics::registered(&book).unwrap();
    let described = book.described();
    assert!(described.len() > 35, "{}", described.len());
    generated::holds(PAGE, &page(&generated::read(PAGE), described));
}
