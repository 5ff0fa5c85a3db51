//! How long is a bar? For tables of commands: of block characters, whole cells, the longest of a table fills its column.
//!
//! Who reads them by a screen reader or through `grep` loses nothing: the figure stands beside each bar.

use anstyle::{AnsiColor, Style};

/// Cells of the longest bar.
const WIDTH: f64 = 20.0;
/// Of both; of what was there before alone; of what is there after alone.
const GLYPHS: [char; 3] = ['█', '░', '▓'];
/// What they mean, as the heading of their column.
pub(super) const LEGEND: &str = "█ BOTH  ░ BEFORE  ▓ AFTER";

/// A part beside the greatest one.
pub(super) fn part(part: f64, greatest: f64) -> String {
    filled(GLYPHS[0], cells(part, greatest))
}

/// What there was before and is after, beside the greatest of either: what both have, then what is lost or won.
pub(super) fn change(before: f64, after: f64, greatest: f64) -> String {
    let (was, is) = (cells(before, greatest), cells(after, greatest));
    let both = filled(GLYPHS[0], was.min(is));
    both + &filled(GLYPHS[1], was.saturating_sub(is)) + &filled(GLYPHS[2], is.saturating_sub(was))
}

/// The line with the bar at its end in colours: what is lost in red, what is won in green.
pub(super) fn coloured(line: &str) -> String {
    let bar = line.trim_end_matches(GLYPHS).len();
    let (text, bar) = line.split_at(bar);
    let mut out = text.to_owned();
    for (glyph, colour) in GLYPHS.into_iter().zip([AnsiColor::Blue, AnsiColor::Red, AnsiColor::Green]) {
        let run: String = bar.chars().filter(|one| *one == glyph).collect();
        if !run.is_empty() {
            let style = Style::new().fg_color(Some(colour.into()));
            out.push_str(&format!("{style}{run}{style:#}"));
        }
    }
    out
}

/// Who has anything at all has a cell.
fn cells(part: f64, greatest: f64) -> usize {
    if part <= 0.0 || greatest <= 0.0 {
        return 0;
    }
    (part / greatest * WIDTH).round().clamp(1.0, WIDTH) as usize
}

fn filled(glyph: char, cells: usize) -> String {
    std::iter::repeat_n(glyph, cells).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_part_of_the_greatest() {
        for (value, length) in [(0.0, 0), (0.0001, 1), (0.1, 4), (0.25, 10), (0.5, 20), (0.9, 20)] {
            assert_eq!(part(value, 0.5).chars().count(), length, "{value}");
        }
        assert_eq!(part(0.0, 0.0), "");
    }

    #[test]
    fn a_change_is_what_stays_and_what_is_lost_or_won() {
        assert_eq!(change(0.5, 0.25, 0.5), "█".repeat(10) + &"░".repeat(10));
        assert_eq!(change(0.25, 0.5, 0.5), "█".repeat(10) + &"▓".repeat(10));
        assert_eq!(change(0.0, 0.5, 0.5), "▓".repeat(20));
        assert_eq!(change(0.5, 0.5, 0.5), "█".repeat(20));
    }

    #[test]
    fn colours_are_put_around_the_bar_alone_and_no_letter_moves() {
        let line = " a█:80  50.0%  ██░░";
        let shown = coloured(line);
        assert_eq!(shown, " a█:80  50.0%  \u{1b}[34m██\u{1b}[0m\u{1b}[31m░░\u{1b}[0m");
        assert_eq!(coloured(" c:80   0.0%"), " c:80   0.0%");
    }
}
