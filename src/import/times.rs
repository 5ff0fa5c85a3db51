//! How long does a location wait for its origins?

use super::document::Section;
use super::notes::Notes;
use super::reader::Directive;
use super::scope::Scope;
use super::units;

/// Milliseconds; `connect` is `None` where nothing is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) connect: Option<u64>,
    pub(super) send: u64,
    pub(super) read: u64,
    /// Was `read` written? Then it holds for streams as well.
    pub(super) read_is_said: bool,
}

/// What nginx waits without being told.
const UNSAID: u64 = 60_000;
/// What we wait for a connection without being told.
const CONNECT: u64 = 1_000;

impl Times {
    /// Of `proxy` or `grpc`.
    pub(super) fn of(scope: &Scope<'_>, module: &str) -> Self {
        let time = |what: &str| {
            scope.word(&format!("{module}_{what}_timeout")).and_then(units::millis).filter(|time| *time > 0)
        };
        let read = time("read");
        Self {
            connect: time("connect"),
            send: time("send").unwrap_or(UNSAID),
            read: read.unwrap_or(UNSAID).max(2),
            read_is_said: read.is_some(),
        }
    }

    /// What is waited for a connection, which has to be less than for an answer.
    pub(super) fn before_reading(&self) -> u64 {
        let less = if self.read > 1_000 { self.read - 1_000 } else { self.read / 2 };
        let connect = self.connect.unwrap_or(CONNECT);
        if connect < self.read { connect } else { less.max(1) }
    }

    pub(super) fn of_pool(&self, by: &Directive, notes: &mut Notes) -> Section {
        let mut section = Section::default();
        let connect = self.before_reading();
        if connect != CONNECT {
            section.put("connect", units::time(connect));
        }
        if self.connect.is_some_and(|written| written != connect) {
            notes.unsaid(&by.place, "the time-out for connections", "it has to be below that for reading");
        }
        section.put("send", units::time(self.send));
        section.put("read", units::time(self.read));
        if self.read_is_said {
            section.put("stream", units::time(self.read));
        }
        section
    }

    /// The differences from those of a pool.
    pub(super) fn of_route(&self, pool: &Self) -> Section {
        let mut section = Section::default();
        if self.send != pool.send {
            section.put("send", units::time(self.send));
        }
        if self.read != pool.read {
            section.put("read", units::time(self.read));
        }
        if (self.read, self.read_is_said) != (pool.read, pool.read_is_said) {
            section.put("stream", if self.read_is_said { units::time(self.read) } else { "1h".to_owned() });
        }
        section
    }
}
