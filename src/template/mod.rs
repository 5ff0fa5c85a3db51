//! What does a template say for this request?
//!
//! A template is text with variables, `"{host}{path}{args}"`, compiled once and rendered for each request into a
//! buffer of the caller's: keys of rings, values of headers and answers, and lines of an access log ([`Scope`] says which
//! variables are allowed).
//! Normalisation (rules K1 to K4) happens here and shapes the key only; the request goes on as it came.
//!
//! Always holds: a compiled template renders for any bytes a client may send, never panics, and allocates nothing
//! but room in the buffer for paths that are normal already and a handful of arguments.

pub mod address;
pub mod args;
pub mod bytes;
mod facts;
pub mod host;
mod key;
mod nginx;
mod parse;
pub mod path;
mod percent;
mod variable;

use crate::config::Invalid;

pub use facts::Facts;
pub use key::{Key, Keyed};
pub use variable::{Extra, Need};

use parse::Part;

/// What a template is for, which decides the variables it may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The key of a ring: what the request says.
    Key,
    /// A value that is needed before there is an answer: also who asked by which way ([`Extra::is_known_early`]).
    Value,
    /// A value in an answer: also what became of the request.
    Answer,
    /// A line of the access log: also what became of the request ([`Extra`]).
    Log,
}

/// A part of a key that this request does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing<'t> {
    /// The part as written in the template: `{arg:id}`.
    pub part: &'t str,
}

/// A compiled template.
#[derive(Debug, Clone)]
pub struct Template {
    text: Box<str>,
    parts: Vec<Part>,
}

impl Template {
    /// Compiles a template of the given scope; the first mistake is the answer when there is one.
    pub fn compile(text: &str, scope: Scope) -> Result<Self, Invalid> {
        Ok(Self { text: text.into(), parts: parse::parts(text, scope)? })
    }

    /// The text it was compiled from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Is `{args}` one of its parts?
    pub fn reads_args(&self) -> bool {
        self.parts.iter().any(Part::is_args)
    }

    /// Does it ask who the client is?
    pub fn reads_client(&self) -> bool {
        self.parts.iter().any(Part::is_client)
    }

