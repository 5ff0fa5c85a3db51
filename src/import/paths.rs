//! Which `match.path` takes what a location takes?
//!
//! nginx takes a prefix letter by letter, and asks its regular expressions before a prefix unless that is `^~`; here
//! prefixes are whole segments and come first, and of two expressions the longer one. So a prefix stays one where nothing
//! is different for it, and becomes an expression where something is; an expression that has to come before a longer one is
//! put into a group with a name of the length it lacks.

use std::collections::BTreeSet;

use super::beneath::beneath;

/// How a location is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Exact(String),
    Prefix {
        text: String,
        is_final: bool,
    },
    /// `within`: the beginning of the location it stands in, `depth` locations deep.
    Regex {
        text: String,
        any_case: bool,
        within: String,
        depth: usize,
    },
}

/// A `match.path`, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Path {
    Any,
    Exact(String),
    Prefix(String),
    Regex(String),
}

/// One path for each location, in their order.
pub(super) fn paths(kinds: &[(Kind, bool)]) -> Vec<Path> {
    let mut as_regex: BTreeSet<usize> = BTreeSet::new();
    // The longest first: what is within a prefix decides how that is written.
    let mut prefixes: Vec<(usize, &str, bool, bool)> = kinds.iter().enumerate().filter_map(prefix).collect();
    prefixes.sort_by_key(|(_, text, ..)| std::cmp::Reverse(text.len()));
    for (index, text, is_final, is_proxied) in &prefixes {
        let this = Kind::Prefix { text: (*text).to_owned(), is_final: *is_final };
        // One that stands in a location is asked before that, final or not.
        let comes_before = |kind: &Kind| matches!(kind, Kind::Regex { depth, .. } if *depth > 0 || !is_final);
        let beaten = kinds.iter().any(|(kind, _)| comes_before(kind) && !are_apart(&this, kind));
        let whole = text.ends_with('/') && *is_proxied;
        let holds = prefixes.iter().any(|(other, longer, ..)| as_regex.contains(other) && longer.starts_with(text));
        if *text != "/" && (beaten || !whole || holds) {
            as_regex.insert(*index);
        }
    }
    let mut found: Vec<Path> =
        kinds.iter().enumerate().map(|(i, (kind, _))| path(kind, as_regex.contains(&i))).collect();
    in_order(kinds, &mut found);
    found
}

fn prefix((index, (kind, is_proxied)): (usize, &(Kind, bool))) -> Option<(usize, &str, bool, bool)> {
    match kind {
        Kind::Prefix { text, is_final } => Some((index, text, *is_final, *is_proxied)),
        Kind::Exact(_) | Kind::Regex { .. } => None,
    }
}

fn path(kind: &Kind, as_regex: bool) -> Path {
    match kind {
        Kind::Exact(text) => Path::Exact(escaped(text)),
        Kind::Prefix { text, .. } if text == "/" => Path::Any,
        Kind::Prefix { text, .. } if as_regex => Path::Regex(format!("{}.*", quoted(&escaped(text)))),
        Kind::Prefix { text, .. } => Path::Prefix(escaped(text)),
        Kind::Regex { text, any_case, within, .. } => {
            let both = if within.len() > 1 { beneath(text, *any_case, &escaped(within)) } else { None };
            Path::Regex(both.unwrap_or_else(|| whole(text, *any_case)))
        }
    }
}

/// A path as one is spelt here: what no URL holds as it is, escaped.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => out.push(char::from(byte)),
            _ if b"-._~/!$&'()*+,;=:@|^\"\\{}[]".contains(&byte) => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    if out.starts_with('/') { out } else { format!("/{out}") }
}

/// A text as an expression has it.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if "\\.+*?()|[]{}^$".contains(letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}

