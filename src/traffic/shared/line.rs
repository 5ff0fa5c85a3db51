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

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    use super::*;
    use crate::config::written::Written as _;

    /// What a server says, what two questions come to, and why the connection is lost.
    type Case<'a> = (&'a [u8], [Option<u64>; 2], &'a str);

    /// A server of the test's own, the connection to it, and where its questions come from.
    struct Scene {
        server: TcpStream,
        line: Line,
        asks: mpsc::Sender<Ask>,
        asked: mpsc::Receiver<Ask>,
    }

    async fn scene() -> Scene {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (socket, server) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), async {
            listener.accept().await.unwrap().0
        });
        let line = Line {
            socket: socket.unwrap(),
            script: b"5ca1ab1e".to_vec(),
            read: Vec::new(),
            out: Vec::new(),
            due: VecDeque::new(),
        };
        let (asks, asked) = mpsc::channel(16);
        Scene { server, line, asks, asked }
    }

    fn ask(key: &str) -> (Ask, oneshot::Receiver<u64>) {
        let (answer, answered) = oneshot::channel();
        (Ask { key: key.to_owned(), interval: 10, tolerance: 20, gives_back: false, answer }, answered)
    }

    /// How a question is put by the name of the script.
    fn question(key: &str) -> String {
        format!(
            "*7\r\n$7\r\nEVALSHA\r\n$8\r\n5ca1ab1e\r\n$1\r\n1\r\n$1\r\n{key}\r\n$2\r\n10\r\n$2\r\n20\r\n$3\r\nask\r\n"
        )
    }

    /// What the server hears next.
    async fn heard(server: &mut TcpStream, length: usize) -> String {
        let mut bytes = vec![0; length];
        timeout(SILENCE, server.read_exact(&mut bytes)).await.unwrap().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    /// Somebody who connects says these things, and hears these answers.
    async fn answer(listener: &TcpListener, talk: &[(&str, &str)]) {
        let mut server = listener.accept().await.unwrap().0;
        for (asked, answer) in talk {
            assert_eq!(heard(&mut server, asked.len()).await, *asked);
            server.write_all(answer.as_bytes()).await.unwrap();
        }
    }

    /// The server answers two questions with `bytes`, in pieces of `piece`, and is silent then: what they came to, and why
    /// the connection was lost.
    async fn answered(bytes: &[u8], piece: usize) -> ([Option<u64>; 2], io::Error) {
        let Scene { mut server, mut line, asks, mut asked } = scene().await;
        let [(first, one), (second, other)] = ["a", "b"].map(ask);
        asks.send(first).await.unwrap();
        asks.send(second).await.unwrap();
        let answers = async {
            let both = ["a", "b"].map(question).concat();
            assert_eq!(heard(&mut server, both.len()).await, both);
            for piece in bytes.chunks(piece) {
                // It is lost as soon as what came is no answer.
                if server.write_all(piece).await.is_err() {
                    return server;
                }
                tokio::task::yield_now().await;
            }
            server
        };
        let mut pause = AGAIN.1;
        let served = async {
            let lost = line.serve(&mut asked, &mut pause).await;
            drop(line);
            lost
        };
        let (lost, _server) = tokio::join!(served, answers);
        ([one.await.ok(), other.await.ok()], lost.unwrap_err())
    }

    #[tokio::test]
    async fn answers_are_handed_on_in_their_order_wherever_they_are_cut() {
        let bytes = b":7\r\n:0\r\n*\r\n";
        for piece in 1..=bytes.len() {
            let (answers, lost) = answered(bytes, piece).await;
            assert_eq!(answers, [Some(7), Some(0)], "pieces of {piece}");
            assert_ne!(lost.kind(), io::ErrorKind::UnexpectedEof, "{lost}");
        }
    }

    #[tokio::test]
    async fn who_waits_for_what_is_no_answer_learns_it_at_once() {
        let endless = [b":7\r\n+".as_slice(), &[b'x'; 80 << 10]].concat();
        let cases: [Case<'_>; 11] = [
            (b":7\r\n+OK\r\n", [Some(7), None], "an answer that is none"),
            (b":7\r\n$3\r\nabc\r\n", [Some(7), None], "an answer that is none"),
            (b":7\r\n$-1\r\n", [Some(7), None], "an answer that is none"),
            (b":7\r\n$99999999\r\n", [Some(7), None], "an answer that is none"),
            (b":7\r\n:many\r\n", [Some(7), None], "an answer that is none"),
            (b"HTTP/1.1 400 Bad Request\r\n", [None, None], "an answer that is none"),
            (b":7\r\n:8\r\n:9\r\n", [Some(7), Some(8)], "an answer that is none"),
            (b":7\r\n-OOM command not allowed\r\n", [Some(7), None], "OOM command not allowed"),
            (b"-READONLY no\r\n:8\r\n", [None, None], "READONLY no"),
            (&endless, [Some(7), None], "an answer that is none"),
            (b":-5\r\n:8\r\n*\r\n", [Some(0), Some(8)], "an answer that is none"),
        ];
        for (bytes, answers, why) in cases {
            let (found, lost) = answered(bytes, 4096).await;
            let said = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
            assert_eq!((found, lost.to_string()), (answers, why.to_owned()), "{said}");
        }
    }

    #[tokio::test]
    async fn a_server_that_forgot_its_scripts_gets_the_whole_text() {
        let Scene { mut server, mut line, asks, mut asked } = scene().await;
        let (first, answered) = ask("a");
        asks.send(first).await.unwrap();
        let talk = async {
            let known = question("a");
            assert_eq!(heard(&mut server, known.len()).await, known);
            server.write_all(b"-NOSCRIPT No matching script\r\n").await.unwrap();
            let whole = format!("*7\r\n$4\r\nEVAL\r\n${}\r\n{SCRIPT}\r\n", SCRIPT.len());
            assert_eq!(heard(&mut server, whole.len()).await, whole);
            let rest = question("a").split_once("5ca1ab1e\r\n").unwrap().1.to_owned();
            assert_eq!(heard(&mut server, rest.len()).await, rest);
            server.write_all(b":3\r\n").await.unwrap();
            drop(server);
        };
        let mut pause = AGAIN.1;
        let (lost, ()) = tokio::join!(line.serve(&mut asked, &mut pause), talk);
        assert_eq!((lost.unwrap_err().kind(), pause), (io::ErrorKind::UnexpectedEof, AGAIN.0));
        assert_eq!((answered.await, &*line.script), (Ok(3), &b"5ca1ab1e"[..]));
    }

    #[tokio::test]
    async fn what_it_wants_to_hear_first_is_said_and_a_no_is_the_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = RedisUrl::parse(&format!("redis://u:pw@{address}/3")).unwrap();
        let hello = "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$2\r\npw\r\n";
        let select = "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n";
        for said in ["+OK\r\n", "-WRONGPASS invalid\r\n"] {
            let load = format!("*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n{SCRIPT}\r\n", SCRIPT.len());
            // After a no it hears nothing more.
            let all = [(hello, said), (select, "+OK\r\n"), (&*load, "$4\r\nc0de\r\n")];
            let talk = if said.starts_with('-') { &all[..1] } else { &all[..] };
            let server = answer(&listener, talk);
            let (line, ()) = tokio::join!(Line::open(&url), server);
            match line {
                Ok(line) => assert_eq!((&*line.script, &said[..1]), (&b"c0de"[..], "+")),
                Err(error) => assert_eq!(error.to_string(), "WRONGPASS invalid"),
            }
        }
    }
}
