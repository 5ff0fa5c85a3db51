//! What do nginx's `$variables` say in our templates?

use std::collections::HashMap;

/// A part of a text of nginx's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Text(String),
    /// By its name, in small letters. Our own `{path}` is `=`, and `=` with an expression its first group.
    Variable(String),
}

/// Where a template stands, which decides what it may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// The key of a ring, a limit or a split.
    Key,
    /// A header of a request, a redirect.
    Request,
    /// A header or the body of an answer.
    Answer,
}

/// Variables whose value is known: by `set`, by the server, by the place.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(HashMap<String, Vec<Part>>);

/// Replacements within replacements.
const DEEPEST: usize = 8;
/// Parts of a text at most.
const LONGEST: usize = 200;

/// The parts of a text: `$name`, `${name}`, and what is between.
pub(super) fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        literal.push_str(before);
        let (name, after) = name_of(behind);
        if name.is_empty() {
            literal.push('$');
        } else {
            push_text(&mut parts, &mut literal);
            parts.push(Part::Variable(name.to_ascii_lowercase()));
        }
        rest = after;
    }
    literal.push_str(rest);
    push_text(&mut parts, &mut literal);
    parts
}

fn push_text(parts: &mut Vec<Part>, literal: &mut String) {
    if literal.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(Part::Text(text)) => text.push_str(literal),
        _ => parts.push(Part::Text(literal.clone())),
    }
    literal.clear();
}

fn name_of(behind: &str) -> (&str, &str) {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if let Some((name, after)) = behind.strip_prefix('{').and_then(|rest| rest.split_once('}'))
        && name.chars().all(is_name)
    {
        return (name, after);
    }
    // `$1` is one digit, whatever follows.
    let digit = behind.starts_with(|letter: char| letter.is_ascii_digit());
    let end = if digit { 1 } else { behind.find(|letter| !is_name(letter)).unwrap_or(behind.len()) };
    behind.split_at_checked(end).unwrap_or((behind, ""))
}

impl Known {
    pub(super) fn set(&mut self, name: &str, parts: Vec<Part>) {
        self.0.insert(name.to_ascii_lowercase(), parts);
    }

    pub(super) fn set_text(&mut self, name: &str, text: impl Into<String>) {
        let text = text.into();
        self.set(name, if text.is_empty() { Vec::new() } else { vec![Part::Text(text)] });
    }

    pub(super) fn forget(&mut self, name: &str) {
        self.0.remove(&name.to_ascii_lowercase());
    }

    /// The parts of a text with what is known in its place.
    pub(super) fn parts(&self, text: &str) -> Vec<Part> {
        let mut out = Vec::new();
        self.expand(&parts(text), 0, &mut out);
        out
    }

    fn expand(&self, parts: &[Part], depth: usize, out: &mut Vec<Part>) {
        for part in parts {
            match part {
                Part::Variable(name) if depth < DEEPEST && self.0.contains_key(name) => {
                    self.expand(self.0.get(name).map_or(&[], Vec::as_slice), depth + 1, out);
                }
                _ if out.len() > LONGEST => {}
                Part::Text(text) => push_text(out, &mut text.clone()),
                Part::Variable(_) => out.push(part.clone()),
            }
        }
    }
}

/// The template that says the same, or the variable that has none.
pub(super) fn template(parts: &[Part], of: Use) -> Result<String, String> {
    let mut out = String::new();
    let mut open = false;
    for part in parts {
        let (text, opens) = match part {
            Part::Text(text) => (literal(text, of)?, false),
            Part::Variable(name) => {
                let found = variable(name, of).ok_or_else(|| format!("there is no ${name} here"))?;
                let opens = ["{header:", "{cookie:", "{arg:"].iter().any(|kind| found.starts_with(kind));
                (found, opens)
            }
        };
        if open && opens && of == Use::Key {
            return Err("two parts that may be missing run into each other".to_owned());
        }
        open = opens;
        out.push_str(&text);
    }
    Ok(out)
}

fn literal(text: &str, of: Use) -> Result<String, String> {
    match of {
        Use::Key if text.contains(['{', '}']) => Err("a key has no braces".to_owned()),
        Use::Key => Ok(text.to_owned()),
        Use::Request | Use::Answer => Ok(text.replace('{', "{{").replace('}', "}}")),
    }
}

/// The variable of ours that says what this one of nginx says.
fn variable(name: &str, of: Use) -> Option<String> {
    if let Some(expression) = name.strip_prefix('=') {
        return Some(if expression.is_empty() { "{path}".to_owned() } else { format!("{{path:{expression}}}") });
    }
    let dashed = |name: &str| name.replace('_', "-");
    let plain = match name {
        "host" => "{host}",
        "http_host" => "{header:host}",
        "request_uri" => "{uri}",
        "uri" | "document_uri" => "{nginx_uri}",
        "args" | "query_string" => "{nginx_args}",
        "is_args" => "{nginx_is_args}",
        "remote_addr" | "binary_remote_addr" => "{client_ip}",
        "request_method" => "{method}",
        "scheme" if of != Use::Key => "{scheme}",
        "remote_port" | "realip_remote_port" if of != Use::Key => "{peer_port}",
        "realip_remote_addr" if of != Use::Key => "{peer_ip}",
        "request_id" if of != Use::Key => "{request_id}",
        "status" | "upstream_addr" | "upstream_status" | "upstream_response_time" | "request_time"
            if of == Use::Answer =>
        {
            return Some(format!("{{{name}}}"));
        }
        _ => {
            return match name.split_once('_')? {
                ("http", header) if !header.is_empty() => Some(format!("{{header:{}}}", dashed(header))),
                ("cookie", cookie) if !cookie.is_empty() => Some(format!("{{cookie:{cookie}}}")),
                ("arg", arg) if !arg.is_empty() => Some(format!("{{nginx_arg:{arg}}}")),
                _ => None,
            };
        }
    };
    Some(plain.to_owned())
}

/// The text, if no variable is in it.
pub(super) fn plain(parts: &[Part]) -> Option<&str> {
    match parts {
        [] => Some(""),
        [Part::Text(text)] => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_templates() {
        let known = {
            let mut known = Known::default();
            known.set("x", parts("a-$host"));
            known.set("loop", parts("$loop"));
            known
        };
        for (text, expected) in [
            ("$host$request_uri", Ok("{host}{uri}")),
            ("$uri$is_args$args", Ok("{nginx_uri}{nginx_is_args}{nginx_args}")),
            ("${arg_Id}x", Ok("{nginx_arg:id}x")),
            ("$http_x_user", Ok("{header:x-user}")),
            ("$cookie_a_b|$x", Ok("{cookie:a_b}|a-{host}")),
            ("$binary_remote_addr", Ok("{client_ip}")),
            ("$http_a$http_b", Err("two parts that may be missing run into each other")),
            ("$scheme", Err("there is no $scheme here")),
            ("$loop", Err("there is no $loop here")),
            ("{a}", Err("a key has no braces")),
            ("a$", Ok("a$")),
            ("$$host", Ok("${host}")),
        ] {
            let found = template(&known.parts(text), Use::Key);
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
        assert_eq!(template(&parts("{$scheme}"), Use::Request).unwrap(), "{{{scheme}}}");
        assert_eq!(parts("$12"), [Part::Variable("1".into()), Part::Text("2".into())]);
    }
}
