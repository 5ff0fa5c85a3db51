//! The whole picture: what is wrong at the top, how it goes below, then the pool that is chosen, and its origins.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::bar;
use super::charts;
use super::columns;
use super::facts::Facts;
use super::pages;
use super::paint::Paint;
use super::trouble::{self, Grade, Trouble};
use super::view::{Page, View};
use crate::cli::figures::span;

/// Below this there is no room for anything.
const LEAST: (u16, u16) = (20, 6);

/// Draws all of it.
pub(super) fn all(frame: &mut Frame<'_>, view: &mut View, paint: &Paint) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        frame.render_widget(Paragraph::new("too small").wrap(Wrap { trim: true }), area);
        return;
    }
    let found = view.facts.as_ref().map(|facts| trouble::all(facts, &view.steady)).unwrap_or_default();
    let said = verdict(view, &found, area.width, paint);
    let room = match view.lost {
        Some(_) => area.height / 2,
        None => 1 + (area.height.saturating_sub(12) / 4).max(1),
    };
    let lines = u16::try_from(said.len()).unwrap_or(u16::MAX).min(room);
    let [top, verdict, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Length(lines), Constraint::Min(1), Constraint::Length(1)])
            .areas(area);
    frame.render_widget(title(view, paint), top);
    frame.render_widget(clock(view, paint).right_aligned(), top);
    frame.render_widget(Paragraph::new(said), verdict);
    match view.page {
        Page::Origins => origins(frame, body, view, &found, paint),
        Page::Changes => scrolled(frame, body, view, pages::changes(view, paint)),
        Page::Help => scrolled(frame, body, view, pages::help(body.width, paint)),
    }
    if view.lost.is_some() && view.page != Page::Help {
        frame.buffer_mut().set_style(body, paint.quiet());
    }
    frame.render_widget(footer(view, paint), foot);
}

fn scrolled(frame: &mut Frame<'_>, area: Rect, view: &mut View, lines: Vec<Line<'static>>) {
    let last = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(area.height);
    view.scroll = view.scroll.min(last);
    frame.render_widget(Paragraph::new(lines).scroll((view.scroll, 0)), area);
}

fn title(view: &View, paint: &Paint) -> Line<'static> {
    let name = Span::styled("moorgate ", paint.head());
    let Some(facts) = &view.facts else { return Line::from(name) };
    let line = if facts.generation > 1 { format!(", process {} of a line", facts.generation) } else { String::new() };
    let up =
        format!("{}, up {}{line}, configuration {}", facts.program, span(Some(facts.uptime)), facts.config.version);
    Line::from(vec![name, up.into()])
}

fn clock(view: &View, paint: &Paint) -> Line<'static> {
    let rests = if view.is_paused { "paused, " } else { "" };
    let at = if view.at.is_empty() { "not answered yet".to_owned() } else { format!("as of {}", view.at) };
    Line::from(Span::styled(format!(" {rests}{at}"), paint.quiet()))
}

/// Is something wrong?
fn verdict(view: &View, found: &[Trouble], width: u16, paint: &Paint) -> Vec<Line<'static>> {
    if let Some((since, why)) = &view.lost {
        let old = match view.at.as_str() {
            "" => "nothing is known yet".to_owned(),
            at => format!("what follows is of {at}, and may be wrong by now"),
        };
        let since = format!("since {since}: {}", why.replace('\n', "; "));
        let every = format!("{old}; asked again every {} s", paint.interval.as_secs_f64());
        let mut lines = vec![headline("✕", "The gateway does not answer", paint, Grade::Grave)];
        let all = [since, every].map(|text| pages::wrapped(&text, usize::from(width).saturating_sub(2)));
        lines.extend(all.concat().into_iter().map(|line| Line::from(format!("  {line}"))));
        return lines;
    }
    if view.facts.is_none() {
        return vec![Line::from("…")];
    }
    let worst = trouble::worst(found);
    let count = found.iter().filter(|trouble| trouble.grade == worst).count();
    let (sign, said) = match (worst, count) {
        (Grade::Grave, 1) => ("✕", "Trouble: 1 thing needs you now".to_owned()),
        (Grade::Grave, many) => ("✕", format!("Trouble: {many} things need you now")),
        (Grade::Look, 1) => ("!", "1 thing to look at".to_owned()),
        (Grade::Look, many) => ("!", format!("{many} things to look at")),
        _ => ("✓", "All is well".to_owned()),
    };
    let grade = if worst < Grade::Look { Grade::Well } else { worst };
    let mut lines = vec![headline(sign, &said, paint, grade)];
    lines.extend(found.iter().map(|trouble| {
        let sign = match trouble.grade {
            Grade::Grave => "✕",
            Grade::Look => "!",
            _ => "i",
        };
        let pool = trouble.pool.as_ref().map_or_else(String::new, |pool| format!("{pool}: "));
        Line::from(vec![
            Span::styled(format!("  {sign} "), paint.grade(trouble.grade)),
            pool.into(),
            trouble.text.clone().into(),
        ])
    }));
    lines
}

fn headline(sign: &str, said: &str, paint: &Paint, grade: Grade) -> Line<'static> {
    Line::from(Span::styled(format!("{sign} {said}"), paint.grade(grade).add_modifier(Modifier::BOLD)))
}

