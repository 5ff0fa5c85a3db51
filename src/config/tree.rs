//! What does the text say, and where does it say it?
//!
//! A document becomes a tree of sections, lists and scalars, each with its line and column and a number of its own.
//! Scalars stay as written: their types are decided by whoever reads them, so `1.20` is still `1.20` where a text is
//! wanted. `serde_yaml` judges the syntax first; the events of the parser below `marked-yaml` are then built up
//! here, without recursion, because a file of a million dashes must not end the process.

use indexmap::IndexMap;
use indexmap::map::Entry as Slot;
use serde::de::IgnoredAny;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::{Marker, TScalarStyle};

/// Nesting above this is no configuration; the deepest key of ours lies nine levels down.
const DEEPEST: usize = 32;

/// Brackets that may be open in what is read at all.
const UNCLOSED: usize = 1024;

/// A line and a column, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

/// One value of the document.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Its number in the document.
    pub(super) id: u32,
    pub(super) place: Place,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Scalar { text: String, quoted: bool },
    List(Vec<Node>),
    Section(IndexMap<String, Entry>),
}

/// A value and where its key stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: Place,
    pub(super) value: Node,
}

impl Node {
    /// Is nothing written here?
    pub(super) fn is_nothing(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null"))
    }

    /// Is this the word for "switched off"?
    pub(super) fn is_off(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, .. } if matches!(text.as_str(), "off" | "false"))
    }
}

/// Something the document itself gets wrong.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Flaw {
    pub(super) place: Place,
    pub(super) path: String,
    pub(super) found: String,
    pub(super) meant: String,
}

impl Flaw {
    fn new(place: Place, found: impl Into<String>, meant: impl Into<String>) -> Self {
        Self { place, path: String::new(), found: found.into(), meant: meant.into() }
    }
}

/// The tree of `text`, with the keys that are written twice (the first one counts). Any other flaw stands alone,
/// since nothing after it can be trusted.
pub(super) fn build(text: &str) -> Result<(Node, Vec<Flaw>), Flaw> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    judge_depth(text)?;
    judge_syntax(text)?;
    let mut parser = Parser::new_from_str(text);
    let mut builder = Builder { lines: text.lines().collect(), ..Builder::default() };
    loop {
        let (event, mark) = parser.next_token().map_err(|e| Flaw::new(place_of(*e.marker()), e.info(), ""))?;
        if event == Event::StreamEnd {
            break;
        }
        builder.take(event, place_of(mark))?;
    }
    match builder.root {
        Some(root) if !root.is_nothing() => Ok((root, builder.twice)),
        _ => Err(Flaw::new(Place { line: 1, column: 1 }, "the file is empty", "expected \"version: 1\" and pools")),
    }
}

