//! Which requests does each location of a server take?

use super::document::{Item, Node, Section};
use super::headers::{self, Setting};
use super::nested;
use super::notes::Notes;
use super::paths::{self, Kind, Path};
use super::place::{self, Answer, Reach};
use super::reader::Directive;
use super::routes::{Draft, Location, Reading, Shape};
use super::scope::Scope;
use super::servers::{self, Server};
use super::variables::Known;
use super::why::{self, Block};
use super::world::World;

/// Locations within locations, and all of a server.
const LOCATIONS: usize = 2_000;

/// A server as its names, or as everybody else, reach it.
pub(super) struct Site {
    /// What all its routes ask for.
    pub(super) base: Section,
    pub(super) names: Vec<String>,
    pub(super) label: String,
    /// Names that another one of the same server has, everywhere this one is reached.
    pub(super) covered: Vec<String>,
    /// From which route on everybody is kept out: an `if` before it refuses somebody, and cannot be carried.
    pub(super) shut_from: Option<usize>,
    /// No request is left for it.
    pub(super) is_over: bool,
}

/// Is it this name, or one below its `*`?
fn fits(own: &str, name: &str) -> bool {
    own == name || own.strip_prefix('*').is_some_and(|domain| domain.len() < name.len() && name.ends_with(domain))
}

/// Its routes.
pub(super) fn of_site<'a>(world: &mut World<'a>, server: &mut Server<'a>, mut site: Site) -> Vec<Item> {
    let mut known = Known::default();
    let first = server.names.first().cloned().unwrap_or_default();
    known.set_text("server_name", first);
    if let [one] = server.listens.as_slice() {
        known.set_text("server_port", one.address.port().to_string());
    }
    for set in world.http.of_its_own("set").chain(server.scope.of_its_own("set")) {
        let parts = known.parts(set.arg(1));
        known.set(set.arg(0).trim_start_matches('$'), parts);
    }
    let mut items = Vec::new();
    let whole = at_once(server, &known, &mut site, &mut items);
    world.told.remember(&server.notes);
    if !whole {
        by_location(world, server, &site, &known, &mut items);
    }
    let from = site.shut_from.unwrap_or(items.len());
    servers::shut(items.get_mut(from..).unwrap_or_default());
    items
}

/// The routes of its locations.
fn by_location<'a>(world: &mut World<'a>, server: &mut Server<'a>, site: &Site, known: &Known, items: &mut Vec<Item>) {
    let mut locations = Vec::new();
    gather(&server.scope, &[], &mut locations, &mut server.notes);
    let taken: Vec<usize> =
        (0..locations.len()).filter(|i| locations.get(*i).is_some_and(|it| it.shape != Shape::Named)).collect();
    let kinds: Vec<(Kind, bool)> =
        taken.iter().filter_map(|i| locations.get(*i)).map(|it| (kind(it, &locations), is_proxied(it))).collect();
    let found = paths::paths(&kinds);
    let mut bare = !kinds.iter().any(|(kind, _)| matches!(kind, Kind::Prefix { text, .. } if text == "/"));
    for ((at, location), path) in taken.iter().filter_map(|i| Some((*i, locations.get(*i)?))).zip(found) {
        let mut notes = Notes::of(format!("location {}", location.directive.args.join(" ")));
        why::tell(Block::Location, location.directive.inside(), &mut notes);
        let mut drafts = Reading::new(world, location, &locations, (known.clone(), &mut notes)).drafts();
        nested::keep((at, location), &locations, &world.trust, &mut drafts, &mut notes);
        world.told.once(&mut notes);
        let head = format!("{}: {}", location.directive.place, location.directive.said());
        let comments = std::iter::once(head).chain(notes.comments()).collect();
        let redirect = slash(location, &kinds);
        place_all(site, drafts, &path, &location.text, comments, items);
        if let Some((path, to)) = redirect {
            let answer = Section::default().with("status", "301").with("to", to);
            let draft = Draft { conditions: Section::default(), body: Section::tall().with("redirect", answer) };
            let said = vec![format!("{}: nginx adds the slash that is missing", location.directive.place)];
            place_all(site, vec![draft], &Path::Exact(path.clone()), &path, said, items);
        }
        world.pools.notes.push(notes);
        bare &= path != Path::Any;
    }
    if bare {
        let body = Section::tall().with("respond", rest(server));
        let draft = Draft { conditions: Section::default(), body };
        place_all(site, vec![draft], &Path::Any, "", vec!["no location takes anything else".to_owned()], items);
    }
}

