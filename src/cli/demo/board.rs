//! What can be seen at a moment? The counters of origins, database and clients, and what the gateway says of itself,
//! asked for a few times a second by [`watch`].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::database::Database;
use super::gateway::{self, Told};
use super::load;
use super::origins::Origin;
use super::step::Window;
use super::talk::Talk;

/// Between two looks at the gateway.
const PAUSE: Duration = Duration::from_millis(150);

/// Everything that is shown.
pub(super) struct Board {
    pub(super) origins: Vec<Origin>,
    pub(super) database: Arc<Database>,
    pub(super) load: Arc<load::Tally>,
    seen: Mutex<Seen>,
}

/// What the gateway said last.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Name and state of each of its origins.
    pub(super) states: Vec<(String, String)>,
    pub(super) told: Told,
}

/// All counters at a moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) at: Instant,
    counted: Window,
}

impl Board {
    /// Nothing was seen yet.
    pub(super) fn new(origins: Vec<Origin>, database: Arc<Database>, load: Arc<load::Tally>) -> Self {
        Self { origins, database, load, seen: Mutex::default() }
    }

    /// What the gateway said last.
    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }

    /// The state the gateway shows for an origin, if it knows it.
    pub(super) fn state(&self, origin: &str) -> Option<String> {
        self.seen.lock().states.iter().find(|(name, _)| name == origin).map(|(_, state)| state.clone())
    }

    /// All counters as they are, the gateway's as it `told`.
    pub(super) fn mark(&self, told: Told) -> Mark {
        let counted: Vec<_> = self.origins.iter().map(Origin::counted).collect();
        let counted = Window {
            seconds: 0.0,
            answered: self.load.answered(),
            failed: self.load.failed(),
            hits: counted.iter().map(|one| one.hits).sum(),
            misses: counted.iter().map(|one| one.misses).sum(),
            queries: self.database.queries(),
            retries: told.retries,
            refused: told.failures,
        };
        Mark { at: Instant::now(), counted }
    }
}

impl Mark {
    /// What happened since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Window {
        let (now, then) = (&self.counted, &earlier.counted);
        Window {
            seconds: self.at.duration_since(earlier.at).as_secs_f64(),
            answered: now.answered.saturating_sub(then.answered),
            failed: now.failed.saturating_sub(then.failed),
            hits: now.hits.saturating_sub(then.hits),
            misses: now.misses.saturating_sub(then.misses),
            queries: now.queries.saturating_sub(then.queries),
            retries: now.retries.saturating_sub(then.retries),
            refused: now.refused.saturating_sub(then.refused),
        }
    }
}

/// Looks at the gateway again and again.
pub(super) async fn watch(board: Arc<Board>, mut admin: Talk) {
    loop {
        // one look that fails shows as what was seen before; who waits for a state gives up in time
        if let Ok(states) = gateway::states(&mut admin).await
            && let Ok(told) = gateway::told(&mut admin).await
        {
            *board.seen.lock() = Seen { states, told };
        }
        sleep(PAUSE).await;
    }
}
