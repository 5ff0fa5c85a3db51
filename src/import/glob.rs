//! Which files does a pattern such as `conf.d/*.conf` name?

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Entries of folders that are looked at.
const ENTRIES: usize = 20_000;

/// Does it name more than one file, or none?
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The files a path names, in order of their names.
pub(super) fn find(pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    let mut left = ENTRIES;
    for part in pattern.components() {
        let text = part.as_os_str().to_string_lossy();
        if !matches!(part, Component::Normal(_)) || !is_pattern(&text) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let wanted: Vec<char> = text.chars().collect();
        found = found.iter().flat_map(|folder| entries(folder, &wanted, &mut left)).collect();
    }
    found.retain(|path| path.is_file());
    found.sort();
    found
}

fn entries(folder: &Path, wanted: &[char], left: &mut usize) -> Vec<PathBuf> {
    let at = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(all) = fs::read_dir(at) else { return Vec::new() };
    let names = all.filter_map(|entry| Some(entry.ok()?.file_name())).take(*left);
    let names: Vec<_> = names.collect();
    *left -= names.len();
    let fits = |name: &String| {
        let letters: Vec<char> = name.chars().collect();
        (!name.starts_with('.') || wanted.first() == Some(&'.')) && matches(wanted, &letters)
    };
    names.into_iter().filter_map(|name| name.into_string().ok()).filter(fits).map(|name| folder.join(name)).collect()
}

/// Does the name fit? Goes back to the last `*` alone, so that it takes no longer than the product of the lengths.
fn matches(wanted: &[char], name: &[char]) -> bool {
    let (mut at, mut in_name, mut star) = (0, 0, None);
    while let Some(letter) = name.get(in_name) {
        match one(wanted.get(at..).unwrap_or_default(), *letter) {
            Some(0) => {
                star = Some((at + 1, in_name));
                at += 1;
            }
            Some(length) => {
                at += length;
                in_name += 1;
            }
            None => match star {
                Some((behind, from)) => {
                    star = Some((behind, from + 1));
                    (at, in_name) = (behind, from + 1);
                }
                None => return false,
            },
        }
    }
    wanted.iter().skip(at).all(|letter| *letter == '*')
}

/// How many letters of the pattern stand for this one; 0: a `*`.
fn one(wanted: &[char], letter: char) -> Option<usize> {
    match wanted {
        ['*', ..] => Some(0),
        ['?', ..] => Some(1),
        ['[', set @ ..] => {
            let (negated, set) = match set {
                ['!' | '^', set @ ..] => (true, set),
                set => (false, set),
            };
            let end = set.iter().skip(1).position(|letter| *letter == ']')? + 1;
            let inside = set.get(..end)?;
            (holds(inside, letter) != negated).then_some(end + 2 + usize::from(negated))
        }
        [first, ..] => (*first == letter).then_some(1),
        [] => None,
    }
}

fn holds(set: &[char], letter: char) -> bool {
    match set {
        [low, '-', high, rest @ ..] => (*low..=*high).contains(&letter) || holds(rest, letter),
        [one, rest @ ..] => *one == letter || holds(rest, letter),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_as_in_a_shell() {
        let fits = |pattern: &str, name: &str| {
            let [pattern, name] = [pattern, name].map(|text| text.chars().collect::<Vec<_>>());
            matches(&pattern, &name)
        };
        for (pattern, name) in
            [("*.conf", "a.conf"), ("*", "x"), ("a?c", "abc"), ("[a-c]*", "b1"), ("[!x]y", "ay"), ("a*b*c", "a1b2bc")]
        {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.conf", "a.conf~"), ("a?c", "ac"), ("[a-c]", "d"), ("[!x]", "x"), ("[", "[")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn files_are_found_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", "c.txt", ".d.conf"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let names: Vec<_> = find(&folder.path().join("*.conf"));
        assert_eq!(names, ["a.conf", "b.conf"].map(|name| folder.path().join(name)));
        assert_eq!(find(&folder.path().join("c.txt")).len(), 1);
        assert!(find(&folder.path().join("x.txt")).is_empty());
    }
}
