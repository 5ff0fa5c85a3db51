//! How does a connection live, from its first byte to its close?
//!
//! Our own loop around Pingora's `process_new_http`: between requests a connection is parked, holding its socket and
//! little else; the idle time-out lives there. A connection is parked only when nothing of the next request has been
//! handed over yet, so pipelined requests are served one after the other. Always: the close lets our last answer
//! arrive, by reading on for a bounded while what the client still sends, before the kernel would answer it with a reset.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use pingora::apps::{HttpPersistentSettings, HttpServerApp, ServerApp};
use pingora::protocols::Stream;
use pingora::protocols::http::ServerSession;
use pingora::proxy::{HttpProxy, ProxyHttp};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connection::Connection;
use super::connections::Held;
use super::drain::{self, Drain};
use super::pipelined;
use super::preface::{self, Spoken};
use super::proxy_protocol::{self, Asked, Begun, Refusal};
use super::shard::Accepted;
use crate::config::client::ProxyProtocol;
use crate::proxy::wire::{Fault, Limits, Unheard, Wire};

/// How long a closing connection is read on, and how much of it.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_SILENCE: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 16 << 20;

/// How often an HTTP/2 connection is looked at, and how often at most when it may hardly idle.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_OFTEN: Duration = Duration::from_millis(20);

/// How long an HTTP/2 connection without requests may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// How a connection is counted that ended before a byte of a request came: a balancer's check, mostly.
const SILENT: &str = "empty";

/// The word for a connection whose frames asked for nothing, without end.
const FLOOD: &str = "h2_flood";

/// What a shard serves its connections with.
pub(super) struct Desk<P> {
    pub(super) proxy: Arc<HttpProxy<P>>,
    pub(super) limits: Box<dyn Fn() -> Limits + Send + Sync>,
    pub(super) unheard: Box<dyn Fn(&Unheard<'_>) + Send + Sync>,
    pub(super) trust: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    pub(super) rejected: Box<dyn Fn(&'static str) + Send + Sync>,
    pub(super) drain: Drain,
}

/// Serves one connection to its end.
pub(super) async fn serve<P>(desk: Arc<Desk<P>>, accepted: Accepted)
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    let Accepted { socket, peer, home, h2c, proxy_protocol, mut held } = accepted;
    // a socket that is not to be had is one whose client left
    let Ok(socket) = ours(socket) else { return };
    let socket = Arc::new(socket);
    let limits = (desk.limits)();
    match begun(&desk, &socket, (peer, proxy_protocol), limits).await {
        Ok(Begun::By { caller, .. }) if !may_stay(&desk, &mut held, caller.ip(), limits) => {
            (desk.rejected)("connections_per_client");
            linger(&socket, false).await;
        }
        Ok(Begun::By { caller, ahead }) => {
            let wire = Wire::new(peer, caller, home, limits);
            talk(&desk, &socket, &wire, (h2c, ahead)).await;
        }
        Ok(Begun::Silent) => (desk.rejected)(SILENT),
        Err(refusal) => {
            (desk.rejected)(refusal.word());
            linger(&socket, false).await;
        }
    }
    // whoever waits for the last connection finds it closed
    drop(socket);
    drop(held);
}

/// Who made the connection, and what was read to learn it.
async fn begun<P>(
    desk: &Desk<P>,
    socket: &TcpStream,
    (peer, wanted): (SocketAddr, ProxyProtocol),
    limits: Limits,
) -> Result<Begun, Refusal> {
    if wanted == ProxyProtocol::Off {
        return Ok(Begun::By { caller: peer, ahead: Vec::new() });
    }
    let asked = Asked { peer, trusted: (desk.trust)(peer.ip()), wanted };
    proxy_protocol::read(socket, asked, limits).await
}

/// A client may have so many connections; a proxy has those of all its clients.
fn may_stay<P>(desk: &Desk<P>, held: &mut Held, caller: IpAddr, limits: Limits) -> bool {
    limits.connections_per_client.is_none_or(|most| (desk.trust)(caller) || held.is_of(caller, most))
}

/// Serves what it says, `ahead` first.
async fn talk<P>(desk: &Desk<P>, socket: &Arc<TcpStream>, wire: &Arc<Wire>, (h2c, ahead): (bool, Vec<u8>))
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    let (spoken, ahead) = if h2c { preface::read(socket, ahead, wire.limits()).await } else { (Spoken::Http1, ahead) };
    let connection = Connection::new(socket.clone(), wire.clone(), ahead);
    match spoken {
        Spoken::Nothing => {}
        Spoken::Http1 => http1(desk, connection, wire).await,
        Spoken::Http2 => http2(desk, connection, wire).await,
    }
    if wire.is_silent() {
        (desk.rejected)(SILENT);
    }
    close(socket, wire).await;
}

