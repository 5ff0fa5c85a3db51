//! Template text to parts: literals and variables, or what is wrong with it and what was meant.
//!
//! `{name}` and `{name:of}` are variables; `{{` and `}}` are braces (a key has no need of them).
//! In `{path:REGEX}` braces of the expression may nest, and `\{` or `[{]` do not count.

use http::HeaderName;
use regex::bytes::Regex;

use super::variable::{Extra, Need, Variable, escape};
use super::{Facts, Missing, Scope, args};
use crate::config::{Invalid, did_you_mean};

/// A part of a template.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Literal(Box<[u8]>),
    Variable {
        /// As written, braces included.
        text: Box<str>,
        what: Variable,
    },
}

impl Part {
    pub(super) fn write(&self, facts: &Facts<'_>, policy: &args::Policy, out: &mut Vec<u8>) -> Result<(), Missing<'_>> {
        match self {
            Self::Literal(bytes) => out.extend_from_slice(bytes),
            Self::Variable { text, what } if !what.write(facts, policy, out) => return Err(Missing { part: text }),
            Self::Variable { .. } => {}
        }
        Ok(())
    }

    pub(super) fn write_line(&self, facts: &Facts<'_>, extra: &dyn Fn(Extra, &mut Vec<u8>), out: &mut Vec<u8>) {
        let from = out.len();
        let empty = match self {
            Self::Literal(bytes) => return out.extend_from_slice(bytes),
            Self::Variable { what: Variable::Extra(which), .. } => {
                extra(*which, out);
                out.len() == from
            }
            Self::Variable { what, .. } => !what.write(facts, &args::Policy::All, out),
        };
        if empty {
            out.truncate(from);
            out.push(b'-');
        } else {
            escape(out, from);
        }
    }

    /// Never is a variable missing that may well be empty.
    pub(super) fn write_value(
        &self,
        facts: &Facts<'_>,
        extra: &dyn Fn(Extra, &mut Vec<u8>),
        escape: fn(&mut Vec<u8>, usize),
        out: &mut Vec<u8>,
    ) -> Result<(), Missing<'_>> {
        let from = out.len();
        let (text, what) = match self {
            Self::Literal(bytes) => {
                out.extend_from_slice(bytes);
                return Ok(());
            }
            Self::Variable { text, what } => (text, what),
        };
        match what {
            Variable::Extra(which) => extra(*which, out),
            what if !what.write(facts, &args::Policy::All, out) => out.truncate(from),
            _ => {}
        }
        escape(out, from);
        if out.len() == from && !what.may_be_empty(facts) { Err(Missing { part: text }) } else { Ok(()) }
    }

    pub(super) fn is_args(&self) -> bool {
        matches!(self, Self::Variable { what: Variable::Args, .. })
    }

    pub(super) fn is_client(&self) -> bool {
        matches!(self, Self::Variable { what: Variable::ClientIp, .. })
    }

    pub(super) fn need(&self) -> Option<Need<'_>> {
        match self {
            Self::Variable { what, .. } => what.need(),
            Self::Literal(_) => None,
        }
    }

    pub(super) fn is_whole_query(&self) -> bool {
        matches!(self, Self::Variable { what: Variable::Uri | Variable::NginxArgs, .. })
    }
}

/// The parts of a template, or its first mistake.
pub(super) fn parts(text: &str, scope: Scope) -> Result<Vec<Part>, Invalid> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        literal.push_str(before);
        if let Some(brace) = ["{{", "}}"].into_iter().find(|pair| scope != Scope::Key && from.starts_with(pair)) {
            literal.push_str(&brace[1..]);
            rest = &from[2..];
            continue;
        }
        let variable = enclosed(from)?;
        flush(&mut literal, &mut parts);
        let what = variable_of(&variable[1..variable.len() - 1], scope)?;
        parts.push(Part::Variable { text: variable.into(), what });
        rest = &from[variable.len()..];
    }
    literal.push_str(rest);
    flush(&mut literal, &mut parts);
    if scope == Scope::Key {
        check_key(text, &parts)?;
    }
    Ok(parts)
}

fn flush(literal: &mut String, parts: &mut Vec<Part>) {
    if !literal.is_empty() {
        parts.push(Part::Literal(std::mem::take(literal).into_bytes().into()));
    }
}

/// The variable at the start of `from`, with its braces.
fn enclosed(from: &str) -> Result<&str, Invalid> {
    if from.starts_with("{{") {
        return invalid("`{{`", "one brace, as in {path}");
    }
    let (mut depth, mut class, mut escaped) = (0_u32, false, false);
    for (at, byte) in from.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'[' => class = true,
            b']' => class = false,
            b'{' if !class => depth += 1,
            b'}' if !class && depth == 0 => return invalid("a `}` without its `{`", "a variable such as {path}"),
            b'}' if !class && depth == 1 => return Ok(&from[..=at]),
            b'}' if !class => depth -= 1,
            _ => {}
        }
    }
    invalid(format!("`{from}`, which has no closing `}}`"), "a variable such as {path}")
}

