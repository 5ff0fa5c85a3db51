//! Is what an origin says an answer that everybody reads alike, or only a sign that one will come?
//!
//! Pingora has parsed it, and refused what contradicts itself. What it would pass on in more readings than one is no answer.

use std::time::Instant;

use http::Version;
use pingora_core::Result;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use super::again::raise;
use super::ctx::{Body, Ctx};
use super::forward::owe;
use super::reject;
use super::request::asks_to_switch;
use crate::resilience::Class;
use crate::resilience::failure::Answer;
use crate::traffic::framing::is_chunked_alone;
use crate::traffic::headers;

/// Interim answers before an answer at most: each looks like a sign of life.
const INTERIMS: u32 = 100;

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Another will follow.
    Interim,
    /// The connection is a tunnel from now on.
    Switch,
    /// The one that was asked for.
    Final,
}

/// What this answer is.
///
/// # Errors
/// It is none.
pub(super) fn kind(session: &Session, head: &ResponseHeader) -> Result<Kind> {
    let switches = reject::switches_protocol(head.status);
    let unasked = switches && !(head.version == Version::HTTP_11 && asks_to_switch(session.req_header()));
    // Clients were not asked which codings they take, and some would read the chunks, others the bytes.
    if unasked || !is_chunked_alone(&head.headers) {
        return Err(raise(Class::InvalidResponse));
    }
    Ok(match head.status.is_informational() {
        true if switches => Kind::Switch,
        true => Kind::Interim,
        false => Kind::Final,
    })
}

/// An interim answer goes on, without what is for one hop.
///
/// # Errors
/// There were too many of them.
pub(super) fn interim(head: &mut ResponseHeader, ctx: &mut Ctx, now: Instant) -> Result<()> {
    let Some(running) = ctx.running.as_mut() else { return Ok(()) };
    running.interims += 1;
    if running.interims > INTERIMS {
        return Err(raise(Class::InvalidResponse));
    }
    running.answer = Answer::Interim;
    headers::towards_client(head);
    if ctx.body == Body::Held && head.status.as_u16() == 100 {
        ctx.body = Body::Owed;
        owe(ctx, now);
    }
    Ok(())
}
