//! How many snapshots are still in use?

use super::series::Level;

/// A snapshot that is still in use.
#[derive(Debug)]
#[must_use = "the snapshot counts as alive until this is dropped"]
pub struct SnapshotAlive(pub(super) Level);

impl Drop for SnapshotAlive {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}
