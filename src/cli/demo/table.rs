//! How is it shown? A row a step, and below it, on a terminal, a table of the origins that is drawn anew in place.
//!
//! Lines are no longer than 79 columns, so that a redraw never meets a wrapped line. Making them is pure: [`row`],
//! [`origins`] and [`progress`] take numbers and answer text.

use anstyle::{AnsiColor, Color, Style};

use super::step::{Step, Window};
use crate::config::units::Percent;

/// Origins shown at most.
const SHOWN: usize = 16;
/// Columns of the longest bar.
const BAR: usize = 24;

/// Styles, or none of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint(pub(super) bool);

/// An origin at a moment.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    /// As the gateway shows it.
    pub(super) state: String,
    /// Requests a second.
    pub(super) rate: f64,
    /// Of these, from its cache.
    pub(super) hit_ratio: Option<f64>,
    /// Keys in its cache.
    pub(super) cached: usize,
}

impl Paint {
    fn with(self, color: AnsiColor, text: &str) -> String {
        self.styled(Style::new().fg_color(Some(Color::Ansi(color))), text)
    }

    /// Something to begin with.
    pub(super) fn bold(self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }

    /// Something that is wrong.
    pub(super) fn alarm(self, text: &str) -> String {
        self.styled(Style::new().bold().fg_color(Some(AnsiColor::Red.into())), text)
    }

    fn styled(self, style: Style, text: &str) -> String {
        if self.0 { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    fn state(self, state: &str) -> String {
        let padded = format!("{state:<9}");
        match state {
            "up" => self.with(AnsiColor::Green, &padded),
            "down" => self.with(AnsiColor::Red, &padded),
            _ => self.with(AnsiColor::Yellow, &padded),
        }
    }
}

/// What the columns of rows are.
pub(super) fn head(paint: Paint) -> String {
    let names = ["requests", "hits", "db/s", "moved", "least", "hash % n", "retries", "failures"];
    paint.bold(&columns("step", &names.map(str::to_owned)))
}

/// A step's figures, and what they mean.
pub(super) fn row(step: &Step, paint: Paint) -> String {
    let figures = columns(
        step.step,
        &[
            step.requests.to_string(),
            percent(step.hit_ratio),
            format!("{:.0}", step.database_queries as f64 / step.seconds.max(0.001)),
            percent(Some(step.moved_ratio)),
            percent(Some(step.least_possible)),
            percent(Some(step.modulo_moved_ratio)),
            step.retries.to_string(),
            step.failures.to_string(),
        ],
    );
    let told = step.told.lines().map(|line| format!("\n  {line}"));
    let broken = step.broken.iter().map(|what| format!("\n  {}", paint.alarm(&format!("NOT AS PROMISED: {what}"))));
    paint.bold(&figures) + &told.chain(broken).collect::<String>()
}

fn columns(first: &str, rest: &[String; 8]) -> String {
    let [requests, hits, queries, moved, least, modulo, retries, failures] = rest;
    format!("{first:<8}{requests:>9}{hits:>8}{queries:>8}{moved:>9}{least:>9}{modulo:>10}{retries:>9}{failures:>9}")
}

/// The origins, a line each.
pub(super) fn origins(lines: &[Line], paint: Paint) -> Vec<String> {
    let most = lines.iter().map(|line| line.rate).fold(1.0, f64::max);
    let mut text: Vec<String> = lines.iter().take(SHOWN).map(|line| origin(line, most, paint)).collect();
    if let Some(more @ 1..) = lines.len().checked_sub(SHOWN) {
        text.push(format!("  and {more} more"));
    }
    text
}

fn origin(line: &Line, most: f64, paint: Paint) -> String {
    let Line { name, state, rate, hit_ratio, cached } = line;
    let bar = "#".repeat((rate / most * BAR as f64).round() as usize);
    let hits = percent(*hit_ratio);
    let state = paint.state(state);
    format!("  {name:<10}{state}{rate:>5.0}/s{hits:>8} hits{cached:>7} cached  {bar}")
}

/// How it goes, in one line.
pub(super) fn progress(title: &str, window: &Window, retries: u64, failures: u64) -> String {
    let second = |number: u64| number as f64 / window.seconds.max(0.001);
    let hits = percent(ratio(window.hits, window.misses));
    format!(
        "  {title:<20}{:>6.0}/s {hits:>6} hits {:>5.0} db/s {retries:>5} retries {failures:>4} failed",
        second(window.answered + window.failed),
        second(window.queries)
    )
}

/// The part of `one`.
pub(super) fn ratio(one: u64, other: u64) -> Option<f64> {
    (one + other > 0).then(|| one as f64 / (one + other) as f64)
}

fn percent(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), Percent::told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rate: f64) -> Line {
        Line { name: "cache-12".into(), state: "joining".into(), rate, hit_ratio: Some(1.0), cached: 12_345 }
    }

    #[test]
    fn no_line_is_longer_than_a_terminal_is_wide() {
        let lines: Vec<_> = (0..20).map(|number| line(f64::from(number) * 1000.0)).collect();
        let shown = origins(&lines, Paint(false));
        assert_eq!((shown.len(), shown[16].as_str()), (17, "  and 4 more"));
        let window = Window { seconds: 1.0, answered: 12_345, queries: 1234, hits: 1, ..Window::default() };
        let all = [&shown[..], &[progress("grown from 64 to 128", &window, 12_345, 1234), head(Paint(false))]].concat();
        assert!(all.iter().all(|line| line.len() < 80), "{all:#?}");
    }

    #[test]
    fn styles_change_no_width() {
        let plain = origins(&[line(1.0)], Paint(false)).concat();
        let painted = origins(&[line(1.0)], Paint(true)).concat();
        assert_eq!(painted.replace("\u{1b}[33m", "").replace("\u{1b}[0m", ""), plain);
    }

    #[test]
    fn what_nobody_asked_for_has_no_ratio() {
        assert_eq!((percent(ratio(0, 0)), percent(ratio(1, 2))), ("-".into(), "33.3%".into()));
    }
}
