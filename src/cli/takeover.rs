//! How does a process take over from another one? It serves what that one serves, on its sockets, with listeners and
//! `process` of its own file; the file as a whole comes into force when the one before is quiet.

use std::mem::take;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use anyhow::Context;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::run::now;
use crate::admin::{self, Admin, UpgradeStatus};
use crate::lifecycle::handoff::message::Given;
use crate::lifecycle::handoff::take::{self, Heir, Order, Patience, Want};
use crate::lifecycle::signals::Leaving;
use crate::lifecycle::supervise::Supervisor;
use crate::lifecycle::{
    By, Learned, Ledger, Readiness, ReloadAsk, Reloads, Succession, Unreadable, Wish, hear_since, none_under_way,
};
use crate::listeners::{Bound, Drain, Handed};
use crate::observe::Metrics;
use crate::snapshot::Store;

/// A takeover that has begun.
pub(super) struct Takeover {
    heir: Heir,
    /// What the one before knew when it was asked.
    learned: Option<Learned>,
    /// The path it called at.
    socket: PathBuf,
}

/// Sockets of the one before, by what they are for.
#[derive(Default)]
pub(super) struct Sockets {
    /// Of clients, and of the admin address.
    pub(super) network: Handed,
    /// The control socket, and a path that leads to it.
    pub(super) control: Option<(PathBuf, OwnedFd)>,
    /// Pipes that end with the processes before.
    pub(super) before: Vec<(Given, OwnedFd)>,
}

/// What a process goes on with that was learned before it.
pub(super) struct Heritage {
    store: Arc<Store>,
    ledger: Arc<Ledger>,
    metrics: Metrics,
    /// What it was made from, until it takes the rest over.
    learned: Mutex<Option<Learned>>,
}

/// What the process does when it is its turn.
pub(super) struct Successor {
    pub(super) drain: Drain,
    pub(super) admin: Arc<Mutex<Option<Admin>>>,
    pub(super) readiness: Arc<Readiness>,
    pub(super) reloads: Reloads,
    pub(super) leaving: Leaving,
    pub(super) succession: Succession,
    pub(super) turn: watch::Sender<bool>,
    pub(super) supervisor: Supervisor,
    pub(super) shown: Arc<Mutex<Option<UpgradeStatus>>>,
    pub(super) heritage: Heritage,
    /// Is there a file to be put in force?
    pub(super) has_file: bool,
    /// Are those before to open their logs anew?
    pub(super) older_logs: Arc<AtomicBool>,
}

impl Takeover {
    /// Asks the gateway whose control socket this is.
    pub(super) fn begin(socket: &Path) -> anyhow::Result<Self> {
        let heir = take::ask(socket, Patience::default()).context("cannot take over")?;
        Ok(Self { heir, learned: None, socket: socket.to_owned() })
    }

    /// What the one before said of itself.
    pub(super) fn heir(&mut self) -> &mut Heir {
        &mut self.heir
    }

    /// What it knows.
    pub(super) fn learned(&self) -> Result<Learned, Unreadable> {
        Learned::read(&self.heir.learned)
    }

    /// This process was made from that.
    pub(super) fn goes_on_from(&mut self, learned: Learned) {
        self.learned = Some(learned);
    }

    /// Its sockets; they are given away once.
    pub(super) fn sockets(&mut self) -> anyhow::Result<Sockets> {
        let mut sockets = Sockets::default();
        let mut network = Vec::new();
        for (given, descriptor) in take(&mut self.heir.sockets) {
            match given {
                Given::Listener(address) => network.push((format!("listener {address}"), descriptor)),
                Given::Admin(address) => network.push((format!("admin address {address}"), descriptor)),
                Given::Control(_) => sockets.control = Some((self.socket.clone(), descriptor)),
                Given::Life(_) => sockets.before.push((given, descriptor)),
            }
        }
        sockets.network = Handed::new(network)?;
        Ok(sockets)
    }

