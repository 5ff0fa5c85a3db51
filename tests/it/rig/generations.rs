//! Which processes serve in the line of upgrades of one gateway? They are found by the folder of its file, and none of
//! them outlives the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::gateway::{Gateway, program};
use super::process::Process;

/// All of one gateway.
pub(crate) struct Generations(PathBuf);

impl Generations {
    pub(crate) fn of(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// Those that live, the oldest first.
    pub(crate) fn living(&self) -> Vec<i32> {
        let file = self.0.join("moorgate.yaml").to_string_lossy().into_owned();
        let is_ours = |pid: &i32| {
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let arguments: Vec<_> = arguments.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            arguments.get(1).is_some_and(|name| name == "run") && arguments.iter().any(|one| *one == file)
        };
        let all = std::fs::read_dir("/proc").unwrap();
        let pids = all.filter_map(|entry| entry.ok()?.file_name().to_string_lossy().parse::<i32>().ok());
        let mut found: Vec<i32> = pids.filter(is_ours).collect();
        // numbers wrap, times do not
        found.sort_by_key(|pid| started(*pid));
        found
    }
}

/// When a process was started, in ticks since the machine was.
fn started(pid: i32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_whitespace().nth(19).and_then(|ticks| ticks.parse().ok()).unwrap_or_default()
}

impl Drop for Generations {
    fn drop(&mut self) {
        self.living().into_iter().for_each(|pid| _ = kill(Pid::from_raw(pid), Signal::SIGKILL));
    }
}

impl Gateway {
    /// Has another process take over.
    pub(crate) fn upgrade(&self, arguments: &[&str]) -> Output {
        self.command(&[&["upgrade"], arguments].concat())
    }

    /// Starts a command of the same binary with this gateway's file, beside it.
    pub(crate) fn beside(&self, arguments: &[&str]) -> Process {
        let (output, file) = (self.path("output-beside"), self.path("moorgate.yaml"));
        let mut command = program(Command::new(env!("CARGO_BIN_EXE_moorgate")), file.parent().unwrap(), arguments);
        Process::start(arguments[0], &mut command, &output)
    }

    /// The processes that live, the oldest first.
    pub(crate) fn generations(&self) -> Vec<i32> {
        self.generations.living()
    }

    /// The file as it is, but for what is to be replaced.
    pub(crate) fn edit(&self, from: &str, to: &str) {
        let path = self.path("moorgate.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from:?} is not in {text}");
        std::fs::write(path, text.replace(from, to)).unwrap();
    }
}
