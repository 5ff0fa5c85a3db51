//! The table of origins: as many columns as there is room for, the ones that matter most first.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Row, Table};

use super::bar;
use super::facts::{Origin, Pool, Text};
use super::paint::Paint;
use super::trouble;
use super::view::View;
use crate::cli::figures::{number, percent, rate, span, time};

/// In the order in which they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    Name,
    State,
    Weight,
    Share,
    Served,
    Bars,
    InFlight,
    Rate,
    Errors,
    P50,
    P99,
    Probe,
    Why,
}

use Column::{Bars, Errors, InFlight, Name, P50, P99, Probe, Rate, Served, Share, State, Weight, Why};

/// What matters most first.
const WANTED: [Column; 13] = [Name, State, Share, Rate, Served, Bars, Errors, P99, InFlight, P50, Weight, Why, Probe];
/// Names are cut in the middle beyond this.
const LONGEST: usize = 28;

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Name => "ORIGIN",
            State => "STATE",
            Weight => "WEIGHT",
            Share => "SHARE",
            Served => "SERVED",
            Bars => "▀RING▄SERVED",
            InFlight => "FLIGHT",
            Rate => "REQ/S",
            Errors => "ERRORS",
            P50 => "P50",
            P99 => "P99",
            Probe => "LAST PROBE",
            Why => "WHY",
        }
    }

    fn width(self, longest: usize) -> usize {
        match self {
            Name => longest.clamp(8, LONGEST),
            State => 12,
            Weight => 9,
            Share | InFlight | Errors => 6,
            Served | Rate | P50 | P99 => 7,
            Bars => bar::WIDTH,
            Probe => 20,
            Why => 24,
        }
    }

    fn is_text(self) -> bool {
        matches!(self, Name | State | Bars | Probe | Why)
    }
}

/// What there is room for.
fn fitting(width: usize, longest: usize) -> Vec<Column> {
    let mut left = width + 1;
    let fits = |column: &Column| {
        let needs = column.width(longest) + 1;
        let is_in = needs <= left;
        left -= if is_in { needs } else { 0 };
        is_in
    };
    let mut columns: Vec<Column> = WANTED.into_iter().filter(fits).collect();
    columns.sort();
    columns
}

/// Draws it; answers how many origins it has room for.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View, paint: &Paint) -> usize {
    let height = usize::from(area.height.saturating_sub(1));
    let (Some((pool_name, pool)), origins) = (view.pool(), view.origins()) else { return height };
    let longest = origins.iter().map(|(name, origin)| called(name, origin).chars().count()).max().unwrap_or(0);
    let columns = fitting(usize::from(area.width), longest);
    let chosen = view.chosen(&origins);
    let first = chosen.saturating_sub(height / 2).min(origins.len().saturating_sub(height));
    let greatest =
        pool.origins.values().map(|origin| origin.share.max(origin.served.unwrap_or(0.0))).fold(0.0, f64::max);
    let rows = origins.iter().enumerate().skip(first).take(height).map(|(number, (name, origin))| {
        let of = Of { name, origin, greatest, is_off: view.steady.is_off(&pool_name.0, pool, &name.0, origin) };
        let row = Row::new(columns.iter().map(|column| of.cell(*column, paint)));
        if number == chosen { row.style(paint.chosen()) } else { row }
    });
    let heading = |column: &Column| match column.is_text() {
        true => Line::from(column.heading()),
        false => Line::from(column.heading()).right_aligned(),
    };
    let widths = columns.iter().map(|column| match column {
        Why => Constraint::Fill(1),
        other => Constraint::Length(u16::try_from(other.width(longest)).unwrap_or(u16::MAX)),
    });
    let table = Table::new(rows, widths).column_spacing(1);
    frame.render_widget(table.header(Row::new(columns.iter().map(heading)).style(paint.head())), area);
    height
}

/// One row.
struct Of<'a> {
    name: &'a Text,
    origin: &'a Origin,
    greatest: f64,
    is_off: bool,
}

