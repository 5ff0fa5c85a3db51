//! Is the body of a request here before an origin is asked for it?
//!
//! Where its route says so, a body whose length is known and small is read whole first, so that a client that sends slowly
//! holds no connection to an origin. It stands in the buffer that replays are made of, which is why it may have 64 KiB: of a
//! longer one Pingora would lose the start. Bodies of unknown length go on as they come: whoever sends them may wait for an
//! answer in between.

use std::time::Duration;

use pingora_proxy::Session;
use tokio::time::{Instant, timeout_at};

use super::ctx::{Body, Ctx};
use super::request::asks_to_switch;
use super::wire::Fault;
use crate::resilience::Class;
use crate::traffic::compression::length;

/// A client has `body_timeout` for each further so many bytes.
const STEP: usize = 16 << 10;

/// Reads the body, if it is one to be read before the first try.
pub(super) async fn request(session: &mut Session, ctx: &mut Ctx) -> Result<(), Class> {
    let Some(most) = ctx.target().and_then(|(route, _)| route.reads_ahead) else { return Ok(()) };
    let request = session.req_header();
    let fits = length(&request.headers).is_some_and(|length| length <= most);
    if !fits || ctx.body == Body::Sent || !ctx.attempts.is_empty() || asks_to_switch(request) {
        return Ok(());
    }
    session.as_mut().enable_retry_buffering();
    // seldom, and large: not to be part of the future of every request
    Box::pin(read(session, ctx)).await
}

async fn read(session: &mut Session, ctx: &mut Ctx) -> Result<(), Class> {
    let Some(wire) = ctx.wire.clone() else { return Ok(()) };
    let failed = |_| wire.fault().map_or(Class::ClientGone, Fault::class);
    if ctx.body == Body::Held {
        // Pingora gives a connection up that answers before its body came, this one too
        let alive = session.as_downstream().get_keepalive();
        session.write_continue_response().await.map_err(failed)?;
        session.set_keepalive(alive);
    }
    ctx.read_ahead = true;
    ctx.body = Body::Owed;
    // an HTTP/1 connection keeps the time itself, and says why it failed
    let limit = if wire.is_h2() { wire.limits().body_timeout } else { Duration::MAX };
    let (mut read, mut due) = (0, due(limit));
    loop {
        let piece = timeout_at(due, session.as_mut().read_request_body()).await.map_err(|_| Class::ClientTimeout)?;
        let Some(piece) = piece.map_err(failed)? else { break };
        if (read + piece.len()) / STEP > read / STEP {
            due = self::due(limit);
        }
        read += piece.len();
    }
    if session.as_mut().retry_buffer_truncated() {
        return Err(Class::BodyTooLarge);
    }
    ctx.body = Body::Sent;
    wire.body_ended();
    Ok(())
}

/// When so much time will have passed; for ever is a day.
fn due(limit: Duration) -> Instant {
    Instant::now() + limit.min(Duration::from_secs(86_400))
}
