//! How is a gateway started? As it is, by its supervisor, or by what stands in for a service manager.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

/// What starts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The test itself.
    Plain,
    /// One that opened the first listener's socket before.
    Activated,
    /// `moorgate supervise`.
    Supervised,
    /// The same, in a process that has a child and a grandchild already: `orphan` in its folder is the number of the latter,
    /// and the former ends when there is a file `go`.
    SupervisedWithChildren,
    /// The same, from `program` in its folder: what the supervisor starts next can be replaced there.
    SupervisedFromFolder,
    /// As process 1 of a namespace; the process of the test's own is the one before it.
    AsFirst,
    /// `moorgate supervise` as process 1.
    SupervisedAsFirst,
}

/// Begins a namespace, with what follows as its process 1, and ends with it.
const FIRST: [&str; 6] = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--"];

/// May processes begin namespaces here? Many containers forbid it.
pub(crate) fn may_be_first() -> bool {
    Command::new("unshare").args(FIRST).arg("true").output().is_ok_and(|ended| ended.status.success())
}

/// Becomes the process that LISTEN_PID names, its standard input being descriptor 3.
const ACTIVATE: &str = r#"export LISTEN_PID=$$; exec "$0" "$@" 3<&0 </dev/null"#;

/// Its child waits for at most half a minute, and its grandchild lives for a minute unless it is ended.
const WITH_CHILDREN: &str = r#"
( sleep 60 & echo $! >orphan; for n in $(seq 600); do [ -e go ] && break; sleep 0.05; done ) &
exec "$0" "$@""#;

impl Way {
    /// The beginning of the command line, up to `run`; `socket` is the one that was opened before.
    pub(crate) fn command(self, folder: &Path, socket: Option<&TcpListener>) -> Command {
        let binary = env!("CARGO_BIN_EXE_moorgate");
        match (self, socket) {
            (Self::Activated, Some(socket)) => activated(binary, socket.try_clone().unwrap().into()),
            (Self::Supervised, _) => with(Command::new(binary), &["supervise", "--"]),
            (Self::SupervisedWithChildren, _) => {
                let mut command = with(Command::new("sh"), &["-c", WITH_CHILDREN, binary, "supervise", "--"]);
                command.current_dir(folder);
                command
            }
            (Self::SupervisedFromFolder, _) => {
                let program = folder.join("program");
                if std::fs::hard_link(binary, &program).is_err() {
                    std::fs::copy(binary, &program).unwrap();
                }
                with(Command::new(program), &["supervise", "--"])
            }
            (Self::AsFirst, _) => with(with(Command::new("unshare"), &FIRST), &[binary]),
            (Self::SupervisedAsFirst, _) => with(with(Command::new("unshare"), &FIRST), &[binary, "supervise", "--"]),
            _ => Command::new(binary),
        }
    }
}

fn with(mut command: Command, arguments: &[&str]) -> Command {
    command.args(arguments);
    command
}

/// `binary`, with `socket` as systemd passes it on.
pub(crate) fn activated(binary: &str, socket: OwnedFd) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", ACTIVATE, binary]).env("LISTEN_FDS", "1").env("LISTEN_FDNAMES", "clients");
    command.stdin(Stdio::from(socket));
    command
}