impl Of<'_> {
    fn cell(&self, column: Column, paint: &Paint) -> Line<'static> {
        let o = self.origin;
        let (grade, sign) = trouble::state(&o.state.0);
        let plain = Style::new();
        let (text, style) = match column {
            Name => (cut(called(self.name, o)), plain),
            State => (format!("{sign} {}", o.state), paint.grade(grade)),
            Weight => (weight(o), plain),
            Share => (percent(Some(o.share)), plain),
            Served if self.is_off => (format!("{}!", percent(o.served)), paint.warn()),
            Served => (percent(o.served), plain),
            Bars => return Line::from(bar::two(o.share, o.served, self.greatest, paint)),
            InFlight => (o.in_flight.to_string(), plain),
            Rate => (rate(o.rate), plain),
            Errors => (percent(o.error_ratio), paint.errors(o.error_ratio.unwrap_or(0.0))),
            P50 => (time(o.p50), plain),
            P99 => (time(o.p99), plain),
            Probe => (probe(o), plain),
            Why => (why(o), plain),
        };
        let line = Line::from(Span::styled(text, style));
        if column.is_text() { line } else { line.right_aligned() }
    }
}

fn called(name: &Text, origin: &Origin) -> String {
    if origin.backup { format!("{name} (backup)") } else { name.0.clone() }
}

/// Names of one domain differ where they begin, those of one host where they end: the middle goes.
fn cut(name: String) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LONGEST {
        return name;
    }
    let half = (LONGEST - 1) / 2;
    let (first, last) = (letters.iter().take(LONGEST - 1 - half), letters.iter().skip(letters.len() - half));
    first.chain([&'…']).chain(last).collect()
}

fn weight(origin: &Origin) -> String {
    let (configured, effective) = (number(Some(origin.weight.configured)), number(Some(origin.weight.effective)));
    if configured == effective { configured } else { format!("{effective} of {configured}") }
}

/// What came of its last probe.
pub(super) fn probe(origin: &Origin) -> String {
    let told = |probe: &super::facts::Probe| {
        let what = probe.fault.as_ref().unwrap_or(&probe.result);
        format!("{what}, {} ago", span(Some(probe.age)))
    };
    origin.last_probe.as_ref().map_or_else(|| "-".to_owned(), told)
}

/// Why it is in its state, and where it moves to if it does.
pub(super) fn why(origin: &Origin) -> String {
    match &origin.moving_to {
        Some(to) => {
            let address = to.address.as_ref().map_or("a name that is not resolved", |address| &address.0);
            format!("{}; moving to {address}: {}", origin.why, to.why)
        }
        None => origin.why.0.clone(),
    }
}

/// A pool in a line or two: how it places, and how it goes.
pub(super) fn pool(name: &Text, pool: &Pool, paint: &Paint) -> Vec<Line<'static>> {
    let (serving, all) = pool.in_service();
    let goes = format!(
        "{serving}/{all} in service  {} tries/s  {} failed  p50 {}  p99 {}",
        rate(pool.rate),
        percent(pool.error_ratio),
        time(pool.p50),
        time(pool.p99)
    );
    let key = pool.key.as_ref().map_or_else(String::new, |key| format!(" {key}"));
    let mut places = format!("{}{key}, ring {}", pool.algorithm, pool.ring.fingerprint);
    if pool.keys.distinct > 0 {
        places.push_str(&format!(", {} keys lately, {} away", pool.keys.distinct, percent(Some(pool.displaced()))));
    }
    if let Some(hits) = pool.cache.as_ref().and_then(|cache| cache.hit_ratio) {
        places.push_str(&format!(", {} hits at origins", percent(Some(hits))));
    }
    let first = Line::from(vec![Span::styled(format!("{name}  "), paint.head()), goes.into()]);
    vec![first, Line::from(Span::styled(places, paint.quiet()))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_most_is_there_at_every_width() {
        assert_eq!(fitting(40, 14), [Name, State, Share]);
        assert_eq!(fitting(79, 15), [Name, State, Share, Served, Bars, Rate, Errors, P99]);
        assert_eq!(fitting(200, 15).len(), 13);
        assert_eq!(fitting(5, 15), []);
    }

    #[test]
    fn a_long_name_keeps_both_ends() {
        assert_eq!(cut("cache-1.shop.example.com:8080".into()), "cache-1.shop.e…mple.com:8080");
        let just = "x".repeat(LONGEST);
        assert_eq!(cut(just.clone()), just);
        let backup = Origin { backup: true, ..Origin::default() };
        assert_eq!(called(&Text("spare".into()), &backup), "spare (backup)");
    }

    #[test]
    fn columns_never_need_more_than_there_is() {
        for width in 0..220 {
            let used: usize = fitting(width, 40).iter().map(|column| column.width(40) + 1).sum();
            assert!(used <= width + 1, "{used} of {width}");
        }
    }
}
