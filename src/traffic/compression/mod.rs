//! Is this answer compressed for this client, and what is said of it then?
//!
//! Only whole answers of the types the operator named, that no other coding, length or promise is attached to. A HEAD is
//! told what its GET would be. Caches are told that the answer depends on `Accept-Encoding` whether or not this one was
//! compressed. Streams that have to arrive event by event are left alone. Pingora's own module is not used: it takes the
//! first coding named whatever its weight, picks types by itself (streams of events and gRPC among them), touches parts
//! of a range, and holds pieces back.

mod accept;
mod encoder;

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap,
    HeaderName, HeaderValue, IF_NONE_MATCH, RANGE, TRAILER, TRANSFER_ENCODING, VARY,
};
use http::{Method, StatusCode, Version};
use pingora_http::{RequestHeader, ResponseHeader};

use self::accept::Accepted;
use crate::config::compression::{self, Algorithm, MediaType};

pub use encoder::{Encoder, memory};

/// What says of an answer's bytes what they are: they would be others.
static SEALS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

const NOT_MODIFIED: u16 = 304;

/// The `compression` section of a route.
#[derive(Debug, Clone)]
pub struct Compression {
    algorithms: Box<[Algorithm]>,
    types: Box<[MediaType]>,
    min: u64,
}

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It stays as it is, whoever asks.
    Untouched,
    /// It stays as it is; another client might be sent it compressed.
    Varies,
    /// It is compressed.
    Encoded(Algorithm),
}

impl Compression {
    /// Compiles what was written.
    pub fn compile(written: &compression::Compression) -> Self {
        let compression::Compression { algorithms, types, min } = written;
        Self { algorithms: algorithms.iter().copied().collect(), types: types.iter().cloned().collect(), min: min.0 }
    }

    /// What becomes of this answer to this request.
    pub fn decide(&self, request: &RequestHeader, answer: &ResponseHeader) -> Verdict {
        if !self.may_encode(answer) {
            return Verdict::Untouched;
        }
        let asks_for_it_as_it_is = request.version == Version::HTTP_10
            || request.headers.contains_key(RANGE)
            || has_word(&request.headers, &CACHE_CONTROL, "no-transform");
        match Accepted::of(&request.headers).best(&self.algorithms) {
            Some(algorithm) if !asks_for_it_as_it_is => Verdict::Encoded(algorithm),
            _ => Verdict::Varies,
        }
    }

    /// Is this an answer that may be compressed, if its client likes that?
    fn may_encode(&self, answer: &ResponseHeader) -> bool {
        let headers = &answer.headers;
        has_whole_content(answer.status)
            && self.has_type(headers)
            && length(headers).is_none_or(|length| length >= self.min && length > 0)
            && !headers.contains_key(CONTENT_ENCODING)
            && !headers.contains_key(CONTENT_RANGE)
            && !headers.contains_key(TRAILER)
            && !has_word(headers, &CACHE_CONTROL, "no-transform")
            && !SEALS.iter().any(|seal| headers.contains_key(seal))
    }

    fn has_type(&self, headers: &HeaderMap) -> bool {
        let Some(written) = headers.get(CONTENT_TYPE) else { return false };
        let essence = written.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let Some(slash) = memchr::memchr(b'/', essence) else { return false };
        let (kind, sub) = (essence.get(..slash).unwrap_or_default(), essence.get(slash + 1..).unwrap_or_default());
        let is = |bytes: &[u8], word: &str| bytes.eq_ignore_ascii_case(word.as_bytes());
        let is_among =
            |one: &MediaType| is(kind, &one.kind) && one.sub.as_deref().is_none_or(|written| is(sub, written));
        self.types.iter().any(is_among) && !is_stream(kind, sub)
    }
}

/// Says in `head` what becomes of the answer.
pub fn announce(verdict: Verdict, request: &RequestHeader, head: &mut ResponseHeader) {
    match verdict {
        Verdict::Untouched => {}
        Verdict::Varies => vary(head),
        Verdict::Encoded(algorithm) => {
            vary(head);
            let is_chunked = request.version != Version::HTTP_2 && request.method != Method::HEAD;
            if head.remove_header(&CONTENT_LENGTH).is_some() && is_chunked {
                put(head, TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
            head.remove_header(&ACCEPT_RANGES);
            put(head, CONTENT_ENCODING, HeaderValue::from_static(word(algorithm)));
            if let Some(tag) = head.headers.get(ETAG).and_then(weak) {
                put(head, ETAG, tag);
            }
        }
    }
}

/// "Not modified": what the client holds is what we made of the origin's answer. Named by the tag it was given, or its
/// cache does not know which of its answers is meant (RFC 9111, section 4.3.4).
pub fn confirm(request: &RequestHeader, head: &mut ResponseHeader) {
    let Some(tag) = head.headers.get(ETAG).and_then(weak) else { return };
    if head.status.as_u16() == NOT_MODIFIED && lists_tag(&request.headers, tag.as_bytes()) {
        put(head, ETAG, tag);
        vary(head);
    }
}

/// The length an answer says it has.
pub fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn word(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Zstd => "zstd",
        Algorithm::Br => "br",
        Algorithm::Gzip => "gzip",
    }
}

/// No 204, 205, 206 or 304, and no interim answer.
fn has_whole_content(status: StatusCode) -> bool {
    !status.is_informational() && !matches!(status.as_u16(), 204..=206 | NOT_MODIFIED)
}

/// Server-sent events and gRPC.
fn is_stream(kind: &[u8], sub: &[u8]) -> bool {
    let is_grpc = sub.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"grpc"));
    (kind.eq_ignore_ascii_case(b"text") && sub.eq_ignore_ascii_case(b"event-stream"))
        || (kind.eq_ignore_ascii_case(b"application") && is_grpc)
}