/// Names without anything behind a colon, in every scope.
const PLAIN: [(&str, Variable); 10] = [
    ("host", Variable::Host),
    ("host_port", Variable::HostPort),
    ("path", Variable::Path),
    ("uri", Variable::Uri),
    ("args", Variable::Args),
    ("client_ip", Variable::ClientIp),
    ("method", Variable::Method),
    ("nginx_uri", Variable::NginxUri),
    ("nginx_args", Variable::NginxArgs),
    ("nginx_is_args", Variable::NginxIsArgs),
];

/// Names that need something behind a colon, with an example of it.
const NAMED: [(&str, &str); 5] =
    [("path", "^/([^/]+)"), ("arg", "id"), ("header", "x-user"), ("cookie", "session"), ("nginx_arg", "id")];

/// What `{inside}` stands for.
fn variable_of(inside: &str, scope: Scope) -> Result<Variable, Invalid> {
    match inside.split_once(':') {
        Some(("path", expression)) => path_part(inside, expression),
        Some(("arg", name)) if !name.is_empty() => Ok(Variable::Arg(args::normal_name(name))),
        Some(("nginx_arg", name)) if !name.is_empty() => Ok(Variable::NginxArg(name.into())),
        Some(("header", name)) => match HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) => Ok(Variable::Header(name)),
            Err(_) => invalid(format!("{{{inside}}}, which names no header"), "a name as in {header:x-user}"),
        },
        Some(("cookie", name)) if !name.is_empty() && !name.contains(['=', ';', ' ']) => {
            Ok(Variable::Cookie(name.into()))
        }
        Some((name, _)) if PLAIN.iter().any(|(plain, _)| *plain == name) => {
            invalid(format!("{{{inside}}}, which takes nothing after its name"), format!("{{{name}}}"))
        }
        Some((name, _)) => unknown_or_unnamed(name, inside, scope),
        None => plain(inside, scope),
    }
}

fn plain(name: &str, scope: Scope) -> Result<Variable, Invalid> {
    if let Some((_, variable)) = PLAIN.iter().find(|(plain, _)| *plain == name) {
        return Ok(variable.clone());
    }
    match (scope, beyond_keys(name)) {
        (_, None) => unknown_or_unnamed(name, name, scope),
        (scope, Some(variable)) if variable.is_known_in(scope) => Ok(variable),
        (Scope::Key, Some(_)) => invalid(format!("{{{name}}}, which no key knows"), "a variable of keys"),
        (_, Some(_)) => {
            invalid(format!("{{{name}}}, which is not known before the answer"), "a variable of the request")
        }
    }
}

/// The variables that keys do not have.
fn beyond_keys(name: &str) -> Option<Variable> {
    match name {
        "peer_ip" => Some(Variable::PeerIp),
        "peer_port" => Some(Variable::PeerPort),
        "scheme" => Some(Variable::Scheme),
        _ => Extra::NAMES.iter().find(|(known, _)| *known == name).map(|(_, extra)| Variable::Extra(*extra)),
    }
}

fn path_part(inside: &str, expression: &str) -> Result<Variable, Invalid> {
    let regex = match Regex::new(expression) {
        Ok(regex) => regex,
        Err(error) => {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
            return invalid(format!("the expression of {{{inside}}}: {why}"), "a regular expression of the path");
        }
    };
    if regex.captures_len() < 2 {
        return invalid(
            format!("{{{inside}}}, whose expression captures nothing"),
            "parentheses around the part that counts, as in {path:^/([^/]+)}",
        );
    }
    Ok(Variable::PathPart(Box::new(regex)))
}

fn unknown_or_unnamed(name: &str, inside: &str, scope: Scope) -> Result<Variable, Invalid> {
    if let Some((name, example)) = NAMED.iter().find(|(named, _)| *named == name) {
        return invalid(format!("{{{inside}}}, which does not say of what"), format!("{{{name}:{example}}}"));
    }
    let extras = Extra::NAMES.iter().map(|(name, _)| *name).chain(["peer_ip", "peer_port", "scheme"]);
    let is_known = |name: &&str| beyond_keys(name).is_some_and(|variable| variable.is_known_in(scope));
    let known = PLAIN.iter().map(|(name, _)| *name).chain(NAMED.iter().map(|(name, _)| *name));
    let known = known.chain(extras.filter(is_known));
    let meant = match did_you_mean(name, known) {
        Some(known) => {
            let of = inside.split_once(':').map_or(String::new(), |(_, of)| format!(":{of}"));
            format!("did you mean {{{known}{of}}}?")
        }
        None => "a variable such as {host}, {path}, {args}, {arg:x}, {header:x}, {cookie:x} or {client_ip}".to_owned(),
    };
    invalid(format!("unknown variable {{{inside}}}"), meant)
}

/// Rule K4, and a key that would be the same for every request.
fn check_key(text: &str, parts: &[Part]) -> Result<(), Invalid> {
    if !parts.iter().any(|part| matches!(part, Part::Variable { .. })) {
        return invalid(format!("\"{text}\", which is the same for every request"), "a variable such as {path}");
    }
    for pair in parts.windows(2) {
        let [Part::Variable { text: left, what: first }, Part::Variable { text: right, what: second }] = pair else {
            continue;
        };
        if first.is_open() && second.is_open() {
            let between = separator(first, second);
            return invalid(
                format!("{left}{right}, two parts that run into each other"),
                format!("a literal between them, such as {left}{between}{right}"),
            );
        }
    }
    Ok(())
}

