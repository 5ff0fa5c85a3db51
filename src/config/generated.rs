//! Does a document say what the code says? `make documents` writes those that do not.

use std::fs;
use std::path::{Path, PathBuf};

/// Set, documents are written rather than compared.
const WRITE: &str = "MOORGATE_WRITE_DOCUMENTS";

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What stands in the document at this path of the repository; nothing when there is none.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(file(path)).unwrap_or_default()
}

/// Holds the document at this path to the text that the code makes.
pub(crate) fn holds(path: &str, wanted: &str) {
    let there = read(path);
    if there == wanted {
        return;
    }
    if std::env::var_os(WRITE).is_some() {
        return fs::write(file(path), wanted).unwrap();
    }
    let [there, wanted] = [there, wanted.to_owned()].map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let at = there.iter().zip(&wanted).take_while(|(there, wanted)| there == wanted).count();
    let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
    panic!(
        "{path}:{} does not say what the code says; `make documents` writes it\n there: {}\nwanted: {}",
        at + 1,
        line(&there),
        line(&wanted)
    );
}
