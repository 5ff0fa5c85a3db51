//! Which texts were in force, how did each end, and which one comes back? Rule C4.
//!
//! The last ten, the newest last; it is in force. Always holds: going back never leads to a text that was gone back
//! from, and such a text is refused by its digest until somebody asks for it by name of the command. Pure: the clock
//! is an argument.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use indexmap::IndexMap;

/// Texts that are remembered.
const TEXTS: usize = 10;

/// Digests that are refused at most.
const REFUSED: usize = 100;

/// A text that is or was in force.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// The version of the configuration it came into force as.
    pub(super) version: u64,
    /// SHA-256 of it, in hex.
    pub(super) digest: String,
    /// It.
    pub(super) text: Arc<str>,
    /// When it came into force.
    pub(super) since: SystemTime,
    /// What that moved, for each pool whose placement it changed: a part of the hash circle.
    pub(super) moved: IndexMap<String, f64>,
    /// How it ended; `None`: it is in force.
    pub(super) ended: Option<Ended>,
}

/// How a text ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// By another one.
    Replaced,
    /// Somebody went back from it.
    RolledBack,
    /// It went back by itself, for this reason.
    Reverted(String),
}

/// The texts.
#[derive(Debug)]
pub(super) struct History {
    /// Never empty.
    entries: VecDeque<Entry>,
    /// The oldest first.
    refused: VecDeque<String>,
}

impl Ended {
    /// The word.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::RolledBack => "rolled_back",
            Self::Reverted(_) => "reverted",
        }
    }

    /// Did somebody go back from it?
    fn is_refusal(&self) -> bool {
        !matches!(self, Self::Replaced)
    }
}

impl History {
    /// Begins with a text; digests in `refused` were gone back from before.
    pub(super) fn new(first: Entry, refused: impl IntoIterator<Item = String>) -> Self {
        Self { entries: VecDeque::from([first]), refused: refused.into_iter().collect() }
    }

    /// Goes on with texts of another process, the newest last, if there are any.
    pub(super) fn resumed(entries: Vec<Entry>, refused: Vec<String>) -> Option<Self> {
        let in_force = Entry { ended: None, ..entries.last()?.clone() };
        let before = entries.len() - 1;
        let mut entries: VecDeque<_> = entries.into_iter().take(before).chain([in_force]).collect();
        while entries.len() > TEXTS {
            entries.pop_front();
        }
        Some(Self { entries, refused: refused.into_iter().take(REFUSED).collect() })
    }

    /// All of them, the newest last.
    pub(super) fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Digests that are refused.
    pub(super) fn refused(&self) -> impl Iterator<Item = &str> {
        self.refused.iter().map(String::as_str)
    }

    /// Was this text gone back from?
    pub(super) fn is_refused(&self, digest: &str) -> bool {
        self.refused().any(|refused| refused == digest)
    }

    /// The text that was in force before, as far as it was not gone back from itself.
    pub(super) fn before(&self) -> Option<&Entry> {
        let current = self.entries.back()?;
        self.entries.iter().rev().find(|entry| entry.digest != current.digest && !self.is_refused(&entry.digest))
    }

    /// The text in force ends so, and `next` is in force.
    pub(super) fn enter(&mut self, next: Entry, ended: Ended) {
        // whatever is in force now is wanted
        self.refused.retain(|digest| *digest != next.digest);
        if let Some(current) = self.entries.back_mut() {
            if ended.is_refusal() && current.digest != next.digest {
                self.refused.push_back(current.digest.clone());
            }
            current.ended = Some(ended);
        }
        self.entries.push_back(Entry { ended: None, ..next });
        while self.entries.len() > TEXTS {
            self.entries.pop_front();
        }
        while self.refused.len() > REFUSED {
            self.refused.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn entry(digest: &str) -> Entry {
        let (digest, text) = (digest.to_owned(), Arc::from(digest));
        Entry { version: 1, digest, text, since: SystemTime::UNIX_EPOCH, moved: IndexMap::new(), ended: None }
    }

    fn after(digests: &[&str]) -> History {
        let mut history = History::new(entry(digests[0]), []);
        digests[1..].iter().for_each(|digest| history.enter(entry(digest), Ended::Replaced));
        history
    }

    /// Goes back, and says where to.
    fn back(history: &mut History) -> Option<String> {
        let before = history.before()?.clone();
        let digest = before.digest.clone();
        history.enter(before, Ended::RolledBack);
        Some(digest)
    }

    #[test]
    fn going_back_leads_further_back_each_time_and_never_forth() {
        let mut history = after(&["a", "b", "c"]);
        assert_eq!(
            [back(&mut history), back(&mut history), back(&mut history)],
            [Some("b".into()), Some("a".into()), None]
        );
        assert!(history.is_refused("b") && history.is_refused("c") && !history.is_refused("a"));
        let told: Vec<_> = history.entries().map(|one| one.ended.as_ref().map_or("-", Ended::as_str)).collect();
        assert_eq!(told, ["replaced", "replaced", "rolled_back", "rolled_back", "-"]);
    }

    #[test]
    fn a_text_that_is_wanted_again_is_refused_no_more() {
        let mut history = after(&["a", "b"]);
        back(&mut history);
        history.enter(entry("b"), Ended::Replaced);
        assert!(!history.is_refused("b"));
        assert_eq!(back(&mut history), Some("a".into()));
    }

    #[test]
    fn what_went_back_by_itself_is_refused_as_well_and_says_why() {
        let mut history = after(&["a", "b"]);
        history.enter(entry("a"), Ended::Reverted("not confirmed".into()));
        assert!(history.is_refused("b"));
        assert_eq!(history.before(), None);
    }

    #[test]
    fn the_same_text_once_more_is_nothing_to_go_back_to() {
        let mut history = after(&["a", "b", "b"]);
        assert_eq!(back(&mut history), Some("a".into()));
    }

    #[test]
    fn ten_texts_are_remembered_and_a_hundred_digests() {
        let names: Vec<String> = (0..300).map(|n| n.to_string()).collect();
        let mut history = after(&["x"]);
        for name in &names {
            history.enter(entry(name), Ended::RolledBack);
        }
        assert_eq!((history.entries().count(), history.refused().count()), (TEXTS, REFUSED));
        assert!(history.is_refused("298") && !history.is_refused("10"));
    }

    #[test]
    fn what_was_refused_before_the_start_stays_refused() {
        assert!(History::new(entry("a"), ["b".to_owned()]).is_refused("b"));
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::tests::entry;
    use super::*;

    proptest! {
        /// Steps: a number is a text that is reloaded, `None` goes back.
        #[test]
        fn whatever_happens_the_text_in_force_is_not_refused(steps in proptest::collection::vec(proptest::option::of(0_u8..6), 0..40)) {
            let mut history = History::new(entry("0"), []);
            for step in steps {
                match step {
                    Some(text) => history.enter(entry(&text.to_string()), Ended::Replaced),
                    None => {
                        let Some(before) = history.before().cloned() else { continue };
                        prop_assert!(!history.is_refused(&before.digest));
                        let left = history.entries().next_back().map(|entry| entry.digest.clone()).unwrap_or_default();
                        history.enter(before, Ended::RolledBack);
                        prop_assert!(history.is_refused(&left));
                    }
                }
                let current = history.entries().next_back().map(|entry| entry.digest.clone()).unwrap_or_default();
                prop_assert!(!history.is_refused(&current));
                prop_assert!(history.entries().count() <= TEXTS);
            }
        }
    }
}
