//! How does the tree become types, with every mistake of it told?
//!
//! A serde `Deserializer` over the tree. The innermost value that cannot be read is noted with its place and left
//! out, and then the reading starts again, of the list element it is in or of the whole file; so each pass either
//! succeeds or leaves one more value out, and it ends. Unknown keys need no further pass: a section's known keys are
//! told beforehand. A key with nothing behind it counts as left out.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Unexpected};

use super::fault::Fault;
use super::place::{LeftOut, did_you_mean, one_of};
use super::tree::{Entry, Flaw, Kind, Node, Place};

/// The newtype that reads "off" as its unit: see [`super::units::Off`].
pub(super) const OFF: &str = "Off";

/// The newtype that reads a list as one, "off" as its unit, and all else as its only element: see
/// [`super::one_or_more::OneOrMore`].
pub(super) const ONE_OR_MORE: &str = "OneOrMore";

/// Sections that have a short form: one scalar for the first key.
pub(super) const SHORT: &[(&str, &str)] = &[("Origin", "an address such as 10.0.0.1:80 or a section")];

/// More are not told; they are counted.
const MOST: usize = 1000;

/// What came of reading a tree.
pub(super) struct Read<T> {
    /// The value, unless the document is no section at all.
    pub(super) value: Option<T>,
    pub(super) flaws: Vec<Flaw>,
    pub(super) left_out: LeftOut,
}

/// Reads `root` as far as it can be read.
pub(super) fn read<T: for<'de> Deserialize<'de>>(root: &Node) -> Read<T> {
    let reader = Reader { said: RefCell::default() };
    let mut value = None;
    loop {
        let before = reader.said.borrow().spoiled.len();
        let at = At { reader: &reader, node: root, path: &Path::Root, or_off: false };
        if let Ok(done) = at.settle(T::deserialize(at)) {
            value = Some(done);
            break;
        }
        let said = reader.said.borrow();
        if said.spoiled.contains(&root.id) || said.spoiled.len() == before {
            break;
        }
    }
    let mut said = reader.said.into_inner();
    let flaws = said.take_flaws(root.place);
    Read { value, flaws, left_out: LeftOut { spoiled: said.spoiled, misspelt: said.misspelt } }
}

pub(super) struct Reader {
    said: RefCell<Said>,
}

#[derive(Default)]
struct Said {
    flaws: Vec<Flaw>,
    untold: usize,
    spoiled: HashSet<u32>,
    /// Sections and the missing key that an unknown one was meant to be.
    misspelt: HashSet<(u32, String)>,
}

impl Said {
    fn take_flaws(&mut self, place: Place) -> Vec<Flaw> {
        let mut flaws = std::mem::take(&mut self.flaws);
        if self.untold > 0 {
            let plural = if self.untold == 1 { "" } else { "s" };
            let found = format!("{} more mistake{plural}", self.untold);
            flaws.push(Flaw { place, path: String::new(), found, meant: "not all are told".to_owned() });
        }
        flaws
    }
}

/// The way from the root to a value.
pub(super) enum Path<'a> {
    Root,
    Key(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl Path<'_> {
    /// The key a value stands behind, if it is no list element.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Path::Key(_, key) => Some(key),
            Path::Root | Path::Index(..) => None,
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(Path::Root, key) => f.write_str(key),
            Path::Key(parent, key) => write!(f, "{parent}.{key}"),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// A value about to be read.
#[derive(Clone, Copy)]
pub(super) struct At<'r> {
    pub(super) reader: &'r Reader,
    pub(super) node: &'r Node,
    pub(super) path: &'r Path<'r>,
    /// Could it be switched off as well?
    pub(super) or_off: bool,
}

impl<'r> At<'r> {
    /// Notes what is wrong with this value, unless that was done further in.
    pub(super) fn settle<T>(self, result: Result<T, Fault>) -> Result<T, Fault> {
        let fault = match result {
            Ok(value) => return Ok(value),
            Err(fault) => fault,
        };
        match fault {
            Fault::Noted => return Err(Fault::Noted),
            Fault::Missing(key) => self.note_missing(key),
            // What a section says about its keys together may follow from one that was left out.
            Fault::Fresh { .. } if self.lacks_spoiled() => {}
            Fault::Fresh { found, meant } => self.note(self.node.place, self.path, (found, meant)),
        }
        self.spoil(self.node.id);
        Err(Fault::Noted)
    }

