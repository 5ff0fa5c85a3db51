//! Which requests does a server take, and which of them does each of its locations?

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::access;
use super::document::{Item, Node, Section};
use super::notes::Notes;
use super::reader::Directive;
use super::scope::Scope;
use super::secured;
use super::sites::{Site, of_site};
use super::units;
use super::why::{self, Block};
use super::world::World;

/// A `server` block.
pub(super) struct Server<'a> {
    pub(super) directive: &'a Directive,
    pub(super) scope: Scope<'a>,
    /// Names that a `match` can ask for.
    pub(super) names: Vec<String>,
    pub(super) listens: Vec<Listen>,
    pub(super) notes: Notes,
}

#[derive(Debug, Clone)]
pub(super) struct Listen {
    pub(super) address: SocketAddr,
    is_default: bool,
    tls: bool,
    http2: bool,
    proxy_protocol: bool,
}

/// The address that is bound, and how.
#[derive(Debug, Clone, Default)]
pub(super) struct Door {
    pub(super) tls: bool,
    pub(super) http2: bool,
    pub(super) proxy_protocol: bool,
    /// The server of those that ask for no name, or for one that nobody has.
    pub(super) default: usize,
    has_default: bool,
    /// Servers on it that have names with a `*`.
    wild: BTreeSet<usize>,
}

impl<'a> Server<'a> {
    pub(super) fn new(directive: &'a Directive, http: &Scope<'a>) -> Self {
        let scope = http.inside(directive.inside());
        let mut notes = Notes::of("server");
        why::tell(Block::Server, directive.inside(), &mut notes);
        let mut names = Vec::new();
        for directive in scope.of_its_own("server_name") {
            for name in &directive.args {
                match named(name) {
                    Some(found) => names.extend(found),
                    None => notes.dropped(directive, format!("{name}: a host is a name, or *. and a domain")),
                }
            }
        }
        if let Some(first) = names.first() {
            notes.section = format!("server {first}");
        }
        let listens = scope.of_its_own("listen").filter_map(|listen| listened(listen, &mut notes)).collect();
        let mut server = Self { directive, scope, names, listens, notes };
        if server.scope.of_its_own("listen").next().is_none() {
            server.listens = vec![Listen {
                address: SocketAddr::from(([0, 0, 0, 0], 80)),
                is_default: false,
                tls: false,
                http2: false,
                proxy_protocol: false,
            }];
        }
        let (http2, tls) = (server.scope.is_on("http2"), server.scope.is_on("ssl"));
        for listen in &mut server.listens {
            listen.http2 |= http2;
            listen.tls |= tls;
        }
        server
    }

    /// As it is called in names of routes.
    fn label(&self) -> String {
        match (self.names.first(), self.listens.first()) {
            (Some(name), _) => name.trim_start_matches("*.").to_owned(),
            (None, Some(listen)) => format!("port-{}", listen.address.port()),
            (None, None) => "server".to_owned(),
        }
    }
}

/// The hosts a name stands for; `None`: no `match` asks for them.
fn named(name: &str) -> Option<Vec<String>> {
    let is_host = |text: &str| {
        let bytes = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        !text.is_empty() && bytes && !text.starts_with('.')
    };
    match name {
        "_" | "" | "localhost.localdomain" | "__" | "--" | "!@#" => Some(Vec::new()),
        _ if name.starts_with('~') || name.ends_with(".*") => None,
        _ => {
            if let Some(domain) = name.strip_prefix("*.").filter(|domain| is_host(domain)) {
                return Some(vec![format!("*.{}", domain.to_ascii_lowercase())]);
            }
            if let Some(domain) = name.strip_prefix('.').filter(|domain| is_host(domain)) {
                let domain = domain.to_ascii_lowercase();
                return Some(vec![domain.clone(), format!("*.{domain}")]);
            }
            is_host(name).then(|| vec![name.to_ascii_lowercase()])
        }
    }
}

fn listened(directive: &Directive, notes: &mut Notes) -> Option<Listen> {
    let Some(address) = units::bound(directive.arg(0)) else {
        notes.dropped(directive, "an address and a port are bound here");
        return None;
    };
    let mut listen = Listen { address, is_default: false, tls: false, http2: false, proxy_protocol: false };
    for arg in directive.args.iter().skip(1) {
        match arg.as_str() {
            "default_server" | "default" => listen.is_default = true,
            "ssl" => listen.tls = true,
            "http2" => listen.http2 = true,
            "proxy_protocol" => listen.proxy_protocol = true,
            "quic" | "http3" => {
                notes.dropped(directive, "no HTTP/3 is spoken here");
                return None;
            }
            "ipv6only=off" => notes.differs(directive, "an IPv4 address is a listener of its own"),
            _ => {}
        }
    }
    Some(listen)
}

