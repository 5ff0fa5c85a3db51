//! One line a request, written off the data path.
//!
//! A shard renders its line into a buffer of its own; the writer's thread takes buffers away at 64 KiB or once a
//! second. Always holds: a request never waits for the sink (the only lock on its way is held elsewhere for a swap
//! of two pointers), a line is written whole or not at all, and a line that is lost is counted.

mod clock;
mod format;
mod json;
mod nginx;
#[cfg(test)]
pub(in crate::observe) mod sample;
mod sink;
mod template;
mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use parking_lot::Mutex;

use super::{Metrics, Record};
use crate::config::process;
use clock::Clock;
pub use format::Format;
use sink::Sink;
pub use template::value;
use writer::{Orders, Writer};

/// What a shard holds before it wakes the writer.
const WAKE: usize = 64 * 1024;

/// What all shards together hold at most, shared out: some 200 ms of 20,000 JSON lines a second. More would only
/// hide a sink that is stuck.
const ROOM: usize = 2 * 1024 * 1024;

/// The least and the most a shard holds of it.
const SHARE: (usize, usize) = (256 * 1024, 1024 * 1024);

/// How long the writer may take at exit: with its grace a second in all (rule U7).
pub const FAREWELL: Duration = Duration::from_millis(900);

/// What the writer gets beyond its deadline to notice it and to count what is lost.
const GRACE: Duration = Duration::from_millis(100);

/// Why the access log cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The sink cannot be opened.
    #[error("access log {path}: {cause}")]
    Sink {
        /// What was to be opened.
        path: String,
        /// Why not.
        cause: io::Error,
    },
    /// The writer's thread cannot be started.
    #[error("access log: no thread to write it: {0}")]
    Thread(io::Error),
}

/// The access log of the process, switched off or on.
pub struct AccessLog(Option<Open>);

struct Open {
    shards: Vec<Arc<Shard>>,
    orders: Arc<Orders>,
    writer: Thread,
}

/// Where one shard of the data plane leaves its lines.
pub struct Shard(Option<Lines>);

struct Lines {
    buffer: Arc<Mutex<Buffer>>,
    format: Format,
    metrics: Metrics,
    writer: Thread,
    room: usize,
}

/// Whole lines that nobody has taken yet.
struct Buffer {
    lines: Vec<u8>,
    clock: Clock,
    /// The writer was woken for what is here.
    woken: bool,
}

impl Buffer {
    fn new(zone: TimeZone) -> Self {
        Self { lines: Vec::new(), clock: Clock::new(zone), woken: false }
    }

    /// Gives its lines away for an empty buffer, unless they are less than `least` bytes.
    fn give(&mut self, least: usize, empty: &mut Vec<u8>) {
        if self.lines.len() >= least {
            std::mem::swap(&mut self.lines, empty);
            self.woken = false;
        }
    }
}

impl AccessLog {
    /// An access log that takes lines and keeps none.
    pub fn off() -> Self {
        Self(None)
    }

    /// Opens the sink and starts the writer.
    pub fn open(path: &process::Sink, format: &Format, shards: usize, metrics: &Metrics) -> Result<Self, OpenError> {
        let sink = Sink::open(path).map_err(|cause| OpenError::Sink { path: name(path), cause })?;
        let zone = zone();
        let buffers: Vec<_> = (0..shards.max(1)).map(|_| Arc::new(Mutex::new(Buffer::new(zone.clone())))).collect();
        let orders = Arc::new(Orders::default());
        let writer = Writer::new(sink, buffers.clone(), Arc::clone(&orders), metrics.clone());
        let thread = thread::Builder::new().name("access-log".into()).spawn(|| writer.run());
        let writer = thread.map_err(OpenError::Thread)?.thread().clone();
        let room = (ROOM / buffers.len()).clamp(SHARE.0, SHARE.1);
        let shard = |buffer| {
            let (format, metrics, writer) = (format.clone(), metrics.clone(), writer.clone());
            Arc::new(Shard(Some(Lines { buffer, format, metrics, writer, room })))
        };
        let shards = buffers.into_iter().map(shard).collect();
        Ok(Self(Some(Open { shards, orders, writer })))
    }