fn ours(socket: std::net::TcpStream) -> io::Result<TcpStream> {
    socket.set_nonblocking(true)?;
    let socket = TcpStream::from_std(socket)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

async fn http1<P>(desk: &Desk<P>, connection: Connection, wire: &Arc<Wire>)
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    let (shutdown, mut over) = (desk.drain.watch(), desk.drain.watch_end());
    let mut stream: Stream = Box::new(connection);
    let mut kept: Option<HttpPersistentSettings> = None;
    loop {
        if wire.is_settled() {
            let Some(parked) = park(stream, (desk.limits)().keepalive, &mut over).await else { return };
            stream = parked;
        }
        wire.begin_turn((desk.limits)());
        let ended = tokio::select! {
            ended = desk.proxy.process_new_http(session(stream, kept.take()), &shutdown) => ended,
            () = too_late(&mut over, wire) => return,
        };
        wire.unheard(|unheard| (desk.unheard)(&unheard));
        let Some(reusable) = ended else { return };
        (stream, kept) = reusable.consume();
        if !wire.is_settled() && !kept.as_ref().is_some_and(pipelined::holds_a_request) {
            wire.settle();
        }
    }
}

/// Holds the connection until its next request begins; `None` when it does not.
async fn park(stream: Stream, idle: Duration, over: &mut watch::Receiver<bool>) -> Option<Stream> {
    let mut connection = stream.into_any().downcast::<Connection>().ok()?;
    connection.slim();
    let due = Instant::now() + idle;
    let woken = connection.holds_bytes()
        || tokio::select! {
            woken = poll_fn(|cx| connection.poll_wake(cx, due)) => woken,
            () = drain::on(over) => false,
        };
    if woken { Some(connection) } else { None }
}

/// Waits until no request may begin any more; for ever if this one has.
async fn too_late(over: &mut watch::Receiver<bool>, wire: &Wire) {
    drain::on(over).await;
    if wire.is_heard() {
        std::future::pending::<()>().await;
    }
}

fn session(stream: Stream, kept: Option<HttpPersistentSettings>) -> ServerSession {
    let mut session = ServerSession::new_http1(stream);
    if let Some(kept) = kept {
        kept.apply_to_session(&mut session);
    }
    // every limit on reading is the connection's own: 0 is "no limit" here, and None would be "no further request"
    session.set_keepalive(Some(0));
    session.set_read_timeout(None);
    session.set_pipelining_enabled(true);
    session
}

async fn http2<P>(desk: &Desk<P>, mut connection: Connection, wire: &Arc<Wire>)
where
    P: ProxyHttp + Send + Sync + 'static,
    P::CTX: Send + Sync,
{
    connection.speak_h2();
    let goodbye = watch::Sender::new(false);
    let watch = goodbye.subscribe();
    tokio::select! {
        _ = desk.proxy.process_new(Box::new(connection), &watch) => {}
        () = until_over(desk, &goodbye, wire) => {}
    }
    wire.each_refused(|refused| (desk.unheard)(&refused));
    if wire.fault() == Some(Fault::Flood) {
        (desk.rejected)(FLOOD);
    }
}

/// Says goodbye when the connection may not go on, and returns when it need not be waited for any longer.
async fn until_over<P>(desk: &Desk<P>, goodbye: &watch::Sender<bool>, wire: &Wire) {
    let mut idle_since = Instant::now();
    let mut left_since = None;
    loop {
        let limits = (desk.limits)();
        wire.set_limits(limits);
        tokio::select! {
            () = sleep((limits.keepalive / 4).clamp(LOOK_OFTEN, LOOK)) => {}
            () = desk.drain.begun(), if left_since.is_none() => {}
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
            }
            Some(since) if quiet >= GOODBYE && Instant::now() - since >= GOODBYE => return,
            _ => {}
        }
    }
}

/// Closes the connection so that what we sent arrives.
async fn close(socket: &TcpStream, wire: &Wire) {
    if wire.ends_in_reset() {
        let _ = socket.set_zero_linger();
        return;
    }
    linger(socket, wire.wants_body() || wire.broke_off() || wire.has_parted()).await;
}

async fn linger(socket: &TcpStream, in_the_middle: bool) {
    // fails when the client has left, and then there is nobody to read on for
    if nix::sys::socket::shutdown(socket.as_raw_fd(), nix::sys::socket::Shutdown::Write).is_err() {
        return;
    }
    let _ = timeout(LINGER, read_on(socket, in_the_middle)).await;
}

/// Reads what the client still sends. One that was answered in full has sent it all, mostly, and is not waited for.
async fn read_on(socket: &TcpStream, in_the_middle: bool) {
    let mut waits = in_the_middle;
    let mut left = LINGER_BYTES;
    let mut waste = vec![0; 16 << 10];
    while left > 0 {
        match socket.try_read(&mut waste) {
            Ok(0) => return,
            Ok(n) => {
                waits = true;
                left = left.saturating_sub(n);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && waits => {
                let due = Instant::now() + LINGER_SILENCE;
                if !matches!(timeout_at(due, socket.ready(Interest::READABLE)).await, Ok(Ok(_))) {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}
