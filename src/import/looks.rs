//! What is an expression that looks ahead or back without that?
//!
//! A group that looks takes no letters, so that without it the expression fits all it did, and more.

const BEGINNINGS: [&str; 4] = ["(?=", "(?!", "(?<=", "(?<!"];

/// `None`: it looks nowhere. It is no shorter than it was: of two expressions the longer one comes first.
pub(super) fn without(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut found = false;
    while !rest.is_empty() {
        if BEGINNINGS.iter().any(|begins| rest.starts_with(begins)) {
            rest = without_count(rest.get(group(rest)?..)?);
            found = true;
            continue;
        }
        let (taken, behind) = rest.split_at_checked(token(rest))?;
        out.push_str(taken);
        rest = behind;
    }
    let fill = "_".repeat(text.len().saturating_sub(out.len() + "(?<shut>)".len()));
    found.then(|| format!("(?<shut{fill}>{out})"))
}

/// Bytes of what stands first: a letter, an escape, or all that is in brackets.
fn token(text: &str) -> usize {
    let mut letters = text.char_indices();
    match letters.next() {
        Some((_, '\\')) => letters.nth(1).map_or(text.len(), |(at, _)| at),
        Some((_, '[')) => {
            let inside = text.strip_prefix('[').unwrap_or_default();
            let inside = inside.strip_prefix('^').unwrap_or(inside);
            let inside = inside.strip_prefix(']').unwrap_or(inside);
            let (mut at, mut is_escaped) = (text.len() - inside.len(), false);
            for letter in inside.chars() {
                at += letter.len_utf8();
                match letter {
                    _ if is_escaped => is_escaped = false,
                    '\\' => is_escaped = true,
                    ']' => return at,
                    _ => {}
                }
            }
            text.len()
        }
        _ => letters.next().map_or(text.len(), |(at, _)| at),
    }
}

/// Bytes of the group that a text begins with; `None`: it has no end.
fn group(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0_usize, 0_usize);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        match rest.chars().next() {
            Some('(') => depth += 1,
            Some(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += token(rest);
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// What is behind `?`, `*`, `+` or `{2,3}`.
fn without_count(text: &str) -> &str {
    let braces = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    let behind = match braces.filter(|(count, _)| count.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')) {
        Some((_, behind)) => behind,
        None => text.strip_prefix(['?', '*', '+']).unwrap_or(text),
    };
    if behind.len() == text.len() { text } else { behind.strip_prefix(['?', '+']).unwrap_or(behind) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_look_are_left_out() {
        for (text, expected) in [
            ("/a(?!b)c", "/ac"),
            ("/\\.(?!well-known(/|$))", "/\\."),
            ("(?<=x)(?:a(?<!y[)]\\))+?b)", "(?:ab)"),
            ("a(?=b){2,3}c[(?=]", "ac[(?=]"),
            ("[](?!]\\(?!x(?!(?=z)y)", "[](?!]\\(?!x"),
        ] {
            let made = without(text).unwrap_or_else(|| text.to_owned());
            let inside = made.split_once('>').filter(|_| made != text).map(|(_, rest)| rest.strip_suffix(')').unwrap());
            assert_eq!(inside.unwrap_or(&made), expected, "{text}");
            assert!(made.len() >= text.len(), "{made}");
        }
        for text in ["", "a(b)", "(?<name>x)", "(?i)x", "[(?!x)]", "(?!x"] {
            assert_eq!(without(text), None, "{text}");
        }
    }
}
