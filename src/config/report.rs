//! What is wrong with a file, and where?
//!
//! Whoever finds a mistake says what was found and what was meant; whoever knows the file adds the path and the
//! place. A report holds all mistakes of a file, in the order of the file, and prints one a line:
//! `FILE:LINE:COL: path: what was found, what was meant`.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// Why one value cannot be used, said by whoever was to compile it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found}, {meant}")]
pub struct Invalid {
    /// What was found.
    pub found: String,
    /// What was meant, or what to do.
    pub meant: String,
}

impl Invalid {
    /// `found`, and what was meant by it.
    pub fn new(found: impl Into<String>, meant: impl Into<String>) -> Self {
        Self { found: found.into(), meant: meant.into() }
    }

    /// The complaint about the value at `path` (`pools.origin.balance.key`, `routes[2].match.path.regex`).
    pub fn at(self, path: impl Into<String>) -> Complaint {
        Complaint { path: path.into(), found: self.found, meant: self.meant }
    }
}

/// An [`Invalid`] value and its path in the document. Where another value has a part in it, its path stands in round
/// brackets in what was found, `(routes[0])`, and is told as its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Where in the document.
    pub path: String,
    /// What was found.
    pub found: String,
    /// What was meant, or what to do.
    pub meant: String,
}

/// Where in what was found the path of another value stands, without its brackets.
pub(super) fn other_path(found: &str) -> Option<Range<usize>> {
    let start = found.rfind("(routes[").max(found.rfind("(pools."))? + 1;
    let end = start + found[start..].find(')')?;
    Some(start..end)
}

/// Does a mistake keep the file from being used?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is taken, and this is said.
    Warning,
}

/// One mistake at its place. Serialises to the shape that `reload` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Does it refuse the file?
    #[serde(skip)]
    pub severity: Severity,
    /// The file.
    pub file: String,
    /// Line, from 1; 0 when the mistake is the file's as a whole.
    pub line: u32,
    /// Column in characters, from 1; 0 as above.
    pub column: u32,
    /// Path in the document.
    pub path: String,
    /// What was found.
    pub found: String,
    /// What was meant, or what to do.
    pub meant: String,
}

impl Mistake {
    /// A mistake of the file as a whole: it cannot be read, or is no file at all.
    pub fn of_file(file: &str, found: impl Into<String>, meant: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            file: file.to_owned(),
            line: 0,
            column: 0,
            path: String::new(),
            found: found.into(),
            meant: meant.into(),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.found)?;
        if self.meant.is_empty() { Ok(()) } else { write!(f, ", {}", self.meant) }
    }
}

/// Why a file is refused: every mistake in the order of the file, warnings among them. Prints one a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Report {
    /// The file.
    pub file: String,
    /// Its mistakes; at least one is an error.
    pub mistakes: Vec<Mistake>,
}

impl Report {
    /// The report of a file that has but one mistake.
    pub fn of(mistake: Mistake) -> Self {
        Self { file: mistake.file.clone(), mistakes: vec![mistake] }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.mistakes.iter().enumerate() {
            let end = if i == 0 { "" } else { "\n" };
            write!(f, "{end}{mistake}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake() -> Mistake {
        Mistake {
            severity: Severity::Error,
            file: "m.yaml".into(),
            line: 7,
            column: 18,
            path: "pools.origin.balance.algorithm".into(),
            found: "unknown algorithm \"hahs\"".into(),
            meant: "did you mean \"hash\"?".into(),
        }
    }

    #[test]
    fn a_mistake_is_one_line_with_its_place() {
        let line = "m.yaml:7:18: pools.origin.balance.algorithm: unknown algorithm \"hahs\", did you mean \"hash\"?";
        assert_eq!(mistake().to_string(), line);
        let warning = Mistake { severity: Severity::Warning, ..mistake() };
        assert_eq!(warning.to_string(), format!("warning: {line}"));
        assert_eq!(Mistake::of_file("m.yaml", "is empty", "").to_string(), "m.yaml: is empty");
    }

    #[test]
    fn a_report_is_one_line_a_mistake() {
        let report = Report { file: "m.yaml".into(), mistakes: vec![mistake(), mistake()] };
        assert_eq!(report.to_string(), format!("{0}\n{0}", mistake()));
    }

    #[test]
    fn a_mistake_serialises_to_what_reload_answers() {
        let json = serde_json::to_value(mistake()).unwrap();
        let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["column", "file", "found", "line", "meant", "path"]);
        assert_eq!(json["line"], 7);
    }

    #[test]
    fn another_value_is_found_by_its_path_in_brackets() {
        let found = "`a` and `b` (routes[12]) can match (both)";
        assert_eq!(other_path(found).map(|range| &found[range]), Some("routes[12]"));
        assert_eq!(other_path("`(`, not a regex"), None);
        assert_eq!(other_path("(routes["), None);
    }

    #[test]
    fn a_path_turns_an_invalid_value_into_a_complaint() {
        let complaint = Invalid::new("found \"x\"", "expected y").at("pools.a.host");
        assert_eq!(complaint.path, "pools.a.host");
        assert_eq!(complaint.meant, "expected y");
    }
}
