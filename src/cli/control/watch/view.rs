//! What is looked at? The latest answer, and what the keys chose: pool, origin, order, page.
//!
//! Pure: answers, keys and times come in, what to do beyond the picture comes out.

use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::facts::{Facts, Origin, Pool, Text};
use super::order::Order;
use super::steady::Steady;

/// What is on the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Page {
    #[default]
    Origins,
    Changes,
    Help,
}

/// What a key asks for beyond another picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    Quit,
    Interrupt,
    Suspend,
}

/// All that decides the picture.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) facts: Option<Facts>,
    /// The time of the clock when that was told.
    pub(super) at: String,
    /// Since when nobody answers, and why.
    pub(super) lost: Option<(String, String)>,
    pub(super) steady: Steady,
    pub(super) page: Page,
    pub(super) is_paused: bool,
    pub(super) order: Order,
    /// Only who is not simply up.
    pub(super) only: bool,
    /// The first line of a page that is longer than the screen.
    pub(super) scroll: u16,
    pool: Option<String>,
    origin: Option<String>,
    /// Lines of the table, for the keys that turn a page.
    pub(super) height: usize,
}

impl View {
    /// The gateway answered, or did not.
    pub(super) fn update(&mut self, answer: Result<Facts, String>, clock: String, now: Instant) {
        match answer {
            Ok(facts) => {
                self.lost = None;
                if !self.is_paused {
                    self.steady.note(&facts, now);
                    self.facts = Some(facts);
                    self.at = clock;
                }
            }
            Err(why) => {
                let since = self.lost.take().map_or(clock, |(since, _)| since);
                self.lost = Some((since, why));
            }
        }
    }

    /// The pool that was chosen, else the first.
    pub(super) fn pool(&self) -> Option<(&Text, &Pool)> {
        let pools = &self.facts.as_ref()?.pools;
        let chosen = self.pool.as_ref().and_then(|name| pools.iter().find(|(own, _)| own.0 == *name));
        chosen.or_else(|| pools.first())
    }

    /// Its origins that are wanted, in order.
    pub(super) fn origins(&self) -> Vec<(&Text, &Origin)> {
        let Some((_, pool)) = self.pool() else { return Vec::new() };
        let wanted = |(_, origin): &(&Text, &Origin)| !self.only || origin.state.0 != "up";
        let mut all: Vec<_> = pool.origins.iter().filter(wanted).collect();
        self.order.sort(&mut all);
        all
    }

    /// Which of them is chosen.
    pub(super) fn chosen(&self, origins: &[(&Text, &Origin)]) -> usize {
        let at = self.origin.as_ref().and_then(|name| origins.iter().position(|(own, _)| own.0 == *name));
        at.unwrap_or(0)
    }

