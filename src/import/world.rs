//! What holds for the whole of `http`: what is named there, and what becomes `process`, `client_limits` and the like.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::access::{self, Zones};
use super::document::{Node, Section};
use super::notes::{Notes, Told};
use super::pools::Pools;
use super::reader::Directive;
use super::scope::Scope;
use super::trusted::Trust;
use super::units;
use super::variables::Known;

/// Everything that a location may name.
pub(super) struct World<'a> {
    pub(super) http: Scope<'a>,
    pub(super) folder: PathBuf,
    pub(super) pools: Pools<'a>,
    pub(super) splits: HashMap<String, &'a Directive>,
    pub(super) zones: Zones<'a>,
    /// Whose word on the client's address is taken?
    pub(super) trust: Trust,
    /// Is there a certificate, so that listeners speak TLS?
    pub(super) has_tls: bool,
    /// Of the server that is being read, where all its listeners speak the same.
    pub(super) scheme: Option<&'static str>,
    pub(super) told: Told,
    /// Comments that have no other place.
    pub(super) head: Vec<String>,
}

impl<'a> World<'a> {
    pub(super) fn new(http: &'a [Directive], path: &Path) -> Self {
        let named = |name: &'static str| http.iter().filter(move |directive| directive.name == name);
        let made = |name: &'static str| {
            named(name)
                .map(|it| (it.arg(1).trim_start_matches('$').to_ascii_lowercase(), it))
                .collect::<HashMap<_, _>>()
        };
        let zones = |name: &'static str| named(name).map(|it| (access::zone_of(it), it)).collect::<HashMap<_, _>>();
        Self {
            http: Scope::top(http),
            folder: path.parent().map_or_else(PathBuf::new, Path::to_path_buf),
            pools: Pools { upstreams: named("upstream").collect(), maps: made("map"), ..Pools::default() },
            splits: made("split_clients"),
            zones: Zones { rate: zones("limit_req_zone"), concurrency: zones("limit_conn_zone"), ..Zones::default() },
            trust: Trust::default(),
            has_tls: false,
            scheme: None,
            told: Told::default(),
            head: Vec::new(),
        }
    }

    /// With what a key can only know if it is the same for all.
    pub(super) fn keyed(&self, known: &Known) -> Known {
        let mut known = known.clone();
        if let Some(scheme) = self.scheme {
            known.set_text("scheme", scheme);
        }
        known
    }
}

/// What `http` says, or every server that says anything.
fn said_by_all<'a>(http: &Scope<'a>, servers: &[Scope<'a>], name: &str) -> Option<&'a Directive> {
    let mut own = servers.iter().flat_map(|scope| scope.of_its_own(name));
    http.one(name).or_else(|| {
        let first = own.next()?;
        own.all(|other| other.args == first.args).then_some(first)
    })
}

/// `client_limits`: of `http`; what servers say otherwise is told.
pub(super) fn client_limits<'a>(http: &Scope<'a>, servers: &[Scope<'a>], notes: &mut Notes) -> Section {
    let mut section = Section::default();
    let times = [
        ("client_header_timeout", "header_timeout"),
        ("keepalive_timeout", "keepalive"),
        ("client_body_timeout", "body_timeout"),
        ("send_timeout", "send_timeout"),
    ];
    for (name, key) in times {
        let Some(directive) = said_by_all(http, servers, name) else { continue };
        match units::millis(directive.arg(0)) {
            Some(0) => notes.dropped(directive, "a connection is always kept for a while"),
            Some(time) => section.put(key, units::time(time)),
            None => notes.dropped(directive, "no time"),
        }
    }
    if let Some(directive) = said_by_all(http, servers, "keepalive_requests") {
        section.put("keepalive_requests", directive.arg(0).to_owned());
    }
    if let Some(directive) = said_by_all(http, servers, "large_client_header_buffers") {
        match (directive.arg(0).parse::<u64>(), units::bytes(directive.arg(1))) {
            (Ok(count), Some(size)) => {
                section.put("header_bytes", units::size(count.saturating_mul(size).min(1 << 20)));
                section.put("uri_bytes", units::size(size.min(1 << 16)));
            }
            _ => notes.dropped(directive, "no number and size"),
        }
    }
    let names = times.iter().map(|(name, _)| *name).chain(["keepalive_requests", "large_client_header_buffers"]);
    for name in names {
        let taken = said_by_all(http, servers, name).map(|directive| &directive.args);
        let own = servers.iter().flat_map(|scope| scope.of_its_own(name));
        for directive in own.filter(|directive| Some(&directive.args) != taken) {
            notes.dropped(directive, "it is said once for all clients, in \"client_limits\"");
        }
    }
    section
}

/// `process.resolver`.
pub(super) fn resolver(http: &Scope<'_>, servers: &[Scope<'_>], notes: &mut Notes) -> Node {
    let mut found: Vec<String> = Vec::new();
    for directive in servers.iter().chain([http]).flat_map(|scope| scope.all("resolver")) {
        for arg in &directive.args {
            let is_option = arg.contains('=');
            let address = arg.trim_start_matches('[').split(']').next().unwrap_or(arg);
            let ip = address.split(':').next().unwrap_or(address);
            let is_ip = ip.parse::<std::net::Ipv4Addr>().is_ok() || address.parse::<std::net::Ipv6Addr>().is_ok();
            match (is_option, is_ip) {
                (true, _) if arg.starts_with("valid=") => {
                    notes.differs(directive, "names are asked for again by the TTL of their answers");
                }
                (true, _) => {}
                (false, true) if found.contains(arg) => {}
                (false, true) => found.push(arg.clone()),
                (false, false) => notes.dropped(directive, format!("{arg}: a DNS server is an address")),
            }
        }
    }
    Node::list(found)
}

/// What is said of the log.
pub(super) fn log(scopes: &[Scope<'_>], notes: &mut Notes) {
    for directive in scopes.iter().flat_map(|scope| scope.all("access_log")) {
        if directive.arg(0) != "off" {
            notes.dropped(directive, "the log goes to standard output; \"process.access_log\" says otherwise");
        }
    }
}
