//! How is a collector spoken to? OTLP over HTTP/1.1, on one connection that is kept.
//!
//! A client of our own, since Pingora's is the data plane's and a second one would be most of what tracing costs. It asks one
//! thing at a time and reads nothing of an answer but its status, when to come again, and a body of known length.

use std::fmt;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use openssl::error::ErrorStack;
use openssl::ssl::{SslConnector, SslMethod};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_openssl::SslStream;

use crate::config::tracing::{Endpoint, Otlp};

/// Bytes of an answer at most.
const ANSWER: usize = 64 << 10;

/// Header lines of an answer at most.
const LINES: usize = 64;

/// A collector, and the connection to it if there is one.
pub(super) struct Collector {
    endpoint: Endpoint,
    /// The header of every message up to its length.
    head: Vec<u8>,
    tls: Option<SslConnector>,
    timeout: Duration,
    line: Option<Box<dyn Line>>,
}

/// What the collector says to a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// When it wants to be asked again.
    pub(super) wait: Option<Duration>,
    /// Empty when its length is not known beforehand.
    pub(super) body: Vec<u8>,
    /// The connection can be asked again.
    keeps: bool,
    /// It was said before the message was out.
    early: bool,
}

trait Line: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Line for T {}

impl Collector {
    pub(super) fn new(written: &Otlp) -> Result<Self, ErrorStack> {
        let endpoint = written.endpoint.clone();
        let tls = endpoint.tls.then(|| SslConnector::builder(SslMethod::tls_client())).transpose()?;
        let mut head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: moorgate/{}\r\nContent-Type: application/x-protobuf\r\n",
            endpoint.path,
            endpoint.authority(),
            env!("CARGO_PKG_VERSION"),
        )
        .into_bytes();
        for (name, value) in &written.headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"Content-Length: ");
        let (tls, timeout) = (tls.map(|tls| tls.build()), written.timeout.0);
        Ok(Self { endpoint, head, tls, timeout, line: None })
    }

    /// Sends a message and hears what is said to it.
    ///
    /// # Errors
    /// It was not answered.
    pub(super) async fn send(&mut self, message: &[u8]) -> io::Result<Reply> {
        let limit = self.timeout;
        match timeout(limit, self.ask(message)).await {
            Ok(reply) => reply,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {limit:?}"))),
        }
    }

    async fn ask(&mut self, message: &[u8]) -> io::Result<Reply> {
        // Taken out: whatever interrupts this leaves no line behind that owes an answer.
        if let Some(mut line) = self.line.take()
            && let Ok(reply) = self.exchange(&mut line, message).await
            // what was there already, or speaks of a request that took too long, is about its having idled
            && !(reply.early || reply.status == 408)
        {
            self.line = reply.keeps.then_some(line);
            return Ok(reply);
        }
        // None, or one that was closed meanwhile.
        let mut line = self.connect().await?;
        let reply = self.exchange(&mut line, message).await?;
        self.line = reply.keeps.then_some(line);
        Ok(reply)
    }

    async fn connect(&self) -> io::Result<Box<dyn Line>> {
        let host = &self.endpoint.host;
        let socket = self.reach().await?;
        socket.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(socket)) };
        let mut stream = SslStream::new(tls.configure()?.into_ssl(host)?, socket)?;
        Pin::new(&mut stream).connect().await.map_err(io::Error::other)?;
        Ok(Box::new(stream))
    }

    /// Each of its addresses in turn, and no longer than its part of the time: one may lead nowhere.
    async fn reach(&self) -> io::Result<TcpStream> {
        let addresses: Vec<_> = lookup_host((self.endpoint.host.as_str(), self.endpoint.port)).await?.collect();
        let patience = self.timeout / u32::try_from(addresses.len() + 1).unwrap_or(u32::MAX);
        let mut why = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
        for address in addresses {
            match timeout(patience, TcpStream::connect(address)).await {
                Ok(Ok(socket)) => return Ok(socket),
                Ok(Err(error)) => why = error,
                Err(_) => why = io::Error::new(io::ErrorKind::TimedOut, format!("{address} does not answer")),
            }
        }
        Err(why)
    }

    /// Hears while it speaks: who does not want the message may say so and close before it is out.
    async fn exchange(&self, line: &mut Box<dyn Line>, message: &[u8]) -> io::Result<Reply> {
        let head = [&*self.head, format!("{}\r\n\r\n", message.len()).as_bytes()].concat();
        let (mut from, mut to) = tokio::io::split(line);
        let mut hears = pin!(read(&mut from));
        let sent = tokio::select! {
            biased;
            reply = &mut hears => return reply.map(|reply| Reply { keeps: false, early: true, ..reply }),
            sent = async {
                to.write_all(&head).await?;
                to.write_all(message).await?;
                to.flush().await
            } => sent,
        };
        let reply = hears.await;
        match sent {
            Ok(()) => reply,
            Err(error) => reply.map_err(|_| error).map(|reply| Reply { keeps: false, ..reply }),
        }
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.endpoint.fmt(f)
    }
}

