//! What is tried again, by `proxy_next_upstream`?

use super::document::{Node, Section};
use super::notes::Notes;
use super::scope::Scope;
use super::times::Times;
use super::units;

/// Methods that nginx takes for idempotent and we do not call safe.
const IDEMPOTENT: [&str; 2] = ["PUT", "DELETE"];

/// The `retry` section of a route to so many servers; `None`: there is nobody else to ask.
pub(super) fn retry(scope: &Scope<'_>, module: &str, servers: usize, times: &Times, notes: &mut Notes) -> Option<Node> {
    let name = format!("{module}_next_upstream");
    let directive = scope.one(&name);
    if servers < 2 {
        return None;
    }
    let unsaid = ["error".to_owned(), "timeout".to_owned()];
    let words = directive.map_or(unsaid.as_slice(), |directive| directive.args.as_slice());
    let mut conditions: Vec<&str> = Vec::new();
    let mut again = false;
    for word in words {
        match word.as_str() {
            "off" => return Some(Node::text("off")),
            "error" => conditions.extend(["connect", "stale", "reset"]),
            "timeout" => conditions.push("timeout"),
            "non_idempotent" => again = true,
            _ => match (word.strip_prefix("http_"), directive) {
                (Some(status), _) => conditions.push(status),
                (None, Some(directive)) => notes.dropped(directive, format!("{word}: there is no such condition")),
                (None, None) => {}
            },
        }
    }
    let tries = scope.word(&format!("{name}_tries")).and_then(|tries| tries.parse::<usize>().ok());
    let tries = tries.filter(|tries| *tries > 0).unwrap_or(servers).min(16);
    let longest = times.read.saturating_mul(tries as u64);
    let within = scope.word(&format!("{name}_timeout")).and_then(units::millis).filter(|time| *time > 0);
    let mut section = Section::default().with("tries", tries.to_string());
    section.put("within", units::time(within.unwrap_or(longest).max(1)));
    let unsent = conditions.iter().copied().filter(|condition| *condition == "connect");
    section.put_always("safe", Node::list(conditions.iter().copied()));
    if again {
        section.put_always("other", Node::list(std::iter::once("non_idempotent").chain(conditions.iter().copied())));
    } else {
        section.put_always("other", Node::list(unsent));
        let mut methods = Section::default();
        for method in IDEMPOTENT {
            methods.put_always(method, Node::list(conditions.iter().copied()));
        }
        section.put("methods", methods);
    }
    Some(section.into())
}
