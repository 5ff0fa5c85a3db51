//! What is said to a gRPC client, and how long does it wait?
//!
//! It reads no HTTP status: an answer of ours is a 200 whose header is its end, with the code of gRPC in `grpc-status`;
//! one that has begun gets its code in trailers. The class of error and the status it stands for are what is logged and
//! counted. Its deadline is ours as well, and says nothing about an origin that is slower.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use pingora_core::protocols::http::ServerSession as HttpSession;
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::Session;

use super::ctx::Ctx;
use super::reject::{self, Facts, facts};
use crate::pool::Timeouts;
use crate::resilience::Class;

/// A client ends its call by itself at its deadline, and what it says takes as long to come as the call took. It is waited
/// for so much longer: ours ends the connection for the calls to come, its own does not.
const GRACE: Duration = Duration::from_millis(200);

/// The codes of gRPC that are ours to give.
mod codes {
    pub(super) const UNKNOWN: u16 = 2;
    pub(super) const DEADLINE_EXCEEDED: u16 = 4;
    pub(super) const PERMISSION_DENIED: u16 = 7;
    pub(super) const RESOURCE_EXHAUSTED: u16 = 8;
    pub(super) const UNIMPLEMENTED: u16 = 12;
    pub(super) const INTERNAL: u16 = 13;
    pub(super) const UNAVAILABLE: u16 = 14;
    pub(super) const UNAUTHENTICATED: u16 = 16;
}

/// The code for a class: by the status it stands for, as clients of gRPC read a bare status, but where a class says more.
fn code(class: Class) -> u16 {
    match class {
        Class::Deadline | Class::ResponseTimeout | Class::ClientTimeout => codes::DEADLINE_EXCEEDED,
        Class::BodyTooLarge => codes::RESOURCE_EXHAUSTED,
        _ => match facts(class).status.as_u16() {
            400 | 414 | 431 => codes::INTERNAL,
            401 => codes::UNAUTHENTICATED,
            403 => codes::PERMISSION_DENIED,
            404 | 405 => codes::UNIMPLEMENTED,
            429 | 502..=504 => codes::UNAVAILABLE,
            _ => codes::UNKNOWN,
        },
    }
}

/// Is this request, or answer, one of gRPC?
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    const KIND: &[u8] = b"application/grpc";
    let kind = headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    kind.get(..KIND.len()).is_some_and(|start| start.eq_ignore_ascii_case(KIND))
        && matches!(kind.get(KIND.len()), None | Some(b'+' | b';' | b'-' | b' '))
}

/// When a request that began then has to be over, as it says itself.
pub(super) fn deadline(headers: &HeaderMap, began: Instant) -> Option<Instant> {
    let timeout = headers.get("grpc-timeout")?;
    began.checked_add(parse(timeout.to_str().ok()?)?.checked_add(GRACE)?)
}

/// At most eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Time-outs of a try that has to be over by then. Where streams share a connection nothing but the silence of one can be
/// timed: it may last for what is left now.
///
/// # Errors
/// Nothing is left.
pub(super) fn left(timeouts: &Timeouts, ctx: &Ctx, now: Instant) -> Result<Timeouts, Class> {
    let Some(deadline) = ctx.deadline else { return Ok(*timeouts) };
    let left = deadline.saturating_duration_since(now);
    if left.is_zero() {
        return Err(Class::Deadline);
    }
    let (connect, read, stream) = (timeouts.connect.min(left), timeouts.read.min(left), timeouts.stream.min(left));
    Ok(Timeouts { connect, read, stream, ..*timeouts })
}

/// The class of a failure that came with the end of the client's own time: it would have been over anyway.
pub(super) fn in_time(class: Class, ctx: &Ctx, now: Instant) -> Class {
    let is_over = ctx.deadline.is_some_and(|deadline| now >= deadline);
    match class {
        Class::ResponseTimeout | Class::ConnectTimeout if is_over => Class::Deadline,
        class => class,
    }
}

/// An answer that goes on and on ends with the client's time.
///
/// # Errors
/// It is over.
pub(super) fn still_in_time(ctx: &Ctx, now: Instant) -> pingora_core::Result<()> {
    match ctx.deadline {
        Some(deadline) if now >= deadline => Err(super::again::raise(Class::Deadline)),
        _ => Ok(()),
    }
}

