//! Every answer that is ours: which status, which RFC 9209 token, which words.
//!
//! One table ([`facts`]) says all of it; adding a class of error makes it fail to compile until its row is there.
//! No answer names Pingora or a version.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use pingora_core::{Error, Result};
use pingora_http::ResponseHeader;
use pingora_proxy::{FailToProxy, Session};

use super::admit::leave_body;
use super::ctx::{Attempt, Ctx};
use super::grpc;
use super::wire::Fault;
use crate::resilience::Class;
use crate::resilience::failure::{Stage, classify};
use crate::traffic::Over;

/// What the client is told about a class of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The status; 499 is for the log alone.
    pub status: StatusCode,
    /// The error type of RFC 9209, section 2.3.
    pub token: &'static str,
}

/// The one table: DESIGN "Statuses" with the token of RFC 9209 beside each.
pub fn facts(class: Class) -> Facts {
    let (status, token) = match class {
        Class::ConnectRefused => (StatusCode::BAD_GATEWAY, "connection_refused"),
        Class::ConnectTimeout => (StatusCode::GATEWAY_TIMEOUT, "connection_timeout"),
        Class::TlsFailed => (StatusCode::BAD_GATEWAY, "tls_protocol_error"),
        Class::Untrusted => (StatusCode::BAD_GATEWAY, "tls_certificate_error"),
        Class::Stale | Class::Unprocessed | Class::Unspoken | Class::Reset | Class::ClosedEarly => {
            (StatusCode::BAD_GATEWAY, "connection_terminated")
        }
        Class::ResponseTimeout | Class::Deadline => (StatusCode::GATEWAY_TIMEOUT, "http_response_timeout"),
        Class::InvalidResponse => (StatusCode::BAD_GATEWAY, "http_protocol_error"),
        Class::NoOrigin => (StatusCode::SERVICE_UNAVAILABLE, "destination_unavailable"),
        Class::LocalLimit => (StatusCode::SERVICE_UNAVAILABLE, "proxy_internal_error"),
        Class::Limited => (StatusCode::TOO_MANY_REQUESTS, "http_request_denied"),
        Class::Saturated => (StatusCode::SERVICE_UNAVAILABLE, "http_request_denied"),
        Class::Denied => (StatusCode::FORBIDDEN, "http_request_denied"),
        Class::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "http_request_error"),
        Class::BadRequest => (StatusCode::BAD_REQUEST, "http_request_error"),
        Class::DrainTimeout => (StatusCode::SERVICE_UNAVAILABLE, "http_response_timeout"),
        Class::ClientTimeout => (StatusCode::REQUEST_TIMEOUT, "http_request_error"),
        Class::NoRoute => (StatusCode::NOT_FOUND, "destination_not_found"),
        Class::HeaderTooLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "http_request_error"),
        Class::UriTooLong => (StatusCode::URI_TOO_LONG, "http_request_error"),
        Class::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "http_request_error"),
        Class::ClientGone => (client_gone(), "http_request_error"),
    };
    Facts { status, token }
}

/// nginx's 499: the client went away; only ever logged.
pub(super) fn client_gone() -> StatusCode {
    StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST)
}

/// What `/readyz` says.
pub(super) fn ready(is: bool) -> u16 {
    if is { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }.as_u16()
}

/// Has an answer of ours with this status a length? One without content has none, a 304 would say another answer's.
pub(super) fn has_length(status: StatusCode) -> bool {
    !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Has an answer of an origin with this status no content, whatever stands behind it?
pub(super) fn is_bare(status: u16) -> bool {
    StatusCode::from_u16(status).is_ok_and(|status| !has_length(status))
}

/// What HTTP says of an answer whose own protocol says more.
pub(super) fn ok() -> StatusCode {
    StatusCode::OK
}

/// The status that hands the connection over to another protocol.
pub(super) fn switches_protocol(status: StatusCode) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS
}

/// Our answer to `fault`, ready for the wire of an HTTP/1 connection that Pingora gave up on before a request began.
pub fn canned(fault: Fault, request_id: &str) -> Bytes {
    let class = fault.class();
    let Facts { status, token } = facts(class);
    let body = text(class, status, request_id) + fault.advice();
    let reason = status.canonical_reason().unwrap_or("Error");
    Bytes::from(format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Proxy-Status: moorgate; error={token}; details=\"sent=0\"\r\nCache-Control: no-store\r\n\
         X-Request-ID: {request_id}\r\nConnection: close\r\n\r\n{body}",
        status.as_u16(),
        body.len(),
    ))
}

