//! What is to be said of a directive: that it is not carried, or not quite, and why.

use std::collections::HashSet;

use serde::Serialize;

use super::reader::{Directive, Place};

/// What became of a directive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Nothing in the configuration stands for it.
    NotCarried,
    /// Something does, and it is not quite the same.
    Differs,
    /// It has no meaning here.
    Needless,
}

/// What is said of one directive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What became of it.
    pub fate: Fate,
    /// `FILE:LINE`.
    pub place: String,
    /// The section it is about, such as `location /api/`.
    pub section: String,
    /// As written.
    pub directive: String,
    /// Why, or what is different.
    pub why: String,
}

/// What was said before: what is inherited is told where it holds first.
#[derive(Debug, Default)]
pub(super) struct Told(HashSet<(String, String, String)>);

impl Told {
    /// All of this is said.
    pub(super) fn remember(&mut self, notes: &Notes) {
        self.0.extend(notes.said.iter().map(|note| (note.place.clone(), note.directive.clone(), note.why.clone())));
    }

    /// Leaves what was not said yet.
    pub(super) fn once(&mut self, notes: &mut Notes) {
        notes.said.retain(|note| self.0.insert((note.place.clone(), note.directive.clone(), note.why.clone())));
    }
}

/// What is said of one section.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) section: String,
    pub(super) said: Vec<Note>,
}

impl Notes {
    pub(super) fn of(section: impl Into<String>) -> Self {
        Self { section: section.into(), said: Vec::new() }
    }

    fn say(&mut self, fate: Fate, place: &Place, directive: String, why: String) {
        let note = Note { fate, place: place.to_string(), section: self.section.clone(), directive, why };
        if !self.said.contains(&note) {
            self.said.push(note);
        }
    }

    pub(super) fn dropped(&mut self, directive: &Directive, why: impl Into<String>) {
        self.say(Fate::NotCarried, &directive.place, directive.said(), why.into());
    }

    pub(super) fn differs(&mut self, directive: &Directive, why: impl Into<String>) {
        self.say(Fate::Differs, &directive.place, directive.said(), why.into());
    }

    pub(super) fn needless(&mut self, directive: &Directive) {
        self.say(Fate::Needless, &directive.place, directive.name.clone(), String::new());
    }

    /// What nginx does without being told.
    pub(super) fn unsaid(&mut self, place: &Place, what: &str, why: impl Into<String>) {
        self.say(Fate::Differs, place, what.to_owned(), why.into());
    }

    /// One line each, those without a meaning in one.
    pub(super) fn comments(&self) -> Vec<String> {
        let line = |note: &Note| {
            let fate = match note.fate {
                Fate::NotCarried => "NOT CARRIED",
                Fate::Differs => "differs",
                Fate::Needless => return None,
            };
            Some(format!("{fate}: {}: {}: {}", note.place, note.directive, note.why))
        };
        let needless = self.said.iter().filter(|note| note.fate == Fate::Needless);
        let needless: Vec<String> = needless.map(|note| format!("{} ({})", note.directive, note.place)).collect();
        let needless = needless.chunks(4).map(|some| format!("without a meaning here: {}", some.join(", ")));
        self.said.iter().filter_map(line).chain(needless).collect()
    }
}
