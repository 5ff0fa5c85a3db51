//! Stands on the line between two generations and does harm at a message of the test's choice. Both are the shipped
//! binary: the next one is started so that it calls here, and everything it says and hears passes through.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use moorgate::lifecycle::handoff::line::{Heard, Line};
use moorgate::lifecycle::handoff::message::{Kind, Message, PREAMBLE};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Pid;

use super::gateway::Gateway;
use super::{PATIENCE, eventually};

/// How long one side is listened to before it is the other's turn.
const TURN: Duration = Duration::from_millis(2);

/// What is done in place of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Harm {
    /// The next process is killed.
    Kill,
    /// The next process is stopped where it is.
    Stop,
    /// Something is said that is no message.
    Garble,
    /// It says something else.
    Alter(fn(Message) -> Message),
}

/// The program to be started as the next one, and what stands between.
pub(crate) struct Between {
    /// To be given to `upgrade --binary`.
    pub(crate) program: String,
    relay: JoinHandle<(bool, Pid)>,
}

/// Stands between `gateway` and its next process; does `harm` when a message of this kind is due.
pub(crate) fn between(gateway: &Gateway, at: Kind, harm: Harm) -> Between {
    let (socket, program) = (gateway.path("between.sock"), gateway.path("next"));
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    // the path that is called is the next one's own
    let (binary, file) = (env!("CARGO_BIN_EXE_moorgate"), gateway.path("between.yaml"));
    let text = fs::read_to_string(gateway.path("moorgate.yaml")).unwrap();
    fs::write(&file, text.replace("control.sock", "between.sock")).unwrap();
    let script = format!("#!/bin/sh\nexec {binary} run --config {} --takeover {}\n", file.display(), socket.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let control = gateway.path("control.sock");
    let relay = std::thread::spawn(move || relay(&listener, control, at, harm));
    Between { program: program.to_string_lossy().into_owned(), relay }
}

impl Between {
    /// Waits until the next process is gone; whether harm was done.
    pub(crate) fn ended(self) -> bool {
        eventually("a side hangs up", || self.relay.is_finished().then_some(()));
        let (done, pid) = self.relay.join().unwrap();
        eventually("the next process is gone", || (!Path::new(&format!("/proc/{pid}")).exists()).then_some(()));
        done
    }
}

fn relay(listener: &UnixListener, control: PathBuf, at: Kind, harm: Harm) -> (bool, Pid) {
    listener.set_nonblocking(true).unwrap();
    let (next, _) = eventually("the next process calls", || listener.accept().ok());
    let pid = Pid::from_raw(getsockopt(&next, PeerCredentials).unwrap().pid());
    let (mut next, mut running) = (Line::new(next).unwrap(), Line::new(UnixStream::connect(control).unwrap()).unwrap());
    assert!(next.begins_with(PREAMBLE, PATIENCE));
    running.send(PREAMBLE, PATIENCE).unwrap();
    let mut done = false;
    loop {
        for is_next in [true, false] {
            let (from, to) = if is_next { (&mut next, &mut running) } else { (&mut running, &mut next) };
            let message = match from.hear(TURN) {
                Heard::Said(message) => message,
                Heard::Late => continue,
                Heard::Gone | Heard::Garbled(_) => return (done, pid),
            };
            let due = !done && message.kind() == at;
            done |= due;
            if !pass(message, from, to, due.then_some(harm), pid) {
                return (done, pid);
            }
        }
    }
}

/// Passes a message on, or does harm in its place; false: whom it is for is gone.
fn pass(message: Message, from: &mut Line, to: &mut Line, harm: Option<Harm>, pid: Pid) -> bool {
    let sockets = match &message {
        Message::Offer(offer) => from.take(offer.sockets.len(), PATIENCE).unwrap(),
        _ => Vec::new(),
    };
    let message = match harm {
        None => message,
        Some(Harm::Alter(alter)) => alter(message),
        Some(Harm::Garble) => return to.send(b"GET / HTTP/1.1\r\n\r\n", PATIENCE).is_ok(),
        Some(Harm::Kill) => return kill(pid, Signal::SIGKILL).is_ok(),
        Some(Harm::Stop) => return kill(pid, Signal::SIGSTOP).is_ok(),
    };
    to.say(&message, PATIENCE).is_ok() && to.give(&sockets, PATIENCE).is_ok()
}
