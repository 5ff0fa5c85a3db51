//! Who makes the connection that several requests wait for?
//!
//! Streams share a connection as soon as it is there. A burst that finds none would make one for every request; so one makes
//! it for as many as it will carry, and they look for it again when it is there. Always: who waits waits for a connection
//! that is being made, and has its failure in common with it, unless that was one of time, of which each has its own. One
//! that is late is passed over, so that what became of a single packet does not become of all who wait.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pingora_core::ErrorType;
use tokio::sync::watch;

/// The connections a shard is making, by who may share them.
#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<HashMap<u64, Vec<Flight>>>);

/// One that is being made.
#[derive(Debug)]
struct Flight {
    waiting: usize,
    end: watch::Receiver<Option<End>>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// It is there.
    Made,
    /// It is not, and would not have been for others either.
    Failed(ErrorType),
}

/// A request's part in it.
#[derive(Debug)]
pub(super) enum Part {
    /// It makes the connection.
    Make(Making),
    /// It waits for it.
    Wait(Waiting),
}

/// To be ended with what came of it; dropped without, those who wait look again.
#[derive(Debug)]
pub(super) struct Making {
    flights: Arc<Flights>,
    key: u64,
    end: watch::Sender<Option<End>>,
}

/// The wait for a connection that somebody makes.
#[derive(Debug)]
pub(super) struct Waiting(watch::Receiver<Option<End>>);

impl Flights {
    /// Somebody needs a connection that `most` may share.
    pub(super) fn join(self: &Arc<Self>, key: u64, most: usize) -> Part {
        let mut all = self.0.lock();
        let flights = all.entry(key).or_default();
        if let Some(flight) = flights.iter_mut().find(|flight| flight.waiting + 1 < most) {
            flight.waiting += 1;
            return Part::Wait(Waiting(flight.end.clone()));
        }
        let (end, seen) = watch::channel(None);
        flights.push(Flight { waiting: 0, end: seen });
        Part::Make(Making { flights: Arc::clone(self), key, end })
    }

    /// That one is late: nobody else is to wait for it.
    pub(super) fn pass_over(&self, key: u64, late: &Waiting) {
        self.remove(key, &late.0);
    }

    fn remove(&self, key: u64, end: &watch::Receiver<Option<End>>) {
        let mut all = self.0.lock();
        if let Some(flights) = all.get_mut(&key) {
            flights.retain(|flight| !flight.end.same_channel(end));
            if flights.is_empty() {
                all.remove(&key);
            }
        }
    }
}

impl Making {
    /// Tells those who wait.
    pub(super) fn ends(self, end: End) {
        self.end.send_replace(Some(end));
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.flights.remove(self.key, &self.end.subscribe());
    }
}

impl Waiting {
    /// What became of it; `None`: who made it is gone.
    pub(super) async fn end(&self) -> Option<End> {
        self.0.clone().wait_for(Option::is_some).await.ok()?.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(part: Part) -> Making {
        match part {
            Part::Make(making) => making,
            Part::Wait(_) => panic!("one is being made already"),
        }
    }

    fn wait(part: Part) -> Waiting {
        match part {
            Part::Wait(waiting) => waiting,
            Part::Make(_) => panic!("none is being made"),
        }
    }

    #[tokio::test]
    async fn one_makes_it_for_as_many_as_it_carries() {
        let flights = Arc::new(Flights::default());
        let first = make(flights.join(1, 3));
        let (one, two) = (wait(flights.join(1, 3)), wait(flights.join(1, 3)));
        let second = make(flights.join(1, 3));
        let other = make(flights.join(2, 3));
        let three = wait(flights.join(1, 3));
        first.ends(End::Made);
        assert_eq!((one.end().await, two.end().await), (Some(End::Made), Some(End::Made)));
        second.ends(End::Failed(ErrorType::ConnectRefused));
        assert_eq!(three.end().await, Some(End::Failed(ErrorType::ConnectRefused)));
        drop(other);
        assert!(flights.0.lock().is_empty());
    }

    #[tokio::test]
    async fn those_who_wait_for_somebody_who_is_gone_look_again() {
        let flights = Arc::new(Flights::default());
        let first = make(flights.join(1, 100));
        let waiting = wait(flights.join(1, 100));
        drop(first);
        assert_eq!(waiting.end().await, None);
        make(flights.join(1, 100)).ends(End::Made);
        assert!(flights.0.lock().is_empty());
    }

    #[tokio::test]
    async fn one_that_is_late_gets_nobody_else_and_those_who_wait_hear_of_it_still() {
        let flights = Arc::new(Flights::default());
        let first = make(flights.join(1, 100));
        let (one, two) = (wait(flights.join(1, 100)), wait(flights.join(1, 100)));
        flights.pass_over(1, &one);
        let second = make(flights.join(1, 100));
        flights.pass_over(1, &two);
        let three = wait(flights.join(1, 100));
        first.ends(End::Made);
        assert_eq!(two.end().await, Some(End::Made));
        second.ends(End::Made);
        assert_eq!(three.end().await, Some(End::Made));
        assert!(flights.0.lock().is_empty());
    }
}
