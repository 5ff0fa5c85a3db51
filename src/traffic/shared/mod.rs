//! How do replicas share one limit? Redis counts for all of them, by the same arithmetic and its own clock.
//!
//! One connection for each server and process, on which questions go out as they come ([`mod@line`]); each is one run of a
//! script, so that two replicas never see the same state. Nobody waits for Redis longer than [`PATIENCE`]: when it does
//! not answer, the caller counts by itself, and after some such answers in a row ([`breaker`]) Redis is not asked at all
//! for a second, then by one request as a trial. While there is no connection nobody waits.

mod breaker;
mod line;
mod outage;
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::gcra::Gcra;
use crate::config::redis_url::RedisUrl;
use breaker::Breaker;
use outage::Outage;

/// How long a request waits for Redis.
const PATIENCE: Duration = Duration::from_millis(50);

/// Questions that wait to be sent at most.
const QUEUE: usize = 4096;

/// A server that counts for several processes.
pub(super) struct Shared {
    url: RedisUrl,
    asks: mpsc::Sender<Ask>,
    /// Its other end, until somebody asks: there is no runtime before.
    unstarted: Mutex<Option<mpsc::Receiver<Ask>>>,
    outage: Arc<Outage>,
    breaker: Breaker,
}

/// One question.
struct Ask {
    key: String,
    /// In microseconds, as [`Gcra`] has them.
    interval: u64,
    tolerance: u64,
    /// A request that was let in is not to count.
    gives_back: bool,
    /// How long the request would have to wait, in microseconds; 0: it is let in.
    answer: oneshot::Sender<u64>,
}

impl Shared {
    /// The server at `url`; it is connected to when it is asked first.
    pub(super) fn new(url: RedisUrl, now: Instant) -> Self {
        let (asks, unstarted) = mpsc::channel(QUEUE);
        let (unstarted, outage) = (Mutex::new(Some(unstarted)), Arc::new(Outage::of(url.place())));
        Self { url, asks, unstarted, outage, breaker: Breaker::new(now) }
    }

    /// Asks for this key; `None`: nobody knows, else as [`Gcra::ask`] has it.
    pub(super) async fn ask(&self, key: String, gcra: &Gcra, clock: fn() -> Instant) -> Option<Result<(), u64>> {
        self.connect();
        if self.outage.is_cut_off() || !self.breaker.admits(clock()) {
            return None;
        }
        let wait = match self.send(key, gcra, false) {
            Some(answered) => tokio::time::timeout(PATIENCE, answered).await.ok().and_then(Result::ok),
            None => None,
        };
        match wait {
            Some(_) => self.outage.is_over(),
            None => self.outage.begins_after(self.breaker.failures() + 1 >= breaker::FAILURES),
        }
        self.breaker.note(wait.is_some(), clock());
        wait.map(|wait| if wait == 0 { Ok(()) } else { Err(wait.saturating_mul(1000)) })
    }

    /// A request that was let in last for this key is not to count. Nobody waits for that.
    pub(super) fn give_back(&self, key: String, gcra: &Gcra) {
        if !self.outage.is_cut_off() {
            let _ = self.send(key, gcra, true);
        }
    }

    fn send(&self, key: String, gcra: &Gcra, gives_back: bool) -> Option<oneshot::Receiver<u64>> {
        let (answer, answered) = oneshot::channel();
        let [interval, tolerance] = gcra.in_micros();
        self.asks.try_send(Ask { key, interval, tolerance, gives_back, answer }).ok().map(|()| answered)
    }

    fn connect(&self) {
        // Once it is there, this is a lock that nobody holds for long.
        if let Some(asks) = self.unstarted.lock().take() {
            tokio::spawn(line::run(self.url.clone(), asks, Arc::clone(&self.outage)));
        }
    }
}
