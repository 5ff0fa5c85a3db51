//! Who starts the gateway again, and keeps its clients meanwhile? The supervisor: PID 1 of a container.
//!
//! It starts `run`, passes signals on, reaps whatever ends, and ends as the last process it started. It holds duplicates
//! of the listening sockets and the text last served: when a process crashes, clients wait in the queues until the next
//! one serves, and that one knows what was served even if the file is broken by then (rule U6). For an upgrade it starts
//! the next process beside the one that serves, which hands over by itself. Always: no threads, no runtime, no
//! configuration of its own, so that little can go wrong in what must not fail.

mod backoff;
mod generation;
mod line;
mod supervised;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use backoff::Backoff;
use generation::Generation;
use line::{Line, Said};
use supervised::VARIABLE;
pub use supervised::{HeldForUs, Last, Supervisor};

/// What is heard; the last one is what ends a child.
const SIGNALS: [Signal; 7] = [
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTERM,
    Signal::SIGQUIT,
    Signal::SIGINT,
    Signal::SIGCHLD,
];

/// In so long a process whose successor crashed serves again itself, if it does.
const TAKEN_BACK: Duration = Duration::from_secs(1);

/// Starts `program` and whoever follows it; answers the exit code of the last one. `sockets` listen already.
///
/// # Errors
/// The first process cannot be started, or the system refuses what any supervisor needs.
pub fn supervise(program: PathBuf, arguments: Vec<OsString>, sockets: Vec<OwnedFd>) -> io::Result<i32> {
    let heard: SigSet = SIGNALS.into_iter().collect();
    heard.thread_block()?;
    let signals = SignalFd::with_flags(&heard, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    // whoever is left behind comes to this process, be it PID 1 or not
    set_child_subreaper(true)?;
    let mut house = House {
        program,
        arguments,
        held: Held { sockets, text: None, control: None },
        current: None,
        generations: Vec::new(),
        backoff: Backoff::default(),
        due: None,
        leaving: false,
        code: 0,
    };
    house.start(None)?;
    while !house.is_over() {
        house.wait(&signals)?;
        house.hear();
        while let Some(signal) = next(&signals)? {
            house.obey(signal);
        }
        house.start_if_due();
    }
    Ok(house.code)
}

/// The next signal that came, if any.
fn next(signals: &SignalFd) -> io::Result<Option<Signal>> {
    let found = signals.read_signal()?;
    Ok(found.and_then(|found| Signal::try_from(i32::try_from(found.ssi_signo).ok()?).ok()))
}

struct House {
    program: PathBuf,
    arguments: Vec<OsString>,
    held: Held,
    /// The one that said last that it serves, be it alive or not.
    current: Option<Pid>,
    /// Those that live, the oldest first.
    generations: Vec<Generation>,
    backoff: Backoff,
    /// When the next one is to be started.
    due: Option<Instant>,
    /// It was told to leave, or said that it does.
    leaving: bool,
    /// Of the last one that ended.
    code: i32,
}

/// What outlives a crash.
struct Held {
    sockets: Vec<OwnedFd>,
    text: Option<OwnedFd>,
    /// Where the process that serves hands over.
    control: Option<PathBuf>,
}

impl House {
    /// Starts a process, and tells it what is held for it: the sockets, unless the one at this path hands them over.
    fn start(&mut self, in_place_of: Option<&Path>) -> io::Result<()> {
        let (line, theirs) = Line::pair()?;
        let sockets: &[OwnedFd] = if in_place_of.is_some() { &[] } else { &self.held.sockets };
        line.say(&Said::Sockets(sockets.iter().map(OwnedFd::try_clone).collect::<Result<_, _>>()?))?;
        line.say(&Said::Text(self.held.text.as_ref().map(OwnedFd::try_clone).transpose()?))?;
        fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty()))?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env(VARIABLE, format!("{}:{}", std::process::id(), theirs.as_raw_fd()));
        if let Some(path) = in_place_of {
            command.arg("--takeover").arg(path);
        }
        // its end is waited for by number, with all others
        let id = command.spawn()?.id();
        let pid = Pid::from_raw(i32::try_from(id).map_err(io::Error::other)?);
        self.generations.push(Generation::new(pid, line, now()));
        Ok(())
    }

    fn start_if_due(&mut self) {
        if self.due.is_none_or(|due| due > now()) {
            return;
        }
        self.due = None;
        if let Err(error) = self.start(None) {
            log::error!("{}: {error}", self.program.display());
            self.start_again_after(Duration::ZERO);
        }
    }

    fn start_again_after(&mut self, lived: Duration) {
        let wait = self.backoff.crashed(lived);
        // one that had just handed over takes its sockets back, and says so
        let wait = if self.generations.is_empty() { wait } else { wait.max(TAKEN_BACK) };
        log::warn!("starting again in {wait:?}; {} sockets are held meanwhile", self.held.sockets.len());
        self.due = Some(now() + wait);
    }

    fn is_over(&self) -> bool {
        self.generations.is_empty() && self.due.is_none()
    }

    /// Waits until there is something to do.
    fn wait(&self, signals: &SignalFd) -> io::Result<()> {
        let lines = self.generations.iter().filter_map(Generation::line);
        let all = std::iter::once(signals.as_fd()).chain(lines);
        let mut all: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let patience = match self.due {
            // a millisecond more, or it would be asked many times within the last one
            Some(due) => PollTimeout::try_from(due.saturating_duration_since(now()) + Duration::from_millis(1)),
            None => Ok(PollTimeout::NONE),
        };
        match poll(&mut all, patience.unwrap_or(PollTimeout::MAX)) {
            Err(errno) if errno != Errno::EINTR => Err(errno.into()),
            _ => Ok(()),
        }
    }

    /// Takes what processes say of themselves.
    fn hear(&mut self) {
        let mut said = Vec::new();
        for generation in &mut self.generations {
            let pid = generation.pid;
            said.extend(std::iter::from_fn(|| generation.says()).map(|said| (pid, said)));
        }
        said.into_iter().for_each(|(pid, said)| self.believe(pid, said));
    }

    fn believe(&mut self, pid: Pid, said: Said) {
        if let Said::Sockets(sockets) = said {
            self.current = Some(pid);
            self.due = None;
            // how it fares from here on, whoever it took over from sees by itself
            self.generations.iter_mut().filter(|one| one.pid == pid).for_each(|one| one.asked_by = None);
            // one that leaves closes its sockets in time; a duplicate would keep clients waiting for nobody
            self.held.sockets = if self.leaving { Vec::new() } else { sockets };
            return;
        }
        // one that has handed over speaks for itself alone, and so does one that has not taken over yet
        if self.current_lives() && self.current != Some(pid) {
            return;
        }
        match said {
            Said::Sockets(_) | Said::Ended(..) => {}
            Said::Text(text) => self.held.text = text,
            Said::Control(path) => self.held.control = Some(path),
            Said::Upgrade(number) => self.upgrade((pid, number)),
            Said::Leaving => {
                self.leaving = true;
                self.held.sockets = Vec::new();
            }
        }
    }

    fn current_lives(&self) -> bool {
        self.generations.iter().any(|generation| Some(generation.pid) == self.current)
    }

    /// Starts the next process beside the one that serves, which asked for it and says how it ended.
    fn upgrade(&mut self, asked_by: (Pid, u32)) {
        let Some(control) = self.held.control.clone().filter(|_| !self.leaving) else { return };
        match self.start(Some(&control)) {
            Ok(()) => self.generations.iter_mut().last().into_iter().for_each(|next| next.asked_by = Some(asked_by)),
            Err(error) => self.tell_of_end(asked_by, &format!("{}: {error}", self.program.display())),
        }
    }

    /// Whoever waits for a process that ended learns of it.
    fn tell_of_end(&self, (pid, number): (Pid, u32), how: &str) {
        log::error!("no upgrade: {how}");
        let asker = self.generations.iter().find(|generation| generation.pid == pid);
        asker.into_iter().for_each(|asker| asker.tell(&Said::Ended(number, how.to_owned())));
    }

    fn obey(&mut self, signal: Signal) {
        match signal {
            Signal::SIGCHLD => self.reap(),
            Signal::SIGUSR1 => self.pass_on(signal, |_| true),
            // it asks for a process to take over from it
            Signal::SIGUSR2 | Signal::SIGHUP => self.pass_on(signal, |pid| Some(pid) == self.current),
            _ => {
                self.leaving = true;
                self.due = None;
                self.held.sockets = Vec::new();
                self.pass_on(signal, |_| true);
            }
        }
    }

    fn pass_on(&self, signal: Signal, to: impl Fn(Pid) -> bool) {
        for generation in self.generations.iter().filter(|generation| to(generation.pid)) {
            if let Err(errno) = kill(generation.pid, signal) {
                log::warn!("{signal} to process {}: {errno}", generation.pid);
            }
        }
    }

    /// Takes leave of all that ended, those nobody else waits for included.
    fn reap(&mut self) {
        // what they said before comes first
        self.hear();
        loop {
            let (pid, code) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, code),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, 128 + signal as i32),
                Ok(WaitStatus::StillAlive) | Err(_) => return,
                Ok(_) => continue,
            };
            let Some(at) = self.generations.iter().position(|generation| generation.pid == pid) else { continue };
            let gone = self.generations.remove(at);
            if let Some(asked_by) = gone.asked_by {
                self.tell_of_end(asked_by, &format!("the new process ended with {code}"));
            }
            self.ended(pid, code, now().saturating_duration_since(gone.since));
        }
    }

    /// A process that serves no more is followed by another, unless it left or never got so far.
    fn ended(&mut self, pid: Pid, code: i32, lived: Duration) {
        self.code = code;
        if self.leaving || self.current.is_none() {
            return;
        }
        if self.current_lives() {
            // one that handed over, or could not take over
            return log::info!("process {pid} ended with {code}; another one serves");
        }
        if code == 0 && self.generations.is_empty() {
            return;
        }
        log::error!("process {pid} ended with {code} after {lived:.1?}");
        self.start_again_after(lived);
    }
}

#[expect(clippy::disallowed_methods, reason = "the supervisor waits by this clock")]
fn now() -> Instant {
    Instant::now()
}
