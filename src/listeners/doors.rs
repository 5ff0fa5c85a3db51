//! May the listening sockets take clients? While two generations hand over, at most one of them does.
//!
//! A door that is held keeps its socket: who comes waits in the queue until some process takes it. Always: a door that
//! has closed stays so; one whose socket somebody else serves leaves the queue alone, any other empties it first.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::sync::watch;

/// All doors of a process; clones are the same doors.
#[derive(Debug, Clone)]
pub struct Doors {
    rule: Arc<watch::Sender<Rule>>,
    /// Doors that take clients. Ordered after the rule they saw, and before the question whether any of them does.
    taking: Arc<AtomicUsize>,
    /// Somebody keeps the sockets open for whoever follows this process.
    outlive_us: bool,
}

/// What doors do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
    Open,
    Held,
    /// For good; the sockets of these addresses are somebody else's to serve, or all of them.
    Closed(Theirs),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Theirs {
    All,
    These(Arc<[SocketAddr]>),
}

impl Default for Doors {
    fn default() -> Self {
        Self::new(Rule::Open)
    }
}

impl Doors {
    fn new(rule: Rule) -> Self {
        Self { rule: Arc::new(watch::Sender::new(rule)), taking: Arc::default(), outlive_us: false }
    }

    /// Doors that are held from the start.
    pub fn held() -> Self {
        Self::new(Rule::Held)
    }

    /// The same doors, if their sockets stay when this process is gone: clients may go on waiting in their queues.
    #[must_use]
    pub fn that_outlive_us(self, outlive_us: bool) -> Self {
        Self { outlive_us, ..self }
    }

    /// Do their sockets stay when this process is gone?
    pub(super) fn outlive_us(&self) -> bool {
        self.outlive_us
    }

    /// Takes nobody until further notice.
    pub fn hold(&self) {
        self.change(|rule| (*rule == Rule::Open).then_some(Rule::Held));
    }

    /// Takes clients (again).
    pub fn open(&self) {
        self.change(|rule| (*rule == Rule::Held).then_some(Rule::Open));
    }

    /// Takes nobody any more. `theirs`: the addresses of sockets that another process serves.
    pub fn pass_on(&self, theirs: impl IntoIterator<Item = SocketAddr>) {
        let theirs = Theirs::These(theirs.into_iter().collect());
        self.change(|rule| (!matches!(rule, Rule::Closed(_))).then_some(Rule::Closed(theirs)));
    }

    /// Takes nobody any more, but who is in the queues of sockets that were not held.
    pub(super) fn close(&self) {
        self.change(|rule| match rule {
            Rule::Open => Some(Rule::Closed(Theirs::These(Arc::new([])))),
            Rule::Held => Some(Rule::Closed(Theirs::All)),
            Rule::Closed(_) => None,
        });
    }

    fn change(&self, to: impl FnOnce(&Rule) -> Option<Rule>) {
        self.rule.send_if_modified(|rule| match to(rule) {
            Some(next) => {
                *rule = next;
                true
            }
            None => false,
        });
    }

    /// Is there no door that takes clients?
    pub fn rest(&self) -> bool {
        self.taking.load(SeqCst) == 0
    }

    /// May they take clients?
    pub fn are_open(&self) -> bool {
        *self.rule.borrow() == Rule::Open
    }

    /// One of them.
    pub(super) fn one(&self) -> Turn {
        Turn { rule: self.rule.subscribe(), taking: self.taking.clone() }
    }
}

/// One door's view of the rule.
pub(super) struct Turn {
    rule: watch::Receiver<Rule>,
    taking: Arc<AtomicUsize>,
}

/// As long as it lives, its door takes clients.
pub(super) struct Taking(Arc<AtomicUsize>);

impl Drop for Taking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Turn {
    /// Waits until clients may be taken; whose the sockets are if they may never be again.
    pub(super) async fn begin(&mut self) -> Result<Taking, Theirs> {
        loop {
            // counted before the rule is read, so that whoever changed it since waits for this door
            self.taking.fetch_add(1, SeqCst);
            let taking = Taking(self.taking.clone());
            let rule = self.rule.borrow_and_update().clone();
            match rule {
                Rule::Open => return Ok(taking),
                Rule::Closed(theirs) => return Err(theirs),
                Rule::Held => drop(taking),
            }
            if self.rule.changed().await.is_err() {
                return Err(Theirs::All);
            }
        }
    }

    /// Waits until there is another rule.
    pub(super) async fn end(&mut self) {
        // whoever makes the rules is gone only when the process is
        let _ = self.rule.changed().await;
    }
}

impl Theirs {
    pub(super) fn has(&self, address: SocketAddr) -> bool {
        match self {
            Self::All => true,
            Self::These(theirs) => theirs.contains(&address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[tokio::test]
    async fn a_door_that_is_held_rests_until_it_is_opened() {
        let doors = Doors::default();
        let mut door = doors.one();
        let taking = door.begin().await.unwrap();
        doors.hold();
        door.end().await;
        assert!(!doors.are_open() && !doors.rest(), "it still takes somebody");
        drop(taking);
        assert!(doors.rest());
        let waiting = tokio::spawn(async move { door.begin().await.is_ok() });
        tokio::task::yield_now().await;
        assert!(doors.rest() && !waiting.is_finished());
        doors.open();
        assert!(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn whose_the_queue_is_depends_on_how_a_door_closes() {
        let closed = |doors: Doors| async move { doors.one().begin().await.err().unwrap() };
        let doors = Doors::default();
        doors.close();
        assert!(!closed(doors).await.has(address(1)), "nobody else is there");
        let doors = Doors::held();
        doors.close();
        assert!(closed(doors).await.has(address(1)), "somebody else may be");
        let doors = Doors::held();
        doors.pass_on([address(1)]);
        let theirs = closed(doors).await;
        assert!(theirs.has(address(1)) && !theirs.has(address(2)));
    }

    #[tokio::test]
    async fn a_closed_door_stays_closed() {
        let doors = Doors::default();
        doors.close();
        doors.open();
        doors.hold();
        doors.pass_on([address(1)]);
        assert_eq!(doors.one().begin().await.err(), Some(Theirs::These(Arc::new([]))));
    }
}
