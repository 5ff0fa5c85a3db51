//! How is the terminal taken, and given back as it was? Always given back: at the end, by an error, by a panic of any
//! thread, before the process is suspended.

use std::io::{self, Stdout, stdout};
use std::panic;

use nix::sys::signal::{Signal, raise};
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::{Frame, Terminal};

/// The terminal while it is ours.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Takes it.
    pub(super) fn take() -> io::Result<Self> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |why| {
            give_back();
            before(why);
        }));
        take()?;
        // From here on a drop gives it back.
        let terminal = Terminal::new(CrosstermBackend::new(stdout()));
        terminal.map(Self).inspect_err(|_| give_back())
    }

    /// The next picture.
    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(picture).map(|_| ())
    }

    /// Stops the process as the shell's job control does; returns when it is continued.
    pub(super) fn suspend(&mut self) -> io::Result<()> {
        give_back();
        raise(Signal::SIGTSTP)?;
        take()?;
        // the other screen is empty; to clear it by the library asks where the cursor stands, and keys are being waited for
        self.0 = Terminal::new(CrosstermBackend::new(stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(stdout(), EnterAlternateScreen, Hide).inspect_err(|_| give_back())
}

/// As far as it can be: a terminal that is gone needs nothing.
fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
