//! What is in force, as metrics show it: the configuration, and the certificates that clients are shown.

use super::Metrics;

impl Metrics {
    /// The configuration in force, and whether the file says something else by now.
    pub fn configuration(&self, version: u64, drift: bool) {
        self.0.config_version.set(i64::try_from(version).unwrap_or(i64::MAX));
        self.0.config_drift.set(drift.into());
    }

    /// Does the file say something else than what is in force?
    pub fn is_drifted(&self) -> bool {
        self.0.config_drift.value() != 0
    }

    /// When certificates end, by name; of others nothing is shown any more.
    pub fn certificates<'a>(&self, all: impl IntoIterator<Item = (&'a str, f64)>) {
        self.0.expiry.clear();
        for (name, ends) in all {
            self.0.expiry.with(&[name]).set(ends);
        }
    }
}