/// The headers of an answer without a body, for HTTP/2.
pub fn canned_headers(class: Class, request_id: &str) -> [(&'static str, String); 4] {
    let told = format!("moorgate; error={}; details=\"sent=0\"", facts(class).token);
    [
        ("proxy-status", told),
        ("x-request-id", request_id.to_owned()),
        ("cache-control", "no-store".to_owned()),
        ("content-length", "0".to_owned()),
    ]
}

/// The request is not taken: our answer goes out.
///
/// # Errors
/// The client is gone.
pub(super) async fn refuse(session: &mut Session, ctx: &mut Ctx, class: Class) -> Result<()> {
    ctx.error = Some(class);
    leave_body(session, ctx);
    let over = ctx.limits.over.as_deref().filter(|_| class == Class::Limited);
    answer_over(session, class, ctx.id.as_str(), false, over).await.map(|_| ())
}

/// Is this the last header of an answer? A 101 is: what follows it is another protocol's.
pub fn is_final(status: StatusCode) -> bool {
    !status.is_informational() || switches_protocol(status)
}

/// The last failure stands: our answer goes out if none began, else the answer is seen to be cut.
pub(super) async fn fail(session: &mut Session, ctx: &mut Ctx, error: &Error) -> FailToProxy {
    // What the connection found wrong with its client has the last word.
    let fault = ctx.wire.as_ref().and_then(|wire| wire.fault());
    let class = fault.map(Fault::class).or(ctx.error).unwrap_or_else(|| classify(error, Stage::Connecting));
    ctx.error = Some(class);
    let begun = session.response_written().is_some_and(|head| is_final(head.status));
    let mut error_code = 0;
    if begun {
        if !grpc::end_with(session, class, ctx.id.as_str()).await {
            cut(session, ctx);
        }
    } else if class != Class::ClientGone {
        if !session.is_http2() {
            // Pingora closes the connection after it: a client that is not told sends its next request into the close.
            session.set_keepalive(None);
        }
        let sent = ctx.attempts.iter().any(Attempt::had_connection);
        error_code = answer(session, class, ctx.id.as_str(), sent).await.map_or(0, |status| status.as_u16());
    }
    FailToProxy { error_code, can_reuse_downstream: true }
}

/// Only a reset tells the client of an answer without length that it did not get all of it.
fn cut(session: &mut Session, ctx: &Ctx) {
    if session.is_http2() {
        session.as_downstream_mut().shutdown_with_reason(h2::Reason::INTERNAL_ERROR);
    } else if let Some(wire) = &ctx.wire {
        wire.reset_on_close();
    }
}

/// Writes our answer for `class`. `sent`: an origin may have seen the request.
///
/// # Errors
/// The client is gone.
pub async fn answer(session: &mut Session, class: Class, request_id: &str, sent: bool) -> Result<StatusCode> {
    answer_over(session, class, request_id, sent, None).await
}

/// The same, where the request was `over` a limit.
async fn answer_over(
    session: &mut Session,
    class: Class,
    request_id: &str,
    sent: bool,
    over: Option<&Over>,
) -> Result<StatusCode> {
    let Facts { status, token } = facts(class);
    let status = over.and_then(|over| StatusCode::from_u16(over.status).ok()).unwrap_or(status);
    let told = format!("moorgate; error={token}; details=\"sent={}\"", u8::from(sent));
    if grpc::is_grpc(&session.req_header().headers) {
        return grpc::answer(session, class, request_id, told).await;
    }
    let request = session.req_header();
    let json = prefers_json(&request.headers);
    let body = if json { as_json(class, status, request_id) } else { text(class, status, request_id) };
    let head = request.method == Method::HEAD;
    let mut answer = ResponseHeader::build(status, Some(8))?;
    let kind = if json { "application/json" } else { "text/plain; charset=utf-8" };
    answer.insert_header(header::CONTENT_TYPE, kind)?;
    answer.insert_header(header::CONTENT_LENGTH, body.len())?;
    answer.insert_header(header::CACHE_CONTROL, "no-store")?;
    answer.insert_header("Proxy-Status", told)?;
    answer.insert_header("X-Request-ID", request_id)?;
    match class {
        Class::NoOrigin | Class::Saturated => answer.insert_header(header::RETRY_AFTER, 1)?,
        Class::MethodNotAllowed => {
            answer.insert_header(header::ALLOW, "GET, HEAD, POST, PUT, DELETE, OPTIONS, TRACE, PATCH")?;
        }
        _ => {}
    }
    if let Some(over) = over {
        come_again(&mut answer, over)?;
    }
    session.write_response_header(Box::new(answer), head).await?;
    if !head {
        session.write_response_body(Some(Bytes::from(body)), true).await?;
    } else if session.is_http2() {
        // Pingora lets go of a stream whose try failed: without an end it would be reset.
        session.as_downstream_mut().finish_body().await?;
    }
    Ok(status)
}

/// When it is worth asking again.
fn come_again(answer: &mut ResponseHeader, over: &Over) -> Result<()> {
    answer.insert_header(header::RETRY_AFTER, over.retry_after())?;
    if let Some((policy, state)) = over.fields() {
        answer.insert_header("RateLimit-Policy", policy)?;
        answer.insert_header("RateLimit", state)?;
    }
    Ok(())
}

fn text(class: Class, status: StatusCode, request_id: &str) -> String {
    let reason = status.canonical_reason().unwrap_or("Error");
    format!("{} {reason}: {} (request {request_id})\n", status.as_u16(), class.as_str())
}

fn as_json(class: Class, status: StatusCode, request_id: &str) -> String {
    let word = class.as_str();
    let mut body = serde_json::json!({"status": status.as_u16(), "error": word, "request_id": request_id}).to_string();
    body.push('\n');
    body
}

/// Does the client like JSON better than text? By the weights of RFC 9110, section 12.5.1, where the closest range says
/// how much; of two that weigh the same, what is named more closely. Without an Accept header, or with a tie, text it is.
fn prefers_json(headers: &HeaderMap) -> bool {
    // how close the range is, and what it weighs
    let (mut json, mut plain) = ((0_u8, 0.0_f32), (0_u8, 0.0_f32));
    let values = headers.get_all(header::ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    for item in values.flat_map(|value| value.split(',')) {
        let item = item.to_ascii_lowercase();
        let mut parts = item.split(';').map(str::trim);
        let kind = parts.next().unwrap_or("");
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, weight);
        let (to_json, to_plain) = match kind {
            "*/*" => (1, 1),
            "application/*" => (2, 0),
            "text/*" => (0, 2),
            _ if kind == "application/json" || kind.ends_with("+json") => (3, 0),
            // whoever shows HTML shows text
            _ => (0, if kind.starts_with("text/") { 3 } else { 0 }),
        };
        for (best, close) in [(&mut json, to_json), (&mut plain, to_plain)] {
            if close > best.0 || (close == best.0 && close > 0 && weight > best.1) {
                *best = (close, weight);
            }
        }
    }
    json.1 > plain.1 || (json.1 == plain.1 && json.1 > 0.0 && json.0 > plain.0)
}

/// What is no weight is none.
fn weight(text: &str) -> f32 {
    text.parse().ok().filter(|weight| (0.0..=1.0).contains(weight)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &str, json: bool) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        assert_eq!(prefers_json(&headers), json, "{accept}");
    }

    #[test]
    fn json_is_for_those_who_like_it_better_than_text() {
        check("application/json", true);
        check("application/problem+json, */*;q=0.8", true);
        check("text/html,application/xhtml+xml,*/*;q=0.8", false);
        check("text/html;q=0.5, application/json", true);
        check("application/json;q=0.2, text/plain", false);
        check("*/*", false);
        check("application/json;q=x", false);
        check("application/json;q=2", false);
        check("application/json;q=0", false);
        check("application/json, */*", true);
        check("application/json, text/plain, */*", false);
        check("application/*", true);
        check("application/*, text/*", false);
        check("Application/JSON;Q=0.9, text/*;q=0.8", true);
        check("*/*;q=0.8, application/json;q=0.1", false);
        check("application/json;q=0.2, */*;q=0.1", true);
        check("text/plain;q=0, */*", true);
        check("text/plain;q=0.1, text/html;q=0.4, application/json;q=0.3", false);
        check("image/png", false);
        check(",;,q=1", false);
    }

    #[test]
    fn a_canned_answer_is_whole_and_names_nobody() {
        let bytes = canned(Fault::BadRequest, "abc");
        let text = std::str::from_utf8(&bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"));
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert!(head.contains("Proxy-Status: moorgate; error=http_request_error; details=\"sent=0\""));
        assert!(!text.to_ascii_lowercase().contains("pingora"));
    }
}
