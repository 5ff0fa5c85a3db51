//! What outlives the process? In the folder of `process.state`, and with a supervisor: the text last served, and the
//! digests of those that somebody went back from.
//!
//! A start whose file cannot be read, or says what was gone back from, serves the text last served instead: whatever
//! broke the file broke nothing else. Always: a file is replaced as a whole, and readable by its owner only, since a
//! text may hold secrets.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::supervise::Last;
use crate::config::{self, Complaint, Config, Loaded, Report};

const TEXT: &str = "last.yaml";
const REFUSED: &str = "refused";

/// The folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept(PathBuf);

/// What a process starts with.
#[derive(Debug)]
pub struct First<T> {
    /// What it serves.
    pub loaded: Loaded,
    /// What that compiles to.
    pub compiled: T,
    /// The digest of what the file says, if it can be served at all.
    pub read: Option<String>,
    /// Why it is not the file that is served.
    pub instead: Option<Instead>,
    /// Digests somebody went back from.
    pub refused: Vec<String>,
    /// Where that is kept.
    pub kept: Option<Kept>,
}

/// Why the text last served is served again.
#[derive(Debug, thiserror::Error)]
pub enum Instead {
    /// The file is wrong.
    #[error("{0}")]
    Wrong(Report),
    /// It says what was gone back from.
    #[error("{}: somebody went back from this text; `moorgate reload` applies it again", .0.display())]
    Refused(PathBuf),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Kept {
    /// In this folder, which need not be there yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// Keeps what is served, and what was gone back from.
    ///
    /// # Errors
    /// It cannot be written; what was kept before still is.
    pub fn keep<'a>(&self, text: &str, refused: impl Iterator<Item = &'a str>) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        // A crash between the two leaves a text that is served and a digest too many at most.
        self.replace(REFUSED, &refused.map(|digest| format!("{digest}\n")).collect::<String>())?;
        self.replace(TEXT, text)
    }

    fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        let (new, path) = (self.0.join(format!("{name}.new")), self.0.join(name));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(&self.0)?.sync_all()
    }

    fn text(&self) -> Option<String> {
        fs::read_to_string(self.0.join(TEXT)).ok()
    }

    fn refused(&self) -> Vec<String> {
        fs::read_to_string(self.0.join(REFUSED)).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

/// Where what was served before may be found.
#[derive(Debug, Default)]
pub struct Before {
    /// A folder, if not the one the file names.
    pub state: Option<PathBuf>,
    /// What the supervisor kept.
    pub last: Option<Last>,
}

/// Reads `file`, or what was last served `before` if that cannot be served and `strict` is not set.
///
/// # Errors
/// Neither can be served: what is wrong with the file.
pub fn first<T>(
    file: &Path,
    before: Before,
    strict: bool,
    compile: impl Fn(&Config) -> Result<T, Vec<Complaint>>,
) -> Result<First<T>, Instead> {
    let read = config::load_with(file, &compile);
    let written = match &read {
        Ok((loaded, _)) => loaded.config.process.state.on().cloned(),
        Err(_) => written_state(&fs::read_to_string(file).unwrap_or_default()),
    };
    let kept = before.state.or(written).map(Kept);
    let mut refused = kept.as_ref().map(Kept::refused).unwrap_or_default();
    refused.extend(before.last.iter().flat_map(|last| last.refused.clone()));
    let digest = read.as_ref().ok().map(|(loaded, _)| loaded.digest.clone());
    let (instead, both) = match read {
        Ok((loaded, compiled)) if !refused.contains(&loaded.digest) => {
            return Ok(First { loaded, compiled, read: digest, instead: None, refused, kept });
        }
        Ok(both) => (Instead::Refused(file.to_owned()), Some(both)),
        Err(report) => (Instead::Wrong(report), None),
    };
    if strict {
        return Err(instead);
    }
    let held = before.last.map(|last| ("the text last served".to_owned(), last.text));
    let written = || kept.as_ref().and_then(|kept| Some((kept.0.join(TEXT).display().to_string(), kept.text()?)));
    let serve = |(name, text): (String, String)| config::parse_with(&name, &text, &compile).ok();
    let last = held.and_then(serve).or_else(|| written().and_then(serve));
    let (served, instead) = match (last, both) {
        (Some(last), _) => (last, Some(instead)),
        // There is nothing else.
        (None, Some(both)) => (both, None),
        (None, None) => return Err(instead),
    };
    Ok(First { loaded: served.0, compiled: served.1, read: digest, instead, refused, kept })
}

/// What a text says of `process.state`, whatever else is wrong with it or missing.
fn written_state(text: &str) -> Option<PathBuf> {
    let is_top = |line: &str| line.starts_with(|c: char| c.is_ascii_alphabetic());
    let mut lines = text.lines().skip_while(|line| !line.starts_with("process:"));
    let first = lines.next()?;
    let section = std::iter::once(first).chain(lines.take_while(|line| !is_top(line)));
    section.filter(|line| !line.trim_start().starts_with('#')).find_map(value_of_state).map(PathBuf::from)
}

fn value_of_state(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("state:")?;
    let is_key = before.is_empty() || before.ends_with([' ', '{', ',']);
    let value = after.trim_start().split([',', '}', ' ']).next()?.trim_matches(['"', '\'']);
    (is_key && value.contains('/')).then_some(value)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn text(more: &str, origin: &str) -> String {
        format!(
            "version: 1\nprocess:\n  {more}\n  listeners: [ {{ address: 127.0.0.1:0 }} ]\npools: {{ p: {{ origins: [{origin}] }} }}\n"
        )
    }

    /// A folder for the file and one for the state.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn state(&self) -> PathBuf {
            self.0.path().join("state/of")
        }

        fn file(&self) -> PathBuf {
            self.0.path().join("moorgate.yaml")
        }

        fn write(&self, origin: &str) -> String {
            let text = text(&format!("state: {}", self.state().display()), origin);
            fs::write(self.file(), &text).unwrap();
            text
        }

        /// The origin of what a start serves, and whether that is not the file.
        fn start(&self, strict: bool) -> Result<(String, bool), String> {
            let first =
                first(&self.file(), Before::default(), strict, |_| Ok(())).map_err(|instead| instead.to_string())?;
            Ok((first.loaded.config.pools["p"].origins[0].name.clone(), first.instead.is_some()))
        }
    }

    fn digest(text: &str) -> String {
        config::parse("f", text).unwrap().digest
    }

    #[test]
    fn c4_a_file_that_cannot_be_read_gives_way_to_the_text_last_served() {
        let place = Place::new();
        let served = place.write("a");
        assert_eq!(place.start(false), Ok(("a".into(), false)), "nothing was kept yet");
        Kept::at(place.state()).keep(&served, [].into_iter()).unwrap();
        fs::write(place.file(), &served[..served.len() - 12]).unwrap();
        assert_eq!(place.start(false), Ok(("a".into(), true)));
        assert!(place.start(true).unwrap_err().contains("moorgate.yaml"), "strictly the file or nothing");
        fs::write(place.state().join(TEXT), "version: 2").unwrap();
        assert!(place.start(false).unwrap_err().contains("moorgate.yaml"), "the mistakes of the file are told");
    }

    #[test]
    fn c4_what_was_gone_back_from_stays_so_over_a_restart() {
        let place = Place::new();
        let (good, bad) = (place.write("a"), place.write("b"));
        Kept::at(place.state()).keep(&good, [&*digest(&bad)].into_iter()).unwrap();
        assert_eq!(place.start(false), Ok(("a".into(), true)));
        assert!(place.start(true).unwrap_err().contains("went back"));
        place.write("c");
        assert_eq!(place.start(false), Ok(("c".into(), false)), "another text is taken");
        place.write("b");
        fs::remove_file(place.state().join(TEXT)).unwrap();
        assert_eq!(place.start(false), Ok(("b".into(), false)), "there is nothing else to serve");
    }

    #[test]
    fn without_a_folder_nothing_is_kept_and_a_folder_can_be_named() {
        let place = Place::new();
        fs::write(place.file(), text("threads: auto", "a")).unwrap();
        let start = |state: Option<PathBuf>| first(&place.file(), Before { state, last: None }, false, |_| Ok(()));
        assert_eq!(start(None).unwrap().kept, None);
        let kept = start(Some(place.state())).unwrap().kept.unwrap();
        kept.keep(&text("threads: auto", "b"), [].into_iter()).unwrap();
        fs::remove_file(place.file()).unwrap();
        assert!(start(None).is_err());
        assert_eq!(start(Some(place.state())).unwrap().loaded.config.pools["p"].origins[0].name, "b");
    }

    #[test]
    fn u6_what_the_supervisor_kept_is_served_before_what_a_folder_has() {
        let place = Place::new();
        let (good, bad) = (place.write("a"), place.write("b"));
        Kept::at(place.state()).keep(&text("threads: 1", "older"), [].into_iter()).unwrap();
        let last = Last { text: good, refused: vec![digest(&bad)] };
        let start = |text: &str| {
            fs::write(place.file(), text).unwrap();
            let before = Before { state: Some(place.state()), last: Some(last.clone()) };
            let first = first(&place.file(), before, false, |_| Ok(())).unwrap();
            (first.loaded.config.pools["p"].origins[0].name.clone(), first.refused == last.refused)
        };
        assert_eq!(start(&bad), ("a".into(), true), "somebody went back from it");
        assert_eq!(start("version: 2"), ("a".into(), true));
        assert_eq!(start(&text("threads: 1", "c")), ("c".into(), true), "a file that can be served is");
    }

    #[test]
    fn what_is_kept_is_for_its_owner_alone() {
        let place = Place::new();
        let kept = Kept::at(place.state());
        (0..2).for_each(|n| kept.keep(&n.to_string(), ["x", "y"].into_iter()).unwrap());
        assert_eq!((kept.text(), kept.refused()), (Some("1".into()), vec!["x".to_owned(), "y".to_owned()]));
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(place.state()), mode(place.state().join(TEXT))), (0o700, 0o600));
        let names: Vec<_> = fs::read_dir(place.state()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[test]
    fn the_folder_is_found_in_a_text_that_is_broken() {
        let path = Some(PathBuf::from("/var/lib/m"));
        for text in [
            "process:\n  state: /var/lib/m\n  listeners: [ {",
            "version: 1\nprocess: { listeners: [], state: /var/lib/m, threads",
            "process: { state: \"/var/lib/m\" }",
            "process:\n  # state: /elsewhere\n  log: {}\n  state: '/var/lib/m'\npools: {",
        ] {
            assert_eq!(written_state(text), path, "{text}");
        }
        for text in ["", "process:\n  threads: 1\npools: { state: /x }", "process: { state: off }", "state: /x"] {
            assert_eq!(written_state(text), None, "{text}");
        }
    }
}
