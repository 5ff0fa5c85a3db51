//! The client's end of TLS as a door of its own: whoever connects to it goes on by TLS, so that clients of every kind come
//! that way too.
//!
//! It goes on with its latest session, as browsers do, checks nothing, and counts connections that ended without the word
//! that nothing follows.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use openssl::ssl::{Ssl, SslContext, SslContextBuilder, SslMethod, SslSession, SslSessionCacheMode, SslVerifyMode};
use parking_lot::Mutex;
use pingora_core::tls::tokio_ssl::SslStream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Closed when it is dropped.
pub(crate) struct Tunnel {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    _runtime: Runtime,
}

#[derive(Default)]
struct Seen {
    /// As bytes: what becomes of its connection marks the library's own copy.
    latest: Mutex<Vec<u8>>,
    whole: AtomicU64,
    resumed: AtomicU64,
    failed: AtomicU64,
    cut: AtomicU64,
}

/// Leads to a listener that speaks TLS, and offers this by ALPN: names, each behind its length.
pub(crate) fn tunnel(to: SocketAddr, offered: &[u8]) -> Tunnel {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = super::ports::listener().unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Seen::default());
    let (context, noted) = (context(offered, &seen), Arc::clone(&seen));
    runtime.spawn(async move {
        let listener = TcpListener::from_std(listener).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(pass(stream, begun(&context, &noted), to, Arc::clone(&noted)));
        }
    });
    Tunnel { address, seen, _runtime: runtime }
}

impl Tunnel {
    /// Handshakes that began a session, and those that went on with one.
    pub(crate) fn handshakes(&self) -> (u64, u64) {
        (self.seen.whole.load(Relaxed), self.seen.resumed.load(Relaxed))
    }

    /// Every connection got through its handshake, and ended with the word that nothing follows.
    pub(crate) fn assert_none_cut(&self) {
        let count = |count: &AtomicU64| count.load(Relaxed);
        assert_eq!((count(&self.seen.failed), count(&self.seen.cut)), (0, 0), "failed, and cut");
    }
}

fn context(offered: &[u8], seen: &Arc<Seen>) -> SslContext {
    let mut context = SslContextBuilder::new(SslMethod::tls_client()).unwrap();
    context.set_verify(SslVerifyMode::NONE);
    context.set_alpn_protos(offered).unwrap();
    context.set_session_cache_mode(SslSessionCacheMode::CLIENT | SslSessionCacheMode::NO_INTERNAL);
    let seen = Arc::clone(seen);
    context.set_new_session_callback(move |_, session| *seen.latest.lock() = session.to_der().unwrap());
    context.build()
}

#[expect(unsafe_code, reason = "what the library asks of whoever offers a session: that it is of the same kind")]
fn begun(context: &SslContext, seen: &Seen) -> Ssl {
    let mut ssl = Ssl::new(context).unwrap();
    ssl.set_hostname("a.test").unwrap();
    if let Ok(session) = SslSession::from_der(&seen.latest.lock()) {
        // SAFETY: the session was made by this very context.
        unsafe { ssl.set_session(&session).unwrap() };
    }
    ssl
}

async fn greeted(ssl: Ssl, to: SocketAddr) -> Option<SslStream<TcpStream>> {
    let stream = TcpStream::connect(to).await.ok()?;
    stream.set_nodelay(true).ok()?;
    let mut stream = SslStream::new(ssl, stream).ok()?;
    Pin::new(&mut stream).connect().await.ok().map(|()| stream)
}

async fn pass(plain: TcpStream, ssl: Ssl, to: SocketAddr, seen: Arc<Seen>) {
    plain.set_nodelay(true).unwrap();
    let Some(stream) = greeted(ssl, to).await else {
        seen.failed.fetch_add(1, Relaxed);
        return;
    };
    if stream.ssl().session_reused() { &seen.resumed } else { &seen.whole }.fetch_add(1, Relaxed);
    let ((mut from, to), (back, mut out)) = (split(plain), split(stream));
    let up = async {
        let _ = copy(&mut from, &mut out).await;
        let _ = out.shutdown().await;
    };
    tokio::join!(up, down(back, to, &seen));
}

/// What the gateway says goes to the client.
async fn down(mut from: ReadHalf<SslStream<TcpStream>>, mut to: WriteHalf<TcpStream>, seen: &Seen) {
    let mut piece = vec![0; 16 << 10];
    loop {
        match from.read(&mut piece).await {
            Ok(0) => break,
            Ok(count) => {
                if to.write_all(&piece[..count]).await.is_err() {
                    break;
                }
            }
            Err(_) => {
                seen.cut.fetch_add(1, Relaxed);
                break;
            }
        }
    }
    let _ = to.shutdown().await;
}
