//! Counters of one family by the word in their last label: a short list, known before.

use std::sync::OnceLock;

use super::super::series::Counter;

/// Stands for every word that is in no list.
pub(super) const OTHER: &str = "other";

/// Counters of one family by the word in its last label, resolved at first use.
pub(super) struct Words {
    words: &'static [&'static str],
    counters: Box<[OnceLock<Counter>]>,
}

impl Words {
    pub(super) fn new(words: &'static [&'static str]) -> Self {
        Self { words, counters: words.iter().map(|_| OnceLock::new()).collect() }
    }

    /// The counter of `word`, of the last word of the list when it is not in it.
    pub(super) fn increment(&self, word: &str, resolve: impl FnOnce(&'static str) -> Counter) {
        let index = self.words.iter().position(|known| *known == word).unwrap_or(self.words.len() - 1);
        if let (Some(counter), Some(word)) = (self.counters.get(index), self.words.get(index)) {
            counter.get_or_init(|| resolve(word)).increment();
        }
    }

    /// Shows every word but the last, which stands for all others, from the start: a rate needs the zero before it.
    pub(super) fn show(&self, resolve: impl Fn(&'static str) -> Counter) {
        for (word, counter) in self.words.iter().zip(&self.counters) {
            if *word != OTHER {
                counter.get_or_init(|| resolve(word));
            }
        }
    }
}
