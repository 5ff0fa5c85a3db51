//! Has the leaving begun? From then on no connection takes another request once it has answered, and after a while none
//! begins one at all.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use tokio::sync::watch;

use super::doors::Doors;
use crate::proxy::wire::Farewell;

/// The one switch of a process; clones are the same switch.
#[derive(Debug, Clone)]
pub struct Drain {
    /// What requests look at: cheaper than a look into the channel.
    flag: Arc<AtomicBool>,
    begun: Arc<watch::Sender<bool>>,
    over: Arc<watch::Sender<bool>>,
    /// The same as a flag: set before anybody is woken for it.
    is_over: Arc<AtomicBool>,
    doors: Doors,
    farewell: Farewell,
}

impl Default for Drain {
    fn default() -> Self {
        Self::with(Doors::default())
    }
}

impl Drain {
    /// Of a process with these doors.
    pub fn with(doors: Doors) -> Self {
        let switch = || Arc::new(watch::Sender::new(false));
        Self {
            flag: Arc::default(),
            begun: switch(),
            over: switch(),
            is_over: Arc::default(),
            doors,
            farewell: Farewell::default(),
        }
    }

    /// The listening sockets.
    pub fn doors(&self) -> &Doors {
        &self.doors
    }

    /// Listening sockets close; every answer from now on is its connection's last.
    pub fn begin(&self) {
        self.doors.close();
        self.fade();
    }

    /// Every answer from now on is its connection's last; listening sockets stay as they are.
    pub fn fade(&self) {
        self.flag.store(true, Relaxed);
        self.begun.send_replace(true);
    }

    /// Connections may go on as before; those that were told goodbye end all the same.
    pub fn return_to_service(&self) {
        self.flag.store(false, Relaxed);
        self.begun.send_replace(false);
    }

    /// No connection may begin a request any more: those that idle close.
    pub fn end(&self) {
        self.is_over.store(true, Release);
        self.over.send_replace(true);
    }

    /// Waits until no connection may begin a request any more.
    pub(super) async fn over(&self) {
        // the sender lives as long as this does
        let _ = self.over.subscribe().wait_for(|over| *over).await;
    }

    /// May no connection begin a request any more?
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Acquire)
    }

    /// Tells those that still run that this is it: WebSockets get a Close of code 1001, requests end. Returns when their
    /// connections are closed. Those that were not told that it is [over](Self::end) before do not hear of it.
    pub async fn say_farewell(&self) {
        self.farewell.say();
        self.farewell.all_gone().await;
    }

    /// Nobody is waited for any longer.
    pub fn call_last(&self) {
        self.farewell.call_last();
    }

    /// What [`say_farewell`](Self::say_farewell) says.
    pub(super) fn farewell(&self) -> Farewell {
        self.farewell.clone()
    }

    /// Waits until it has begun.
    pub async fn begun(&self) {
        // the sender lives as long as this does
        let _ = self.begun.subscribe().wait_for(|begun| *begun).await;
    }

    /// The switch as Pingora wants it.
    pub(super) fn watch(&self) -> watch::Receiver<bool> {
        self.begun.subscribe()
    }

    /// The switch as a flag.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        self.flag.clone()
    }
}
