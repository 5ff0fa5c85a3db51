//! The pages beside that of the origins: what changed, and what the keys do.

use ratatui::text::{Line, Span};

use super::super::super::bars;
use super::super::super::top::harmless;
use super::facts::{Facts, Pool, Put};
use super::paint::Paint;
use super::view::View;
use crate::cli::figures::{percent, short};

/// What the keys do, and what the signs mean.
const HELP: [(&str, &str); 18] = [
    ("q, Esc", "end; Ctrl-C too, Ctrl-Z leaves for a while"),
    ("← →, Tab, 1-9", "another pool"),
    ("↑ ↓, j k", "another origin; PgUp PgDn, Home End, g G"),
    ("s", "sort by the next of: need, name, share, served, in flight, req/s, errors, p99"),
    ("r", "the other way round"),
    ("f", "only origins that are not simply up, or all"),
    ("c", "what changed: configurations, and who gained and lost by the last of them"),
    ("p, space", "let the picture rest, go on"),
    ("?", "this"),
    ("", ""),
    ("SHARE", "what the ring gives an origin now: its part of the circle, or of the weights"),
    ("SERVED", "its part of the tries of the last minute; ! when it is 10 points off for a minute"),
    ("▀ ▄", "the same two, one above the other"),
    ("✓ up", "serves"),
    ("… joining", "is not proven yet;  ↗ ramping: grows into its share"),
    ("▼ overloaded", "gets less;  ! kept: is due out, kept since too many are out"),
    ("✕ down", "gets nothing"),
    ("↘ draining", "⇢ leaving, ‖ parked: on its way out, and out"),
];

/// The help, in lines that are no longer than `width`.
pub(super) fn help(width: u16, paint: &Paint) -> Vec<Line<'static>> {
    const LABEL: usize = 15;
    let room = usize::from(width).saturating_sub(LABEL).max(12);
    let mut lines = Vec::new();
    for (label, text) in HELP {
        let mut label = label;
        for text in wrapped(text, room) {
            lines.push(Line::from(vec![Span::styled(format!("{label:<LABEL$}"), paint.head()), text.into()]));
            label = "";
        }
    }
    lines
}

/// In lines of at most so many letters, where no word is longer.
pub(super) fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The configurations of the latest time, and what the last change of the chosen pool moved.
pub(super) fn changes(view: &View, paint: &Paint) -> Vec<Line<'static>> {
    let Some(facts) = &view.facts else { return Vec::new() };
    let mut lines = vec![Line::from(Span::styled("Configurations", paint.head()))];
    lines.extend(facts.config.history.iter().map(|put| text(put, paint)));
    if let Some((name, pool)) = view.pool() {
        lines.push(Line::default());
        lines.extend(moved(&name.0, pool, facts, paint));
    }
    lines
}

fn text(put: &Put, paint: &Paint) -> Line<'static> {
    let moved: Vec<_> = put.moved_ratio.iter().map(|(pool, part)| format!("{pool} {}", percent(Some(*part)))).collect();
    let moved = if moved.is_empty() { "nothing".to_owned() } else { moved.join(", ") };
    let ended = match (&put.ended, &put.why) {
        (None, _) => "in force".to_owned(),
        (Some(ended), None) => ended.0.replace('_', " "),
        (Some(ended), Some(why)) => format!("{}: {why}", ended.0.replace('_', " ")),
    };
    let version = Span::styled(format!("{:>4}  ", put.version), paint.head());
    let since = put.since.0.get(..19).unwrap_or(&put.since.0).replace('T', " ");
    let style = if put.ended.is_none() { paint.good() } else { paint.quiet() };
    let told = format!("{since}  moved {moved}  ");
    Line::from(vec![version, told.into(), Span::styled(ended, style), format!("  {}", short(&put.digest)).into()])
}

fn moved(name: &str, pool: &Pool, facts: &Facts, paint: &Paint) -> Vec<Line<'static>> {
    let title = format!("Moved by the last change of {name}: {} of the circle", percent(Some(pool.ring.moved_ratio)));
    let seen =
        pool.keys.moved_ratio.map_or_else(String::new, |part| format!(", {} of the keys seen", percent(Some(part))));
    let hits = pool.cache.as_ref().and_then(|cache| cache.hit_ratio_before.map(|before| (before, cache.hit_ratio)));
    let hits = hits.map_or_else(String::new, |(before, now)| {
        format!("; hits at origins {} before, {} now", percent(Some(before)), percent(now))
    });
    let mut lines = vec![Line::from(vec![Span::styled(title, paint.head()), seen.into(), hits.into()])];
    if pool.ring.changed.is_empty() {
        let why = if facts.config.version > 1 { "no share of it changed" } else { "it is as it was at the start" };
        lines.push(Line::from(Span::styled(why, paint.quiet())));
        return lines;
    }
    lines.push(Line::from(Span::styled(format!("{:>41}", bars::LEGEND), paint.quiet())));
    let longest = pool.ring.changed.iter().map(|one| one.origin.chars().count()).max().unwrap_or(0).clamp(8, 24);
    let greatest = pool.ring.changed.iter().map(|one| one.before.max(one.after)).fold(0.0, f64::max);
    lines.extend(pool.ring.changed.iter().map(|one| {
        let figures = format!("{:>6} → {:>6}  ", percent(Some(one.before)), percent(Some(one.after)));
        let note = match (one.before, one.after) {
            (0.0, _) => " new",
            (_, 0.0) => " gone",
            _ => "",
        };
        let style = if one.after > one.before { paint.good() } else { paint.bad() };
        let bar = bars::change(one.before, one.after, greatest);
        let name = format!("{:<longest$}  ", harmless(&one.origin));
        Line::from(vec![name.into(), figures.into(), Span::styled(bar, style), note.into()])
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_wrapped_at_spaces() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("alongword b", 4), ["alongword", "b"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
