//! Spans of requests and of their tries, handed to a collector off the data path.
//!
//! A shard of the data plane encodes the spans of a finished request into a buffer of its own; the exporter's thread takes
//! buffers away once a second, or earlier when there is much in them. Always holds: a request never waits for the collector
//! (the only lock on its way is held elsewhere for a swap of two pointers), what is kept is bounded, and a span that is lost
//! is counted.
//!
//! Not by OpenTelemetry's own SDK: its spans are allocated one by one and attribute by attribute on the way of a request,
//! what its queue has no room for is told to nobody, and its exporter brings a second HTTP client along.

mod collector;
mod context;
mod exporter;
#[cfg(test)]
mod published;
mod span;
mod wire;

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::meters::SpanMeters;
use super::{Metrics, Record};
use crate::config;
use crate::config::tracing::Parent;
use collector::Collector;
pub use context::{Context, Header, Origin, TraceId};
use exporter::Exporter;

/// What a shard holds before it wakes the exporter.
const WAKE: usize = 128 * 1024;

/// What all shards together hold at most, shared out: some ten thousand spans.
const ROOM: usize = 4 * 1024 * 1024;

/// The least and the most a shard holds of it; the most is also the largest message to a collector.
const SHARE: (usize, usize) = (256 * 1024, 1024 * 1024);

/// What the exporter gets beyond its deadline to notice it and to count what is lost.
const GRACE: Duration = Duration::from_millis(100);