/// What no location takes: files, if any are served.
fn rest(server: &mut Server<'_>) -> Section {
    match server.scope.one("root") {
        Some(root) => {
            server.notes.dropped(root, "no files are served here: it is answered 501 until you say by whom");
            Section::default().with("status", "501")
        }
        None => Section::default().with("status", "404"),
    }
}

/// What the server does before it looks for a location; `true`: with every request.
fn at_once(server: &mut Server<'_>, known: &Known, site: &mut Site, items: &mut Vec<Item>) -> bool {
    let directives = server.directive.inside();
    for directive in directives {
        let comments = vec![format!("{}: {}", directive.place, directive.said())];
        let (answer, path) = match directive.name.as_str() {
            "return" => (Some(place::returned(directive, known, &mut server.notes)), Path::Any),
            "rewrite" => {
                let path = match place::reach(directive.arg(0)) {
                    Some(Reach::All) => Some(Path::Any),
                    Some(Reach::Exact(path)) => Some(Path::Exact(path)),
                    Some(Reach::Prefix(path)) => Some(Path::Prefix(path)),
                    None => None,
                };
                let answer = path.as_ref().and_then(|_| place::sent_elsewhere(directive, known, &mut server.notes));
                if answer.is_none() {
                    server
                        .notes
                        .dropped(directive, "a server rewrites no paths here: its locations may (docs/rules.md)");
                }
                (answer, path.unwrap_or(Path::Any))
            }
            "if" => {
                by_condition(directive, server, known, site, items);
                if site.is_over {
                    return true;
                }
                continue;
            }
            _ => continue,
        };
        let Some(answer) = answer else { continue };
        let draft = answered(&answer, server);
        let is_whole = path == Path::Any;
        let label = if is_whole { String::new() } else { directive.arg(0).trim_matches(['^', '$']).to_owned() };
        place_all(site, vec![draft], &path, &label, comments, items);
        if is_whole {
            return true;
        }
    }
    false
}

fn answered(answer: &Answer, server: &mut Server<'_>) -> Draft {
    let known = Known::default();
    let setting = Setting { scope: &server.scope, known: &known, has_proxies: false, proxy_host: "" };
    let mut edits = headers::answered(&setting, &mut server.notes);
    let mut body = Section::tall();
    answer.put(&mut body, &mut edits, &server.scope);
    body.put("headers", Section::default().with("response", edits.section()));
    Draft { conditions: Section::default(), body }
}

/// `if ($host = a) { return ...; }` and its like: these requests are taken from the rest of the server.
fn by_condition(directive: &Directive, server: &mut Server<'_>, known: &Known, site: &mut Site, items: &mut Vec<Item>) {
    let asked = place::condition(directive);
    let inner = if let ([only], Some(_)) = (directive.inside(), &asked) { Some(only) } else { None };
    let answer = inner.and_then(|only| match only.name.as_str() {
        "return" => Some(place::returned(only, known, &mut server.notes)),
        "rewrite" if place::reach(only.arg(0)) == Some(Reach::All) => {
            place::sent_elsewhere(only, known, &mut server.notes)
        }
        _ => None,
    });
    let (Some(answer), Some((mut conditions, equal))) = (answer, asked) else {
        let why = "no `match` asks for this, or none does what is inside";
        site.left_out(directive, why, items.len(), &mut server.notes);
        return;
    };
    let hosts = conditions.find("hosts").map(texts).unwrap_or_default();
    let scheme = conditions.find("scheme").map(texts).unwrap_or_default().pop();
    let taken = match (hosts.is_empty(), equal, scheme) {
        (false, true, _) => site.without(hosts, items.len() + 1),
        (true, equal, Some(scheme)) => Some(site.of_scheme(&scheme, equal)),
        _ => {
            let why = "a location of the server would come before it here";
            site.left_out(directive, why, items.len(), &mut server.notes);
            None
        }
    };
    if let Some(taken) = taken {
        let draft = answered(&answer, server);
        let comments = vec![format!("{}: {}", directive.place, directive.said())];
        place_all(&taken, vec![draft], &Path::Any, "", comments, items);
    }
}

