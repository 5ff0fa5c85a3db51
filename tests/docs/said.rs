//! Is what was printed what the page shows? Up to the width of columns, and to what `…` stands for: a part of a line, or,
//! alone on a line, any lines.

use regex::Regex;

/// One blank for many, none at the ends of lines.
fn plain(text: &str) -> String {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

pub(crate) fn is_as_shown(shown: &str, printed: &str) -> bool {
    let line = |line: &str| match line {
        "…" => "(?:.*\n)*?".to_owned(),
        line => regex::escape(line).replace('…', ".*") + "\n",
    };
    let pattern: String = plain(shown).lines().map(line).collect();
    Regex::new(&format!("^{pattern}$")).unwrap().is_match(&plain(printed))
}

#[test]
fn what_differs_each_time_may_and_nothing_else() {
    let shown = "up …, version 1\n…\n a  up 47%\n";
    assert!(is_as_shown(shown, "up 2.0s, version 1\n\nx\ny\na up   47%\n"));
    assert!(is_as_shown(shown, "up 2.0s, version 1\n a up 47%\n"));
    for other in ["up 2.0s, version 2\na up 47%\n", "up 2.0s, version 1\na up 48%\n", "up, version 1\na up 47%\n", ""] {
        assert!(!is_as_shown(shown, other), "{other}");
    }
    assert!(!is_as_shown(shown, "up 2.0s, version 1\na up 47%\nmore\n"));
}
