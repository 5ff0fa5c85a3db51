//! Which directive is in force in a block? Its own, or what the blocks around it say.
//!
//! nginx inherits whole: a block that sets one header of its own has none of those around it.

use super::reader::Directive;

/// A block and those it stands in, the outermost first.
#[derive(Debug, Clone)]
pub(super) struct Scope<'a>(Vec<&'a [Directive]>);

impl<'a> Scope<'a> {
    pub(super) fn top(own: &'a [Directive]) -> Self {
        Self(vec![own])
    }

    pub(super) fn inside(&self, own: &'a [Directive]) -> Self {
        let mut levels = self.0.clone();
        levels.push(own);
        Self(levels)
    }

    /// Those of this name that are in force.
    pub(super) fn all(&self, name: &str) -> Vec<&'a Directive> {
        self.all_of(&[name])
    }

    /// Those of any of these names in the innermost block that has one.
    pub(super) fn all_of(&self, names: &[&str]) -> Vec<&'a Directive> {
        let of_level = |level: &&'a [Directive]| -> Vec<&'a Directive> {
            level.iter().filter(|it| names.contains(&it.name.as_str())).collect()
        };
        self.0.iter().rev().map(of_level).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The one of this name that is in force.
    pub(super) fn one(&self, name: &str) -> Option<&'a Directive> {
        self.all(name).into_iter().next()
    }

    /// Its first argument.
    pub(super) fn word(&self, name: &str) -> Option<&'a str> {
        self.one(name).and_then(|directive| directive.args.first()).map(String::as_str)
    }

    /// Of all that are in force.
    pub(super) fn names(&self) -> Vec<&'a str> {
        self.0.iter().rev().flat_map(|level| level.iter()).map(|directive| directive.name.as_str()).collect()
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.word(name) == Some("on")
    }

    /// Those of this name in the block itself.
    pub(super) fn of_its_own(&self, name: &str) -> impl Iterator<Item = &'a Directive> + use<'a> {
        let name = name.to_owned();
        self.0.last().copied().unwrap_or_default().iter().filter(move |directive| directive.name == name)
    }
}
