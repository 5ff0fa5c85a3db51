//! Two bars in one line: above what the ring gives, below what was served. And one that fills as somebody comes.

use ratatui::style::{Color, Style};
use ratatui::text::Span;

use super::paint::Paint;

/// Cells of two bars.
pub(super) const WIDTH: usize = 12;
/// Cells of one that fills.
const METER: usize = 20;

/// A share, and what was served of all, beside the greatest of either.
pub(super) fn two(share: f64, served: Option<f64>, greatest: f64, paint: &Paint) -> Vec<Span<'static>> {
    let (above, below) = (cells(share, greatest, WIDTH), cells(served.unwrap_or(0.0), greatest, WIDTH));
    let both = above.min(below);
    let (lone, rest) = if above > below { ("▀", above - both) } else { ("▄", below - both) };
    let lone_style = if above > below { paint.ring() } else { paint.good() };
    // One glyph in two colours, or the one that is both halves.
    let (glyph, style) = match paint.colour {
        true => ("▀", Style::new().fg(Color::Blue).bg(Color::Green)),
        false => ("█", Style::new()),
    };
    vec![Span::styled(glyph.repeat(both), style), Span::styled(lone.repeat(rest), lone_style)]
}

/// How far somebody came.
pub(super) fn meter(progress: f64, paint: &Paint) -> Vec<Span<'static>> {
    let full = (progress.clamp(0.0, 1.0) * METER as f64).floor() as usize;
    let figure = format!(" {:>3.0}%", (progress * 100.0).floor());
    vec![
        Span::styled("█".repeat(full), paint.ring()),
        Span::styled("░".repeat(METER - full), paint.quiet()),
        figure.into(),
    ]
}

/// Who has anything at all has a cell.
fn cells(part: f64, greatest: f64, width: usize) -> usize {
    if part <= 0.0 || greatest <= 0.0 {
        return 0;
    }
    (part / greatest * width as f64).round().clamp(1.0, width as f64) as usize
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(spans: &[Span<'_>]) -> String {
        spans.iter().map(|span| span.content.as_ref()).collect()
    }

    fn paint(colour: bool) -> Paint {
        Paint { colour, interval: Duration::from_secs(2) }
    }

    #[test]
    fn the_ring_stands_above_and_what_was_served_below() {
        for (share, served, expected) in [
            (0.5, Some(0.25), "██████▀▀▀▀▀▀"),
            (0.25, Some(0.5), "██████▄▄▄▄▄▄"),
            (0.5, None, "▀▀▀▀▀▀▀▀▀▀▀▀"),
            (0.0, Some(0.0), ""),
            (0.0001, Some(0.5), "█▄▄▄▄▄▄▄▄▄▄▄"),
        ] {
            assert_eq!(text(&two(share, served, 0.5, &paint(false))), expected);
        }
        assert_eq!(text(&two(0.5, Some(0.25), 0.5, &paint(true))), "▀".repeat(12), "colours tell the halves apart");
    }

    #[test]
    fn a_meter_is_full_when_somebody_is_there_and_not_before() {
        assert_eq!(text(&meter(0.999, &paint(false))), format!("{}░  99%", "█".repeat(19)));
        assert_eq!(text(&meter(1.0, &paint(false))), format!("{} 100%", "█".repeat(20)));
        assert_eq!(text(&meter(0.0, &paint(false))), format!("{}   0%", "░".repeat(20)));
    }
}
