//! One HTTP/1 connection: requests are read, recorded and handed to their steps, one after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::body::{Incoming, Use};
use crate::h2c;
use crate::perform;
use crate::script::{Amount, Body, Close, Request, Step};
use crate::stage::Stage;

const HEADERS_AT_MOST: usize = 512;
const HEAD_AT_MOST: usize = 1 << 20;
/// How long a closed connection is read on, so that unread bytes do not turn our FIN into a RST.
const LINGER: Duration = Duration::from_secs(2);

/// A connection and what was read of it.
pub(crate) struct Client {
    pub(crate) io: TcpStream,
    pub(crate) stage: Arc<Stage>,
    pub(crate) id: u64,
    /// Read and not yet used.
    pub(crate) input: Vec<u8>,
}

/// The header of a request.
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) keep_alive: bool,
    length: Option<u64>,
    chunked: bool,
}

/// What becomes of the connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Keep,
    Close(Close),
    /// The other side has gone, or everything was done.
    Gone,
    /// It speaks HTTP/2.
    Http2,
}

/// A header that httparse takes: no byte of its first line is odd, where the line is not UTF-8.
fn spelt(header: &[u8]) -> Vec<u8> {
    let mut header = header.to_vec();
    let end = header.iter().position(|byte| *byte == b'\n').unwrap_or(header.len());
    if std::str::from_utf8(&header[..end]).is_err() {
        header[..end].iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'_');
    }
    header
}

