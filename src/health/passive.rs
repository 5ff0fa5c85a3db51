//! What do the answers to requests say of an origin? Counted on their way, and taken by the judge.
//!
//! An answer costs a few atomic additions and no lock, and what is kept is bounded. Keys fall into cells, and a cell
//! counts for one however often it is asked for: a single hot key says no more than any other. Nothing is counted, nor
//! is there room for it, unless a rule of the pool asks for it. All of it are numbers that order nothing else: `Relaxed`.

use std::array;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::Policy;

/// Cells that keys fall into.
const CELLS: usize = 128;
/// Where the busy ones of a cell are counted; below it all of its answers are.
const BUSY: u32 = 1 << 16;
/// A cell that counted so much counts no more in its window.
const FULL: u32 = 0xfff0;

/// What answers said lately.
#[derive(Debug, Default)]
pub(super) struct Passive {
    /// Some rule asks for it.
    watched: AtomicBool,
    book: OnceLock<Box<Book>>,
}

#[derive(Debug)]
struct Book {
    cells: [AtomicU32; CELLS],
    /// A bit for each client that got a busy answer.
    clients: AtomicU64,
    /// Answers that take longer, in microseconds, are busy ones.
    patience: AtomicU32,
    /// Requests that ended, and those of them that failed.
    ended: AtomicU32,
    failed: AtomicU32,
    /// Failures in a row.
    row: AtomicU32,
    /// So many of them are to be told of at once.
    alarm: AtomicU32,
}

/// The answers of a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Signs {
    /// All of them.
    pub(super) count: u32,
    /// Cells that they fell into: no more than there were keys.
    pub(super) keys: u32,
    /// Of each cell the part that was busy, summed up.
    pub(super) busy: f64,
    /// Clients that got busy answers, as far as they can be told apart.
    pub(super) clients: u32,
}

/// Requests that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ended {
    pub(super) all: u32,
    pub(super) failed: u32,
    /// Failures in a row until now.
    pub(super) row: u32,
}

/// An answer, or the end of the time there was for one.
#[derive(Debug, Clone, Copy)]
pub struct Heard {
    /// The hash of its key.
    pub key: u32,
    /// Who asked.
    pub client: IpAddr,
    /// It says that the origin has more to do than it can: 503, or no answer in time.
    pub busy: bool,
    /// How long it took.
    pub took: Duration,
}

impl Passive {
    /// Counts from now on what the rules of the pool ask for.
    pub(super) fn watch(&self, policy: &Policy) {
        let watched = policy.overload.is_some() || policy.outlier.is_some();
        if self.watched.load(Relaxed) != watched {
            self.watched.store(watched, Relaxed);
        }
        let alarm = policy.outlier.and_then(|outlier| outlier.failures).unwrap_or(0);
        if let Some(book) = self.book.get()
            && book.alarm.load(Relaxed) != alarm
        {
            book.alarm.store(alarm, Relaxed);
        }
    }

    fn book(&self) -> Option<&Book> {
        self.watched.load(Relaxed).then(|| &**self.book.get_or_init(Box::default))
    }

    /// An answer's header came, or none in time.
    pub(super) fn heard(&self, heard: &Heard) {
        if let Some(book) = self.book() {
            book.heard(heard);
        }
    }

    /// A request ended; answers whether the judge is to look.
    pub(super) fn ended(&self, failed: bool) -> bool {
        self.book().is_some_and(|book| book.ended(failed))
    }

    /// Answers that take longer than this are busy ones from now on.
    pub(super) fn bear(&self, patience: Option<Duration>) {
        let Some(book) = self.book.get() else { return };
        let micros = patience.and_then(|time| u32::try_from(time.as_micros()).ok()).unwrap_or(u32::MAX);
        book.patience.store(micros, Relaxed);
    }

    /// The answers since this was last called.
    pub(super) fn answers(&self) -> Signs {
        self.book.get().map(|book| book.answers()).unwrap_or_default()
    }

    /// The requests that ended since this was last called.
    pub(super) fn requests(&self) -> Ended {
        let Some(book) = self.book.get() else { return Ended::default() };
        let (failed, all) = (book.failed.swap(0, Relaxed), book.ended.swap(0, Relaxed));
        Ended { all, failed: failed.min(all), row: book.row.load(Relaxed) }
    }

    /// What was counted says nothing.
    pub(super) fn forget(&self) {
        if let Some(book) = self.book.get() {
            book.answers();
            [&book.ended, &book.failed, &book.row].into_iter().for_each(|count| count.store(0, Relaxed));
        }
    }
}

impl Default for Book {
    fn default() -> Self {
        let none = || AtomicU32::new(0);
        Self {
            cells: array::from_fn(|_| none()),
            clients: AtomicU64::new(0),
            patience: AtomicU32::new(u32::MAX),
            ended: none(),
            failed: none(),
            row: none(),
            alarm: none(),
        }
    }
}

