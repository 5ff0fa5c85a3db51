//! How far is it? A line on a terminal's standard error while there is much to read, gone when it is read.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shorter work says nothing.
const QUIET: Duration = Duration::from_millis(500);
/// Between two looks at the clock, in bytes.
const STRIDE: u64 = 1 << 20;

/// What is told of work under way.
pub(super) struct Progress {
    /// Is anybody there to read it?
    is_watched: bool,
    what: String,
    began: Instant,
    size: u64,
    done: u64,
    told: u64,
    is_shown: bool,
}

impl Progress {
    /// Told on standard error, when that is a terminal.
    pub(super) fn new() -> Self {
        Self { is_watched: std::io::stderr().is_terminal(), ..Self::silent() }
    }

    /// Told to nobody.
    pub(super) fn silent() -> Self {
        let (what, began) = (String::new(), now());
        Self { is_watched: false, what, began, size: 0, done: 0, told: 0, is_shown: false }
    }

    /// So many bytes of `what` are to be read; 0 when that is not known.
    pub(super) fn begin(&mut self, what: &str, size: u64) {
        *self = Self { is_watched: self.is_watched, what: what.to_owned(), size, ..Self::silent() };
    }

    /// So many more were read.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.done += bytes;
        if self.is_watched && self.done >= self.told + STRIDE {
            self.told = self.done;
            if now().saturating_duration_since(self.began) > QUIET {
                self.show();
            }
        }
    }

    /// All is read.
    pub(super) fn end(&mut self) {
        if self.is_shown {
            write(format_args!("\r\x1b[K"));
            self.is_shown = false;
        }
    }

    fn show(&mut self) {
        self.is_shown = true;
        let (what, megabytes) = (&self.what, self.done / 1_000_000);
        match (self.done * 100).checked_div(self.size) {
            Some(percent) => write(format_args!("\r\x1b[K{what}: {percent}%, {megabytes} MB")),
            None => write(format_args!("\r\x1b[K{what}: {megabytes} MB")),
        }
    }
}

/// Whoever does not read it does not need it.
fn write(text: std::fmt::Arguments<'_>) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_fmt(text).and_then(|()| err.flush());
}

#[expect(clippy::disallowed_methods, reason = "a command may look at the clock")]
fn now() -> Instant {
    Instant::now()
}
