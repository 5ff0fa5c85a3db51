//! A real Redis as a process of the test's own, on a port of its own, that keeps nothing.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::process::Process;
use super::{PATIENCE, ports, within};

/// What it wants to hear first.
pub(crate) const PASSWORD: &str = "hunter2";

/// A running Redis.
pub(crate) struct Redis {
    pub(crate) address: SocketAddr,
    process: Process,
    folder: TempDir,
}

/// Starts one.
pub(crate) fn redis() -> Redis {
    for _ in 0..10 {
        let address = ports::listener().unwrap().local_addr().unwrap();
        let folder = TempDir::new().unwrap();
        if let Some(process) = start(address, &folder) {
            return Redis { address, process, folder };
        }
    }
    panic!("ten times somebody else took the port")
}

/// `None`: somebody else had the port.
fn start(address: SocketAddr, folder: &TempDir) -> Option<Process> {
    let output = folder.path().join("output");
    // What it said before is not taken for what it says now.
    let _ = std::fs::remove_file(&output);
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port"]).arg(address.port().to_string());
    command.args(["--save", "", "--appendonly", "no", "--requirepass", PASSWORD, "--dir"]).arg(folder.path());
    command.args(["--logfile", "log"]).stdin(Stdio::null()).stdout(Stdio::null());
    let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    let _ = std::fs::remove_file(folder.path().join("log"));
    let mut process = Process::start("redis-server", &mut command, &output);
    let up = within(PATIENCE, || match process.wait(Duration::ZERO) {
        Some(_) => Some(false),
        None => log().contains("Ready to accept connections").then_some(true),
    });
    let lost = up == Some(false) && log().contains("in use");
    assert!(up == Some(true) || lost, "redis-server did not start (missing? sudo .ci/needs redis): {}", log());
    (!lost).then_some(process)
}

impl Redis {
    /// How a limit names it.
    pub(crate) fn url(&self) -> String {
        format!("redis://:{PASSWORD}@{}/3", self.address)
    }

    /// Kills it at once.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again, where it was, empty.
    pub(crate) fn start_again(&mut self) {
        self.process = start(self.address, &self.folder).expect("its port is its own");
    }

    /// It says nothing any more, and its connections stay; or it goes on.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.process.signal(if frozen { Signal::SIGSTOP } else { Signal::SIGCONT });
    }
}