/// Reads an answer, past those that are none yet.
async fn read(line: &mut (impl AsyncRead + Unpin)) -> io::Result<Reply> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if let Some((mut reply, length, used)) = header(&bytes)? {
            bytes.drain(..used);
            if reply.status < 200 {
                continue;
            }
            let length = length.filter(|length| *length <= ANSWER);
            reply.keeps &= length.is_some();
            while bytes.len() < length.unwrap_or_default() {
                more(line, &mut bytes).await?;
            }
            // nobody asked for what comes behind it
            reply.keeps &= bytes.len() <= length.unwrap_or_default();
            bytes.truncate(length.unwrap_or_default());
            return Ok(Reply { body: bytes, ..reply });
        }
        if bytes.len() > ANSWER {
            return Err(garbled());
        }
        more(line, &mut bytes).await?;
    }
}

async fn more(line: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> io::Result<()> {
    match line.read_buf(bytes).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// The header at the start of `bytes` if it is whole: what it says, how long its body is, and how long it is itself.
fn header(bytes: &[u8]) -> io::Result<Option<(Reply, Option<usize>, usize)>> {
    let mut lines = [httparse::EMPTY_HEADER; LINES];
    let mut parsed = httparse::Response::new(&mut lines);
    let httparse::Status::Complete(used) = parsed.parse(bytes).map_err(|_| garbled())? else { return Ok(None) };
    let find = |name: &str| {
        let line = parsed.headers.iter().find(|line| line.name.eq_ignore_ascii_case(name));
        line.and_then(|line| std::str::from_utf8(line.value).ok()).map(str::trim)
    };
    let closes = find("connection").is_some_and(|said| said.eq_ignore_ascii_case("close"));
    let (status, keeps) = (parsed.code.unwrap_or_default(), parsed.version == Some(1) && !closes);
    let wait = find("retry-after").and_then(|seconds| seconds.parse().ok()).map(Duration::from_secs);
    let length = match find("transfer-encoding") {
        Some(_) => None,
        None if status == 204 => Some(0),
        None => find("content-length").and_then(|length| length.parse().ok()),
    };
    Ok(Some((Reply { status, wait, keeps, ..Reply::default() }, length, used)))
}

fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an answer that is none")
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    async fn heard(answer: &str) -> io::Result<Reply> {
        read(&mut answer.as_bytes()).await
    }

    #[tokio::test]
    async fn an_answer_is_read_as_far_as_it_matters() {
        let reply =
            heard("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc").await.unwrap();
        assert_eq!(reply, Reply { status: 200, body: b"abc".to_vec(), keeps: true, ..Reply::default() });
        let more = heard("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcd").await.unwrap();
        assert_eq!((more.body, more.keeps), (b"abc".to_vec(), false), "what nobody asked for ends the connection");
        let busy = heard("HTTP/1.1 503 Busy\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        assert_eq!((busy.status, busy.wait, busy.keeps), (503, Some(Duration::from_secs(2)), true));
        for last in [
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        ] {
            let reply = heard(last).await.unwrap();
            assert_eq!((reply.status, reply.keeps, reply.body.len()), (200, false, 0), "{last}");
        }
    }

    #[tokio::test]
    async fn what_is_no_answer_is_an_error() {
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "x".repeat(ANSWER + 1));
        for wrong in ["", "HTTP/1.1 200", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", &endless] {
            assert!(heard(wrong).await.is_err(), "{}", &wrong[..wrong.len().min(40)]);
        }
    }

    fn collector(port: u16) -> Collector {
        let text = format!("{{ endpoint: \"http://127.0.0.1:{port}\" }}");
        Collector::new(&serde_yaml::from_str(&text).unwrap()).unwrap()
    }

    const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    /// Far more than the socket holds.
    const LARGE: usize = 64 << 20;

    #[tokio::test]
    async fn who_does_not_want_a_message_is_heard_before_it_is_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut collector = collector(listener.local_addr().unwrap().port());
        let peer = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut some = [0; 1000];
            socket.read_exact(&mut some).await.unwrap();
            socket.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        });
        let reply = collector.send(&vec![b'x'; LARGE]).await.unwrap();
        assert_eq!((reply.status, reply.keeps, collector.line.is_some()), (413, false, false));
        peer.await.unwrap();
    }

    #[tokio::test]
    async fn what_is_said_of_an_idle_connection_is_no_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut collector = collector(listener.local_addr().unwrap().port());
        let peer = tokio::spawn(async move {
            let mut some = [0; 1000];
            let (mut first, _) = listener.accept().await.unwrap();
            let _ = first.read(&mut some).await.unwrap();
            let idled = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";
            first.write_all(FINE.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
            first.write_all(idled.as_bytes()).await.unwrap();
            let (mut second, _) = listener.accept().await.unwrap();
            let _ = second.read(&mut some).await.unwrap();
            second.write_all(FINE.as_bytes()).await.unwrap();
            (first, second)
        });
        for _ in 0..2 {
            assert_eq!(collector.send(b"spans").await.unwrap().status, 200);
        }
        peer.await.unwrap();
    }
}
