//! What happens? Answers of the gateway, keys and sizes of the terminal, signals: each from a thread of its own, into one
//! queue. The threads end with the process, which has nothing else to do then.

use std::future::poll_fn;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use ratatui::crossterm::event::{self, KeyEvent};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::super::client::ask;
use super::super::door::Door;
use super::facts::Facts;

/// For each read of an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// One of them.
#[derive(Debug)]
pub(super) enum Event {
    /// What the gateway answered, or why it did not.
    Answer(Result<Box<Facts>, String>),
    Key(KeyEvent),
    /// The terminal has another size, or came back to the front.
    Redraw,
    /// Somebody wants this process to be suspended.
    Suspend,
    /// It was suspended, and goes on.
    Resume,
    /// Somebody wants this process to end.
    Stop,
    /// The terminal is gone.
    Gone(io::Error),
    /// A thread ended by a panic, which has said so itself.
    Panicked,
}

/// All of them, from now on; asks at the first of `doors` that opens, every `interval`.
pub(super) fn all(doors: Vec<Door>, interval: Duration) -> io::Result<Receiver<Event>> {
    let (tell, events) = channel();
    start("ask", &tell, move |tell| answers(&doors, interval, tell))?;
    start("keys", &tell, keys)?;
    signals(&tell)?;
    Ok(events)
}

fn start(name: &str, tell: &Sender<Event>, work: impl FnOnce(&Sender<Event>) + Send + 'static) -> io::Result<()> {
    let told = Told(tell.clone());
    thread::Builder::new().name(name.to_owned()).spawn(move || work(&told.0)).map(|_| ())
}

/// Says when its thread panics, for nothing else would.
struct Told(Sender<Event>);

impl Drop for Told {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(Event::Panicked);
        }
    }
}

fn answers(doors: &[Door], interval: Duration, tell: &Sender<Event>) {
    while tell.send(Event::Answer(answer(doors).map(Box::new))).is_ok() {
        thread::sleep(interval);
    }
}

fn answer(doors: &[Door]) -> Result<Facts, String> {
    let mut why = Vec::new();
    for door in doors {
        match door.open(PATIENCE).and_then(|mut line| ask(&mut line, "GET", "/status")) {
            Ok(reply) if reply.status == 200 => {
                return serde_json::from_str(&reply.body).map_err(|error| format!("no status: {error}"));
            }
            Ok(reply) => why.push(format!("it answers {}", reply.status)),
            Err(error) => why.push(format!("{error:#}")),
        }
    }
    Err(why.join("; "))
}

fn keys(tell: &Sender<Event>) {
    loop {
        let told = match event::read() {
            Ok(event::Event::Key(key)) => Event::Key(key),
            Ok(event::Event::Resize(..) | event::Event::FocusGained) => Event::Redraw,
            Ok(_) => continue,
            Err(error) => {
                let _ = tell.send(Event::Gone(error));
                return;
            }
        };
        if tell.send(told).is_err() {
            return;
        }
    }
}

/// In raw mode the keyboard sends none, but others may. They are listened to before the terminal is taken, for one that comes
/// between would end the process with the terminal as it is.
fn signals(tell: &Sender<Event>) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let within = runtime.enter();
    let mut ends = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()]
        .into_iter()
        .map(signal)
        .collect::<io::Result<Vec<_>>>()?;
    let mut stops = signal(SignalKind::from_raw(Signal::SIGTSTP as i32))?;
    let mut goes_on = signal(SignalKind::from_raw(Signal::SIGCONT as i32))?;
    drop(within);
    start("signals", tell, move |tell| {
        runtime.block_on(poll_fn(|cx| {
            // an end first: who ends a job that is suspended continues it with the same breath
            while ends.iter_mut().all(|end| end.poll_recv(cx).is_pending()) {
                let told = match (goes_on.poll_recv(cx), stops.poll_recv(cx)) {
                    (Poll::Ready(_), _) => Event::Resume,
                    (_, Poll::Ready(_)) => Event::Suspend,
                    _ => return Poll::Pending,
                };
                if tell.send(told).is_err() {
                    break;
                }
            }
            Poll::Ready(())
        }));
        let _ = tell.send(Event::Stop);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_is_told_of() {
        let (tell, events) = channel();
        start("test", &tell, |_| panic!("on purpose")).unwrap();
        assert!(matches!(events.recv_timeout(Duration::from_secs(20)), Ok(Event::Panicked)));
    }

    #[test]
    fn why_nobody_answers_is_said_of_each_door() {
        let folder = tempfile::tempdir().unwrap();
        let door = |name: &str| Door::Socket { path: folder.path().join(name), file: None };
        let why = answer(&[door("a"), door("b")]).unwrap_err();
        assert_eq!(why.matches("No such file").count(), 2, "{why}");
    }
}
