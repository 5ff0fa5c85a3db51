//! Which answers are compressed?

use super::document::{Node, Section};
use super::notes::Notes;
use super::scope::Scope;

/// The `compression` section, if `gzip` or `brotli` is on.
pub(super) fn compression(scope: &Scope<'_>, notes: &mut Notes) -> Option<Section> {
    let algorithms: Vec<&str> = [("brotli", "br"), ("gzip", "gzip")]
        .into_iter()
        .filter(|(name, _)| scope.is_on(name))
        .map(|(_, it)| it)
        .collect();
    let first = if algorithms.contains(&"br") { "brotli" } else { "gzip" };
    if algorithms.is_empty() {
        return None;
    }
    let mut types: Vec<String> = vec!["text/html".to_owned()];
    if let Some(directive) = scope.one(&format!("{first}_types")) {
        for media in &directive.args {
            let known = types.contains(media);
            match media.split_once('/') {
                _ if known => {}
                _ if media == "*" => notes.dropped(directive, "*: types are named here, such as text/*"),
                Some(_) => types.push(media.clone()),
                None => notes.dropped(directive, format!("{media}: no media type")),
            }
        }
    }
    let min = scope.word("gzip_min_length").filter(|_| first == "gzip").unwrap_or("20");
    let section = Section::default().with("algorithms", Node::list(algorithms)).with("types", Node::list(types));
    Some(section.with("min", min.to_owned()))
}
