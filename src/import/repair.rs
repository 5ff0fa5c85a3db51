//! What is done about what our own check says of the document? What it names is taken out and told, so that what is left
//! passes; what would let more requests through, or the wrong ones, shuts or takes the whole route with it.

use super::access;
use super::document::{Node, Section, Step};
use super::looks;

/// What is wrong with the document, at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// As `routes[2].match.path.regex`.
    pub path: String,
    /// What is said of it.
    pub said: String,
}

/// Files that have to be there when the configuration is used, not when it is written.
const FILES: [&str; 6] = [".cert", ".key", ".ca", ".client_ca", ".ticket_keys", "certificates"];

pub(super) fn is_of_files(path: &str) -> bool {
    path.starts_with("certificates") || FILES.iter().any(|end| path.ends_with(end))
}

/// What was taken out.
pub(super) struct Taken {
    /// Where what it was made of stands, if that is known.
    pub(super) place: Option<String>,
    pub(super) path: String,
    pub(super) said: String,
    /// It kept somebody out, and nothing does so in its place.
    pub(super) is_open: bool,
}

/// What is said of a route that is shut for more than it was made for.
const WIDER: &str =
    "what looks ahead or back is left out of it; nobody may ask for the paths that are left, those it let by included";
/// What is said of a route that kept somebody out.
const OPEN: &str = "who was kept out there is not kept out any more";

/// Takes out what `flaws` name.
pub(super) fn repair(document: &mut Section, flaws: &[Flaw]) -> Vec<Taken> {
    let mut said = Vec::new();
    let mut routes = Vec::new();
    let mut wider = Vec::new();
    // From behind, so that places in lists hold.
    let mut flaws: Vec<&Flaw> = flaws.iter().filter(|flaw| !is_of_files(&flaw.path)).collect();
    flaws.sort_by_key(|flaw| std::cmp::Reverse(indices(&flaw.path)));
    for flaw in flaws {
        let copy = document.clone();
        let steps = copy.steps(&flaw.path);
        let place = copy.comments(&steps).iter().rev().find_map(|comment| place_in(comment));
        let mut taken = Taken { place, path: flaw.path.clone(), said: flaw.said.clone(), is_open: false };
        match steps.as_slice() {
            [] => continue,
            [Step::Key("routes"), Step::Index(at), ..] if wider.contains(at) => continue,
            [Step::Key("routes"), Step::Index(at), Step::Key("match"), Step::Key("path"), ..]
                if widen(document, *at) =>
            {
                wider.push(*at);
                taken.said = format!("{}: {WIDER}", taken.said);
            }
            [Step::Key("routes"), Step::Index(at)] | [Step::Key("routes"), Step::Index(at), Step::Key("match"), ..] => {
                taken.is_open = route_of(document, *at).is_some_and(keeps_out);
                if taken.is_open {
                    taken.said = format!("{}: {OPEN}", taken.said);
                }
                routes.push(*at);
            }
            [Step::Key("routes"), Step::Index(at), Step::Key("access"), ..] => {
                replace(document, *at, &["access"], ("access", access::shut().into()));
            }
            [Step::Key("routes"), Step::Index(at), Step::Key("pool" | "split" | "respond" | "redirect"), ..] => {
                let answer = Section::default().with("status", "501");
                replace(document, *at, &["pool", "split", "respond", "redirect", "mirror"], ("respond", answer.into()));
            }
            steps => document.take_out(steps),
        }
        said.push(taken);
    }
    routes.sort_unstable();
    routes.dedup();
    if let Some(Node::List(items)) = document.find("routes") {
        routes
            .iter()
            .rev()
            .filter(|at| **at < items.len())
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|at| _ = items.remove(*at));
    }
    said
}

/// Of a comment that begins with `FILE:LINE: `.
fn place_in(comment: &str) -> Option<String> {
    let (place, _) = comment.split_once(": ")?;
    let (_, line) = place.rsplit_once(':')?;
    line.bytes().all(|byte| byte.is_ascii_digit()).then(|| place.to_owned())
}

fn indices(path: &str) -> Vec<usize> {
    path.split('[').skip(1).filter_map(|rest| rest.split(']').next()?.parse().ok()).collect()
}

fn route_of(document: &mut Section, at: usize) -> Option<&mut Section> {
    let Some(Node::List(items)) = document.find("routes") else { return None };
    match items.get_mut(at).map(|item| &mut item.node) {
        Some(Node::Section(route)) => Some(route),
        _ => None,
    }
}

/// Does a route keep somebody out who might come by another one?
fn keeps_out(route: &mut Section) -> bool {
    let refuses = match route.find("respond") {
        Some(Node::Section(respond)) => {
            matches!(respond.find("status"), Some(Node::Text(status)) if status.starts_with(['4', '5']))
        }
        _ => false,
    };
    refuses || route.find("access").is_some()
}

