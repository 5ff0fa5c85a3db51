//! What does a route answer itself, in place of a pool?
//!
//! Nothing was sent anywhere when this runs; client, limits and access have been looked at. A body that came along is read
//! away, so that what follows it on the connection is the next request; one that is long, or that the client holds back
//! until it is asked for, costs it the connection instead.

use std::time::Instant;

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use pingora_core::Result;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use super::admit::{Admitted, admit_together};
use super::ctx::{Body, Ctx};
use super::request::with_facts;
use super::value::SoFar;
use super::{Gateway, Held, limit, reject};
use crate::resilience::Class;
use crate::snapshot::Action;

/// Bytes of a body that are read for nothing.
const READ_AWAY: usize = 1 << 20;

/// An answer of a route's own.
struct Own {
    status: u16,
    location: Option<HeaderValue>,
    body: Vec<u8>,
}

impl Gateway {
    /// Sees to a request that does not simply go to its pool; `true`: the answer is out.
    ///
    /// # Errors
    /// The client is gone.
    pub(super) async fn instead(
        &self,
        session: &mut Session,
        ctx: &mut Held,
        admitted: Result<Admitted, Class>,
    ) -> Result<bool> {
        let admitted = match admitted {
            Ok(Admitted::SoFar) => admit_together(session, ctx, Self::now).await,
            other => other.map(|_| ()),
        };
        match admitted {
            Ok(()) if ctx.pool.is_some() => Ok(false),
            Ok(()) => self.itself(session, ctx, Self::now()).await,
            Err(class) => reject::refuse(session, ctx, class).await.map(|()| true),
        }
    }

    /// Answers a request whose route has no pool.
    async fn itself(&self, session: &mut Session, ctx: &mut Held, now: Instant) -> Result<bool> {
        match self.own(session, ctx, now) {
            Ok(own) => send(session, ctx, own).await.map(|()| true),
            Err(class) => reject::refuse(session, ctx, class).await.map(|()| true),
        }
    }

    fn own(&self, session: &Session, ctx: &Ctx, now: Instant) -> Result<Own, Class> {
        let route = ctx.snapshot.as_deref().and_then(|snapshot| snapshot.route(ctx.route?)).ok_or(Class::NoRoute)?;
        let plain = |status, body| Ok(Own { status, location: None, body });
        match &route.action {
            Action::Pool(_) | Action::Split(_) => Err(Class::NoOrigin),
            Action::Ready => match (self.ready)() {
                Ok(()) => plain(reject::ready(true), b"ready\n".to_vec()),
                Err(why) => plain(reject::ready(false), format!("{why}\n").into_bytes()),
            },
            Action::Respond(respond) => {
                let mut body = Vec::new();
                let so_far = SoFar { session, ctx, status: respond.status, now };
                with_facts(session.req_header(), ctx, |facts| {
                    let extra = |extra, out: &mut Vec<u8>| so_far.write(facts, extra, out);
                    // What the request lacks leaves its place empty.
                    _ = respond.body.render_value(facts, &extra, |_, _| {}, &mut body);
                });
                plain(respond.status, body)
            }
            Action::Redirect(redirect) => {
                let so_far = SoFar { session, ctx, status: redirect.status, now };
                let location = with_facts(session.req_header(), ctx, |facts| {
                    redirect.target(facts, &|extra, out| so_far.write(facts, extra, out))
                });
                let location = Some(location.ok_or(Class::BadRequest)?);
                Ok(Own { status: redirect.status, location, body: Vec::new() })
            }
        }
    }
}

async fn send(session: &mut Session, ctx: &mut Ctx, own: Own) -> Result<()> {
    if let Err(class) = read_away(session, ctx).await? {
        return reject::refuse(session, ctx, class).await;
    }
    if !session.is_http2() && ctx.wire.as_ref().is_some_and(|wire| wire.must_close()) {
        session.set_keepalive(None);
    }
    let head_only = session.req_header().method == Method::HEAD;
    let mut head = ResponseHeader::build(own.status, Some(4))?;
    if let Some(location) = own.location {
        head.insert_header(header::LOCATION, location)?;
    }
    if !own.body.is_empty() {
        head.insert_header(header::CONTENT_TYPE, "text/plain; charset=utf-8")?;
    }
    if reject::has_length(head.status) {
        head.insert_header(header::CONTENT_LENGTH, own.body.len())?;
    }
    super::edit::towards_client(session, &mut head, ctx, Gateway::now);
    ctx.settle();
    let ends = head_only || own.body.is_empty();
    session.write_response_header(Box::new(head), ends).await?;
    if !ends {
        session.write_response_body(Some(Bytes::from(own.body)), true).await?;
    }
    Ok(())
}

/// Reads a body that nobody wants, before the answer: Pingora closes a connection that still owes one. A stream of HTTP/2
/// owes nothing to those beside it. One that is longer than its route allows is refused.
async fn read_away(session: &mut Session, ctx: &mut Ctx) -> Result<Result<(), Class>> {
    let length = session.req_header().headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if session.is_http2() || ctx.body != Body::Owed || length.is_some_and(|length| length > READ_AWAY) {
        return Ok(Ok(()));
    }
    let mut read = 0;
    while let Some(piece) = session.downstream_session.read_request_body().await? {
        read += piece.len();
        if let Err(class) = limit::within_body(session, Some(&piece), ctx) {
            return Ok(Err(class));
        }
        if read > READ_AWAY {
            return Ok(Ok(()));
        }
    }
    ctx.body = Body::Sent;
    ctx.wire.iter().for_each(|wire| wire.body_ended());
    Ok(Ok(()))
}
