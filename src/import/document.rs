//! The YAML that is written: sections, lists and values, with comments above them.
//!
//! What is short and has no comment inside stands on one line. A value may be taken out again by its path, as a report of
//! mistakes names it.

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// A text, quoted where it would be read as something else.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    List(Vec<Item>),
    Section(Section),
}

/// Keys and their values, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Section {
    pub(super) entries: Vec<Entry>,
    /// Each key on a line of its own, however short.
    pub(super) tall: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) comments: Vec<String>,
    pub(super) key: String,
    pub(super) node: Node,
}

/// An element of a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) comments: Vec<String>,
    pub(super) node: Node,
}

/// Columns of a value on one line.
const WIDE: usize = 100;

impl Node {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn list<T: Into<Self>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(|node| Item { comments: Vec::new(), node: node.into() }).collect())
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) | Self::Flag(_) => false,
            Self::List(items) => items.is_empty(),
            Self::Section(section) => section.entries.is_empty(),
        }
    }

    /// On one line, if it may stand there.
    fn flow(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(scalar(text)),
            Self::Flag(flag) => Some(flag.to_string()),
            Self::List(items) => {
                let items = items.iter().map(|item| item.comments.is_empty().then(|| item.node.flow())?);
                Some(format!("[{}]", items.collect::<Option<Vec<_>>>()?.join(", ")))
            }
            Self::Section(section) if section.entries.is_empty() => Some("{}".to_owned()),
            Self::Section(section) if section.tall => None,
            Self::Section(section) => {
                let entry = |entry: &Entry| {
                    let value = entry.comments.is_empty().then(|| entry.node.flow())??;
                    Some(format!("{}: {value}", scalar(&entry.key)))
                };
                Some(format!("{{ {} }}", section.entries.iter().map(entry).collect::<Option<Vec<_>>>()?.join(", ")))
            }
        }
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Node {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Section> for Node {
    fn from(section: Section) -> Self {
        Self::Section(section)
    }
}

impl Section {
    pub(super) fn tall() -> Self {
        Self { entries: Vec::new(), tall: true }
    }

    /// One more key, unless nothing stands behind it.
    pub(super) fn put(&mut self, key: &str, node: impl Into<Node>) {
        let node = node.into();
        if !node.is_empty() {
            self.put_always(key, node);
        }
    }

    pub(super) fn put_always(&mut self, key: &str, node: impl Into<Node>) {
        self.entries.push(Entry { comments: Vec::new(), key: key.to_owned(), node: node.into() });
    }

    pub(super) fn with(mut self, key: &str, node: impl Into<Node>) -> Self {
        self.put(key, node);
        self
    }

    pub(super) fn find(&mut self, key: &str) -> Option<&mut Node> {
        self.entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.node)
    }

    /// The document, after these comments.
    pub(super) fn print(&self, head: &[String]) -> String {
        let mut out = String::new();
        head.iter().for_each(|line| comment(line, 0, &mut out));
        self.entries(0, &mut out);
        out
    }

    fn entries(&self, indent: usize, out: &mut String) {
        for Entry { comments, key, node } in &self.entries {
            comments.iter().for_each(|line| comment(line, indent, out));
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(&scalar(key));
            out.push(':');
            behind_key(node, indent, out);
        }
    }
}

fn behind_key(node: &Node, indent: usize, out: &mut String) {
    match node.flow().filter(|flow| flow.len() + indent <= WIDE || matches!(node, Node::Text(_))) {
        Some(flow) => {
            out.push(' ');
            out.push_str(&flow);
            out.push('\n');
        }
        None => {
            out.push('\n');
            match node {
                Node::Section(section) => section.entries(indent + 2, out),
                Node::List(items) => items.iter().for_each(|item| element(item, indent + 2, out)),
                Node::Text(_) | Node::Flag(_) => {}
            }
        }
    }
}

