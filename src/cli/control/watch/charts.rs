//! The last minutes as three lines: requests, errors, further tries.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;

use super::facts::Steps;
use super::paint::Paint;
use super::trouble::Minute;
use crate::cli::figures::{percent, rate};

/// Narrower, they stand below each other.
pub(super) const BESIDE: u16 = 60;
/// Cells of the words, where a line has the chart as well.
const WORDS: u16 = 22;

struct Chart<'a> {
    label: &'static str,
    series: &'a [u64],
    extra: String,
    style: Style,
}

/// Draws them: beside each other with their words above, or each in one line.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, steps: &Steps, step: f64, paint: &Paint) {
    let all = charts(steps, step, paint);
    if area.width < BESIDE {
        let areas: [Rect; 3] = Layout::vertical([Constraint::Length(1); 3]).areas(area);
        for (chart, area) in all.iter().zip(areas) {
            let [words, line] = Layout::horizontal([Constraint::Length(WORDS), Constraint::Min(0)]).areas(area);
            one(frame, words, line, chart, step);
        }
        return;
    }
    let areas: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3]).spacing(2).areas(area);
    for (chart, area) in all.iter().zip(areas) {
        let [words, line] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
        one(frame, words, line, chart, step);
    }
}

fn charts<'a>(steps: &'a Steps, step: f64, paint: &Paint) -> [Chart<'a>; 3] {
    let minute = Minute::of(steps, step);
    let errors = match minute.requests {
        0 => String::new(),
        _ => format!("  {}", percent(Some(minute.error_ratio()))),
    };
    let held = match minute.suppressed {
        0 => String::new(),
        some => format!("  {some} not made"),
    };
    let worry = |is_so: bool| if is_so { paint.bad() } else { paint.ring() };
    [
        Chart { label: "requests", series: &steps.requests, extra: String::new(), style: paint.ring() },
        Chart { label: "5xx", series: &steps.errors, extra: errors, style: worry(minute.errors > 0) },
        Chart { label: "retries", series: &steps.retries, extra: held, style: worry(minute.suppressed > 0) },
    ]
}

fn one(frame: &mut Frame<'_>, words: Rect, line: Rect, chart: &Chart<'_>, step: f64) {
    let now = match chart.series.last() {
        Some(last) if step > 0.0 => format!("{}/s", rate(*last as f64 / step)),
        _ => "-".to_owned(),
    };
    let told = format!("{} ", chart.label);
    frame.render_widget(Line::from(vec![told.into(), Span::styled(now, chart.style), (&*chart.extra).into()]), words);
    let width = usize::from(line.width);
    let shown = chart.series.get(chart.series.len().saturating_sub(width)..).unwrap_or_default();
    // The newest step stands at the right end.
    let data = std::iter::repeat_n(0, width - shown.len()).chain(shown.iter().copied());
    let most = shown.iter().copied().max().unwrap_or(0).max(1);
    frame.render_widget(Sparkline::default().data(data).max(most).style(chart.style), line);
}
