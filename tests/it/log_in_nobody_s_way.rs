//! Does a request ever wait for its line, and is every line that is not there counted? Rule U7.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use parking_lot::Mutex;

use crate::rig::{self, Ask, Gateway, Origin, Process};

const POOL: &str = "pools: { p: { balance: { key: \"{path}\" }, health: { probe: off }, origins: $origins } }\n";

/// No request may take longer because its line cannot be written.
const AT_ONCE: Duration = Duration::from_millis(200);

/// A gateway whose JSON lines go to this path.
fn logging_to(origin: &Origin, path: &str, first: impl Fn(&Path)) -> Gateway {
    let log = format!("{{ path: {path}, format: json }}");
    rig::gateway(POOL).origins([origin]).process("access_log", &log).start_with(first)
}

fn fifo(folder: &Path) {
    nix::unistd::mkfifo(&folder.join("pipe"), Mode::S_IRWXU).unwrap();
}

fn lost(gateway: &Gateway) -> u64 {
    gateway.metrics().sum("moorgate_access_log_dropped_total", &[]) as u64
}

/// Sends requests until lines are lost, and goes on until 200 in a row were answered at once: a machine under load may
/// hold up some, a log that is waited for holds up all. Answers how many were sent.
fn send_until_lines_are_lost(gateway: &Gateway) -> u64 {
    let long = "x".repeat(4000);
    let (mut client, mut sent) = (gateway.client(), 0);
    rig::eventually("200 requests in a row answered at once while lines are lost", || {
        let losing = lost(gateway) > 0;
        let mut slowest = Duration::ZERO;
        for _ in 0..200 {
            let start = Instant::now();
            assert_eq!(client.get(&format!("/{sent}/{long}")).status, 200);
            slowest = slowest.max(start.elapsed());
            sent += 1;
        }
        (losing && slowest < AT_ONCE).then_some(())
    });
    sent
}

/// Lines parse, and each is of a request of its own; how many they are.
fn count(lines: &str) -> u64 {
    assert!(lines.is_empty() || lines.ends_with('\n'), "a torn line at the end");
    let target = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        line["uri"].as_str().unwrap().to_owned()
    };
    let targets: Vec<String> = lines.lines().map(target).collect();
    assert_eq!(targets.iter().collect::<BTreeSet<_>>().len(), targets.len(), "a line is there twice");
    targets.len() as u64
}

/// Waits until `read` has every line that was not lost; after the end there is no further one.
fn every_line_is_there_or_counted(mut gateway: Gateway, sent: u64, mut read: impl FnMut() -> String) {
    let (mut lines, mut lost) = (0, 0);
    let all = rig::within(rig::PATIENCE, || {
        (lines, lost) = (read().matches('\n').count() as u64, self::lost(&gateway));
        (lines + lost >= sent).then_some(())
    });
    assert!(all.is_some(), "{lines} lines and {lost} lost of {sent}");
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit(), 0);
    assert_eq!(count(&read()) + lost, sent);
}

#[test]
fn u7_a_healthy_disk_loses_no_line_at_the_rate_this_machine_gives() {
    let origins: Vec<Origin> = ["a", "b"].map(rig::origin).into();
    let mut gateway = rig::gateway(POOL).origins(&origins).start();
    let load = rig::load(gateway.address()).clients(8).rate(1e6).asking(|n| Ask::get(&format!("/obj/{n}"))).start();
    load.further(2000);
    let tally = load.stop();
    tally.assert_all_good();
    assert_eq!(lost(&gateway), 0);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit(), 0);
    assert_eq!(count(&std::fs::read_to_string(gateway.path("access.log")).unwrap()), tally.sent());
}

#[test]
fn u7_a_fifo_without_a_reader_holds_up_no_request() {
    let a = rig::origin("a");
    let gateway = logging_to(&a, "$dir/pipe", fifo);
    let sent = send_until_lines_are_lost(&gateway);
    let mut options = File::options();
    let mut reader = options.read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(gateway.path("pipe")).unwrap();
    let mut lines = Vec::new();
    every_line_is_there_or_counted(gateway, sent, || {
        // Ends where there is nothing more for now.
        let _ = reader.read_to_end(&mut lines);
        String::from_utf8(lines.clone()).unwrap()
    });
}

