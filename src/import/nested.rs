//! Does a location within another take requests here that nginx gives to others? Where those keep somebody out, it is shut.
//!
//! nginx asks an expression within a location for what that location takes; here all expressions are asked at once.

use super::access;
use super::beneath;
use super::notes::Notes;
use super::paths::escaped;
use super::place;
use super::reader::Directive;
use super::routes::{Draft, Location, Shape};
use super::trusted::Trust;

/// The beginning that what encloses it asks for; `None`: no beginning says that.
pub(super) fn within<'l>(location: &Location<'_>, all: &'l [Location<'_>]) -> Option<&'l str> {
    let Some(parent) = location.parents.last() else { return Some("/") };
    let parent = all.get(*parent).filter(|parent| parent.shape == Shape::Prefix)?;
    let any_case = location.directive.arg(0) == "~*";
    let is_known =
        parent.text.len() < 2 || beneath::beneath(&location.text, any_case, &escaped(&parent.text)).is_some();
    is_known.then_some(parent.text.as_str())
}

/// Tells what it takes from whom, and shuts it if that keeps somebody out.
pub(super) fn keep(
    (at, location): (usize, &Location<'_>),
    all: &[Location<'_>],
    trust: &Trust,
    drafts: &mut [Draft],
    notes: &mut Notes,
) {
    let Some(parent) = location.parents.last().filter(|_| location.shape == Shape::Regex) else { return };
    let parent = all.get(*parent).map(|parent| parent.text.as_str()).unwrap_or_default();
    let within = within(location, all);
    let others = all.iter().enumerate().filter(|(index, _)| *index != at && !location.parents.contains(index));
    let takes_from = |other: &Location<'_>| match within {
        _ if other.shape == Shape::Named => false,
        None => true,
        Some(within) => {
            let is_longer = other.shape == Shape::Prefix && other.text.starts_with(within);
            let is_beside = other.parents.starts_with(&location.parents);
            is_longer && (!is_beside || other.directive.arg(0) == "^~")
        }
    };
    let mut others = others.map(|(_, other)| other).filter(|other| takes_from(other)).peekable();
    if within.is_none() {
        notes.differs(location.directive, format!("it is asked for all paths, not those of {parent} alone"));
    }
    if others.peek().is_none() {
        return;
    }
    if let Some(other) = others.find(|other| keeps_out(other, location, trust)) {
        let what = other.directive.said();
        let why = format!("it would take requests from {what}, which keeps out others, so nobody may ask here");
        notes.dropped(location.directive, why);
        drafts.iter_mut().for_each(|draft| access::shut_up(&mut draft.body));
    } else if within.is_some() {
        notes.differs(location.directive, "it takes such paths from longer locations as well");
    }
}

/// Does it keep out somebody whom the other one does not?
fn keeps_out(this: &Location<'_>, other: &Location<'_>, trust: &Trust) -> bool {
    let access = |location: &Location<'_>| access::access(&[&location.scope], trust, &mut Notes::default());
    let own = access(this);
    let refuses = |directive: &Directive| match directive.name.as_str() {
        "internal" | "limit_except" | "limit_req" | "limit_conn" => true,
        "return" => directive.arg(0).starts_with('4'),
        "if" => place::refuses(directive),
        _ => false,
    };
    (!own.entries.is_empty() && own != access(other)) || this.directive.inside().iter().any(refuses)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHUT, route, yaml};

    #[test]
    fn an_expression_is_asked_for_the_paths_of_its_location() {
        let text = yaml(
            "server { location / { auth_basic x; proxy_pass http://a; } location /pub/ { proxy_pass http://a; location ~ \\.txt$ { proxy_pass http://b; } } }",
        );
        let inner = route(&text, "port-80/txt");
        assert!(inner.contains("/pub/.*\\\\.txt") && !inner.contains("access:"), "{text}");
    }

    #[test]
    fn it_comes_before_expressions_and_final_prefixes_around_it() {
        for outer in ["/a/", "^~ /a/", "~ ^/a/"] {
            let text = yaml(&format!(
                "server {{ location ~ \\.php$ {{ proxy_pass http://b; }} location {outer} {{ proxy_pass http://a; location ~ \\.php$ {{ deny all; proxy_pass http://a; }} }} }}"
            ));
            let length = |route: &str| {
                let regex = route.split("regex: ").nth(1).map(|rest| rest.split(" }").next().unwrap().len());
                assert!(!route.contains("prefix: /a/"), "{text}");
                regex.unwrap_or_default()
            };
            let (inner, first) = (route(&text, "port-80/php#2"), route(&text, "port-80/php"));
            assert!(inner.contains(SHUT), "{text}");
            let around = text.split("- name: ").find(|route| route.starts_with("port-80/a\n")).unwrap_or_default();
            assert!(length(&inner) > length(&first) && length(&inner) > length(around), "{text}");
        }
    }

    #[test]
    fn it_is_shut_where_it_takes_requests_of_what_is_guarded() {
        let guarded = "location /a/secret/ { auth_basic x; proxy_pass http://a; }";
        let of = |text: &str, beside: &str| {
            let text = yaml(&format!(
                "server {{ {beside} location /a/ {{ proxy_pass http://a; location ~ {text} {{ proxy_pass http://b; }} }} }}"
            ));
            let name = if text.contains("name: port-80/txt\n") { "port-80/txt" } else { "port-80/a-txt" };
            route(&text, name).contains(SHUT)
        };
        assert!(of("\\.txt$", guarded));
        assert!(of("(a|txt)$", guarded));
        assert!(of("(a|txt)$", "location /b/ { allow 10.0.0.1; deny all; proxy_pass http://a; }"));
        assert!(of("(a|txt)$", "location /b/ { return 403; }"));
        for open in ["", "location /b/ { proxy_pass http://a; }", "location /a/b/ { proxy_pass http://a; }"] {
            assert!(!of("\\.txt$", open) && !of("(a|txt)$", open), "{open}");
        }
        assert!(!of("\\.txt$", "location /b/ { return 403; }"));
    }
}
