//! Which values of the file differ from those in force? By path, as `POST /reload` lists them.

use serde_yaml::{Mapping, Value};

use crate::config::{Config, Loaded, Mistake, Report, Severity};

/// The paths whose values differ, in the order of `after`; what was left out counts as its default. A list is one value.
pub(super) fn changed(before: &Config, after: &Config) -> Vec<String> {
    // a configuration always has a form as a document: it came from one
    let [before, after] = [before, after].map(|config| serde_yaml::to_value(config).unwrap_or_default());
    let mut found = Vec::new();
    compare("", &before, &after, &mut found);
    found
}

fn compare(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Mapping(before), Value::Mapping(after)) => compare_keys(path, before, after, found),
        _ if before == after => {}
        _ => found.push(path.to_owned()),
    }
}

fn compare_keys(path: &str, before: &Mapping, after: &Mapping, found: &mut Vec<String>) {
    let inner = |key: &Value| match (path, key.as_str()) {
        ("", Some(key)) => key.to_owned(),
        (_, Some(key)) => format!("{path}.{key}"),
        (_, None) => path.to_owned(),
    };
    for (key, value) in after {
        match before.get(key) {
            Some(old) => compare(&inner(key), old, value, found),
            None => found.push(inner(key)),
        }
    }
    found.extend(before.keys().filter(|key| !after.contains_key(key)).map(inner));
}

/// Without those that are fixed while the process lives.
pub(super) fn without_process(paths: Vec<String>) -> Vec<String> {
    paths.into_iter().filter(|path| !is_fixed(path)).collect()
}

/// Is it fixed while the process lives?
pub(super) fn is_fixed(path: &str) -> bool {
    path == "process" || path.starts_with("process.")
}

/// What is said of a file that changes any of those.
pub(super) fn takes_an_upgrade(paths: &[&String], loaded: &Loaded, file: String) -> Report {
    let mistake = |path: &&String| {
        let (line, column) = loaded.places.locate(path);
        Mistake {
            severity: Severity::Error,
            file: file.clone(),
            line,
            column,
            path: (*path).clone(),
            found: "differs from what the process was started with".to_owned(),
            meant: "which takes an upgrade; `reload --keep-process` applies all the rest".to_owned(),
        }
    };
    let mistakes = paths.iter().map(mistake).collect();
    Report { file, mistakes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_by_path_in_the_order_of_the_file() {
        let before = "{a: 1, b: {c: 1, d: [1, 2], e: {f: 1}}, g: {h: 1}, i: 1}";
        let after = "{a: 1, b: {c: 2, d: [1, 2, 3], e: {f: 1, x: 1}}, g: off, y: {z: 1}}";
        let [before, after] = [before, after].map(|text| serde_yaml::from_str(text).unwrap());
        let mut found = Vec::new();
        compare("", &before, &after, &mut found);
        assert_eq!(found, ["b.c", "b.d", "b.e.x", "g", "y", "i"]);
        found.clear();
        compare("", &after, &after, &mut found);
        assert!(found.is_empty());
    }
}
