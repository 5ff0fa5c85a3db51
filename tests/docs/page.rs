//! What is there to be typed on a page? Its fenced blocks, and in those of a shell its commands with the answers it shows.

use std::path::Path;

/// A page of the documents.
pub(crate) struct Page {
    /// Its path from the root of the sources.
    pub(crate) path: String,
    pub(crate) blocks: Vec<Block>,
}

/// A fenced block.
#[derive(Default)]
pub(crate) struct Block {
    /// The line that it begins at.
    pub(crate) line: usize,
    /// `sh`, `console`, `yaml`, or nothing.
    pub(crate) language: String,
    /// The file that it is to be put into: `<!-- file: NAME -->` stands right before it.
    pub(crate) file: Option<String>,
    pub(crate) text: String,
}

/// A command, and what the page says that it prints; nothing where it shows nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Typed {
    pub(crate) command: String,
    pub(crate) prints: String,
}

impl Page {
    pub(crate) fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        Self { path: path.to_owned(), blocks: blocks(&text) }
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let (mut found, mut open, mut before) = (Vec::new(), None::<(usize, Block)>, "");
    for (at, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        match (&mut open, bare.strip_prefix("```")) {
            (None, Some(language)) => {
                let file = before.strip_prefix("<!-- file: ").and_then(|rest| rest.strip_suffix(" -->"));
                let (language, file) = (language.to_owned(), file.map(str::to_owned));
                open = Some((line.len() - bare.len(), Block { line: at + 1, language, file, text: String::new() }));
            }
            (Some(_), Some(_)) => found.extend(open.take().map(|(_, block)| block)),
            // In a list a block is set in, and its lines with it.
            (Some((indent, block)), None) => block.text += &format!("{}\n", line.get(*indent..).unwrap_or("")),
            (None, None) => before = line,
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

impl Block {
    /// What is to be typed; `None` for a block that is not of a shell.
    pub(crate) fn typed(&self) -> Option<Vec<Typed>> {
        match self.language.as_str() {
            "sh" => Some(commands(&self.text)),
            "console" => Some(session(&self.text)),
            _ => None,
        }
    }
}

/// Each line a command, unless it goes on in the next one.
fn commands(text: &str) -> Vec<Typed> {
    let (mut found, mut command) = (Vec::new(), String::new());
    for line in text.lines() {
        command += line;
        let goes_on = command.ends_with('\\') || command.matches('\'').count() % 2 == 1;
        if goes_on {
            command.push('\n');
        } else if command.is_empty() || command.starts_with('#') {
            command.clear();
        } else {
            found.push(Typed { command: std::mem::take(&mut command), prints: String::new() });
        }
    }
    assert!(command.is_empty(), "{command} does not end");
    found
}

/// `$ ` is before each command, what it prints below it.
fn session(text: &str) -> Vec<Typed> {
    let mut found: Vec<Typed> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), found.last_mut()) {
            (Some(command), _) => found.push(Typed { command: command.to_owned(), prints: String::new() }),
            (None, Some(last)) => last.prints += &format!("{line}\n"),
            (None, None) => panic!("{line} is not printed by anything"),
        }
    }
    found
}

#[test]
fn blocks_are_found_with_their_places() {
    let found = blocks("a\n<!-- file: f.yaml -->\n```yaml\nx: 1\n```\n- b\n  ```sh\n  one\n  ```\n");
    let told: Vec<_> =
        found.iter().map(|b| (b.line, b.language.as_str(), b.file.as_deref(), b.text.as_str())).collect();
    assert_eq!(told, [(3, "yaml", Some("f.yaml"), "x: 1\n"), (7, "sh", None, "one\n")]);
}

#[test]
fn commands_go_on_where_a_shell_would_wait() {
    let found: Vec<_> = commands("one\n# why\ntwo \\\n  more\nawk '{\n}' f\n").into_iter().map(|t| t.command).collect();
    assert_eq!(found, ["one", "two \\\n  more", "awk '{\n}' f"]);
}
