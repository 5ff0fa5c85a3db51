//! What would this configuration of nginx be in ours? Directives in, YAML out, with a comment for each thing that is not
//! carried, or not quite, and why.
//!
//! Nothing is left out silently: what nobody reads is told where it stands. What asks for a password or a certificate and
//! cannot be carried keeps everybody out. What is written is held against our own check, given by the caller, and what that
//! refuses is taken out and told as well.

mod access;
mod beneath;
mod document;
mod encoding;
mod glob;
mod guards;
mod hash;
mod headers;
mod lexer;
mod looks;
mod nested;
mod networks;
mod notes;
mod passed;
mod paths;
mod place;
mod pools;
mod reader;
mod repair;
mod retry;
mod routes;
mod scope;
mod secured;
mod servers;
mod sites;
mod target;
mod times;
mod trusted;
mod units;
mod variables;
mod why;
mod world;

use std::net::SocketAddr;
use std::path::Path;

use document::{Item, Node, Section};
use notes::Notes;
use reader::Directive;
use repair::Taken;
use scope::Scope;
use servers::{Door, Server};
use why::Block;
use world::World;

pub use notes::{Fate, Note};
pub use reader::Error;
pub use repair::Flaw;

/// Times the check is asked at most.
const ROUNDS: usize = 12;

/// What was made of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The configuration, with its comments.
    pub yaml: String,
    /// Everything that is said in them.
    pub notes: Vec<Note>,
    /// What the check still says: of files that are not here, mostly.
    pub flaws: Vec<Flaw>,
    /// What kept somebody out, and could not be kept: the configuration is not to be used before something does.
    pub open: Vec<String>,
}

/// Reads the file at `path` and those it includes; `check` says what is wrong with a configuration of ours.
///
/// # Errors
/// A file that cannot be read, or whose words make no directives.
pub fn import(path: &Path, check: &dyn Fn(&str) -> Vec<Flaw>) -> Result<Imported, Error> {
    let main = reader::read(path)?;
    let mut notes = Notes::of("the file");
    let inside: Vec<Directive> =
        main.iter().filter(|it| it.name == "http").flat_map(|it| it.inside().to_vec()).collect();
    // Without `http` the file is what one includes there.
    let is_part = main.iter().all(|it| it.name != "http");
    let http = if is_part { &main } else { &inside };
    if !is_part {
        why::tell(Block::Main, &main, &mut notes);
    }
    let mut world = World::new(http, path);
    let mut of_http = Notes::of("http");
    why::tell(Block::Http, http, &mut of_http);
    let mut document = document_of(&mut world, http, &mut of_http);
    if document.clone().find("process").is_none() {
        let what = "no `server` in it that listens to an address and a port".to_owned();
        return Err(Error { file: path.display().to_string(), line: 1, what });
    }
    let mut said = std::mem::take(&mut notes.said);
    said.append(&mut of_http.said);
    let mut head = vec![format!("From {}. What is different in any case: docs/import.md.", path.display())];
    let top = Notes { section: String::new(), said: said.clone() };
    head.extend(top.comments());
    head.append(&mut world.head);
    let mut all = said;
    for notes in &mut world.pools.notes {
        all.append(&mut notes.said);
    }
    checked(&mut document, head, all, check)
}

/// What is left once the check has been asked.
fn checked(
    document: &mut Section,
    mut head: Vec<String>,
    mut notes: Vec<Note>,
    check: &dyn Fn(&str) -> Vec<Flaw>,
) -> Result<Imported, Error> {
    let (mut flaws, mut open) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        flaws = check(&document.print(&head));
        let said = repair::repair(document, &flaws);
        with_a_pool(document);
        if said.is_empty() {
            break;
        }
        for Taken { place, path, said: why, is_open } in said {
            let before = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
            let line = format!("{before}{path}: {why}");
            if is_open {
                head.insert(0, format!("OPEN: {line}: put a route there before this file is used"));
                open.push(line);
            } else {
                head.push(format!("NOT CARRIED: {line}"));
            }
            let section = path.split(['.', '[']).next().unwrap_or_default().to_owned();
            let (fate, place) = (Fate::NotCarried, place.unwrap_or_default());
            notes.push(Note { fate, place, section, directive: path, why });
        }
    }
    notes.dedup();
    Ok(Imported { yaml: document.print(&head), notes, flaws, open })
}

