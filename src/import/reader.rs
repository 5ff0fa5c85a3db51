//! Which directives does a file hold, with the files that it includes?
//!
//! Names of included files are taken from the folder of the first file, as nginx takes them, or from that of the file they
//! stand in. How deep, how many and how long is bounded: a file may include itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::glob;
use super::lexer::{Lexer, Token};

/// Blocks within blocks.
const DEEPEST: usize = 24;
/// Files within files.
const DEEPEST_FILE: usize = 12;
/// Files in all.
const FILES: usize = 2_000;
/// Bytes of all files.
const BYTES: usize = 8 << 20;

/// A directive as written.
#[derive(Debug, Clone)]
pub(super) struct Directive {
    pub(super) name: String,
    pub(super) args: Vec<String>,
    /// What stands in its braces.
    pub(super) block: Option<Vec<Self>>,
    pub(super) place: Place,
}

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: Rc<str>,
    pub(super) line: u32,
}

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct Error {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What is wrong.
    pub what: String,
}

impl Directive {
    /// Its arguments in one line, as far as anybody wants to read.
    pub(super) fn said(&self) -> String {
        let mut said = self.name.clone();
        for arg in &self.args {
            said.push(' ');
            said.push_str(if arg.is_empty() { "\"\"" } else { arg });
        }
        let visible: String = said.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        match visible.char_indices().nth(100) {
            Some((end, _)) => format!("{}...", visible.get(..end).unwrap_or_default()),
            None => visible,
        }
    }

    pub(super) fn arg(&self, index: usize) -> &str {
        self.args.get(index).map_or("", String::as_str)
    }

    pub(super) fn inside(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The directives of the file at `path`.
pub(super) fn read(path: &Path) -> Result<Vec<Directive>, Error> {
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let mut reader = Reader { folder, files: 0, bytes: 0 };
    let fail = |what| Error { file: path.display().to_string(), line: 1, what };
    let text = reader.load(path).map_err(fail)?;
    reader.file(path, &text, 0)
}

struct Reader {
    /// Of the first file.
    folder: PathBuf,
    files: usize,
    bytes: usize,
}

/// A file that is being read.
struct Open<'t> {
    path: &'t Path,
    name: Rc<str>,
    lexer: Lexer<'t>,
    /// How many files include it.
    depth: usize,
}

impl Open<'_> {
    fn error(&self, what: impl Into<String>) -> Error {
        Error { file: self.name.to_string(), line: self.lexer.line(), what: what.into() }
    }

    fn next(&mut self) -> Result<Option<(Token, u32)>, Error> {
        self.lexer.next().map_err(|what| self.error(what))
    }
}

impl Reader {
    fn load(&mut self, path: &Path) -> Result<String, String> {
        let bytes = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.files > FILES || self.bytes > BYTES {
            return Err(format!("more than {FILES} files, or {} MiB", BYTES >> 20));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn file(&mut self, path: &Path, text: &str, depth: usize) -> Result<Vec<Directive>, Error> {
        let shown = path.strip_prefix(&self.folder).unwrap_or(path).display().to_string();
        let mut open = Open { path, name: shown.into(), lexer: Lexer::new(text), depth };
        self.block(&mut open, 0)
    }

    /// What stands up to the end of the block, or of the file.
    fn block(&mut self, open: &mut Open<'_>, nested: usize) -> Result<Vec<Directive>, Error> {
        let mut found = Vec::new();
        loop {
            match open.next()? {
                Some((Token::Word(name), line)) => {
                    let directive = self.directive(open, nested, (name, line))?;
                    self.take(open, directive, &mut found)?;
                }
                Some((Token::Close, _)) if nested > 0 => return Ok(found),
                None if nested == 0 => return Ok(found),
                None => return Err(open.error("the file ends inside a block")),
                Some((Token::End, _)) => return Err(open.error("a `;` without a directive")),
                Some((Token::Open, _)) => return Err(open.error("a `{` without a directive")),
                Some((Token::Close, _)) => return Err(open.error("a `}` without its `{`")),
            }
        }
    }

    fn directive(
        &mut self,
        open: &mut Open<'_>,
        nested: usize,
        (name, line): (String, u32),
    ) -> Result<Directive, Error> {
        let place = Place { file: open.name.clone(), line };
        let mut args = Vec::new();
        loop {
            match open.next()? {
                Some((Token::Word(word), _)) => args.push(word),
                Some((Token::End, _)) => return Ok(Directive { name, args, block: None, place }),
                Some((Token::Open, _)) if name.ends_with("_by_lua_block") => {
                    open.lexer.skip_block().map_err(|what| open.error(what))?;
                    return Ok(Directive { name, args, block: Some(Vec::new()), place });
                }
                Some((Token::Open, _)) if nested == DEEPEST => {
                    return Err(open.error(format!("blocks nested more than {DEEPEST} deep")));
                }
                Some((Token::Open, _)) => {
                    let block = Some(self.block(open, nested + 1)?);
                    return Ok(Directive { name, args, block, place });
                }
                Some((Token::Close, _)) => return Err(open.error(format!("`{name}` without its `;`"))),
                None => return Err(open.error(format!("the file ends inside `{name}`"))),
            }
        }
    }

    /// An `include` stands for what its files hold; one whose file is not there stays, to be told.
    fn take(&mut self, open: &Open<'_>, directive: Directive, found: &mut Vec<Directive>) -> Result<(), Error> {
        let pattern = match (&*directive.name, &*directive.args) {
            ("include", [pattern]) if !pattern.is_empty() => pattern,
            _ => {
                found.push(directive);
                return Ok(());
            }
        };
        let at = |what| Error { file: directive.place.file.to_string(), line: directive.place.line, what };
        if open.depth == DEEPEST_FILE {
            return Err(at(format!("files included more than {DEEPEST_FILE} deep")));
        }
        let own = open.path.parent().unwrap_or(Path::new(""));
        let mut paths = glob::find(&self.folder.join(pattern));
        if paths.is_empty() {
            paths = glob::find(&own.join(pattern));
        }
        if paths.is_empty() && !glob::is_pattern(pattern) {
            found.push(directive);
            return Ok(());
        }
        for path in paths {
            let text = self.load(&path).map_err(|what| at(format!("{}: {what}", path.display())))?;
            found.extend(self.file(&path, &text, open.depth + 1)?);
        }
        Ok(())
    }
}
