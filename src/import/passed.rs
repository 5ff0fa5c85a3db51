//! Which pool does a location pass its requests to, and what else becomes of them there?

use super::access;
use super::document::{Entry, Item, Node, Section};
use super::encoding;
use super::headers::{self, Setting};
use super::notes::Notes;
use super::place::{self, Answer};
use super::pools::Wanted;
use super::reader::Directive;
use super::retry;
use super::routes::{Draft, Location, Reading, Shape};
use super::scope::Scope;
use super::secured;
use super::target::{self, Host, Rewrite, Target, Uri};
use super::times::Times;
use super::variables::{Use, template};

impl<'a> Reading<'_, 'a> {
    pub(super) fn passed(
        &mut self,
        of: &Location<'a>,
        directive: &'a Directive,
        module: &str,
        rewrite: Option<Rewrite>,
    ) -> Vec<Draft> {
        let unfit = "it is no scheme, host and path that are known before: it is answered 501 until you say where";
        let Some(found) = target::target(directive.arg(0), &self.known) else {
            self.notes.dropped(directive, unfit);
            return vec![self.answered(&Answer::status(501))];
        };
        match found.host.clone() {
            Host::Named(name) => vec![self.pooled(of, directive, (module, &name), &found, rewrite)],
            Host::Variable(name) => {
                if let Some(split) = self.world.splits.get(&name).copied() {
                    return vec![self.shared(of, directive, (module, split), &found, rewrite.as_ref())];
                }
                let branches = self.world.pools.maps.get(&name).copied().and_then(|map| self.branches(map));
                let Some(branches) = branches else {
                    self.notes.dropped(directive, unfit);
                    return vec![self.answered(&Answer::status(501))];
                };
                let mut drafts = Vec::new();
                for (conditions, name) in branches {
                    let mut draft = self.pooled(of, directive, (module, &name), &found, rewrite.clone());
                    draft.conditions.entries.extend(conditions.entries);
                    drafts.push(draft);
                }
                drafts
            }
        }
    }

    /// What a map says for which requests; `None`: it asks for something that no `match` does.
    fn branches(&mut self, map: &Directive) -> Option<Vec<(Section, String)>> {
        let source = map.arg(0).trim_start_matches('$').to_ascii_lowercase();
        let mut branches = Vec::new();
        let mut default = None;
        for entry in map.inside() {
            let value = entry.arg(0).to_owned();
            if value.contains('$') || value.is_empty() {
                return None;
            }
            let key = entry.name.strip_prefix('\\').unwrap_or(&entry.name);
            let expression = key.strip_prefix("~*").or_else(|| key.strip_prefix('~'));
            match (key, expression) {
                ("default", _) => default = Some((Section::default(), value)),
                ("hostnames" | "volatile", _) => {}
                (_, Some(expression)) => {
                    let mut values = place::choices(expression)?;
                    if key.starts_with("~*") {
                        values = place::any_case(&source, &values)?;
                    }
                    branches.push((place::asked(&source, &values)?, value));
                }
                (key, None) => branches.push((place::asked(&source, &[key.to_owned()])?, value)),
            }
        }
        branches.extend(default);
        (!branches.is_empty()).then_some(branches)
    }

    fn shared(
        &mut self,
        of: &Location<'a>,
        directive: &'a Directive,
        (module, split): (&str, &'a Directive),
        found: &Target,
        rewrite: Option<&Rewrite>,
    ) -> Draft {
        self.notes.differs(split, "other clients than with nginx are in each share, which stays as large");
        let mut shares: Vec<Node> = Vec::new();
        let mut left = 100.0_f64;
        let mut first: Option<Draft> = None;
        for entry in split.inside() {
            let share = entry.name.strip_suffix('%').and_then(|share| share.parse::<f64>().ok());
            let share = share.unwrap_or(left).clamp(0.0, 100.0);
            left = (left - share).max(0.0);
            let draft = self.pooled(of, directive, (module, entry.arg(0)), found, rewrite.cloned());
            let pool = draft.body.entries.iter().find(|entry| entry.key == "pool").map(|entry| entry.node.clone());
            let share = format!("{}%", (share * 1_000.0).round() / 1_000.0);
            shares.extend(pool.map(|pool| Section::default().with("pool", pool).with("share", share).into()));
            first.get_or_insert(draft);
        }
        let Some(mut draft) = first else { return self.answered(&Answer::status(501)) };
        let key = template(&self.known.parts(split.arg(0)), Use::Key);
        let mut section = Section::default();
        match key.ok().filter(|key| key.contains('{')) {
            Some(key) => section.put("key", key),
            None => self.notes.dropped(split, "its key cannot be carried: the client's address is"),
        }
        let item = |node| Item { comments: Vec::new(), node };
        section.put("to", Node::List(shares.into_iter().map(item).collect()));
        for entry in draft.body.entries.iter_mut().filter(|entry| entry.key == "pool") {
            *entry = Entry { comments: Vec::new(), key: "split".to_owned(), node: section.clone().into() };
        }
        draft
    }

    fn pooled(
        &mut self,
        of: &Location<'a>,
        directive: &'a Directive,
        (module, name): (&str, &str),
        found: &Target,
        rewrite: Option<Rewrite>,
    ) -> Draft {
        let proxy_host = if name.starts_with("unix:") { "localhost" } else { name };
        let mut known = self.known.clone();
        known.set_text("proxy_host", proxy_host);
        let has_proxies = !self.world.trust.is_nobody();
        let setting = Setting { scope: &of.scope, known: &known, has_proxies, proxy_host };
        let told = headers::told(&setting, module, self.notes);
        let answered = headers::answered(&setting, self.notes);
        let times = Times::of(&of.scope, module);
        let protocol = match (module, found.tls) {
            ("grpc", true) => Some("h2"),
            ("grpc", false) => Some("h2c"),
            _ => None,
        };
        let tls = found.tls.then(|| secured::origin(&of.scope, module, (proxy_host, &told.host), &known, self.notes));
        let (host, known) = (told.host.clone(), self.world.keyed(&known));
        let wanted = Wanted { target: name, protocol, host, tls, times, known: &known, by: directive };
        let made = self.world.pools.get(&wanted);
        let mut body = Section::tall().with("pool", made.name.clone());
        let rewrite = rewrite.or_else(|| self.replaced(found, directive)).unwrap_or_default();
        let rewrites_places = self.rewrites_places(&of.scope, rewrite != Rewrite::default(), &told.host);
        body.put("rewrite", rewritten(rewrite));
        if rewrites_places {
            body.put("redirects", "rewrite");
        }
        let edits = Section::default().with("request", told.edits.section()).with("response", answered.section());
        body.put("headers", edits);
        body.put("forwarded", told.forwarded);
        self.held_to(of, (module, name), (&times, &made.times), &mut body);
        Draft { conditions: Section::default(), body }
    }

    /// How long, how often and by whom.
    fn held_to(
        &mut self,
        of: &Location<'a>,
        (module, name): (&str, &str),
        times: (&Times, &Times),
        body: &mut Section,
    ) {
        let servers = self.world.pools.servers(name);
        if let Some(retry) = retry::retry(&of.scope, module, servers, times.0, self.notes) {
            body.put("retry", retry);
        }
        body.put("timeouts", times.0.of_route(times.1));
        // Who comes by `try_files` has been let in by the location before.
        let before = self.onward.is_some().then_some(&self.location.scope);
        let scopes: Vec<&Scope<'_>> = before.into_iter().chain([&of.scope]).collect();
        body.put("limits", access::limits(&scopes, &self.known, &mut self.world.zones, self.notes));
        body.put("access", access::access(&scopes, &self.world.trust, self.notes));
        if let Some(compression) = encoding::compression(&of.scope, self.notes) {
            body.put("compression", compression);
        }
        self.mirrored(&of.scope, body);
        self.unlogged(body);
    }

    /// The URI of `proxy_pass` in place of the location.
    fn replaced(&mut self, found: &Target, directive: &Directive) -> Option<Rewrite> {
        let result = match (&found.uri, self.location.shape) {
            (Uri::AsItCame, _) => return None,
            (Uri::Text(to), Shape::Exact | Shape::Prefix) => {
                target::replaced(&self.location.text, to, self.location.shape == Shape::Exact)
            }
            (Uri::Text(_), Shape::Regex | Shape::Named) => Err("the whole path is replaced by one".to_owned()),
            (Uri::Made(parts), shape) => {
                let own = if shape == Shape::Regex { target::prefix_of(&self.location.text) } else { None };
                match (own.zip(target::with_group(parts)), target::fixed(parts)) {
                    (Some((from, to)), _) => target::replaced(from, to, false),
                    _ => Err("its path is made of variables".to_owned()),
                }
            }
        };
        result
            .map_err(|why| self.notes.dropped(directive, format!("its path: {why}; the path goes on as it came")))
            .ok()
    }

    /// Does nginx's default `proxy_redirect` find anything to do?
    fn rewrites_places(&mut self, scope: &Scope<'_>, is_rewritten: bool, host: &Node) -> bool {
        match scope.one("proxy_redirect") {
            Some(directive) if directive.arg(0) == "off" => false,
            Some(directive) if directive.arg(0) != "default" => {
                self.notes.differs(directive, "places at the origin's own names become those the client asked");
                true
            }
            _ => is_rewritten || *host != Node::text("preserve"),
        }
    }

    fn mirrored(&mut self, scope: &Scope<'a>, body: &mut Section) {
        for (at, directive) in scope.all("mirror").into_iter().enumerate() {
            if directive.arg(0) == "off" {
                return;
            }
            let shadow = self.all.iter().find(|it| it.text == directive.arg(0) && it.shape != Shape::Regex);
            let pass = shadow.and_then(|it| it.scope.of_its_own("proxy_pass").next().zip(Some(it)));
            let found = pass.and_then(|(pass, it)| Some((pass, it, target::target(pass.arg(0), &self.known)?)));
            let Some((pass, shadow, Target { host: Host::Named(name), tls: false, .. })) = found.filter(|_| at == 0)
            else {
                self.notes.dropped(directive, "one copy is sent, to a pool that is known before");
                continue;
            };
            let setting = Setting { scope: &shadow.scope, known: &self.known, has_proxies: false, proxy_host: &name };
            let told = headers::told(&setting, "proxy", &mut Notes::default());
            let times = Times::of(&shadow.scope, "proxy");
            let known = self.known.clone();
            let wanted =
                Wanted { target: &name, protocol: None, host: told.host, tls: None, times, known: &known, by: pass };
            let pool = self.world.pools.get(&wanted).name.clone();
            body.put("mirror", Section::default().with("pool", pool));
            if scope.word("mirror_request_body") == Some("off") {
                self.notes.differs(directive, "copies have the body");
            }
        }
    }
}

fn rewritten(Rewrite { strip, add }: Rewrite) -> Section {
    let mut section = Section::default();
    for (key, text) in [("strip_prefix", strip), ("add_prefix", add)] {
        if !text.is_empty() {
            section.put(key, text);
        }
    }
    section
}