fn element(item: &Item, indent: usize, out: &mut String) {
    item.comments.iter().for_each(|line| comment(line, indent, out));
    let start = out.len();
    match (&item.node, item.node.flow().filter(|flow| flow.len() + indent <= WIDE)) {
        (Node::Section(section), None) => {
            section.entries(indent + 2, out);
            // The dash stands in the indentation of the first key, which may have comments above it.
            let first = section.entries.first().map_or(0, |entry| entry.comments.len());
            let skipped =
                out.get(start..).unwrap_or_default().split_inclusive('\n').take(first).map(str::len).sum::<usize>();
            let dash = start + skipped + indent;
            if out.is_char_boundary(dash) && out.get(dash..).is_some_and(|rest| rest.starts_with("  ")) {
                out.replace_range(dash..dash + 1, "-");
            }
        }
        (node, flow) => {
            let flow = flow.or_else(|| node.flow()).unwrap_or_default();
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str("- ");
            out.push_str(&flow);
            out.push('\n');
        }
    }
}

fn comment(line: &str, indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
    out.push('#');
    if !line.is_empty() {
        out.push(' ');
    }
    out.extend(line.chars().map(|letter| if letter.is_control() || letter == '\u{feff}' { ' ' } else { letter }));
    out.push('\n');
}

/// A text as YAML has it.
fn scalar(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-%+".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'/' || byte == b'_');
    let is_word =
        matches!(text.to_ascii_lowercase().as_str(), "null" | "true" | "false" | "yes" | "no" | "on" | "y" | "n");
    if begins && text.bytes().all(is_plain) && !is_word {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            ' '..='~' => out.push(letter),
            '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' => out.push(letter),
            '\u{10000}'.. => out.push_str(&format!("\\U{:08x}", u32::from(letter))),
            _ => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
        }
    }
    out.push('"');
    out
}

/// A step of a path: `pools.origin.origins[2].weight`.
pub(super) enum Step<'p> {
    Key(&'p str),
    Index(usize),
}

