//! Who may take over from this process, and how is the next one started? One attempt at a time, each on a thread of its
//! own.

use std::ffi::OsString;
use std::io::PipeWriter;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;

use super::give::{Estate, Give, Outcome, Patience};
use super::line::{Heard, Line, now};
use super::message::{Hello, Message, PREAMBLE};
use crate::lifecycle::supervise::Supervisor;

/// For a new process to load its file and call.
const CALL: Duration = Duration::from_secs(20);

/// The same, and for all that follows.
const LONGEST: Duration = Duration::from_secs(75);

/// How often a new process is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// For one that failed to say why, and to end by itself.
const LAST_WORD: Duration = Duration::from_secs(1);

/// For the first bytes on a line.
const PREAMBLE_WITHIN: Duration = Duration::from_secs(1);

/// How the next process is started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program this process was started from.
    pub binary: PathBuf,
    /// Its arguments, without the name.
    pub arguments: Vec<OsString>,
    /// Where it calls.
    pub socket: Option<PathBuf>,
    /// Why it cannot be started by this process, if it cannot.
    pub refused: Option<&'static str>,
    /// Who starts it instead, if somebody does: whoever started this process is to see how the next one ends.
    pub supervisor: Supervisor,
}

/// The upgrades of a process.
pub struct Upgrades {
    estate: Estate,
    launch: Launch,
    patience: Patience,
    now: Mutex<Now>,
    /// The process is about to end, and somebody has still to be told what was counted. Relaxed: looked at again and again.
    ends: AtomicBool,
    accompanied: AtomicBool,
    /// Whoever holds the other end learns from its end that this process is gone.
    _life: PipeWriter,
}

/// Whoever was started.
enum Next<'a> {
    Child(Child),
    /// By the supervisor, for the wish of this number.
    OfSupervisor(&'a Supervisor, u32),
}

impl Next<'_> {
    /// How it ended, if it did.
    fn ended(&mut self) -> Option<String> {
        match self {
            Self::Child(child) => Some(format!("the new process ended ({})", child.try_wait().ok()??)),
            Self::OfSupervisor(supervisor, number) => supervisor.ended(*number),
        }
    }
}

enum Now {
    Idle,
    /// A process was started, and has to call.
    Starting(Sender<Outcome>),
    Giving,
    Passed(u32),
}

impl Upgrades {
    /// Of a process with this estate; `life` ends with it.
    pub fn new(estate: Estate, launch: Launch, life: PipeWriter) -> Arc<Self> {
        let (now, patience) = (Mutex::new(Now::Idle), Patience::default());
        let [ends, accompanied] = [false; 2].map(AtomicBool::new);
        Arc::new(Self { estate, launch, patience, now, ends, accompanied, _life: life })
    }

    /// Somebody calls over `stream`. Returns at once.
    pub fn call(self: &Arc<Self>, stream: UnixStream) {
        let this = self.clone();
        let give = move || match Line::new(stream) {
            Ok(line) => this.give(line),
            Err(error) => log::warn!("handoff: {error}"),
        };
        if let Err(error) = thread::Builder::new().name("handoff".to_owned()).spawn(give) {
            log::error!("handoff: no thread: {error}");
        }
    }

    fn give(&self, mut line: Line) {
        if !line.begins_with(PREAMBLE, PREAMBLE_WITHIN) {
            return log::warn!("handoff: somebody called and spoke something else");
        }
        let ended = match self.begin() {
            Ok(ended) => ended,
            Err(why) => return refuse(&mut line, &why),
        };
        self.accompanied.store(true, Relaxed);
        let note = |outcome| self.note(outcome, ended.as_ref());
        Give::new(line, &self.estate, self.patience, note).run(|| self.ends.load(Relaxed));
        self.accompanied.store(false, Relaxed);
    }

    /// Notes how an attempt ended, and tells whoever asked for it.
    fn note(&self, outcome: Outcome, ended: Option<&Sender<Outcome>>) {
        *self.now.lock() = match &outcome {
            Ok(who) => Now::Passed(who.pid),
            Err(_) => Now::Idle,
        };
        // it may have given up
        let _ = ended.map(|ended| ended.send(outcome));
    }

    /// Nobody else may call from now on. Answers who waits for the outcome.
    fn begin(&self) -> Result<Option<Sender<Outcome>>, String> {
        let mut now = self.now.lock();
        match std::mem::replace(&mut *now, Now::Giving) {
            Now::Idle => Ok(None),
            Now::Starting(ended) => Ok(Some(ended)),
            before => {
                let why = before.why_not();
                *now = before;
                Err(why)
            }
        }
    }

    /// Starts `binary`, or the program of this process, to take over; returns when it goes on alone.
    ///
    /// # Errors
    /// Why nothing changed.
    pub fn upgrade(&self, binary: Option<&Path>) -> Outcome {
        self.try_to_upgrade(binary).inspect_err(|why| log::error!("upgrade failed, nothing changed: {why}"))
    }

