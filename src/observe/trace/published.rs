//! What do OpenTelemetry's own published types read in what is written here?

use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message as _;

use super::context::{Context, Origin};
use super::{span, wire};
use crate::config::parse;
use crate::config::tracing::Tracing;
use crate::observe::Record;
use crate::observe::access_log::sample;
use crate::template::Facts;

/// How long before the end the two tries began.
const AGO: [Duration; 2] = [Duration::from_millis(12), Duration::from_millis(11)];

const PARENT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn tracing(more: &str) -> Tracing {
    let text = format!(
        "version: 1\nprocess: {{ listeners: [ {{ address: 0.0.0.0:80 }} ], \
         tracing: {{ otlp: {{ endpoint: \"http://c\" }}{more} }} }}\npools: {{ a: {{ origins: [o] }} }}\n"
    );
    parse("f", &text).unwrap().config.process.tracing.on().unwrap().clone()
}

/// What a request's spans are for a collector.
fn read(context: &Context, change: impl FnOnce(&mut Record<'_>)) -> (ResourceSpans, Vec<Span>) {
    let mut spans = Vec::new();
    sample::with(|record| {
        change(record);
        span::request(context, record, &AGO, &mut spans);
    });
    decoded(&spans)
}

/// What these spans are for a collector.
fn decoded(spans: &[u8]) -> (ResourceSpans, Vec<Span>) {
    let message = wire::Around::new(&tracing(", service_name: edge, resource: { zone: a }")).message(spans);
    let mut request = ExportTraceServiceRequest::decode(&*message).unwrap();
    assert_eq!((request.resource_spans.len(), request.resource_spans[0].scope_spans.len()), (1, 1));
    let spans = std::mem::take(&mut request.resource_spans[0].scope_spans[0].spans);
    (request.resource_spans.remove(0), spans)
}

/// Attributes as lines.
fn lines(attributes: &[KeyValue]) -> Vec<String> {
    let value = |attribute: &KeyValue| match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(flag) => flag.to_string(),
        Value::IntValue(number) => number.to_string(),
        Value::DoubleValue(number) => format!("{number}s"),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|attribute| format!("{}={}", attribute.key, value(attribute))).collect()
}