/// Code and words.
fn told(class: Class, request_id: &str) -> [(&'static str, String); 2] {
    let message = format!("{} (request {request_id})", class.as_str()).replace('%', "%25");
    [("grpc-status", code(class).to_string()), ("grpc-message", message)]
}

/// Our answer for `class`, and the status it stands for. `proxy_status`: what is told in that header.
///
/// # Errors
/// The client is gone.
pub(super) async fn answer(
    session: &mut Session,
    class: Class,
    request_id: &str,
    proxy_status: String,
) -> pingora_core::Result<http::StatusCode> {
    let Facts { status, .. } = facts(class);
    let request: &RequestHeader = session.req_header();
    let kind = request.headers.get(header::CONTENT_TYPE).cloned();
    let mut answer = ResponseHeader::build(reject::ok(), Some(8))?;
    answer.insert_header(header::CONTENT_TYPE, kind.unwrap_or(HeaderValue::from_static("application/grpc")))?;
    for (name, value) in told(class, request_id) {
        answer.insert_header(name, value)?;
    }
    answer.insert_header(header::CACHE_CONTROL, "no-store")?;
    answer.insert_header("Proxy-Status", proxy_status)?;
    answer.insert_header("X-Request-ID", request_id)?;
    // The header is the end: Pingora's own way to write it would leave that to an empty frame, or to a reset.
    if let HttpSession::H2(stream) = session.as_downstream_mut() {
        stream.write_response_header(Box::new(answer), true)?;
        return Ok(status);
    }
    answer.insert_header(header::CONTENT_LENGTH, 0)?;
    session.write_response_header(Box::new(answer), false).await?;
    session.write_response_body(Some(Bytes::new()), true).await?;
    Ok(status)
}

/// The end of an answer that had begun: its code in trailers. False: it cannot be told so.
pub(super) async fn end_with(session: &mut Session, class: Class, request_id: &str) -> bool {
    if !session.is_http2() || !is_grpc(&session.req_header().headers) {
        return false;
    }
    let mut trailers = HeaderMap::with_capacity(2);
    for (name, value) in told(class, request_id) {
        let Ok(value) = HeaderValue::try_from(value) else { return false };
        trailers.insert(name, value);
    }
    session.as_downstream_mut().write_response_trailers(trailers).await.is_ok()
}

/// The status that an answer of ours stands for, if the client read it as gRPC.
pub(super) fn stands_for(session: &Session, class: Option<Class>) -> Option<u16> {
    let (class, written) = (class?, session.response_written()?);
    let is_ours =
        written.headers.get("proxy-status").is_some_and(|said| said.as_bytes().starts_with(b"moorgate; error="));
    (is_ours && is_grpc(&session.req_header().headers)).then(|| facts(class).status.as_u16())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn grpc_is_known_by_its_type_alone() {
        let check = |kind| is_grpc(&headers("content-type", kind));
        for kind in ["application/grpc", "application/grpc+proto", "Application/gRPC;x", "application/grpc-web+json"] {
            assert!(check(kind), "{kind}");
        }
        for kind in ["application/grpcx", "application/json", "text/grpc", ""] {
            assert!(!check(kind), "{kind}");
        }
    }

    #[test]
    fn a_deadline_is_up_to_eight_digits_and_a_unit() {
        let now = Instant::now();
        let check = |text| deadline(&headers("grpc-timeout", text), now).map(|end| end - now - GRACE);
        let seconds = Duration::from_secs;
        for (text, time) in [
            ("1S", seconds(1)),
            ("99999999H", seconds(99_999_999 * 3600)),
            ("2M", seconds(120)),
            ("150m", Duration::from_millis(150)),
            ("7u", Duration::from_micros(7)),
            ("0n", Duration::ZERO),
        ] {
            assert_eq!(check(text), Some(time), "{text}");
        }
        for text in ["", "S", "1", "1s", "-1S", "+1S", "1.5S", "123456789S", "1 S", "1SS"] {
            assert_eq!(check(text), None, "{text}");
        }
        assert_eq!(deadline(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_class_has_the_code_clients_would_make_of_its_status_or_a_better_one() {
        for (class, expected) in [
            (Class::BadRequest, 13),
            (Class::Denied, 7),
            (Class::NoRoute, 12),
            (Class::Limited, 14),
            (Class::Saturated, 14),
            (Class::NoOrigin, 14),
            (Class::ConnectRefused, 14),
            (Class::ConnectTimeout, 14),
            (Class::Untrusted, 14),
            (Class::Reset, 14),
            (Class::ResponseTimeout, 4),
            (Class::Deadline, 4),
            (Class::BodyTooLarge, 8),
            (Class::HeaderTooLarge, 13),
            (Class::ClientGone, 2),
        ] {
            assert_eq!(code(class), expected, "{class:?}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_time_or_none(text in "\\PC{0,12}|[0-9]{0,10}[HMSmunx]?") {
            let _ = parse(&text);
        }
    }
}
