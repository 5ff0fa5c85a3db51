//! Is the request in a form that everybody reads alike, and what of it is to be said more plainly?
//!
//! Sizes, Host, framing, what concerns this hop, and target, in that order; nobody was asked yet. What may go on but is
//! read in two ways here and there goes on in the plainer one.

use http::{HeaderValue, Version, header};
use pingora_http::RequestHeader;
use pingora_proxy::Session;

use super::ctx::Ctx;
use super::request::in_target;
use crate::resilience::Class;
use crate::traffic::framing::check_framing;
use crate::traffic::hop::{Hops, check_connection, hops};
use crate::traffic::limits::{Size, check_host};
use crate::traffic::{Denial, Limits, Noted, Target};

/// What a header line costs in HTTP/2 beside its name and value (RFC 9113, section 10.5.1).
const HEADER_LINE: usize = 32;

/// What a request in good form asks to be told otherwise, or done.
pub(super) struct Form {
    /// Its length, where that came in another spelling.
    length: Option<HeaderValue>,
    /// `Max-Forwards`, one less than it came.
    forwards: Option<HeaderValue>,
    /// It is the last one of its connection.
    closes: bool,
}

/// Looks the request over, or says what is wrong with it.
pub(super) fn check(session: &Session, ctx: &Ctx, limits: &Limits, noted: Noted) -> Result<Form, Class> {
    let request = session.req_header();
    let target = request.raw_path();
    let raw = session.as_downstream().as_http1().map(|http1| http1.get_headers_raw_bytes());
    let header_bytes = match &raw {
        Some(raw) => raw.len(),
        None => request.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_LINE).sum(),
    };
    limits.check(Size { header_bytes, uri_bytes: target.len() }, &request.headers).map_err(class)?;
    check_host(request.version, in_target(request), &request.headers).map_err(class)?;
    let length = if noted.framing { check_framing(&request.headers).map_err(class)? } else { None };
    let closes = noted.connection && check_connection(&request.headers).map_err(class)?;
    let method = request.method.as_str().as_bytes();
    Target::parse(method, target).map_err(class)?;
    // The connection has the line as it was sent; Pingora has escaped or cut what it did not like.
    let plain = ctx.wire.as_ref().is_none_or(|wire| wire.target_is_plain(raw.as_deref().unwrap_or_default()));
    if !plain {
        return Err(Class::BadRequest);
    }
    let forwards = match hops(&request.method, &request.headers) {
        Hops::None => return Err(Class::MethodNotAllowed),
        Hops::Any => None,
        Hops::Left(left) => Some(left),
    };
    Ok(Form { length, forwards, closes })
}

impl Form {
    /// Does what the request asks for, in it and on its connection.
    pub(super) fn settle(self, session: &mut Session) -> Result<(), Class> {
        let told = [("Content-Length", self.length), ("Max-Forwards", self.forwards)];
        for (name, value) in told.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            session.req_header_mut().insert_header(name, value).map_err(|_| Class::BadRequest)?;
        }
        if self.closes {
            session.set_keepalive(None);
        }
        Ok(())
    }
}

/// The class a denial is counted and answered as.
pub(super) fn class(denial: Denial) -> Class {
    match denial {
        Denial::Target | Denial::NoHost | Denial::ManyHosts | Denial::Host | Denial::Prefix => Class::BadRequest,
        Denial::Framing | Denial::Connection => Class::BadRequest,
        Denial::HeaderBytes | Denial::HeaderLines => Class::HeaderTooLarge,
        Denial::UriBytes => Class::UriTooLong,
        Denial::Address => Class::Denied,
    }
}

/// Does the client keep its body until an interim answer says that it is wanted? Over HTTP/2 none reaches it.
pub(super) fn waits_for_continue(request: &RequestHeader) -> bool {
    let expects = request.headers.get(header::EXPECT);
    request.version == Version::HTTP_11
        && expects.is_some_and(|expect| expect.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}
