//! What does a written value mean? Durations, sizes, shares, rates, networks and addresses, parsed once at
//! the edge: after `config` no string stands for a number or a choice.
//!
//! Every type prints what it parses (`parse(print(x)) == x`), so that `dump` writes a file that loads again.

use std::fmt;
use std::net::SocketAddr;
use std::time;

/// A length of time, written as a number and a unit: `us`, `ms`, `s`, `m` or `h` (`500ms`, `1.5s`, `5m`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Duration(pub time::Duration);

/// A number of bytes, written plain or with `KiB`, `MiB` or `GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Bytes(pub u64);

/// A share between 0 % and 100 %, written with its sign (`20%`).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Percent(pub f64);

/// Events in a second, written `10/s` (also `/m` and `/h`).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Rate(pub f64);

/// `off` (also `false`), or a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Off<T> {
    /// Switched off.
    #[default]
    Off,
    /// Switched on, with its settings.
    On(T),
}

impl<T> Off<T> {
    /// The settings, or `None` when off.
    pub fn on(&self) -> Option<&T> {
        match self {
            Self::Off => None,
            Self::On(value) => Some(value),
        }
    }
}

/// `auto`, or a number chosen by the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Auto<T> {
    /// Derived from the machine at start.
    #[default]
    Auto,
    /// As written.
    Fixed(T),
}

/// Where an origin is: an IP address with a port, a name to be resolved, or a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// `10.0.0.1:80` or `[::1]:80`; without a port 80 is taken.
    Ip(SocketAddr),
    /// A host name and a port (80 when none is written), resolved in the background.
    Name(String, u16),
    /// `unix:/path`.
    Unix(std::path::PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => write!(f, "{address}"),
            Self::Name(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
