//! What does a location do with its requests? One route, or several where a variable decides.

use super::access;
use super::document::{Node, Section};
use super::headers::{self, Setting};
use super::notes::Notes;
use super::place::{self, Answer, Reach};
use super::reader::Directive;
use super::scope::Scope;
use super::target::{self, Rewrite};
use super::variables::Known;
use super::world::World;

/// A location, with what holds in it.
pub(super) struct Location<'a> {
    pub(super) directive: &'a Directive,
    pub(super) scope: Scope<'a>,
    /// The beginning of its paths, or its only one.
    pub(super) text: String,
    pub(super) shape: Shape,
    /// Those it stands in, by their places in the list, the outermost first.
    pub(super) parents: Vec<usize>,
}

/// How it takes its paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Exact,
    Prefix,
    Regex,
    Named,
}

/// A route without its name, and what of `match` is its own.
pub(super) struct Draft {
    pub(super) conditions: Section,
    pub(super) body: Section,
}

/// What a location is read with.
pub(super) struct Reading<'r, 'a> {
    pub(super) world: &'r mut World<'a>,
    pub(super) location: &'r Location<'a>,
    /// All of the server, for those that are named.
    pub(super) all: &'r [Location<'a>],
    pub(super) known: Known,
    pub(super) notes: &'r mut Notes,
    /// The location with a name that its requests go on to, once it has let them in.
    pub(super) onward: Option<Scope<'a>>,
    /// From which draft on everybody is kept out: an `if` before it refuses somebody, and cannot be carried.
    pub(super) shut_from: Option<usize>,
}

impl<'r, 'a> Reading<'r, 'a> {
    pub(super) fn new(
        world: &'r mut World<'a>,
        location: &'r Location<'a>,
        all: &'r [Location<'a>],
        (known, notes): (Known, &'r mut Notes),
    ) -> Self {
        Self { world, location, all, known, notes, onward: None, shut_from: None }
    }

    /// The routes of the location, those that ask for more first.
    pub(super) fn drafts(mut self) -> Vec<Draft> {
        let mut drafts = self.in_order();
        let from = self.shut_from.unwrap_or(drafts.len());
        drafts.iter_mut().skip(from).for_each(|draft| access::shut_up(&mut draft.body));
        drafts
    }

    fn in_order(&mut self) -> Vec<Draft> {
        if self.location.scope.of_its_own("internal").next().is_some() {
            return vec![self.answered(&Answer::status(404))];
        }
        let mut drafts = Vec::new();
        let mut rewrite = None;
        let own: Vec<&'a Directive> = self.location.directive.inside().iter().collect();
        for directive in own {
            match directive.name.as_str() {
                "set" => self.set(directive),
                "if" => self.branch(directive, &mut drafts),
                "return" => {
                    let answer = place::returned(directive, &self.known, self.notes);
                    drafts.push(self.answered(&answer));
                    return drafts;
                }
                "rewrite" => match self.rewritten(directive) {
                    Ok(Some(answer)) => {
                        drafts.push(self.answered(&answer));
                        return drafts;
                    }
                    Ok(None) => {}
                    Err(found) => rewrite = rewrite.or(Some(found)),
                },
                _ => {}
            }
        }
        let location = self.location;
        self.content(location, rewrite, &mut drafts, 0);
        self.except(&mut drafts);
        drafts
    }

    fn set(&mut self, directive: &Directive) {
        let parts = self.known.parts(directive.arg(1));
        self.known.set(directive.arg(0).trim_start_matches('$'), parts);
    }

    /// `if` with a condition that a `match` can have and an answer in it.
    fn branch(&mut self, directive: &Directive, drafts: &mut Vec<Draft>) {
        let inside = directive.inside();
        if let (Some((conditions, true)), [only]) = (place::condition(directive), inside)
            && conditions.entries.iter().all(|entry| entry.key != "hosts")
        {
            let answer = match only.name.as_str() {
                "return" => self.named_by(only).unwrap_or_else(|| {
                    let answer = place::returned(only, &self.known, self.notes);
                    vec![self.answered(&answer)]
                }),
                "rewrite" if place::reach(only.arg(0)) == Some(Reach::All) => {
                    place::sent_elsewhere(only, &self.known, self.notes)
                        .map(|answer| self.answered(&answer))
                        .into_iter()
                        .collect()
                }
                _ => Vec::new(),
            };
            if !answer.is_empty() {
                drafts.extend(answer.into_iter().map(|draft| {
                    let mut merged = conditions.clone();
                    merged.entries.extend(draft.conditions.entries);
                    Draft { conditions: merged, body: draft.body }
                }));
                return;
            }
        }
        for inner in inside.iter().filter(|inner| inner.name == "set") {
            self.known.forget(inner.arg(0).trim_start_matches('$'));
        }
        if place::refuses(directive) {
            self.shut_from.get_or_insert(drafts.len());
            self.notes.dropped(directive, place::REFUSES);
        } else {
            self.notes.dropped(directive, "no `match` asks for this, or none does what is inside");
        }
    }

