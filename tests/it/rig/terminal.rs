//! What does somebody at a terminal see? A command on a terminal of its own (`script` makes it), whose screen is kept by
//! the rules of a VT100; and how the terminal is set before and after the command.

use std::fs;
use std::io::{Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use tempfile::TempDir;

use super::{PATIENCE, Process, eventually};

/// Runs the command by a shell at the terminal: what stands before it on the screen, how the terminal is set before and
/// after (its size is the test's), its process, its exit code.
const AROUND: &str = "\
settings() { stty -a | sed 's/rows.*columns [0-9]*;//'; }
echo what was there before; stty rows $ROWS cols $COLUMNS_; settings > $DIR/before; tty > $DIR/name
sh -c 'echo $$ > $DIR/pid; exec \"$@\"' sh \"$@\"
code=$?; settings > $DIR/after; echo $code > $DIR/code";

/// A terminal with a command on it.
pub(crate) struct Terminal {
    process: Process,
    keys: Option<ChildStdin>,
    seen: Arc<Mutex<vt100::Parser>>,
    reader: Option<JoinHandle<()>>,
    folder: TempDir,
}

fn some(count: u16) -> NonZero<u16> {
    NonZero::new(count).unwrap()
}

/// The command at a terminal with so many columns and rows.
pub(crate) fn terminal((columns, rows): (u16, u16), command: &[&str], environment: &[(&str, &str)]) -> Terminal {
    let folder = TempDir::new().unwrap();
    let around = folder.path().join("around");
    fs::write(&around, AROUND).unwrap();
    let quoted = |word: &&str| format!("'{word}'");
    let line: Vec<String> = command.iter().map(quoted).collect();
    let line = format!("sh {} {}", around.display(), line.join(" "));
    let mut script = Command::new("script");
    script.args(["--quiet", "--flush", "--command", &line, "/dev/null"]).env("DIR", folder.path());
    script.env("ROWS", rows.to_string()).env("COLUMNS_", columns.to_string()).env("TERM", "xterm-256color");
    script.env("SHELL", "/bin/sh").env_remove("NO_COLOR").envs(environment.iter().copied());
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = Process::start("script", &mut script, &folder.path().join("errors"));
    let keys = process.child.stdin.take();
    let mut output = process.child.stdout.take().unwrap();
    let seen = Arc::new(Mutex::new(vt100::Parser::new(some(rows), some(columns), 0)));
    let screen = Arc::clone(&seen);
    let reader = thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            screen.lock().process(&bytes[..count]);
        }
    });
    Terminal { process, keys, seen, reader: Some(reader), folder }
}

impl Terminal {
    /// The lines of the screen.
    pub(crate) fn lines(&self) -> Vec<String> {
        let seen = self.seen.lock();
        let (_, columns) = seen.screen().size();
        seen.screen().rows(0, columns.get()).collect()
    }

    /// Waits until one of them has this; answers it.
    pub(crate) fn shows(&self, text: &str) -> String {
        let found = super::within(PATIENCE, || self.lines().into_iter().find(|line| line.contains(text)));
        found.unwrap_or_else(|| panic!("{text:?} is not shown:\n{}", self.lines().join("\n")))
    }

    /// Is anything on it in another colour than the terminal's own?
    pub(crate) fn is_colourful(&self) -> bool {
        let seen = self.seen.lock();
        let (rows, columns) = seen.screen().size();
        let cells = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        let colour =
            |cell: &vt100::Cell| cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default;
        cells.filter_map(|(row, column)| seen.screen().cell(row, column)).any(colour)
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        let input = self.keys.as_mut().unwrap();
        input.write_all(keys.as_bytes()).and_then(|()| input.flush()).unwrap();
    }

    /// Another size, as when a window is dragged.
    pub(crate) fn resize(&self, (columns, rows): (u16, u16)) {
        self.seen.lock().screen_mut().set_size(some(rows), some(columns));
        let name = self.said("name");
        let size = ["rows", &rows.to_string(), "cols", &columns.to_string()].map(str::to_owned);
        assert!(Command::new("stty").args(["-F", &name]).args(size).status().unwrap().success());
    }

    /// Sends the command a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.said("pid").parse().unwrap()), signal).unwrap();
    }

    /// Waits for its end; fails unless the terminal is as it was. Answers the exit code.
    pub(crate) fn exit(mut self) -> i32 {
        let code = self.said("code").parse().unwrap();
        assert!(self.process.wait(PATIENCE).is_some(), "script ends with its command");
        self.keys = None;
        self.reader.take().unwrap().join().unwrap();
        assert_eq!(self.said("after"), self.said("before"), "how the terminal is set");
        let seen = self.seen.lock();
        let screen = seen.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "the screen and its cursor are given back");
        assert!(screen.contents().contains("what was there before"), "{}", screen.contents());
        drop(seen);
        code
    }

    /// Waits for what the shell writes down.
    fn said(&self, what: &str) -> String {
        let path: PathBuf = Path::new(self.folder.path()).join(what);
        eventually(what, || fs::read_to_string(&path).ok().filter(|text| text.ends_with('\n'))).trim_end().to_owned()
    }
}