    fn try_to_upgrade(&self, binary: Option<&Path>) -> Outcome {
        if let Some(why) = self.launch.refused {
            return Err(why.to_owned());
        }
        let Some(socket) = &self.launch.socket else {
            return Err("there is no control socket to hand over at".to_owned());
        };
        if self.launch.supervisor.exists() {
            return self.upgrade_by_supervisor(binary);
        }
        let told = self.expect()?;
        let binary = binary.unwrap_or(&self.launch.binary);
        let mut command = Command::new(binary);
        // a group of its own, so that nobody is left of a script that starts the real one
        command.args(&self.launch.arguments).arg("--takeover").arg(socket).process_group(0);
        log::info!("upgrade: starting {}", binary.display());
        let outcome = match command.spawn() {
            Ok(child) => self.watch(Next::Child(child), &told),
            Err(error) => Err(format!("{}: {error}", binary.display())),
        };
        self.give_up();
        outcome
    }

    fn upgrade_by_supervisor(&self, binary: Option<&Path>) -> Outcome {
        if binary.is_some() {
            return Err(
                "the supervisor starts the program it was started from: put the new one in its place".to_owned()
            );
        }
        let told = self.expect()?;
        log::info!("upgrade: asking the supervisor");
        let number = self.launch.supervisor.upgrade();
        let outcome = self.watch(Next::OfSupervisor(&self.launch.supervisor, number), &told);
        self.give_up();
        outcome
    }

    fn expect(&self) -> Result<Receiver<Outcome>, String> {
        let (ended, told) = mpsc::channel();
        let mut now = self.now.lock();
        if !matches!(*now, Now::Idle) {
            return Err(now.why_not());
        }
        *now = Now::Starting(ended);
        Ok(told)
    }

    /// Whoever was started does not call any more.
    fn give_up(&self) {
        let mut now = self.now.lock();
        if matches!(*now, Now::Starting(_)) {
            *now = Now::Idle;
        }
    }

    /// Waits for how it ends. One that failed does not stay; if it is no child of this process, it leaves by itself.
    fn watch(&self, mut next: Next<'_>, told: &Receiver<Outcome>) -> Outcome {
        let begun = now();
        let outcome = loop {
            match told.recv_timeout(LOOK) {
                Ok(outcome) => break outcome,
                // its caller was dropped without a word: it panicked
                Err(RecvTimeoutError::Disconnected) => break Err("a defect, see the log".to_owned()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(how) = next.ended() {
                // what it said last may be on its way
                let said = told.recv_timeout(LAST_WORD);
                break said.unwrap_or_else(|_| Err(format!("{how} before it had called")));
            }
            let took = now().saturating_duration_since(begun);
            let has_called = !matches!(*self.now.lock(), Now::Starting(_));
            if took > if has_called { LONGEST } else { CALL } {
                let what = if has_called { "was not done" } else { "had not called" };
                break Err(format!("the new process {what} after {} s", took.as_secs()));
            }
        };
        match (&outcome, next) {
            (Ok(_), Next::Child(mut child)) => drop(thread::spawn(move || child.wait())),
            (Err(_), Next::Child(mut child)) => end(&mut child, now() + LAST_WORD),
            (_, Next::OfSupervisor(..)) => {}
        }
        outcome
    }

    /// The process ends: what is left to be said is said.
    pub fn finish(&self) {
        self.ends.store(true, Relaxed);
        let until = now() + LAST_WORD;
        while self.accompanied.load(Relaxed) && now() < until {
            thread::sleep(LOOK);
        }
    }
}

impl Now {
    fn why_not(&self) -> String {
        match self {
            Self::Idle => "nothing is in the way".to_owned(),
            Self::Starting(_) | Self::Giving => "another upgrade is under way".to_owned(),
            Self::Passed(pid) => format!("process {pid} has taken over already"),
        }
    }
}

fn refuse(line: &mut Line, why: &str) {
    log::warn!("handoff refused: {why}");
    // one that hangs up meanwhile does not want to know
    if let Heard::Said(Message::Hello(Hello { .. })) = line.hear(PREAMBLE_WITHIN) {
        let _ = line.say(&Message::Back(why.to_owned()), PREAMBLE_WITHIN);
    }
}

/// Nobody is left of what failed.
fn end(child: &mut Child, by: Instant) {
    while matches!(child.try_wait(), Ok(None)) && now() < by {
        thread::sleep(LOOK);
    }
    if matches!(child.try_wait(), Ok(None)) {
        log::warn!("the new process {} does not end by itself: killed", child.id());
    }
    // a script may be gone, and what it started not
    let _ = i32::try_from(child.id()).map(|group| killpg(Pid::from_raw(group), Signal::SIGKILL));
    let _ = child.wait();
}
