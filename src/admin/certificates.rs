//! What is said of the certificates that clients are shown?

use std::time::{SystemTime, UNIX_EPOCH};

use indexmap::IndexMap;
use serde::Serialize;

use crate::observe::Metrics;
use crate::snapshot::Snapshot;

/// A certificate that clients are shown.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CertificateStatus {
    /// The names it is for.
    pub names: Vec<String>,
    /// What kind of key it has: `rsa`, `ecdsa`, `eddsa`.
    pub key: &'static str,
    /// When it expires, in seconds since 1970.
    pub expires: u64,
    /// What is wrong with it; null: nothing.
    pub warning: Option<String>,
}

/// Those in `snapshot`, in the order of the file.
pub(super) fn all(snapshot: &Snapshot) -> Vec<CertificateStatus> {
    let now = SystemTime::now();
    let all = snapshot.tls().certificates().iter().map(|one| CertificateStatus {
        names: one.names().iter().map(ToString::to_string).collect(),
        key: one.key_word(),
        expires: seconds(one.ends()),
        warning: one.warning(now).map(|said| said.to_string()),
    });
    all.collect()
}

/// Sets the gauges. Of two certificates of the same name that one counts which ends first.
pub fn show_certificates(snapshot: &Snapshot, metrics: &Metrics) {
    let mut ends: IndexMap<&str, u64> = IndexMap::new();
    for one in snapshot.tls().certificates() {
        let end = ends.entry(one.name()).or_insert(u64::MAX);
        *end = seconds(one.ends()).min(*end);
    }
    metrics.certificates(ends.into_iter().map(|(name, end)| (name, end as f64)));
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