/// What is bound for all servers.
pub(super) fn doors(servers: &[Server<'_>]) -> BTreeMap<SocketAddr, Door> {
    let mut doors: BTreeMap<SocketAddr, Door> = BTreeMap::new();
    for (index, server) in servers.iter().enumerate() {
        for listen in &server.listens {
            let door = doors.entry(listen.address).or_insert_with(|| Door { default: index, ..Door::default() });
            door.tls |= listen.tls;
            door.http2 |= listen.http2;
            door.proxy_protocol |= listen.proxy_protocol;
            if server.names.iter().any(|name| name.starts_with("*.")) {
                door.wild.insert(index);
            }
            if listen.is_default && !door.has_default {
                (door.default, door.has_default) = (index, true);
            }
        }
    }
    doors
}

/// Does a server ask for certificates that its listeners do not ask for?
fn is_unverified(world: &World<'_>, servers: &[Server<'_>], index: usize, doors: &BTreeMap<SocketAddr, Door>) -> bool {
    let Some(server) = servers.get(index) else { return false };
    let own = secured::verifies(&server.scope);
    // Those of the same authorities, and over TLS.
    let by_default = |listen: &Listen| {
        let Some(door) = doors.get(&listen.address) else { return false };
        let asked = servers.get(door.default).and_then(|server| secured::verifies(&server.scope));
        asked.is_some() && asked == own && (world.has_tls || !door.tls)
    };
    server.scope.is_on("ssl_verify_client") && !server.listens.iter().all(by_default)
}

/// The routes of one server.
pub(super) fn routes<'a>(
    world: &mut World<'a>,
    servers: &mut [Server<'a>],
    index: usize,
    doors: &BTreeMap<SocketAddr, Door>,
) -> Vec<Item> {
    let unverified = is_unverified(world, servers, index, doors);
    let Some(server) = servers.get_mut(index) else { return Vec::new() };
    let (mut open, mut named) = (Vec::new(), Vec::new());
    for listen in &server.listens {
        let Some(door) = doors.get(&listen.address) else { continue };
        if door.default == index {
            open.push(listen.address);
        }
        if (door.default != index || door.wild.iter().any(|other| *other != index)) && !server.names.is_empty() {
            named.push(listen.address);
        }
    }
    if open.is_empty() && named.is_empty() {
        let server_block = server.directive;
        server.notes.dropped(server_block, "no request is for it, as far as a `match` can ask");
    }
    let mut items = Vec::new();
    let label = server.label();
    for (hosts, addresses) in [(true, &named), (false, &open)] {
        if addresses.is_empty() {
            continue;
        }
        let mut base = Section::default();
        if addresses.len() < doors.len() {
            base.put("listeners", Node::list(addresses.iter().map(ToString::to_string)));
        }
        let names = if hosts { server.names.clone() } else { Vec::new() };
        let speaks = |tls: bool| addresses.iter().all(|address| doors.get(address).is_some_and(|door| door.tls == tls));
        world.scheme =
            [(true, "https"), (false, "http")].into_iter().find(|(tls, _)| speaks(*tls)).map(|(_, name)| name);
        let label = if hosts || items.is_empty() { label.clone() } else { format!("{label}:any") };
        let covered =
            if !hosts && addresses.iter().all(|it| named.contains(it)) { server.names.clone() } else { Vec::new() };
        let site = Site { base, names, label, covered, shut_from: None, is_over: false };
        items.extend(of_site(world, server, site));
    }
    if unverified && let Some(directive) = server.scope.one("ssl_verify_client") {
        server.notes.dropped(
            directive,
            "certificates are asked for by a listener, as its default server says, over TLS: nobody may ask here",
        );
        shut(&mut items);
    }
    headed(world, server, &mut items);
    items
}

/// Nobody may ask.
pub(super) fn shut(items: &mut [Item]) {
    for item in items {
        if let Node::Section(route) = &mut item.node {
            access::shut_up(route);
        }
    }
}

/// What is said of the server stands above its first route.
fn headed(world: &mut World<'_>, server: &Server<'_>, items: &mut [Item]) {
    let Some(first) = items.first_mut() else {
        world.head.extend(server.notes.comments());
        return;
    };
    let head = format!("{}: server {}", server.directive.place, server.names.join(" "));
    let mut comments = vec![head.trim_end().to_owned()];
    comments.extend(server.notes.comments());
    comments.append(&mut first.comments);
    first.comments = comments;
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHUT, yaml};

    const CERTIFICATE: &str = "ssl_certificate c.pem; ssl_certificate_key k.pem;";
    const VERIFY: &str = "ssl_verify_client on; ssl_client_certificate";
    const PASS: &str = "location / { proxy_pass http://a; }";

    #[test]
    fn who_shows_a_certificate_shows_one_of_the_authorities_asked_for() {
        let of = |own: &str| {
            yaml(&format!(
                "{CERTIFICATE} server {{ listen 443 ssl; {VERIFY} one.pem; {PASS} }} server {{ listen 443 ssl; server_name b.test; {VERIFY} {own}; {PASS} }}"
            ))
        };
        assert!(!of("one.pem").contains(SHUT));
        let text = of("two.pem");
        assert!(super::super::tests::route(&text, "b.test").contains(SHUT), "{text}");
    }

    #[test]
    fn without_tls_nobody_shows_one() {
        let text = yaml(&format!("server {{ listen 443 ssl; {VERIFY} one.pem; {PASS} }}"));
        assert!(text.contains(SHUT) && !text.contains("client_ca"), "{text}");
        let text = yaml(&format!("{CERTIFICATE} server {{ listen 443 ssl; ssl_verify_client on; {PASS} }}"));
        assert!(text.contains(SHUT), "{text}");
        let text = yaml(&format!("{CERTIFICATE} server {{ listen 443 ssl; {VERIFY} one.pem; {PASS} }}"));
        assert!(!text.contains(SHUT) && text.contains("client_ca"), "{text}");
    }
}