fn texts(node: &mut Node) -> Vec<String> {
    let text = |node: &Node| if let Node::Text(text) = node { Some(text.to_ascii_lowercase()) } else { None };
    match node {
        Node::List(items) => items.iter().filter_map(|item| text(&item.node)).collect(),
        node => text(node).into_iter().collect(),
    }
}

impl Site {
    /// Of the rest of the server, if an `if` that is not carried refuses somebody.
    fn left_out(&mut self, directive: &Directive, why: &str, number: usize, notes: &mut Notes) {
        if place::refuses(directive) {
            self.shut_from.get_or_insert(number);
            notes.dropped(directive, place::REFUSES);
        } else {
            notes.dropped(directive, why);
        }
    }

    /// The part of these hosts, which is no part of the rest any more.
    fn without(&mut self, hosts: Vec<String>, number: usize) -> Option<Self> {
        let is_of = |names: &[String], name: &str| names.iter().any(|own| fits(own, name));
        let is_own = |name: &String| self.names.is_empty() || is_of(&self.names, name);
        let taken: Vec<String> = hosts.into_iter().filter(|name| is_own(name) && !is_of(&self.covered, name)).collect();
        if taken.is_empty() {
            return None;
        }
        let had_names = !self.names.is_empty();
        self.names.retain(|name| !taken.contains(name));
        self.is_over = had_names && self.names.is_empty();
        Some(self.part(self.base.clone(), taken, &number.to_string()))
    }

    fn part(&self, base: Section, names: Vec<String>, label: &str) -> Self {
        let label = format!("{}:{label}", self.label);
        Self { base, names, label, covered: Vec::new(), shut_from: None, is_over: false }
    }

    /// The part that comes by this scheme, or by the other one.
    fn of_scheme(&mut self, scheme: &str, equal: bool) -> Self {
        let other = if scheme == "http" { "https" } else { "http" };
        let (asked, rest) = if equal { (scheme, other) } else { (other, scheme) };
        let taken = self.part(self.base.clone().with("scheme", asked), self.names.clone(), asked);
        self.base.put("scheme", rest.to_owned());
        taken
    }
}

fn kind(location: &Location<'_>, all: &[Location<'_>]) -> Kind {
    let text = location.text.clone();
    match location.shape {
        Shape::Exact | Shape::Named => Kind::Exact(text),
        Shape::Prefix => Kind::Prefix { text, is_final: location.directive.arg(0) == "^~" },
        Shape::Regex => Kind::Regex {
            text,
            any_case: location.directive.arg(0) == "~*",
            within: nested::within(location, all).unwrap_or("/").to_owned(),
            depth: location.parents.len(),
        },
    }
}

fn is_proxied(location: &Location<'_>) -> bool {
    ["proxy_pass", "grpc_pass"].iter().any(|name| location.scope.of_its_own(name).next().is_some())
}

/// The path without its slash, which nginx redirects to the one with it where that is passed on.
fn slash(location: &Location<'_>, kinds: &[(Kind, bool)]) -> Option<(String, String)> {
    let text = paths::escaped(&location.text);
    let bare = text.strip_suffix('/').filter(|_| location.shape == Shape::Prefix && is_proxied(location))?;
    let is_taken = kinds.iter().any(|(kind, _)| matches!(kind, Kind::Exact(path) if paths::escaped(path) == bare));
    let to = text.replace('{', "{{").replace('}', "}}");
    (!bare.is_empty() && !is_taken).then(|| (bare.to_owned(), format!("{to}{{nginx_is_args}}{{nginx_args}}")))
}