/// What these steps make of the request's body.
pub(crate) fn use_of(steps: &[Step]) -> Use {
    let answers = |wanted: fn(&Body) -> bool| {
        steps.iter().any(|step| matches!(step, Step::Answer(answer) if wanted(&answer.body)))
    };
    if answers(|body| matches!(body, Body::Received)) {
        Use::keep()
    } else if answers(|body| matches!(body, Body::Checked)) {
        Use::check()
    } else {
        Use::digest()
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(stream: TcpStream, stage: Arc<Stage>) {
    let _ = stream.set_nodelay(true);
    let peer = stream.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
    let id = stage.opened(peer);
    let mut client = Client { io: stream, stage: Arc::clone(&stage), id, input: Vec::with_capacity(4096) };
    let how = client.requests().await.unwrap_or(After::Close(Close::Fin));
    if how == After::Http2 {
        let _ = h2c::serve(client.io, client.input, Arc::clone(&stage), id).await;
        return stage.closed(id);
    }
    // Counted as closed before the other side can see it.
    stage.closed(id);
    close(client.io, if how == After::Close(Close::Rst) { Close::Rst } else { Close::Fin }).await;
}

/// Keeps a connection without reading it, until the other side closes it.
pub(crate) async fn leave_alone(stream: TcpStream, stage: Arc<Stage>) {
    let id = stage.opened(stream.peer_addr().map(|peer| peer.to_string()).unwrap_or_default());
    let mut byte = [0];
    // Peeking leaves the bytes where they are: with unread ones there is nothing more to learn.
    if stream.peek(&mut byte).await.is_ok_and(|n| n > 0) {
        std::future::pending::<()>().await;
    }
    stage.closed(id);
}

/// Closes a connection with FIN or with RST.
pub(crate) async fn close(mut stream: TcpStream, how: Close) {
    if how == Close::Rst {
        let _ = stream.set_zero_linger();
        return;
    }
    let _ = stream.shutdown().await;
    let drain = async {
        let mut rest = vec![0; 16 << 10];
        while stream.read(&mut rest).await.is_ok_and(|n| n > 0) {}
    };
    let _ = timeout(LINGER, drain).await;
}

impl Client {
    async fn requests(&mut self) -> io::Result<After> {
        let mut nth = 0;
        loop {
            let Some(end) = self.head(nth > 0).await? else { return Ok(After::Gone) };
            if nth == 0 && self.input.starts_with(h2c::PREFACE) {
                return Ok(After::Http2);
            }
            let bytes: Vec<u8> = self.input.drain(..end.unwrap_or(0)).collect();
            let Some(head) = end.is_ok().then(|| self.understand(&bytes)).flatten() else {
                return Ok(After::Close(end.err().unwrap_or(Close::Fin)));
            };
            nth += 1;
            let after = self.answer(&head, nth).await;
            self.stage.ended();
            match after? {
                After::Keep if head.keep_alive => {}
                other => return Ok(other),
            }
        }
    }

    /// Reads up to the end of a header: `None` at the end of the connection, `Err` when it is to be closed. As servers
    /// do it, only a kept connection is closed for being idle: a new one waits for its first request.
    async fn head(&mut self, kept: bool) -> io::Result<Option<Result<usize, Close>>> {
        let mut closing = self.stage.closing();
        let idle = self.stage.idle_close().unwrap_or(Duration::from_secs(86_400));
        let mut looked_at = 0;
        loop {
            let from = looked_at.min(self.input.len());
            if let Some(at) = memchr::memmem::find(self.input.get(from..).unwrap_or_default(), b"\r\n\r\n") {
                return Ok(Some(Ok(from + at + 4)));
            }
            if self.input.len() > HEAD_AT_MOST {
                return Ok(Some(Err(Close::Rst)));
            }
            looked_at = self.input.len().saturating_sub(3);
            tokio::select! {
                read = self.read() => if !read? { return Ok(None) },
                _ = closing.changed() => return Ok(Some(Err(closing.borrow().unwrap_or(Close::Fin)))),
                () = tokio::time::sleep(idle), if kept && self.input.is_empty() => return Ok(Some(Err(Close::Fin))),
            }
        }
    }

    /// Reads what has come; false at the end.
    pub(crate) async fn read(&mut self) -> io::Result<bool> {
        self.input.reserve(64 << 10);
        let n = self.io.read_buf(&mut self.input).await?;
        self.stage.received(self.id, n);
        Ok(n > 0)
    }

    /// Parses and records a header; `None` when it is no request.
    fn understand(&self, bytes: &[u8]) -> Option<Head> {
        let mut lines = [httparse::EMPTY_HEADER; HEADERS_AT_MOST];
        let mut parsed = httparse::Request::new(&mut lines);
        let spelt = spelt(bytes);
        parsed.parse(&spelt).ok()?;
        let (method, target) = (parsed.method?.to_owned(), parsed.path?.to_owned());
        let latin = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
        let all = |name: &'static str| parsed.headers.iter().filter(move |h| h.name.eq_ignore_ascii_case(name));
        let says = |name, word: &str| all(name).any(|h| latin(h.value).to_ascii_lowercase().contains(word));
        self.stage.began(self.id, &target, || Request {
            line: latin(bytes.split(|byte| *byte == b'\r').next().unwrap_or_default()),
            headers: parsed.headers.iter().map(|h| (h.name.to_owned(), latin(h.value))).collect(),
            ..Request::default()
        });
        let keep_alive =
            if parsed.version == Some(0) { says("connection", "keep-alive") } else { !says("connection", "close") };
        let length = all("content-length").next().and_then(|h| latin(h.value).trim().parse().ok());
        Some(Head { method, target, keep_alive, length, chunked: says("transfer-encoding", "chunked") })
    }

    async fn answer(&mut self, head: &Head, nth: u64) -> io::Result<After> {
        let steps = self.stage.program(&head.method, &head.target, nth);
        let mut body = Incoming::new(head.length, head.chunked, use_of(steps.as_deref().unwrap_or_default()));
        let reads = steps.iter().flatten().any(|step| matches!(step, Step::Read(_)));
        if !reads && !self.take_body(&mut body, Amount::All).await? {
            return Ok(After::Gone);
        }
        let after = match steps {
            None => perform::greet(self, head).await?,
            Some(steps) => perform::all(self, head, &mut body, &steps).await?,
        };
        if after == After::Keep && !self.take_body(&mut body, Amount::All).await? {
            return Ok(After::Gone);
        }
        Ok(after)
    }

    /// Reads of the body; false when the other side ended before.
    pub(crate) async fn take_body(&mut self, body: &mut Incoming, amount: Amount) -> io::Result<bool> {
        let upto = match amount {
            Amount::All => u64::MAX,
            Amount::Half => body.announced / 2,
            Amount::Bytes(bytes) => bytes,
        };
        let whole = loop {
            let used = body.take(&self.input, upto);
            self.input.drain(..used);
            if body.over() || body.bytes >= upto {
                break true;
            }
            if body.broken() || !self.read().await? {
                break false;
            }
        };
        if body.bytes > 0 || !whole {
            self.stage.body(self.id, body.bytes, body.sha256(), body.over());
        }
        Ok(whole)
    }
}
