//! What is done about what our own check says of the document? What it names is taken out and told, so that what is left
//! passes; what would let more requests through, or the wrong ones, shuts or takes the whole route with it.

use super::access;
use super::document::{Node, Section, Step};

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
}

/// Takes out what `flaws` name.
pub(super) fn repair(document: &mut Section, flaws: &[Flaw]) -> Vec<Taken> {
    let mut said = Vec::new();
    let mut routes = Vec::new();
    // From behind, so that places in lists hold.
    let mut flaws: Vec<&Flaw> = flaws.iter().filter(|flaw| !is_of_files(&flaw.path)).collect();
    flaws.sort_by_key(|flaw| std::cmp::Reverse(indices(&flaw.path)));
    for flaw in flaws {
        let copy = document.clone();
        let steps = copy.steps(&flaw.path);
        let place = copy.comments(&steps).iter().rev().find_map(|comment| place_in(comment));
        match steps.as_slice() {
            [] => continue,
            [Step::Key("routes"), Step::Index(at)] | [Step::Key("routes"), Step::Index(at), Step::Key("match"), ..] => {
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
        said.push(Taken { place, path: flaw.path.clone(), said: flaw.said.clone() });
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

fn replace(document: &mut Section, at: usize, keys: &[&str], (key, node): (&str, Node)) {
    let Some(Node::List(items)) = document.find("routes") else { return };
    let Some(Node::Section(route)) = items.get_mut(at).map(|item| &mut item.node) else { return };
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