/// The locations of a block and of those in it.
fn gather<'a>(scope: &Scope<'a>, parents: &[usize], found: &mut Vec<Location<'a>>, notes: &mut Notes) {
    for directive in scope.of_its_own("location") {
        let (sign, text) = match directive.args.as_slice() {
            [text] => match ["=", "^~", "~*", "~"].iter().find(|sign| text.starts_with(**sign)) {
                Some(sign) => (*sign, text.strip_prefix(sign).unwrap_or_default()),
                None => ("", text.as_str()),
            },
            [sign, text, ..] => (sign.as_str(), text.as_str()),
            [] => continue,
        };
        let shape = match sign {
            _ if text.starts_with('@') => Shape::Named,
            "=" => Shape::Exact,
            "~" | "~*" => Shape::Regex,
            _ => Shape::Prefix,
        };
        if found.len() >= LOCATIONS {
            notes.dropped(directive, "there are too many locations");
            return;
        }
        let inner = scope.inside(directive.inside());
        let (text, parents) = (text.to_owned(), parents.to_owned());
        let beneath: Vec<usize> = parents.iter().copied().chain([found.len()]).collect();
        found.push(Location { directive, scope: inner.clone(), text, shape, parents });
        gather(&inner, &beneath, found, notes);
    }
}

/// Makes routes of drafts.
fn place_all(site: &Site, drafts: Vec<Draft>, path: &Path, text: &str, comments: Vec<String>, items: &mut Vec<Item>) {
    let mut comments = Some(comments);
    for draft in drafts {
        let mut asked = Section::default();
        if !site.names.is_empty() {
            asked.put("hosts", Node::list(site.names.iter().cloned()));
        }
        match path {
            Path::Any => {}
            Path::Exact(text) => asked.put("path", Section::default().with("exact", text.clone())),
            Path::Prefix(text) => asked.put("path", Section::default().with("prefix", text.clone())),
            Path::Regex(text) => asked.put("path", Section::default().with("regex", text.clone())),
        }
        asked.entries.extend(draft.conditions.entries);
        let base =
            site.base.entries.iter().filter(|entry| asked.entries.iter().all(|own| own.key != entry.key)).cloned();
        let base: Vec<_> = base.collect();
        asked.entries.extend(base);
        let mut route = Section::tall().with("name", name_of(&site.label, text, items));
        route.put("match", asked);
        route.entries.extend(draft.body.entries);
        items.push(Item { comments: comments.take().unwrap_or_default(), node: route.into() });
    }
}

/// A name that no other route of the server has.
fn name_of(label: &str, text: &str, items: &[Item]) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-".contains(letter);
    let path: String = if text.starts_with('/') && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>().join("-")
    };
    let path: String = path.chars().take(60).collect();
    let path = path.trim_end_matches('/');
    let base =
        if path.starts_with('/') || path.is_empty() { format!("{label}{path}") } else { format!("{label}/{path}") };
    let is_taken = |name: &str| {
        items.iter().any(|item| {
            let Node::Section(route) = &item.node else { return false };
            route.entries.first().is_some_and(|entry| entry.node == Node::text(name))
        })
    };
    if !is_taken(&base) {
        return base;
    }
    (2..).map(|number| format!("{base}#{number}")).find(|name| !is_taken(name)).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{route, yaml};

    #[test]
    fn no_request_is_left_once_all_names_are_answered() {
        let text = yaml(
            "server { listen 80 default_server; return 404; } server { listen 80; server_name a.test; if ($host = a.test) { return 301 https://b.test; } \
             location / { if ($request_method = POST) { return 200; } proxy_pass http://a; } }",
        );
        assert_eq!(text.matches("- name: ").count(), 2, "{text}");
        assert!(!text.contains("methods:"), "{text}");
    }

    #[test]
    fn a_name_is_answered_wherever_the_server_is_reached() {
        // By its name on one listener, by default on the other.
        let text = yaml(
            "server { listen 81 default_server; return 404; } server { listen 80; listen 81; server_name a.test b.test; \
             if ($host = b.test) { return 403; } location / { proxy_pass http://a; } }",
        );
        let of = |name: &str| route(&text, name).contains("status: 403");
        assert!(of("a.test:1") && of("a.test:any:1"), "{text}");
        let text = yaml(
            "server { server_name *.a.test; if ($host = b.other) { return 403; } location / { proxy_pass http://a; } } server { listen 80; server_name b.other; location / { proxy_pass http://a; } }",
        );
        assert!(!route(&text, "b.other").contains("403"), "{text}");
    }
}
