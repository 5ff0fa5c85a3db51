//! What does a route change of a header on its way? Its own lines in requests and answers, and the places an origin names.
//!
//! A try begins with the client's header, so that whatever was changed for the last one is not changed twice.

use std::time::Instant;

use http::{HeaderName, header};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::Session;

use super::ctx::Ctx;
use super::reject;
use super::request::{authority, host_line, with_facts};
use super::value::SoFar;
use crate::health::Endpoint;
use crate::traffic::edits::{Edits, Head};
use crate::traffic::location::{Outside, Own};

/// Headers in which an origin names a place.
const PLACES: [HeaderName; 3] = [header::LOCATION, header::CONTENT_LOCATION, header::REFRESH];

/// A request on its way to an origin, all else of it being done.
pub(super) fn towards_origin(session: &Session, out: &mut RequestHeader, ctx: &Ctx) {
    let route = ctx.target().map(|(route, _)| route);
    if let Some(edits) = route.and_then(|route| route.changes.request.as_ref()) {
        // No template of a request knows the time.
        edit(edits, out, &SoFar { session, ctx, status: 0, now: ctx.began });
    }
}

/// A final answer on its way to the client. A switch of protocols is between the two ends.
pub(super) fn towards_client(session: &Session, head: &mut ResponseHeader, ctx: &Ctx, now: fn() -> Instant) {
    let Some(route) = ctx.route() else { return };
    if reject::switches_protocol(head.status) {
        return;
    }
    if route.changes.redirects && head.headers.keys().any(|name| PLACES.contains(name)) {
        places(session, head, ctx);
    }
    if let Some(edits) = &route.changes.response {
        let status = head.status.as_u16();
        edit(edits, head, &SoFar { session, ctx, status, now: now() });
    }
}

fn edit(edits: &Edits, head: &mut impl Head, so_far: &SoFar<'_>) {
    with_facts(so_far.session.req_header(), so_far.ctx, |facts| {
        let extra = |extra, out: &mut Vec<u8>| so_far.write(facts, extra, out);
        // What the request lacks is empty: such a line is left out.
        edits.apply(head, &|template, escape, out| _ = template.render_value(facts, &extra, escape, out));
    });
}

/// Turns places that the origin named into those that the client can reach.
fn places(session: &Session, head: &mut ResponseHeader, ctx: &Ctx) {
    let Some((route, _)) = ctx.target() else { return };
    let request = session.req_header();
    let own = names(session, ctx);
    let seen = (ctx.scheme(), authority(request));
    let outside = Outside::of(&request.headers, ctx.caller.trusted, seen, route.changes.rewrite.as_ref());
    for name in PLACES {
        let instead = head.headers.get(&name).and_then(|value| outside.instead(&name, value, &own));
        if let Some(instead) = instead {
            // It fails only beyond some thousand lines.
            _ = head.insert_header(name, instead);
        }
    }
}

/// What the origin that answered may call itself: the Host it was told, its address, its name.
fn names(session: &Session, ctx: &Ctx) -> Own {
    let mut own = Own::default();
    let (Some((_, upstream)), Some(member)) = (ctx.target(), ctx.tried.last()) else { return own };
    let literal = upstream.hosts.get(*member).and_then(Option::as_ref);
    let told = literal.cloned().or_else(|| host_line(session.req_header()).map(std::borrow::Cow::into_owned));
    let told = told.as_ref().and_then(|host| host.to_str().ok()).unwrap_or_default();
    own.add(told);
    let Some(member) = upstream.pool.members().get(*member) else { return own };
    own.add(member.name());
    own.add(&member.address().written().to_string());
    if let Some(Endpoint::Ip(address)) = ctx.attempts.last().map(|attempt| &attempt.endpoint) {
        own.add(&address.to_string());
        own.add_with_port(told, address.port());
    }
    own
}
