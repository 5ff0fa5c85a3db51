//! The connection to Redis: made anew whenever it is lost, for as long as somebody may ask.
//!
//! Questions are sent as they come, without waiting for the answers of those before; answers come in their order. Who
//! asks while it is not there, or when it breaks, learns it at once: the question is dropped.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Ask;
use super::outage::Outage;
use super::wire::{self, Reply};
use crate::config::redis_url::RedisUrl;

/// The count of one key: when it is even, in microseconds by the clock of Redis. The same arithmetic as here; a key goes
/// when it is even. Answers how long the request would have to wait, 0 if it is let in.
const SCRIPT: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local even = tonumber(redis.call('GET', KEYS[1]) or 0)
even = math.max(now, math.min(even, now + interval + tolerance))
if ARGV[3] == 'back' then
  even = even - interval
elseif even - now > tolerance then
  return even - now - tolerance
else
  even = even + interval
end
if even <= now then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], string.format('%.0f', even), 'PX', math.ceil((even - now) / 1000))
end
return 0";

/// For all that has to happen before it can be asked.
const CONNECT: Duration = Duration::from_secs(1);
/// Without any answer for so long while some are due, it is lost.
const SILENCE: Duration = Duration::from_secs(1);
/// Between two tries to connect.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Questions that go out together at most.
const TOGETHER: usize = 128;

/// A connection that can be asked.
struct Line {
    socket: TcpStream,
    /// What Redis calls the script; empty: its text is sent.
    script: Vec<u8>,
    read: Vec<u8>,
    /// What goes out next, and who is to hear of what went out.
    out: Vec<u8>,
    due: VecDeque<Ask>,
}

/// Answers `asks` until nobody can ask any more.
pub(super) async fn run(url: RedisUrl, mut asks: mpsc::Receiver<Ask>, outage: Arc<Outage>) {
    let mut pause = AGAIN.0;
    loop {
        let error = match timeout(CONNECT, Line::open(&url)).await {
            Ok(Ok(mut line)) => {
                outage.connected(Ok(()));
                match line.serve(&mut asks, &mut pause).await {
                    Ok(()) => return,
                    Err(error) => error,
                }
            }
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        outage.connected(Err(&error));
        tokio::select! {
            () = sleep(pause) => {}
            () = all_gone(&mut asks) => return,
        }
        pause = (pause * 2).min(AGAIN.1);
    }
}

/// Drops what is asked, until nobody can ask any more.
async fn all_gone(asks: &mut mpsc::Receiver<Ask>) {
    while asks.recv().await.is_some() {}
}

impl Line {
    async fn open(url: &RedisUrl) -> io::Result<Self> {
        let socket = TcpStream::connect((&*url.host, url.port)).await?;
        socket.set_nodelay(true)?;
        let mut line = Self { socket, script: Vec::new(), read: Vec::new(), out: Vec::new(), due: VecDeque::new() };
        match (&url.user, &url.password) {
            (Some(user), Some(secret)) => _ = line.call(&[b"AUTH", user.as_bytes(), secret.as_bytes()]).await?,
            (None, Some(secret)) => _ = line.call(&[b"AUTH", secret.as_bytes()]).await?,
            (_, None) => {}
        }
        if url.database > 0 {
            line.call(&[b"SELECT", url.database.to_string().as_bytes()]).await?;
        }
        match line.call(&[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()]).await? {
            Reply::Text(Some(script)) => line.script = script,
            _ => return Err(garbled()),
        }
        Ok(line)
    }

    /// Says one thing, and hears the answer.
    async fn call(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        let mut out = Vec::new();
        wire::command(words, &mut out);
        self.socket.write_all(&out).await?;
        loop {
            match self.next()? {
                Some(Reply::Error(why)) => return Err(io::Error::other(why)),
                Some(reply) => return Ok(reply),
                None => self.hear().await?,
            }
        }
    }

    /// Reads what comes.
    async fn hear(&mut self) -> io::Result<()> {
        match self.socket.read_buf(&mut self.read).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// The next answer that is there.
    fn next(&mut self) -> io::Result<Option<Reply>> {
        let Some((reply, used)) = wire::reply(&self.read).map_err(|_| garbled())? else { return Ok(None) };
        self.read.drain(..used);
        Ok(Some(reply))
    }

    /// Asks until nobody can ask any more. Once something was answered, `pause` is short again.
    ///
    /// # Errors
    /// The connection is lost.
    async fn serve(&mut self, asks: &mut mpsc::Receiver<Ask>, pause: &mut Duration) -> io::Result<()> {
        let mut batch = Vec::with_capacity(TOGETHER);
        let mut patience = Instant::now() + SILENCE;
        loop {
            tokio::select! {
                count = asks.recv_many(&mut batch, TOGETHER) => {
                    if count == 0 {
                        return Ok(());
                    }
                    if self.due.is_empty() {
                        patience = Instant::now() + SILENCE;
                    }
                    batch.drain(..).for_each(|ask| self.put(ask));
                }
                heard = timeout_at(patience, self.hear()) => {
                    match heard {
                        Ok(heard) => heard?,
                        Err(silent) if !self.due.is_empty() => return Err(silent.into()),
                        Err(_) => {}
                    }
                    patience = Instant::now() + SILENCE;
                    if self.answer()? {
                        *pause = AGAIN.0;
                    }
                }
            }
            if !self.out.is_empty() {
                timeout(SILENCE, self.socket.write_all(&self.out)).await??;
                self.out.clear();
            }
        }
    }

    /// Writes a question down.
    fn put(&mut self, ask: Ask) {
        let (interval, tolerance) = (ask.interval.to_string(), ask.tolerance.to_string());
        let way: &[u8] = if ask.gives_back { b"back" } else { b"ask" };
        let (how, script): (&[u8], &[u8]) = match &*self.script {
            [] => (b"EVAL", SCRIPT.as_bytes()),
            known => (b"EVALSHA", known),
        };
        let words = [how, script, b"1", ask.key.as_bytes(), interval.as_bytes(), tolerance.as_bytes(), way];
        wire::command(&words, &mut self.out);
        self.due.push_back(ask);
    }

    /// Hands on what was answered; was anything?
    fn answer(&mut self) -> io::Result<bool> {
        let mut answered = false;
        while let Some(reply) = self.next()? {
            let ask = self.due.pop_front().ok_or_else(garbled)?;
            match reply {
                Reply::Number(wait) => {
                    answered = true;
                    // Whoever does not wait any more has decided by itself.
                    let _ = ask.answer.send(wait.max(0).unsigned_abs());
                }
                // Somebody made it forget its scripts: with the whole text it has this one again.
                Reply::Error(why) if why.starts_with("NOSCRIPT") => {
                    let known = std::mem::take(&mut self.script);
                    self.put(ask);
                    self.script = known;
                }
                Reply::Error(why) => return Err(io::Error::other(why)),
                Reply::Text(_) => return Err(garbled()),
            }
        }
        Ok(answered)
    }
}

fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer that is none")
}
