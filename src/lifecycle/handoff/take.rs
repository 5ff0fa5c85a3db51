//! Takes over: does what [`taker`](super::taker) decides. Until the process can serve, step by step as it starts; from
//! then on, on a thread of its own beside it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::line::{Heard, Line, now};
use super::message::{Given, Hello, Message, Offer, PREAMBLE, PROTOCOL, Ready};
use super::taker::{Act, Event, Stage};

/// How often it is looked whether there is something to do.
const LOOK: Duration = Duration::from_millis(100);

/// How long the one before may take to be gone once it hung up.
const DYING: Duration = Duration::from_millis(200);

/// How long each stage may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a message that has to come.
    pub answer: Duration,
    /// From `ready` to `go`.
    pub ready: Duration,
    /// To serve before it goes on alone.
    pub serving: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { answer: Duration::from_secs(10), ready: Duration::from_secs(10), serving: Duration::from_secs(5) }
    }
}

impl Patience {
    fn of(&self, stage: Stage) -> Option<Duration> {
        match stage {
            Stage::Asking | Stage::Sockets => Some(self.answer),
            Stage::Ready | Stage::Waiting => Some(self.ready),
            Stage::Serving => Some(self.serving),
            _ => None,
        }
    }
}

/// Why it does not take over.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// Nobody is there.
    #[error("{path}: {source}; is the gateway running?")]
    Unreachable {
        /// The control socket.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The running process does not hand over, or not as it should.
    #[error("{0}")]
    Refused(String),
    /// The line broke.
    #[error("the running process cannot be talked to: {0}")]
    Line(#[from] io::Error),
}

/// What was handed over to a process that is about to start.
pub struct Heir {
    line: Line,
    patience: Patience,
    stage: Stage,
    since: Instant,
    /// What the one before said of itself.
    pub offer: Offer,
    /// What it handed over.
    pub sockets: Vec<(Given, OwnedFd)>,
    /// What it had learned.
    pub learned: Vec<u8>,
    /// Ends with the one before.
    life: Option<OwnedFd>,
}

/// What a process may want meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// It was told to leave.
    Leave,
    /// Logs are to be opened anew, by those before it too; asked for once each time.
    Reopen,
}

/// What the process is told to do.
#[derive(Debug, PartialEq)]
pub enum Order {
    /// Accepts; what was learned last, if it could be said.
    Accept(Option<Vec<u8>>),
    /// Accepts nobody.
    Hold,
    /// Takes over what was counted elsewhere.
    Count(Vec<u8>),
    /// Puts its file in force.
    Apply,
    /// It serves alone: the one before is gone.
    Alone,
    /// Ends at once, having served nobody.
    Decline(String),
    /// Accepts nobody any more, and leaves.
    Leave(String),
}

/// Asks the gateway whose control socket is at `path` for its place.
///
/// # Errors
/// It is not there, does not hand over, or goes back on it.
pub fn ask(path: &Path, patience: Patience) -> Result<Heir, TakeError> {
    let unreachable = |source| TakeError::Unreachable { path: path.display().to_string(), source };
    let stream = UnixStream::connect(path).map_err(unreachable)?;
    let line = Line::new(stream)?;
    Heir::over(line, patience)
}

impl Heir {
    /// Asks over `line`.
    pub(super) fn over(mut line: Line, patience: Patience) -> Result<Self, TakeError> {
        let hello = Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").to_owned(), pid: process::id() };
        line.send(PREAMBLE, patience.answer)?;
        line.say(&Message::Hello(hello), patience.answer)?;
        let (mut stage, mut offer, mut sockets, mut learned) = (Stage::Asking, None, Vec::new(), Vec::new());
        loop {
            let event = match line.hear(patience.answer) {
                Heard::Said(Message::Back(why)) => Event::Back(why),
                Heard::Said(message) => {
                    let kind = message.kind();
                    match message {
                        Message::Offer(said) => {
                            sockets = line.take(said.sockets.len(), patience.answer)?;
                            offer = Some(said);
                        }
                        Message::State(bytes) => learned = bytes,
                        _ => {}
                    }
                    Event::Said(kind)
                }
                Heard::Garbled(what) => Event::Garbled(what),
                Heard::Late => Event::Late,
                Heard::Gone => Event::Gone,
            };
            let (next, act) = stage.on(&event);
            stage = next;
            match (act, offer.take()) {
                (Act::Decline(why), _) => return Err(TakeError::Refused(why)),
                (Act::Prepare, Some(offer)) => {
                    let sockets: Vec<_> = offer.sockets.iter().cloned().zip(sockets).collect();
                    // its own comes last
                    let life = sockets.iter().rfind(|(given, _)| matches!(given, Given::Life(_)));
                    let life = life.map(|(_, pipe)| pipe.try_clone()).transpose()?;
                    return Ok(Self { line, patience, stage, since: now(), offer: *offer, sockets, learned, life });
                }
                (_, said) => offer = said,
            }
        }
    }