    /// The place of the shard with this number; one beyond the last shares another's.
    pub fn shard(&self, number: usize) -> Arc<Shard> {
        match &self.0 {
            Some(open) => Arc::clone(&open.shards[number % open.shards.len()]),
            None => Arc::new(Shard(None)),
        }
    }

    /// Opens the file of this name anew, soon: after its lines so far went to the old one.
    pub fn reopen(&self) {
        if let Some(open) = &self.0 {
            open.orders.reopen.store(true, Relaxed);
            open.writer.unpark();
        }
    }

    /// Writes out what there is and ends the writer; waits for that at most `patience`. Lines that come later are
    /// lost.
    #[allow(clippy::disallowed_methods, reason = "an adapter: the deadline of another thread")]
    pub fn close(&self, patience: Duration) {
        let Some(open) = &self.0 else { return };
        *open.orders.close.lock() = Some(Instant::now() + patience);
        open.writer.unpark();
        let mut closed = open.orders.closed.lock();
        if !*closed {
            open.orders.ended.wait_for(&mut closed, patience + GRACE);
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.close(FAREWELL);
    }
}

impl Shard {
    /// Leaves the line of a finished request, or counts it as lost when there is no room.
    pub fn write(&self, record: &Record<'_>) {
        let Some(own) = &self.0 else { return };
        let mut buffer = own.buffer.lock();
        let Buffer { lines, clock, woken } = &mut *buffer;
        let before = lines.len();
        if before < own.room {
            own.format.line(record, clock, lines);
        }
        if before >= own.room || lines.len() > own.room {
            lines.truncate(before);
            drop(buffer);
            return own.metrics.access_log_dropped(1);
        }
        let wake = lines.len() >= WAKE && !std::mem::replace(woken, true);
        drop(buffer);
        if wake {
            own.writer.unpark();
        }
    }
}

/// The zone of the machine, or of `TZ`.
fn zone() -> TimeZone {
    TimeZone::try_system().unwrap_or_else(|error| {
        log::warn!("access log: local times are UTC: {error}");
        TimeZone::UTC
    })
}

fn name(path: &process::Sink) -> String {
    match path {
        process::Sink::Stdout => "on standard output".into(),
        process::Sink::Stderr => "on standard error".into(),
        process::Sink::File(path) => path.display().to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "deadlines of waits")]
mod tests {
    use std::fs::{self, File};
    use std::io::{BufRead, BufReader, Read};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;

    use super::*;
    use crate::config::process::{AccessFormat, Sink as Written};

    /// A log to `path` with one shard, and the metrics it counts its losses in.
    fn open(path: &Path) -> (AccessLog, Metrics) {
        let metrics = Metrics::new().unwrap();
        let format = Format::compile(&AccessFormat::Json).unwrap();
        (AccessLog::open(&Written::File(path.into()), &format, 1, &metrics).unwrap(), metrics)
    }

    /// Leaves `count` lines with running request ids in a shard.
    fn leave(log: &AccessLog, shard: usize, from: usize, count: usize) {
        let shard = log.shard(shard);
        sample::with(|record| {
            for number in from..from + count {
                let id = format!("{number:032}");
                shard.write(&Record { request_id: &id, ..*record });
            }
        });
    }

    /// The request ids of all lines; every line has to parse.
    fn ids(text: &str) -> Vec<usize> {
        assert!(text.is_empty() || text.ends_with('\n'), "a torn line at the end");
        let id =
            |line| serde_json::from_str::<serde_json::Value>(line).unwrap()["request_id"].as_str().unwrap().parse();
        text.lines().map(|line| id(line).unwrap()).collect()
    }

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < deadline, "not in time: {what}");
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Leaves lines until one is lost, and says how many it left; none may take long.
    fn leave_until_lost(log: &AccessLog, metrics: &Metrics) -> usize {
        let mut left = 0;
        while metrics.access_log_lost() == 0 {
            let before = Instant::now();
            leave(log, 0, left, 1);
            assert!(before.elapsed() < Duration::from_millis(200), "a request had to wait");
            left += 1;
            assert!(left < 1_000_000);
        }
        left
    }

