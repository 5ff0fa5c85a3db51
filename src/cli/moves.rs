//! What a change moves, for people: the lines and tables that `plan` and a refused reload have in common.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::bars;
use super::top::harmless;
use crate::config::units::Percent;
use crate::lifecycle::Guarded;

/// Rows of one table at most; `--json` has all.
pub(super) const ROWS: usize = 12;

/// What is said, growing line by line.
pub(super) struct Lines {
    text: String,
    colour: bool,
}

impl Lines {
    /// Nothing said yet; with colours for a terminal.
    pub(super) fn new(colour: bool) -> Self {
        Self { text: String::new(), colour }
    }

    /// All of it.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// An empty line, unless it would be the first.
    pub(super) fn gap(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// A line with its label.
    pub(super) fn line(&mut self, label: &str, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{label:<11} {text}");
    }

    /// What has to move, beside what does; parts of the hash circle.
    pub(super) fn least(&mut self, least: f64, circle: f64) {
        let has_to = format!("{} has to move for the new shares", Percent::told(least));
        self.line("least", &format!("{has_to}; of the circle {} does", Percent::told(circle)));
    }

    /// What a guard says, and the step that would pass.
    pub(super) fn guard(&mut self, guard: &Guarded) {
        let limit = format!("max_moved {}", Percent::told(guard.max_moved));
        if !guard.refused {
            let passes = self.coloured("passes", AnsiColor::Green);
            return self.line("guard", &format!("{passes}: {} is within {limit}", Percent::told(guard.moved)));
        }
        let refused = self.coloured("refused", AnsiColor::Red);
        self.line("guard", &format!("{refused}: {} is above {limit}", Percent::told(guard.moved)));
        match &guard.step {
            Some(step) => {
                let edits: Vec<String> = step.origins.iter().map(ToString::to_string).collect();
                self.line("", &format!("a step that passes: {} ({})", listed(&edits), Percent::told(step.moved)));
            }
            None => self.line("", "no step towards it passes"),
        }
    }

    /// From whom to whom, by these columns, and a bar for what `row` says last of each; `left_out` says what the rows
    /// that are not shown come to.
    pub(super) fn pairs<T>(
        &mut self,
        columns: &[&str],
        pairs: &[T],
        row: impl Fn(&T) -> (Vec<String>, f64),
        left_out: impl Fn(&[T]) -> String,
    ) {
        if pairs.is_empty() {
            return;
        }
        let shown: Vec<_> = pairs.iter().take(ROWS).map(row).collect();
        let greatest = shown.iter().map(|(_, size)| *size).fold(0.0, f64::max);
        let rows = shown.into_iter().map(|(mut cells, size)| {
            cells.push(bars::part(size, greatest));
            cells
        });
        self.table(&[&["FROM", "TO"], columns, &[""]].concat(), 2, rows);
        if let Some(rest) = pairs.get(ROWS..).filter(|rest| !rest.is_empty()) {
            let _ = writeln!(self.text, " and {} pairs more with {}", grouped(rest.len() as u64), left_out(rest));
        }
    }

    /// What each owns of the hash circle, before and after; of many those that change most.
    pub(super) fn shares<'a>(&mut self, shares: impl Iterator<Item = (&'a str, f64, f64)>) {
        let mut all: Vec<_> = shares.collect();
        if all.is_empty() {
            return;
        }
        let left = all.len().saturating_sub(ROWS);
        if left > 0 {
            let change = |before: f64, after: f64| (after - before).abs();
            all.sort_by(|(_, b0, b1), (_, a0, a1)| change(*a0, *a1).total_cmp(&change(*b0, *b1)));
        }
        all.truncate(ROWS);
        let greatest = all.iter().map(|(_, before, after)| before.max(*after)).fold(0.0, f64::max);
        let row = |(name, before, after): (&str, f64, f64)| {
            vec![
                harmless(name),
                Percent::told(before),
                Percent::told(after),
                format!("{:+.1}", (after - before) * 100.0),
                bars::change(before, after, greatest),
            ]
        };
        self.table(&["ORIGIN", "BEFORE", "AFTER", "POINTS", bars::LEGEND], 1, all.into_iter().map(row));
        if left > 0 {
            let _ = writeln!(self.text, " and {} origins more that change less", grouped(left as u64));
        }
    }

    fn coloured(&self, text: &str, colour: AnsiColor) -> String {
        let style = Style::new().fg_color(Some(colour.into()));
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// With the first columns on the left, the others on the right, and bars at the end.
    fn table(&mut self, headings: &[&str], left: usize, rows: impl Iterator<Item = Vec<String>>) {
        let mut table = Table::new();
        table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(headings);
        rows.for_each(|row| _ = table.add_row(row));
        for index in left..headings.len() - 1 {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        self.text.push('\n');
        for (number, line) in table.lines().enumerate() {
            let line = line.trim_end();
            let line = if self.colour && number > 0 { bars::coloured(line) } else { line.to_owned() };
            let _ = writeln!(self.text, "{line}");
        }
    }
}

/// Some of them, and how many more.
pub(super) fn listed(all: &[String]) -> String {
    const SOME: usize = 6;
    let shown = all.iter().take(SOME).map(String::as_str).collect::<Vec<_>>().join(", ");
    if all.len() > SOME { format!("{shown} and {} more", all.len() - SOME) } else { shown }
}

/// A number in groups of three digits.
pub(super) fn grouped(number: u64) -> String {
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
    fn long_tables_are_cut_and_say_what_is_left_out() {
        let mut lines = Lines::new(false);
        let pairs: Vec<usize> = (0..30).collect();
        lines.pairs(
            &["KEYS"],
            &pairs,
            |n| (vec![n.to_string(), "x".into(), "1".into()], 1.0),
            |rest| format!("{} keys", rest.len()),
        );
        let names: Vec<String> = pairs.iter().map(ToString::to_string).collect();
        lines.shares(names.iter().zip(&pairs).map(|(name, n)| (name.as_str(), 0.0, *n as f64 / 100.0)));
        let text = lines.into_text();
        assert!(text.contains("\n and 18 pairs more with 18 keys\n"), "{text}");
        assert!(text.ends_with("\n and 18 origins more that change less\n"), "{text}");
        assert!(text.contains(&format!("\n 29        0.0%  29.0%   +29.0  {}\n", "▓".repeat(20))), "{text}");
    }
}