impl Book {
    fn heard(&self, heard: &Heard) {
        let Some(cell) = self.cells.get(mixed(u64::from(heard.key)) as usize % CELLS) else { return };
        if cell.load(Relaxed) & (BUSY - 1) >= FULL {
            return;
        }
        let slow = || heard.took > Duration::from_micros(self.patience.load(Relaxed).into());
        let busy = heard.busy || slow();
        cell.fetch_add(if busy { BUSY + 1 } else { 1 }, Relaxed);
        if busy {
            self.clients.fetch_or(1 << (client(heard.client) % 64), Relaxed);
        }
    }

    fn ended(&self, failed: bool) -> bool {
        self.ended.fetch_add(1, Relaxed);
        if !failed {
            if self.row.load(Relaxed) != 0 {
                self.row.store(0, Relaxed);
            }
            return false;
        }
        self.failed.fetch_add(1, Relaxed);
        self.row.fetch_add(1, Relaxed) + 1 == self.alarm.load(Relaxed)
    }

    fn answers(&self) -> Signs {
        let mut sum = Signs { clients: self.clients.swap(0, Relaxed).count_ones(), ..Signs::default() };
        for cell in &self.cells {
            // Most have nothing to be taken where there is little traffic.
            if cell.load(Relaxed) == 0 {
                continue;
            }
            let cell = cell.swap(0, Relaxed);
            let (busy, count) = (cell / BUSY, cell % BUSY);
            sum.count += count;
            sum.keys += 1;
            sum.busy += f64::from(busy) / f64::from(count.max(1));
        }
        sum
    }
}

/// Tells clients apart; of an IPv6 client its network, which it has all addresses of.
fn client(address: IpAddr) -> u64 {
    mixed(match address {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    })
}

/// Spreads numbers that lie together.
fn mixed(number: u64) -> u64 {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    spread ^ spread >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::policy::{Outlier, Overload};

    const FAST: Duration = Duration::from_millis(1);

    fn watched() -> Passive {
        let passive = Passive::default();
        passive.watch(&Policy { overload: Some(Overload::default()), ..Policy::default() });
        passive
    }

    fn heard(passive: &Passive, key: u32, client: u8, busy: bool) {
        passive.heard(&Heard { key, client: [10, 0, 0, client].into(), busy, took: FAST });
    }

    #[test]
    fn a_key_counts_for_one_however_often_it_is_asked_for() {
        let passive = watched();
        (0..1000).for_each(|n| heard(&passive, 7, n as u8, true));
        (1000..1010).for_each(|key| heard(&passive, key, 1, false));
        let answers = passive.answers();
        assert_eq!((answers.count, answers.busy), (1010, 1.0));
        assert!((6..=11).contains(&answers.keys) && answers.clients > 30, "{answers:?}");
        assert_eq!(passive.answers(), Signs::default(), "each window by itself");
    }

    #[test]
    fn a_cell_never_runs_over_into_what_is_beside_it() {
        let passive = watched();
        (0..100_000).for_each(|_| heard(&passive, 7, 1, true));
        let answers = passive.answers();
        assert_eq!((answers.keys, answers.busy, answers.clients), (1, 1.0, 1));
    }

    #[test]
    fn clients_are_told_apart_by_address_and_by_network_where_they_have_all_of_it() {
        let passive = watched();
        let from = |address: &str| {
            passive.heard(&Heard { key: 1, client: address.parse().unwrap(), busy: true, took: FAST });
        };
        (0..9).for_each(|n| from(&format!("2001:db8::{n}")));
        assert_eq!(passive.answers().clients, 1);
        ["10.0.0.1", "10.0.0.2", "2001:db8:0:1::1"].iter().for_each(|address| from(address));
        assert_eq!(passive.answers().clients, 3);
    }

    #[test]
    fn slow_answers_are_busy_ones_where_that_is_asked_for() {
        let passive = watched();
        let took = |ms| {
            let took = Duration::from_millis(ms);
            passive.heard(&Heard { key: 1, client: [10, 0, 0, 1].into(), busy: false, took });
            passive.answers().busy
        };
        assert_eq!(took(5000), 0.0);
        passive.bear(Some(Duration::from_millis(30)));
        assert_eq!([took(30), took(31)], [0.0, 1.0]);
        passive.bear(None);
        assert_eq!(took(5000), 0.0);
    }

    #[test]
    fn failures_in_a_row_are_told_of_once_and_a_success_ends_them() {
        let passive = Passive::default();
        let outlier = Outlier { failures: Some(3), ..Outlier::default() };
        let policy = Policy { outlier: Some(outlier), ..Policy::default() };
        passive.watch(&policy);
        passive.ended(false);
        passive.watch(&policy);
        let told: Vec<_> = [true, true, false, true, true, true, true].map(|failed| passive.ended(failed)).into();
        assert_eq!(told, [false, false, false, false, false, true, false]);
        assert_eq!(passive.requests(), Ended { all: 8, failed: 6, row: 4 });
        passive.forget();
        assert_eq!(passive.requests(), Ended::default());
    }

    #[test]
    fn nothing_is_counted_that_nobody_asks_for() {
        let passive = Passive::default();
        heard(&passive, 1, 1, true);
        assert!(!passive.ended(true));
        assert!(passive.book.get().is_none());
    }
}
