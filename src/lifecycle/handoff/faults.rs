//! What if either side dies, falls silent or talks nonsense at any message? Both sides as they are, over a real socket,
//! with what they do noted instead of done.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use super::give::{self, Estate, Give, Handover, Outcome};
use super::line::{Heard, Line};
use super::message::tests::example;
use super::message::{Given, Kind, Message, Offer, PREAMBLE};
use super::take::{self, Heir, TakeError};

const SOON: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(300);

/// What a side does in place of one of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is gone.
    Dies,
    /// It says nothing more, and stays.
    Stalls,
    /// It says what is no message.
    Babbles,
    /// It says another message.
    Errs,
}

const FAULTS: [Fault; 4] = [Fault::Dies, Fault::Stalls, Fault::Babbles, Fault::Errs];

type Orders = Arc<Mutex<Vec<give::Order>>>;

/// A process that serves, and what it was told to do.
fn estate(orders: &Orders) -> Estate {
    let noting = orders.clone();
    let Message::Offer(offer) = example(Kind::Offer) else { panic!("an offer") };
    let offer = Offer { sockets: Vec::new(), ..*offer };
    Estate {
        offer: Box::new(move || Ok(Handover { offer: offer.clone(), descriptors: Vec::new() })),
        learned: Box::new(|| vec![1]),
        counted: Box::new(Vec::new),
        rests: Box::new(|| true),
        told: Box::new(|| false),
        quiet: Box::new(|| false),
        obey: Box::new(move |order| noting.lock().push(order)),
    }
}

/// The running process hands over at the other end of the answer.
fn running(orders: &Orders) -> (Line, Receiver<Outcome>, JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (tell, told) = mpsc::channel();
    let patience =
        give::Patience { greeting: SHORT, preparing: SHORT, handed: SHORT, trial: SHORT, ..give::Patience::default() };
    let estate = estate(orders);
    let give = move || {
        let ended = move |outcome| drop(tell.send(outcome));
        Give::new(Line::new(theirs).unwrap(), &estate, patience, ended).run(|| false);
    };
    (Line::new(ours).unwrap(), told, thread::spawn(give))
}

/// Says it, or does what is wrong; true: nothing more is said.
fn say(line: &mut Line, message: &Message, fault: Option<Fault>) -> bool {
    match fault {
        None => line.say(message, SOON).unwrap(),
        Some(Fault::Dies | Fault::Stalls) => {}
        Some(Fault::Babbles) => line.send(b"GET / HTTP/1.1\r\n\r\n", SOON).unwrap(),
        Some(Fault::Errs) => line.say(&Message::Quiet, SOON).unwrap(),
    }
    fault.is_some()
}

/// A new process up to its message of this kind, which goes wrong.
fn new_process(line: &mut Line, wrong: Option<(Kind, Fault)>) {
    let fault = |kind| wrong.filter(|(at, _)| *at == kind).map(|(_, fault)| fault);
    for kind in [Kind::Hello, Kind::Ready, Kind::Serving, Kind::Settled] {
        // what is said to it before
        while kind != Kind::Hello && matches!(line.hear(SHORT / 6), Heard::Said(_)) {}
        if say(line, &example(kind), fault(kind)) {
            return;
        }
    }
}

#[test]
fn a_new_process_that_fails_at_any_message_leaves_the_running_one_as_it_was() {
    for kind in [Kind::Hello, Kind::Ready, Kind::Serving, Kind::Settled] {
        for fault in FAULTS {
            let orders = Orders::default();
            let (mut line, outcome, giving) = running(&orders);
            new_process(&mut line, Some((kind, fault)));
            if fault == Fault::Dies {
                drop(line);
            }
            let why = outcome.recv_timeout(SOON).unwrap().unwrap_err();
            giving.join().unwrap();
            assert!(!why.is_empty(), "{kind} {fault:?}");
            let last = orders.lock().last().cloned();
            let begun = kind != Kind::Hello;
            assert_eq!(last, begun.then_some(give::Order::Resume), "{kind} {fault:?}: {why}");
        }
    }
}

#[test]
fn a_new_process_that_says_everything_takes_over() {
    let orders = Orders::default();
    let (mut line, outcome, giving) = running(&orders);
    new_process(&mut line, None);
    assert_eq!(outcome.recv_timeout(SOON).unwrap().unwrap().pid, 7);
    drop(line);
    giving.join().unwrap();
    let kept = vec![Given::Listener("127.0.0.1:80".into())];
    let leave = give::Order::Leave { kept: kept.clone(), pid: 7 };
    assert_eq!(*orders.lock(), [give::Order::Hold, give::Order::PassOn(kept), leave]);
}

#[test]
fn another_protocol_is_told_from_this_one() {
    let orders = Orders::default();
    let (mut line, outcome, giving) = running(&orders);
    let Message::Hello(hello) = example(Kind::Hello) else { panic!("a hello") };
    line.say(&Message::Hello(super::message::Hello { protocol: 9, ..hello }), SOON).unwrap();
    let why = outcome.recv_timeout(SOON).unwrap().unwrap_err();
    assert_eq!(why, "the new process hands over by protocol 9, this one by 1");
    assert_eq!(line.hear(SOON), Heard::Said(Message::Back(why)));
    giving.join().unwrap();
    assert!(orders.lock().is_empty(), "nothing was begun");
}

/// How a new process took it.
#[derive(Debug)]
enum Took {
    Refused(TakeError),
    Did(Vec<take::Order>),
}

