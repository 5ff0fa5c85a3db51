//! How many client connections are open, and may one more come in?
//!
//! One count for the whole process, given back by `Drop`, so that neither an error nor a panic leaks a place. The
//! drain waits here until nobody is left, and the lame duck learns here when a client last came.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::clients::{Clients, Stay};
use crate::observe::ConnectionOpen;

/// The connections of all listeners.
#[derive(Debug)]
pub struct Connections {
    limit: usize,
    /// Relaxed: a count, and nothing is read because of its value but the value itself.
    open: AtomicUsize,
    /// Milliseconds from `born` to the latest accepted connection, plus one; 0 while none ever came.
    latest: AtomicU64,
    born: Instant,
    /// Listening sockets whose queue may still hold clients.
    doors: AtomicUsize,
    clients: Arc<Clients>,
    left: Notify,
}

impl Connections {
    /// At most `limit` at a time.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            open: AtomicUsize::new(0),
            latest: AtomicU64::new(0),
            born: Instant::now(),
            doors: AtomicUsize::new(0),
            clients: Arc::default(),
            left: Notify::new(),
        })
    }

    /// Connections open now.
    pub fn open(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// How long ago the latest client came: `None` if none ever did.
    pub fn since_latest(&self) -> Option<Duration> {
        let latest = self.latest.load(Relaxed).checked_sub(1)?;
        Some(self.born.elapsed().saturating_sub(Duration::from_millis(latest)))
    }

    /// Waits until no connection is open and none can come.
    pub async fn all_closed(&self) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            // registered before the count is read, so the last one's leaving is not missed
            left.as_mut().enable();
            if self.open() == 0 && self.doors.load(Relaxed) == 0 {
                return;
            }
            left.await;
        }
    }

    /// A listening socket takes connections for as long as the answer lives.
    pub(crate) fn door(self: &Arc<Self>) -> OpenDoor {
        self.doors.fetch_add(1, Relaxed);
        OpenDoor(self.clone())
    }

    /// A client came: a place for it, if there is one.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Place> {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.latest.store(now + 1, Relaxed);
        let place = Place(self.clone());
        (self.open.fetch_add(1, Relaxed) < self.limit).then_some(place)
    }
}

/// A listening socket that takes connections.
#[derive(Debug)]
pub(crate) struct OpenDoor(Arc<Connections>);

impl Drop for OpenDoor {
    fn drop(&mut self) {
        self.0.doors.fetch_sub(1, Relaxed);
        self.0.left.notify_waiters();
    }
}

/// The place of one connection.
#[derive(Debug)]
pub(crate) struct Place(Arc<Connections>);

impl Drop for Place {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Relaxed) == 1 {
            self.0.left.notify_waiters();
        }
    }
}

/// All counts one connection stands in.
#[derive(Debug)]
pub(super) struct Held {
    place: Option<Place>,
    stay: Option<Stay>,
    _shown: ConnectionOpen,
    load: Arc<AtomicUsize>,
}

impl Held {
    /// Counts the connection at its listener (`shown`) and its shard (`load`) too.
    pub(super) fn new(place: Place, shown: ConnectionOpen, load: Arc<AtomicUsize>) -> Self {
        load.fetch_add(1, Relaxed);
        Self { place: Some(place), stay: None, _shown: shown, load }
    }

    /// It is a connection of `ip`, which may have `most`: may it stay?
    pub(super) fn is_of(&mut self, ip: IpAddr, most: u32) -> bool {
        self.stay = self.place.as_ref().and_then(|Place(all)| all.clients.admit(ip, most));
        self.stay.is_some()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.load.fetch_sub(1, Relaxed);
        self.place = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_limit_are_let_in() {
        let connections = Connections::new(2);
        assert_eq!(connections.since_latest(), None);
        let places = [connections.admit(), connections.admit()];
        assert!(places.iter().all(Option::is_some));
        assert!(connections.admit().is_none());
        assert_eq!(connections.open(), 2, "one that is turned away takes no place");
        assert!(connections.since_latest().is_some());
        drop(places);
        assert_eq!(connections.open(), 0);
    }

    #[tokio::test]
    async fn whoever_waits_learns_that_the_last_one_left() {
        let connections = Connections::new(2);
        connections.all_closed().await;
        let place = connections.admit();
        let waiting = tokio::spawn({
            let connections = connections.clone();
            async move { connections.all_closed().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(place);
        waiting.await.unwrap();
    }
}
