//! How does a connection live, from its first byte to its close?
//!
//! Our own loop around Pingora's `process_new_http`: between requests a connection is parked, holding its socket and
//! little else; the idle time-out lives there. A connection is parked only when nothing of the next request has been
//! handed over yet, so pipelined requests are served one after the other. Always: the close lets our last answer
//! arrive, by reading on for a bounded while what the client still sends, before the kernel would answer it with a reset.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pingora::apps::{HttpPersistentSettings, HttpServerApp, ReusedHttpStream, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::proxy::{HttpProxy, ProxyHttp};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connection::Connection;
use super::drain::Drain;
use super::greeting::{Met, meet};
use super::handshake::Turns;
use super::pipelined;
use super::preface::Spoken;
use super::shard::{Accepted, Came};
use super::streams::Streams;
use crate::proxy::wire::{Fault, Limits, Unheard, Wire};
use crate::tls::Terms;

/// How long a closing connection is read on, and how much of it.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_SILENCE: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 16 << 20;

/// How often an HTTP/2 connection is looked at, and how often at most when it may hardly idle.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_OFTEN: Duration = Duration::from_millis(20);

/// How long an HTTP/2 connection without requests may take to say goodbye: what was on its way when it was told is still
/// answered.
const GOODBYE: Duration = Duration::from_secs(5);

/// Requests on an HTTP/2 connection after it was told goodbye: those under way when it was told are a hundred at most, and one
/// that begins ever more does not mean to leave.
const AFTER_GOODBYE: u32 = 1000;

/// How a connection is counted that ended before a byte of a request came: a balancer's check, mostly.
pub(super) const SILENT: &str = "empty";

/// The word for a connection whose frames asked for nothing, without end.
const FLOOD: &str = "h2_flood";

/// What a shard serves its connections with.
pub(super) struct Desk<P> {
    pub(super) proxy: Arc<HttpProxy<P>>,
    pub(super) limits: Box<dyn Fn() -> Arc<Limits> + Send + Sync>,
    pub(super) unheard: Box<dyn Fn(&Unheard<'_>) + Send + Sync>,
    pub(super) trust: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    pub(super) terms: Box<dyn Fn(usize) -> Option<Terms> + Send + Sync>,
    pub(super) turns: Turns,
    pub(super) rejected: Box<dyn Fn(&'static str) + Send + Sync>,
    pub(super) drain: Drain,
    /// Its switch, as Pingora wants it.
    pub(super) leaving: watch::Receiver<bool>,
}

/// Serves one connection to its end. What few connections need, or none for long, is boxed here and below: each of them
/// holds this future for as long as it is open.
pub(super) async fn serve<P>(desk: Arc<Desk<P>>, accepted: Box<Accepted>)
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    let Accepted { socket, who, mut held } = unboxed(accepted);
    // a socket that is not to be had is one whose client left
    let Ok(socket) = ours(socket) else { return };
    let socket = Arc::new(socket);
    if let Some(Met { wire, spoken, connection }) = meet(&desk, &socket, &mut held, who).await {
        let mut parts = false;
        match spoken {
            Spoken::Nothing => {}
            Spoken::Http1 => http1(&desk, connection, &wire).await,
            Spoken::Http2 => parts = Box::pin(http2(&desk, connection, &wire)).await,
        }
        if wire.is_silent() {
            (desk.rejected)(SILENT);
        }
        close(&socket, &wire, parts).await;
    }
    // whoever waits for the last connection finds it closed
    drop(socket);
    drop(held);
}

/// The box itself is not held on to.
#[expect(clippy::boxed_local, reason = "it is there to be given back")]
fn unboxed<T>(boxed: Box<T>) -> T {
    *boxed
}

fn ours(came: Came) -> io::Result<TcpStream> {
    let socket = match came {
        Came::Here(socket) => socket,
        Came::Elsewhere(socket) => TcpStream::from_std(socket)?,
    };
    socket.set_nodelay(true)?;
    Ok(socket)
}

async fn http1<P>(desk: &Desk<P>, mut connection: Box<Connection>, wire: &Wire)
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    // one wait for all of them: to begin one anew for each request costs more than the rest of this loop. It is looked at once,
    // and has to see to it then that it wakes, whatever else the task has done before
    let mut over = Over { drain: &desk.drain, waits: pin!(unconstrained(desk.drain.over())), wakes: false };
    let mut kept: Option<HttpPersistentSettings> = None;
    loop {
        if wire.is_settled() {
            // nothing of a next request is among it, and all else is set anew
            drop(kept);
            if !park(&mut connection, (desk.limits)().keepalive, &mut over).await {
                return;
            }
            kept = None;
        }
        wire.begin_turn((desk.limits)());
        let mut serving = desk.proxy.process_new_http(session(connection, kept), &desk.leaving);
        let ended = poll_fn(|cx| match over.poll(cx) {
            true if !wire.is_heard() => Poll::Ready(None),
            is_over => {
                if is_over {
                    // what runs when the process goes is ended, and logged, before it goes
                    wire.hears_farewell(cx);
                }
                serving.as_mut().poll(cx).map(Some)
            }
        });
        let Some(ended) = ended.await else { return };
        drop(serving);
        wire.unheard(|unheard| (desk.unheard)(&unheard));
        let Some((next, rest)) = ended.and_then(reusable) else { return };
        if !wire.is_settled() && !rest.as_ref().is_some_and(pipelined::holds_a_request) {
            wire.settle();
        }
        (connection, kept) = (next, rest);
    }
}

