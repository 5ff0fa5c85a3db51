//! Is what an origin says an answer that everybody reads alike, or only a sign that one will come?
//!
//! Pingora has parsed it, and refused what contradicts itself. What it would pass on in more readings than one is no answer.

use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, Version};
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
use crate::traffic::{Answered, headers};

/// Interim answers before an answer at most: each looks like a sign of life.
const INTERIMS: u32 = 100;

/// What an answer's header may hold, as Pingora has it for HTTP/1.
const LINES: usize = 256;
const HEADER: usize = 1 << 20;

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
pub(super) fn kind(session: &Session, head: &ResponseHeader, noted: Answered) -> Result<Kind> {
    let switches = reject::switches_protocol(head.status);
    let unasked = switches && !(head.version == Version::HTTP_11 && asks_to_switch(session.req_header()));
    let too_large = head.version == Version::HTTP_2 && !fits(&head.headers);
    // Clients were not asked which codings they take, and some would read the chunks, others the bytes.
    if unasked || too_large || noted.coding && !is_chunked_alone(&head.headers) {
        return Err(raise(Class::InvalidResponse));
    }
    Ok(match head.status.is_informational() {
        true if switches => Kind::Switch,
        true => Kind::Interim,
        false => Kind::Final,
    })
}

/// Over HTTP/2 Pingora takes a header of 16 MiB, which it would not over HTTP/1.
fn fits(headers: &HeaderMap) -> bool {
    let bytes = || headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>();
    headers.len() <= LINES && bytes() <= HEADER
}

/// What stands behind a 204 or a 304 is nobody's: over HTTP/2 neither side would leave it out.
pub(super) fn leave_content(session: &Session, body: &mut Option<Bytes>, ctx: &Ctx) {
    if !session.is_http2() || body.is_none() {
        return;
    }
    let status = ctx.attempts.last().and_then(|attempt| attempt.status);
    if status.is_some_and(reject::is_bare) {
        *body = None;
    }
}

/// An interim answer goes on, without what is for one hop.
///
/// # Errors
/// There were too many of them.
pub(super) fn interim(head: &mut ResponseHeader, noted: Answered, ctx: &mut Ctx, now: Instant) -> Result<()> {
    let Some(running) = ctx.running.as_mut() else { return Ok(()) };
    running.interims += 1;
    if running.interims > INTERIMS {
        return Err(raise(Class::InvalidResponse));
    }
    running.answer = Answer::Interim;
    headers::towards_client(head, noted);
    if ctx.body == Body::Held && head.status.as_u16() == 100 {
        ctx.body = Body::Owed;
        owe(ctx, now);
    }
    Ok(())
}
