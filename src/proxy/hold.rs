//! May an origin go on while its client still reads?
//!
//! Where its route allows it, what the client's socket does not take is held back by the connection, so that the origin
//! is done as fast as it can be; the request is over, and logged, when the client has it all. Never for streams of events,
//! another protocol, or an answer whose origin says `X-Accel-Buffering: no`.

use http::HeaderName;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use super::Gateway;
use super::ctx::Ctx;
use super::reject::switches_protocol;
use super::request::streams;
use super::wire::Fault;
use crate::resilience::Class;

/// The origin's word on it, which is for us alone.
static WORD: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The final header: how much of what follows may be held back.
pub(super) fn begin(session: &Session, head: &mut ResponseHeader, ctx: &Ctx) {
    let Some(most) = ctx.target().and_then(|(route, _)| route.holds_back) else { return };
    let word = head.remove_header(&WORD);
    let is_refused = word.is_some_and(|word| word.as_bytes().trim_ascii().eq_ignore_ascii_case(b"no"));
    // over HTTP/2 the library holds what the client's window has room for
    if is_refused || session.is_http2() || streams(&head.headers) || switches_protocol(head.status) {
        return;
    }
    if let Some(wire) = &ctx.wire {
        wire.hold_back(most);
    }
}

/// Does the client not have all of the answer yet?
pub(super) fn waits(ctx: &Ctx) -> bool {
    ctx.wire.as_ref().is_some_and(|wire| wire.holds_back() > 0)
}

impl Gateway {
    /// The last hook of such a request.
    pub(super) async fn finish_later(&self, session: &mut Session, ctx: &mut Ctx) {
        end(session, ctx).await;
        self.finish(session, ctx, Self::now());
    }
}

/// Waits until the client has what was held back for it, or is given up.
async fn end(session: &mut Session, ctx: &mut Ctx) {
    let Some(wire) = ctx.wire.as_ref().filter(|wire| wire.holds_back() > 0) else { return };
    wire.hold_back(0);
    if ctx.error.is_some() {
        return;
    }
    // the answer is whole: all this does is to flush
    if session.as_mut().finish_body().await.is_err() {
        ctx.error = Some(wire.fault().map_or(Class::ClientGone, Fault::class));
        session.set_keepalive(None);
    }
}
