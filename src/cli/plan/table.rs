//! A plan for people: a few lines on each pool, then who gives keys to whom, and who has how much.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::report::{CauseReport, EditReport, Extra, GuardReport, PairReport, PoolReport, Report, Shares};

/// Rows of one table at most; `--json` has all.
const ROWS: usize = 12;

/// All of it; with colours for a terminal.
pub(super) fn show(report: &Report, colour: bool) -> String {
    let mut out = Lines { text: String::new(), colour };
    for (name, pool) in &report.pools {
        if !out.text.is_empty() {
            out.text.push('\n');
        }
        out.pool(name, pool, report.source);
    }
    out.rest(report);
    out.text
}

struct Lines {
    text: String,
    colour: bool,
}

impl Lines {
    fn pool(&mut self, name: &str, pool: &PoolReport, source: &str) {
        let from = match source {
            "generated" => ", made up",
            "access_log" => " of the access log",
            "sample" => " of the running gateway",
            _ => "",
        };
        let about = if pool.one_of > 1 { "about " } else { "" };
        self.line(&format!("pool {name}"), &format!("{about}{} keys{from}", grouped(pool.keys)));
        let requests = &pool.requests;
        let of_requests = match (source, requests.total) {
            ("generated", _) | (_, 0) => String::new(),
            _ => format!(", {} of {} requests", percent(requests.moved_ratio), grouped(requests.total)),
        };
        self.line("moved", &format!("{} keys ({}){of_requests}", grouped(pool.moved), percent(pool.moved_ratio)));
        let least = format!("{} has to move for the new shares", percent(pool.least_possible));
        self.line("least", &format!("{least}; of the circle {} does", percent(pool.circle)));
        self.line("excess", &format!("{:.1} points", pool.excess * 100.0));
        if requests.spread > 0 {
            self.line("spread", &format!("{} requests have no key and go anywhere", grouped(requests.spread)));
        }
        pool.causes.iter().for_each(|cause| self.cause(cause));
        pool.guard.iter().for_each(|guard| self.guard(guard));
        pool.extra_origin_requests.iter().for_each(|extra| self.extra(extra));
        self.pairs(pool);
        self.shares(pool);
    }

    fn line(&mut self, label: &str, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{label:<11} {text}");
    }