    pub(super) fn note(self, place: Place, path: &Path<'_>, (found, meant): (String, String)) {
        let found = match (found.strip_prefix("unknown value "), path.key()) {
            (Some(word), Some(key)) => format!("unknown {key} {word}"),
            _ => found,
        };
        let meant = match meant.strip_prefix("expected ") {
            Some(wanted) if self.or_off => format!("expected off, or {wanted}"),
            _ => meant,
        };
        let mut said = self.reader.said.borrow_mut();
        if said.flaws.len() < MOST {
            said.flaws.push(Flaw { place, path: path.to_string(), found, meant });
        } else {
            said.untold += 1;
        }
    }

    fn note_missing(self, key: &'static str) {
        let misspelt = self.reader.said.borrow().misspelt.contains(&(self.node.id, key.to_owned()));
        let is_there = matches!(&self.node.kind, Kind::Section(entries) if entries.get(key)
            .is_some_and(|entry| !entry.value.is_nothing()));
        if !misspelt && !is_there {
            let path = Path::Key(self.path, key);
            self.note(self.node.place, &path, ("missing".to_owned(), "it has no default".to_owned()));
        }
    }

    fn lacks_spoiled(self) -> bool {
        match &self.node.kind {
            Kind::Scalar { .. } => false,
            Kind::List(items) => items.iter().any(|item| self.is_spoiled(item)),
            Kind::Section(entries) => entries.values().any(|entry| self.is_spoiled(&entry.value)),
        }
    }

    pub(super) fn spoil(self, id: u32) {
        self.reader.said.borrow_mut().spoiled.insert(id);
    }

    pub(super) fn is_spoiled(self, node: &Node) -> bool {
        self.reader.said.borrow().spoiled.contains(&node.id)
    }

    fn unexpected(self) -> Unexpected<'r> {
        match &self.node.kind {
            Kind::Scalar { .. } if self.node.is_nothing() => Unexpected::Unit,
            Kind::Scalar { text, .. } => Unexpected::Str(text),
            Kind::List(_) => Unexpected::Seq,
            Kind::Section(_) => Unexpected::Map,
        }
    }

    pub(super) fn wrong(self, expected: &str) -> Fault {
        de::Error::invalid_type(self.unexpected(), &expected)
    }

    /// The entries of this section that are among `fields`; the others are noted.
    pub(super) fn known_entries(self, fields: &'static [&'static str]) -> Vec<Item<'r>> {
        let mut known = Vec::new();
        let Kind::Section(entries) = &self.node.kind else {
            if let (false, Some(first)) = (self.node.is_nothing(), fields.first()) {
                // The short form of a section: the scalar is its first key.
                known.push(Item { key: first, place: self.node.place, node: self.node, path: None });
            }
            return known;
        };
        for (key, entry) in entries.iter().filter(|(_, entry)| !self.is_spoiled(&entry.value)) {
            if !fields.contains(&key.as_str()) {
                self.judge_unknown(fields, (key, entry.key), &entry.value);
            } else if !entry.value.is_nothing() {
                known.push(Item::of(self, key, entry));
            }
        }
        known
    }

    fn judge_unknown(self, fields: &'static [&'static str], (key, place): (&str, Place), value: &Node) {
        let path = Path::Key(self.path, key);
        let meant = did_you_mean(key, fields.iter().copied());
        if let Some(word) = meant {
            self.reader.said.borrow_mut().misspelt.insert((self.node.id, word.to_owned()));
        }
        let known = || format!("known here: {}", one_of(fields.iter().copied()));
        let meant = meant.map_or_else(known, |word| format!("did you mean \"{word}\"?"));
        At { or_off: false, ..self }.note(place, &path, ("unknown key".to_owned(), meant));
        self.spoil(value.id);
    }
}

/// An entry of a section about to be read.
pub(super) struct Item<'r> {
    pub(super) key: &'r str,
    pub(super) place: Place,
    pub(super) node: &'r Node,
    /// The path of the section; none in the short form, whose value stands for the section itself.
    pub(super) path: Option<&'r Path<'r>>,
}

impl<'r> Item<'r> {
    pub(super) fn of(section: At<'r>, key: &'r str, entry: &'r Entry) -> Self {
        Self { key, place: entry.key, node: &entry.value, path: Some(section.path) }
    }
}
