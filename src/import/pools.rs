//! What is an upstream here? A pool; one for each way in which locations speak to it.
//!
//! Host, TLS and time-outs belong to a location in nginx and to a pool here, so that two locations that differ in them have
//! two pools of the same origins.

use super::document::{Node, Section};
use super::hash;
use super::notes::Notes;
use super::reader::Directive;
use super::times::Times;
use super::units;
use super::variables::Known;
use super::why::{self, Block};

/// A pool that was made.
#[derive(Debug, Clone)]
pub(super) struct Made {
    signature: String,
    pub(super) name: String,
    pub(super) section: Section,
    pub(super) comments: Vec<String>,
    pub(super) times: Times,
}

/// What a location wants of the servers it passes requests to.
pub(super) struct Wanted<'w> {
    /// The name of an upstream, or where a server is.
    pub(super) target: &'w str,
    pub(super) protocol: Option<&'w str>,
    pub(super) host: Node,
    pub(super) tls: Option<Section>,
    pub(super) times: Times,
    pub(super) known: &'w Known,
    /// The directive that wants them.
    pub(super) by: &'w Directive,
}

/// All pools, in the order in which they were wanted.
#[derive(Default)]
pub(super) struct Pools<'a> {
    pub(super) upstreams: Vec<&'a Directive>,
    pub(super) maps: hash::Maps<'a>,
    pub(super) made: Vec<Made>,
    /// Said of upstreams.
    pub(super) notes: Vec<Notes>,
}

impl<'a> Pools<'a> {
    pub(super) fn upstream(&self, name: &str) -> Option<&'a Directive> {
        self.upstreams.iter().copied().find(|it| it.arg(0) == name)
    }

    /// Servers that may be asked; one where there is no such upstream.
    pub(super) fn servers(&self, name: &str) -> usize {
        self.upstream(name).map_or(1, |it| it.inside().iter().filter(|it| it.name == "server").count())
    }

    /// The pool that is as wanted.
    pub(super) fn get(&mut self, wanted: &Wanted<'_>) -> Made {
        let mut notes = Notes::of(format!("upstream {}", wanted.target));
        let upstream = self.upstream(wanted.target);
        let mut section = Section::tall();
        match upstream {
            Some(upstream) => self.of_upstream(upstream, wanted, &mut section, &mut notes),
            None => {
                section.put("balance", Section::default().with("algorithm", "round_robin"));
                section.put("origins", Node::list([address(wanted.target)]));
            }
        }
        section.put("protocol", wanted.protocol.unwrap_or_default().to_owned());
        section.entries.retain(|entry| !matches!(&entry.node, Node::Text(text) if text.is_empty()));
        if let Some(tls) = &wanted.tls {
            section.put_always("tls", tls.clone());
        }
        if wanted.host != Node::text("preserve") {
            section.put("host", wanted.host.clone());
        }
        let signature = format!("{}\n{}\n{}", wanted.target, wanted.times.before_reading(), section.print(&[]));
        if let Some(made) = self.made.iter().find(|made| made.signature == signature) {
            return made.clone();
        }
        section.put("timeouts", wanted.times.of_pool(wanted.by, &mut notes));
        let base = name_of(wanted.target);
        let others =
            self.made.iter().filter(|made| made.name == base || made.name.starts_with(&format!("{base}-as-"))).count();
        let name = if others == 0 { base.clone() } else { format!("{base}-as-{}", others + 1) };
        let mut comments = Vec::new();
        if let Some(upstream) = upstream {
            comments.push(format!("{}: upstream {}", upstream.place, upstream.arg(0)));
        } else {
            comments.push(format!("{}: {}", wanted.by.place, wanted.by.said()));
        }
        if others > 0 {
            comments.push(format!("the origins of \"{base}\" as other locations ask them"));
        }
        comments.extend(notes.comments());
        self.notes.push(notes);
        let made = Made { signature, name, section, comments, times: wanted.times };
        self.made.push(made.clone());
        made
    }

    fn of_upstream(&self, upstream: &Directive, wanted: &Wanted<'_>, section: &mut Section, notes: &mut Notes) {
        why::tell(Block::Upstream, upstream.inside(), notes);
        let balance = hash::balance(upstream, wanted.known, &self.maps, notes);
        let has_key = balance.iter().any(|balance| balance.entries.iter().any(|entry| entry.key == "key"));
        section.put("balance", balance.unwrap_or_default());
        let mut evidence = None;
        let servers = upstream.inside().iter().filter(|it| it.name == "server");
        let origins: Vec<Node> = servers.map(|server| origin(server, &mut evidence, notes)).collect();
        section.put("origins", Node::list(origins));
        section.put("connections", connections(upstream, notes));
        match evidence {
            Some((server, _)) if has_key => notes.dropped(
                server,
                "max_fails: with a key, an origin is out by probes alone, or its keys would wander (docs/health.md)",
            ),
            Some((_, evidence)) => {
                section.put("health", Section::default().with("outlier_detection", evidence));
            }
            None => {}
        }
    }
}

