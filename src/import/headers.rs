//! Which header lines do origins and clients get?

use super::document::{Node, Section};
use super::notes::Notes;
use super::reader::Directive;
use super::scope::Scope;
use super::units;
use super::variables::{Known, Part, Use, plain, template};

/// Lines that are set, added and taken out, on one of the two ways.
#[derive(Debug, Clone, Default)]
pub(super) struct Edits {
    set: Vec<(String, Vec<String>)>,
    add: Vec<(String, Vec<String>)>,
    remove: Vec<String>,
}

impl Edits {
    fn put(list: &mut Vec<(String, Vec<String>)>, name: &str, value: String) {
        match list.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, values)) => values.push(value),
            None => list.push((name.to_owned(), vec![value])),
        }
    }

    fn take_out(&mut self, name: &str) {
        if !self.remove.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            self.remove.push(name.to_owned());
        }
    }

    pub(super) fn section(&self) -> Section {
        let lines = |list: &[(String, Vec<String>)]| {
            let mut section = Section::default();
            for (name, values) in list {
                let node = match values.as_slice() {
                    [one] => Node::text(one.clone()),
                    all => Node::list(all.iter().cloned()),
                };
                section.put(name, node);
            }
            section
        };
        let remove = Node::list(self.remove.iter().cloned());
        Section::default().with("set", lines(&self.set)).with("add", lines(&self.add)).with("remove", remove)
    }
}

/// What origins are told.
#[derive(Debug, Clone)]
pub(super) struct Told {
    pub(super) edits: Edits,
    /// The `host` of the pool.
    pub(super) host: Node,
    /// The `forwarded` section of the route.
    pub(super) forwarded: Section,
}

/// What is said on each hop anew, by whoever speaks there.
const OF_THE_HOP: [&str; 9] = [
    "connection",
    "upgrade",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "keep-alive",
    "proxy-connection",
    "expect",
];

/// What we tell origins without being asked, unless it is switched off.
const OURS: [(&str, &[&str]); 3] =
    [("X-Real-IP", &["remote_addr"]), ("X-Forwarded-Proto", &["scheme"]), ("X-Forwarded-Host", &["host", "http_host"])];

/// What stands between a location and its headers.
pub(super) struct Setting<'s> {
    pub(super) scope: &'s Scope<'s>,
    pub(super) known: &'s Known,
    /// Is somebody's word on the client's address trusted?
    pub(super) has_proxies: bool,
    /// `$proxy_host`
    pub(super) proxy_host: &'s str,
}

/// By the `proxy_set_header` (or `grpc_set_header`) lines in force.
pub(super) fn told(setting: &Setting<'_>, module: &str, notes: &mut Notes) -> Told {
    let mut edits = Edits::default();
    let mut host = literal_host(setting.proxy_host);
    let mut appends = false;
    let mut left_to_us: Vec<&str> = Vec::new();
    let mut id = "off";
    for directive in setting.scope.all(&format!("{module}_set_header")) {
        let (name, parts) = (directive.arg(0), setting.known.parts(directive.arg(1)));
        let lower = name.to_ascii_lowercase();
        let variable = if let [Part::Variable(variable)] = parts.as_slice() { variable.as_str() } else { "" };
        let ours = OURS.iter().find(|(own, variables)| own.eq_ignore_ascii_case(name) && variables.contains(&variable));
        match lower.as_str() {
            "host" => host = host_of(directive, &parts, setting, notes),
            _ if OF_THE_HOP.contains(&lower.as_str()) => {}
            "x-forwarded-for" if variable == "proxy_add_x_forwarded_for" => {
                appends = true;
                if setting.has_proxies {
                    notes.differs(directive, "whoever connected is added here, where nginx adds the client behind it");
                }
            }
            "x-request-id" if variable == "request_id" => id = "make",
            _ if parts.is_empty() => edits.take_out(name),
            _ if ours.is_some() && !setting.has_proxies => left_to_us.extend(ours.map(|(own, _)| *own)),
            _ => match template(&parts, Use::Request) {
                Ok(value) => Edits::put(&mut edits.set, name, value),
                Err(why) => notes.dropped(directive, why),
            },
        }
    }
    let forwarded = forwarded(appends, id, &left_to_us, &mut edits);
    Told { edits, host, forwarded }
}

