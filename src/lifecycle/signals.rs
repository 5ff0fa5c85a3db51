//! What do signals mean? HUP reloads, USR1 reopens logs, USR2 upgrades, TERM and QUIT leave, INT or a second TERM exits at once.
//!
//! Heard on a thread of their own, from before anything is announced until the process is gone: neither a busy data
//! plane nor Pingora, which listens for one signal only, can keep a second TERM from working. A parent that blocks
//! signals, as the supervisor does, has those that come before this wait.

use std::io;
use std::sync::Arc;
use std::thread;

use nix::sys::signal::SigSet;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The exit code of a process that was told to go at once.
const AT_ONCE: i32 = 130;

/// What signals set off.
pub struct Wishes {
    /// HUP: reload the file.
    pub reload: Box<dyn Fn() + Send>,
    /// USR1: open the logs anew.
    pub reopen: Box<dyn Fn() + Send>,
    /// USR2: another process takes over.
    pub upgrade: Box<dyn Fn() + Send>,
    /// Just before an exit that drops nothing.
    pub farewell: Box<dyn Fn() + Send>,
}

/// Whether the process was told to leave.
pub type Told = watch::Receiver<bool>;

/// Tells the process to leave.
#[derive(Debug, Clone)]
pub struct Leaving(Arc<watch::Sender<bool>>);

impl Default for Leaving {
    fn default() -> Self {
        Self(Arc::new(watch::channel(false).0))
    }
}

impl Leaving {
    /// Tells it; answers whether it was told before.
    pub fn tell(&self) -> bool {
        self.0.send_replace(true)
    }

    /// Turns true when it is told.
    pub fn told(&self) -> Told {
        self.0.subscribe()
    }
}

struct Heard {
    reload: Signal,
    reopen: Signal,
    upgrade: Signal,
    leave: Signal,
    quit: Signal,
    interrupt: Signal,
}

impl Heard {
    fn new() -> io::Result<Self> {
        Ok(Self {
            reload: signal(SignalKind::hangup())?,
            reopen: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
            leave: signal(SignalKind::terminate())?,
            quit: signal(SignalKind::quit())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

/// Hears signals from now on; the first TERM or QUIT tells `leaving`.
///
/// # Errors
/// No thread or no descriptor is to be had.
pub fn hear(wishes: Wishes, leaving: Leaving) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // the handlers are in place when this returns
    let heard = runtime.block_on(async { Heard::new() })?;
    let obey = move || {
        if let Err(errno) = SigSet::all().thread_unblock() {
            log::error!("signals stay blocked: {errno}");
        }
        runtime.block_on(obey(heard, wishes, leaving));
    };
    thread::Builder::new().name("signals".to_owned()).spawn(obey).map(drop)
}

async fn obey(mut heard: Heard, wishes: Wishes, leaving: Leaving) {
    let mut told = false;
    loop {
        tokio::select! {
            _ = heard.reload.recv() => (wishes.reload)(),
            _ = heard.reopen.recv() => (wishes.reopen)(),
            _ = heard.upgrade.recv() => (wishes.upgrade)(),
            _ = heard.leave.recv() => leave(&wishes, &leaving, &mut told),
            _ = heard.quit.recv() => leave(&wishes, &leaving, &mut told),
            _ = heard.interrupt.recv() => exit(&wishes),
        }
    }
}

/// The first signal leaves in peace, even after a command that said so: an engine sends TERM behind a hook of its own.
fn leave(wishes: &Wishes, leaving: &Leaving, told: &mut bool) {
    leaving.tell();
    if std::mem::replace(told, true) {
        exit(wishes);
    }
}

fn exit(wishes: &Wishes) {
    log::info!("leaving at once");
    (wishes.farewell)();
    std::process::exit(AT_ONCE);
}