    /// The running process is told why nobody takes over.
    pub fn decline(&mut self, why: &str) {
        // it notices all the same when the line breaks
        let _ = self.line.say(&Message::Declined(why.to_owned()), LOOK);
    }

    /// Says that everything is `kept` and ready, and goes on until the one before is gone, as this process `wants`.
    pub fn run(mut self, kept: &[Given], wants: &impl Fn(Want) -> bool, mut obey: impl FnMut(Order)) {
        let mut last = None;
        let mut event = Event::Prepared;
        loop {
            let (stage, act) = self.stage.on(&event);
            if stage != self.stage {
                (self.stage, self.since) = (stage, now());
            }
            let then = match act {
                Act::Wait | Act::Prepare => None,
                Act::Ready => self.say(&Message::Ready(Ready { kept: kept.to_vec() })),
                Act::Accept => {
                    obey(Order::Accept(last.take()));
                    if self.stage == Stage::Serving { self.say(&Message::Serving) } else { None }
                }
                Act::Settle => self.say(&Message::Settled),
                Act::Ask => {
                    obey(Order::Hold);
                    Some(Event::Lives(self.predecessor_lives()))
                }
                Act::Count => None,
                Act::Apply => {
                    obey(Order::Apply);
                    None
                }
                Act::Decline(why) => {
                    self.decline(&why);
                    return obey(Order::Decline(why));
                }
                Act::Leave(why) => return obey(Order::Leave(why)),
            };
            if self.stage == Stage::Alone {
                return obey(Order::Alone);
            }
            event = then.unwrap_or_else(|| self.next(wants, &mut last, &mut obey));
        }
    }

    /// Waits for what happens next.
    fn next(
        &mut self,
        wants: &impl Fn(Want) -> bool,
        last: &mut Option<Vec<u8>>,
        obey: &mut impl FnMut(Order),
    ) -> Event {
        loop {
            if self.stage.accepts()
                && wants(Want::Reopen)
                && let Some(event) = self.say(&Message::Reopen)
            {
                return event;
            }
            let left = self.patience.of(self.stage).map(|patience| {
                let waited = now().saturating_duration_since(self.since);
                patience.saturating_sub(waited)
            });
            match self.line.hear(left.unwrap_or(LOOK).min(LOOK)) {
                Heard::Said(message) => return self.heard(message, last, obey),
                Heard::Garbled(what) => return Event::Garbled(what),
                Heard::Gone => return Event::Gone,
                Heard::Late if left.is_some_and(|left| left.is_zero()) => return Event::Late,
                Heard::Late if self.stage == Stage::Serving && wants(Want::Leave) => return Event::Told,
                Heard::Late => {}
            }
        }
    }

    fn heard(&mut self, message: Message, last: &mut Option<Vec<u8>>, obey: &mut impl FnMut(Order)) -> Event {
        let kind = message.kind();
        match message {
            Message::Back(why) => return Event::Back(why),
            Message::Last(learned) => *last = Some(learned),
            Message::Counts(counts) if self.stage.accepts() => obey(Order::Count(counts)),
            // it may have been taken back while this process was held up
            Message::Go => match self.line.hear(Duration::ZERO) {
                Heard::Late => {}
                Heard::Said(Message::Back(why)) => return Event::Back(why),
                Heard::Said(message) => return Event::Said(message.kind()),
                Heard::Garbled(what) => return Event::Garbled(what),
                Heard::Gone => return Event::Gone,
            },
            _ => {}
        }
        Event::Said(kind)
    }

    fn say(&mut self, message: &Message) -> Option<Event> {
        self.line.say(message, self.patience.answer).err().map(|_| Event::Gone)
    }

    /// Does the one before live? The pipe it holds the other end of tells.
    fn predecessor_lives(&self) -> bool {
        self.life.as_ref().is_none_or(|pipe| lives(pipe, DYING))
    }
}

/// Does whoever holds the other end of this pipe live? Waits for its end.
pub fn lives(pipe: &impl AsFd, within: Duration) -> bool {
    let patience = PollTimeout::try_from(within).unwrap_or(PollTimeout::ZERO);
    let mut ends = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    // nothing is ever written: what can be read is the end
    poll(&mut ends, patience).map_or(true, |ready| ready == 0)
}
