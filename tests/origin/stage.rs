//! What do all connections and the control port share? The rules in force, what was seen, who waits for whom.
//!
//! One thread runs everything, so the lock is never contended; it is never held across an await.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use crate::script::{Close, Connection, Counts, Door, Request, Rule, Step};

/// Requests kept word for word; further ones are only counted.
const REQUESTS_KEPT: usize = 50_000;
/// Paths counted one by one.
const PATHS_COUNTED: usize = 50_000;

/// The shared state.
pub(crate) struct Stage {
    /// What the origin is called in its answers.
    pub(crate) name: String,
    started: Instant,
    inner: Mutex<Inner>,
    changed: Notify,
    door: watch::Sender<Door>,
    door_applied: watch::Sender<Door>,
    closing: watch::Sender<Option<Close>>,
}

#[derive(Default)]
struct Inner {
    rules: Vec<Rule>,
    seen: HashMap<u64, Connection>,
    kept: usize,
    begun: u64,
    not_recorded: bool,
    accepted: u64,
    counts: Counts,
    held: HashMap<String, u64>,
    released: HashSet<String>,
    idle_close: Option<Duration>,
}

impl Stage {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            started: Instant::now(),
            inner: Mutex::default(),
            changed: Notify::new(),
            door: watch::Sender::new(Door::Open),
            door_applied: watch::Sender::new(Door::Open),
            closing: watch::Sender::new(None),
        }
    }

    /// Replaces the rules, or puts one before the others.
    pub(crate) fn script(&self, rules: Vec<Rule>, replace: bool) {
        let mut inner = self.inner.lock();
        let old = std::mem::replace(&mut inner.rules, rules);
        if !replace {
            inner.rules.extend(old);
        }
    }

    /// The steps for a request, or `None` where no rule takes it.
    pub(crate) fn program(&self, method: &str, target: &str, nth: u64) -> Option<Vec<Step>> {
        let path = path_of(target);
        let mut inner = self.inner.lock();
        let in_flight = inner.counts.in_flight;
        let busy = |rule: &Rule| rule.when.above.is_none_or(|above| in_flight > above);
        let rule = inner.rules.iter_mut().find(|rule| takes(rule, method, path, nth) && busy(rule))?;
        rule.times = rule.times.map(|times| times - 1);
        Some(rule.steps.clone())
    }

    /// A connection was accepted; its number.
    pub(crate) fn opened(&self, peer: String) -> u64 {
        let mut inner = self.inner.lock();
        inner.accepted += 1;
        inner.counts.connections += 1;
        inner.counts.open += 1;
        let id = inner.accepted;
        if !inner.not_recorded {
            inner.seen.insert(id, Connection { id, peer, ..Connection::default() });
        }
        id
    }

    pub(crate) fn closed(&self, id: u64) {
        let mut inner = self.inner.lock();
        inner.counts.open = inner.counts.open.saturating_sub(1);
        if let Some(connection) = inner.seen.get_mut(&id) {
            connection.closed = true;
        }
    }

    pub(crate) fn received(&self, id: u64, bytes: usize) {
        let mut inner = self.inner.lock();
        inner.counts.received += bytes as u64;
        if let Some(connection) = inner.seen.get_mut(&id) {
            connection.bytes += bytes as u64;
        }
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.inner.lock().counts.sent += bytes as u64;
    }

    /// A request's header has come.
    pub(crate) fn began(&self, id: u64, target: &str, request: impl FnOnce() -> Request) {
        let mut guard = self.inner.lock();
        let at_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let inner = &mut *guard;
        inner.counts.requests += 1;
        inner.counts.in_flight += 1;
        inner.counts.peak = inner.counts.peak.max(inner.counts.in_flight);
        let path = path_of(target);
        let paths = inner.counts.by_path.len();
        if let Some(count) = inner.counts.by_path.get_mut(path) {
            *count += 1;
        } else if paths < PATHS_COUNTED {
            inner.counts.by_path.insert(path.to_owned(), 1);
        }
        inner.begun += 1;
        if inner.kept < REQUESTS_KEPT
            && let Some(connection) = inner.seen.get_mut(&id)
        {
            connection.requests.push(Request { at_ms, nth: inner.begun, ..request() });
            inner.kept += 1;
        }
        drop(guard);
        self.changed.notify_waiters();
    }

    /// What has come of the body of the request under way.
    pub(crate) fn body(&self, id: u64, bytes: u64, sha256: String, complete: bool) {
        if let Some(request) = self.inner.lock().seen.get_mut(&id).and_then(|c| c.requests.last_mut()) {
            (request.body_bytes, request.body_sha256, request.complete) = (bytes, sha256, complete);
        }
    }

    pub(crate) fn ended(&self) {
        let mut inner = self.inner.lock();
        inner.counts.in_flight = inner.counts.in_flight.saturating_sub(1);
    }

    pub(crate) fn seen(&self) -> Vec<Connection> {
        let mut seen: Vec<Connection> = self.inner.lock().seen.values().cloned().collect();
        seen.sort_by_key(|connection| connection.id);
        seen
    }

    /// Open connections stay known, with no requests.
    pub(crate) fn forget(&self) {
        let mut inner = self.inner.lock();
        let (open, in_flight) = (inner.counts.open, inner.counts.in_flight);
        inner.counts = Counts { open, in_flight, peak: in_flight, ..Counts::default() };
        inner.seen.retain(|_, connection| !connection.closed);
        inner.seen.values_mut().for_each(|connection| connection.requests.clear());
        inner.kept = 0;
    }

    pub(crate) fn record(&self, on: bool) {
        self.inner.lock().not_recorded = !on;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.inner.lock().counts.clone()
    }

    /// Waits at a barrier until its name is released.
    pub(crate) async fn hold(&self, name: &str) {
        *self.inner.lock().held.entry(name.to_owned()).or_default() += 1;
        self.changed.notify_waiters();
        self.until(None, |inner| inner.released.contains(name)).await;
        if let Some(count) = self.inner.lock().held.get_mut(name) {
            *count -= 1;
        }
    }

    pub(crate) fn release(&self, name: String) {
        self.inner.lock().released.insert(name);
        self.changed.notify_waiters();
    }

    pub(crate) async fn await_held(&self, name: &str, count: u64, within_ms: u64) -> bool {
        self.until(Some(within_ms), |inner| inner.held.get(name).is_some_and(|n| *n >= count)).await
    }

    pub(crate) async fn await_requests(&self, path: Option<&str>, count: u64, within_ms: u64) -> bool {
        let seen = |inner: &Inner| match path {
            Some(path) => inner.counts.by_path.get(path).copied().unwrap_or(0),
            None => inner.counts.requests,
        };
        self.until(Some(within_ms), |inner| seen(inner) >= count).await
    }

    async fn until(&self, within_ms: Option<u64>, holds: impl Fn(&Inner) -> bool) -> bool {
        let deadline = Instant::now() + Duration::from_millis(within_ms.unwrap_or(u64::from(u32::MAX)));
        loop {
            let changed = self.changed.notified();
            if holds(&self.inner.lock()) {
                return true;
            }
            if timeout_at(deadline, changed).await.is_err() {
                return false;
            }
        }
    }

    /// Returns when the door is as told.
    pub(crate) async fn set_door(&self, door: Door) {
        let mut applied = self.door_applied.subscribe();
        self.door.send_replace(door);
        let _ = applied.wait_for(|now| *now == door).await;
    }

    pub(crate) fn door_is(&self, now: Door) {
        self.door_applied.send_replace(now);
    }

    pub(crate) fn door(&self) -> watch::Receiver<Door> {
        self.door.subscribe()
    }

    pub(crate) fn close_idle(&self, how: Close) {
        self.closing.send_replace(Some(how));
    }

    /// Tells an idle connection to close.
    pub(crate) fn closing(&self) -> watch::Receiver<Option<Close>> {
        self.closing.subscribe()
    }

    pub(crate) fn set_idle_close(&self, after: Option<Duration>) {
        self.inner.lock().idle_close = after;
    }

    pub(crate) fn idle_close(&self) -> Option<Duration> {
        self.inner.lock().idle_close
    }
}

fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or(target)
}

fn takes(rule: &Rule, method: &str, path: &str, nth: u64) -> bool {
    let when = &rule.when;
    rule.times != Some(0)
        && when.method.as_ref().is_none_or(|m| m == method)
        && when.path.as_ref().is_none_or(|p| p == path)
        && when.prefix.as_ref().is_none_or(|p| path.starts_with(p))
        && when.not_path.as_ref().is_none_or(|p| p != path)
        && when.from_nth.is_none_or(|from| nth >= from)
}
