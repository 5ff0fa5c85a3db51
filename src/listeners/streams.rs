//! What does Pingora serve an HTTP/2 connection with?
//!
//! With the shard's own `HttpProxy`, but on the terms in force when the connection began, which Pingora would take once for
//! all: [`Streams`] stands between them, one for each connection. It also says goodbye with the last request a connection
//! may have, rather than at the next look at it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use pingora::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora::protocols::http::ServerSession;
use pingora::protocols::http::v2::server::{H2Options, default_h2_options};
use pingora::proxy::{HttpProxy, ProxyHttp};
use pingora::server::ShutdownWatch;
use tokio::sync::watch;

use crate::proxy::wire::Limits;

/// What the `h2` library may spend on DATA frames that nobody has taken yet: 256 less the frame's length for each small one.
/// Its default ends the connection at the 129th of them; this is what a whole window of pieces of eight bytes comes to, some
/// 8,000 frames.
const SMALL_FRAMES: usize = 2 << 20;

/// Bytes of an answer that wait in the `h2` library for the socket, for each stream: a client whose window is wide open and
/// who reads nothing holds a hundred times that. One piece of what is read from an origin at once.
const WAITING: usize = 64 << 10;

/// A header may have so many times `header_bytes` before the library refuses it by itself: up to there it is refused by us, in
/// words, in the log, and in the terms of gRPC where it is a call.
const HEARD_OUT: usize = 2;

/// Serves the streams of one connection.
pub(super) struct Streams<P> {
    proxy: Arc<HttpProxy<P>>,
    options: H2Options,
    /// Requests that may still begin.
    left: AtomicU32,
    goodbye: Arc<watch::Sender<bool>>,
}

impl<P> Streams<P> {
    /// On these terms; `goodbye` is said with the last request.
    pub(super) fn new(proxy: Arc<HttpProxy<P>>, limits: &Limits, goodbye: Arc<watch::Sender<bool>>) -> Arc<Self> {
        let mut options = default_h2_options();
        let header = limits.header_bytes.saturating_mul(HEARD_OUT);
        options.max_header_list_size(u32::try_from(header).unwrap_or(u32::MAX));
        options.data_frame_budget(SMALL_FRAMES);
        options.max_send_buffer_size(WAITING);
        Arc::new(Self { proxy, options, left: AtomicU32::new(limits.keepalive_requests), goodbye })
    }

    fn begins(&self) {
        if self.left.fetch_sub(1, Relaxed) == 1 {
            self.goodbye.send_replace(true);
        }
    }
}

impl<P> HttpServerApp for Streams<P>
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    // what `async_trait` makes of it, but for a second future around the first
    fn process_new_http<'a, 'b, 'c>(
        self: &'a Arc<Self>,
        session: ServerSession,
        shutdown: &'b ShutdownWatch,
    ) -> Pin<Box<dyn Future<Output = Option<ReusedHttpStream>> + Send + 'c>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.begins();
        self.proxy.process_new_http(session, shutdown)
    }

    fn h2_options(&self) -> Option<H2Options> {
        Some(self.options.clone())
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        self.proxy.server_options()
    }
}
