//! The thread that takes lines from the shards and writes them out.
//!
//! It alone touches the sink. A shard's buffer is swapped against an empty one under its lock, which is held for
//! the swap alone; whatever the sink does, shards go on. Woken when a shard holds 64 KiB, else once a second.
//! What is swapped out stays here until it is written: lines are only lost in the shards, when their room is used
//! up, in the middle of a line when the file is opened anew, and at exit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::sink::{Progress, Sink};
use super::{Buffer, WAKE};
use crate::observe::Metrics;

/// Longest time a line waits in a shard.
const TICK: Duration = Duration::from_secs(1);

/// How often a sink that takes nothing is asked again, in milliseconds.
const PATIENCE: u16 = 50;

/// How long a sink that failed is left alone.
const RETRY: Duration = Duration::from_millis(250);

/// How long a reader may take nothing before the process log says so: a slow one is no news.
const SLOW: Duration = Duration::from_secs(1);

/// A buffer larger than this is given back to the system when it is empty again.
const KEPT: usize = 256 * 1024;

/// What the rest of the process asks of the writer.
#[derive(Default)]
pub(super) struct Orders {
    /// Open the file anew. Relaxed: the thread is woken by `unpark`, which orders it.
    pub(super) reopen: AtomicBool,
    /// Write out what there is until then, and end.
    pub(super) close: Mutex<Option<Instant>>,
    /// Set by the writer when it has ended.
    pub(super) closed: Mutex<bool>,
    /// Told when it has.
    pub(super) ended: Condvar,
}

impl Orders {
    /// Is it told to end, and the time for that over? A reader that is slow but goes on taking is not waited for.
    #[allow(clippy::disallowed_methods, reason = "an adapter: the thread has its own clock")]
    fn is_late(&self) -> bool {
        self.close.lock().is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// The writer's own state.
pub(super) struct Writer {
    sink: Sink,
    shards: Vec<Arc<Mutex<Buffer>>>,
    orders: Arc<Orders>,
    metrics: Metrics,
    /// Lines on their way out, and how much of them is out.
    pending: Vec<u8>,
    written: usize,
    /// Since when the sink takes nothing, and whether the process log knows.
    stuck: Option<Instant>,
    said: bool,
    /// When a sink that failed is asked again.
    retry: Instant,
}

impl Writer {
    #[allow(clippy::disallowed_methods, reason = "an adapter: the thread has its own clock")]
    pub(super) fn new(sink: Sink, shards: Vec<Arc<Mutex<Buffer>>>, orders: Arc<Orders>, metrics: Metrics) -> Self {
        let (pending, retry) = (Vec::new(), Instant::now());
        Self { sink, shards, orders, metrics, pending, written: 0, stuck: None, said: false, retry }
    }

    /// Writes until it is told to end.
    #[allow(clippy::disallowed_methods, reason = "an adapter: the thread has its own clock")]
    pub(super) fn run(mut self) {
        let mut next = Instant::now() + TICK;
        loop {
            let now = Instant::now();
            let close = *self.orders.close.lock();
            let reopen = self.orders.reopen.load(Relaxed);
            let everything = close.is_some() || reopen || now >= next;
            let done = self.round(if everything { 1 } else { WAKE });
            if reopen {
                self.orders.reopen.store(false, Relaxed);
                self.reopen();
            }
            if close.is_some_and(|deadline| done || now >= deadline) {
                return self.end();
            }
            if done && everything {
                next = now + TICK;
            }
            let wait = if done { next } else { self.retry.min(close.unwrap_or(self.retry)) };
            thread::park_timeout(wait.saturating_duration_since(Instant::now()));
        }
    }

    /// Writes the lines of every shard that holds at least so many bytes; false when the sink took not all.
    fn round(&mut self, least: usize) -> bool {
        for shard in 0..self.shards.len() {
            if !self.drain() {
                return false;
            }
            self.take(shard, least);
        }
        self.drain()
    }

    /// Writes what was taken; false when the sink takes no more for now.
    #[allow(clippy::disallowed_methods, reason = "an adapter: the thread has its own clock")]
    fn drain(&mut self) -> bool {
        while self.written < self.pending.len() {
            if self.orders.is_late() {
                return false;
            }
            match self.sink.write(&self.pending[self.written..], PATIENCE) {
                Progress::Wrote(n) => {
                    self.written += n;
                    self.recovered();
                }
                Progress::Full => {
                    self.troubled("its reader takes nothing", SLOW);
                    return false;
                }
                Progress::Failed(error) => {
                    self.troubled(&error.to_string(), Duration::ZERO);
                    self.retry = Instant::now() + RETRY;
                    return false;
                }
            }
        }
        true
    }

    /// Swaps the lines of a shard for the empty buffer, which has to be written out.
    fn take(&mut self, shard: usize, least: usize) {
        self.pending.clear();
        self.written = 0;
        if self.pending.capacity() > KEPT {
            self.pending.shrink_to(KEPT);
        }
        if let Some(shard) = self.shards.get(shard) {
            shard.lock().give(least, &mut self.pending);
        }
    }

    fn reopen(&mut self) {
        match self.sink.reopen() {
            Ok(()) => self.skip_torn_line(),
            Err(error) => {
                log::error!("access log: {} cannot be opened again ({error}); the old file stays in use", self.sink);
            }
        }
    }

    /// The rest of a line whose start went to the old file would only confuse readers of the new one.
    fn skip_torn_line(&mut self) {
        let torn = self.written > 0 && self.pending.get(self.written - 1) != Some(&b'\n');
        if torn {
            let rest = &self.pending[self.written..];
            self.written += memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            self.metrics.access_log_dropped(1);
        }
    }

    #[allow(clippy::disallowed_methods, reason = "an adapter: the thread has its own clock")]
    fn troubled(&mut self, why: &str, after: Duration) {
        let since = *self.stuck.get_or_insert_with(Instant::now);
        if !self.said && since.elapsed() >= after {
            self.said = true;
            log::warn!("access log: {} cannot be written ({why}); lines are kept while there is room", self.sink);
        }
    }

    fn recovered(&mut self) {
        self.stuck = None;
        if std::mem::take(&mut self.said) {
            let lost = self.metrics.access_log_lost();
            log::warn!("access log: {} is written again; {lost} lines were lost since the start", self.sink);
        }
    }

    /// Counts what is left, and says that the end has come.
    fn end(mut self) {
        let mut lost = lines(&self.pending[self.written..]);
        for shard in 0..self.shards.len() {
            self.take(shard, 1);
            lost += lines(&self.pending);
        }
        if lost > 0 {
            self.metrics.access_log_dropped(lost);
            log::warn!("access log: {lost} lines were lost at exit, {} took nothing", self.sink);
        }
        *self.orders.closed.lock() = true;
        self.orders.ended.notify_all();
    }
}

fn lines(text: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', text).count() as u64
}