/// With `append` we tell more than was asked for: the rest goes on as it came.
fn forwarded(appends: bool, id: &str, left_to_us: &[&str], edits: &mut Edits) -> Section {
    let section = Section::default();
    if !appends {
        // Without X-Forwarded-For from us, what else was left to us is said by hand.
        for name in left_to_us {
            let value = match *name {
                "X-Real-IP" => "{client_ip}",
                "X-Forwarded-Proto" => "{scheme}",
                _ => "{header:host}",
            };
            Edits::put(&mut edits.set, name, value.to_owned());
        }
        return section.with("x_forwarded", "off").with("request_id", id);
    }
    for (name, _) in OURS {
        let is_said = |list: &[(String, Vec<String>)]| list.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let is_out = edits.remove.iter().any(|known| known.eq_ignore_ascii_case(name));
        if !left_to_us.contains(&name) && !is_said(&edits.set) && !is_out {
            Edits::put(&mut edits.set, name, format!("{{header:{}}}", name.to_ascii_lowercase()));
        }
    }
    section.with("request_id", id)
}

fn literal_host(host: &str) -> Node {
    let is_authority = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:[]".contains(&byte);
    let fits = !host.is_empty() && host.len() <= 255 && host.bytes().all(is_authority);
    if fits { Node::text(host) } else { Node::text("localhost") }
}

fn host_of(directive: &Directive, parts: &[Part], setting: &Setting<'_>, notes: &mut Notes) -> Node {
    if let Some(text) = plain(parts).filter(|text| !text.is_empty()) {
        return literal_host(text);
    }
    let names: Vec<&str> = parts.iter().map(|part| if let Part::Variable(name) = part { name } else { ":" }).collect();
    match names.as_slice() {
        ["http_host"] | ["host", ":", "server_port"] | ["http_host", ":", "server_port"] => Node::text("preserve"),
        ["host"] => {
            notes.differs(directive, "the Host goes on as it came, with its port and in its letters");
            Node::text("preserve")
        }
        ["proxy_host"] | ["proxy_host", ":", "proxy_port"] => literal_host(setting.proxy_host),
        _ => {
            notes.dropped(directive, "a Host is the client's, the origin's, or a text");
            Node::text("preserve")
        }
    }
}

/// What clients are told, by the lines in force.
pub(super) fn answered(setting: &Setting<'_>, notes: &mut Notes) -> Edits {
    let mut edits = Edits::default();
    for name in ["proxy_hide_header", "grpc_hide_header"] {
        setting.scope.all(name).iter().for_each(|directive| edits.take_out(directive.arg(0)));
    }
    for directive in setting.scope.all("add_header") {
        let parts = setting.known.parts(directive.arg(1));
        if parts.is_empty() {
            continue;
        }
        match template(&parts, Use::Answer) {
            Ok(value) => {
                Edits::put(&mut edits.add, directive.arg(0), value);
                if directive.arg(2) == "always" {
                    notes.differs(directive, "refusals of the gateway's own do not have it");
                } else {
                    notes.differs(directive, "answers of every status have it, not good ones alone");
                }
            }
            Err(why) => notes.dropped(directive, why),
        }
    }
    if let Some(directive) = setting.scope.one("expires") {
        expires(directive, &mut edits, notes);
    }
    edits
}

fn expires(directive: &Directive, edits: &mut Edits, notes: &mut Notes) {
    let value = match directive.arg(0) {
        "off" => return,
        "epoch" => Some("no-cache".to_owned()),
        "max" => Some("max-age=315360000".to_owned()),
        time if time.starts_with('-') => Some("no-cache".to_owned()),
        time => units::millis(time).map(|millis| format!("max-age={}", millis / 1_000)),
    };
    match value {
        Some(value) => {
            Edits::put(&mut edits.set, "Cache-Control", value);
            notes.differs(directive, "Cache-Control says it; there is no Expires");
        }
        None => notes.dropped(directive, "not a fixed time"),
    }
}

/// `default_type` is the type of what is answered here.
pub(super) fn typed(edits: &mut Edits, scope: &Scope<'_>) {
    if let Some(media) = scope.word("default_type").filter(|media| !media.starts_with("text/plain")) {
        Edits::put(&mut edits.set, "Content-Type", media.to_owned());
    }
}