/// Before anything else: the time both parsers take grows with the square of the nesting. Brackets are counted wherever
/// they stand, since no text has so many that are not closed.
fn judge_depth(text: &str) -> Result<(), Flaw> {
    let mut depth = 0_usize;
    for (line, text) in text.lines().enumerate() {
        for (column, letter) in text.chars().enumerate() {
            match letter {
                '[' | '{' if depth == UNCLOSED => return Err(too_deep(place(line + 1, column + 1))),
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    Ok(())
}

fn too_deep(at: Place) -> Flaw {
    Flaw::new(at, format!("nested more than {DEEPEST} deep"), "expected keys of the configuration")
}

/// What `serde_yaml` does not take is not taken, and it finds the better words.
fn judge_syntax(text: &str) -> Result<(), Flaw> {
    let mut documents = serde_yaml::Deserializer::from_str(text);
    let verdict = |e: serde_yaml::Error| {
        let place = e.location().map_or(Place { line: 1, column: 1 }, |l| place(l.line(), l.column()));
        let message = e.to_string();
        let here = format!(" at line {} column {}", place.line, place.column);
        Flaw::new(place, message.replacen(&here, "", 1), advice(text, place, &message))
    };
    if let Some(first) = documents.next() {
        <IgnoredAny as serde::Deserialize>::deserialize(first).map_err(verdict)?;
    }
    match documents.next().map(<IgnoredAny as serde::Deserialize>::deserialize) {
        None => Ok(()),
        Some(Err(e)) => Err(verdict(e)),
        Some(Ok(_)) => {
            let line = 1 + text.lines().skip(1).position(|l| l.starts_with("---")).map_or(0, |i| i + 1);
            Err(Flaw::new(place(line, 1), "a second document", "expected one document a file"))
        }
    }
}

/// What helps against the syntax errors that operators make.
fn advice(text: &str, at: Place, message: &str) -> &'static str {
    let line = text.lines().nth(at.line.saturating_sub(1) as usize);
    match line.and_then(|line| line.chars().nth(at.column.saturating_sub(1) as usize)) {
        Some('\t') => "indent with spaces, YAML takes no tabs",
        Some('@' | '`' | '%') => "a text that begins with this character has to be quoted",
        _ if message.contains("an alias") || message.contains("an anchor") => {
            "a text that begins with * or & has to be quoted"
        }
        None => "the file seems to be cut off",
        _ => "",
    }
}

fn place(line: usize, column: usize) -> Place {
    let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Place { line: narrow(line), column: narrow(column) }
}

fn place_of(mark: Marker) -> Place {
    place(mark.line(), mark.col() + 1)
}

/// A list or a section that is not closed yet.
enum Open {
    List(Place, Vec<Node>),
    Section(Place, IndexMap<String, Entry>, Option<(String, Place)>),
}

#[derive(Default)]
struct Builder<'t> {
    lines: Vec<&'t str>,
    open: Vec<Open>,
    root: Option<Node>,
    twice: Vec<Flaw>,
    next_id: u32,
}

impl Builder<'_> {
    fn take(&mut self, event: Event, at: Place) -> Result<(), Flaw> {
        refuse_marks(&event, at)?;
        match event {
            Event::Scalar(text, style, ..) => {
                let kind = Kind::Scalar { text, quoted: style != TScalarStyle::Plain };
                self.close(kind, at)
            }
            Event::SequenceStart(..) => self.nest(Open::List(at, Vec::new()), at),
            Event::MappingStart(..) => self.nest(Open::Section(at, IndexMap::new(), None), at),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(at, items)) => self.close(Kind::List(items), at),
                Some(Open::Section(at, entries, _)) => {
                    // Without braces the parser places a section at its first colon.
                    let at = entries.first().map_or(at, |(_, entry)| entry.key.min(at));
                    self.close(Kind::Section(entries), at)
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn nest(&mut self, open: Open, at: Place) -> Result<(), Flaw> {
        if matches!(self.open.last(), Some(Open::Section(_, _, None))) {
            return Err(Flaw::new(at, "a list or a section as a key", "expected a plain key"));
        }
        if self.open.len() == DEEPEST {
            return Err(too_deep(at));
        }
        self.open.push(open);
        Ok(())
    }

    /// A value is complete: it goes where it belongs.
    fn close(&mut self, kind: Kind, at: Place) -> Result<(), Flaw> {
        self.next_id += 1;
        let mut node = Node { id: self.next_id, place: at, kind };
        if node.kind == (Kind::Scalar { text: String::new(), quoted: false }) {
            node.place = self.dash_before(at);
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List(_, items)) => items.push(node),
            Some(Open::Section(_, entries, key)) => match key.take() {
                None => *key = Some(key_of(node)?),
                Some((text, key_at)) => {
                    if node.is_nothing() {
                        node.place = key_at;
                    }
                    match entries.entry(text) {
                        Slot::Vacant(slot) => drop(slot.insert(Entry { key: key_at, value: node })),
                        Slot::Occupied(slot) => {
                            let (text, first) = (slot.key().clone(), slot.get().key.line);
                            self.note_twice(&text, key_at, first);
                        }
                    }
                }
            },
        }
        Ok(())
    }

    /// Where the list element begins that has nothing behind its dash: the parser places it where the next thing is.
    fn dash_before(&self, at: Place) -> Place {
        let above = self.lines.iter().enumerate().take(at.line.saturating_sub(1) as usize).rev();
        let mut written = above.filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
        match written.next().and_then(|(i, line)| Some((i, line.find('-')?, line))) {
            Some((i, bytes, line)) => place(i + 1, line[..bytes].chars().count() + 1),
            None => at,
        }
    }

    fn note_twice(&mut self, key: &str, at: Place, first: u32) {
        let path = format!("{}{key}", self.path());
        let found = format!("the key \"{key}\" a second time");
        self.twice.push(Flaw { place: at, path, found, meant: format!("it stands in line {first} already") });
    }

    /// The path of what is open, with its last dot.
    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.open {
            match open {
                Open::Section(_, _, Some((key, _))) => path = format!("{path}{key}."),
                Open::Section(..) => {}
                Open::List(_, items) => path = format!("{}[{}].", path.trim_end_matches('.'), items.len()),
            }
        }
        path
    }
}