fn document_of<'a>(world: &mut World<'a>, http: &'a [Directive], notes: &mut Notes) -> Section {
    let http_scope = Scope::top(http);
    let blocks = http.iter().filter(|it| it.name == "server");
    let mut servers: Vec<Server<'a>> = blocks.map(|block| Server::new(block, &http_scope)).collect();
    let doors = servers::doors(&servers);
    let scopes: Vec<Scope<'a>> = servers.iter().map(|server| server.scope.clone()).collect();
    let mut process = Section::tall();
    let certificates = certificates(&servers, world, notes);
    let has_some = certificates != Node::List(Vec::new());
    world.has_tls = has_some;
    let listeners = doors.iter().map(|(address, door)| listener(*address, door, (&mut servers, has_some), world));
    process.put("listeners", Node::List(listeners.collect()));
    process.put("resolver", world::resolver(&http_scope, &scopes, notes));
    world::log(&scopes, notes);
    let mut document = Section::tall().with("version", "1");
    document.put("process", process);
    document.put("certificates", certificates);
    let (trust, section) = trusted::trusted(&scopes, notes);
    world.trust = trust;
    document.entries.extend(section.entries);
    document.put("client_limits", world::client_limits(&http_scope, &scopes, notes));
    let mut routes = Vec::new();
    for index in 0..servers.len() {
        routes.extend(servers::routes(world, &mut servers, index, &doors));
    }
    unique(&mut routes);
    let mut pools = Section::tall();
    for made in &world.pools.made {
        let (comments, key, node) = (made.comments.clone(), made.name.clone(), made.section.clone().into());
        pools.entries.push(document::Entry { comments, key, node });
    }
    document.put("pools", pools);
    document.put("routes", Node::List(routes));
    with_a_pool(&mut document);
    world.pools.notes.extend(servers.into_iter().map(|server| server.notes));
    document
}

/// A file has at least one pool, even if no request goes there.
fn with_a_pool(document: &mut Section) {
    if document
        .find("pools")
        .is_none_or(|pools| *pools == Section::tall().into() || *pools == Section::default().into())
    {
        document.entries.retain(|entry| entry.key != "pools");
        let probe = Section::default().with("probe", Node::text("off"));
        let none = Section::tall().with("origins", Node::list(["127.0.0.1:9"])).with("health", probe);
        let pools = Section::tall().with("nobody", none).into();
        let at = document.entries.iter().position(|entry| entry.key == "routes").unwrap_or(document.entries.len());
        document.entries.insert(at, document::Entry { comments: Vec::new(), key: "pools".to_owned(), node: pools });
    }
}

fn listener(
    address: SocketAddr,
    door: &Door,
    (servers, has_certificates): (&mut [Server<'_>], bool),
    world: &World<'_>,
) -> Item {
    let mut section = Section::default().with("address", address.to_string());
    if door.proxy_protocol {
        section.put("proxy_protocol", "required");
    }
    match servers.get_mut(door.default).filter(|_| door.tls) {
        Some(server) if has_certificates => {
            let scope = server.scope.clone();
            section.put_always("tls", secured::listener(&scope, &world.folder, door.http2, &mut server.notes));
        }
        Some(server) => {
            if let Some(directive) = server.scope.of_its_own("listen").next() {
                server.notes.dropped(directive, "no certificate is named: plain HTTP is spoken until one is");
            }
        }
        None if door.http2 => section.put("h2c", true),
        None => {}
    }
    Item { comments: Vec::new(), node: section.into() }
}

/// Those of every server, the default one's first.
fn certificates(servers: &[Server<'_>], world: &World<'_>, notes: &mut Notes) -> Node {
    let mut found: Vec<Section> = Vec::new();
    for server in servers {
        let keys = server.scope.all("ssl_certificate_key");
        for (cert, key) in server.scope.all("ssl_certificate").into_iter().zip(keys) {
            if cert.arg(0).contains('$') || cert.arg(0).starts_with("data:") {
                notes.dropped(cert, "a certificate is a file that is known before");
                continue;
            }
            let file = |directive| secured::file_of(directive, &world.folder);
            let section = Section::default().with("cert", file(cert)).with("key", file(key));
            if !found.contains(&section) {
                found.push(section);
            }
        }
    }
    Node::list(found)
}

/// No two routes have one name.
fn unique(routes: &mut [Item]) {
    let mut seen = std::collections::HashSet::new();
    for item in routes {
        let Node::Section(route) = &mut item.node else { continue };
        let Some(Node::Text(name)) = route.find("name") else { continue };
        let base = name.clone();
        let mut number = 2;
        while !seen.insert(name.clone()) {
            *name = format!("{base}@{number}");
            number += 1;
        }
    }
}

#[cfg(test)]
mod tests;