#[test]
fn u7_a_reader_that_is_stopped_holds_up_no_request() {
    let a = rig::origin("a");
    let gateway = logging_to(&a, "$dir/pipe", fifo);
    let (output, errors) = (gateway.path("read"), gateway.path("errors"));
    let mut cat = Command::new("cat");
    cat.arg(gateway.path("pipe")).stdin(Stdio::null()).stdout(File::create(&output).unwrap());
    let reader = Process::start("reader", &mut cat, &errors);
    assert_eq!(gateway.get("/first").status, 200);
    let read = || std::fs::read_to_string(&output).unwrap();
    rig::eventually("the reader reads", || read().ends_with('\n').then_some(()));
    reader.signal(Signal::SIGSTOP);
    let sent = send_until_lines_are_lost(&gateway);
    reader.signal(Signal::SIGCONT);
    every_line_is_there_or_counted(gateway, sent + 1, read);
}

#[test]
fn u7_a_full_disk_holds_up_no_request() {
    // Where a test may mount nothing, a full device has to do.
    let Some(disk) = rig::disk(8 << 10) else { return a_full_device_holds_up_no_request() };
    let a = rig::origin("a");
    let log = disk.folder.join("access.log");
    let gateway = logging_to(&a, &log.to_string_lossy(), |_| disk.fill());
    let sent = send_until_lines_are_lost(&gateway);
    disk.clear();
    every_line_is_there_or_counted(gateway, sent, || std::fs::read_to_string(&log).unwrap());
}

#[test]
fn u7_a_full_device_holds_up_no_request_and_all_lines_are_counted() {
    a_full_device_holds_up_no_request();
}

fn a_full_device_holds_up_no_request() {
    let a = rig::origin("a");
    let mut gateway = logging_to(&a, "/dev/full", |_| ());
    let sent = send_until_lines_are_lost(&gateway);
    // The line of the last one is left a moment after its answer.
    rig::eventually("nobody is served", || {
        (gateway.metrics().sum("moorgate_requests_total", &[]) as u64 == sent).then_some(())
    });
    let lost = lost(&gateway);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.exit(), 0);
    let told = gateway.output();
    let at_exit = told.split(" lines were lost at exit").next().unwrap().rsplit(' ').next().unwrap();
    assert_eq!(lost + at_exit.parse::<u64>().unwrap_or_else(|_| panic!("{told}")), sent);
}

/// A reader of a pipe so slow that lines are lost, until it is told to hurry.
struct Slow {
    read: Arc<Mutex<Vec<u8>>>,
    hurry: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Slow {
    fn of(path: PathBuf) -> Self {
        let mut pipe = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).unwrap();
        let (read, [hurry, stop]) = (Arc::<Mutex<Vec<u8>>>::default(), [(); 2].map(|()| Arc::<AtomicBool>::default()));
        let (lines, hurries, stops) = (read.clone(), hurry.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut room = [0; 4096];
            while !stops.load(Relaxed) {
                // nothing for now is no error of the test
                let now = pipe.read(&mut room).unwrap_or(0);
                lines.lock().extend(&room[..now]);
                std::thread::sleep(Duration::from_millis(if hurries.load(Relaxed) { 0 } else { 20 }));
            }
        });
        Self { read, hurry, stop, thread: Some(thread) }
    }

    fn text(&self) -> String {
        String::from_utf8(self.read.lock().clone()).unwrap()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}

#[test]
fn u7_generations_that_share_a_slow_pipe_break_no_line_and_count_what_is_lost() {
    let a = rig::origin("a");
    let log = "{ path: $dir/pipe, format: json }";
    let setup = rig::gateway(POOL).origins([&a]).process("access_log", log).process("drain", "{ timeout: 500ms }");
    let gateway = setup.start_with(fifo);
    let reader = Slow::of(gateway.path("pipe"));
    let long = "x".repeat(1500);
    let load = rig::load(gateway.address()).clients(8).rate(400.0);
    let load = load.asking(move |n| Ask::get(&format!("/{n}/{long}"))).start();
    for _ in 0..rig::rounds(1) {
        let output = gateway.upgrade(&[]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let tally = load.stop();
    tally.assert_all_good();
    rig::eventually("those before have left", || (gateway.generations().len() == 1).then_some(()));
    reader.hurry.store(true, Relaxed);
    let (mut lines, mut lost) = (0, 0);
    let all = rig::within(rig::PATIENCE, || {
        (lines, lost) = (reader.text().matches('\n').count() as u64, self::lost(&gateway));
        (lines + lost >= tally.sent()).then_some(())
    });
    assert!(all.is_some(), "{lines} lines and {lost} lost of {}", tally.sent());
    assert_eq!(count(&reader.text()) + lost, tally.sent());
}
