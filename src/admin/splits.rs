//! How are the requests of routes shared out over pools?

use indexmap::IndexMap;
use serde::Serialize;

use crate::snapshot::Snapshot;

/// A route that is shared out.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SplitStatus {
    /// The template of the key.
    pub key: String,
    /// The pools, in the order of the file.
    pub to: Vec<ShareStatus>,
}

/// One of its pools.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ShareStatus {
    /// Its name.
    pub pool: String,
    /// The part of the keys it is to have.
    pub share: f64,
}

/// Those in `snapshot`, by the name of the route.
pub(super) fn all(snapshot: &Snapshot) -> IndexMap<String, SplitStatus> {
    let routes = snapshot.config().routes.iter();
    let split = routes.filter_map(|route| Some((route.name.clone(), route.split.as_ref()?)));
    let shares = split.map(|(name, split)| {
        let share = split.to.iter().map(|to| ShareStatus { pool: to.pool.clone(), share: to.share.0 / 100.0 });
        (name, SplitStatus { key: split.key.clone(), to: share.collect() })
    });
    shares.collect()
}
