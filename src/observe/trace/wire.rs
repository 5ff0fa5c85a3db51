//! How are spans spelt? Protocol Buffers, as far as OTLP 1 needs them.
//!
//! By hand, since a message is appended to a buffer field by field as it is, with nothing in between: types that are generated
//! would have to be filled first, text by text. What is written here is read by the published types in the tests.

use crate::config::tracing::Tracing;

/// The kinds of fields.
const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// Fields of the messages around spans: `ExportTraceServiceRequest`, `ResourceSpans`, `ScopeSpans`.
const RESOURCE_SPANS: u32 = 1;
const RESOURCE: u32 = 1;
const SCOPE_SPANS: u32 = 2;
const SCOPE: u32 = 1;

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7f {
        // What is cut off is written next.
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn key(field: u32, kind: u8, out: &mut Vec<u8>) {
    varint(u64::from(field) << 3 | u64::from(kind), out);
}

/// A number.
pub(super) fn number(field: u32, value: u64, out: &mut Vec<u8>) {
    key(field, VARINT, out);
    varint(value, out);
}

/// A number of eight bytes.
pub(super) fn fixed64(field: u32, value: u64, out: &mut Vec<u8>) {
    key(field, FIXED64, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A number of four bytes.
pub(super) fn fixed32(field: u32, value: u32, out: &mut Vec<u8>) {
    key(field, FIXED32, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Bytes, or a text.
pub(super) fn bytes(field: u32, value: &[u8], out: &mut Vec<u8>) {
    key(field, BYTES, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// A message within a message.
pub(super) fn within(field: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    key(field, BYTES, out);
    let start = out.len();
    // Room for most lengths; a longer one moves what was written.
    out.push(0);
    write(out);
    let (length, end) = (out.len() - start - 1, out.len());
    if let (0..=0x7f, Some(room)) = (length, out.get_mut(start)) {
        *room = length.to_le_bytes()[0];
        return;
    }
    // Its digits are written behind it and turned to the front.
    varint(length as u64, out);
    let digits = out.len() - end;
    if let Some(written) = out.get_mut(start..) {
        written.rotate_right(digits);
    }
    // The room has come to stand between the two.
    out.remove(start + digits);
}

/// A value of an attribute.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    /// A text; what is not UTF-8 is replaced.
    Text(&'a [u8]),
    Flag(bool),
    Number(u64),
    Seconds(f64),
}

/// An attribute: `KeyValue`.
pub(super) fn attribute(field: u32, name: &str, value: Value<'_>, out: &mut Vec<u8>) {
    within(field, out, |out| {
        bytes(1, name.as_bytes(), out);
        within(2, out, |out| match value {
            Value::Text(text) => bytes(1, String::from_utf8_lossy(text).as_bytes(), out),
            Value::Flag(flag) => number(2, flag.into(), out),
            Value::Number(value) => number(3, value, out),
            Value::Seconds(value) => fixed64(4, value.to_bits(), out),
        });
    });
}

/// What stands around spans: the process they are of.
#[derive(Debug)]
pub(super) struct Around {
    resource: Vec<u8>,
    scope: Vec<u8>,
}

impl Around {
    pub(super) fn new(written: &Tracing) -> Self {
        let (mut resource, mut scope) = (Vec::new(), Vec::new());
        let instance = format!("{:032x}", fastrand::u128(..));
        let own = [
            ("service.name", written.service_name.as_str()),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", instance.as_str()),
        ];
        let is_said = |name: &str| written.resource.contains_key(name);
        let own = own.into_iter().filter(|(name, _)| !is_said(name));
        let further = written.resource.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        within(RESOURCE, &mut resource, |out| {
            own.chain(further).for_each(|(name, value)| attribute(1, name, Value::Text(value.as_bytes()), out));
            if !is_said("process.pid") {
                attribute(1, "process.pid", Value::Number(std::process::id().into()), out);
            }
        });
        within(SCOPE, &mut scope, |out| {
            bytes(1, b"moorgate", out);
            bytes(2, env!("CARGO_PKG_VERSION").as_bytes(), out);
        });
        Self { resource, scope }
    }

    /// The whole message for these spans.
    pub(super) fn message(&self, spans: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(spans.len() + self.resource.len() + self.scope.len() + 32);
        let mut head = Vec::with_capacity(8);
        key(SCOPE_SPANS, BYTES, &mut head);
        varint((self.scope.len() + spans.len()) as u64, &mut head);
        key(RESOURCE_SPANS, BYTES, &mut out);
        varint((self.resource.len() + head.len() + self.scope.len() + spans.len()) as u64, &mut out);
        for part in [&*self.resource, &head, &self.scope, spans] {
            out.extend_from_slice(part);
        }
        out
    }
}

/// How many spans a collector's answer says it did not take: `rejected_spans` of `partial_success`.
pub(super) fn rejected(answer: &[u8]) -> u64 {
    let partial = fields(answer).find_map(|(field, found)| match found {
        Found::Bytes(bytes) if field == 1 => Some(bytes),
        _ => None,
    });
    let count = fields(partial.unwrap_or_default()).find_map(|(field, found)| match found {
        Found::Number(count) if field == 1 => Some(count),
        _ => None,
    });
    count.unwrap_or_default()
}

enum Found<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, up to the first that is none.
fn fields(mut rest: &[u8]) -> impl Iterator<Item = (u64, Found<'_>)> {
    std::iter::from_fn(move || {
        let tag = read_varint(&mut rest)?;
        let found = match tag & 7 {
            0 => Found::Number(read_varint(&mut rest)?),
            kind => {
                let length = match kind {
                    1 => 8,
                    2 => read_varint(&mut rest)?,
                    5 => 4,
                    _ => return None,
                };
                let (bytes, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                rest = after;
                Found::Bytes(bytes)
            }
        };
        Some((tag >> 3, found))
    })
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
