//! What the process says of itself: one line an event, on standard error.
//!
//! A line never waits: when whoever reads standard error has stopped, lines are dropped and their number is told as
//! soon as it reads again, so that a blocked log collector cannot hold up requests. Pingora speaks below `warn` for
//! developers of Pingora, and logs each failed request, which is what the access log is for.

use std::io::{self, Write};
use std::os::fd::AsFd;

use jiff::Timestamp;
use log::{LevelFilter, Record, SetLoggerError};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::text;
use crate::config::process::{Log, LogFormat};

/// Targets that write a line for what a client or an origin does; only heard from `debug` on.
const CHATTY: &[&str] = &[
    "pingora_proxy",
    "pingora_core::apps",
    "pingora_core::connectors",
    "pingora_core::protocols",
    "pingora_core::services",
];

/// Sends everything that is logged to standard error. May be called once in a process.
pub fn init(settings: Log) -> Result<(), SetLoggerError> {
    builder(settings).target(env_logger::Target::Pipe(Box::new(Stderr::default()))).try_init()
}

fn builder(settings: Log) -> env_logger::Builder {
    let mut builder = env_logger::Builder::new();
    let warn = settings.level.min(LevelFilter::Warn);
    let chatty = if settings.level >= LevelFilter::Debug { warn } else { LevelFilter::Off };
    builder.filter_level(settings.level).filter_module("pingora", warn);
    CHATTY.iter().for_each(|target| {
        builder.filter_module(target, chatty);
    });
    builder.format(move |out, record| {
        let mut line = Vec::new();
        match settings.format {
            LogFormat::Text => plain(record, Timestamp::now(), &mut line),
            LogFormat::Json => json(record, Timestamp::now(), &mut line),
        }
        out.write_all(&line)
    });
    builder
}

/// `2026-11-29T20:35:01.042Z INFO  message`; of other crates with their name before the message.
fn plain(record: &Record<'_>, now: Timestamp, out: &mut Vec<u8>) {
    text::display(format_args!("{now:.3} {:<5} ", record.level()), out);
    if !is_ours(record.target()) {
        text::display(format_args!("{}: ", record.target()), out);
    }
    // A line of a client's own making must not look like two of ours.
    for character in record.args().to_string().chars() {
        if character.is_control() {
            text::display(character.escape_default(), out);
        } else {
            text::display(character, out);
        }
    }
    out.push(b'\n');
}

fn json(record: &Record<'_>, now: Timestamp, out: &mut Vec<u8>) {
    text::display(format_args!("{{\"time\":\"{now:.3}\",\"level\":\""), out);
    out.extend(record.level().as_str().bytes().map(|byte| byte.to_ascii_lowercase()));
    out.extend_from_slice(b"\",\"target\":");
    text::json(record.target().as_bytes(), out);
    out.extend_from_slice(b",\"message\":");
    text::json(record.args().to_string().as_bytes(), out);
    out.extend_from_slice(b"}\n");
}

fn is_ours(target: &str) -> bool {
    target.split("::").next() == Some(env!("CARGO_PKG_NAME"))
}

/// Standard error, dropping lines rather than waiting for its reader.
#[derive(Default)]
struct Stderr {
    dropped: u64,
}

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let stderr = io::stderr();
        if !ready(&stderr) {
            self.dropped += 1;
            return Ok(line.len());
        }
        let mut stderr = stderr.lock();
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            writeln!(stderr, "({dropped} lines before this one were dropped: nobody read them)")?;
        }
        stderr.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Would a line go out at once? A pipe is ready when it takes 4 KiB.
fn ready(stderr: &io::Stderr) -> bool {
    let mut fds = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use log::{Level, Log as _, Metadata};

    use super::*;

    fn heard(level: LevelFilter, target: &str, said: Level) -> bool {
        let logger = builder(Log { level, format: LogFormat::Text }).build();
        logger.enabled(&Metadata::builder().target(target).level(said).build())
    }

    fn line(write: fn(&Record<'_>, Timestamp, &mut Vec<u8>), target: &str, message: &str) -> String {
        let mut out = Vec::new();
        let now = Timestamp::from_millisecond(1_795_984_501_042).unwrap();
        let args = format_args!("{message}");
        write(&Record::builder().level(Level::Info).target(target).args(args).build(), now, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn pingora_is_heard_from_warn_up_and_not_about_single_requests() {
        assert!(heard(LevelFilter::Info, "moorgate::lifecycle", Level::Info));
        assert!(!heard(LevelFilter::Info, "moorgate::lifecycle", Level::Debug));
        assert!(heard(LevelFilter::Info, "pingora_core::server", Level::Warn));
        assert!(!heard(LevelFilter::Info, "pingora_core::server", Level::Info));
        assert!(!heard(LevelFilter::Error, "pingora_core::server", Level::Warn));
        for target in ["pingora_proxy", "pingora_proxy::proxy_h1", "pingora_core::services::listening"] {
            assert!(!heard(LevelFilter::Info, target, Level::Error), "{target}");
            assert!(heard(LevelFilter::Debug, target, Level::Warn), "{target}");
            assert!(!heard(LevelFilter::Trace, target, Level::Info), "{target}");
        }
    }

    #[test]
    fn a_text_line_is_one_line() {
        assert_eq!(line(plain, "moorgate::x", "tür\nzu"), "2026-11-29T20:35:01.042Z INFO  tür\\nzu\n");
        assert_eq!(line(plain, "h2", "m"), "2026-11-29T20:35:01.042Z INFO  h2: m\n");
        assert_eq!(line(plain, "moorgate_like", "m"), "2026-11-29T20:35:01.042Z INFO  moorgate_like: m\n");
    }

    #[test]
    fn a_json_line_parses() {
        let read: serde_json::Value = serde_json::from_str(&line(json, "moorgate::x", "a\"b\n")).unwrap();
        let expected = serde_json::json!({
            "time": "2026-11-29T20:35:01.042Z", "level": "info", "target": "moorgate::x", "message": "a\"b\n",
        });
        assert_eq!(read, expected);
    }
}