/// How high each part of the page is.
fn heights(area: Rect, pools: usize, movers: usize) -> [u16; 6] {
    let (is_wide, height) = (area.width >= charts::BESIDE, area.height);
    let charts = match (is_wide, height) {
        (_, ..10) | (false, ..16) => 0,
        (true, 10..16) => 2,
        (_, ..26) => 3,
        (true, _) => 4,
        (false, _) => 3,
    };
    let tabs = u16::from(pools > 1);
    let facts = if height < 14 { 1 } else { 2 };
    let movers = u16::try_from(movers).unwrap_or(u16::MAX).min(height.saturating_sub(12) / 4);
    let detail = match (is_wide, height) {
        (_, ..8) => 0,
        (true, _) => 1,
        (false, _) => 2,
    };
    [charts, tabs, facts, 0, movers, detail]
}

fn origins(frame: &mut Frame<'_>, area: Rect, view: &mut View, found: &[Trouble], paint: &Paint) {
    let Some(facts) = &view.facts else { return };
    let movers = view.pool().map_or_else(Vec::new, |(_, pool)| movers(pool, paint));
    let [charts, tabs, head, _, below, detail] = heights(area, facts.pools.len(), movers.len());
    let [charts, tabs, head, table, below, detail] = Layout::vertical([
        Constraint::Length(charts),
        Constraint::Length(tabs),
        Constraint::Length(head),
        Constraint::Min(1),
        Constraint::Length(below),
        Constraint::Length(detail),
    ])
    .areas(area);
    if charts.height > 0 {
        charts::draw(frame, charts, &facts.recent.steps, facts.recent.step, paint);
    }
    frame.render_widget(pools(facts, view, found, paint, tabs.width), tabs);
    let Some((name, pool)) = view.pool() else {
        frame.render_widget(Line::from("there is no pool"), head);
        return;
    };
    frame.render_widget(Paragraph::new(columns::pool(name, pool, paint)), head);
    let height = columns::draw(frame, table, view, paint);
    frame.render_widget(Paragraph::new(movers), below);
    frame.render_widget(Paragraph::new(chosen(view, paint)).wrap(Wrap { trim: true }), detail);
    view.height = height;
}

/// The pools by name, each with the sign of what is worst in it; where there is no room for all, those around the chosen one.
fn pools(facts: &Facts, view: &View, found: &[Trouble], paint: &Paint, room: u16) -> Paragraph<'static> {
    let chosen = view.pool().map(|(name, _)| name);
    let tab = |name: &super::facts::Text| {
        let of_pool = found.iter().filter(|trouble| trouble.pool.as_ref() == Some(&name.0));
        let worst = trouble::worst(of_pool);
        let sign = match worst {
            Grade::Grave => "✕",
            Grade::Look => "!",
            _ => "✓",
        };
        let style = if chosen == Some(name) { paint.chosen() } else { paint.grade(worst) };
        Line::from(vec![Span::styled(format!(" {sign} {name} "), style), Span::raw(" ")])
    };
    let tabs: Vec<_> = facts.pools.keys().map(tab).collect();
    let upto = facts.pools.keys().position(|name| chosen == Some(name)).map_or(0, |at| at + 1);
    let end: usize = tabs.iter().take(upto).map(Line::width).sum();
    let passed = u16::try_from(end.saturating_sub(room.into())).unwrap_or(u16::MAX);
    Paragraph::new(Line::from(tabs.into_iter().flatten().collect::<Vec<_>>())).scroll((0, passed))
}

/// Who is on its way, and how far.
fn movers(pool: &super::facts::Pool, paint: &Paint) -> Vec<Line<'static>> {
    let on_the_way = pool.origins.iter().filter(|(_, origin)| origin.is_on_the_way());
    let line = |(name, origin): (&super::facts::Text, &super::facts::Origin)| {
        let (grade, sign) = trouble::state(&origin.state.0);
        let mut spans = vec![Span::styled(format!("{sign} {name} "), paint.grade(grade))];
        if let Some(progress) = origin.progress {
            spans.extend(bar::meter(progress, paint));
        }
        spans.push(format!(" {}: {}", origin.state, columns::why(origin)).into());
        Line::from(spans)
    };
    on_the_way.map(line).collect()
}

/// What the table has no room for, of the origin that is chosen.
fn chosen(view: &View, paint: &Paint) -> Line<'static> {
    let origins = view.origins();
    let Some((name, origin)) = origins.get(view.chosen(&origins)) else {
        let why = if view.only { "all are up; f shows them" } else { "" };
        return Line::from(Span::styled(why, paint.quiet()));
    };
    let address = match &origin.address {
        Some(address) if address == *name => String::new(),
        Some(address) => format!(" at {address}"),
        None => " (not resolved)".to_owned(),
    };
    let told = format!("{address}: {}, {}; probe: {}", origin.state, columns::why(origin), columns::probe(origin));
    Line::from(vec![Span::styled(name.0.clone(), paint.head()), told.into()])
}

fn footer(view: &View, paint: &Paint) -> Line<'static> {
    let way = if view.order.is_reversed { " ▲" } else { "" };
    let shown = if view.only { "f all" } else { "f not up" };
    let text = match view.page {
        Page::Origins => {
            format!(
                "q quit  ? help  s sort: {}{way}  ←→ pool  ↑↓ origin  c changes  {shown}  p pause",
                view.order.by.word()
            )
        }
        Page::Changes => "q quit  ? help  c back  ←→ pool  ↑↓ scroll".to_owned(),
        Page::Help => "q quit  ? back  ↑↓ scroll".to_owned(),
    };
    Line::from(Span::styled(text, paint.quiet()))
}
