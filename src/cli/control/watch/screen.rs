//! How is the terminal taken, and given back as it was? Always given back: at the end, by an error, by a panic of any
//! thread, before the process is suspended; and taken again when it is continued in the foreground.

use std::io::{self, Stdout, stdin, stdout};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nix::sys::signal::{Signal, raise};
use nix::unistd::{getpgrp, tcgetpgrp};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::{Frame, Terminal};

/// Whether the terminal is ours: the thread that panics gives it back, or the one that draws, once.
type Taken = Arc<AtomicBool>;

/// The terminal while it is ours.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    taken: Taken,
}

impl Screen {
    /// Takes it.
    pub(super) fn take() -> io::Result<Self> {
        let (taken, hooked) = (Taken::default(), panic::take_hook());
        let shared = Arc::clone(&taken);
        panic::set_hook(Box::new(move |why| {
            give_back(&shared);
            hooked(why);
        }));
        take(&taken)?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).inspect_err(|_| give_back(&taken))?;
        // From here on a drop gives it back.
        Ok(Self { terminal, taken })
    }

    /// The next picture; none while the terminal is another's.
    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        if self.taken.load(Relaxed) { self.terminal.draw(picture).map(|_| ()) } else { Ok(()) }
    }

    /// Stops the process as the shell's job control does; returns when it is continued.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back(&self.taken);
        // the signal that cannot be listened to: the other, by which somebody else may ask for this, is
        raise(Signal::SIGSTOP)?;
        Ok(())
    }

    /// The process goes on, after whatever the shell made of the terminal meanwhile. In the background, where one that was to
    /// end is continued too, it is left to others.
    pub(super) fn resume(&mut self) -> io::Result<()> {
        let is_foremost = tcgetpgrp(stdin()).is_ok_and(|foremost| foremost == getpgrp());
        self.taken.store(false, Relaxed);
        if is_foremost {
            disable_raw_mode()?;
            take(&self.taken)?;
            // the other screen is empty; to clear it by the library asks where the cursor stands, and keys are being waited for
            self.terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back(&self.taken);
    }
}

fn take(taken: &Taken) -> io::Result<()> {
    taken.store(true, Relaxed);
    let took = enable_raw_mode().and_then(|()| execute!(stdout(), EnterAlternateScreen, Hide));
    took.inspect_err(|_| give_back(taken))
}

/// As far as it can be: a terminal that is gone needs nothing.
fn give_back(taken: &Taken) {
    if taken.swap(false, Relaxed) {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
