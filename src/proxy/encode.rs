//! An answer on its way through a coding: whether, and piece by piece.
//!
//! Decided once its header is known, before anything of it went to the client; from then on every piece passes the
//! encoder, which is held as long as the answer is under way, if the memory of the process has room for it.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use pingora_core::Result;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use super::again::raise;
use super::ctx::Ctx;
use super::wire::{Share, Use, Wire};
use crate::resilience::Class;
use crate::traffic::compression::{Encoder, Verdict, announce, confirm, length, memory};

/// The final header: says in it what becomes of the answer.
pub(super) fn begin(session: &Session, head: &mut ResponseHeader, ctx: &mut Ctx) {
    let Some(compression) = ctx.target().and_then(|(route, _)| route.compression.as_ref()) else { return };
    let request = session.req_header();
    let mut verdict = compression.decide(request, head);
    confirm(request, head);
    if let Verdict::Encoded(algorithm) = verdict
        && request.method != Method::HEAD
    {
        let length = length(&head.headers);
        let share = |wire: &Arc<Wire>| Share::of(wire.buffers(), memory(algorithm, length), Use::Compression);
        // where nothing follows the header, not even the frame of a coding would
        let share = ctx.wire.as_ref().filter(|_| !ctx.is_bare).and_then(share);
        // one that cannot begin leaves the answer as it is
        let encoder = share.and_then(|share| Some((share, Encoder::new(algorithm, length).ok()?)));
        ctx.encoding = encoder.map(|(share, encoder)| Box::new(Encoding { encoder, _share: share }));
        if ctx.encoding.is_none() {
            verdict = Verdict::Varies;
        }
    }
    announce(verdict, request, head);
}

/// An answer that is being encoded.
pub(super) struct Encoding {
    encoder: Encoder,
    /// What it takes.
    _share: Share,
}

/// A piece of the answer, or its end.
pub(super) fn piece(body: &mut Option<Bytes>, end: bool, ctx: &mut Ctx) -> Result<()> {
    let Some(encoding) = &mut ctx.encoding else { return Ok(()) };
    let encoded =
        encoding.encoder.encode(body.as_deref().unwrap_or_default(), end).map_err(|_| raise(Class::LocalLimit))?;
    *body = (!encoded.is_empty()).then(|| Bytes::from(encoded));
    if end {
        ctx.encoding = None;
    }
    Ok(())
}

/// Trailers came in place of the end: what is left of the answer. Behind it they cannot follow.
pub(super) fn rest(ctx: &mut Ctx) -> Result<Option<Bytes>> {
    let mut body = None;
    piece(&mut body, true, ctx)?;
    Ok(body)
}