/// A new process at the other end of the answer.
fn taking() -> (Line, JoinHandle<Took>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let patience = take::Patience { answer: SHORT, ready: SHORT, serving: SHORT };
    let take = move || match Heir::over(Line::new(theirs).unwrap(), patience) {
        Err(error) => Took::Refused(error),
        Ok(mut heir) => {
            // as they are given to those who serve on them
            heir.sockets.clear();
            let mut did = Vec::new();
            heir.run(&[], &|_| false, |order| did.push(order));
            Took::Did(did)
        }
    };
    (Line::new(ours).unwrap(), thread::spawn(take))
}

/// The running process up to its message of this kind, which goes wrong.
fn running_process(line: &mut Line, wrong: Option<(Kind, Fault)>) {
    assert!(line.begins_with(PREAMBLE, SOON));
    let fault = |kind| wrong.filter(|(at, _)| *at == kind).map(|(_, fault)| fault);
    let Message::Offer(offer) = example(Kind::Offer) else { panic!("an offer") };
    let offer = Message::Offer(Box::new(Offer { sockets: Vec::new(), ..*offer }));
    for (await_first, kind) in [
        (Some(Kind::Hello), Kind::Offer),
        (None, Kind::State),
        (Some(Kind::Ready), Kind::Last),
        (None, Kind::Go),
        (Some(Kind::Settled), Kind::Yours),
    ] {
        while await_first.is_some_and(|first| !matches!(line.hear(SOON), Heard::Said(said) if said.kind() == first)) {}
        let message = if kind == Kind::Offer { offer.clone() } else { example(kind) };
        if say(line, &message, fault(kind)) {
            return;
        }
    }
}

#[test]
fn a_running_process_that_fails_before_go_is_not_followed() {
    for kind in [Kind::Offer, Kind::State, Kind::Last, Kind::Go] {
        for fault in FAULTS {
            let (mut line, taking) = taking();
            running_process(&mut line, Some((kind, fault)));
            if fault == Fault::Dies {
                drop(line);
            }
            let took = taking.join().unwrap();
            let nobody = match &took {
                Took::Refused(error) => !error.to_string().is_empty(),
                // without a pipe that tells it, the one before counts as alive
                Took::Did(did) => {
                    !did.iter().any(|order| matches!(order, take::Order::Accept(_)))
                        && matches!(did.last(), Some(take::Order::Decline(_)))
                }
            };
            assert!(nobody, "{kind} {fault:?}: {took:?}");
        }
    }
}

#[test]
fn what_is_taken_back_after_go_is_given_up_and_what_is_not_stays() {
    for fault in [Fault::Dies, Fault::Babbles, Fault::Errs] {
        let (mut line, taking) = taking();
        running_process(&mut line, Some((Kind::Yours, fault)));
        if fault == Fault::Dies {
            drop(line);
        }
        let Took::Did(did) = taking.join().unwrap() else { panic!("it served") };
        assert!(matches!(did.last(), Some(take::Order::Leave(_))), "{fault:?}: {did:?}");
    }
    let (mut line, taking) = taking();
    running_process(&mut line, None);
    line.say(&Message::Quiet, SOON).unwrap();
    drop(line);
    let Took::Did(did) = taking.join().unwrap() else { panic!("it served") };
    let accepted = take::Order::Accept(Some(vec![3]));
    assert_eq!(did, [accepted, take::Order::Apply, take::Order::Apply, take::Order::Alone]);
}

#[test]
fn a_running_process_that_is_killed_is_followed_whatever_it_had_still_to_say() {
    let (mut line, taking) = taking();
    assert!(line.begins_with(PREAMBLE, SOON));
    let (life, end_of_life) = std::io::pipe().unwrap();
    let Message::Offer(offer) = example(Kind::Offer) else { panic!("an offer") };
    let offer = Offer { sockets: vec![Given::Life(6)], ..*offer };
    line.say(&Message::Offer(Box::new(offer)), SOON).unwrap();
    line.give(&[life], SOON).unwrap();
    [Kind::State, Kind::Last, Kind::Go].iter().for_each(|kind| line.say(&example(*kind), SOON).unwrap());
    while !matches!(line.hear(SOON), Heard::Said(Message::Serving)) {}
    drop((end_of_life, line));
    let Took::Did(did) = taking.join().unwrap() else { panic!("it serves") };
    let accepted = take::Order::Accept(Some(vec![3]));
    assert_eq!(did, [accepted, take::Order::Hold, take::Order::Accept(None), take::Order::Alone]);
}

#[test]
fn logs_are_opened_anew_by_the_one_before_whenever_it_is_wanted() {
    let orders = Orders::default();
    let (mut line, outcome, giving) = running(&orders);
    let reopened = |orders: &Orders| orders.lock().iter().filter(|order| **order == give::Order::Reopen).count();
    let await_reopened = |count| {
        let found = (0..10_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            reopened(&orders) == count
        });
        assert!(found, "{:?}", orders.lock());
    };
    for kind in [Kind::Hello, Kind::Ready, Kind::Serving] {
        while kind != Kind::Hello && matches!(line.hear(SHORT / 6), Heard::Said(_)) {}
        line.say(&example(kind), SOON).unwrap();
    }
    line.say(&Message::Reopen, SOON).unwrap();
    await_reopened(1);
    line.say(&Message::Settled, SOON).unwrap();
    assert_eq!(outcome.recv_timeout(SOON).unwrap().unwrap().pid, 7, "it takes nothing back because of it");
    line.say(&Message::Reopen, SOON).unwrap();
    await_reopened(2);
    drop(line);
    giving.join().unwrap();
}
