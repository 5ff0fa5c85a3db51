//! Who types? A bash that keeps its variables, folder and jobs from one command to the next, as a terminal does.
//!
//! Always holds: when it is dropped, or the test is killed, bash reads the end of its input, and ends all that it started.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// What a command may take at the most.
const LONG: Duration = Duration::from_secs(60);

/// It leads a session; whoever is of it is ended with it, also who took over from a job and is none.
const ENDS: &str = r#"set -m
end() {
  for process in /proc/[0-9]*; do
    read -r stat 2>/dev/null <$process/stat || continue
    set -- ${stat##*) }
    [ "$4" != $$ ] || [ ${process#/proc/} = $$ ] || kill -9 ${process#/proc/}
  done
}
trap end EXIT
"#;

pub(crate) struct Shell {
    bash: Child,
    input: Option<ChildStdin>,
    typed: usize,
    /// Where what is typed and printed goes.
    folder: TempDir,
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) printed: String,
    pub(crate) code: i32,
}

impl Shell {
    /// In this folder, which is the home as well; `moorgate` is the shipped binary.
    pub(crate) fn new(home: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        let binaries = Path::new(env!("CARGO_BIN_EXE_moorgate")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("setsid");
        command.args(["bash", "--noprofile", "--norc"]).current_dir(home).stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(File::create(folder.path().join("bash")).unwrap());
        command.env("PATH", format!("{}:{path}", binaries.display())).env("HOME", home).env("TMPDIR", home);
        command.env("XDG_RUNTIME_DIR", home).env("LC_ALL", "C.UTF-8").env_remove("BASH_ENV");
        let mut bash = command.spawn().unwrap();
        let mut input = bash.stdin.take().unwrap();
        input.write_all(ENDS.as_bytes()).unwrap();
        Self { bash, input: Some(input), typed: 0, folder }
    }

    /// Types a command and waits for its end.
    pub(crate) fn type_in(&mut self, command: &str) -> Ended {
        self.typed += 1;
        let [script, out, code, whole] =
            ["command", "out", "code", "whole"].map(|name| self.folder.path().join(format!("{name}{}", self.typed)));
        fs::write(&script, format!("{command}\n")).unwrap();
        let [script, out, code, whole_code] = [&script, &out, &code, &whole].map(|path| path.display().to_string());
        let line = format!(". {script} </dev/null >{out} 2>&1; echo $? >{code}; mv {code} {whole_code}\n");
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let began = Instant::now();
        while !whole.exists() {
            assert!(
                began.elapsed() < LONG,
                "{command} does not end:\n{}",
                fs::read_to_string(&out).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        let printed = String::from_utf8_lossy(&fs::read(&out).unwrap()).into_owned();
        Ended { printed, code: fs::read_to_string(&whole).unwrap().trim().parse().unwrap() }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        drop(self.input.take());
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            if self.bash.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.bash.kill();
        let _ = self.bash.wait();
    }
}

#[test]
fn it_remembers_and_leaves_nothing() {
    let home = TempDir::new().unwrap();
    let mut shell = Shell::new(home.path());
    assert_eq!(shell.type_in("mkdir a && cd a; word=moor").code, 0);
    let said = shell.type_in("sleep 60 & job=$!; echo $word $(basename $PWD); echo $job >../job; false");
    assert_eq!((said.printed.as_str(), said.code), ("moor a\n", 1));
    let job = fs::read_to_string(home.path().join("job")).unwrap();
    let lives = || Path::new(&format!("/proc/{}/exe", job.trim())).read_link().is_ok();
    assert!(lives());
    drop(shell);
    let began = Instant::now();
    while lives() {
        assert!(began.elapsed() < Duration::from_secs(10), "{job} lives");
        std::thread::sleep(Duration::from_millis(5));
    }
}
