//! How is it, from moment to moment? `status --watch`: the status page on a terminal, drawn anew at every answer.
//!
//! Always holds: a gateway that does not answer is told of and asked again; the terminal is given back as it was.

mod bar;
mod charts;
mod columns;
mod draw;
mod events;
mod facts;
mod order;
mod pages;
mod paint;
mod screen;
mod steady;
#[cfg(test)]
mod tests;
mod trouble;
mod view;

use std::io::IsTerminal;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use jiff::ZonedDateTime;

use super::super::{Exit, Usage, colourful};
use super::door::Door;
use events::Event;
use paint::Paint;
use screen::Screen;
use view::{View, Wish};

/// How much longer than from one question to the next an answer may take before that is told.
const SILENT: Duration = Duration::from_secs(2);

/// Watches until somebody ends it; asks at the first of `doors` that opens.
///
/// # Errors
/// There is no terminal, or it is gone.
pub(super) fn watch(doors: Vec<Door>, interval: Duration) -> anyhow::Result<Exit> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let instead = "without it, `moorgate status` says it once, and `--json` says it to programs";
        return Err(anyhow!(Usage(format!("--watch needs a terminal to draw on; {instead}"))));
    }
    let events = events::all(doors, interval).context("threads of --watch")?;
    let mut screen = Screen::take().context("the terminal")?;
    let paint = Paint { colour: colourful(true), interval };
    follow(&events, &mut screen, &paint).context("the terminal")
}

fn follow(events: &Receiver<Event>, screen: &mut Screen, paint: &Paint) -> std::io::Result<Exit> {
    let mut view = View::default();
    screen.draw(|frame| draw::all(frame, &mut view, paint))?;
    let mut last = now();
    loop {
        let event = match events.recv_timeout(paint.interval) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) if now() - last < paint.interval + SILENT => continue,
            Err(RecvTimeoutError::Timeout) => Event::Answer(Err("it was asked, and says nothing".to_owned())),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if matches!(event, Event::Answer(_)) {
            last = now();
        }
        match event {
            Event::Answer(answer) => view.update(answer.map(|facts| *facts), clock(), now()),
            Event::Key(key) => match view.press(key) {
                Wish::Nothing => {}
                Wish::Quit => return Ok(Exit::Done),
                Wish::Interrupt => return Ok(Exit::Stopped),
                Wish::Suspend => screen.suspend()?,
            },
            Event::Redraw => {}
            Event::Suspend => screen.suspend()?,
            Event::Resume => screen.resume()?,
            Event::Stop => return Ok(Exit::Stopped),
            Event::Gone(error) => return Err(error),
            Event::Panicked => break,
        }
        screen.draw(|frame| draw::all(frame, &mut view, paint))?;
    }
    Ok(Exit::Failed)
}

/// The time of day, where this runs.
fn clock() -> String {
    ZonedDateTime::now().strftime("%H:%M:%S").to_string()
}

#[expect(clippy::disallowed_methods, reason = "the command's own clock")]
fn now() -> Instant {
    Instant::now()
}
