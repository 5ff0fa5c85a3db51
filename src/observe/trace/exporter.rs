//! The thread that takes spans from the shards and hands them to the collector.
//!
//! It alone speaks to the collector. One message is under way at a time and holds what one shard had; while the collector
//! takes nothing it is tried again, less and less often and for a minute, and the shards keep what comes while they have room.
//! What the collector does not want is given up at once, since it would not want it later either.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::collector::{Collector, Reply};
use super::wire::{self, Around};
use super::{Buffer, WAKE};
use crate::observe::meters::SpanMeters;

/// Longest time a span waits in a shard.
const TICK: Duration = Duration::from_secs(1);

/// How long the exporter rests after a failure: at first, and at most.
const REST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long it is tried to hand on the same spans: there may be some that a collector never answers.
const LONGEST: Duration = Duration::from_secs(60);

/// A buffer larger than this is given back to the system when it is empty again.
const KEPT: usize = 256 * 1024;

/// By when it has to have ended, once it is told.
type Told = watch::Receiver<Option<std::time::Instant>>;

/// The exporter's own state.
pub(super) struct Exporter {
    collector: Collector,
    around: Around,
    shards: Vec<Arc<Mutex<Buffer>>>,
    wake: Arc<Notify>,
    told: Told,
    meters: SpanMeters,
    /// What is on its way out, and how many spans that is.
    batch: Vec<u8>,
    count: u64,
    /// The process log knows that the collector takes nothing.
    said: bool,
}

impl Exporter {
    pub(super) fn new(
        collector: Collector,
        around: Around,
        shards: Vec<Arc<Mutex<Buffer>>>,
        (wake, told): (Arc<Notify>, Told),
        meters: SpanMeters,
    ) -> Self {
        Self { collector, around, shards, wake, told, meters, batch: Vec::new(), count: 0, said: false }
    }

    /// Hands spans on until it is told to end, and then what is left as long as there is time.
    pub(super) async fn run(mut self) {
        let mut told = self.told.clone();
        let over = async {
            // A sender that is gone was dropped at the process's end.
            let end = told.wait_for(Option::is_some).await.ok().and_then(|end| *end);
            if let Some(end) = end {
                sleep_until(Instant::from_std(end)).await;
            }
        };
        tokio::select! {
            biased;
            () = over => {}
            () = self.work() => {}
        }
        self.end();
    }

    async fn work(&mut self) {
        let (wake, mut told) = (Arc::clone(&self.wake), self.told.clone());
        let mut next = now() + TICK;
        loop {
            let ends = self.told.borrow().is_some();
            let everything = ends || now() >= next;
            for shard in 0..self.shards.len() {
                self.take(shard, if everything { 1 } else { WAKE });
                self.hand_on().await;
            }
            if ends {
                return;
            }
            if everything {
                next = now() + TICK;
            }
            tokio::select! {
                _ = timeout_at(next, wake.notified()) => {}
                _ = told.wait_for(Option::is_some) => {}
            }
        }
    }

    /// Swaps the spans of a shard for the empty buffer, which has to have been handed on.
    fn take(&mut self, shard: usize, least: usize) {
        self.batch.clear();
        if self.batch.capacity() > KEPT {
            self.batch.shrink_to(KEPT);
        }
        if let Some(shard) = self.shards.get(shard) {
            self.count = shard.lock().give(least, &mut self.batch);
        }
    }

    /// Hands on what was taken, however long that takes.
    async fn hand_on(&mut self) {
        if self.count == 0 {
            return;
        }
        let message = self.around.message(&self.batch);
        let (mut rest, given_up) = (REST.0, now() + LONGEST);
        loop {
            let mut asked = Duration::ZERO;
            match self.collector.send(&message).await {
                Ok(Reply { status: 200..=299, body, .. }) => {
                    let rejected = wire::rejected(&body).min(self.count);
                    self.taken(rejected);
                    break;
                }
                // Those of which the specification says that one may try again.
                Ok(Reply { status: status @ (429 | 502..=504), wait, .. }) => {
                    self.troubled(&format!("it answers {status}"));
                    asked = wait.unwrap_or_default().min(LONGEST);
                }
                Ok(Reply { status, .. }) => {
                    self.troubled(&format!("it answers {status}, and these spans are given up"));
                    self.meters.refused(self.count);
                    break;
                }
                Err(error) => self.troubled(&error.to_string()),
            }
            if now() >= given_up {
                self.meters.refused(self.count);
                break;
            }
            sleep(rest.mul_f64(0.5 + fastrand::f64() / 2.0).max(asked)).await;
            rest = (rest * 2).min(REST.1);
        }
        self.count = 0;
    }

    fn taken(&mut self, rejected: u64) {
        self.meters.sent(self.count - rejected);
        self.meters.refused(rejected);
        if rejected > 0 {
            self.troubled(&format!("it rejects {rejected} of {} spans", self.count));
        } else if std::mem::take(&mut self.said) {
            let lost = self.meters.lost();
            log::warn!("tracing: {} takes spans again; {lost} were lost since the start", self.collector);
        }
    }

    /// Said once, until it is over.
    fn troubled(&mut self, why: &str) {
        if !std::mem::replace(&mut self.said, true) {
            log::warn!("tracing: {} does not take spans ({why}); they are kept while there is room", self.collector);
        }
    }

    /// Counts what is left.
    fn end(mut self) {
        let mut left = self.count;
        for shard in 0..self.shards.len() {
            self.take(shard, 1);
            left += self.count;
        }
        if left > 0 {
            self.meters.unsent(left);
            log::warn!("tracing: {left} spans were lost at exit, {} did not take them", self.collector);
        }
    }
}

fn now() -> Instant {
    Instant::now()
}
