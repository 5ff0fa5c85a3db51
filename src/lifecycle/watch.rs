//! Has the file changed? `run --watch`.
//!
//! The file is looked at twice a second rather than asked of inotify. A look follows every symlink there is, so a
//! ConfigMap whose `..data` link is swapped, an editor that puts a new file in the old one's place and one that writes
//! into it are the same to it; it works on bind mounts and network file systems, where no event may ever come, needs no
//! watch on each folder of a chain of links, and cannot lose anything. A change counts once the file rests for a look,
//! and is read as any other file is: whole or not at all.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::outcome::By;
use super::server::Work;
use super::wish::Reloads;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// What tells one state of a file from another; `None`: it is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look(Option<State>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    place: (u64, u64),
    size: u64,
    /// Seconds and nanoseconds: of the contents, and of anything about it.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Look {
    /// The state of the file at `path` now.
    pub fn at(path: &Path) -> Self {
        Self(path.metadata().ok().map(|metadata| State::of(&metadata)))
    }
}

impl State {
    fn of(metadata: &Metadata) -> Self {
        Self {
            place: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// What was seen so far.
#[derive(Debug)]
struct Watch {
    last: Look,
    changed: bool,
}

impl Watch {
    /// Answers whether it changed and is at rest by now.
    fn see(&mut self, now: Look) -> bool {
        if now != self.last {
            (self.last, self.changed) = (now, true);
            return false;
        }
        std::mem::take(&mut self.changed)
    }
}

/// Has the file read again whenever it changed; `first`: how it was when it was read.
pub fn follow(file: PathBuf, first: Look, reloads: Reloads) -> Work {
    Box::new(move || {
        let (file, reloads, mut watch) = (file.clone(), reloads.clone(), Watch { last: first, changed: false });
        Box::pin(async move {
            loop {
                tokio::time::sleep(LOOK).await;
                if watch.see(Look::at(&file)) {
                    log::info!("{} changed", file.display());
                    reloads.trigger(By::Watch);
                }
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Does a watch see what `change` does to the file in this folder?
    fn sees(change: impl Fn(&Path)) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let inside = |name: &str| folder.path().join(name);
        for version in ["one", "two"] {
            fs::create_dir(inside(version)).unwrap();
            fs::write(inside(version).join("moorgate.yaml"), "version: 1\n").unwrap();
        }
        symlink("one", inside("..data")).unwrap();
        symlink("..data/moorgate.yaml", inside("moorgate.yaml")).unwrap();
        let file = inside("moorgate.yaml");
        let mut watch = Watch { last: Look::at(&file), changed: false };
        assert!(!watch.see(Look::at(&file)), "nothing happened yet");
        change(folder.path());
        let seen = [watch.see(Look::at(&file)), watch.see(Look::at(&file)), watch.see(Look::at(&file))];
        assert!(!seen[0] && !seen[2], "only at rest, and once");
        seen[1]
    }

    #[test]
    fn whatever_is_done_to_a_file_is_seen_once_it_rests() {
        assert!(!sees(|_| ()), "nothing was done");
        assert!(sees(|folder| fs::write(folder.join("moorgate.yaml"), "version: 1\n#\n").unwrap()), "written");
        assert!(sees(|folder| fs::remove_file(folder.join("moorgate.yaml")).unwrap()), "gone");
        assert!(
            sees(|folder| {
                fs::write(folder.join("new"), "version: 1\n").unwrap();
                fs::rename(folder.join("new"), folder.join("moorgate.yaml")).unwrap();
            }),
            "replaced, as editors do"
        );
        assert!(
            sees(|folder| {
                symlink("two", folder.join("..new")).unwrap();
                fs::rename(folder.join("..new"), folder.join("..data")).unwrap();
            }),
            "a link of the chain swapped, as for a ConfigMap"
        );
    }

    #[test]
    fn a_file_that_keeps_changing_is_waited_for() {
        let state = |size| Look(Some(State { place: (1, 1), size, modified: (0, 0), changed: (0, 0) }));
        let mut watch = Watch { last: state(0), changed: false };
        let seen: Vec<bool> = [1, 2, 3, 3, 3, 4, 4].into_iter().map(|size| watch.see(state(size))).collect();
        assert_eq!(seen, [false, false, false, true, false, false, true]);
    }
}
