//! Hands over: does what [`giver`](super::giver) decides, on a thread of its own beside the serving process.
//!
//! Always: everything this process did for the next one is undone, in reverse, before anybody is told that the upgrade
//! failed; nothing waits for longer than its [`Patience`].

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::giver::{Act, Event, Stage};
use super::line::{Heard, Line, now};
use super::message::{Given, Hello, Kind, Message, Offer, PROTOCOL};

/// How often it is looked whether there is something to do.
const LOOK: Duration = Duration::from_millis(100);

/// The same while nobody accepts.
const CLOSE_LOOK: Duration = Duration::from_millis(1);

/// For the reason why nothing is handed over to be said.
const LAST_WORD: Duration = Duration::from_millis(100);

/// How long each stage may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// To say who it is.
    pub greeting: Duration,
    /// To take what it is offered, compile and bind.
    pub preparing: Duration,
    /// From the stop to `go`: nobody accepts meanwhile.
    pub stop: Duration,
    /// From `go` to its having accepted.
    pub handed: Duration,
    /// To have served for long enough.
    pub trial: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            greeting: Duration::from_secs(5),
            preparing: Duration::from_secs(30),
            stop: Duration::from_millis(500),
            handed: Duration::from_secs(2),
            trial: Duration::from_secs(8),
        }
    }
}

impl Patience {
    fn of(&self, stage: Stage) -> Option<Duration> {
        match stage {
            Stage::Greeting => Some(self.greeting),
            Stage::Preparing => Some(self.preparing),
            Stage::Stopping => Some(self.stop),
            Stage::Handed => Some(self.handed),
            Stage::Trial => Some(self.trial),
            Stage::Leaving | Stage::Over => None,
        }
    }
}

/// What the serving process is asked for, and told to do.
pub struct Estate {
    /// Begins: what is handed over, and that nothing else may come into force from now on. An error: why it cannot be.
    pub offer: Box<dyn Fn() -> Result<Handover, String> + Send + Sync>,
    /// What was learned so far.
    pub learned: Box<dyn Fn() -> Vec<u8> + Send + Sync>,
    /// What was counted since this was asked last, and is in flight.
    pub counted: Box<dyn Fn() -> Vec<u8> + Send + Sync>,
    /// Does it take nobody?
    pub rests: Box<dyn Fn() -> bool + Send + Sync>,
    /// Was it told to leave?
    pub told: Box<dyn Fn() -> bool + Send + Sync>,
    /// Can none of its connections begin a request any more?
    pub quiet: Box<dyn Fn() -> bool + Send + Sync>,
    /// Has it do this.
    pub obey: Box<dyn Fn(Order) + Send + Sync>,
}

/// What is offered, and what goes with it.
pub struct Handover {
    /// What is said of it.
    pub offer: Offer,
    /// The sockets, in the order in which they are said.
    pub descriptors: Vec<OwnedFd>,
}

/// What the serving process does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Takes nobody.
    Hold,
    /// Has every connection end with its next answer; these sockets and paths are another process's now.
    PassOn(Vec<Given>),
    /// Leaves: the process of this number has taken over.
    Leave {
        /// What it keeps.
        kept: Vec<Given>,
        /// Its number.
        pid: u32,
    },
    /// Undoes all of that, and the beginning.
    Resume,
    /// Opens its logs anew.
    Reopen,
}

/// How it ended: who goes on alone, or why nothing was handed over.
pub type Outcome = Result<Hello, String>;

/// One attempt.
pub struct Give<'a> {
    line: Line,
    estate: &'a Estate,
    patience: Patience,
    stage: Stage,
    since: Instant,
    who: Option<Hello>,
    kept: Vec<Given>,
    /// What was begun has to be undone if it fails.
    has_begun: bool,
    /// When this process was told to accept nobody.
    held: Instant,
    ended: Box<dyn Fn(Outcome) + 'a>,
}

impl<'a> Give<'a> {
    /// Over `line`; tells how it `ended`.
    pub fn new(line: Line, estate: &'a Estate, patience: Patience, ended: impl Fn(Outcome) + 'a) -> Self {
        let (stage, since, held) = (Stage::Greeting, now(), now());
        Self {
            line,
            estate,
            patience,
            stage,
            since,
            who: None,
            kept: Vec::new(),
            has_begun: false,
            held,
            ended: Box::new(ended),
        }
    }

    /// Goes on until nothing is handed over any more, or for as long as the process lives. `last`: is it about to end?
    pub fn run(mut self, last: impl Fn() -> bool) {
        while self.stage != Stage::Over {
            if self.stage == Stage::Leaving {
                return self.accompany(last);
            }
            let event = self.next();
            self.go_on(event);
        }
    }

    fn go_on(&mut self, event: Event) {
        let mut event = Some(event);
        while let Some(happened) = event.take() {
            let (stage, act) = self.stage.on(&happened);
            if stage != self.stage {
                (self.stage, self.since) = (stage, now());
            }
            event = self.perform(act).err();
        }
    }

    /// Waits for what happens next.
    fn next(&mut self) -> Event {
        loop {
            let left = self.left();
            if self.stage == Stage::Stopping {
                if (self.estate.rests)() {
                    return Event::Held;
                }
                std::thread::sleep(CLOSE_LOOK);
            } else if let Some(event) = self.hear(left.min(LOOK)) {
                return event;
            }
            if left.is_zero() {
                return Event::Late;
            }
            if (self.estate.told)() && !matches!(self.stage, Stage::Handed | Stage::Trial) {
                return Event::Told;
            }
            if self.stage == Stage::Trial {
                let counts = Message::Counts((self.estate.counted)());
                if self.line.say(&counts, LOOK).is_err() {
                    return Event::Gone;
                }
            }
        }
    }