/// May no request begin any more?
struct Over<'a, F> {
    drain: &'a Drain,
    waits: Pin<&'a mut F>,
    /// The task will be woken for it, or was: it is the same task for as long as this lives.
    wakes: bool,
}

impl<F: Future<Output = ()>> Over<'_, F> {
    /// Wakes the task when it becomes so.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        if !self.wakes {
            self.wakes = true;
            return self.waits.as_mut().poll(cx).is_ready();
        }
        self.drain.is_over()
    }
}

/// The connection back from Pingora, and what it keeps of it.
fn reusable(ended: ReusedHttpStream) -> Option<(Box<Connection>, Option<HttpPersistentSettings>)> {
    let (stream, kept) = ended.consume();
    Some((stream.into_any().downcast().ok()?, kept))
}

/// Holds the connection until its next request begins; false when it does not.
fn park<F: Future<Output = ()>>(
    connection: &mut Connection,
    idle: Duration,
    over: &mut Over<'_, F>,
) -> impl Future<Output = bool> {
    let since = Instant::now();
    poll_fn(move |cx| {
        if connection.holds_bytes() {
            return Poll::Ready(true);
        }
        if over.poll(cx) { Poll::Ready(false) } else { connection.poll_wake(cx, since, idle) }
    })
}

fn session(connection: Box<Connection>, kept: Option<HttpPersistentSettings>) -> ServerSession {
    let mut session = ServerSession::new_http1(connection);
    if let Some(kept) = kept {
        kept.apply_to_session(&mut session);
    }
    // every limit on reading is the connection's own: 0 is "no limit" here, and None would be "no further request"
    session.set_keepalive(Some(0));
    session.set_read_timeout(None);
    session.set_pipelining_enabled(true);
    session
}

/// Whether it ended with a goodbye.
async fn http2<P>(desk: &Desk<P>, mut connection: Box<Connection>, wire: &Wire) -> bool
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    connection.speak_h2();
    let goodbye = Arc::new(watch::Sender::new(false));
    let watch = goodbye.subscribe();
    let streams = Streams::new(Arc::clone(&desk.proxy), &(desk.limits)(), Arc::clone(&goodbye));
    tokio::select! {
        _ = streams.process_new(connection, &watch) => {}
        () = until_over(desk, &goodbye, wire) => {}
    }
    wire.each_refused(|refused| (desk.unheard)(&refused));
    if wire.fault() == Some(Fault::Flood) {
        (desk.rejected)(FLOOD);
    }
    *goodbye.borrow()
}

