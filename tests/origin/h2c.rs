//! One HTTP/2 connection without TLS, by prior knowledge: each stream runs its steps.
//!
//! [`Step::Send`] writes its bytes straight to the socket, between two frames of the library, so that a test can make
//! the origin speak nonsense at a chosen moment.

use std::future::poll_fn;
use std::io::{self, Write as _};
use std::net::TcpStream as Socket;
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderName, HeaderValue, Request as Head, Response};
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt::Linger};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::body::Incoming;
use crate::connection::use_of;
use crate::pattern::Pattern;
use crate::script::{Amount, Answer, Body, Close, Request, Step};
use crate::stage::Stage;

/// What a client says first.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// Serves a connection whose first bytes have been read.
pub(crate) async fn serve(stream: TcpStream, input: Vec<u8>, stage: Arc<Stage>, id: u64) -> io::Result<()> {
    let socket = Arc::new(Socket::from(stream.as_fd().try_clone_to_owned()?));
    let (end, mut ended) = mpsc::unbounded_channel();
    let io = Replayed { input, stream };
    let mut connection = h2::server::handshake(io).await.map_err(io::Error::other)?;
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            how = ended.recv() => {
                if how == Some(Close::Rst) {
                    setsockopt(&socket, Linger, &linger { l_onoff: 1, l_linger: 0 })?;
                }
                return Ok(());
            }
        };
        let Some(Ok((request, respond))) = accepted else { return Ok(()) };
        let stream = Stream { stage: Arc::clone(&stage), id, socket: Arc::clone(&socket), end: end.clone() };
        tokio::spawn(stream.answer(request, respond));
    }
}

struct Stream {
    stage: Arc<Stage>,
    id: u64,
    socket: Arc<Socket>,
    end: mpsc::UnboundedSender<Close>,
}

impl Stream {
    async fn answer(self, request: Head<RecvStream>, mut respond: SendResponse<Bytes>) {
        let (head, mut received) = request.into_parts();
        let target = head.uri.path_and_query().map_or("", |target| target.as_str());
        self.stage.began(self.id, target, || Request {
            line: format!("{} {} HTTP/2", head.method, head.uri),
            headers: head.headers.iter().map(|(n, v)| (n.to_string(), text(v))).collect(),
            ..Request::default()
        });
        let steps = self.stage.program(head.method.as_str(), target, 1).unwrap_or_else(|| vec![greeting()]);
        let mut body = Incoming::until_end(use_of(&steps));
        if !steps.iter().any(|step| matches!(step, Step::Read(_))) {
            self.read(&mut received, &mut body, Amount::All).await;
        }
        for step in &steps {
            if self.step(step, &mut received, &mut body, &mut respond).await.is_none() {
                break;
            }
        }
        self.stage.ended();
    }

    /// Does one step; `None` when there is nothing more to do.
    async fn step(
        &self,
        step: &Step,
        received: &mut RecvStream,
        body: &mut Incoming,
        respond: &mut SendResponse<Bytes>,
    ) -> Option<()> {
        match step {
            Step::Read(amount) => self.read(received, body, *amount).await,
            Step::Delay(ms) => tokio::time::sleep(Duration::from_millis(*ms)).await,
            Step::Hold(name) => self.stage.hold(name).await,
            Step::Answer(answer) => self.say(answer, body, respond).await?,
            Step::Send(bytes) => (&*self.socket).write_all(bytes).ok()?,
            Step::End(how) => self.end.send(*how).ok()?,
            Step::Hang => std::future::pending().await,
            Step::Inform(_) | Step::Echo => respond.send_reset(Reason::INTERNAL_ERROR),
        }
        Some(())
    }

    async fn read(&self, received: &mut RecvStream, body: &mut Incoming, amount: Amount) {
        let upto = match amount {
            Amount::All | Amount::Half => u64::MAX,
            Amount::Bytes(bytes) => bytes,
        };
        while body.bytes < upto
            && let Some(Ok(piece)) = received.data().await
        {
            body.take(&piece, u64::MAX);
            self.stage.received(self.id, piece.len());
            let _ = received.flow_control().release_capacity(piece.len());
        }
        self.stage.body(self.id, body.bytes, body.sha256(), received.is_end_stream());
    }

    async fn say(&self, answer: &Answer, received: &Incoming, respond: &mut SendResponse<Bytes>) -> Option<()> {
        let mut head = Response::builder().status(answer.status).header("x-origin", &self.stage.name);
        for (name, value) in &answer.headers {
            head = head.header(HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?);
        }
        let content = match &answer.body {
            Body::Name | Body::Received | Body::Drip { .. } => self.stage.name.clone().into_bytes(),
            Body::Text(text) => text.clone().into_bytes(),
            Body::Size(size) => vec![b'x'; *size],
            Body::Digest => received.sha256().into_bytes(),
            Body::Checked => received.checked().into_bytes(),
            Body::Pattern(_) => Vec::new(),
        };
        let bare = content.is_empty() && !matches!(answer.body, Body::Pattern(_));
        let mut body = respond.send_response(head.body(()).ok()?, bare).ok()?;
        if bare {
            return Some(());
        }
        if let Body::Pattern(size) = answer.body {
            self.pattern(&mut body, size).await?;
        }
        body.send_data(content.into(), true).ok()
    }

    /// As much at a time as the other side takes.
    async fn pattern(&self, body: &mut SendStream<Bytes>, size: u64) -> Option<()> {
        let mut pattern = Pattern::new();
        let mut left = size;
        while left > 0 {
            body.reserve_capacity(64 << 10);
            while body.capacity() == 0 {
                poll_fn(|cx| body.poll_capacity(cx)).await?.ok()?;
            }
            let piece = Bytes::copy_from_slice(pattern.piece(left.min(body.capacity() as u64)));
            left -= piece.len() as u64;
            self.stage.sent(piece.len());
            body.send_data(piece, false).ok()?;
        }
        Some(())
    }
}

fn greeting() -> Step {
    let framing = crate::script::Framing::Length;
    Step::Answer(Answer { status: 200, headers: Vec::new(), body: Body::Name, framing })
}

fn text(value: &HeaderValue) -> String {
    value.as_bytes().iter().map(|byte| char::from(*byte)).collect()
}

/// A socket some bytes of which were read before.
struct Replayed {
    input: Vec<u8>,
    stream: TcpStream,
}

impl AsyncRead for Replayed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.input.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let n = self.input.len().min(buf.remaining());
        let piece: Vec<u8> = self.input.drain(..n).collect();
        buf.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Replayed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
