//! Has a certificate been renewed, and does one end soon?
//!
//! The files that the configuration in force names are looked at once a second, as `run --watch` looks at the file itself,
//! and read again once they have changed and rest: every file of a renewal, key and certificate, has to be there. Whoever
//! ends soon is told of once a day.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::outcome::ReloadOutcome;
use super::reload::{Reloader, now};
use super::server::Work;
use super::watch::Look;
use super::wish::Reloads;
use crate::config;
use crate::snapshot::{Snapshot, Store};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);

/// So many looks in half a day.
const HALF_A_DAY: u32 = 43_200;

/// Files, and how they were.
#[derive(Debug, Default)]
struct Files {
    seen: Vec<(PathBuf, Look)>,
    changed: bool,
}

impl Files {
    /// Answers whether they are to be read: they changed and rest, or others are in force, which may have changed between
    /// being read and being seen here.
    fn see(&mut self, files: Vec<PathBuf>) -> bool {
        let look = |file: PathBuf| {
            let look = Look::at(&file);
            (file, look)
        };
        let seen: Vec<_> = files.into_iter().map(look).collect();
        if seen == self.seen {
            return std::mem::take(&mut self.changed);
        }
        let are_others = !seen.iter().map(|(file, _)| file).eq(self.seen.iter().map(|(file, _)| file));
        (self.seen, self.changed) = (seen, !are_others);
        are_others
    }
}

/// Has certificates read again whenever their files changed.
pub fn follow(store: Arc<Store>, reloads: Reloads) -> Work {
    Box::new(move || Box::pin(look_on(store.clone(), reloads.clone())))
}

async fn look_on(store: Arc<Store>, reloads: Reloads) {
    let mut files = Files::default();
    let mut is_a_day = false;
    loop {
        for _ in 0..HALF_A_DAY {
            if files.see(store.load().tls().files().to_vec()) {
                reloads.renew();
            }
            tokio::time::sleep(LOOK).await;
        }
        if is_a_day {
            tell(&store.load());
        }
        is_a_day = !is_a_day;
        // keys of tickets have their time too
        reloads.renew();
    }
}

impl Reloader {
    /// What clients are shown is read again; what is in force stays so. So nothing that waits is in the way.
    pub(super) fn renew(&mut self) -> ReloadOutcome {
        let (old, now) = (self.store.load(), now());
        let compile = |config: &config::Config| old.renewed(config, &self.metrics, now);
        match config::parse_with(&self.name(), old.text(), compile) {
            Ok((loaded, next)) => {
                let loaded = loaded.warned(next.warnings());
                self.same_text(&old, next, loaded, now)
            }
            Err(report) => ReloadOutcome::refused(report),
        }
    }
}

/// What was said when it came into force is said again.
fn tell(snapshot: &Snapshot) {
    for said in snapshot.tls().warnings() {
        log::warn!("{}: {}, {}", said.path, said.found, said.meant);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_are_read_when_they_changed_and_rest_or_are_others() {
        let folder = tempfile::tempdir().unwrap();
        let all = |names: &[&str]| names.iter().map(|name| folder.path().join(name)).collect::<Vec<_>>();
        let mut files = Files::default();
        assert!(!files.see(Vec::new()), "nothing to see");
        assert!(files.see(all(&["a"])), "it is new");
        assert!(!files.see(all(&["a"])));
        fs::write(folder.path().join("a"), "one").unwrap();
        assert!(!files.see(all(&["a"])), "it may still change");
        assert!(files.see(all(&["a"])) && !files.see(all(&["a"])));
        assert!(files.see(all(&["a", "b"])) && !files.see(all(&["a", "b"])));
    }
}
