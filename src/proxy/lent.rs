//! What does Pingora hold of a connection that the shard keeps?
//!
//! A stream like any other, which knows when it is given back: Pingora, done with a whole answer and with nothing against the
//! connection, looks whether anything is left to read, and finds the end. Its reads pause behind a large piece until that
//! one is on its way: Pingora joins pieces that come together, by copying them, and hands a single one on as it is.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pingora_core::protocols::l4::virt::{VirtualSockOpt, VirtualSocket};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::chunk::Chunk;
use super::idle::Loan;
use super::line::Line;

/// A piece is large from here on.
const LARGE: usize = 16 << 10;

/// So often a read behind one says that it waits. Pingora polls both halves of a request in turns, which first changes
/// from time to time: once alone, the half that writes may have had its turn before.
const PAUSES: u8 = 2;

/// A connection in Pingora's hands.
#[derive(Debug)]
pub(super) struct Lent {
    /// `None`: given back.
    line: Option<Line>,
    loan: Arc<Loan>,
    chunk: Chunk,
    /// How often the next read waits: a large piece was read, and is on its way.
    pauses: u8,
}

impl Lent {
    pub(super) fn new(line: Line, loan: Arc<Loan>) -> Self {
        Self { line: Some(line), loan, chunk: Chunk::default(), pauses: 0 }
    }

    /// Does this read ask whether anything is left behind a whole answer? Pingora reads a single byte then, and nothing else
    /// once the answer has ended.
    fn is_given_back(&self, buf: &ReadBuf<'_>) -> bool {
        buf.remaining() == 1 && self.loan.is_whole()
    }
}

impl VirtualSocket for Lent {
    /// Set when the connection was made.
    fn set_socket_option(&self, _: VirtualSockOpt) -> io::Result<()> {
        Ok(())
    }
}

impl AsyncRead for Lent {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.is_given_back(buf) {
            if let Some(line) = this.line.take() {
                this.loan.take_back(line);
            }
            return Poll::Ready(Ok(()));
        }
        if let Some(left) = this.pauses.checked_sub(1) {
            this.pauses = left;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(line) = &mut this.line else { return Poll::Ready(Ok(())) };
        let before = buf.filled().len();
        let read = line.socket().poll_read(cx, buf);
        if buf.filled().len() - before >= LARGE {
            this.pauses = PAUSES;
        }
        read
    }
}

impl AsyncWrite for Lent {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let Some(line) = &mut this.line else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        let socket = line.socket();
        if this.loan.sends_chunks() {
            this.chunk.write(bytes, |parts| socket.poll_write(cx, parts))
        } else {
            socket.poll_write(cx, &[IoSlice::new(bytes)])
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let Some(line) = &mut this.line else { return Poll::Ready(Ok(())) };
        this.chunk.flush(|parts| line.socket().poll_write(cx, parts))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(line) = &mut self.get_mut().line else { return Poll::Ready(Ok(())) };
        line.socket().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::task::{Wake, Waker};
    use std::time::Duration;

    use pingora_core::upstreams::peer::HttpPeer;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixStream;

    use super::super::idle::{Idle, Terms};
    use super::super::line::Socket;
    use super::*;
    use crate::pool::Origin;

    fn lent(chunks: bool) -> (impl AsyncRead + AsyncWrite + Unpin, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        let mut peer = HttpPeer::new("127.0.0.1:1", false, String::new());
        let terms = Terms { time: Duration::from_secs(60), most: 9 };
        let loan = Loan::of(&mut peer, &Arc::<Idle>::default(), terms, &Arc::new(Origin::alone()), 0);
        if chunks {
            loan.send_chunks();
        }
        (loan.made(Socket::Unix(near)), far)
    }

    async fn heard(far: &mut UnixStream) -> Vec<u8> {
        let mut bytes = vec![0; 100];
        let length = far.read(&mut bytes).await.unwrap();
        bytes.truncate(length);
        bytes
    }

    #[tokio::test]
    async fn what_is_no_chunk_leaves_at_once_and_what_is_one_leaves_whole() {
        let (mut near, mut far) = lent(false);
        near.write_all(b"5\r\n").await.unwrap();
        assert_eq!(heard(&mut far).await, b"5\r\n", "a piece of a body of known length");
        let (mut near, mut far) = lent(true);
        near.write_all(b"POST / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(heard(&mut far).await, b"POST / HTTP/1.1\r\n\r\n");
        for part in [b"5\r\n".as_slice(), b"hello", b"\r\n"] {
            near.write_all(part).await.unwrap();
        }
        near.flush().await.unwrap();
        assert_eq!(heard(&mut far).await, b"5\r\nhello\r\n");
        near.write_all(b"0\r\n\r\n").await.unwrap();
        near.shutdown().await.unwrap();
        assert_eq!([heard(&mut far).await, heard(&mut far).await], [b"0\r\n\r\n".to_vec(), Vec::new()]);
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    #[tokio::test]
    async fn a_read_behind_a_large_piece_waits_for_the_rest_of_the_task_and_no_longer() {
        let (mut near, mut far) = lent(false);
        far.write_all(&vec![7; LARGE + 4]).await.unwrap();
        assert_eq!(near.read(&mut vec![0; LARGE]).await.unwrap(), LARGE);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut buf = [0; 2];
        let mut read = || {
            let mut buf = ReadBuf::new(&mut buf);
            Pin::new(&mut near).poll_read(&mut cx, &mut buf).map(|read| read.map(|()| buf.filled().len()).unwrap())
        };
        for _ in 0..PAUSES {
            assert_eq!(read(), Poll::Pending);
            assert!(woken.0.swap(false, Relaxed), "it comes back by itself");
        }
        assert_eq!([read(), read()], [Poll::Ready(2); 2], "behind a small one none waits");
    }
}
