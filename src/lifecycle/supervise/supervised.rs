//! How does a process that is supervised deal with its supervisor? It takes the sockets and the text that were held for
//! it, and hands over its own.
//!
//! Always: a supervisor that does not answer costs a line in the log and nothing else.

use std::env;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::line::{Line, Said};
use crate::lifecycle::inherited::inherited;

/// `PID:NUMBER`: who supervises, and the descriptor of the line to it.
pub(super) const VARIABLE: &str = "MOORGATE_SUPERVISOR";

/// The supervisor of this process, if it has one.
#[derive(Debug, Clone, Default)]
pub struct Supervisor(Option<Arc<Known>>);

#[derive(Debug)]
struct Known {
    line: Mutex<Line>,
    wishes: AtomicU32,
    /// What this process serves, as long as that may be its turn.
    ours: Mutex<Option<Ours>>,
}

#[derive(Debug)]
struct Ours {
    sockets: Vec<OwnedFd>,
    control: Option<PathBuf>,
}

/// What was held for this process.
#[derive(Debug, Default)]
pub struct HeldForUs {
    /// Sockets that listen, each with a name.
    pub sockets: Vec<(String, OwnedFd)>,
    /// The text last served.
    pub last: Option<Last>,
}

/// A text that was served, and what somebody went back from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// The text.
    pub text: String,
    /// Digests.
    pub refused: Vec<String>,
}

