//! How is a gateway started? As it is, or by what stands in for a service manager.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

/// What starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The test itself.
    Plain,
    /// One that opened the first listener's socket before.
    Activated,
}

/// Becomes the process that LISTEN_PID names, its standard input being descriptor 3.
const ACTIVATE: &str = r#"export LISTEN_PID=$$; exec "$0" "$@" 3<&0 </dev/null"#;

impl Way {
    /// The beginning of the command line, up to `run`; `socket` is the one that was opened before.
    pub(crate) fn command(self, socket: Option<&TcpListener>) -> Command {
        let binary = env!("CARGO_BIN_EXE_moorgate");
        match (self, socket) {
            (Self::Activated, Some(socket)) => activated(binary, socket.try_clone().unwrap().into()),
            _ => Command::new(binary),
        }
    }
}

/// `binary`, with `socket` as systemd passes it on.
pub(crate) fn activated(binary: &str, socket: OwnedFd) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", ACTIVATE, binary]).env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "clients");
    command.stdin(Stdio::from(socket));
    command
}