    /// `return 418;` where `error_page 418 = @name;` leads to a location with a name.
    fn named_by(&mut self, returned: &Directive) -> Option<Vec<Draft>> {
        let code = returned.arg(0);
        let page =
            self.location.scope.all("error_page").into_iter().find(|page| page.args.iter().any(|arg| arg == code))?;
        let name = page.args.last().filter(|name| name.starts_with('@'))?;
        let location = self.all.iter().find(|it| it.shape == Shape::Named && it.text == *name)?;
        let mut drafts = Vec::new();
        self.content(location, None, &mut drafts, 1);
        Some(drafts)
    }

    /// An answer, or a beginning that is replaced.
    fn rewritten(&mut self, directive: &Directive) -> Result<Option<Answer>, Rewrite> {
        let (expression, to) = (directive.arg(0), directive.arg(1));
        let is_whole = match place::reach(expression) {
            Some(Reach::All) => true,
            Some(Reach::Prefix(from)) => self.location.shape == Shape::Prefix && self.location.text == from,
            Some(Reach::Exact(path)) => self.location.shape == Shape::Exact && self.location.text == path,
            None => false,
        };
        if is_whole && let Some(answer) = place::sent_elsewhere(directive, &self.known, self.notes) {
            return Ok(Some(answer));
        }
        let parts = self.known.parts(to.strip_suffix('?').unwrap_or(to));
        let fits = target::prefix_of(expression).zip(target::with_group(&parts));
        match fits.map(|(from, to)| target::replaced(from, to, false)) {
            Some(Ok(rewrite)) if !matches!(directive.arg(2), "permanent" | "redirect") => {
                if directive.arg(2) != "break" {
                    self.notes.differs(directive, "the location is not looked for again");
                }
                return Err(rewrite);
            }
            Some(Err(why)) => self.notes.dropped(directive, why),
            _ => self.notes.dropped(directive, "only the beginning of a path is replaced here (docs/rules.md)"),
        }
        Ok(None)
    }

    /// `proxy_pass` and its like, of this location or one with a name.
    fn content(&mut self, of: &Location<'a>, rewrite: Option<Rewrite>, drafts: &mut Vec<Draft>, depth: u32) {
        for (name, module) in [("proxy_pass", "proxy"), ("grpc_pass", "grpc")] {
            if let Some(directive) = of.scope.of_its_own(name).next() {
                let found = self.passed(of, directive, module, rewrite);
                drafts.extend(found);
                return;
            }
        }
        if let Some(files) = of.scope.of_its_own("try_files").next().or_else(|| of.scope.one("try_files"))
            && let Some(last) = files.args.last()
        {
            let named = self.all.iter().find(|it| it.shape == Shape::Named && it.text == *last);
            if let (Some(named), true) = (named, depth == 0) {
                self.notes.dropped(files, format!("no files are served here: everything goes to {last}"));
                self.onward = Some(named.scope.clone());
                self.content(named, rewrite, drafts, depth + 1);
                return;
            }
        }
        let answer = self.of_files(of);
        let draft = self.answered(&answer);
        drafts.push(draft);
    }

    /// What served files.
    fn of_files(&mut self, of: &Location<'a>) -> Answer {
        let served = ["alias", "root", "try_files", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "stub_status"];
        match served.iter().find_map(|name| of.scope.one(name)) {
            Some(directive) => {
                self.notes.dropped(
                    directive,
                    "no files or programs are served here: it is answered 501 until you say by whom",
                );
                Answer::status(501)
            }
            None => Answer::status(404),
        }
    }