#[test]
fn a_request_and_its_tries_are_a_tree() {
    let context = Context::new(Origin::parse(PARENT), true);
    let (resource, spans) = read(&context, |_| ());
    let of = resource.resource.unwrap();
    let own = lines(&of.attributes);
    for attribute in ["service.name=edge", concat!("service.version=", env!("CARGO_PKG_VERSION")), "zone=a"] {
        assert!(own.contains(&attribute.to_owned()), "{attribute} in {own:?}");
    }
    assert_eq!(resource.scope_spans[0].scope.as_ref().unwrap().name, "moorgate");
    let [server, first, second] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!([&server.name, &first.name], ["GET api", "GET origin"]);
    assert_eq!([server.kind, first.kind, second.kind], [2, 3, 3]);
    assert!(spans.iter().all(|span| span.trace_id == PARENT_TRACE));
    assert_eq!(server.parent_span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
    assert_eq!([&first.parent_span_id, &second.parent_span_id], [&server.span_id; 2]);
    let told = [1, 2].map(|attempt| Origin::parse(&context.header(attempt).unwrap()));
    let seen = [first, second].map(|span| Context::new(told[usize::from(span == second)], true).parent());
    assert_eq!(seen.map(|id| id.unwrap().to_vec()), [first.span_id.clone(), second.span_id.clone()]);
    let micros = |span: &Span| (span.end_time_unix_nano - span.start_time_unix_nano) / 1000;
    assert_eq!([micros(server), micros(first), micros(second)], [12_345, 100, 11_000]);
    assert_eq!(server.end_time_unix_nano, 1_795_984_501_042_000_000);
    assert_eq!(server.end_time_unix_nano - first.start_time_unix_nano, 12_000_000);
    assert_eq!([server.flags, first.flags], [0x301, 0x101]);
}

const PARENT_TRACE: [u8; 16] =
    [0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d, 0x0e, 0x0e, 0x47, 0x36];

#[test]
fn a_span_says_what_the_conventions_ask_for_and_no_secret() {
    let (_, spans) = read(&Context::new(None, true), |_| ());
    let [server, first, second] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(
        lines(&server.attributes),
        [
            "http.request.method=GET",
            "url.scheme=http",
            "url.path=/a",
            "server.address=example.com",
            "client.address=192.0.2.7",
            "network.peer.address=192.0.2.7",
            "network.peer.port=5000",
            "network.protocol.version=1.1",
            "user_agent.original=curl\"8",
            "http.response.status_code=200",
            "moorgate.request_id=0123456789abcdef0123456789abcdef",
            "moorgate.route=api",
            "moorgate.pool=origin",
            "moorgate.attempts=2",
        ]
    );
    assert_eq!(
        lines(&first.attributes),
        [
            "http.request.method=GET",
            "server.address=10.0.0.1",
            "server.port=80",
            "network.peer.address=10.0.0.1",
            "network.peer.port=80",
            "moorgate.pool=origin",
            "moorgate.origin=a:80",
            "moorgate.attempt=1",
            "moorgate.outcome=connect_refused",
            "moorgate.connection.reused=false",
            "error.type=connect_refused",
        ]
    );
    let second_says = lines(&second.attributes);
    for attribute in ["http.request.resend_count=1", "http.response.status_code=200", "moorgate.cache=hit"] {
        assert!(second_says.contains(&attribute.to_owned()), "{attribute} in {second_says:?}");
    }
    let errors = [server, first, second].map(|span| span.status.as_ref().map_or(0, |status| status.code));
    assert_eq!(errors, [0, 2, 0]);
    assert!(server.parent_span_id.is_empty());
}

#[test]
fn failures_are_told_by_their_class_or_status() {
    let told = |status, error: Option<&'static str>| {
        let (_, spans) = read(&Context::new(None, true), |record| {
            record.facts.method = "BREW";
            (record.status, record.error, record.attempts, record.route) = (status, error, &[], None);
        });
        assert_eq!((spans.len(), spans[0].name.as_str()), (1, "HTTP"));
        let says = lines(&spans[0].attributes);
        assert!(says.contains(&"http.request.method=_OTHER".to_owned()), "{says:?}");
        let error = says.iter().find_map(|line| line.strip_prefix("error.type=")).unwrap_or_default().to_owned();
        (error, spans[0].status.as_ref().map_or(0, |status| status.code))
    };
    for (status, error, kind, code) in [
        (200, None, "", 0),
        (404, Some("no_route"), "no_route", 0),
        (499, Some("client_gone"), "client_gone", 0),
        (200, Some("client_gone"), "client_gone", 0),
        (200, Some("reset"), "reset", 2),
        (502, Some("reset"), "reset", 2),
        (503, None, "503", 2),
    ] {
        assert_eq!(told(status, error), (kind.to_owned(), code), "{status} {error:?}");
    }
}

#[test]
fn long_texts_and_odd_bytes_are_spelt_right() {
    let long = format!("/{}\u{e9}?secret", "x".repeat(70_000));
    let mut bytes = long.clone().into_bytes();
    bytes.insert(1, 0xff);
    let mut spelt = Vec::new();
    sample::with(|record| {
        let facts = Facts { target: &bytes, ..record.facts };
        span::request(&Context::new(None, true), &Record { facts, ..*record }, &AGO, &mut spelt);
    });
    let (_, spans) = decoded(&spelt);
    let path = lines(&spans[0].attributes).into_iter().find(|line| line.starts_with("url.path=")).unwrap();
    assert_eq!(path, format!("url.path=/\u{fffd}{}\u{e9}", "x".repeat(70_000)));
}

#[test]
fn the_state_of_a_trace_goes_with_its_spans() {
    let mut headers = http::HeaderMap::new();
    for value in ["a=1", "b=2"] {
        headers.append("tracestate", value.parse().unwrap());
    }
    let mut spans = Vec::new();
    for parent in [Origin::parse(PARENT), None] {
        sample::with(|record| {
            let facts = Facts { headers: &headers, ..record.facts };
            span::request(&Context::new(parent, true), &Record { facts, ..*record }, &[], &mut spans);
        });
    }
    let (_, spans) = decoded(&spans);
    assert_eq!(spans.iter().map(|span| &*span.trace_state).collect::<Vec<_>>(), ["a=1,b=2", ""]);
}

#[test]
fn what_a_collector_rejects_is_read() {
    let partial = ExportTracePartialSuccess { rejected_spans: 300, error_message: "too old".to_owned() };
    let answer = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    assert_eq!(wire::rejected(&answer), 300);
    for none in [&b""[..], b"\x0a\x00", b"\x0a\xff", b"{\"partialSuccess\":{}}", &answer[..3]] {
        assert_eq!(wire::rejected(none), 0, "{none:?}");
    }
}