/// An expression that finds something somewhere in a path, as one that fits all of it.
fn whole(text: &str, any_case: bool) -> String {
    let case = if any_case { "(?i)" } else { "" };
    let has_choice = is_choice(text);
    if has_choice {
        return format!("{case}.*(?:{text}).*");
    }
    let (begins, text) = text.strip_prefix('^').map_or((false, text), |text| (true, text));
    let (ends, text) = match text.strip_suffix('$') {
        Some(inner) if !inner.ends_with('\\') => (true, inner),
        _ => (false, text),
    };
    let before = if begins { "" } else { ".*" };
    let text = if begins { text } else { text.trim_start_matches(".*") };
    let behind = if ends || text.ends_with(".*") { "" } else { ".*" };
    format!("{case}{before}{text}{behind}")
}

/// Does it have a `|` outside of all groups, or an anchor in the midst of it?
pub(super) fn is_choice(text: &str) -> bool {
    let (mut depth, mut class, mut escaped) = (0_i32, false, false);
    for letter in text.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => class = true,
            ']' => class = false,
            '(' if !class => depth += 1,
            ')' if !class => depth -= 1,
            '|' if !class && depth == 0 => return true,
            _ => {}
        }
    }
    false
}

/// Gives each expression that has to come before others more letters than those have.
fn in_order(kinds: &[(Kind, bool)], found: &mut [Path]) {
    let rank = |kind: &Kind| match kind {
        Kind::Regex { depth, .. } if *depth > 0 => depth.saturating_add(2),
        Kind::Prefix { is_final: true, .. } => 2,
        Kind::Regex { .. } => 1,
        _ => 0,
    };
    let mut order: Vec<usize> = (0..found.len()).filter(|i| matches!(found.get(*i), Some(Path::Regex(_)))).collect();
    // From the last that is asked to the first.
    order.sort_by_key(|i| kinds.get(*i).map(|(kind, _)| (rank(kind), if is_regex(kind) { usize::MAX - i } else { 0 })));
    for at in 0..order.len() {
        let Some((this, kind)) = order.get(at).and_then(|i| Some((*i, &kinds.get(*i)?.0))) else { continue };
        let Some(Path::Regex(text)) = found.get(this) else { continue };
        let below = order.iter().take(at).filter_map(|i| Some((&kinds.get(*i)?.0, found.get(*i)?)));
        let longest =
            below.filter(|(other, _)| rank(kind) > 0 && !are_apart(kind, other) && has_order(kind, other, &rank));
        let longest =
            longest.filter_map(|(_, path)| if let Path::Regex(text) = path { Some(text.len()) } else { None }).max();
        let lacks = longest.map_or(0, |longest| (longest + 1).saturating_sub(text.len()));
        if lacks > 0 {
            let name = "before";
            let fill = "_".repeat(lacks.saturating_sub("(?<before>)".len()));
            let longer = Path::Regex(format!("(?<{name}{fill}>{text})"));
            if let Some(path) = found.get_mut(this) {
                *path = longer;
            }
        }
    }
}

/// Prefixes among themselves are in order by their lengths.
fn has_order(one: &Kind, other: &Kind, rank: &dyn Fn(&Kind) -> usize) -> bool {
    rank(one) != rank(other) || is_regex(one)
}

fn is_regex(kind: &Kind) -> bool {
    matches!(kind, Kind::Regex { .. })
}

/// Can no path fit both? So it is of two that ask for other beginnings, or other endings.
fn are_apart(one: &Kind, other: &Kind) -> bool {
    let begin_apart = match (beginning(one), beginning(other)) {
        (Some(one), Some(other)) => !one.starts_with(&other) && !other.starts_with(&one),
        _ => false,
    };
    let end_apart = match (endings(one), endings(other)) {
        (Some(one), Some(other)) => one.is_disjoint(&other),
        _ => false,
    };
    begin_apart || end_apart
}

