//! A collector of traces: takes OTLP over HTTP, decodes it by the published types, and answers as it is told.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1;
use parking_lot::Mutex;
use prost::Message as _;

use super::{eventually, ports};

/// A running collector.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

/// What a collector has, and what it says.
struct State {
    spans: Vec<Span>,
    /// Headers of all messages, names in lower case.
    heads: Vec<BTreeMap<String, String>>,
    /// Attributes of the last resource.
    resource: BTreeMap<String, String>,
    connections: usize,
    /// `None`: takes messages and says nothing.
    status: Option<u16>,
    /// Gone: whoever comes is sent away.
    closed: bool,
    open: Vec<TcpStream>,
}

/// A span, ids in hex.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) state: String,
    /// 2: of a request that came; 3: of one that was made.
    pub(crate) kind: i32,
    pub(crate) failed: bool,
    pub(crate) nanos: (u64, u64),
    pub(crate) attributes: BTreeMap<String, String>,
}

/// Starts one that takes everything.
pub(crate) fn collector() -> Collector {
    let listener = ports::listener().unwrap();
    let address = listener.local_addr().unwrap();
    let state = Arc::new(Mutex::new(State {
        spans: Vec::new(),
        heads: Vec::new(),
        resource: BTreeMap::new(),
        connections: 0,
        status: Some(200),
        closed: false,
        open: Vec::new(),
    }));
    let shared = Arc::clone(&state);
    thread::spawn(move || take_all(&listener, &shared));
    Collector { address, state }
}

fn take_all(listener: &TcpListener, state: &Arc<Mutex<State>>) {
    for stream in listener.incoming().map_while(Result::ok) {
        let mut now = state.lock();
        if now.closed {
            continue;
        }
        now.connections += 1;
        now.open.push(stream.try_clone().unwrap());
        let state = Arc::clone(state);
        thread::spawn(move || serve(stream, &state));
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut answers = stream.try_clone().unwrap();
    let mut stream = BufReader::new(stream);
    while let Some((head, body)) = message(&mut stream) {
        let mut state = state.lock();
        state.heads.push(head);
        let Some(status) = state.status else { continue };
        if status == 200 {
            state.take(&body);
        }
        drop(state);
        let answer =
            format!("HTTP/1.1 {status} x\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n");
        if answers.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The next message; its head has the request line under an empty name.
fn message(stream: &mut BufReader<TcpStream>) -> Option<(BTreeMap<String, String>, Vec<u8>)> {
    let mut head = BTreeMap::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        match line.split_once(": ") {
            _ if line.is_empty() => break,
            Some((name, value)) => head.insert(name.to_lowercase(), value.to_owned()),
            None => head.insert(String::new(), line.to_owned()),
        };
    }
    let mut body = vec![0; head.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

impl State {
    fn take(&mut self, body: &[u8]) {
        let request = ExportTraceServiceRequest::decode(body).expect("a message of OTLP");
        for resource in request.resource_spans {
            self.resource = texts(&resource.resource.unwrap().attributes);
            let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.spans.extend(spans.map(|span| Span::of(&span)));
        }
    }
}

impl Span {
    fn of(span: &v1::Span) -> Self {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Self {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            name: span.name.clone(),
            state: span.trace_state.clone(),
            kind: span.kind,
            failed: span.status.as_ref().is_some_and(|status| status.code == 2),
            nanos: (span.start_time_unix_nano, span.end_time_unix_nano),
            attributes: texts(&span.attributes),
        }
    }

    /// An attribute, empty if it is missing.
    pub(crate) fn says(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.clone()?.value? {
        Value::StringValue(text) => Some(text),
        Value::BoolValue(flag) => Some(flag.to_string()),
        Value::IntValue(number) => Some(number.to_string()),
        Value::DoubleValue(number) => Some(number.to_string()),
        _ => None,
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute).unwrap())).collect()
}

impl Collector {
    /// The `tracing` section that names it.
    pub(crate) fn section(&self, more: &str) -> String {
        format!("{{ otlp: {{ endpoint: \"http://{}\", timeout: 500ms }}{more} }}", self.address)
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.state.lock().spans.clone()
    }

    /// Waits for the spans of this request, which are as many: its own first, then its tries in order.
    pub(crate) fn of(&self, path: &str, count: usize) -> Vec<Span> {
        let mut found = eventually(&format!("{count} spans of {path}"), || {
            let all = self.spans();
            let own = all.iter().find(|span| span.says("url.path") == path)?;
            let tree = all.iter().filter(|span| span.parent == own.id).cloned();
            let tree: Vec<_> = std::iter::once(own.clone()).chain(tree).collect();
            (tree.len() == count).then_some(tree)
        });
        found[1..].sort_by_key(|span| span.says("moorgate.attempt").to_owned());
        found
    }

    /// The head of the first message.
    pub(crate) fn head(&self) -> BTreeMap<String, String> {
        eventually("a message", || self.state.lock().heads.first().cloned())
    }

    pub(crate) fn messages(&self) -> usize {
        self.state.lock().heads.len()
    }

    pub(crate) fn resource(&self) -> BTreeMap<String, String> {
        self.state.lock().resource.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.lock().connections
    }

    /// Answers with this status from now on; `None`: not at all.
    pub(crate) fn answers(&self, status: Option<u16>) {
        self.state.lock().status = status;
    }

    /// Is gone, with all its connections, or there again.
    pub(crate) fn close(&self, closed: bool) {
        let mut state = self.state.lock();
        state.closed = closed;
        state.open.drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}
