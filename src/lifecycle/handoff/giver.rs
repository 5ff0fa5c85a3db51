//! What does the running process do next, while it hands over? Rule U2, from its side, without sockets or clocks.
//!
//! Always: until the next process has accepted for a while ([`Stage::Leaving`]), whatever goes wrong leads back to
//! this one accepting as if nothing had happened, and it says why.

use super::message::Kind;

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Somebody called and has to say who it is.
    Greeting,
    /// It has all it needs, and prepares.
    Preparing,
    /// It is ready; this process stops accepting.
    Stopping,
    /// It was told to go, and has to say that it accepts.
    Handed,
    /// It accepts, and has to do so for a while.
    Trial,
    /// It goes on alone; this process serves what it has.
    Leaving,
    /// Nothing is handed over any more.
    Over,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It said something.
    Said(Kind),
    /// It does not fit, for this reason.
    Unfit(String),
    /// It said something that is no message.
    Garbled(String),
    /// It took longer than it may.
    Late,
    /// It is gone, or hung up.
    Gone,
    /// No door of this process takes anybody any more.
    Held,
    /// This process was told to leave.
    Told,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Wait,
    /// Say what is served, and hand over sockets and state.
    Offer,
    /// Stop accepting.
    Hold,
    /// Say what was learned since, and that it may go.
    Go,
    /// Let connections end with their next answer: somebody else takes the new ones.
    Drain,
    /// Close the doors, and leave when all is served.
    Leave,
    /// Accept as before; say why.
    Back(String),
}

impl Stage {
    /// What an event leads to.
    #[must_use]
    pub fn on(self, event: &Event) -> (Self, Act) {
        match (self, event) {
            (Self::Over, _) => (Self::Over, Act::Wait),
            (Self::Leaving, _) => (Self::Leaving, Act::Wait),
            (Self::Greeting, Event::Said(Kind::Hello)) => (Self::Preparing, Act::Offer),
            (Self::Preparing, Event::Said(Kind::Ready)) => (Self::Stopping, Act::Hold),
            (Self::Stopping, Event::Held) => (Self::Handed, Act::Go),
            (Self::Handed, Event::Said(Kind::Serving)) => (Self::Trial, Act::Drain),
            (Self::Trial, Event::Said(Kind::Settled)) => (Self::Leaving, Act::Leave),
            // it leaves all the same, and the next one is there
            (Self::Handed | Self::Trial, Event::Told) => (self, Act::Wait),
            _ => (Self::Over, Act::Back(self.why(event))),
        }
    }

    /// Does this process take clients?
    pub fn accepts(self) -> bool {
        matches!(self, Self::Greeting | Self::Preparing | Self::Over)
    }

    fn why(self, event: &Event) -> String {
        let meanwhile = match self {
            Self::Greeting => "before it said who it is",
            Self::Preparing => "before it was ready",
            Self::Stopping => "before it was told to go",
            Self::Handed => "before it accepted anybody",
            Self::Trial | Self::Leaving | Self::Over => "before it had served for long enough",
        };
        match event {
            Event::Unfit(why) => why.clone(),
            Event::Garbled(what) => format!("the new process sent what is no message {meanwhile}: {what}"),
            Event::Said(Kind::Declined) => "the new process declined".to_owned(),
            Event::Said(kind) => format!("the new process said `{kind}` {meanwhile}"),
            Event::Late if self == Self::Stopping => "this process did not stop accepting in time".to_owned(),
            Event::Late => format!("the new process took too long {meanwhile}"),
            Event::Gone => format!("the new process was gone {meanwhile}"),
            Event::Held => format!("stopped accepting {meanwhile}"),
            Event::Told => "this process was told to leave".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [Stage; 7] =
        [Stage::Greeting, Stage::Preparing, Stage::Stopping, Stage::Handed, Stage::Trial, Stage::Leaving, Stage::Over];

    fn events() -> impl Iterator<Item = Event> {
        let others = [Event::Unfit("u".into()), Event::Garbled("g".into()), Event::Late, Event::Gone, Event::Held];
        Kind::ALL.into_iter().map(Event::Said).chain(others).chain([Event::Told])
    }

    #[test]
    fn there_is_one_way_forward_and_all_else_leads_back() {
        let forward = [
            (Stage::Greeting, Event::Said(Kind::Hello), Stage::Preparing, Act::Offer),
            (Stage::Preparing, Event::Said(Kind::Ready), Stage::Stopping, Act::Hold),
            (Stage::Stopping, Event::Held, Stage::Handed, Act::Go),
            (Stage::Handed, Event::Said(Kind::Serving), Stage::Trial, Act::Drain),
            (Stage::Trial, Event::Said(Kind::Settled), Stage::Leaving, Act::Leave),
        ];
        for (stage, event) in STAGES.into_iter().flat_map(|stage| events().map(move |event| (stage, event))) {
            let (next, act) = stage.on(&event);
            match forward.iter().find(|(from, on, ..)| (*from, on) == (stage, &event)) {
                Some((.., expected, expected_act)) => assert_eq!((next, &act), (*expected, expected_act)),
                None if matches!(stage, Stage::Leaving | Stage::Over) => assert_eq!((next, act), (stage, Act::Wait)),
                None if matches!(stage, Stage::Handed | Stage::Trial) && event == Event::Told => {
                    assert_eq!((next, act), (stage, Act::Wait));
                }
                None => {
                    assert_eq!(next, Stage::Over, "{stage:?} {event:?}");
                    assert!(matches!(&act, Act::Back(why) if !why.is_empty()), "{stage:?} {event:?} {act:?}");
                }
            }
        }
    }

    #[test]
    fn nobody_is_accepted_from_the_stop_to_the_end_of_the_trial() {
        let not: Vec<Stage> = STAGES.into_iter().filter(|stage| !stage.accepts()).collect();
        assert_eq!(not, [Stage::Stopping, Stage::Handed, Stage::Trial, Stage::Leaving]);
    }
}