impl Section {
    /// The entry a path leads to, as far as it is written: the steps, in this document's own keys.
    pub(super) fn steps<'p>(&self, path: &'p str) -> Vec<Step<'p>> {
        let mut steps = Vec::new();
        let mut at = Some(At::Section(self));
        let mut rest = path;
        while let (Some(node), false) = (at, rest.is_empty()) {
            let (step, behind, next) = match node {
                At::Section(section) => {
                    let Some((key, behind, node)) = longest_key(section, rest) else { break };
                    (Step::Key(key), behind, node)
                }
                At::List(items) => {
                    let Some((index, behind)) = index_of(rest) else { break };
                    let Some(item) = items.get(index) else { return Vec::new() };
                    (Step::Index(index), behind, &item.node)
                }
            };
            steps.push(step);
            rest = behind.strip_prefix('.').unwrap_or(behind);
            at = match next {
                Node::Section(section) => Some(At::Section(section)),
                Node::List(items) => Some(At::List(items)),
                Node::Text(_) | Node::Flag(_) => None,
            };
        }
        steps
    }

    /// The comments of the pool or the route that these steps lead into.
    pub(super) fn comments(&self, steps: &[Step<'_>]) -> Vec<String> {
        let [Step::Key(list), second, ..] = steps else { return Vec::new() };
        let node = self.entries.iter().find(|entry| entry.key == *list).map(|entry| &entry.node);
        match (node, second) {
            (Some(Node::Section(section)), Step::Key(key)) => {
                let entry = section.entries.iter().find(|entry| entry.key == *key);
                entry.map(|entry| entry.comments.clone()).unwrap_or_default()
            }
            (Some(Node::List(items)), Step::Index(at)) => {
                items.get(*at).map(|item| item.comments.clone()).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// Takes out what these steps lead to.
    pub(super) fn take_out(&mut self, steps: &[Step<'_>]) {
        let [first, rest @ ..] = steps else { return };
        let Step::Key(key) = first else { return };
        match (rest, self.entries.iter().position(|entry| entry.key == *key)) {
            ([], Some(at)) => _ = self.entries.remove(at),
            (rest, Some(at)) => {
                if let Some(entry) = self.entries.get_mut(at) {
                    take_out_of(&mut entry.node, rest);
                }
            }
            (_, None) => {}
        }
    }
}

fn take_out_of(node: &mut Node, steps: &[Step<'_>]) {
    match (node, steps) {
        (Node::Section(section), _) => section.take_out(steps),
        (Node::List(items), [Step::Index(at)]) if *at < items.len() => _ = items.remove(*at),
        (Node::List(items), [Step::Index(at), rest @ ..]) => {
            if let Some(item) = items.get_mut(*at) {
                take_out_of(&mut item.node, rest);
            }
        }
        _ => {}
    }
}

#[derive(Clone, Copy)]
enum At<'d> {
    Section(&'d Section),
    List(&'d [Item]),
}

/// Keys may hold dots.
fn longest_key<'p, 'd>(section: &'d Section, path: &'p str) -> Option<(&'p str, &'p str, &'d Node)> {
    let fits = |entry: &&Entry| {
        path.strip_prefix(entry.key.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let entry = section.entries.iter().filter(fits).max_by_key(|entry| entry.key.len())?;
    let (key, behind) = path.split_at_checked(entry.key.len())?;
    Some((key, behind, &entry.node))
}

fn index_of(path: &str) -> Option<(usize, &str)> {
    let (index, behind) = path.strip_prefix('[')?.split_once(']')?;
    Some((index.parse().ok()?, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Section {
        let origin = Section::default().with("address", "a:1").with("weight", "2");
        let mut pool = Section::tall().with("origins", Node::list([Node::from(origin), "b".into()]));
        pool.entries[0].comments.push("said".to_owned());
        let route = Section::tall().with("name", "x y").with("pool", "p.q");
        let mut routes = vec![Item { comments: vec!["above".to_owned()], node: route.into() }];
        routes.push(Item { comments: Vec::new(), node: Section::default().with("pool", "p.q").into() });
        let pools = Section { entries: Vec::new(), tall: true }.with("p.q", pool);
        Section::tall().with("version", "1").with("pools", pools).with("routes", Node::List(routes))
    }

    #[test]
    fn what_is_short_stands_on_one_line() {
        assert_eq!(
            document().print(&["head".to_owned()]),
            "# head\nversion: 1\npools:\n  p.q:\n    # said\n    origins: [{ address: \"a:1\", weight: 2 }, b]\nroutes:\n  # above\n  \
             - name: \"x y\"\n    pool: p.q\n  - { pool: p.q }\n"
        );
    }

    #[test]
    fn a_value_is_taken_out_by_its_path() {
        let mut document = document();
        let steps = document.steps("pools.p.q.origins[1]");
        assert_eq!(steps.len(), 4);
        document.take_out(&steps);
        let steps = document.steps("routes[0].name.more");
        document.take_out(&steps);
        document.take_out(&document.clone().steps("routes[7]"));
        let text = document.print(&[]);
        assert!(text.contains("origins: [{ address: \"a:1\", weight: 2 }]"), "{text}");
        assert!(text.contains("- pool: p.q\n  - { pool"), "{text}");
    }

    #[test]
    fn what_would_be_read_as_something_else_is_quoted() {
        for (text, written) in [
            ("a-b.c/d", "a-b.c/d"),
            ("", "\"\""),
            ("true", "\"true\""),
            ("a: b", "\"a: b\""),
            ("{x}", "\"{x}\""),
            ("a\"\\\n\u{1}\u{85}\u{1f600}\u{e9}", "\"a\\\"\\\\\\n\\u0001\\u0085\\U0001f600\u{e9}\""),
            ("off", "off"),
        ] {
            assert_eq!(scalar(text), written);
        }
    }
}