    /// Does what the key says.
    pub(super) fn press(&mut self, key: KeyEvent) -> Wish {
        if key.kind == KeyEventKind::Release {
            return Wish::Nothing;
        }
        let is_held = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_held => return Wish::Interrupt,
            KeyCode::Char('z') if is_held => return Wish::Suspend,
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Esc if self.page == Page::Origins => return Wish::Quit,
            KeyCode::Esc => self.turn_to(Page::Origins),
            KeyCode::Char('?' | 'h') => self.turn_to(Page::Help),
            KeyCode::Char('c') => self.turn_to(Page::Changes),
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Char('s') => self.order.next(),
            KeyCode::Char('r') => self.order.reverse(),
            KeyCode::Char('f') => self.only = !self.only,
            KeyCode::Right | KeyCode::Char('l') | KeyCode::Tab => self.next_pool(1),
            KeyCode::Left | KeyCode::BackTab => self.next_pool(-1),
            KeyCode::Char(digit @ '1'..='9') => self.choose_pool(digit as usize - '1' as usize),
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.go(self.height.max(1) as isize),
            KeyCode::PageUp => self.go(-(self.height.max(1) as isize)),
            KeyCode::Home | KeyCode::Char('g') => self.go(isize::MIN / 2),
            KeyCode::End | KeyCode::Char('G') => self.go(isize::MAX / 2),
            _ => {}
        }
        Wish::Nothing
    }

    /// To that page, or back from it.
    fn turn_to(&mut self, page: Page) {
        self.page = if self.page == page { Page::Origins } else { page };
        self.scroll = 0;
    }

    fn next_pool(&mut self, by: isize) {
        let Some(facts) = &self.facts else { return };
        let count = facts.pools.len() as isize;
        let at = self.pool().and_then(|(name, _)| facts.pools.get_index_of(name)).unwrap_or(0);
        if count > 0 {
            self.choose_pool((at as isize + by).rem_euclid(count) as usize);
        }
    }

    fn choose_pool(&mut self, number: usize) {
        let chosen = self.facts.as_ref().and_then(|facts| facts.pools.get_index(number));
        if let Some(name) = chosen.map(|(name, _)| name.0.clone()) {
            self.pool = Some(name);
            (self.origin, self.scroll) = (None, 0);
        }
    }

    /// So many lines down.
    fn go(&mut self, by: isize) {
        if self.page != Page::Origins {
            let to = (isize::try_from(self.scroll).unwrap_or(0)).saturating_add(by).clamp(0, 999);
            self.scroll = u16::try_from(to).unwrap_or(0);
            return;
        }
        let origins = self.origins();
        let last = origins.len().saturating_sub(1) as isize;
        let to = (self.chosen(&origins) as isize).saturating_add(by).clamp(0, last.max(0));
        self.origin = origins.get(to as usize).map(|(name, _)| name.0.clone());
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use serde_json::json;

    use super::*;

    fn facts() -> Facts {
        let origin = |state: &str, share: f64| json!({ "state": state, "share": share });
        let p = json!({ "origins": { "a": origin("up", 0.1), "b": origin("down", 0.0), "c": origin("up", 0.9) } });
        serde_json::from_value(json!({ "pools": { "p": p, "q": { "origins": { "x": origin("up", 1.0) } } } })).unwrap()
    }

    fn view() -> View {
        let mut view = View::default();
        view.update(Ok(facts()), "12:00:00".into(), Instant::now());
        view
    }

    fn press(view: &mut View, keys: &str) {
        for key in keys.chars() {
            assert_eq!(view.press(KeyCode::Char(key).into()), Wish::Nothing, "{key}");
        }
    }

    fn names(view: &View) -> Vec<&str> {
        view.origins().into_iter().map(|(name, _)| name.0.as_str()).collect()
    }

    #[test]
    fn keys_choose_the_pool_and_the_origin() {
        let mut view = view();
        let pool = |view: &View| view.pool().unwrap().0.0.clone();
        assert_eq!((pool(&view), names(&view)), ("p".to_owned(), vec!["b", "a", "c"]));
        press(&mut view, "jj");
        assert_eq!(view.chosen(&view.origins()), 2);
        press(&mut view, "jG");
        assert_eq!(view.chosen(&view.origins()), 2, "there is no further");
        press(&mut view, "kg");
        assert_eq!(view.chosen(&view.origins()), 0);
        for (key, expected) in
            [(KeyCode::Right, "q"), (KeyCode::Tab, "p"), (KeyCode::Left, "q"), (KeyCode::Char('1'), "p")]
        {
            view.press(key.into());
            assert_eq!(pool(&view), expected, "{key:?}");
        }
        press(&mut view, "9");
        assert_eq!(pool(&view), "p");
    }

    #[test]
    fn the_chosen_origin_stays_chosen_when_the_order_changes() {
        let mut view = view();
        press(&mut view, "jj");
        press(&mut view, "sssr");
        let origins = view.origins();
        assert_eq!(origins[view.chosen(&origins)].0.0, "c");
        press(&mut view, "f");
        assert_eq!(names(&view), ["b"]);
        assert_eq!(view.chosen(&view.origins()), 0);
    }

    #[test]
    fn an_answer_that_does_not_come_leaves_what_was_known() {
        let mut view = view();
        for clock in ["12:00:02", "12:00:04"] {
            view.update(Err("refused".into()), clock.into(), Instant::now());
        }
        assert_eq!(view.lost, Some(("12:00:02".to_owned(), "refused".to_owned())));
        assert_eq!((view.at.as_str(), view.pool().is_some()), ("12:00:00", true));
        view.update(Ok(facts()), "12:00:06".into(), Instant::now());
        assert_eq!((view.at.as_str(), view.lost.is_none()), ("12:00:06", true));
    }

    #[test]
    fn while_it_rests_the_picture_stays() {
        let mut view = view();
        press(&mut view, "p");
        view.update(Ok(Facts::default()), "12:00:02".into(), Instant::now());
        assert_eq!((view.at.as_str(), names(&view).len()), ("12:00:00", 3));
        press(&mut view, " ");
        view.update(Ok(Facts::default()), "12:00:04".into(), Instant::now());
        assert!(view.pool().is_none() && view.origins().is_empty());
        press(&mut view, "jkG");
    }

    #[test]
    fn pages_turn_there_and_back_and_the_way_out_is_a_key() {
        let mut view = view();
        press(&mut view, "?");
        assert_eq!(view.page, Page::Help);
        press(&mut view, "c");
        assert_eq!(view.page, Page::Changes);
        assert_eq!(view.press(KeyCode::Esc.into()), Wish::Nothing);
        assert_eq!(view.page, Page::Origins);
        assert_eq!(view.press(KeyCode::Esc.into()), Wish::Quit);
        assert_eq!(view.press(KeyCode::Char('q').into()), Wish::Quit);
        let held = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        assert_eq!((view.press(held('c')), view.press(held('z'))), (Wish::Interrupt, Wish::Suspend));
    }
}