    fn coloured(&self, text: &str, colour: AnsiColor) -> String {
        let style = Style::new().fg_color(Some(colour.into()));
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    fn cause(&mut self, cause: &CauseReport) {
        let (what, instead, moved) = match cause {
            CauseReport::Argument { argument, requests, distinct, line, moved_ratio, now, then, keys } => {
                let share =
                    format!("in {} of the requests, {} of its values distinct", percent(*requests), percent(*distinct));
                self.line("likely why", &format!("argument {argument}: {share}"));
                self.line("", &format!("what is asked for meets another origin {} of the time,", percent(*now)));
                let keys = format!("{} of {} keys move then", percent(*moved_ratio), grouped(*keys));
                return self.line("", &format!("with {line} {}; {keys}", percent(*then)));
            }
            CauseReport::Renamed { spelling, origins, lines, moved_ratio } => {
                let names: Vec<String> = origins.iter().map(|[old, new]| format!("{old} is {new} now")).collect();
                let why = match *spelling {
                    "loopback" => "the same machine",
                    "port" => "a port in one name alone",
                    _ => "the same address",
                };
                (format!("{}: {why}, another name, other keys", listed(&names)), listed(lines), moved_ratio)
            }
            CauseReport::Rescaled { factor, lines, moved_ratio } => {
                (format!("all weights are {factor} times what they were"), listed(lines), moved_ratio)
            }
            CauseReport::Key { setting, before, after, moved_ratio } => {
                (format!("{setting} was {before}, is {after}: other keys for everything"), before.clone(), moved_ratio)
            }
        };
        self.line("likely why", &what);
        self.line("", &format!("with {instead} {} of the circle moves", percent(*moved)));
    }

    fn guard(&mut self, guard: &GuardReport) {
        let limit = format!("max_moved {}", percent(guard.max_moved));
        if !guard.refused {
            let passes = self.coloured("passes", AnsiColor::Green);
            return self.line("guard", &format!("{passes}: {} is within {limit}", percent(guard.moved)));
        }
        let refused = self.coloured("refused", AnsiColor::Red);
        self.line("guard", &format!("{refused}: {} is above {limit}", percent(guard.moved)));
        match &guard.step {
            Some(step) => {
                let edits: Vec<String> = step.origins.iter().map(edit).collect();
                self.line("", &format!("a step that passes: {} ({})", listed(&edits), percent(step.moved)));
            }
            None => self.line("", "no step towards it passes"),
        }
    }

    fn extra(&mut self, extra: &Extra) {
        let (before, after) = (percent(extra.missed_before), percent(extra.missed_after));
        let times = if extra.missed_before > 0.0 {
            format!(", {:.1} times as many", extra.missed_after / extra.missed_before)
        } else {
            String::new()
        };
        self.line("misses", &format!("{before} of the requests now, {after} right after the change{times}"));
        if let Some(requests) = extra.requests {
            self.line("", &format!("about {} more until every moved key was fetched once", grouped(requests)));
        }
    }

    fn pairs(&mut self, pool: &PoolReport) {
        if pool.pairs.is_empty() {
            return;
        }
        let row = |pair: &PairReport| [pair.from.clone(), pair.to.clone(), grouped(pair.keys), grouped(pair.requests)];
        let rows = pool.pairs.iter().take(ROWS).map(row);
        self.table(["FROM", "TO", "KEYS", "REQUESTS"], 2, rows);
        if let Some(rest) = pool.pairs.get(ROWS..).filter(|rest| !rest.is_empty()) {
            let keys: u64 = rest.iter().map(|pair| pair.keys).sum();
            let _ = writeln!(self.text, " and {} pairs more with {} keys", grouped(rest.len() as u64), grouped(keys));
        }
    }

    fn shares(&mut self, pool: &PoolReport) {
        let change = |shares: &Shares| (shares.after - shares.before).abs();
        let mut all: Vec<_> = pool.shares.iter().collect();
        let left = all.len().saturating_sub(ROWS);
        if left > 0 {
            all.sort_by(|(_, a), (_, b)| change(b).total_cmp(&change(a)));
        }
        let row = |(name, shares): (&String, &Shares)| {
            let points = (shares.after - shares.before) * 100.0;
            [name.clone(), percent(shares.before), percent(shares.after), format!("{points:+.1}")]
        };
        self.table(["ORIGIN", "BEFORE", "AFTER", "POINTS"], 1, all.into_iter().take(ROWS).map(row));
        if left > 0 {
            let _ = writeln!(self.text, " and {} origins more that change less", grouped(left as u64));
        }
    }

    /// With the first columns on the left and the others on the right.
    fn table(&mut self, headings: [&str; 4], left: usize, rows: impl Iterator<Item = [String; 4]>) {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(headings);
        rows.for_each(|row| _ = table.add_row(row));
        for index in left..headings.len() {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.text.push('\n');
        for line in table.lines() {
            let _ = writeln!(self.text, "{}", line.trim_end());
        }
    }

    fn rest(&mut self, report: &Report) {
        let mut notes = Vec::new();
        let named = |names: &[String]| names.join(", ");
        if !report.added.is_empty() {
            notes.push(("new", format!("pools without a before: {}", named(&report.added))));
        }
        if !report.removed.is_empty() {
            notes.push(("gone", format!("pools without an after: {}", named(&report.removed))));
        }
        for rerouted in &report.rerouted {
            let what = format!("{} requests go to pool {} now", grouped(rerouted.requests), rerouted.to);
            notes.push(("rerouted", format!("{what}, not to {}", rerouted.from)));
        }
        if report.elsewhere > 0 {
            notes.push(("elsewhere", format!("{} requests go to no pool looked at here", grouped(report.elsewhere))));
        }
        if report.unknown > 0 {
            let what = "requests have a key that hangs on what this source does not tell";
            notes.push(("unknown", format!("{} {what}", grouped(report.unknown))));
        }
        if let Some(first) = &report.first_skipped {
            notes.push(("skipped", format!("{} lines could not be read, the first {first}", grouped(report.skipped))));
        }
        if !notes.is_empty() && !self.text.is_empty() {
            self.text.push('\n');
        }
        notes.iter().for_each(|(label, text)| self.line(label, text));
        if report.pools.is_empty() {
            self.line("nothing", "no pool is in both files");
        }
    }
}

fn edit(edit: &EditReport) -> String {
    match (edit.before, edit.after) {
        (0, 1) => format!("add {}", edit.name),
        (0, weight) => format!("add {} with weight {weight}", edit.name),
        (_, 0) => format!("remove {}", edit.name),
        (_, weight) => format!("give {} weight {weight}", edit.name),
    }
}

/// Some of them, and how many more.
fn listed(all: &[String]) -> String {
    const SOME: usize = 6;
    let shown = all.iter().take(SOME).map(String::as_str).collect::<Vec<_>>().join(", ");
    if all.len() > SOME { format!("{shown} and {} more", all.len() - SOME) } else { shown }
}

fn percent(ratio: f64) -> String {
    format!("{:.1}%", ratio * 100.0)
}

/// A number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_groups() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), expected);
        }
    }

    #[test]
    fn a_step_is_told_by_what_to_write() {
        let told = |before, after| edit(&EditReport { name: "a:80".into(), before, after });
        assert_eq!(told(0, 1), "add a:80");
        assert_eq!(told(0, 3), "add a:80 with weight 3");
        assert_eq!(told(2, 0), "remove a:80");
        assert_eq!(told(2, 5), "give a:80 weight 5");
    }
}
