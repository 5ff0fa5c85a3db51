//! Who asks? A few clients on kept connections, together at a steady rate, whatever the answers do.
//!
//! Always holds: at most [`CLIENTS`] requests are under way, a client that falls behind leaves requests out rather than
//! sending them in a burst, and every request that was sent is counted as answered or as failed.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use super::keys::Keys;
use super::stage::Stage;
use super::talk::{Answer, Talk};

/// Requests under way at once at most.
const CLIENTS: usize = 16;
/// A request is left out when it is late by so much of a second's requests: one part of this.
const LATE: u64 = 2;
/// For the last answers.
const FAREWELL: Duration = Duration::from_secs(3);

/// What became of the requests. Relaxed: counts that order nothing.
#[derive(Debug, Default)]
pub(super) struct Tally {
    answered: AtomicU64,
    failed: AtomicU64,
    /// How the first of the failed ones failed.
    why: OnceLock<String>,
}

impl Tally {
    /// Requests answered with 200.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// Requests answered otherwise or not at all.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// How the first of them failed.
    pub(super) fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }

    fn count(&self, answer: io::Result<Answer>) {
        let why = match answer {
            Ok(answer) if answer.status == 200 => {
                self.answered.fetch_add(1, Relaxed);
                return;
            }
            Ok(answer) => format!("status {}", answer.status),
            Err(error) => error.to_string(),
        };
        self.failed.fetch_add(1, Relaxed);
        let _ = self.why.set(why);
    }
}

/// Load that runs until it is finished or dropped.
pub(super) struct Load {
    plan: Arc<Plan>,
    clients: JoinSet<()>,
}

struct Plan {
    keys: Arc<Keys>,
    rate: u64,
    start: Instant,
    next: AtomicU64,
    stop: AtomicBool,
    tally: Arc<Tally>,
}

impl Load {
    /// Begins to send `rate` requests a second.
    pub(super) fn start(stage: &Stage, to: SocketAddr, keys: &Arc<Keys>, rate: u64) -> Self {
        let plan = Arc::new(Plan {
            keys: Arc::clone(keys),
            rate,
            start: Instant::now(),
            next: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            tally: Arc::default(),
        });
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn_on(client(Arc::clone(&plan), Talk::to(to)), stage.handle());
        }
        Self { plan, clients }
    }

    /// What became of the requests so far.
    pub(super) fn tally(&self) -> &Arc<Tally> {
        &self.plan.tally
    }

    /// Sends nothing more and waits for the last answers.
    pub(super) async fn finish(mut self) {
        self.plan.stop.store(true, Relaxed);
        let all = async { while self.clients.join_next().await.is_some() {} };
        // who has no answer by then is cut, as at any other end
        let _ = timeout(FAREWELL, all).await;
    }
}

impl Plan {
    /// The next request and when it is to be sent.
    fn next(&self) -> (u64, Instant) {
        let due = self.start.elapsed().as_millis() as u64 * self.rate / 1000;
        self.next.fetch_max(due.saturating_sub(self.rate / LATE), Relaxed);
        let number = self.next.fetch_add(1, Relaxed);
        (number, self.start + Duration::from_micros(number * 1_000_000 / self.rate))
    }
}

async fn client(plan: Arc<Plan>, mut talk: Talk) {
    while !plan.stop.load(Relaxed) {
        let (number, at) = plan.next();
        sleep_until(at).await;
        let target = plan.keys.target(plan.keys.drawn(number), number);
        plan.tally.count(talk.ask("GET", &target, "").await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_falls_behind_leaves_requests_out() {
        let keys = Arc::new(Keys::new(1, 10));
        let start = Instant::now();
        let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let plan = Plan { keys, rate: 100, start, next, stop, tally: Arc::default() };
        assert_eq!(plan.next(), (0, start));
        assert_eq!(plan.next(), (1, start + Duration::from_millis(10)));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(plan.next().0, 950, "half a second of the requests due is still sent");
    }
}
