//! Does a change that comes in step by step move more than its guard allows? Rule C3, the second half.
//!
//! The guard judges rings before a change; this looks at the keys afterwards, for as long as somebody grows into what
//! the change gave it, and makes growth stand still while more of them moved than may.

use std::time::Duration;

use tokio::time::sleep;

use crate::snapshot::guard::overrun;
use crate::snapshot::{Snapshot, Store};

/// It is looked this often.
const LOOK: Duration = Duration::from_millis(500);

/// Watches what is in force, without end.
pub(super) async fn watch(store: &Store) {
    loop {
        look(&store.load());
        sleep(LOOK).await;
    }
}

fn look(snapshot: &Snapshot) {
    for upstream in snapshot.upstreams() {
        upstream.pool.roster().brake.overrun(overrun(snapshot, upstream));
    }
}
