//! Is what was printed what the page shows? Up to the width of columns, and to what `…` stands for: a part of a line, or,
//! alone on a line, any lines. Ids of requests, versions and digests are each as good as another.

use std::borrow::Cow;

use regex::Regex;

const ANY: [(&str, &str); 2] =
    [(r"\b[0-9a-f]{32}\b", "ID"), (r"\bversion \d+, digest [0-9a-f]*…?", "version N, digest D")];
/// Figures, and the bars that are drawn of them.
const FIGURES: [(&str, &str); 2] = [(r"[0-9][0-9.,:]*", "N"), ("[█▓▒░]+", "BAR")];

fn replaced<'a>(text: &'a str, what: &[(&str, &str)]) -> Cow<'a, str> {
    what.iter().fold(Cow::Borrowed(text), |text, (pattern, by)| {
        Cow::Owned(Regex::new(pattern).unwrap().replace_all(&text, *by).into_owned())
    })
}

/// One blank for many, none at the ends of lines.
fn plain(text: &str) -> String {
    replaced(text, &ANY).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
}

pub(crate) fn is_as_shown(shown: &str, printed: &str) -> bool {
    let line = |line: &str| match line {
        "…" => "(?:.*\n)*?".to_owned(),
        line => regex::escape(line).replace('…', ".*") + "\n",
    };
    let pattern: String = plain(shown).lines().map(line).collect();
    Regex::new(&format!("^{pattern}$")).unwrap().is_match(&plain(printed))
}

/// The same for what has a day's figures: they may be others.
pub(crate) fn is_alike(shown: &str, printed: &str) -> bool {
    is_as_shown(&replaced(shown, &FIGURES), &replaced(printed, &FIGURES))
}

#[test]
fn figures_may_be_others_where_they_are_of_a_day() {
    let shown = "moved 12,991 keys (34.2%)\n 10.20.1.17:8080  637 ████\n";
    assert!(is_alike(shown, "moved 7 keys (3%)\n 10.20.1.9:80 6 ██\n") && !is_as_shown(shown, "moved 7 keys (3%)\n"));
    assert!(!is_alike(shown, "moved 7 keys\n 10.20.1.9:80 6 ██\n"));
}

#[test]
fn ids_and_digests_are_as_good_as_others() {
    assert!(is_as_shown("unchanged: version 4, digest 5f0c…\n", "unchanged: version 2, digest 0123abcd\n"));
    assert!(!is_as_shown("unchanged: version 4, digest 5f0c…\n", "applied: version 2, digest 0123abcd\n"));
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
