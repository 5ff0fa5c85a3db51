//! Do the documents hang together? Every link of them leads somewhere, and every page of docs/ is in the book.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::documents::documents;

/// A document without its blocks of code.
fn prose(text: &str) -> String {
    let is_fence = |line: &str| line.trim_start().starts_with("```");
    let mut inside = false;
    let lines = text.lines().filter(|line| {
        inside ^= is_fence(line);
        !inside && !is_fence(line)
    });
    lines.map(|line| format!("{line}\n")).collect()
}

/// What a heading is called in a link, as renderers of Markdown have it.
fn anchor(heading: &str) -> String {
    let name = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    name.chars().filter(|c| c.is_alphanumeric() || ['-', '_'].contains(c)).collect()
}

/// Where the links of a text lead, those to other sites left out.
fn links(prose: &str) -> impl Iterator<Item = &str> {
    let all = prose.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    all.filter(|link| !link.contains("://"))
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for path in documents().into_iter().chain([root.join("CONTRIBUTING.md"), root.join("CHANGELOG.md")]) {
        let text = prose(&fs::read_to_string(&path).unwrap());
        for link in links(&text) {
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            if !place.is_empty() {
                let there = prose(&fs::read_to_string(&target).unwrap());
                let mut headings = there.lines().filter(|line| line.starts_with('#')).map(anchor);
                assert!(headings.any(|name| name == place), "{}: {link}", path.display());
            }
            count += 1;
        }
    }
    assert!(count > 100, "{count} links were found");
}

#[test]
fn every_page_is_in_the_book_once() {
    let summary = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/SUMMARY.md")).unwrap();
    let listed: Vec<&str> = links(&summary).collect();
    let pages: BTreeSet<_> = documents().iter().map(|path| path.file_name().unwrap().to_owned()).collect();
    let pages: BTreeSet<&str> = pages.iter().filter_map(|name| name.to_str()).collect();
    let pages = &pages - &BTreeSet::from(["README.md", "SUMMARY.md"]);
    assert_eq!(pages, listed.iter().copied().collect());
    assert_eq!(listed.len(), pages.len(), "{listed:?}");
}