/// Anchors, aliases and tags make a file say things in places where they do not stand.
fn refuse_marks(event: &Event, at: Place) -> Result<(), Flaw> {
    let (anchor, tag) = match event {
        Event::Scalar(_, _, anchor, tag) | Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
            (*anchor, tag.is_some())
        }
        Event::Alias(_) => (1, false),
        _ => (0, false),
    };
    let write_out = "write the value out where it is meant, or quote it if it is a text";
    if anchor != 0 {
        return Err(Flaw::new(at, "anchors (&) and aliases (*) are not taken", write_out));
    }
    if tag {
        return Err(Flaw::new(at, "tags (!) are not taken", write_out));
    }
    Ok(())
}

fn key_of(node: Node) -> Result<(String, Place), Flaw> {
    match node.kind {
        Kind::Scalar { text, quoted: false } if text == "<<" => {
            Err(Flaw::new(node.place, "merge keys (<<) are not taken", "write the keys out where they are meant"))
        }
        Kind::Scalar { text, .. } => Ok((text, node.place)),
        Kind::List(_) | Kind::Section(_) => {
            Err(Flaw::new(node.place, "a list or a section as a key", "expected a plain key"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flaw(text: &str) -> (u32, u32, String) {
        let flaw = build(text).unwrap_err();
        (flaw.place.line, flaw.place.column, flaw.found)
    }

    fn entry<'a>(node: &'a Node, key: &str) -> &'a Entry {
        match &node.kind {
            Kind::Section(entries) => &entries[key],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_and_keys_know_their_place_and_text() {
        let (root, twice) = build("# head\na:\n  b: 1.20\n  c: [x, 'y']\n").unwrap();
        assert!(twice.is_empty());
        assert_eq!(root.place, Place { line: 2, column: 1 });
        let a = entry(&root, "a");
        assert_eq!(a.key, Place { line: 2, column: 1 });
        let b = entry(&a.value, "b");
        assert_eq!(b.value.place, Place { line: 3, column: 6 });
        assert_eq!(b.value.kind, Kind::Scalar { text: "1.20".into(), quoted: false });
        let Kind::List(items) = &entry(&a.value, "c").value.kind else { panic!("no list") };
        assert_eq!(items[1].kind, Kind::Scalar { text: "y".into(), quoted: true });
        assert_eq!(items[1].place, Place { line: 4, column: 10 });
    }

    #[test]
    fn nothing_stands_where_its_key_stands() {
        let (root, _) = build("a:\n\n\nb: ~\n").unwrap();
        assert!(entry(&root, "a").value.is_nothing());
        assert_eq!(entry(&root, "a").value.place, Place { line: 1, column: 1 });
        assert!(entry(&root, "b").value.is_nothing());
        let (root, _) = build("a:\n  - x\n  - # none\n\n  -\nb: 1\n").unwrap();
        let Kind::List(items) = &entry(&root, "a").value.kind else { panic!("no list") };
        let places: Vec<_> = items.iter().map(|item| (item.place.line, item.place.column)).collect();
        assert_eq!(places, [(2, 5), (3, 3), (5, 3)]);
    }

    #[test]
    fn every_key_written_twice_names_both_lines() {
        let (_, twice) = build("pools:\n  a: 1\n  b: 2\n  a: 3\nx: [{k: 1, k: 2}]\npools: {}\n").unwrap();
        let said: Vec<_> = twice.iter().map(|f| (f.place.line, f.path.as_str(), f.meant.as_str())).collect();
        let expected = [
            (4, "pools.a", "it stands in line 2 already"),
            (5, "x[0].k", "it stands in line 5 already"),
            (6, "pools", "it stands in line 1 already"),
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn syntax_errors_name_their_place() {
        assert_eq!(flaw("a:\n  b: [1, 2\nc: 3\n").0, 3);
        let (line, column, found) = flaw("a:\n\tb: 1\n");
        assert_eq!((line, column), (2, 1));
        assert!(found.starts_with("found character that cannot start any token"), "{found}");
        let cut_off = build("version: 1\npools:\n  a: \"10.0.0").unwrap_err();
        assert_eq!((cut_off.place.line, cut_off.meant.as_str()), (3, "the file seems to be cut off"));
        assert_eq!(flaw("a: 1\n---\nb: 2\n"), (2, 1, "a second document".into()));
    }

    #[test]
    fn syntax_errors_say_what_helps() {
        let meant = |text: &str| build(text).unwrap_err().meant;
        assert_eq!(meant("a:\n\tb: 1\n"), "indent with spaces, YAML takes no tabs");
        assert_eq!(meant("hosts: [*.example.org]\n"), "a text that begins with * or & has to be quoted");
        assert_eq!(meant("a: @x\n"), "a text that begins with this character has to be quoted");
    }

    #[test]
    fn empty_files_are_called_empty() {
        for text in ["", "\n\n", "# only a comment\n", "---\n", "\u{feff}", "~\n"] {
            assert_eq!(flaw(text).2, "the file is empty", "{text:?}");
        }
    }

    #[test]
    fn anchors_aliases_tags_and_merge_keys_are_refused() {
        for (text, column) in [
            ("a: &x 1\n", 7),
            ("a: *x\n", 4),
            ("hosts: [*.example.org]\n", 10),
            ("a: !!str 1\n", 10),
            ("<<: {a: 1}\n", 1),
            ("? [a]\n: 1\n", 3),
        ] {
            let (line, found_column, found) = flaw(text);
            assert_eq!((line, found_column), (1, column), "{text:?}: {found}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_without_recursion() {
        for text in [format!("a: {}", "- ".repeat(300_000)), "- ".repeat(500_000), "[".repeat(200)] {
            assert!(build(&text).is_err());
        }
        assert_eq!(flaw(&format!("{}1{}", "[".repeat(40), "]".repeat(40))).2, "nested more than 32 deep");
        // Such a file would take minutes to read to its end.
        for open in ["[", "{a: ", "- "] {
            assert_eq!(flaw(&open.repeat(300_000)).2, "nested more than 32 deep", "{open}");
        }
    }

    #[test]
    fn aliases_are_never_expanded() {
        let mut bomb = String::from("a0: &a0 x\n");
        for i in 1..60 {
            bomb += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(", "));
        }
        assert_eq!(flaw(&bomb).2, "anchors (&) and aliases (*) are not taken");
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::build;

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = build(&text);
        }

        #[test]
        fn no_yaml_soup_panics(text in "[-a:?\\[\\]{}&*!|>'\"#%@`, \n\t\r~.<0-9]{0,60}") {
            let _ = build(&text);
        }
    }
}
