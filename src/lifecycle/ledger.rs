//! What has the one that writes snapshots done so far? Its book, open to those who look on.

use std::sync::Arc;
use std::time::SystemTime;

use indexmap::IndexMap;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use super::handoff::message::{self, Text};
use super::history::{Ended, Entry, History};
use crate::snapshot::Snapshot;
use crate::snapshot::guard::Trail;

/// The book. Only the writer writes.
#[derive(Debug)]
pub struct Ledger {
    history: Mutex<History>,
    confirm: Mutex<Option<ConfirmStatus>>,
    /// Where keys were before.
    trail: Mutex<Trail>,
}

/// A change that waits to be confirmed, as `/status` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfirmStatus {
    /// Seconds there are in all.
    pub within: f64,
    /// Seconds that are left; null as long as they have not begun.
    pub left: Option<f64>,
    /// Newcomers that keep them from beginning.
    pub waits_for: Vec<String>,
    /// What goes wrong for all keys, moved or not.
    pub note: Option<String>,
}

/// A text that is or was in force, as `/status` shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TextStatus {
    /// The version of the configuration it came into force as.
    pub version: u64,
    /// SHA-256 of it, in hex.
    pub digest: String,
    /// When it came into force.
    pub since: String,
    /// What that moved, for each pool whose placement it changed: a part of the hash circle.
    pub moved_ratio: IndexMap<String, f64>,
    /// `replaced`, `rolled_back` or `reverted`; null: it is in force.
    pub ended: Option<&'static str>,
    /// Why it went back by itself.
    pub why: Option<String>,
}

impl Ledger {
    /// Begins with what is in force since `now`; digests in `refused` were gone back from before the start.
    pub fn new(first: &Snapshot, refused: impl IntoIterator<Item = String>, now: SystemTime) -> Self {
        let history = History::new(entry(first, None, now), refused);
        Self { history: Mutex::new(history), confirm: Mutex::default(), trail: Mutex::default() }
    }

    /// Begins with what another process served, and what it remembers.
    pub fn resumed(first: &Snapshot, texts: Vec<Text>, refused: Vec<String>, now: SystemTime) -> Self {
        let entries = texts.into_iter().map(of_text).collect();
        match History::resumed(entries, refused.clone()) {
            Some(history) => Self { history: Mutex::new(history), confirm: Mutex::default(), trail: Mutex::default() },
            None => Self::new(first, refused, now),
        }
    }

    /// All it remembers, for another process.
    pub fn remembered(&self) -> (Vec<Text>, Vec<String>) {
        let history = self.history.lock();
        (history.entries().map(to_text).collect(), history.refused().map(str::to_owned).collect())
    }

    /// The texts of the latest time, the newest first.
    pub fn texts(&self) -> Vec<TextStatus> {
        self.history.lock().entries().rev().map(TextStatus::of).collect()
    }

    /// What waits to be confirmed.
    pub fn confirm(&self) -> Option<ConfirmStatus> {
        self.confirm.lock().clone()
    }

    /// Where keys were before.
    pub(super) fn trail(&self) -> MutexGuard<'_, Trail> {
        self.trail.lock()
    }

    /// This waits to be confirmed now.
    pub(super) fn waits(&self, confirm: Option<ConfirmStatus>) {
        *self.confirm.lock() = confirm;
    }

    /// The text that was in force before.
    pub(super) fn before(&self) -> Option<Entry> {
        self.history.lock().before().cloned()
    }

    /// Digests of texts that were gone back from.
    pub(super) fn refused(&self) -> Vec<String> {
        self.history.lock().refused().map(str::to_owned).collect()
    }

    /// Was this text gone back from?
    pub(super) fn is_refused(&self, digest: &str) -> bool {
        self.history.lock().is_refused(digest)
    }

    /// `old` ends so, and `next` is in force.
    pub(super) fn enter(&self, old: &Snapshot, next: &Snapshot, ended: Ended, now: SystemTime) {
        self.history.lock().enter(entry(next, Some(old), now), ended);
    }
}

impl TextStatus {
    fn of(entry: &Entry) -> Self {
        let since = Timestamp::try_from(entry.since).unwrap_or_default();
        Self {
            version: entry.version,
            digest: entry.digest.clone(),
            since: since.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string(),
            moved_ratio: entry.moved.clone(),
            ended: entry.ended.as_ref().map(Ended::as_str),
            why: entry.ended.as_ref().and_then(|ended| match ended {
                Ended::Reverted(why) => Some(why.clone()),
                Ended::Replaced | Ended::RolledBack => None,
            }),
        }
    }
}

fn entry(snapshot: &Snapshot, old: Option<&Snapshot>, since: SystemTime) -> Entry {
    let moved = snapshot.upstreams().iter().filter_map(|upstream| {
        let before = old?.named(upstream.pool.name())?;
        let is_other = before.pool.fingerprint() != upstream.pool.fingerprint();
        is_other.then(|| (upstream.pool.name().to_string(), upstream.moved))
    });
    Entry {
        version: snapshot.version(),
        digest: snapshot.digest().to_owned(),
        text: Arc::from(snapshot.text()),
        since,
        moved: moved.collect(),
        ended: None,
    }
}

fn to_text(entry: &Entry) -> Text {
    let ended = entry.ended.as_ref().map(|ended| {
        let why = match ended {
            Ended::Reverted(why) => Some(why.clone()),
            Ended::Replaced | Ended::RolledBack => None,
        };
        (ended.as_str().to_owned(), why)
    });
    Text {
        version: entry.version,
        digest: entry.digest.clone(),
        text: entry.text.to_string(),
        since: message::to_millis(entry.since),
        moved: entry.moved.clone(),
        ended,
    }
}

fn of_text(text: Text) -> Entry {
    let ended = text.ended.map(|(word, why)| match (word.as_str(), why) {
        (_, Some(why)) => Ended::Reverted(why),
        ("rolled_back", None) => Ended::RolledBack,
        _ => Ended::Replaced,
    });
    Entry {
        version: text.version,
        digest: text.digest,
        text: Arc::from(text.text),
        since: message::of_millis(text.since),
        moved: text.moved,
        ended,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_is_shown_with_its_time_and_its_end() {
        let entry = Entry {
            version: 3,
            digest: "ab".into(),
            text: Arc::from(""),
            since: UNIX_EPOCH + Duration::from_millis(1_796_000_000_250),
            moved: IndexMap::from([("p".to_owned(), 0.25)]),
            ended: Some(Ended::Reverted("not confirmed".into())),
        };
        assert_eq!(
            serde_json::to_value(TextStatus::of(&entry)).unwrap(),
            json!({
                "version": 3, "digest": "ab", "since": "2026-11-30T00:53:20.250Z", "moved_ratio": { "p": 0.25 },
                "ended": "reverted", "why": "not confirmed",
            })
        );
        for ended in [None, Some(Ended::Replaced), Some(Ended::RolledBack), entry.ended.clone()] {
            let entry = Entry { ended, ..entry.clone() };
            assert_eq!(of_text(to_text(&entry)), entry, "another process remembers the same");
        }
        let in_force = TextStatus::of(&Entry { ended: None, ..entry });
        assert_eq!((in_force.ended, in_force.why), (None, None));
    }
}