    /// What of it this process goes on with.
    pub(super) fn kept(&self, bound: &[Bound], admin: &admin::Bound) -> Vec<Given> {
        let listens = |address: &str| {
            let address = address.parse::<SocketAddr>().ok();
            bound.iter().any(|one| one.local().ok() == address)
        };
        let is_kept = |given: &&Given| match given {
            Given::Listener(address) => listens(address),
            Given::Admin(address) => admin.address().is_some_and(|own| own.to_string() == *address),
            Given::Control(_) => admin.inherits_socket(),
            Given::Life(_) => false,
        };
        self.heir.offer.sockets.iter().filter(is_kept).cloned().collect()
    }

    /// What `/status` says of it.
    pub(super) fn status(&self) -> UpgradeStatus {
        let offer = &self.heir.offer;
        UpgradeStatus { pid: offer.pid, version: offer.version.clone(), over: false, file: None }
    }

    /// Says that all is ready, and goes on from there on a thread of its own.
    pub(super) fn go_on(self, kept: Vec<Given>, successor: Successor) -> anyhow::Result<()> {
        *successor.heritage.learned.lock() = self.learned;
        let told = successor.leaving.told();
        let (pid, heir) = (self.heir.offer.pid, self.heir);
        let go_on = move || {
            let wants = |want| match want {
                Want::Leave => *told.borrow(),
                Want::Reopen => successor.older_logs.swap(false, Relaxed),
            };
            heir.run(&kept, &wants, |order| successor.obey(order, pid));
        };
        thread::Builder::new().name("takeover".to_owned()).spawn(go_on).context("cannot take over")?;
        Ok(())
    }
}

impl Heritage {
    /// For what is in force in `store`.
    pub(super) fn of(store: Arc<Store>, ledger: Arc<Ledger>, metrics: Metrics) -> Self {
        Self { store, ledger, metrics, learned: Mutex::default() }
    }

    /// Takes over what the one before knows, as it told last.
    fn learn(&self, last: Option<Vec<u8>>) {
        let Some(learned) = self.learned.lock().take() else { return };
        let last = last.and_then(|bytes| {
            let read = Learned::read(&bytes);
            read.inspect_err(|error| log::warn!("going on from what was known a moment ago: {error}")).ok()
        });
        learned.take_over(last, &self.store, &self.ledger, &self.metrics, now());
    }
}

impl Successor {
    fn obey(&self, order: Order, pid: u32) {
        match order {
            Order::Accept(last) => {
                self.heritage.learn(last);
                self.turn.send_replace(true);
                self.readiness.begin();
                self.admin.lock().iter_mut().for_each(Admin::open);
                self.drain.doors().open();
                log::info!("took over from process {pid}: accepting");
                self.supervisor.serving();
            }
            Order::Hold => {
                self.drain.doors().hold();
                self.admin.lock().iter_mut().for_each(|admin| admin.hold());
            }
            Order::Count(since) => {
                if let Err(error) = hear_since(&since, &self.heritage.store, &self.heritage.metrics) {
                    log::warn!("process {pid}: what it counted is lost: {error}");
                }
            }
            Order::Apply => self.apply(),
            Order::Alone => {
                log::info!("process {pid} is gone");
                none_under_way(&self.heritage.store);
                self.succession.predecessor_goes();
                self.apply();
            }
            Order::Decline(why) => {
                log::error!("not taking over: {why}");
                // a path of its own goes; that of the other process was never its own
                self.admin.lock().iter_mut().for_each(Admin::remove_socket);
                process::exit(1);
            }
            Order::Leave(why) => {
                log::error!("giving way: {why}");
                self.supervisor.serves_no_more();
                self.drain.doors().hold();
                self.admin.lock().iter_mut().for_each(|admin| admin.pass_on(true));
                self.drain.begin();
                self.leaving.tell();
            }
        }
    }

    /// The file comes into force as by any reload, once.
    fn apply(&self) {
        if self.succession.predecessor_quiets() {
            return;
        }
        self.reloads.grant_and_wait(Wish::Resume);
        let ask = ReloadAsk { by: By::Upgrade, ..ReloadAsk::default() };
        let ended = self.has_file.then(|| self.reloads.grant_and_wait(Wish::Reload(ask)));
        if let Some(shown) = &mut *self.shown.lock() {
            (shown.over, shown.file) = (true, ended);
        }
    }
}
