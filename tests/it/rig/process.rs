//! How does a child process live no longer than its test? It leads a group that is killed on drop, the kernel kills
//! it when the test's thread is gone, and what it said is kept in a file and shown when the test fails.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::within;

/// A running child.
pub(crate) struct Process {
    pub(crate) child: Child,
    name: String,
    output: PathBuf,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a command; standard error goes to `output`, and standard output too unless the command says otherwise.
    pub(crate) fn start(name: &str, command: &mut Command, output: &Path) -> Self {
        let file = File::options().create(true).append(true).open(output).unwrap();
        command.stderr(Stdio::from(file)).process_group(0);
        die_with_thread(command);
        let child = command.spawn().unwrap();
        Self { child, name: name.to_owned(), output: output.to_owned(), ended: None }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        assert!(self.ended.is_none(), "{} has ended", self.name);
        kill(self.pid(), signal).unwrap();
    }

    /// The exit status, if it ends in time.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = within(limit, || self.child.try_wait().unwrap());
        }
        self.ended
    }

    /// Kills it and its children at once.
    pub(crate) fn kill(&mut self) {
        if self.ended.is_none() {
            let _ = killpg(self.pid(), Signal::SIGKILL);
            self.ended = self.child.wait().ok();
        }
    }

    /// What it wrote.
    pub(crate) fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap_or_default()).into_owned()
    }
}

/// Whose parent a process is by now; those that ended and were not waited for included.
pub(crate) fn children(parent: i32) -> Vec<i32> {
    let parent_of = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<i32>().ok()
    };
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    all.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- {} ({:?}) wrote:\n{}---", self.name, self.ended, self.output());
        }
    }
}

#[allow(unsafe_code)]
fn die_with_thread(command: &mut Command) {
    let set = || nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(std::io::Error::from);
    // SAFETY: between fork and exec only prctl(2) is called, which is async-signal-safe and takes no pointer.
    unsafe { command.pre_exec(set) };
}
