//! Which trace is a request part of, and who is told?
//!
//! Nothing here runs unless the process traces: then every request has its place in a trace, and the origin of each try
//! learns it in `traceparent`. `tracestate` goes on with the trace it came with, and not without.

use std::time::{Duration, Instant};

use http::{HeaderName, HeaderValue};
use pingora_http::RequestHeader;
use pingora_proxy::Session;
use smallvec::SmallVec;

use super::Gateway;
use super::ctx::Ctx;
use super::record::so_far;
use super::request::with_facts;
use crate::observe::trace::{Origin, Shard};

static PARENT: HeaderName = HeaderName::from_static("traceparent");
static STATE: HeaderName = HeaderName::from_static("tracestate");

impl Gateway {
    /// The same, and what it serves is traced.
    #[must_use]
    pub fn traced(mut self, spans: Option<Shard>) -> Self {
        self.spans = spans;
        self
    }

    /// A request begins; who asks is known.
    pub(super) fn place_in_trace(&self, session: &Session, ctx: &mut Ctx) {
        let Some(spans) = &self.spans else { return };
        let mut lines = session.req_header().headers.get_all(&PARENT).iter();
        let only = lines.next().filter(|_| lines.next().is_none());
        let parent = only.and_then(|line| Origin::parse(line.as_bytes()));
        ctx.trace = Some(spans.context(parent, ctx.caller.trusted));
    }

    /// It is over.
    pub(super) fn leave_spans(&self, session: &Session, ctx: &Ctx, status: u16, now: Instant) {
        let (Some(spans), Some(context)) = (&self.spans, &ctx.trace) else { return };
        if !context.is_recorded() {
            return;
        }
        let ago: SmallVec<[Duration; 4]> =
            ctx.attempts.iter().map(|attempt| now.saturating_duration_since(attempt.began)).collect();
        with_facts(session.req_header(), ctx, |facts| {
            so_far(session, ctx, facts, (status, now), |record| spans.write(context, record, &ago));
        });
    }
}

/// A try goes to its origin.
pub(super) fn towards_origin(out: &mut RequestHeader, ctx: &Ctx) {
    let Some(context) = &ctx.trace else { return };
    if !context.has_parent() {
        out.remove_header(&STATE);
    }
    if let Some(header) = context.header(ctx.attempts.len())
        && let Ok(value) = HeaderValue::from_bytes(&header)
    {
        // It cannot fail: lines of a header are bounded far below what it could hold.
        let _ = out.insert_header("traceparent", value);
    }
}
