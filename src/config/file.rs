//! What does the file say, once whoever writes it is done?
//!
//! A file cut off at the end of a line is valid YAML, so it counts only at rest: unchanged for a moment before and
//! while it was read. An editor or a config management tool that is still writing is waited for, but not for ever.
//! Whatever is no sensible file is refused before it is read.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::report::Mistake;

/// A configuration of 10,000 origins has half of this.
const LARGEST: u64 = 1 << 20;

/// A file that did not change for this long is at rest.
const REST: Duration = Duration::from_millis(200);

/// Between two looks at a file that is not.
const LOOK: Duration = Duration::from_millis(20);

/// Looks before giving up: 2 s.
const LOOKS: u32 = 100;

/// The text of the file at `path`.
pub(super) fn read(path: &Path) -> Result<String, Mistake> {
    let name = path.display().to_string();
    let bytes = read_at_rest(path).map_err(|trouble| trouble.of(&name))?;
    String::from_utf8(bytes).map_err(|e| {
        let good = String::from_utf8_lossy(&e.as_bytes()[..e.utf8_error().valid_up_to()]).into_owned();
        let last = good.rsplit('\n').next().unwrap_or_default();
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let (line, column) = (narrow(1 + good.matches('\n').count()), narrow(1 + last.chars().count()));
        Mistake {
            line,
            column,
            ..Mistake::of_file(&name, "found bytes that are not UTF-8", "expected a text in UTF-8")
        }
    })
}

enum Trouble {
    Io(io::Error),
    NoFile,
    Large(u64),
    Unrest,
}

impl Trouble {
    fn of(self, name: &str) -> Mistake {
        match self {
            Self::Io(e) => Mistake::of_file(name, format!("cannot be read: {e}"), ""),
            Self::NoFile => Mistake::of_file(name, "is no file", "expected a file in YAML"),
            Self::Large(size) => Mistake::of_file(name, format!("is {size} bytes long"), "expected 1 MiB at most"),
            Self::Unrest => Mistake::of_file(name, "is being written", "expected a file at rest"),
        }
    }
}

fn read_at_rest(path: &Path) -> Result<Vec<u8>, Trouble> {
    let state = || Ok(State::of(&path.metadata().map_err(Trouble::Io)?));
    let age = |state: &State| SystemTime::now().duration_since(state.changed).unwrap_or_default();
    let mut rest = Rest { state: None, looks: 0 };
    for _ in 0..LOOKS {
        let before = state()?;
        before.refuse()?;
        if rest.is_at_rest(before, age(&before)) {
            let bytes = read_whole(path).map_err(Trouble::Io)?;
            if state()? == before && bytes.len() as u64 == before.size {
                return Ok(bytes);
            }
        }
        std::thread::sleep(LOOK);
    }
    Err(Trouble::Unrest)
}

fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct State {
    is_file: bool,
    size: u64,
    changed: SystemTime,
    inode: (u64, u64),
}

impl State {
    fn of(metadata: &Metadata) -> Self {
        Self {
            is_file: metadata.is_file(),
            size: metadata.len(),
            changed: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            inode: (metadata.dev(), metadata.ino()),
        }
    }

    fn refuse(&self) -> Result<(), Trouble> {
        match self {
            Self { is_file: false, .. } => Err(Trouble::NoFile),
            Self { size, .. } if *size > LARGEST => Err(Trouble::Large(*size)),
            _ => Ok(()),
        }
    }
}

/// How long a file was seen unchanged.
struct Rest {
    state: Option<State>,
    looks: u32,
}

impl Rest {
    /// `age` is the time since the last change by the file's own clock, which may be wrong; what was seen is not.
    fn is_at_rest(&mut self, now: State, age: Duration) -> bool {
        if self.state == Some(now) {
            self.looks += 1;
        } else {
            (self.state, self.looks) = (Some(now), 0);
        }
        age >= REST || LOOK * self.looks >= REST
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn state(size: u64) -> State {
        State { is_file: true, size, changed: SystemTime::UNIX_EPOCH, inode: (1, 1) }
    }

    fn said(path: &Path) -> String {
        let said = read(path).unwrap_err().to_string();
        said.strip_prefix(&path.display().to_string()).unwrap().to_owned()
    }

    #[test]
    fn a_file_is_at_rest_once_it_is_old_or_was_seen_unchanged() {
        let mut rest = Rest { state: None, looks: 0 };
        assert!(rest.is_at_rest(state(1), REST));
        let mut looks = 0;
        while !rest.is_at_rest(state(2), Duration::ZERO) {
            looks += 1;
        }
        assert_eq!(LOOK * looks, REST);
        assert!(!rest.is_at_rest(state(3), Duration::ZERO), "it was written again");
    }

    #[test]
    fn what_is_at_rest_is_read_as_it_is() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("version: 1 # ä\n".as_bytes()).unwrap();
        assert_eq!(read(file.path()).unwrap(), "version: 1 # ä\n");
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(said(folder.path()), ": is no file, expected a file in YAML");
        let missing = folder.path().join("missing.yaml");
        assert!(said(&missing).starts_with(": cannot be read: No such file"));
    }

    #[test]
    fn large_files_and_other_bytes_are_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"version: 1\n# \xff\n").unwrap();
        assert_eq!(said(file.path()), ":2:3: found bytes that are not UTF-8, expected a text in UTF-8");
        file.as_file().set_len(LARGEST + 1).unwrap();
        assert_eq!(said(file.path()), ": is 1048577 bytes long, expected 1 MiB at most");
    }

    #[test]
    fn a_file_that_is_written_without_end_is_refused() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let reader = std::thread::spawn(move || read(&path));
        while !reader.is_finished() {
            file.write_all(b"#\n").unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(reader.join().unwrap().unwrap_err().to_string().ends_with("is being written, expected a file at rest"));
    }
}
