//! Does an origin leave requests without an answer? Rule H2(c).
//!
//! Requests on at least five distinct keys timed out within the last ten seconds, and for ten seconds none was answered.
//! A request that times out after a long wait stands for all of that wait: silence is counted from the moment the
//! first of them went out. One key alone may simply be slow everywhere.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

/// Distinct keys that have to time out.
const KEYS: usize = 5;

/// How long hard evidence of silence takes.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// Time-outs since the last answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Hang {
    /// When the first request that timed out went out.
    since: Option<Instant>,
    /// Keys and when a request on each timed out last, the oldest first.
    keys: SmallVec<[(u32, Instant); KEYS]>,
}

impl Hang {
    /// A request on `key` that went out at `since` timed out; `answered`: when a request was last answered.
    pub(super) fn timed_out(&mut self, key: u32, since: Instant, answered: Option<Instant>, now: Instant) {
        let over = |ended: Instant| now.saturating_duration_since(ended) > SILENCE || answered > Some(ended);
        if self.keys.iter().all(|(_, ended)| over(*ended)) {
            self.forget();
        }
        self.since = Some(self.since.map_or(since, |earlier| earlier.min(since)));
        let full = self.keys.len() == KEYS;
        let (known, oldest) = (self.keys.iter().position(|(known, _)| *known == key), 0);
        if known.is_some() || full {
            self.keys.remove(known.unwrap_or(oldest));
        }
        self.keys.push((key, now));
    }

    /// When the last of them timed out, if the origin is silent by rule; `answered`: when a request was last answered,
    /// or an HTTP probe passed.
    pub(super) fn silent(&self, answered: Option<Instant>, now: Instant) -> Option<Instant> {
        let recent = |ended: &Instant| now.saturating_duration_since(*ended) <= SILENCE && Some(*ended) > answered;
        let recent = || self.keys.iter().map(|(_, ended)| *ended).filter(recent);
        let quiet = self.since.max(answered).is_some_and(|since| now.saturating_duration_since(since) >= SILENCE);
        recent().max().filter(|_| quiet && recent().count() >= KEYS)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Nothing is held against the origin any more.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    /// Requests `(key, went out, timed out)` in seconds; is the origin silent at `now`?
    fn silent(requests: &[(u32, u64, u64)], answered: Option<u64>, now: u64) -> bool {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut hang = Hang::default();
        for (key, out, ended) in requests {
            let answered = answered.filter(|answered| answered <= ended).map(at);
            hang.timed_out(*key, at(*out), answered, at(*ended));
        }
        let last = hang.silent(answered.map(at), at(now));
        assert!(last.is_none_or(|last| Some(last) == requests.iter().map(|(.., ended)| at(*ended)).max()));
        last.is_some()
    }

    fn keys(out: u64, ended: u64) -> [(u32, u64, u64); 5] {
        [1, 2, 3, 4, 5].map(|key| (key, out, ended))
    }

    #[test]
    fn one_long_time_out_stands_for_its_whole_wait() {
        assert!(silent(&keys(0, 10), None, 10));
        assert!(!silent(&keys(9, 10), None, 10), "a burst of short ones does not");
        assert!(silent(&[&keys(0, 1)[..], &keys(9, 10)].concat(), None, 10), "short ones over ten seconds do");
    }

    #[test]
    fn one_key_over_and_over_is_not_five() {
        assert!(!silent(&[(1, 0, 10); 50], None, 20));
        assert!(!silent(&keys(0, 10)[..4], None, 20));
    }

    #[test]
    fn an_answer_ends_the_silence() {
        assert!(!silent(&keys(0, 10), Some(9), 12), "silent for 3 s only");
        assert!(!silent(&keys(0, 10), Some(11), 30), "nothing timed out since");
        assert!(silent(&keys(1, 11), Some(0), 11));
        assert!(!silent(&keys(0, 5), Some(4), 13), "not ten seconds yet");
        assert!(silent(&keys(0, 5), Some(4), 14));
    }

    #[test]
    fn time_outs_of_long_ago_do_not_count() {
        assert!(!silent(&keys(0, 10), None, 21));
        assert!(!silent(&[&keys(0, 10)[..4], &[(5, 15, 25)]].concat(), None, 25));
        assert!(!silent(&[&keys(0, 10)[..], &keys(99, 100)].concat(), None, 100), "idle in between");
    }
}