    fn left(&self) -> Duration {
        let patience = self.patience.of(self.stage).unwrap_or(LOOK);
        patience.saturating_sub(now().saturating_duration_since(self.since))
    }

    fn hear(&mut self, within: Duration) -> Option<Event> {
        Some(match self.line.hear(within) {
            Heard::Late => return None,
            Heard::Gone => Event::Gone,
            Heard::Garbled(what) => Event::Garbled(what),
            Heard::Said(Message::Declined(why)) => Event::Unfit(why),
            Heard::Said(Message::Hello(hello)) => self.greet(hello),
            Heard::Said(Message::Reopen) => {
                (self.estate.obey)(Order::Reopen);
                return None;
            }
            Heard::Said(message) => {
                if let Message::Ready(ready) = &message {
                    self.kept.clone_from(&ready.kept);
                }
                Event::Said(message.kind())
            }
        })
    }

    fn greet(&mut self, hello: Hello) -> Event {
        let spoken = hello.protocol;
        log::info!("process {} of version {} wants to take over", hello.pid, hello.version);
        self.who = Some(hello);
        if spoken == PROTOCOL {
            return Event::Said(Kind::Hello);
        }
        Event::Unfit(format!("the new process hands over by protocol {spoken}, this one by {PROTOCOL}"))
    }

    fn perform(&mut self, act: Act) -> Result<(), Event> {
        match act {
            Act::Wait => Ok(()),
            Act::Offer => self.offer(),
            Act::Hold => {
                self.held = now();
                (self.estate.obey)(Order::Hold);
                Ok(())
            }
            Act::Go => self.let_go(),
            Act::Drain => {
                (self.estate.obey)(Order::PassOn(self.kept.clone()));
                Ok(())
            }
            Act::Leave => self.leave(),
            Act::Back(why) => {
                self.take_back(&why);
                Ok(())
            }
        }
    }

    fn offer(&mut self) -> Result<(), Event> {
        let Handover { offer, descriptors } = (self.estate.offer)().map_err(Event::Unfit)?;
        self.has_begun = true;
        let within = self.patience.preparing;
        self.say(&Message::Offer(Box::new(offer)), within)?;
        let given = self.line.give(&descriptors, within);
        given.map_err(|_| self.broken())?;
        self.say(&Message::State((self.estate.learned)()), within)
    }

    /// Nobody accepts any more, which must not last.
    fn let_go(&mut self) -> Result<(), Event> {
        let last = Message::Last((self.estate.learned)());
        for message in [last, Message::Go] {
            let left = self.patience.stop.saturating_sub(now().saturating_duration_since(self.held));
            if left.is_zero() {
                return Err(Event::Unfit(format!("nobody accepted for {:?}, and it was not over", self.patience.stop)));
            }
            self.say(&message, left)?;
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<(), Event> {
        let Some(who) = self.who.clone() else { return Ok(()) };
        (self.estate.obey)(Order::Leave { kept: self.kept.clone(), pid: who.pid });
        log::info!("process {} of version {} has taken over", who.pid, who.version);
        (self.ended)(Ok(who));
        // one that is gone by now goes unheard: nothing is taken back any more
        let _ = self.line.say(&Message::Yours, LOOK);
        Ok(())
    }

    fn take_back(&mut self, why: &str) {
        // first of all, so that it does not begin to accept
        let _ = self.line.say(&Message::Back(why.to_owned()), LAST_WORD);
        if self.has_begun {
            (self.estate.obey)(Order::Resume);
        }
        log::error!("nothing is handed over: {why}");
        (self.ended)(Err(why.to_owned()));
    }

    fn say(&mut self, message: &Message, within: Duration) -> Result<(), Event> {
        self.line.say(message, within).map_err(|_| self.broken())
    }

    /// The line does not take what it should: perhaps it was said why.
    fn broken(&mut self) -> Event {
        match self.line.hear(Duration::ZERO) {
            Heard::Said(Message::Declined(why)) => Event::Unfit(why),
            _ => Event::Gone,
        }
    }

    /// Tells what is counted until the process ends.
    fn accompany(mut self, last: impl Fn() -> bool) {
        let mut quiet_said = false;
        loop {
            let ends = last();
            let counts = Message::Counts((self.estate.counted)());
            if self.line.say(&counts, LOOK).is_err() || ends {
                return;
            }
            if !quiet_said && (self.estate.quiet)() {
                quiet_said = self.line.say(&Message::Quiet, LOOK).is_ok();
            }
            match self.line.hear(LOOK) {
                Heard::Gone => return,
                Heard::Said(Message::Reopen) => (self.estate.obey)(Order::Reopen),
                _ => {}
            }
        }
    }
}

/// Addresses among what is kept that are of listeners.
pub fn listeners(kept: &[Given]) -> impl Iterator<Item = SocketAddr> {
    kept.iter().filter_map(|given| match given {
        Given::Listener(address) => address.parse().ok(),
        Given::Admin(_) | Given::Control(_) | Given::Life(_) => None,
    })
}
