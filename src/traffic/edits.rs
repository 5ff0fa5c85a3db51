//! Which lines does a route put into a header, and which does it take out?
//!
//! First what is removed, then what is set, then what is added; names go out as the operator spelt them. Values are
//! templates: a control byte that a request brings into one is escaped, so that a value is one line whatever was asked,
//! and a value that comes out empty is no line.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use indexmap::IndexMap;
use pingora_http::{RequestHeader, ResponseHeader};

use crate::config::route::{self, FieldName, Values};
use crate::config::{Complaint, Invalid};
use crate::template::{Scope, Template};

/// The compiled `headers.request` or `headers.response` of a route.
#[derive(Debug, Clone)]
pub struct Edits {
    remove: Box<[HeaderName]>,
    set: Box<[Line]>,
    add: Box<[Line]>,
}

#[derive(Debug, Clone)]
struct Line {
    /// As it goes out.
    name: Box<str>,
    parsed: HeaderName,
    values: Box<[Value]>,
}

#[derive(Debug, Clone)]
enum Value {
    Fixed(HeaderValue),
    Template(Template),
}

/// Appends what a template comes to; each variable's part is shown to the function, with where it begins.
pub type Render<'r> = dyn Fn(&Template, Escape, &mut Vec<u8>) + 'r;

type Escape = fn(&mut Vec<u8>, usize);

/// A header that can be edited.
pub trait Head {
    /// Takes all lines of `name` out.
    fn take_out(&mut self, name: &HeaderName);
    /// One more line.
    fn put_in(&mut self, name: &str, value: HeaderValue);
}

// Both fail only beyond some thousand lines.
impl Head for RequestHeader {
    fn take_out(&mut self, name: &HeaderName) {
        self.remove_header(name);
    }

    fn put_in(&mut self, name: &str, value: HeaderValue) {
        _ = self.append_header(name.to_owned(), value);
    }
}

impl Head for ResponseHeader {
    fn take_out(&mut self, name: &HeaderName) {
        self.remove_header(name);
    }

    fn put_in(&mut self, name: &str, value: HeaderValue) {
        _ = self.append_header(name.to_owned(), value);
    }
}

impl Edits {
    /// Compiles what was written; `None`: nothing is. Paths of complaints begin at the section.
    ///
    /// # Errors
    /// Every template that is wrong.
    pub fn compile(written: &route::Edits, scope: Scope) -> Result<Option<Self>, Vec<Complaint>> {
        let mut complaints = Vec::new();
        let mut lines = |key: &str, written: &IndexMap<FieldName, Values>| {
            let line = |(name, values)| Line::compile(name, values, scope);
            let lines = written.iter().map(line).filter_map(|line| {
                let under = |found: Complaint| Complaint { path: format!("{key}.{}", found.path), ..found };
                line.map_err(|found| complaints.extend(found.into_iter().map(under))).ok()
            });
            lines.collect::<Box<[Line]>>()
        };
        let (set, add) = (lines("set", &written.set), lines("add", &written.add));
        let remove: Box<[HeaderName]> = written.remove.iter().filter_map(|name| name.0.parse().ok()).collect();
        let is_nothing = set.is_empty() && add.is_empty() && remove.is_empty();
        if complaints.is_empty() { Ok((!is_nothing).then_some(Self { remove, set, add })) } else { Err(complaints) }
    }

    /// Does it set this header, or take it out?
    pub fn names(&self, name: &str) -> bool {
        let set = self.set.iter().map(|line| &line.parsed);
        self.remove.iter().chain(set).any(|named| named.as_str() == name)
    }

    /// Edits `head`; `render` knows the request.
    pub fn apply(&self, head: &mut impl Head, render: &Render<'_>) {
        self.remove.iter().for_each(|name| head.take_out(name));
        for line in &self.set {
            head.take_out(&line.parsed);
            line.put_in(head, render);
        }
        self.add.iter().for_each(|line| line.put_in(head, render));
    }
}

impl Line {
    fn compile(name: &FieldName, values: &Values, scope: Scope) -> Result<Self, Vec<Complaint>> {
        let one = values.0.len() == 1;
        let at = |i| if one { name.0.clone() } else { format!("{}[{i}]", name.0) };
        let value = |(i, text): (usize, &String)| Value::compile(text, scope).map_err(|found| found.at(at(i)));
        let (good, bad): (Vec<_>, Vec<_>) = values.0.iter().enumerate().map(value).partition(Result::is_ok);
        let bad: Vec<_> = bad.into_iter().filter_map(Result::err).collect();
        let values = good.into_iter().flatten().collect();
        // The file takes names of headers alone.
        let parsed = name.0.parse().map_err(|_| Vec::new())?;
        if bad.is_empty() { Ok(Self { name: name.0.as_str().into(), parsed, values }) } else { Err(bad) }
    }

    fn put_in(&self, head: &mut impl Head, render: &Render<'_>) {
        for value in &self.values {
            let value = match value {
                Value::Fixed(value) => Some(value.clone()),
                Value::Template(template) => {
                    let mut out = Vec::with_capacity(64);
                    render(template, escape, &mut out);
                    HeaderValue::from_maybe_shared(Bytes::from(out)).ok()
                }
            };
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                head.put_in(&self.name, value);
            }
        }
    }
}