/// What every path begins with that fits.
fn beginning(kind: &Kind) -> Option<String> {
    match kind {
        Kind::Exact(text) | Kind::Prefix { text, .. } => Some(text.clone()),
        Kind::Regex { text, any_case, within, .. }
            if within.len() > 1 && beneath(text, *any_case, &escaped(within)).is_some() =>
        {
            Some(within.clone())
        }
        Kind::Regex { any_case: true, .. } => None,
        Kind::Regex { text, .. } if is_choice(text) => None,
        Kind::Regex { text, .. } => {
            let inside = text.strip_prefix('^')?;
            let end = inside.find(|letter: char| !letter.is_ascii_alphanumeric() && !"/_-".contains(letter));
            let (begins, behind) = inside.split_at_checked(end.unwrap_or(inside.len()))?;
            // What follows may make the last letter one that need not be there.
            let is_loose = behind.starts_with(['?', '*', '{']);
            Some(if is_loose { begins.get(..begins.len().saturating_sub(1))?.to_owned() } else { begins.to_owned() })
        }
    }
}

/// The endings that `\.(a|b)$` asks for, in small letters.
fn endings(kind: &Kind) -> Option<BTreeSet<String>> {
    let Kind::Regex { text, .. } = kind else { return None };
    let text = text.strip_suffix('$')?;
    let (_, ending) = text.rsplit_once("\\.")?;
    let inside = ending.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let inside = inside.map_or(ending, |inside| inside.strip_prefix("?:").unwrap_or(inside));
    let is_plain = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric());
    inside.split('|').map(|word| is_plain(word).then(|| word.to_ascii_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `= /x`, `^~ /x`, `~ re`, `~* re` or `/x`.
    fn kind(text: &str) -> (Kind, bool) {
        let kind = match text.split_once(' ') {
            Some(("=", text)) => Kind::Exact(text.to_owned()),
            Some(("^~", text)) => Kind::Prefix { text: text.to_owned(), is_final: true },
            Some((sign, text)) => {
                Kind::Regex { text: text.to_owned(), any_case: sign == "~*", within: "/".to_owned(), depth: 0 }
            }
            None => Kind::Prefix { text: text.to_owned(), is_final: false },
        };
        (kind, true)
    }

    fn check(locations: &[&str], expected: &[&str]) {
        let kinds: Vec<_> = locations.iter().map(|text| kind(text)).collect();
        let found: Vec<String> = paths(&kinds)
            .into_iter()
            .map(|path| match path {
                Path::Any => "-".to_owned(),
                Path::Exact(text) => format!("= {text}"),
                Path::Prefix(text) => format!("^ {text}"),
                Path::Regex(text) => format!("~ {text}"),
            })
            .collect();
        assert_eq!(found, expected, "{locations:?}");
    }

    #[test]
    fn prefixes_of_whole_segments_stay_prefixes() {
        check(&["/", "/api/", "= /x", "/api/v2/"], &["-", "^ /api/", "= /x", "^ /api/v2/"]);
    }

    #[test]
    fn a_prefix_that_ends_within_a_segment_is_an_expression() {
        check(&["/", "/api", "/api/v2/"], &["-", "~ /api.*", "^ /api/v2/"]);
        check(&["/a/", "/a/bc", "/b/"], &["~ /a/.*", "~ /a/bc.*", "^ /b/"]);
        check(&["/a.b\u{e9}"], &["~ /a\\.b%C3%A9.*"]);
    }

    #[test]
    fn expressions_come_before_prefixes_that_are_not_final() {
        check(
            &["/", "/static/", "^~ /images/", "~ \\.php$", "~* \\.(jpg|png)$"],
            &["-", "~ /static/.*", "^ /images/", "~ (?<before>.*\\.php)", "~ (?i).*\\.(jpg|png)"],
        );
        check(&["~ ^/u/(.*)$", "~ ^/users/x"], &["~ /u/(.*)", "~ /users/x.*"]);
        check(&["~ ^/u(.*)$", "~ ^/users/x"], &["~ (?<before>/u(.*))", "~ /users/x.*"]);
        check(&["/map/", "~ ^/u/(.*)$", "~ ^/map?x"], &["~ /map/.*", "~ /u/(.*)", "~ /map?x.*"]);
        check(&["~ \\.php$", "~ ^/a/"], &["~ .*\\.php", "~ /a/.*"]);
        check(&["~ a|b"], &["~ .*(?:a|b).*"]);
        check(&["/p", "^~ /q", "~ x"], &["~ /p.*", "~ (?<before>/q.*)", "~ .*x.*"]);
    }
}