impl Supervisor {
    /// Whom the environment names; to be called before anything is opened, once.
    ///
    /// # Errors
    /// It does not say what it holds.
    pub fn of_environment() -> io::Result<(Self, HeldForUs)> {
        let said = env::var(VARIABLE).unwrap_or_default();
        let Some((pid, number)) = said.split_once(':') else { return Ok(Default::default()) };
        // a process that is started by this one has the variable too
        if pid.parse() != Ok(getppid().as_raw()) {
            return Ok(Default::default());
        }
        let number = number.parse().map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, said.clone()))?;
        let stream = UnixStream::from(inherited(number)?);
        fcntl(&stream, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        // without its supervisor nobody would start it again, and nobody could tell it anything
        set_pdeathsig(Signal::SIGTERM)?;
        let line = Line::new(stream)?;
        let held = HeldForUs::heard(&line)?;
        Ok((Self::at(line), held))
    }

    /// Is there one?
    pub fn exists(&self) -> bool {
        self.0.is_some()
    }

    fn at(line: Line) -> Self {
        Self(Some(Arc::new(Known { line: Mutex::new(line), wishes: AtomicU32::default(), ours: Mutex::default() })))
    }

    /// This process is going to serve these sockets, and hands over at this path.
    pub fn will_serve(&self, sockets: Vec<OwnedFd>, control: Option<PathBuf>) {
        if let Some(known) = &self.0 {
            *known.ours.lock() = Some(Ours { sockets, control });
        }
    }

    /// This process serves them now.
    pub fn serving(&self) {
        let Some(known) = &self.0 else { return };
        let ours = known.ours.lock();
        let Some(Ours { sockets, control }) = ours.as_ref() else { return };
        match sockets.iter().map(OwnedFd::try_clone).collect() {
            Ok(sockets) => self.say(&Said::Sockets(sockets)),
            Err(error) => log::error!("no descriptor for what the supervisor holds: {error}"),
        }
        if let Some(path) = control {
            self.say(&Said::Control(path.clone()));
        }
    }

    /// Another process serves for good.
    pub fn serves_no_more(&self) {
        self.0.iter().for_each(|known| *known.ours.lock() = None);
    }

    /// Has it start a process to take over from this one; answers the number of that wish.
    pub(in crate::lifecycle) fn upgrade(&self) -> u32 {
        // nothing else is read because of it
        let number = self.0.as_ref().map_or(0, |known| known.wishes.fetch_add(1, Relaxed));
        self.say(&Said::Upgrade(number));
        number
    }

    /// How whoever was started for the wish of this number ended, if the supervisor has said that by now.
    pub(in crate::lifecycle) fn ended(&self, number: u32) -> Option<String> {
        let line = self.0.as_ref()?.line.lock();
        while line.has_something() {
            match line.hear() {
                Ok(Said::Ended(of, how)) if of == number => return Some(how),
                // of a wish whose end is known already
                Ok(_) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// This process leaves, and if it served, nobody is to follow.
    pub(in crate::lifecycle) fn leaving(&self) {
        if self.0.as_ref().is_some_and(|known| known.ours.lock().take().is_some()) {
            self.say(&Said::Leaving);
        }
    }

    /// Has it keep this text, and what somebody went back from, for the next process.
    pub(in crate::lifecycle) fn keep(&self, text: &str, refused: Vec<String>) {
        if !self.exists() {
            return;
        }
        match (Last { text: text.to_owned(), refused }).in_memory() {
            Ok(last) => self.say(&Said::Text(Some(last))),
            Err(error) => log::error!("no memory for the text last served: {error}"),
        }
    }

    fn say(&self, said: &Said) {
        let Some(known) = &self.0 else { return };
        if let Err(error) = known.line.lock().say(said) {
            log::warn!("the supervisor does not listen: {error}");
        }
    }
}

impl HeldForUs {
    fn heard(line: &Line) -> io::Result<Self> {
        let odd = || io::Error::new(io::ErrorKind::InvalidData, "the supervisor says something else");
        let Said::Sockets(sockets) = line.hear()? else { return Err(odd()) };
        let Said::Text(text) = line.hear()? else { return Err(odd()) };
        let sockets = sockets.into_iter().map(|socket| ("a socket of the supervisor".to_owned(), socket));
        Ok(Self { sockets: sockets.collect(), last: text.map(Last::of_memory).transpose()? })
    }
}

impl Last {
    fn in_memory(&self) -> io::Result<OwnedFd> {
        let mut file = File::from(memfd_create("last served", MFdFlags::MFD_CLOEXEC)?);
        file.write_all(&serde_json::to_vec(self)?)?;
        Ok(file.into())
    }

    fn of_memory(fd: OwnedFd) -> io::Result<Self> {
        let (mut file, mut text) = (File::from(fd), Vec::new());
        // whoever wrote it left off at its end
        file.rewind()?;
        file.read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_the_next_one_gets() {
        let (ours, theirs) = Line::pair().unwrap();
        let supervisor = Supervisor::at(Line::new(theirs).unwrap());
        let last = Last { text: "version: 1\n".into(), refused: vec!["ab".into()] };
        supervisor.keep(&last.text, last.refused.clone());
        supervisor.will_serve(vec![File::open("/dev/null").unwrap().into()], Some("/run/c".into()));
        supervisor.serving();
        supervisor.leaving();
        supervisor.leaving();
        supervisor.serving();
        assert_eq!([(); 2].map(|()| supervisor.upgrade()), [0, 1]);
        assert_eq!(supervisor.ended(1), None);
        for number in [0, 1] {
            ours.say(&Said::Ended(number, format!("end {number}"))).unwrap();
        }
        assert_eq!(supervisor.ended(1).unwrap(), "end 1", "of an earlier one nobody wants to know any more");
        let Said::Text(Some(text)) = ours.hear().unwrap() else { panic!("a text") };
        let again = text.try_clone().unwrap();
        assert_eq!(Last::of_memory(text).unwrap(), last);
        assert_eq!(Last::of_memory(again).unwrap(), last, "as often as it takes");
        assert!(matches!(ours.hear().unwrap(), Said::Sockets(sockets) if sockets.len() == 1));
        assert!(matches!(ours.hear().unwrap(), Said::Control(_)));
        assert!(matches!(ours.hear().unwrap(), Said::Leaving));
        assert!(matches!(ours.hear().unwrap(), Said::Upgrade(0)), "one that leaves does so once, and serves no more");
        assert!(matches!(ours.hear().unwrap(), Said::Upgrade(1)));
        drop(ours);
        supervisor.leaving();
    }

    #[test]
    fn nobody_supervises_a_process_that_was_started_by_somebody_else() {
        let (supervisor, held) = Supervisor::of_environment().unwrap();
        assert!(!supervisor.exists() && held.sockets.is_empty() && held.last.is_none());
    }
}
