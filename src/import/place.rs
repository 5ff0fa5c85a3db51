//! Where is a client sent, or what is it answered, by `return` and `rewrite`?

use super::document::{Node, Section};
use super::headers::{self, Edits};
use super::notes::Notes;
use super::reader::Directive;
use super::scope::Scope;
use super::variables::{Known, Part, Use, template};

/// What a route does in place of a pool.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    /// `respond` or `redirect`.
    pub(super) key: &'static str,
    pub(super) section: Section,
    /// Does it have a body of its own?
    pub(super) has_body: bool,
}

impl Answer {
    pub(super) fn status(status: u16) -> Self {
        let section = Section::default().with("status", status.to_string());
        Self { key: "respond", section, has_body: false }
    }

    fn redirect(status: &str, to: String) -> Self {
        let section = Section::default().with("status", status.to_owned()).with("to", to);
        Self { key: "redirect", section, has_body: false }
    }

    /// Puts it into a route.
    pub(super) fn put(&self, route: &mut Section, edits: &mut Edits, scope: &Scope<'_>) {
        if self.has_body {
            headers::typed(edits, scope);
        }
        route.put_always(self.key, self.section.clone());
    }
}

/// A `return`.
pub(super) fn returned(directive: &Directive, known: &Known, notes: &mut Notes) -> Answer {
    let (code, text) = match directive.args.as_slice() {
        [url] if url.starts_with("http") || url.starts_with('$') => ("302", Some(url.as_str())),
        [code] => (code.as_str(), None),
        [code, text, ..] => (code.as_str(), Some(text.as_str())),
        [] => ("404", None),
    };
    let unfit = |notes: &mut Notes, why: &str| {
        notes.dropped(directive, format!("{why}: it is answered 501 until you say what"));
        Answer::status(501)
    };
    match (code, text) {
        ("301" | "302" | "303" | "307" | "308", Some(url)) => match redirect_to(&known.parts(url)) {
            Ok(to) => Answer::redirect(code, to),
            Err(why) => unfit(notes, &why),
        },
        ("444", _) => {
            notes.differs(directive, "every request is answered here: 400");
            Answer::status(400)
        }
        (code, text) => {
            let Some(status) = code.parse::<u16>().ok().filter(|status| (200..600).contains(status)) else {
                return unfit(notes, "no status");
            };
            let mut answer = Answer::status(status);
            let body = text.filter(|text| !text.is_empty() && !matches!(status, 204 | 205 | 304));
            match body.map(|text| template(&known.parts(text), Use::Request)) {
                Some(Ok(body)) => {
                    answer.section.put("body", body);
                    answer.has_body = true;
                }
                Some(Err(why)) => notes.dropped(directive, format!("its body: {why}")),
                None => {}
            }
            answer
        }
    }
}

/// A place as `redirect.to` has it.
fn redirect_to(parts: &[Part]) -> Result<String, String> {
    let to = template(parts, Use::Request)?;
    // Nobody but this path is named: what stands behind a host begins with a slash.
    let to = to.replace("{header:host}", "{host_port}");
    let is_place = ["http://", "https://", "{scheme}://", "/", "{uri}", "{path}", "{nginx_uri}"];
    if is_place.iter().any(|begins| to.starts_with(begins)) { Ok(to) } else { Err(format!("{to} is no place")) }
}

/// Which paths a `rewrite` is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reach {
    All,
    Exact(String),
    Prefix(String),
}

/// Of its expression, if a path of ours says the same.
pub(super) fn reach(expression: &str) -> Option<Reach> {
    if matches!(
        expression,
        "^" | ".*" | "^.*" | "^.*$" | "(.*)" | "^(.*)" | "^(.*)$" | "^/(.*)$" | "^/(.*)" | "^/" | "^/.*"
    ) {
        return Some(Reach::All);
    }
    if let Some(from) = super::target::prefix_of(expression) {
        return Some(Reach::Prefix(from.to_owned()));
    }
    let inside = expression.strip_prefix('^')?.strip_suffix('$')?;
    let inside = inside.replace("\\.", ".");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-~.".contains(&byte);
    (inside.starts_with('/') && inside.bytes().all(is_plain)).then_some(Reach::Exact(inside))
}

/// A `rewrite` that sends the client elsewhere; `None`: it changes the path alone.
pub(super) fn sent_elsewhere(directive: &Directive, known: &Known, notes: &mut Notes) -> Option<Answer> {
    let (expression, to, flag) = (directive.arg(0), directive.arg(1), directive.arg(2));
    let names_host = ["http://", "https://", "$scheme"].iter().any(|begins| to.starts_with(begins));
    let status = match flag {
        "permanent" => "301",
        "redirect" => "302",
        _ if names_host => "302",
        _ => return None,
    };
    let (to, adds_args) = to.strip_suffix('?').map_or((to, !to.contains("$request_uri")), |to| (to, false));
    let mut known = known.clone();
    let group = |name: &str| vec![Part::Variable(name.to_owned())];
    let to = match expression {
        "(.*)" | "^(.*)" | "^(.*)$" => {
            known.set("1", group("="));
            to.to_owned()
        }
        "^/(.*)$" | "^/(.*)" if to.contains("/$1") => {
            known.set("1", group("="));
            to.replace("/$1", "$1")
        }
        _ => {
            known.set("1", group(&format!("={expression}")));
            to.to_owned()
        }
    };
    let mut parts = known.parts(&to);
    if adds_args {
        let joint = if to.contains('?') { Vec::new() } else { vec![Part::Variable("is_args".to_owned())] };
        parts.extend(joint);
        parts.push(Part::Variable("args".to_owned()));
    }
    match redirect_to(&parts) {
        Ok(to) => Some(Answer::redirect(status, to)),
        Err(why) => {
            notes.dropped(directive, format!("{why}: it is answered 501 until you say what"));
            Some(Answer::status(501))
        }
    }
}