/// Why nothing can be traced.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// TLS cannot be prepared.
    #[error("tracing: {0}")]
    Tls(#[from] openssl::error::ErrorStack),
    /// The exporter cannot be started.
    #[error("tracing: no thread to export from: {0}")]
    Thread(#[from] io::Error),
}

/// The tracing of the process, switched off or on.
pub struct Tracing(Option<Open>);

struct Open {
    shards: Vec<Arc<Mutex<Buffer>>>,
    wake: Arc<Notify>,
    meters: SpanMeters,
    sampling: Sampling,
    /// By when the exporter has to have ended, once it is told.
    end: watch::Sender<Option<Instant>>,
    /// Hangs up when it has.
    ended: Mutex<mpsc::Receiver<()>>,
}

/// Where one shard of the data plane leaves its spans.
pub struct Shard {
    buffer: Arc<Mutex<Buffer>>,
    wake: Arc<Notify>,
    meters: SpanMeters,
    sampling: Sampling,
    room: usize,
}

/// Whole spans that nobody has taken yet.
#[derive(Default)]
struct Buffer {
    /// Fields of the message that will hold them, one after the other.
    spans: Vec<u8>,
    count: u64,
    /// The exporter was woken for what is here.
    woken: bool,
}

/// Which requests are recorded.
#[derive(Debug, Clone, Copy)]
struct Sampling {
    /// Of the 2^32 numbers that are drawn from, those below.
    below: u64,
    parent: Parent,
}

impl Buffer {
    /// Gives its spans away for an empty buffer, unless they are less than `least` bytes; how many they are.
    fn give(&mut self, least: usize, empty: &mut Vec<u8>) -> u64 {
        if self.spans.len() < least {
            return 0;
        }
        std::mem::swap(&mut self.spans, empty);
        self.woken = false;
        std::mem::take(&mut self.count)
    }
}

impl Sampling {
    fn new(written: &config::tracing::Tracing) -> Self {
        // At most 2^32, since a share is at most one.
        let below = (written.sample.ratio() * 4_294_967_296.0) as u64;
        Self { below, parent: written.parent }
    }

    fn records(self, parent: Option<&Origin>, trusted: bool) -> bool {
        let counts = match self.parent {
            Parent::Any => true,
            Parent::Trusted => trusted,
            Parent::None => false,
        };
        match parent {
            Some(parent) if counts => parent.is_recorded(),
            _ => u64::from(fastrand::u32(..)) < self.below,
        }
    }
}

impl Tracing {
    /// Nothing is traced.
    pub fn off() -> Self {
        Self(None)
    }

    /// Starts the exporter; the collector is looked for when there is something for it.
    ///
    /// # Errors
    /// There can be no exporter.
    pub fn open(written: &config::tracing::Tracing, shards: usize, metrics: &Metrics) -> Result<Self, OpenError> {
        let shards: Vec<_> = (0..shards.max(1)).map(|_| Arc::<Mutex<Buffer>>::default()).collect();
        let (wake, meters) = (Arc::new(Notify::new()), metrics.spans());
        let (end, told) = watch::channel(None);
        let (hold, ended) = mpsc::channel();
        let collector = Collector::new(&written.otlp)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let around = wire::Around::new(written);
        let exporter = Exporter::new(collector, around, shards.clone(), (Arc::clone(&wake), told), meters.clone());
        thread::Builder::new().name("traces".into()).spawn(move || {
            runtime.block_on(exporter.run());
            // One who looks a name up cannot be stopped, and is not waited for.
            runtime.shutdown_background();
            drop(hold);
        })?;
        let sampling = Sampling::new(written);
        Ok(Self(Some(Open { shards, wake, meters, sampling, end, ended: Mutex::new(ended) })))
    }

    /// The place of the shard with this number, if anything is traced; one beyond the last shares another's.
    pub fn shard(&self, number: usize) -> Option<Shard> {
        let open = self.0.as_ref()?;
        let buffer = Arc::clone(open.shards.get(number % open.shards.len())?);
        let room = (ROOM / open.shards.len()).clamp(SHARE.0, SHARE.1);
        let (wake, meters, sampling) = (Arc::clone(&open.wake), open.meters.clone(), open.sampling);
        Some(Shard { buffer, wake, meters, sampling, room })
    }

    /// Tells the exporter to hand on what there is and to end, which may take so long.
    #[allow(clippy::disallowed_methods, reason = "an adapter: the deadline of another thread")]
    pub fn end_within(&self, patience: Duration) {
        if let Some(open) = &self.0 {
            open.end.send_if_modified(|end| {
                let is_new = end.is_none();
                *end = end.or(Some(Instant::now() + patience));
                is_new
            });
        }
    }

    /// Waits until it has ended, or its time is over. Spans that come later are lost.
    #[allow(clippy::disallowed_methods, reason = "an adapter: the deadline of another thread")]
    pub fn wait(&self) {
        let Some(open) = &self.0 else { return };
        let end = *open.end.borrow();
        let left = end.map_or(Duration::ZERO, |end| end.saturating_duration_since(Instant::now()));
        // An error either way: it has hung up, or the time is over.
        let _ = open.ended.lock().recv_timeout(left + GRACE);
    }
}

impl Shard {
    /// The place of a request in its trace: that which its client says it is part of, or one of its own. `trusted`: the
    /// client's word counts.
    pub fn context(&self, parent: Option<Origin>, trusted: bool) -> Context {
        Context::new(parent, self.sampling.records(parent.as_ref(), trusted))
    }

    /// Leaves the spans of a finished request that is recorded, or counts them as lost when there is no room. `ago` says of
    /// each try how long before the request's end it began.
    pub fn write(&self, context: &Context, record: &Record<'_>, ago: &[Duration]) {
        if !context.is_recorded() {
            return;
        }
        let count = 1 + record.attempts.len() as u64;
        let mut buffer = self.buffer.lock();
        let before = buffer.spans.len();
        if before < self.room {
            span::request(context, record, ago, &mut buffer.spans);
        }
        if before >= self.room || buffer.spans.len() > self.room {
            buffer.spans.truncate(before);
            drop(buffer);
            return self.meters.dropped(count);
        }
        buffer.count += count;
        let wake = buffer.spans.len() >= WAKE && !std::mem::replace(&mut buffer.woken, true);
        drop(buffer);
        if wake {
            self.wake.notify_one();
        }
    }
}
