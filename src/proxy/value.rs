//! What does a template of an answer or a header say for this request?

use std::time::Instant;

use pingora_proxy::Session;

use super::ctx::Ctx;
use super::record::{key, so_far};
use crate::observe::access_log;
use crate::template::{Extra, Facts};

/// A request by `now`, its answer's status if there is one.
#[derive(Clone, Copy)]
pub(super) struct SoFar<'a> {
    pub(super) session: &'a Session,
    pub(super) ctx: &'a Ctx,
    pub(super) status: u16,
    pub(super) now: Instant,
}

impl SoFar<'_> {
    /// Appends what the request itself does not say.
    pub(super) fn write(&self, facts: &Facts<'_>, extra: Extra, out: &mut Vec<u8>) {
        let ctx = self.ctx;
        match extra {
            Extra::RequestId => out.extend_from_slice(ctx.id.as_bytes()),
            Extra::Route => out.extend(ctx.route_tail.iter().flat_map(|tail| tail.name.bytes())),
            Extra::Pool => out.extend(ctx.pool_tail.iter().flat_map(|tail| tail.name.bytes())),
            Extra::Key => out.extend_from_slice(key(ctx).unwrap_or_default()),
            Extra::TraceId => out.extend(ctx.trace.iter().flat_map(|context| context.trace().hex())),
            late => so_far(self.session, ctx, facts, (self.status, self.now), |record| {
                access_log::value(late, record, out);
            }),
        }
    }
}
