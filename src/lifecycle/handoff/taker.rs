//! What does the next process do, while it takes over? Rule U2, from its side, without sockets or clocks.
//!
//! Always: it accepts only once it was told to, or once the one before it is dead and cannot; if the one before takes
//! everything back, it accepts nobody any more.

use super::message::Kind;

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It said who it is, and waits for what is handed over.
    Asking,
    /// It has the sockets, and waits for what was learned.
    Sockets,
    /// It has everything, and prepares.
    Preparing,
    /// It is ready, and waits for what was learned last.
    Ready,
    /// It has that too, and waits to be told to go.
    Waiting,
    /// It accepts.
    Serving,
    /// It has done so for long enough, said that, and waits to hear that nothing is taken back any more.
    Settling,
    /// The line broke after it was ready: does the one before live?
    Doubt,
    /// The line broke while it accepted: does the one before live?
    Pause,
    /// Nothing is taken back any more: it goes on whatever becomes of the one before.
    Settled,
    /// The one before is gone.
    Alone,
    /// It does not take over.
    Over,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The one before said something.
    Said(Kind),
    /// It said that it takes everything back, for this reason.
    Back(String),
    /// It said something that is no message.
    Garbled(String),
    /// All is compiled and bound.
    Prepared,
    /// That cannot be, for this reason.
    Unfit(String),
    /// It took longer than it may; while serving: that was long enough.
    Late,
    /// The line is broken.
    Gone,
    /// The one before lives, or not.
    Lives(bool),
    /// This process was told to leave.
    Told,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Nothing.
    Wait,
    /// Compile and bind.
    Prepare,
    /// Say that all is ready.
    Ready,
    /// Accept, and say so.
    Accept,
    /// Say that it goes on alone.
    Settle,
    /// Accept nobody until it is known whether the one before lives.
    Ask,
    /// Take over what was counted.
    Count,
    /// Nobody serves the running configuration but this process: the file may come into force.
    Apply,
    /// Say why, and end.
    Decline(String),
    /// Accept nobody, serve what was accepted, and end.
    Leave(String),
}

impl Stage {
    /// What an event leads to.
    #[must_use]
    pub fn on(self, event: &Event) -> (Self, Act) {
        match (self, event) {
            (Self::Over | Self::Alone, _) => (self, Act::Wait),
            (Self::Asking, Event::Said(Kind::Offer)) => (Self::Sockets, Act::Wait),
            (Self::Sockets, Event::Said(Kind::State)) => (Self::Preparing, Act::Prepare),
            (Self::Preparing, Event::Prepared) => (Self::Ready, Act::Ready),
            (Self::Ready, Event::Said(Kind::Last)) => (Self::Waiting, Act::Wait),
            (Self::Waiting, Event::Said(Kind::Go)) => (Self::Serving, Act::Accept),
            (Self::Ready | Self::Waiting, Event::Gone) => (Self::Doubt, Act::Ask),
            (Self::Doubt, Event::Lives(false)) => (Self::Alone, Act::Accept),
            (Self::Serving, Event::Late | Event::Told) => (Self::Settling, Act::Settle),
            (Self::Settling, Event::Late | Event::Told) => (self, Act::Wait),
            (Self::Settling, Event::Said(Kind::Yours)) => (Self::Settled, Act::Wait),
            (Self::Serving | Self::Settling, Event::Gone) => (Self::Pause, Act::Ask),
            (Self::Pause, Event::Lives(false)) => (Self::Alone, Act::Accept),
            (Self::Serving | Self::Settling | Self::Settled, Event::Said(Kind::Counts)) => (self, Act::Count),
            (Self::Settled, Event::Said(Kind::Quiet)) => (self, Act::Apply),
            (Self::Settled, Event::Gone | Event::Said(_) | Event::Garbled(_) | Event::Back(_)) => {
                (Self::Alone, Act::Apply)
            }
            (Self::Settled, _) => (self, Act::Wait),
            (Self::Serving | Self::Settling | Self::Pause, _) => (Self::Over, Act::Leave(self.why(event))),
            _ => (Self::Over, Act::Decline(self.why(event))),
        }
    }