/// As a name of a pool.
fn name_of(target: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' };
    let name: String = target.trim_start_matches("unix:").chars().map(plain).take(80).collect();
    let name = name.trim_matches('-').to_owned();
    if name.is_empty() { "origin".to_owned() } else { name }
}

/// nginx ends the path of a socket with a colon where something follows.
fn address(written: &str) -> Node {
    Node::text(
        written
            .strip_prefix("unix:")
            .map_or_else(|| written.to_owned(), |path| format!("unix:{}", path.trim_end_matches(':'))),
    )
}

fn origin<'d>(server: &'d Directive, evidence: &mut Option<(&'d Directive, Section)>, notes: &mut Notes) -> Node {
    let mut section = Section::default().with("address", address(server.arg(0)));
    let (mut fails, mut cooldown) = (None, None);
    for arg in server.args.iter().skip(1) {
        match arg.split_once('=').unwrap_or((arg, "")) {
            ("weight", "1") | ("resolve", "") => {}
            ("weight", weight) => section.put("weight", weight.to_owned()),
            ("backup", _) => section.put("backup", true),
            ("down" | "drain", _) => section.put("state", "drain"),
            ("max_conns", "0") => {}
            ("max_conns", max) => {
                section.put("max_in_flight", max.to_owned());
                notes.differs(server, "max_conns: requests are counted, not connections");
            }
            ("max_fails", count) => fails = Some(count),
            ("fail_timeout", time) => cooldown = units::millis(time),
            _ => notes.dropped(server, format!("{arg}: there is no such thing here")),
        }
    }
    match fails {
        Some("0") | None => {}
        Some(count) => {
            let mut found = Section::default().with("failures", count.to_owned()).with("error_ratio", "off");
            if let Some(time) = cooldown.filter(|time| *time > 0) {
                found.put("cooldown", units::time(time));
                if time > 300_000 {
                    found.put("max_cooldown", units::time(time));
                }
            }
            evidence.get_or_insert((server, found));
        }
    }
    if section.entries.len() == 1 { address(server.arg(0)) } else { section.into() }
}

fn connections(upstream: &Directive, notes: &mut Notes) -> Section {
    let mut section = Section::default();
    for directive in upstream.inside() {
        match directive.name.as_str() {
            "keepalive" => match directive.arg(0).parse::<u32>() {
                Ok(count) if count > 320 => section.put("keepalive", count.to_string()),
                Ok(_) => notes.needless(directive),
                Err(_) => notes.dropped(directive, "no number"),
            },
            "keepalive_timeout" => match units::millis(directive.arg(0)) {
                Some(time) if time > 0 => section.put("keepalive_timeout", units::time(time)),
                _ => notes.dropped(directive, "no time"),
            },
            "keepalive_requests" => section.put("max_requests", directive.arg(0).to_owned()),
            "keepalive_time" => match units::millis(directive.arg(0)) {
                Some(time) if time > 0 => section.put("max_age", units::time(time)),
                _ => notes.dropped(directive, "no time"),
            },
            _ => {}
        }
    }
    section
}