/// Says goodbye when the connection may not go on, and returns when it need not be waited for any longer.
async fn until_over<P>(desk: &Desk<P>, goodbye: &watch::Sender<bool>, wire: &Wire) {
    let (mut idle_since, mut left_since, mut told_at) = (Instant::now(), None, 0);
    let mut over = pin!(async {
        desk.drain.over().await;
        poll_fn(|cx| Poll::Ready(wire.hears_farewell(cx))).await
    });
    let mut is_over = false;
    loop {
        let limits = (desk.limits)();
        wire.set_limits(Arc::clone(&limits));
        let due = wire.age_left().filter(|_| left_since.is_none()).unwrap_or(LOOK);
        tokio::select! {
            () = sleep((limits.keepalive / 4).min(due).clamp(LOOK_OFTEN, LOOK)) => {}
            () = desk.drain.begun(), if left_since.is_none() => {}
            _ = &mut over, if !is_over => is_over = true,
        }
        wire.each_refused(|refused| (desk.unheard)(&refused));
        if wire.serving() > 0 {
            idle_since = Instant::now();
        }
        let quiet = idle_since.elapsed();
        match left_since {
            None if wire.must_close() || quiet >= limits.keepalive => {
                goodbye.send_replace(true);
                left_since = Some(Instant::now());
                told_at = wire.requests();
            }
            Some(_) if wire.requests().saturating_sub(told_at) > AFTER_GOODBYE => {
                wire.set_fault(Fault::Flood);
                wire.reset_on_close();
                return;
            }
            Some(since) if quiet >= GOODBYE && Instant::now() - since >= GOODBYE => return,
            _ => {}
        }
    }
}

/// Closes the connection so that what we sent arrives. A client of HTTP/2 may be sending requests while it is told goodbye: a
/// reset could overtake that they come too late, and then it would not know that it may send them again.
async fn close(socket: &TcpStream, wire: &Wire, parts: bool) {
    if wire.ends_in_reset() {
        let _ = socket.set_zero_linger();
        return;
    }
    let in_the_middle = parts || wire.wants_body() || wire.broke_off() || wire.has_parted();
    linger(socket, in_the_middle).await;
}

pub(super) async fn linger(socket: &TcpStream, in_the_middle: bool) {
    // fails when the client has left, and then there is nobody to read on for
    if nix::sys::socket::shutdown(socket.as_raw_fd(), nix::sys::socket::Shutdown::Write).is_err() {
        return;
    }
    // one that was answered in full has sent it all, mostly, and is not waited for
    match socket.try_read(&mut [0]) {
        Ok(1..) => {}
        Err(e) if e.kind() == io::ErrorKind::WouldBlock && in_the_middle => {}
        Ok(0) | Err(_) => return,
    }
    let _ = Box::pin(timeout(LINGER, read_on(socket))).await;
}

/// Reads what the client still sends.
async fn read_on(socket: &TcpStream) {
    let mut left = LINGER_BYTES;
    let mut waste = vec![0; 16 << 10];
    while left > 0 {
        match socket.try_read(&mut waste) {
            Ok(0) => return,
            Ok(n) => left = left.saturating_sub(n),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let due = Instant::now() + LINGER_SILENCE;
                if !matches!(timeout_at(due, socket.ready(Interest::READABLE)).await, Ok(Ok(_))) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Echo;
    use super::*;

    fn size_of_future<A, B, F>(_of: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn ten_thousand_that_idle_take_a_few_megabytes() {
        let (task, stream, wire) = (size_of_future(serve::<Echo>), size_of::<Connection>(), size_of::<Wire>());
        assert!(task <= 512, "the task of a connection has {task} bytes: box what is not needed while it idles");
        assert!(stream + wire <= 576, "a connection has {stream} bytes, and its wire {wire}");
    }
}