    /// `limit_except`: other methods are another route.
    fn except(&mut self, drafts: &mut Vec<Draft>) {
        let Some(directive) = self.location.scope.of_its_own("limit_except").next() else { return };
        let mut methods = directive.args.clone();
        if methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD") {
            methods.push("HEAD".to_owned());
        }
        let scope = self.location.scope.inside(directive.inside());
        let scopes: Vec<&Scope<'_>> = std::iter::once(&scope).chain(&self.onward).collect();
        let rules = access::access(&scopes, &self.world.trust, self.notes);
        let mut others = Vec::new();
        for draft in
            drafts.iter_mut().filter(|draft| draft.conditions.entries.iter().all(|entry| entry.key != "methods"))
        {
            let mut body = draft.body.clone();
            body.entries.retain(|entry| entry.key != "access");
            body.put("access", rules.clone());
            others.push(Draft { conditions: draft.conditions.clone(), body });
            draft.conditions.put("methods", Node::list(methods.iter().cloned()));
        }
        drafts.extend(others);
    }

    pub(super) fn answered(&mut self, answer: &Answer) -> Draft {
        let setting = Setting {
            scope: &self.location.scope,
            known: &self.known,
            has_proxies: !self.world.trust.is_nobody(),
            proxy_host: "",
        };
        let mut edits = headers::answered(&setting, self.notes);
        let mut body = Section::tall();
        answer.put(&mut body, &mut edits, &self.location.scope);
        self.unlogged(&mut body);
        body.put("headers", Section::default().with("response", edits.section()));
        let mut limits = access::limits(&[&self.location.scope], &self.known, &mut self.world.zones, self.notes);
        // No body is read for such an answer, and none is passed on.
        limits.entries.retain(|entry| entry.key == "rate" || entry.key == "concurrency");
        body.put("limits", limits);
        Draft { conditions: Section::default(), body }
    }

    /// `access_log off`: what is answered here may do without a line.
    pub(super) fn unlogged(&mut self, body: &mut Section) {
        for directive in self.location.scope.of_its_own("access_log") {
            match body.find("respond") {
                Some(Node::Section(respond)) if directive.arg(0) == "off" => respond.put("log", false),
                _ => self.notes.dropped(directive, "all requests that are passed on have their lines in one log"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Fate;
    use super::super::tests::{SHUT, notes, route, yaml};

    #[test]
    fn other_methods_are_held_to_what_the_location_is() {
        for (rules, is_shut) in [("auth_basic x;", true), ("auth_basic x; satisfy any; allow all;", false)] {
            let text =
                yaml(&format!("server {{ {rules} location / {{ limit_except GET {{ }} proxy_pass http://a; }} }}"));
            assert_eq!(route(&text, "port-80#2").contains(SHUT), is_shut, "{rules}: {text}");
        }
        let text = yaml("server { location / { deny 10.0.0.1; limit_except GET { } proxy_pass http://a; } }");
        assert!(route(&text, "port-80#2").contains("access: { deny: [10.0.0.1] }"), "{text}");
        let text = yaml(
            "server { location / { limit_except GET { allow all; } try_files $uri @a; } location @a { auth_basic x; proxy_pass http://a; } }",
        );
        assert!(route(&text, "port-80#2").contains(SHUT), "{text}");
    }

    #[test]
    fn a_refusal_that_no_match_asks_for_shuts() {
        for refusal in [
            "if ($http_x != secret) { return 403; }",
            "if ($ssl_client_verify != SUCCESS) { add_header A b; return 401; }",
            "if ($http_x ~* ^secret$) { return 444; }",
            "if ($host = other.test) { return 403; }",
        ] {
            let http = format!("server {{ location / {{ {refusal} proxy_pass http://a; }} }}");
            assert!(yaml(&http).contains(SHUT), "{refusal}");
            let said = notes(&http, Fate::NotCarried);
            assert!(said.iter().any(|line| line.contains("so nobody may ask")), "{said:?}");
            let http = format!("server {{ {refusal} location / {{ proxy_pass http://a; }} }}");
            let is_carried = refusal.contains("$host");
            assert_eq!(yaml(&http).contains(SHUT), !is_carried, "{refusal}");
        }
        for open in ["if ($http_x != y) { set $x 1; }", "if ($request_method = POST) { return 403; }"] {
            let text = yaml(&format!("server {{ location / {{ {open} proxy_pass http://a; }} }}"));
            assert!(!text.contains("access:"), "{open}: {text}");
        }
    }

    #[test]
    fn what_is_asked_before_a_refusal_stays_open() {
        let text = yaml(
            "server { location / { if ($request_method = OPTIONS) { return 204; } if ($http_x != y) { return 403; } proxy_pass http://a; } }",
        );
        assert!(!route(&text, "port-80").contains(SHUT), "{text}");
        assert!(route(&text, "port-80#2").contains(SHUT), "{text}");
    }
}
