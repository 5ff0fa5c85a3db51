//! Connections to the admin address and the control socket: accepted, answered, and never for longer than they may.
//!
//! Served by our own loop on a thread of its own, so that it goes on while the data plane drains or is busy. Slow
//! or many clients cost a bounded number of connections: each request has a deadline, a connection is kept for
//! another one only while there is room, and when there is none the one that was silent longest has to go. The control
//! socket has room of its own.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use nix::sys::socket::{MsgFlags, recv};
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::l4::stream::Stream as Socket;
use pingora_http::ResponseHeader;
use tokio::io::Interest;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{sleep, timeout};

use super::Gateway;
use super::answer::{Answer, Door, Question, answer};
use super::crowd::Crowd;
use super::forward::forward;
use super::turn::Turn;
use crate::lifecycle::handoff::message::PREAMBLE;

/// Connections to the admin address at most.
const NETWORK: usize = 64;

/// Connections to the control socket at most.
const LOCAL: usize = 16;

/// With fewer places left than this no connection is kept for another request.
const CROWDED: usize = 8;

/// For the header of a first request.
pub(super) const HEADER: Duration = Duration::from_secs(5);

/// For a further request to begin and to be read.
const IDLE: Duration = Duration::from_secs(60);

/// For an answer to be worked out and taken by the client; a reload waits two seconds for a file that is being
/// written.
const ANSWER: Duration = Duration::from_secs(30);

/// The same for an upgrade: another process starts, loads its file, and serves for a while.
const UPGRADE: Duration = Duration::from_secs(90);

/// How long nothing is accepted after an error such as "no descriptors left".
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections to the admin address until the runtime ends, or another process does.
pub(super) async fn network(listener: TcpListener, turn: Turn, gateway: Arc<Gateway>) {
    let crowd = Crowd::new(NETWORK);
    loop {
        let Some(accepted) = turn.accept(|| listener.accept()).await else { return };
        let Ok((stream, peer)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let Some(permit) = crowd.enter().await else { return };
        let local = stream.local_addr().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        let place =
            Place { permit, crowd: Arc::clone(&crowd), door: Door::Network { peer, local }, turn: turn.clone() };
        tokio::spawn(connection(Box::new(Socket::from(stream)), place, Arc::clone(&gateway)));
    }
}

/// Accepts connections to the control socket until the runtime ends, or another process does.
pub(super) async fn local(listener: UnixListener, turn: Turn, gateway: Arc<Gateway>) {
    let crowd = Crowd::new(LOCAL);
    loop {
        let Some(accepted) = turn.accept(|| listener.accept()).await else { return };
        let Ok((stream, _)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let Some(permit) = crowd.enter().await else { return };
        let place = Place { permit, crowd: Arc::clone(&crowd), door: Door::Socket, turn: turn.clone() };
        tokio::spawn(call(stream, place, Arc::clone(&gateway)));
    }
}

/// A process that wants to take over calls at the control socket, too, and does not speak HTTP.
async fn call(stream: UnixStream, place: Place, gateway: Arc<Gateway>) {
    let Some(first) = place.crowd.wait(timeout(HEADER, first_byte(&stream))).await else { return };
    if !matches!(first, Ok(Ok(byte)) if PREAMBLE.starts_with(&[byte])) {
        return connection(Box::new(Socket::from(stream)), place, gateway).await;
    }
    // a socket that cannot leave its reactor is closed, and who called learns it from that
    if let Ok(stream) = stream.into_std() {
        (gateway.handoff)(stream);
    }
}

/// What comes first, left where it is.
async fn first_byte(stream: &UnixStream) -> io::Result<u8> {
    let mut byte = [0];
    let peek = || Ok(recv(stream.as_raw_fd(), &mut byte, MsgFlags::MSG_PEEK)?);
    stream.async_io(Interest::READABLE, peek).await?;
    Ok(byte[0])
}

/// A connection's place among those that may be open.
struct Place {
    #[allow(dead_code, reason = "held for its Drop")]
    permit: OwnedSemaphorePermit,
    crowd: Arc<Crowd>,
    door: Door,
    turn: Turn,
}

/// Answers requests until the client leaves, is too slow, or its place is needed.
async fn connection(mut stream: Stream, place: Place, gateway: Arc<Gateway>) {
    let mut patience = HEADER;
    while let Some(kept) = one_request(stream, patience, &place, &gateway).await {
        stream = kept;
        patience = IDLE;
    }
}

/// Answers one request; the connection when there may be another.
async fn one_request(stream: Stream, patience: Duration, place: &Place, gateway: &Gateway) -> Option<Stream> {
    let mut session = ServerSession::new_http1(stream);
    match place.crowd.wait(timeout(patience, session.read_request())).await? {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) | Err(_) => return None,
        Ok(Err(_)) => {
            let refused = Answer::text(400, "bad request");
            let _ = timeout(HEADER, write(&mut session, &refused, true)).await;
            return None;
        }
    }
    let crowded = place.crowd.free() < CROWDED;
    if crowded || place.turn.is_theirs() || !session.is_body_empty() {
        session.set_keepalive(None);
    }
    let within = if session.req_header().uri.path() == "/upgrade" { UPGRADE } else { ANSWER };
    timeout(within, respond(session, place, gateway)).await.ok().flatten()
}

async fn respond(mut session: ServerSession, place: &Place, gateway: &Gateway) -> Option<Stream> {
    let header = session.req_header();
    let text = |name: &str| header.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let host = text("host");
    let question = Question {
        door: place.door,
        method: header.method.as_str(),
        path: header.uri.path(),
        query: header.uri.query().unwrap_or_default(),
        host: host.as_deref(),
        origin: header.headers.contains_key("origin"),
    };
    let head = question.method == "HEAD";
    place.turn.is_somebodys().await;
    let answer = match place.turn.is_theirs() {
        // the page asks for the rest itself
        true if question.path == "/" => answer(gateway, &question).await,
        true => forward(&question, &gateway.socket).await,
        false => answer(gateway, &question).await,
    };
    let taken = async {
        write(&mut session, &answer, !head).await.ok()?;
        session.finish().await.ok()?
    };
    Some(place.crowd.wait(taken).await??.into_parts().0)
}

async fn write(session: &mut ServerSession, answer: &Answer, body: bool) -> pingora_core::Result<()> {
    let mut header = ResponseHeader::build(answer.status, Some(8))?;
    header.insert_header("content-type", answer.kind)?;
    header.insert_header("content-length", answer.body.len().to_string())?;
    header.insert_header("cache-control", "no-store")?;
    header.insert_header("x-content-type-options", "nosniff")?;
    if let Some(policy) = &answer.policy {
        header.insert_header("content-security-policy", policy)?;
        header.insert_header("x-frame-options", "DENY")?;
        header.insert_header("referrer-policy", "no-referrer")?;
    }
    if let Some(allow) = answer.allow {
        header.insert_header("allow", allow)?;
    }
    session.write_response_header(Box::new(header)).await?;
    if body {
        session.write_response_body(Bytes::copy_from_slice(&answer.body), true).await?;
    }
    Ok(())
}