/// Keeps a route that keeps somebody out, with the paths it can ask for: more of them, and for nobody.
fn widen(document: &mut Section, at: usize) -> bool {
    let Some(route) = route_of(document, at) else { return false };
    if !keeps_out(route) {
        return false;
    }
    let has_access = route.find("access").is_some();
    let Some(Node::Section(asked)) = route.find("match") else { return false };
    let Some(Node::Section(path)) = asked.find("path") else { return false };
    let Some(Node::Text(regex)) = path.find("regex") else { return false };
    let Some(wider) = looks::without(regex) else { return false };
    *regex = wider;
    if has_access {
        replace(document, at, &["access"], ("access", access::shut().into()));
    }
    true
}

fn replace(document: &mut Section, at: usize, keys: &[&str], (key, node): (&str, Node)) {
    let Some(route) = route_of(document, at) else { return };
    let place =
        route.entries.iter().position(|entry| keys.contains(&entry.key.as_str())).unwrap_or(route.entries.len());
    route.entries.retain(|entry| !keys.contains(&entry.key.as_str()));
    let entry =
        super::document::Entry { comments: vec!["see the head of the file".to_owned()], key: key.to_owned(), node };
    route.entries.insert(place.min(route.entries.len()), entry);
}

#[cfg(test)]
mod tests {
    use super::super::document::Item;
    use super::super::tests::{SHUT, imported, yaml};
    use super::*;

    fn repaired(paths: &[&str]) -> (String, usize) {
        let route = |name: &str| {
            let asked = Section::default().with("path", Section::default().with("regex", name));
            let access = Section::default().with("allow", Node::list(["10.0.0.0/8"]));
            let route =
                Section::tall().with("name", name).with("match", asked).with("pool", "p").with("access", access);
            Item { comments: vec![format!("f:{}: location", name.len())], node: route.into() }
        };
        let routes = ["a", "bb", "ccc"].map(route);
        let cert = Section::default().with("cert", "/c.pem");
        let mut document =
            Section::tall().with("certificates", Node::list([cert])).with("routes", Node::List(routes.into()));
        let flaws: Vec<Flaw> =
            paths.iter().map(|path| Flaw { path: (*path).to_owned(), said: "wrong".to_owned() }).collect();
        let taken = repair(&mut document, &flaws);
        assert!(taken.iter().all(|taken| taken.place.is_some()), "each stands somewhere");
        (document.print(&[]), taken.len())
    }

    #[test]
    fn a_guard_that_looks_ahead_stays_shut_for_more() {
        let text = yaml(
            "server { location / { proxy_pass http://a; } location ~ /\\.(?!well-known) { deny all; proxy_pass http://a; } }",
        );
        let guard = text.split("- name: ").skip(1).find(|route| route.contains("regex: ")).unwrap();
        let regex = guard.split("regex: \"").nth(1).unwrap().split('"').next().unwrap().replace("\\\\", "\\");
        let regex = regex::Regex::new(&format!("^(?:{regex})$")).unwrap();
        assert!(regex.is_match("/.git/config") && !regex.is_match("/x"), "{regex}");
        assert!(guard.contains(SHUT) && text.contains("# NOT CARRIED: nginx.conf:3: routes["), "{text}");
        assert!(text.contains("those it let by included"), "{text}");
        let text = yaml("server { location / { proxy_pass http://a; } location ~ /\\.(?!well-known) { return 404; } }");
        assert!(text.contains("(?<shut") && text.contains("respond: { status: 404 }"), "{text}");
        let text = yaml(
            "server { location / { proxy_pass http://a; } location ~ /(?!x) { allow 10.0.0.1; deny all; proxy_pass http://b; } }",
        );
        assert!(text.contains(SHUT) && !text.contains("10.0.0.1"), "{text}");
    }

    #[test]
    fn a_guard_that_goes_is_told_at_the_top() {
        let import = |guard: &str| {
            imported(format!("server {{ location / {{ proxy_pass http://a; }} location ~ ^/(a)\\1 {{ {guard} proxy_pass http://b; }} }}")).unwrap()
        };
        let made = import("deny all;");
        assert!(made.yaml.starts_with("# OPEN: nginx.conf:1: routes["), "{}", made.yaml);
        assert_eq!(made.open.len(), 1, "{:?}", made.open);
        let made = import("");
        assert!(made.open.is_empty() && !made.yaml.contains("OPEN"), "{}", made.yaml);
    }

    #[test]
    fn a_route_that_would_take_other_requests_goes() {
        let (text, taken) = repaired(&["routes[2].match", "routes[0].match.path.regex"]);
        assert!(!text.contains("name: a\n") && text.contains("name: bb\n") && !text.contains("name: ccc\n"), "{text}");
        assert_eq!(taken, 2);
    }

    #[test]
    fn what_keeps_somebody_out_shuts_and_what_answers_says_so() {
        let (text, _) = repaired(&["routes[1].access.allow[0]"]);
        assert_eq!(text.matches("access: { deny: [0.0.0.0/0, \"::/0\"] }").count(), 1, "{text}");
        let (text, _) = repaired(&["routes[1].pool"]);
        assert!(text.contains("respond: { status: 501 }") && text.matches("pool: p").count() == 2, "{text}");
    }

    #[test]
    fn files_that_are_not_here_stay() {
        let (text, taken) = repaired(&["certificates[0].cert", "pools.p.tls.ca"]);
        assert!(text.contains("cert: /c.pem") && taken == 0, "{text}");
    }
}