    /// What it asks for that not every record of a request has.
    pub fn needs(&self) -> impl Iterator<Item = Need<'_>> {
        self.parts.iter().filter_map(Part::need)
    }

    /// Is the query as it came, `{uri}`, one of its parts?
    pub fn reads_uri(&self) -> bool {
        self.parts.iter().any(Part::is_whole_query)
    }

    /// Appends what the template says. If a part is missing, `out` is left as it was.
    pub fn render(&self, facts: &Facts<'_>, policy: &args::Policy, out: &mut Vec<u8>) -> Result<(), Missing<'_>> {
        let start = out.len();
        for part in &self.parts {
            if let Err(missing) = part.write(facts, policy, out) {
                out.truncate(start);
                return Err(missing);
            }
        }
        Ok(())
    }

    /// Appends a value of [`Scope::Value`] or [`Scope::Answer`]: `extra` writes what is asked of it, and what each variable
    /// wrote is shown to `escape` with where it begins. A variable that the request lacks writes nothing; the first such is
    /// the error, for whom that is one.
    pub fn render_value(
        &self,
        facts: &Facts<'_>,
        extra: &dyn Fn(Extra, &mut Vec<u8>),
        escape: fn(&mut Vec<u8>, usize),
        out: &mut Vec<u8>,
    ) -> Result<(), Missing<'_>> {
        let missing = self.parts.iter().filter_map(|part| part.write_value(facts, extra, escape, out).err());
        // All of it is written, whatever is missing.
        missing.reduce(|first, _| first).map_or(Ok(()), Err)
    }

    /// The text, if it has no variable.
    pub fn literal(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }

    /// Its parts as written: literals (`Ok`) with their braces single, variables (`Err`) by their names.
    pub fn written(&self) -> impl Iterator<Item = Result<&[u8], &str>> {
        self.parts.iter().map(|part| match part {
            Part::Literal(bytes) => Ok(&**bytes),
            Part::Variable { text, .. } => Err(&**text),
        })
    }

    /// Appends a line of [`Scope::Log`]: `extra` writes what is asked of it, what is missing or empty becomes `-`,
    /// and what could break the line or a quoted field is escaped as nginx does (`\x22`).
    pub fn render_line(&self, facts: &Facts<'_>, extra: &dyn Fn(Extra, &mut Vec<u8>), out: &mut Vec<u8>) {
        for part in &self.parts {
            part.write_line(facts, extra, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use http::HeaderMap;

    use super::*;

    /// Facts of `GET target` from 192.0.2.7 with these headers.
    pub(super) fn facts<'a>(target: &'a str, headers: &'a HeaderMap) -> Facts<'a> {
        let ip = IpAddr::V6(Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped());
        Facts {
            method: "GET",
            scheme: "http",
            host: "example.com",
            host_port: "example.com:8080",
            target: target.as_bytes(),
            headers,
            client_ip: ip,
            peer: SocketAddr::new(ip, 4711),
        }
    }

    fn headers() -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("x-user", "u1"), ("x-user", "u2"), ("x-empty", ""), ("cookie", "a=1; s=c d"), ("cookie", "t=x=y")]
        {
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    fn render(template: &str, target: &str) -> Result<String, String> {
        let (headers, template) = (headers(), Template::compile(template, Scope::Key).unwrap());
        let mut out = b"key ".to_vec();
        let rendered = template.render(&facts(target, &headers), &args::Policy::All, &mut out);
        let text = String::from_utf8(out).unwrap().split_off(4);
        match rendered {
            Ok(()) => Ok(text),
            Err(missing) => {
                assert_eq!(text, "", "nothing is left of a key that is missing");
                Err(missing.part.to_owned())
            }
        }
    }

    #[test]
    fn each_variable_says_its_part() {
        let target = "/tran/x%2d1//a%20b?b=2&a=%41&b=3";
        for (template, expected) in [
            ("{host}{path}{args}", "example.com/tran/x-1//a%20b?a=A&b=2&b=3"),
            ("{host_port}", "example.com:8080"),
            ("{host}{uri}", "example.com/tran/x%2d1//a%20b?b=2&a=%41&b=3"),
            ("{path:^/tran/([\\w-]+)}", "x-1"),
            ("{arg:a}/{arg:b}", "A/2"),
            ("{header:X-User}", "u1"),
            ("{cookie:s}|{cookie:t}", "c d|x=y"),
            ("{client_ip}", "192.0.2.7"),
            ("{method} {path}", "GET /tran/x-1//a%20b"),
            ("{nginx_uri}?{nginx_arg:A}", "/tran/x-1/a b?%41"),
            ("{host}{nginx_is_args}{nginx_args}", "example.com?b=2&a=%41&b=3"),
            ("{nginx_arg:none}/", "/"),
        ] {
            assert_eq!(render(template, target).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn k4_what_is_absent_or_empty_is_missing() {
        for part in [
            "{arg:no}",
            "{arg:empty}",
            "{header:x-no}",
            "{header:x-empty}",
            "{cookie:no}",
            "{path:^/(z*)}",
            "{path:^/q/(a)?}",
        ] {
            assert_eq!(render(&format!("{{path}}/{part}"), "/q/?empty=&x=1"), Err(part.to_owned()));
        }
    }

    #[test]
    fn a_value_is_escaped_by_its_variables_alone_and_tells_what_is_missing() {
        let headers = headers();
        let value = |template: &str| {
            let template = Template::compile(template, Scope::Value).unwrap();
            let extra = |extra: Extra, out: &mut Vec<u8>| {
                if extra == Extra::Route {
                    out.extend_from_slice(b"api");
                }
            };
            let shout = |out: &mut Vec<u8>, from: usize| out[from..].make_ascii_uppercase();
            let mut out = b"> ".to_vec();
            let missing = template.render_value(&facts("/a?b=1", &headers), &extra, shout, &mut out);
            let missing = missing.err().map(|missing| missing.part.to_owned());
            (String::from_utf8(out).unwrap(), missing)
        };
        assert_eq!(value("by {route}: {uri}"), ("> by API: /A?B=1".into(), None));
        assert_eq!(value("{{{scheme}}} {args}{header:x-no}"), ("> {HTTP} ?B=1".into(), Some("{header:x-no}".into())));
        assert_eq!(value("{key}-{arg:no}-end"), ("> --end".into(), Some("{key}".into())));
        assert_eq!(value(""), ("> ".into(), None));
        let literal = |text| Template::compile(text, Scope::Value).unwrap().literal().map(<[u8]>::to_vec);
        assert_eq!((literal("a {{b}}"), literal("{host}")), (Some(b"a {b}".to_vec()), None));
    }

    #[test]
    fn a_line_has_no_holes_and_no_breaks() {
        let headers = headers();
        let line = "{client_ip} {status} {header:x-no} {error} {uri}{args} \"{header:x-user}\" {{}}";
        let template = Template::compile(line, Scope::Log).unwrap();
        let extra = |extra: Extra, out: &mut Vec<u8>| {
            if extra == Extra::Status {
                out.extend_from_slice(b"200");
            }
        };
        let mut out = Vec::new();
        template.render_line(&facts("/a\"\n", &headers), &extra, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "192.0.2.7 200 - - /a\\x22\\x0A \"u1\" {}");
    }
}

#[cfg(test)]
mod properties {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_request_is_too_strange(target in proptest::collection::vec(any::<u8>(), 0..80), cookie in "[ -~]{0,40}") {
            let all = "{host}{path}{args}{uri}{method}{path:(.)}|{arg:a}|{header:cookie}|{cookie:a}|{nginx_uri}{nginx_arg:a}{nginx_args}{nginx_is_args}";
            let mut headers = HeaderMap::new();
            headers.insert("cookie", cookie.parse().unwrap());
            let mut facts = tests::facts("/", &headers);
            facts.target = &target;
            let mut out = Vec::new();
            let _ = Template::compile(all, Scope::Key).unwrap().render(&facts, &args::Policy::All, &mut out);
            let line = Template::compile(all, Scope::Log).unwrap();
            line.render_line(&facts, &|_, _| {}, &mut out);
        }
    }
}