/// The weak form of a strong tag: other bytes, the same meaning.
fn weak(tag: &HeaderValue) -> Option<HeaderValue> {
    let strong = tag.as_bytes().starts_with(b"\"");
    strong.then(|| HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat()).ok()).flatten()
}

/// Tells caches, unless they know.
fn vary(head: &mut ResponseHeader) {
    if !has_word(&head.headers, &VARY, "accept-encoding") && !has_word(&head.headers, &VARY, "*") {
        // fails only beyond some thousand lines, far above what a header may hold here
        let _ = head.append_header(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

fn put(head: &mut ResponseHeader, name: HeaderName, value: HeaderValue) {
    let _ = head.insert_header(name, value);
}

/// Does one of the lines of `name` list this word?
fn has_word(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let mut words = headers.get_all(name).into_iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    words.any(|one| one.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// Does `If-None-Match` list this tag? Within its quotes a comma is a part of it, as is the case of its letters.
fn lists_tag(headers: &HeaderMap, tag: &[u8]) -> bool {
    headers.get_all(IF_NONE_MATCH).into_iter().any(|line| {
        let mut is_quoted = false;
        let mut parts = line.as_bytes().split(|byte| {
            is_quoted ^= *byte == b'"';
            *byte == b',' && !is_quoted
        });
        parts.any(|one| one.trim_ascii() == tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compression() -> Compression {
        Compression::compile(&compression::Compression::default())
    }

    fn request(method: &str, lines: &[(&'static str, &'static str)]) -> RequestHeader {
        let mut request = RequestHeader::build(method, b"/", None).unwrap();
        for (name, value) in lines {
            request.append_header(*name, *value).unwrap();
        }
        request
    }

    fn answer(status: u16, lines: &[(&'static str, &'static str)]) -> ResponseHeader {
        let mut answer = ResponseHeader::build(status, None).unwrap();
        for (name, value) in lines {
            answer.append_header(*name, *value).unwrap();
        }
        answer
    }

    const JSON: (&str, &str) = ("Content-Type", "application/json; charset=utf-8");
    const LONG: (&str, &str) = ("Content-Length", "5000");

    fn verdict(lines: &[(&'static str, &'static str)]) -> Verdict {
        compression().decide(&request("GET", &[("accept-encoding", "gzip, br")]), &answer(200, lines))
    }

    #[test]
    fn whole_answers_of_the_types_named_are_compressed() {
        for lines in [
            &[JSON, LONG][..],
            &[JSON],
            &[("Content-Type", "text/html"), LONG],
            &[("Content-Type", "TEXT/x-anything ;a=b")],
            &[JSON, ("Content-Length", "1024")],
            &[JSON, ("Cache-Control", "public, max-age=3")],
        ] {
            assert_eq!(verdict(lines), Verdict::Encoded(Algorithm::Br), "{lines:?}");
        }
        let error = compression().decide(&request("GET", &[("accept-encoding", "gzip")]), &answer(503, &[JSON, LONG]));
        assert_eq!(error, Verdict::Encoded(Algorithm::Gzip));
    }

    #[test]
    fn whatever_else_stays_as_it_is() {
        for lines in [
            &[LONG][..],
            &[("Content-Type", "image/png"), LONG],
            &[("Content-Type", "application/jsonlines"), LONG],
            &[("Content-Type", "text"), LONG],
            &[("Content-Type", "text/event-stream")],
            &[("Content-Type", "Text/Event-Stream; charset=utf-8")],
            &[JSON, ("Content-Length", "1023")],
            &[JSON, ("Content-Length", "0")],
            &[JSON, LONG, ("Content-Encoding", "gzip")],
            &[JSON, LONG, ("Content-Encoding", "identity")],
            &[JSON, LONG, ("Content-Range", "bytes 0-4999/10000")],
            &[JSON, LONG, ("Cache-Control", "max-age=3"), ("Cache-Control", "private, No-Transform")],
            &[JSON, LONG, ("Content-Digest", "sha-256=:x:")],
            &[JSON, ("Trailer", "Server-Timing")],
        ] {
            assert_eq!(verdict(lines), Verdict::Untouched, "{lines:?}");
        }
        for status in [101, 204, 205, 206, 304] {
            let found = compression().decide(&request("GET", &[("accept-encoding", "gzip")]), &answer(status, &[JSON]));
            assert_eq!(found, Verdict::Untouched, "{status}");
        }
        let everything = compression::Compression {
            types: [MediaType { kind: "application".into(), sub: None }].into(),
            ..compression::Compression::default()
        };
        let grpc = answer(200, &[("Content-Type", "application/grpc+proto")]);
        let found = Compression::compile(&everything).decide(&request("POST", &[("accept-encoding", "gzip")]), &grpc);
        assert_eq!(found, Verdict::Untouched);
    }

    #[test]
    fn caches_are_told_though_this_client_is_sent_it_plain() {
        for lines in [
            &[][..],
            &[("accept-encoding", "gzip;q=0")],
            &[("accept-encoding", "gzip"), ("range", "bytes=0-9")],
            &[("accept-encoding", "gzip"), ("cache-control", "no-transform")],
        ] {
            let found = compression().decide(&request("GET", lines), &answer(200, &[JSON, LONG]));
            assert_eq!(found, Verdict::Varies, "{lines:?}");
        }
        let mut old = request("GET", &[("accept-encoding", "gzip")]);
        old.set_version(Version::HTTP_10);
        assert_eq!(compression().decide(&old, &answer(200, &[JSON, LONG])), Verdict::Varies);
    }

    fn announced(method: &str, verdict: Verdict, lines: &[(&'static str, &'static str)]) -> ResponseHeader {
        let mut head = answer(200, lines);
        announce(verdict, &request(method, &[]), &mut head);
        head
    }

    fn value<'a>(head: &'a ResponseHeader, name: &str) -> Option<&'a str> {
        let mut values = head.headers.get_all(name).iter().map(|value| value.to_str().unwrap());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} twice");
        first
    }

    #[test]
    fn what_is_said_of_the_answer_fits_what_is_sent() {
        let lines = [JSON, LONG, ("ETag", "\"abc\""), ("Accept-Ranges", "bytes")];
        let head = announced("GET", Verdict::Encoded(Algorithm::Gzip), &lines);
        let told = ["content-encoding", "vary", "etag", "transfer-encoding", "content-length", "accept-ranges"];
        let found = told.map(|name| value(&head, name));
        assert_eq!(found, [Some("gzip"), Some("Accept-Encoding"), Some("W/\"abc\""), Some("chunked"), None, None]);
        let head = announced("HEAD", Verdict::Encoded(Algorithm::Gzip), &lines);
        let found = told.map(|name| value(&head, name));
        assert_eq!(found, [Some("gzip"), Some("Accept-Encoding"), Some("W/\"abc\""), None, None, None]);
        let head = announced("GET", Verdict::Varies, &lines);
        let found = told.map(|name| value(&head, name));
        assert_eq!(found, [None, Some("Accept-Encoding"), Some("\"abc\""), None, Some("5000"), Some("bytes")]);
        let head = announced("GET", Verdict::Encoded(Algorithm::Br), &[JSON, ("ETag", "W/\"abc\"")]);
        assert_eq!((value(&head, "etag"), value(&head, "content-encoding")), (Some("W/\"abc\""), Some("br")));
    }

    #[test]
    fn caches_are_told_once() {
        let vary = |lines: &[(&'static str, &'static str)]| {
            let head = announced("GET", Verdict::Varies, lines);
            head.headers.get_all("vary").iter().map(|line| line.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(vary(&[("Vary", "origin, accept-encoding")]), ["origin, accept-encoding"]);
        assert_eq!(vary(&[("Vary", "*")]), ["*"]);
        assert_eq!(vary(&[("Vary", "Origin")]), ["Origin", "Accept-Encoding"]);
    }

    #[test]
    fn a_cache_hears_again_the_tag_it_was_given() {
        let tag = |asked: &'static str, status: u16, tag: &'static str| {
            let mut head = answer(status, &[("ETag", tag)]);
            confirm(&request("GET", &[("If-None-Match", asked)]), &mut head);
            head.headers["etag"].to_str().unwrap().to_owned()
        };
        assert_eq!(tag("W/\"a\"", 304, "\"a\""), "W/\"a\"");
        assert_eq!(tag("\"b\", W/\"a\"", 304, "\"a\""), "W/\"a\"");
        assert_eq!(tag("\"a\"", 304, "\"a\""), "\"a\"");
        assert_eq!(tag("W/\"a\"", 200, "\"a\""), "\"a\"");
        assert_eq!(tag("W/\"a\"", 304, "W/\"a\""), "W/\"a\"");
        assert_eq!(tag("\"b\",W/\"a,b\"", 304, "\"a,b\""), "W/\"a,b\"", "a comma is a part of it");
        assert_eq!(tag("\"x, W/\"", 304, "\"x\""), "\"x\"");
        assert_eq!(tag("W/\"A\"", 304, "\"a\""), "\"a\"", "another tag");
    }
}