    /// Does this process take clients?
    pub fn accepts(self) -> bool {
        matches!(self, Self::Serving | Self::Settling | Self::Settled | Self::Alone)
    }

    fn why(self, event: &Event) -> String {
        match event {
            Event::Back(why) => format!("the running process takes everything back: {why}"),
            Event::Unfit(why) => why.clone(),
            Event::Garbled(what) => format!("the running process sent what is no message: {what}"),
            Event::Said(kind) => format!("the running process said `{kind}` when it should not"),
            Event::Late => "the running process took too long".to_owned(),
            Event::Gone => "the running process hung up".to_owned(),
            Event::Lives(_) => "the running process hung up and goes on".to_owned(),
            Event::Prepared => "prepared twice".to_owned(),
            Event::Told => "told to leave".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [Stage; 12] = [
        Stage::Asking,
        Stage::Sockets,
        Stage::Preparing,
        Stage::Ready,
        Stage::Waiting,
        Stage::Serving,
        Stage::Settling,
        Stage::Doubt,
        Stage::Pause,
        Stage::Settled,
        Stage::Alone,
        Stage::Over,
    ];

    fn events() -> impl Iterator<Item = Event> {
        let others = [
            Event::Back("b".into()),
            Event::Garbled("g".into()),
            Event::Prepared,
            Event::Unfit("u".into()),
            Event::Late,
            Event::Gone,
            Event::Lives(true),
            Event::Lives(false),
            Event::Told,
        ];
        Kind::ALL.into_iter().map(Event::Said).chain(others)
    }

    fn all() -> impl Iterator<Item = (Stage, Event)> {
        STAGES.into_iter().flat_map(|stage| events().map(move |event| (stage, event)))
    }

    #[test]
    fn it_begins_to_accept_when_it_is_told_or_nobody_else_can() {
        for (stage, event) in all() {
            let (next, act) = stage.on(&event);
            let told = (stage, &event) == (Stage::Waiting, &Event::Said(Kind::Go));
            let nobody = matches!(stage, Stage::Doubt | Stage::Pause) && event == Event::Lives(false);
            assert_eq!(act == Act::Accept, told || nobody, "{stage:?} {event:?}");
            assert_eq!(next.accepts() && !stage.accepts(), told || nobody, "{stage:?} {event:?}");
        }
    }

    #[test]
    fn before_it_accepts_whatever_is_wrong_ends_it() {
        let before = [Stage::Asking, Stage::Sockets, Stage::Preparing, Stage::Ready, Stage::Waiting, Stage::Doubt];
        for (stage, event) in all().filter(|(stage, _)| before.contains(stage)) {
            let (next, act) = stage.on(&event);
            let goes_on = !matches!(act, Act::Decline(_));
            assert_eq!(next == Stage::Over, !goes_on, "{stage:?} {event:?}");
            assert!(!matches!(act, Act::Leave(_) | Act::Settle | Act::Apply), "{stage:?} {event:?}");
        }
    }

    #[test]
    fn whoever_is_settled_stays() {
        for (stage, event) in all().filter(|(stage, _)| matches!(stage, Stage::Settled | Stage::Alone)) {
            let (next, act) = stage.on(&event);
            assert!(next.accepts() && !matches!(act, Act::Leave(_) | Act::Decline(_)), "{stage:?} {event:?}");
        }
    }

    #[test]
    fn what_is_taken_back_is_given_up() {
        for stage in [Stage::Serving, Stage::Settling] {
            assert_eq!(
                stage.on(&Event::Back("late".into())),
                (Stage::Over, Act::Leave("the running process takes everything back: late".into()))
            );
        }
        assert!(matches!(Stage::Pause.on(&Event::Lives(true)), (Stage::Over, Act::Leave(_))));
        assert!(matches!(Stage::Doubt.on(&Event::Lives(true)), (Stage::Over, Act::Decline(_))));
    }
}
