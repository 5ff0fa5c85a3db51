//! What is known of one origin's health, shared by the data plane, the judge and those who look on.
//!
//! One `Live` per pool and origin name lives as long as a snapshot names it, so nothing learned is lost by a reload.
//! The data plane reads the verdict, and writes the time of its last answer, without a lock; both order nothing else,
//! hence `Relaxed`.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{Board, Verdict};

/// The health of one origin.
#[derive(Debug)]
pub struct Live {
    verdict: AtomicU8,
    /// The instant that `answered` counts from: that of the first answer.
    first_answer: OnceLock<Instant>,
    /// Milliseconds from the first answer in traffic to the last one.
    answered: AtomicU64,
    /// Where the verdict is shown as well. A board of a departed snapshot is forgotten when the next one comes.
    boards: Mutex<Vec<(Weak<Board>, usize)>>,
}

impl Live {
    /// An origin of which this is held.
    pub fn new(verdict: Verdict) -> Self {
        Self {
            verdict: AtomicU8::new(verdict as u8),
            first_answer: OnceLock::new(),
            answered: AtomicU64::new(0),
            boards: Mutex::new(Vec::new()),
        }
    }

    /// What is held of the origin now.
    pub fn verdict(&self) -> Verdict {
        Verdict::stored(self.verdict.load(Relaxed))
    }

    /// Shows the verdict on a board from now on, as that of `member`.
    pub fn show_on(&self, board: &Arc<Board>, member: usize) {
        let mut boards = self.boards.lock();
        boards.retain(|(board, _)| board.strong_count() > 0);
        boards.push((Arc::downgrade(board), member));
        board.set(member, self.verdict().usable());
    }

    /// A request was answered, whatever the answer said.
    pub fn answered(&self, now: Instant) {
        let first = self.first_answer.get_or_init(|| now);
        self.answered.store(now.saturating_duration_since(*first).as_millis() as u64, Relaxed);
    }

    /// When a request was last answered, to the millisecond below.
    pub fn last_answer(&self) -> Option<Instant> {
        let since = Duration::from_millis(self.answered.load(Relaxed));
        self.first_answer.get().map(|first| *first + since)
    }

    /// Changes the verdict everywhere it is shown.
    pub fn publish(&self, verdict: Verdict) {
        // The lock keeps a board that is being added from missing the change.
        let boards = self.boards.lock();
        self.verdict.store(verdict as u8, Relaxed);
        for (board, member) in boards.iter().filter_map(|(board, member)| Some((board.upgrade()?, *member))) {
            board.set(member, verdict.usable());
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    #[test]
    fn change_of_verdict_shows_on_every_board() {
        let live = Live::new(Verdict::Up);
        let (old, new) = (Arc::new(Board::new(1)), Arc::new(Board::new(4)));
        live.show_on(&old, 0);
        live.show_on(&new, 3);
        assert!(old.holds(0) && new.holds(3));
        live.publish(Verdict::Down);
        assert!(!old.holds(0) && !new.holds(3));
        drop(old);
        live.publish(Verdict::Kept);
        assert!(new.holds(3));
    }

    #[test]
    fn boards_of_departed_snapshots_are_forgotten() {
        let live = Live::new(Verdict::Up);
        for _ in 0..100 {
            live.show_on(&Arc::new(Board::new(1)), 0);
        }
        assert!(live.boards.lock().len() <= 2);
    }

    #[test]
    fn last_answer_is_the_time_of_the_last_one() {
        let live = Live::new(Verdict::Up);
        let start = Instant::now();
        assert_eq!(live.last_answer(), None);
        live.answered(start);
        assert_eq!(live.last_answer(), Some(start));
        live.answered(start + Duration::from_millis(2500));
        assert_eq!(live.last_answer(), Some(start + Duration::from_millis(2500)));
    }
}