    fn fifo() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        (folder, path)
    }

    #[test]
    fn lines_are_in_the_file_within_a_second_or_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (log, _) = open(&path);
        leave(&log, 0, 0, 3);
        until("three lines", || ids(&fs::read_to_string(&path).unwrap()) == [0, 1, 2]);
    }

    #[test]
    fn closing_writes_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (log, metrics) = open(&path);
        leave(&log, 0, 0, 1000);
        log.close(Duration::from_secs(20));
        assert_eq!(ids(&fs::read_to_string(&path).unwrap()), (0..1000).collect::<Vec<_>>());
        assert_eq!(metrics.access_log_lost(), 0);
    }

    #[test]
    fn twenty_thousand_lines_a_second_lose_none_on_a_healthy_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let metrics = Metrics::new().unwrap();
        let format = Format::compile(&AccessFormat::Json).unwrap();
        let log = AccessLog::open(&Written::File(path.clone()), &format, 2, &metrics).unwrap();
        // Two shards for three seconds, a hundred lines each every ten milliseconds.
        let serve = |shard| {
            for batch in 0..300 {
                leave(&log, shard, shard * 30_000 + batch * 100, 100);
                thread::park_timeout(Duration::from_millis(10));
            }
        };
        thread::scope(|scope| (0..2).for_each(|shard| drop(scope.spawn(move || serve(shard)))));
        log.close(Duration::from_secs(20));
        assert_eq!(metrics.access_log_lost(), 0);
        let mut ids = ids(&fs::read_to_string(&path).unwrap());
        ids.sort_unstable();
        assert_eq!(ids, (0..60_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_fifo_nobody_reads_delays_no_request_and_what_is_lost_is_counted() {
        let (_folder, path) = fifo();
        let (log, metrics) = open(&path);
        let left = leave_until_lost(&log, &metrics);
        let reader = thread::spawn(move || {
            let mut text = String::new();
            File::open(path).unwrap().read_to_string(&mut text).unwrap();
            text
        });
        log.close(Duration::from_secs(20));
        drop(log);
        let read = ids(&reader.join().unwrap());
        assert_eq!(read.len() as u64 + metrics.access_log_lost(), left as u64);
    }

    #[test]
    fn a_reader_that_stops_delays_no_request_and_gets_whole_lines_when_it_goes_on() {
        let (_folder, path) = fifo();
        let (log, metrics) = open(&path);
        let mut reader = BufReader::new(File::open(&path).unwrap());
        leave(&log, 0, 0, 1);
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        assert_eq!(ids(&first), [0]);
        let left = leave_until_lost(&log, &metrics);
        let rest = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        log.close(Duration::from_secs(20));
        drop(log);
        assert_eq!(ids(&rest.join().unwrap()).len() as u64 + metrics.access_log_lost(), left as u64);
    }

    #[test]
    fn a_reader_that_is_slow_to_the_end_is_not_waited_for_and_what_it_did_not_get_is_counted() {
        let (_folder, path) = fifo();
        let (log, metrics) = open(&path);
        let mut pipe = File::open(&path).unwrap();
        let reader = thread::spawn(move || {
            let (mut text, mut room) = (Vec::new(), [0; 4096]);
            loop {
                match pipe.read(&mut room).unwrap() {
                    0 => return String::from_utf8(text).unwrap(),
                    some => text.extend(&room[..some]),
                }
                thread::park_timeout(Duration::from_millis(20));
            }
        });
        let left = 1500;
        leave(&log, 0, 0, left);
        let before = Instant::now();
        log.close(FAREWELL);
        let (took, lost) = (before.elapsed(), metrics.access_log_lost());
        assert!(took < Duration::from_millis(1500), "{took:?}");
        drop(log);
        assert!(lost > 0, "that was no slow reader");
        assert_eq!(ids(&reader.join().unwrap()).len() as u64 + lost, left as u64);
    }

    #[test]
    fn a_full_device_delays_no_request_and_leaving_takes_a_second_at_most() {
        let (log, metrics) = open(Path::new("/dev/full"));
        let left = leave_until_lost(&log, &metrics);
        let before = Instant::now();
        log.close(FAREWELL);
        assert!(before.elapsed() < Duration::from_millis(1500));
        assert_eq!(metrics.access_log_lost(), left as u64);
    }

    #[test]
    fn a_full_file_system_tears_no_line_and_is_written_again_when_there_is_room() {
        let Some((mut holder, folder)) = small_tmpfs() else {
            eprintln!("no user namespaces here: nothing to test on");
            return;
        };
        let (path, ballast) = (folder.join("log"), folder.join("ballast"));
        fs::write(&ballast, vec![b'x'; 32 * 1024]).unwrap();
        let (log, metrics) = open(&path);
        leave(&log, 0, 0, 100);
        until("a full disk", || fs::metadata(&path).unwrap().len() >= 32 * 1024);
        fs::remove_file(&ballast).unwrap();
        log.close(Duration::from_secs(20));
        assert_eq!(ids(&fs::read_to_string(&path).unwrap()), (0..100).collect::<Vec<_>>());
        assert_eq!(metrics.access_log_lost(), 0);
        drop(log);
        holder.kill().unwrap();
        holder.wait().unwrap();
    }

    /// A file system of 64 KiB in a namespace of its own, kept by a child and reached through `/proc`.
    fn small_tmpfs() -> Option<(Child, std::path::PathBuf)> {
        let script = "mount -t tmpfs -o size=64k none /mnt && echo up && exec sleep 60";
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut said = String::new();
        BufReader::new(holder.stdout.take()?).read_line(&mut said).ok()?;
        let folder = format!("/proc/{}/root/mnt", holder.id());
        if said == "up\n" && fs::write(format!("{folder}/probe"), "").is_ok() {
            return Some((holder, folder.into()));
        }
        holder.kill().ok()?;
        holder.wait().ok()?;
        None
    }

    #[test]
    fn a_line_that_is_torn_when_the_file_is_opened_anew_is_lost_as_a_whole() {
        let (folder, path) = fifo();
        let (log, metrics) = open(&path);
        let shard = log.shard(0);
        let long = "k".repeat(200_000);
        sample::with(|record| shard.write(&Record { key: Some(long.as_bytes()), ..*record }));
        leave(&log, 0, 1, 1);
        let mut reader = File::open(&path).unwrap();
        let mut start = [0; 1];
        reader.read_exact(&mut start).unwrap();
        fs::rename(&path, folder.path().join("old")).unwrap();
        log.reopen();
        until("the new file", || fs::read_to_string(&path).is_ok_and(|text| !text.is_empty()));
        log.close(Duration::from_secs(20));
        assert_eq!(ids(&fs::read_to_string(&path).unwrap()), [1]);
        assert_eq!(metrics.access_log_lost(), 1);
    }

    #[test]
    fn after_a_reopen_lines_go_to_the_new_file_and_the_old_has_all_before() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
        let (log, _) = open(&path);
        leave(&log, 0, 0, 10);
        fs::rename(&path, &moved).unwrap();
        log.reopen();
        until("the new file", || path.exists());
        leave(&log, 0, 10, 10);
        log.close(Duration::from_secs(20));
        assert_eq!(ids(&fs::read_to_string(&moved).unwrap()), (0..10).collect::<Vec<_>>());
        assert_eq!(ids(&fs::read_to_string(&path).unwrap()), (10..20).collect::<Vec<_>>());
    }

    #[test]
    fn a_log_that_is_off_takes_lines() {
        let log = AccessLog::off();
        leave(&log, 0, 0, 1);
        log.reopen();
        log.close(FAREWELL);
    }
}
