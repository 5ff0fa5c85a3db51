//! Which colours mean what? None where they are not wanted: signs and words say the same.

use std::time::Duration;

use ratatui::style::{Color, Modifier, Style};

use super::trouble::Grade;

/// How it is drawn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint {
    /// May there be colours?
    pub(super) colour: bool,
    /// Between two questions, to be told.
    pub(super) interval: Duration,
}

impl Paint {
    /// What is as it should be.
    pub(super) fn good(&self) -> Style {
        self.of(Color::Green)
    }

    /// What is to be looked at.
    pub(super) fn warn(&self) -> Style {
        self.of(Color::Yellow)
    }

    /// What is wrong.
    pub(super) fn bad(&self) -> Style {
        self.of(Color::Red)
    }

    /// What the ring says.
    pub(super) fn ring(&self) -> Style {
        self.of(Color::Blue)
    }

    /// What is told besides.
    pub(super) fn quiet(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Headings.
    pub(super) fn head(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What is chosen.
    pub(super) fn chosen(&self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// That of something so grave.
    pub(super) fn grade(&self, grade: Grade) -> Style {
        match grade {
            Grade::Well => self.good(),
            Grade::Way => self.ring(),
            Grade::Look => self.warn(),
            Grade::Grave => self.bad(),
        }
    }

    /// A part of errors: from 1 % on it is to be looked at, from 5 % on it is wrong.
    pub(super) fn errors(&self, part: f64) -> Style {
        match part {
            many if many >= 0.05 => self.bad(),
            some if some >= 0.01 => self.warn(),
            _ => Style::new(),
        }
    }

    fn of(&self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}
