//! Does exactly one process accept, whatever happens to which one when? Every way two generations can go, step by step:
//! each may be killed, be held up or be told to leave at any moment, and messages take their time.

use std::collections::{HashSet, VecDeque};

use super::message::Kind;
use super::{giver, taker};

/// What is on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Item {
    Said(Kind),
    End,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    giver: giver::Stage,
    giver_lives: bool,
    /// It was asked to stop accepting.
    holding: bool,
    taker: taker::Stage,
    taker_lives: bool,
    preparing: bool,
    to_taker: VecDeque<Item>,
    to_giver: VecDeque<Item>,
}

impl World {
    fn new() -> Self {
        Self {
            giver: giver::Stage::Greeting,
            giver_lives: true,
            holding: false,
            taker: taker::Stage::Asking,
            taker_lives: true,
            preparing: false,
            to_taker: VecDeque::new(),
            to_giver: VecDeque::from([Item::Said(Kind::Hello)]),
        }
    }

    fn giver_accepts(&self) -> bool {
        self.giver_lives && self.giver.accepts()
    }

    fn taker_accepts(&self) -> bool {
        self.taker_lives && self.taker.accepts()
    }

    fn give(&self, event: &giver::Event) -> Self {
        let mut next = self.clone();
        let (stage, act) = self.giver.on(event);
        next.giver = stage;
        match act {
            giver::Act::Offer => next.to_taker.extend([Kind::Offer, Kind::State].map(Item::Said)),
            giver::Act::Hold => next.holding = true,
            giver::Act::Go => next.to_taker.extend([Kind::Last, Kind::Go].map(Item::Said)),
            giver::Act::Leave => next.to_taker.extend([Kind::Yours, Kind::Quiet].map(Item::Said)),
            giver::Act::Back(_) => next.to_taker.extend([Item::Said(Kind::Back), Item::End]),
            giver::Act::Wait | giver::Act::Drain => {}
        }
        next
    }

    fn take(&self, event: &taker::Event) -> Self {
        let mut next = self.clone();
        let (stage, act) = self.taker.on(event);
        next.taker = stage;
        match act {
            taker::Act::Prepare => next.preparing = true,
            taker::Act::Ready => next.to_giver.push_back(Item::Said(Kind::Ready)),
            taker::Act::Accept => next.to_giver.push_back(Item::Said(Kind::Serving)),
            taker::Act::Settle => next.to_giver.push_back(Item::Said(Kind::Settled)),
            taker::Act::Decline(_) => {
                next.to_giver.extend([Item::Said(Kind::Declined), Item::End]);
                next.taker_lives = false;
            }
            taker::Act::Leave(_) => {
                next.to_giver.push_back(Item::End);
                next.taker_lives = false;
            }
            taker::Act::Wait | taker::Act::Ask | taker::Act::Count | taker::Act::Apply => {}
        }
        next
    }

    /// What comes next for the giver, if it lives.
    fn giver_steps(&self) -> Vec<Self> {
        use giver::{Event, Stage};
        if !self.giver_lives || self.giver == Stage::Over {
            return Vec::new();
        }
        let mut steps = Vec::new();
        let mut heard = self.clone();
        match heard.to_giver.pop_front() {
            Some(Item::Said(kind)) => steps.push(heard.give(&Event::Said(kind))),
            Some(Item::End) => steps.push(heard.give(&Event::Gone)),
            // what was said is heard before it is found too late
            None if self.giver != Stage::Leaving => steps.push(self.give(&Event::Late)),
            None => {}
        }
        if self.holding && self.giver == Stage::Stopping {
            steps.push(self.give(&Event::Held));
        }
        steps
    }

    /// What comes next for the taker, if it lives.
    fn taker_steps(&self) -> Vec<Self> {
        use taker::{Event, Stage};
        if !self.taker_lives || matches!(self.taker, Stage::Over | Stage::Alone) {
            return Vec::new();
        }
        if matches!(self.taker, Stage::Doubt | Stage::Pause) {
            return vec![self.take(&Event::Lives(self.giver_lives))];
        }
        let mut steps = Vec::new();
        let mut heard = self.clone();
        match heard.to_taker.pop_front() {
            // it looks for what follows before it goes
            Some(Item::Said(Kind::Go)) if heard.to_taker.contains(&Item::Said(Kind::Back)) => {
                steps.push(heard.take(&Event::Back("b".into())));
            }
            Some(Item::Said(Kind::Go)) if heard.to_taker.contains(&Item::End) => steps.push(heard.take(&Event::Gone)),
            Some(Item::Said(Kind::Back)) => steps.push(heard.take(&Event::Back("b".into()))),
            Some(Item::Said(kind)) => steps.push(heard.take(&Event::Said(kind))),
            Some(Item::End) => steps.push(heard.take(&Event::Gone)),
            None if !matches!(self.taker, Stage::Settled | Stage::Settling) => steps.push(self.take(&Event::Late)),
            None => {}
        }
        if self.preparing && self.taker == Stage::Preparing {
            steps.extend([Event::Prepared, Event::Unfit("u".into())].map(|event| self.take(&event)));
        }
        steps
    }

    /// What may happen to them.
    fn blows(&self) -> Vec<Self> {
        let mut blows = Vec::new();
        if self.giver_lives && self.taker_lives {
            let mut killed = Self { giver_lives: false, ..self.clone() };
            killed.to_taker.push_back(Item::End);
            let mut other = Self { taker_lives: false, ..self.clone() };
            other.to_giver.push_back(Item::End);
            blows.extend([killed, other]);
            blows.push(self.give(&giver::Event::Told));
            if !matches!(self.taker, taker::Stage::Doubt | taker::Stage::Pause) {
                blows.push(self.take(&taker::Event::Told));
            }
        }
        blows
    }
}

/// All there can be, found from the start.
fn worlds() -> HashSet<World> {
    let mut found = HashSet::from([World::new()]);
    let mut open = vec![World::new()];
    while let Some(world) = open.pop() {
        let next = [world.giver_steps(), world.taker_steps(), world.blows()];
        for next in next.into_iter().flatten().filter(|next| next.to_taker.len() < 12 && next.to_giver.len() < 12) {
            if found.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    found
}

#[test]
fn two_accept_only_while_one_is_being_told_not_to() {
    let all = worlds();
    assert!(all.len() > 100, "{}", all.len());
    for world in all.iter().filter(|world| world.giver_accepts() && world.taker_accepts()) {
        let told = [Item::Said(Kind::Back), Item::End].iter().any(|item| world.to_taker.contains(item));
        assert!(told || world.taker == taker::Stage::Pause, "{world:?}");
    }
}

#[test]
fn when_nothing_happens_any_more_one_that_lives_accepts() {
    let ends = |world: &World| world.giver_steps().is_empty() && world.taker_steps().is_empty();
    for world in worlds().iter().filter(|world| ends(world)) {
        let accept = usize::from(world.giver_accepts()) + usize::from(world.taker_accepts());
        // one that has left for good and one that is killed afterwards leave nobody
        let both_left = world.giver == giver::Stage::Leaving && !world.taker_lives;
        let nobody = !world.giver_lives && !world.taker_lives;
        assert_eq!(accept, usize::from(!(both_left || nobody)), "{world:?}");
    }
}

#[test]
fn every_stage_is_reached() {
    let all = worlds();
    let givers: HashSet<_> = all.iter().map(|world| world.giver).collect();
    let takers: HashSet<_> = all.iter().map(|world| world.taker).collect();
    assert_eq!((givers.len(), takers.len()), (7, 12), "{givers:?} {takers:?}");
}
