//! Which expression fits the paths that begin as a location does, and fit an expression within it?
//!
//! No expression here looks ahead, so the two are made one by hand: what is asked for may begin within the beginning
//! (`/x` below `/a/` fits `/a/x`), which is seen where it begins with plain letters.

use super::paths::{is_choice, quoted};

/// `None`: nobody can say.
pub(super) fn beneath(text: &str, any_case: bool, within: &str) -> Option<String> {
    if is_choice(text) {
        return None;
    }
    let case = if any_case { "(?i)" } else { "" };
    let (text, end) = match text.strip_suffix('$') {
        Some(inner) if !inner.ends_with('\\') => (inner, ""),
        _ if text.ends_with(".*") => (text, ""),
        _ => (text, ".*"),
    };
    let asked = Asked { within, any_case };
    let (mut text, mut from) = (text, 0);
    if let Some(anchored) = text.strip_prefix('^') {
        let (letters, behind) = plain(anchored);
        if let Some(rest) = asked.split(&letters, within) {
            return Some(format!("{}{case}{}{behind}{end}", quoted(within), quoted(rest)));
        }
        // What is anything may be the rest of the beginning.
        asked.split(within, &letters).filter(|_| behind.starts_with(".*"))?;
        (text, from) = (behind, letters.len());
    }
    let text = text.trim_start_matches(".*");
    if text.is_empty() {
        return Some(format!("{}.*", quoted(within)));
    }
    let overlaps = asked.overlaps(text, end, from)?;
    if overlaps.is_empty() {
        return Some(format!("{}{case}.*{text}{end}", quoted(within)));
    }
    let overlaps: String = overlaps.iter().map(|rest| format!("|{rest}")).collect();
    Some(format!("{}{case}(?:.*{text}{overlaps}){end}", quoted(within)))
}

struct Asked<'a> {
    within: &'a str,
    any_case: bool,
}

impl Asked<'_> {
    /// What stands behind `begins` in `text`, if it begins so.
    fn split<'t>(&self, text: &'t str, begins: &str) -> Option<&'t str> {
        let (first, rest) = text.split_at_checked(begins.len())?;
        let is_same = if self.any_case { first.eq_ignore_ascii_case(begins) } else { first == begins };
        is_same.then_some(rest)
    }

    /// What is left to ask for where `text` begins within the beginning.
    fn overlaps(&self, text: &str, end: &str, from: usize) -> Option<Vec<String>> {
        let (letters, behind) = plain(text);
        let mut found = Vec::new();
        for (at, _) in self.within.char_indices().filter(|(at, _)| *at >= from) {
            let last = self.within.get(at..)?;
            if letters.is_empty() {
                return None;
            }
            if let Some(rest) = self.split(&letters, last) {
                found.push(format!("{}{behind}", quoted(rest)));
            } else if self.split(last, &letters).is_some() && !(behind.is_empty() && end.is_empty()) {
                // All of it may be there already; what else is asked for is not looked at.
                if !behind.is_empty() {
                    return None;
                }
                found.push(String::new());
            }
        }
        Some(found)
    }
}

/// The letters that an expression begins with, whatever else it asks for, and what is behind them.
fn plain(text: &str) -> (String, &str) {
    let (mut letters, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let (letter, length) = match first {
            '\\' => match rest.chars().nth(1) {
                Some(escaped) if escaped.is_ascii_punctuation() => (escaped, 2),
                _ => break,
            },
            _ if first.is_ascii_alphanumeric() || "/_-~%".contains(first) => (first, 1),
            _ => break,
        };
        let Some(behind) = rest.get(length..) else { break };
        // It need not be there, or more of it.
        if behind.starts_with(['?', '*', '+', '{']) {
            break;
        }
        letters.push(letter);
        rest = behind;
    }
    (letters, rest)
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn both_are_asked_for() {
        let paths =
            ["/a/", "/a/x", "/a/x.php", "/a/b/x.php", "/b/x.php", "/a/b/", "/A/x.PHP", "/a/a", "/x", "/a/xy", "/a/b/x"];
        for (text, any_case) in [
            ("\\.php$", false),
            ("\\.php$", true),
            ("/x", false),
            ("/x$", false),
            ("^/a/x", false),
            ("^/a/", false),
            ("^/a/.*x", true),
            ("^/.*\\.php$", false),
            ("a/x", false),
            ("/a", false),
            ("^/x", false),
            (".*", false),
            ("/b/.*\\.php$", false),
            ("y?x$", false),
            ("(x|b)", false),
            ("x|b", false),
        ] {
            let Some(made) = beneath(text, any_case, "/a/") else { continue };
            let made = Regex::new(&format!("^(?:{made})$")).unwrap();
            let asked = Regex::new(&format!("{}{text}", if any_case { "(?i)" } else { "" })).unwrap();
            for path in paths {
                let expected = path.starts_with("/a/") && asked.is_match(path);
                assert_eq!(made.is_match(path), expected, "{text} {path} {made}");
            }
        }
    }

    #[test]
    fn what_nobody_can_say_is_not_said() {
        for text in ["x|b", "(x|b)", "y?x$", "[ab]", "^/x"] {
            assert_eq!(beneath(text, false, "/a/"), None, "{text}");
        }
        for text in ["\\.php$", "/x", "^/a/x", "^/.*\\.php$", "a/x"] {
            assert!(beneath(text, false, "/a/").is_some(), "{text}");
        }
        assert_eq!(beneath("\\.php$", true, "/a/").as_deref(), Some("/a/(?i).*\\.php"));
    }
}
