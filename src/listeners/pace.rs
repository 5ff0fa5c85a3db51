//! How fast does a body come?
//!
//! A client has `body_timeout` for each further 16 KiB: a byte a second does not live on. Time in which nobody waited for
//! the client is not counted.

use std::time::Duration;

use tokio::time::Instant;

/// A slow body is one that takes `body_timeout` for so many bytes.
const BODY_STEP: usize = 16 * 1024;

/// How fast a body comes: time spent waiting for the current [`BODY_STEP`].
#[derive(Default)]
pub(super) struct BodyPace {
    waiting_since: Option<Instant>,
    waited: Duration,
    bytes: usize,
}

impl BodyPace {
    /// When the wait for more of it is over, if it begins now or has begun.
    pub(super) fn due(&mut self, limit: Duration) -> Instant {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        since + limit.saturating_sub(self.waited)
    }

    /// So many bytes came.
    pub(super) fn came(&mut self, bytes: usize) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += since.elapsed();
        }
        self.bytes += bytes;
        if self.bytes >= BODY_STEP {
            *self = Self::default();
        }
    }
}