/// What is said of an `if` that refuses somebody, and is not carried.
pub(super) const REFUSES: &str =
    "it refuses some, and no `match` asks for whom, so nobody may ask until you decide who may";

/// Does an `if` refuse those it is for?
pub(super) fn refuses(directive: &Directive) -> bool {
    let is_refusal = |inner: &Directive| inner.name == "return" && matches!(inner.arg(0), "401" | "403" | "444");
    directive.inside().iter().any(is_refusal)
}

/// What one condition of `if` asks for, as a part of `match`.
pub(super) fn condition(directive: &Directive) -> Option<(Section, bool)> {
    let text = directive.args.join(" ");
    let text = text.trim().strip_prefix('(')?.strip_suffix(')')?.trim();
    let mut words = text.split_whitespace();
    let (variable, sign, value) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() {
        return None;
    }
    let value = value.trim_matches(['"', '\'']);
    let name = variable.strip_prefix('$')?.to_ascii_lowercase();
    let (values, equal): (Vec<String>, bool) = match sign {
        "=" => (vec![value.to_owned()], true),
        "!=" => (vec![value.to_owned()], false),
        "~" => (choices(value)?, true),
        "!~" => (choices(value)?, false),
        "~*" => (any_case(&name, &choices(value)?)?, true),
        "!~*" => (any_case(&name, &choices(value)?)?, false),
        _ => return None,
    };
    asked(&name, &values).map(|section| (section, equal))
}

/// `^(A|B)$` without anything else.
pub(super) fn choices(expression: &str) -> Option<Vec<String>> {
    let inside = expression.strip_prefix('^')?.strip_suffix('$')?;
    let inside = inside.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(inside);
    let inside = inside.strip_prefix("?:").unwrap_or(inside).replace("\\.", ".").replace("\\-", "-");
    let is_plain = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    inside.split('|').map(|word| is_plain(word).then(|| word.to_owned())).collect()
}

/// As a client writes them where that is known; a value of a header has any case, and a `match` asks for one.
pub(super) fn any_case(name: &str, values: &[String]) -> Option<Vec<String>> {
    match name {
        "request_method" => Some(values.iter().map(|value| value.to_ascii_uppercase()).collect()),
        "host" | "http_host" | "scheme" => Some(values.iter().map(|value| value.to_ascii_lowercase()).collect()),
        _ => None,
    }
}

/// One of these values of this variable, as a part of `match`.
pub(super) fn asked(name: &str, values: &[String]) -> Option<Section> {
    let section = Section::default();
    let one = match values {
        [one] if !one.is_empty() => Some(one.clone()),
        _ => None,
    };
    Some(match name.split_once('_') {
        _ if name == "request_method" => section.with("methods", Node::list(values.iter().cloned())),
        _ if name == "host" || name == "http_host" => section.with("hosts", Node::list(values.iter().cloned())),
        _ if name == "scheme" => section.with("scheme", one?),
        Some(("http", header)) => section.with("headers", Section::default().with(&header.replace('_', "-"), one?)),
        Some(("cookie", cookie)) => section.with("cookies", Section::default().with(cookie, one?)),
        Some(("arg", arg)) => section.with("query", Section::default().with(arg, one?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::yaml;

    #[test]
    fn letters_of_any_case_are_asked_for_where_they_can_be() {
        let of = |condition: &str| {
            yaml(&format!("server {{ location / {{ if ({condition}) {{ return 405; }} proxy_pass http://a; }} }}"))
        };
        assert!(of("$request_method ~* ^(post|Put)$").contains("methods: [POST, PUT]"));
        assert!(of("$http_x ~ ^z$").contains("headers: { x: z }"));
        for condition in ["$http_x ~* ^y$", "$cookie_x ~* ^y$", "$arg_x ~* ^y$"] {
            let text = of(condition);
            assert!(!text.contains("status: 405") && text.contains("NOT CARRIED"), "{text}");
        }
        let text = yaml(
            "map $http_x $to { default a; ~*^y$ b; } upstream a { server 127.0.0.1:1; } upstream b { server 127.0.0.1:2; }\n\
             server { location / { proxy_pass http://$to; } }",
        );
        assert!(text.contains("status: 501") && !text.contains("headers: { x"), "{text}");
    }
}
