//! What does a serving process hand over to the next one? Its sockets, what it serves and what it has learned; and what
//! does it do meanwhile?

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::run::now;
use crate::admin::Admin;
use crate::lifecycle::handoff::give::{Estate, Handover, Order, listeners};
use crate::lifecycle::handoff::message::{Given, Offer};
use crate::lifecycle::handoff::take::lives;
use crate::lifecycle::handoff::upgrades::Launch;
use crate::lifecycle::signals::Leaving;
use crate::lifecycle::supervise::Supervisor;
use crate::lifecycle::{Ledger, Manager, ReloadOutcome, Reloads, Succession, Teller, Wish};
use crate::listeners::Drain;
use crate::observe::Metrics;
use crate::snapshot::Store;

/// Generations that live at once, beside the next one.
const LIVING: usize = 2;

/// All of a process that takes part in a handoff.
pub(super) struct Holdings {
    /// Listening sockets; none once they are closed here.
    pub(super) sockets: Arc<Mutex<Vec<(Given, OwnedFd)>>>,
    /// Pipes that end with the processes before.
    pub(super) before: Vec<(Given, OwnedFd)>,
    /// The pipe that ends with this one.
    pub(super) life: PipeReader,
    pub(super) store: Arc<Store>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) metrics: Metrics,
    pub(super) reloads: Reloads,
    pub(super) drain: Drain,
    pub(super) admin: Arc<Mutex<Option<Admin>>>,
    pub(super) leaving: Leaving,
    pub(super) succession: Succession,
    pub(super) manager: Manager,
    pub(super) supervisor: Supervisor,
    /// Somebody keeps the sockets open for whoever follows.
    pub(super) outlived: bool,
    /// Opens logs anew.
    pub(super) reopen: Reopen,
}

/// Opens logs anew: this process's, and those of the ones before it.
pub(super) type Reopen = Arc<dyn Fn() + Send + Sync>;

impl Holdings {
    /// As the protocol asks for it.
    pub(super) fn estate(self) -> Estate {
        let told = self.leaving.told();
        let (succession, doors, admin) = (self.succession.clone(), self.drain.doors().clone(), self.admin.clone());
        let teller = Arc::new(Teller::new(self.store.clone(), self.ledger.clone(), self.metrics.clone()));
        let learning = teller.clone();
        let this = Arc::new(self);
        let obeying = this.clone();
        Estate {
            offer: Box::new(move || this.offer()),
            learned: Box::new(move || learning.learned(now())),
            counted: Box::new(move || teller.since()),
            rests: Box::new(move || doors.rest() && admin.lock().as_ref().is_none_or(Admin::rests)),
            told: Box::new(move || *told.borrow()),
            quiet: Box::new(move || succession.quiet()),
            obey: Box::new(move |order| obeying.obey(order)),
        }
    }

    fn offer(&self) -> Result<Handover, String> {
        let before: Vec<_> = self.before.iter().filter(|(_, pipe)| lives(pipe, Duration::ZERO)).collect();
        if before.len() >= LIVING {
            return Err(format!("{} still serve what they accepted: no more generations live at once", named(&before)));
        }
        match self.reloads.grant_and_wait(Wish::Rest) {
            ReloadOutcome::Declined { why } | ReloadOutcome::Failed { why } => return Err(why),
            _ => {}
        }
        self.describe(&before).map_err(|error| {
            self.reloads.grant_and_wait(Wish::Resume);
            format!("the sockets cannot be handed over: {error}")
        })
    }

    fn describe(&self, before: &[&(Given, OwnedFd)]) -> io::Result<Handover> {
        let pid = process::id();
        let own = (Given::Life(pid), self.life.try_clone()?.into());
        let own_sockets = self.sockets.lock();
        let given = own_sockets.iter().chain(before.iter().copied()).chain([&own]);
        let mut sockets = Vec::new();
        let mut descriptors = Vec::new();
        for (given, descriptor) in given {
            sockets.push(given.clone());
            descriptors.push(descriptor.try_clone()?);
        }
        let in_force = self.store.load();
        let (texts, refused) = self.ledger.remembered();
        let offer = Offer {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid,
            generation: self.metrics.generation(),
            outlived: self.outlived,
            sockets,
            text: in_force.text().to_owned(),
            config_version: in_force.version(),
            texts,
            refused,
        };
        Ok(Handover { offer, descriptors })
    }

    fn obey(&self, order: Order) {
        let mut admin = self.admin.lock();
        match order {
            Order::Hold => {
                self.drain.doors().hold();
                admin.iter_mut().for_each(|admin| admin.hold());
            }
            Order::PassOn(kept) => {
                self.drain.fade();
                let keeps_socket = kept.iter().any(|given| matches!(given, Given::Control(_)));
                admin.iter_mut().for_each(|admin| admin.pass_on(keeps_socket));
            }
            Order::Leave { kept, pid } => {
                self.drain.doors().pass_on(listeners(&kept));
                admin.iter_mut().for_each(|admin| admin.leave_it());
                self.manager.succeeded_by(pid);
                self.supervisor.serves_no_more();
                self.succession.pass();
            }
            Order::Resume => {
                self.drain.return_to_service();
                admin.iter_mut().for_each(Admin::open);
                self.drain.doors().open();
                self.supervisor.serving();
                self.reloads.grant_and_wait(Wish::Resume);
            }
            Order::Reopen => (self.reopen)(),
        }
    }
}

/// A pipe that ends with this process: for those after it, and to be kept.
pub(super) fn life() -> io::Result<(PipeReader, PipeWriter)> {
    io::pipe()
}

/// How this process is followed: by the program it was started from, with the arguments it was started with.
pub(super) fn launch(socket: Option<PathBuf>, refused: Option<&'static str>, supervisor: &Supervisor) -> Launch {
    let mut arguments = Vec::new();
    let mut all = std::env::args_os().skip(1);
    while let Some(argument) = all.next() {
        if argument == "--takeover" {
            all.next();
        } else if !argument.to_string_lossy().starts_with("--takeover=") {
            arguments.push(argument);
        }
    }
    // what is there is not what was there when this process began, if somebody has put another in its place
    let binary = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("moorgate"));
    let first = (process::id() == 1).then_some(
        "process 1 ends with everything in its container, so it cannot be followed by another: run it under `moorgate supervise`",
    );
    Launch { binary, arguments, socket, refused: refused.or(first), supervisor: supervisor.clone() }
}

fn named(before: &[&(Given, OwnedFd)]) -> String {
    let pids = before.iter().filter_map(|(given, _)| match given {
        Given::Life(pid) => Some(format!("process {pid}")),
        Given::Listener(_) | Given::Admin(_) | Given::Control(_) => None,
    });
    pids.collect::<Vec<_>>().join(" and ")
}
