//! What did the client ask, in the terms of templates and routes? Borrowed from Pingora's header, never copied
//! unless a target is not in origin form; the host is asked for at every turn and worked out once.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue, header};
use pingora_http::RequestHeader;

use super::ctx::Ctx;
use crate::health::Endpoint;
use crate::pool::{Pool, Protocol};
use crate::template::{Facts, host};
use crate::traffic::{Target, hop};

/// The host a request is for, in both its spellings.
#[derive(Debug, Default)]
pub(super) struct Host {
    name: Box<str>,
    /// Where that differs.
    with_port: Option<Box<str>>,
}

impl Host {
    /// That of this request, which came by `scheme`; empty when it names none.
    pub(super) fn of(request: &RequestHeader, scheme: &str) -> Self {
        let authority = authority(request);
        let (name, with_port) = host::both(authority, scheme);
        Self { name: name.into(), with_port: with_port.map(Into::into) }
    }
}

/// Shows `look` the request as templates see it.
pub(super) fn with_facts<T>(request: &RequestHeader, ctx: &Ctx, look: impl FnOnce(&Facts<'_>) -> T) -> T {
    let Host { name, with_port } = &ctx.host;
    let target = target(request, Target::as_received);
    look(&Facts {
        method: request.method.as_str(),
        scheme: ctx.scheme(),
        host: name,
        host_port: with_port.as_ref().unwrap_or(name),
        target: &target,
        headers: &request.headers,
        client_ip: ctx.client(),
        peer: ctx.peer(),
    })
}

/// Host and port as asked for: `:authority` or an absolute-form target before Host; empty without any.
pub(super) fn authority(request: &RequestHeader) -> &str {
    let host = || request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    in_target(request).or_else(host).unwrap_or_default()
}

/// The same as a Host line says it; `None` without any.
pub(super) fn host_line(request: &RequestHeader) -> Option<Cow<'_, HeaderValue>> {
    let named = || HeaderValue::from_str(authority(request)).ok().filter(|host| !host.is_empty());
    request.headers.get(header::HOST).map(Cow::Borrowed).or_else(|| named().map(Cow::Owned))
}

/// Under which name an origin is asked when nobody gave one: its address.
pub(super) fn own_name(ctx: &Ctx) -> HeaderValue {
    let endpoint = ctx.attempts.last().map(|attempt| &attempt.endpoint);
    let address = endpoint.and_then(|endpoint| match endpoint {
        Endpoint::Ip(address) => HeaderValue::try_from(address.to_string()).ok(),
        Endpoint::Unix(_) => None,
    });
    address.unwrap_or(HeaderValue::from_static("localhost"))
}

/// What the target names: `:authority`, or the host of an absolute form, which Pingora keeps out of the URI. It has held
/// either against Host.
pub(super) fn in_target(request: &RequestHeader) -> Option<&str> {
    if let Some(authority) = request.uri.authority() {
        return Some(authority.as_str());
    }
    let raw = request.raw_path();
    if raw.first() == Some(&b'/') {
        return None;
    }
    match Target::parse(request.method.as_str().as_bytes(), raw) {
        Ok(Target::Absolute { authority, .. }) => std::str::from_utf8(authority).ok(),
        _ => None,
    }
}

/// Does the client ask for the one other protocol that a connection is given to?
pub(super) fn asks_to_switch(request: &RequestHeader) -> bool {
    hop::asks_to_switch(request.version, &request.headers)
}

/// Is this request made in HTTP/2? A switch is HTTP/1.1's to ask for, whatever else the pool's origins are spoken to in: over
/// HTTP/2 Pingora would leave it out, and the origin would see an ordinary GET.
pub(super) fn goes_in_h2(request: &RequestHeader, pool: &Pool) -> bool {
    pool.settings().protocol == Protocol::Http2 && !asks_to_switch(request)
}

/// Pingora asks the origin for a switch by `Upgrade` alone, whatever `Connection` said. For a client that says `Upgrade`.
pub(super) fn ask_for_no_other_switch(client: &RequestHeader, out: &mut RequestHeader) {
    if !asks_to_switch(client) {
        out.remove_header(&header::CONNECTION);
        out.remove_header(&header::UPGRADE);
    }
}

/// May this answer be silent for long? Server-sent events and gRPC.
pub(super) fn streams(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let starts = |with: &[u8]| kind.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with));
    starts(b"text/event-stream") || starts(b"application/grpc")
}

/// The target in origin form, the bytes as received.
pub(super) fn origin_form(request: &RequestHeader) -> Cow<'_, [u8]> {
    target(request, Target::origin_form)
}

fn target<'a>(request: &'a RequestHeader, form: fn(&Target<'a>, &[u8]) -> Cow<'a, [u8]>) -> Cow<'a, [u8]> {
    let (method, raw) = (request.method.as_str().as_bytes(), request.raw_path());
    if raw.first() == Some(&b'/') {
        return Cow::Borrowed(raw);
    }
    Target::parse(method, raw).map_or(Cow::Borrowed(raw), |target| form(&target, method))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authority_of_the_target_comes_before_host() {
        let mut request = RequestHeader::build("GET", b"/a", None).unwrap();
        request.set_uri("http://one/a".parse().unwrap());
        request.insert_header(header::HOST, "two").unwrap();
        assert_eq!(authority(&request), "one");
        let absolute = RequestHeader::build("GET", b"http://One:80/a", None).unwrap();
        assert_eq!((authority(&absolute), absolute.uri.authority()), ("One:80", None));
        let mut request = RequestHeader::build("GET", b"/a", None).unwrap();
        assert_eq!(authority(&request), "");
        request.insert_header(header::HOST, "two:80").unwrap();
        assert_eq!((authority(&request), host_line(&request).unwrap().to_str().unwrap()), ("two:80", "two:80"));
        assert_eq!(host_line(&absolute).unwrap().to_str().unwrap(), "One:80");
    }

    #[test]
    fn events_and_grpc_stream_whatever_their_letter_case_and_parameters() {
        let check = |kind: &str, expected| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, kind.parse().unwrap());
            assert_eq!(streams(&headers), expected, "{kind}");
        };
        check("text/event-stream; charset=utf-8", true);
        check("Text/Event-Stream", true);
        check("application/grpc+proto", true);
        check("text/plain", false);
        check("text/event", false);
    }
}