/// A literal that cannot be part of one of the two values, so that different parts never make the same key.
fn separator(left: &Variable, right: &Variable) -> char {
    let own = |variable: &Variable| match variable {
        Variable::Arg(_) => Some('&'),
        Variable::Cookie(_) => Some(';'),
        Variable::PathPart(_) => Some('?'),
        _ => None,
    };
    own(left).or(own(right)).unwrap_or('|')
}

fn invalid<T>(found: impl Into<String>, meant: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid::new(found, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(text: &str) -> String {
        parts(text, Scope::Key).unwrap_err().to_string()
    }

    #[test]
    fn a_mistake_says_what_was_meant() {
        for (text, expected) in [
            ("{hots}", "unknown variable {hots}, did you mean {host}?"),
            ("{agr:id}", "unknown variable {agr:id}, did you mean {arg:id}?"),
            ("{arg}", "{arg}, which does not say of what, {arg:id}"),
            ("{arg:}", "{arg:}, which does not say of what, {arg:id}"),
            ("{host:x}", "{host:x}, which takes nothing after its name, {host}"),
            ("{status}", "{status}, which no key knows, a variable of keys"),
            ("{header:a b}", "{header:a b}, which names no header, a name as in {header:x-user}"),
            ("{path", "`{path`, which has no closing `}`, a variable such as {path}"),
            ("path}", "a `}` without its `{`, a variable such as {path}"),
            ("{{path}}", "`{{`, one brace, as in {path}"),
            ("fixed", "\"fixed\", which is the same for every request, a variable such as {path}"),
        ] {
            assert_eq!(mistake(text), expected, "{text}");
        }
        assert!(mistake("{path:(}").contains("unclosed group"), "{}", mistake("{path:(}"));
        assert!(mistake("{path:^/a}").contains("captures nothing"));
        assert!(mistake("{nonsense}").contains("a variable such as"));
    }

    #[test]
    fn k4_parts_that_run_into_each_other_are_refused_with_a_proposal() {
        for (text, proposal) in [
            ("{arg:a}{arg:b}", "{arg:a}&{arg:b}"),
            ("{path}{header:x}{cookie:s}", "{header:x};{cookie:s}"),
            ("{header:x}{header:y}", "{header:x}|{header:y}"),
            ("{path:^/(a+)}{header:y}", "{path:^/(a+)}?{header:y}"),
        ] {
            let message = mistake(text);
            assert!(message.ends_with(proposal), "{message}");
            assert!(parts(proposal, Scope::Key).is_ok(), "{proposal}");
        }
        for text in
            ["{arg:a}/{arg:b}", "{client_ip}{header:user-agent}", "{host}{path}{args}", "{nginx_arg:a}{nginx_arg:b}"]
        {
            assert!(parts(text, Scope::Key).is_ok(), "{text}");
        }
    }

    #[test]
    fn braces_of_an_expression_nest() {
        for text in [r"{path:^/(\w{2,3})}", r"{path:(\{)}", "{path:([{}]+)}"] {
            assert_eq!(parts(text, Scope::Key).unwrap().len(), 1, "{text}");
        }
    }

    #[test]
    fn a_line_may_hold_braces_and_what_only_it_knows() {
        assert!(parts("{{\"status\":{status},\"ip\":\"{peer_ip}\"}}", Scope::Log).is_ok());
        assert!(parts("fixed", Scope::Log).is_ok());
        assert!(parts("{arg:a}{arg:b}", Scope::Log).is_ok());
        let message = parts("{statsu}", Scope::Log).unwrap_err().to_string();
        assert!(message.ends_with("did you mean {status}?"), "{message}");
    }

    #[test]
    fn a_value_knows_only_what_is_known_by_then() {
        assert!(
            parts("{{{request_id}}} {route} {pool} {key} {scheme} {peer_ip}:{peer_port} {uri}", Scope::Value).is_ok()
        );
        let early = |text| parts(text, Scope::Value).unwrap_err().to_string();
        assert_eq!(early("{status}"), "{status}, which is not known before the answer, a variable of the request");
        assert_eq!(
            early("{upstream_adr}"),
            "unknown variable {upstream_adr}, a variable such as {host}, {path}, \
             {args}, {arg:x}, {header:x}, {cookie:x} or {client_ip}"
        );
        assert!(early("{request_ip}").ends_with("did you mean {request_id}?"));
        for (name, _) in Extra::NAMES {
            assert!(parts(&format!("{{{name}}}"), Scope::Answer).is_ok(), "{name}");
            assert!(parts(&format!("{{{name}}}"), Scope::Log).is_ok(), "{name}");
        }
    }
}

#[cfg(test)]
mod properties {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[{}\\[\\]\\\\:a-z(é ]{0,20}", key in any::<bool>()) {
            let _ = parts(&text, if key { Scope::Key } else { Scope::Log });
        }
    }
}