impl Value {
    fn compile(text: &str, scope: Scope) -> Result<Self, Invalid> {
        let template = Template::compile(text, scope)?;
        let broken = |literal: &[u8]| literal.iter().any(|byte| is_control(*byte));
        if template.written().any(|part| part.is_ok_and(broken)) {
            return Err(Invalid::new("a control character in the value of a header", "expected one line"));
        }
        let fixed = template.literal().and_then(|literal| HeaderValue::from_bytes(literal).ok());
        Ok(fixed.map_or(Self::Template(template), Self::Fixed))
    }
}

/// May this byte not stand in a line of a header (RFC 9110, section 5.5)?
fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// What stands in `out[from..]` as a line may hold it.
fn escape(out: &mut Vec<u8>, from: usize) {
    if !out[from..].iter().any(|byte| is_control(*byte)) {
        return;
    }
    for byte in out.split_off(from) {
        if is_control(byte) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use http::HeaderMap;

    use super::*;
    use crate::config;
    use crate::template::Facts;

    fn edits(yaml: &str) -> Result<Option<Edits>, Vec<Complaint>> {
        let text = format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 0.0.0.0:80 }} ] }}\npools: {{ p: {{ origins: [a] }} }}\n\
             routes: [ {{ pool: p, headers: {{ request: {yaml} }} }} ]\n"
        );
        let loaded = config::parse("f", &text).unwrap();
        Edits::compile(&loaded.config.routes[0].headers.request, Scope::Value)
    }

    fn edited(yaml: &str, target: &[u8]) -> Vec<String> {
        let mut head = RequestHeader::build("GET", b"/", None).unwrap();
        for (name, value) in [("X-A", "1"), ("x-a", "2"), ("X-B", "3"), ("Cookie", "c=1")] {
            head.append_header(name, value).unwrap();
        }
        let (headers, peer): (HeaderMap, _) = (head.headers.clone(), SocketAddr::from(([192, 0, 2, 7], 4711)));
        let facts = Facts {
            method: "GET",
            scheme: "http",
            host: "h",
            host_port: "h",
            target,
            headers: &headers,
            client_ip: peer.ip(),
            peer,
        };
        edits(yaml).unwrap().unwrap().apply(&mut head, &|template, escape, out| {
            _ = template.render_value(&facts, &|_, _| {}, escape, out);
        });
        let mut wire = bytes::BytesMut::new();
        head.header_to_h1_wire(&mut wire);
        let mut lines: Vec<String> = String::from_utf8_lossy(&wire).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines.retain(|line| !line.is_empty());
        lines
    }

    #[test]
    fn lines_are_removed_then_set_then_added() {
        let yaml = "{ set: { X-New: \"{client_ip}\", x-A: [\"{header:x-a}\", four] }, add: { X-b: five, X-New: six }, remove: [cookie, X-New] }";
        assert_eq!(
            edited(yaml, b"/"),
            ["X-B: 3", "X-New: 192.0.2.7", "X-New: six", "X-b: five", "x-A: 1", "x-A: four"],
            "a value sees the request as it came"
        );
    }

    #[test]
    fn a_value_that_comes_out_empty_is_no_line() {
        assert_eq!(
            edited(
                "{ set: { X-A: \"{arg:a}\", X-B: '' }, add: { X-C: ['', \"{arg:b}\"] }, remove: [cookie] }",
                b"/?b=1"
            ),
            ["X-C: 1"]
        );
    }

    #[test]
    fn a_value_is_one_line_whatever_was_asked() {
        let lines =
            edited("{ set: { X-A: \"<{nginx_uri}>\" }, remove: [cookie, x-b] }", b"/a%0d%0aX-Evil:%20b%00%7f%09%ff");
        assert!(lines.len() == 1 && lines[0].starts_with("X-A: </a%0D%0AX-Evil: b%00%7F\t"), "{lines:?}");
        let lines = edited("{ set: { X-A: \"{uri}\" }, remove: [cookie, x-b] }", b"/a\r\nX-Evil: b");
        assert_eq!(lines, ["X-A: /a%0D%0AX-Evil: b"]);
    }

    #[test]
    fn every_wrong_template_is_told_at_its_place() {
        let told = |yaml| -> Vec<_> {
            edits(yaml)
                .unwrap_err()
                .into_iter()
                .map(|one| format!("{}: {}, {}", one.path, one.found, one.meant))
                .collect()
        };
        assert_eq!(
            told("{ set: { X-A: \"{hots}\", X-B: \"a\\nb\" }, add: { X-C: [ok, \"{status}\"] } }"),
            [
                "set.X-A: unknown variable {hots}, did you mean {host}?",
                "set.X-B: a control character in the value of a header, expected one line",
                "add.X-C[1]: {status}, which is not known before the answer, a variable of the request",
            ]
        );
        assert!(edits("{}").unwrap().is_none());
    }
}
