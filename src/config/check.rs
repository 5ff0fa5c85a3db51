//! What can be wrong with values that are each right by themselves?
//!
//! Nothing is said about a value that could not be read, nor about what follows from its absence.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;

use indexmap::IndexSet;

use super::Config;
use super::action;
use super::address::{Address, LONGEST_SOCKET};
use super::client::ProxyProtocol;
use super::edits;
use super::limits;
use super::place::{Places, meant};
use super::pool::{Algorithm, Args, Identity, Origin, Pool, State};
use super::process::Process;
use super::report::{Complaint, Invalid, Severity};
use super::rewrite;
use super::route::{Condition, Route};
use super::units::{Duration, Off};
use super::written::Written;

/// Points on the ring for each unit of weight, as nginx has them.
const POINTS_OF_A_WEIGHT: u64 = 160;

/// Weights of a pool above this take a ring of 64 MiB.
const HEAVY: u64 = 26_214;

/// Everything there is to say about `config` as a whole.
pub(super) fn check(config: &Config, places: &Places) -> Vec<(Severity, Complaint)> {
    let mut check = Check { places, said: Vec::new() };
    if !places.is_written("version") && !places.is_spoiled("version") {
        check.error("version", "missing", "expected \"version: 1\"");
    }
    check.process(config);
    if config.pools.is_empty() && !places.is_spoiled("pools") {
        check.error("pools", "no pool", "expected at least one");
    }
    for (name, pool) in &config.pools {
        check.pool(&format!("pools.{name}"), pool);
    }
    check.routes(config);
    check.said.extend(limits::check(config, places).into_iter().map(|complaint| (Severity::Error, complaint)));
    check.said.extend(super::tls::check(config, places));
    let of_no_use = super::idle::check(config).into_iter().chain(super::unused::check(config));
    check.said.extend(of_no_use.map(|complaint| (Severity::Warning, complaint)));
    check.said
}

/// Everything said so far, and where things stand.
pub(super) struct Check<'a> {
    pub(super) places: &'a Places,
    said: Vec<(Severity, Complaint)>,
}

impl Check<'_> {
    pub(super) fn error(&mut self, path: impl Into<String>, found: impl Into<String>, meant: impl Into<String>) {
        self.said.push((Severity::Error, Invalid::new(found, meant).at(path)));
    }

    pub(super) fn warn(&mut self, path: impl Into<String>, found: impl Into<String>, meant: impl Into<String>) {
        self.said.push((Severity::Warning, Invalid::new(found, meant).at(path)));
    }

    fn process(&mut self, config: &Config) {
        let listeners = &config.process.listeners;
        if listeners.is_empty() && !self.places.is_spoiled("process.listeners") {
            self.error("process.listeners", "no listener", "expected at least one");
        }
        let path = |i| format!("process.listeners[{i}].address");
        // Port 0 is a different port each time.
        let bound = listeners.iter().map(|l| l.address).enumerate().filter(|(_, address)| address.port() != 0);
        let mut taken: Vec<_> = bound.map(|(i, address)| (path(i), address.to_string())).collect();
        if let Off::On(admin) = &config.process.admin
            && admin.address.port() != 0
        {
            taken.push(("process.admin.address".to_owned(), admin.address.to_string()));
        }
        self.duplicates("address", taken);
        if let Some(Off::On(socket)) = &config.process.control_socket {
            self.socket("process.control_socket".to_owned(), socket);
        }
        self.proxies(config);
    }

    /// What cannot be bound or connected to is told before somebody tries.
    fn socket(&mut self, at: String, path: &Path) {
        let length = path.as_os_str().len();
        if length > LONGEST_SOCKET {
            let meant = format!("expected at most {LONGEST_SOCKET}, which is all that the system takes for a socket");
            self.error(at, format!("found a path of {length} bytes"), meant);
        }
    }

    /// A PROXY header is taken from trusted proxies only.
    fn proxies(&mut self, config: &Config) {
        if !config.trusted_proxies.is_empty() || self.places.is_spoiled("trusted_proxies") {
            return;
        }
        for (i, listener) in config.process.listeners.iter().enumerate() {
            if listener.proxy_protocol != ProxyProtocol::Off {
                let found =
                    format!("found \"{}\", but nobody is trusted to send a PROXY header", listener.proxy_protocol);
                let meant = "set \"trusted_proxies\" to the networks of the balancer";
                self.error(format!("process.listeners[{i}].proxy_protocol"), found, meant);
            }
        }
    }

    /// Complains of every `(path, name)` whose name came before.
    pub(super) fn duplicates(&mut self, what: &str, named: impl IntoIterator<Item = (String, String)>) {
        let mut seen: HashMap<String, String> = HashMap::new();
        for (path, name) in named {
            if let Some(first) = seen.get(&name) {
                let (line, _) = self.places.locate(first);
                let meant = format!("it stands in line {line} already");
                self.error(path, format!("the {what} \"{name}\" a second time"), meant);
            } else {
                seen.insert(name, path);
            }
        }
    }

    /// The path of what names the element at `path`: itself, unless it says otherwise.
    fn named(&self, path: String) -> String {
        self.keyed(path, "name")
    }

    /// The path of `key` in the element at `path`, or of the element where that is written in short.
    fn keyed(&self, path: String, key: &str) -> String {
        let keyed = format!("{path}.{key}");
        if self.places.is_written(&keyed) { keyed } else { path }
    }

    fn pool(&mut self, path: &str, pool: &Pool) {
        let origins = format!("{path}.origins");
        self.discovery(path, pool);
        let named = |(i, origin): (usize, &Origin)| (self.named(format!("{origins}[{i}]")), origin.name.clone());
        let names: Vec<_> = pool.origins.iter().enumerate().map(named).collect();
        self.duplicates("origin", names);
        for (i, origin) in pool.origins.iter().enumerate() {
            if let Address::Unix(socket) = &origin.address {
                self.socket(self.keyed(format!("{origins}[{i}]"), "address"), socket);
            }
        }
        if !pool.origins.is_empty() && pool.origins.iter().all(|origin| origin.state == State::Drain) {
            self.warn(&origins, "every origin is drained", "leave one that serves");
        }
        self.origin_tls(path, pool);
        self.pool_timeouts(&format!("{path}.timeouts"), pool);
        self.outliers(&format!("{path}.health.outlier_detection"), pool);
        let at_algorithm = format!("{path}.balance.algorithm");
        match pool.balance.algorithm {
            _ if self.places.is_spoiled(&at_algorithm) => {}
            Algorithm::Hash => self.by_hash(path, pool),
            _ => self.without_key(path, pool),
        }
        if pool.balance.algorithm != Algorithm::PeakEwma && !self.places.is_spoiled(&at_algorithm) {
            self.of_other_algorithm(format!("{path}.balance.decay"), "peak_ewma", pool);
        }
    }

    fn by_hash(&mut self, path: &str, pool: &Pool) {
        let weight: u64 = pool.origins.iter().map(|origin| u64::from(origin.weight)).sum();
        if weight > HEAVY {
            let points = weight * POINTS_OF_A_WEIGHT;
            let found = format!("weights of {weight} in all make a ring of {points} points, {} MiB", points >> 16);
            self.warn(format!("{path}.origins"), found, "divide all weights by the same number");
        }
        let keys = [Some(pool.balance.key.as_str()), pool.balance.on_missing.template()];
        if pool.args != Args::All && !keys.iter().flatten().any(|key| key.contains("{args}")) {
            self.warn(format!("{path}.args"), "these choose what {args} holds", "but the key has no {args}");
        }
        if let Off::On(probe) = &pool.health.probe
            && probe.http.is_none()
            && !self.places.is_spoiled(&format!("{path}.health.probe.http"))
        {
            let found = "a TCP probe sees an open port, not whether the origin can answer";
            self.warn(format!("{path}.health.probe"), found, "set \"http\"");
        }
        if pool.health.outlier_detection != Off::Off {
            let found = "an origin that is put out by failed requests gives all of its keys to others";
            let meant = "leave it off in a pool placed by a key: probes and \"overload\" do with less";
            self.warn(format!("{path}.health.outlier_detection"), found, meant);
        }
    }

    fn outliers(&mut self, path: &str, pool: &Pool) {
        let Off::On(written) = &pool.health.outlier_detection else { return };
        let [at_failures, at_ratio, at_cooldown, at_most] =
            ["failures", "error_ratio", "cooldown", "max_cooldown"].map(|key| format!("{path}.{key}"));
        if written.cooldown > written.max_cooldown && self.are_sound(&[&at_cooldown, &at_most]) {
            let most = written.max_cooldown.print();
            self.error(at_cooldown, found(written.cooldown), format!("expected at most max_cooldown ({most})"));
        }
        let finds_nobody = written.failures == Off::Off && written.error_ratio == Off::Off;
        if finds_nobody && self.are_sound(&[&at_failures, &at_ratio]) {
            self.error(path, "neither failures nor error_ratio", "expected one of them, or off");
        }
    }

    /// What places requests by a key has no meaning in a pool that does not.
    fn without_key(&mut self, path: &str, pool: &Pool) {
        for key in ["key", "on_missing"] {
            self.of_other_algorithm(format!("{path}.balance.{key}"), "hash", pool);
        }
        if pool.balance.bounded_load != Off::Off {
            self.of_other_algorithm(format!("{path}.balance.bounded_load"), "hash", pool);
        }
        if pool.args != Args::All {
            self.of_other_algorithm(format!("{path}.args"), "hash", pool);
        }
    }

    fn of_other_algorithm(&mut self, path: String, of: &str, pool: &Pool) {
        if self.places.is_written(&path) && !self.places.is_spoiled(&path) {
            let found = format!("this belongs to algorithm {of}");
            self.error(path, found, format!("here it is {}: one pool, one algorithm", pool.balance.algorithm));
        }
    }

    /// Origins are written or found.
    fn discovery(&mut self, path: &str, pool: &Pool) {
        let [origins, discovery] = ["origins", "discovery"].map(|key| format!("{path}.{key}"));
        let Off::On(found) = &pool.discovery else {
            match &*pool.origins {
                [] if self.are_sound(&[&origins, &discovery]) => {
                    self.error(&origins, "no origin", "expected at least one, or \"discovery\"");
                }
                [_, ..] if pool.origins.iter().all(|origin| origin.backup) && self.are_sound(&[&origins]) => {
                    self.error(&origins, "only backups", "expected at least one origin that is none");
                }
                _ => {}
            }
            return;
        };
        if !pool.origins.is_empty() {
            self.error(&discovery, "found beside \"origins\"", "expected one of them");
        }
        let at_port = format!("{discovery}.port");
        if found.port.is_none() && found.identity == Identity::Address && self.are_sound(&[&at_port, &discovery]) {
            self.error(&at_port, "missing", "expected the port of all origins, or \"identity: name\"");
        }
    }

    fn pool_timeouts(&mut self, path: &str, pool: &Pool) {
        let (connect, read) = (pool.timeouts.connect, pool.timeouts.read);
        let [at_connect, at_read, at_total] = ["connect", "read", "total"].map(|key| format!("{path}.{key}"));
        if connect >= read && self.are_sound(&[&at_connect, &at_read]) {
            if self.places.is_written(&at_connect) {
                self.error(&at_connect, found(connect), format!("expected less than read ({})", read.print()));
            } else {
                self.error(&at_read, found(read), format!("expected more than connect ({})", connect.print()));
            }
        }
        if let Off::On(total) = pool.timeouts.total
            && read >= total
            && self.are_sound(&[&at_read, &at_total])
        {
            self.error(&at_total, found(total), format!("expected more than read ({})", read.print()));
        }
    }

    pub(super) fn are_sound(&self, paths: &[&str]) -> bool {
        paths.iter().all(|path| !self.places.is_spoiled(path))
    }

    fn routes(&mut self, config: &Config) {
        let is_missing = config.routes.is_empty() && !self.places.is_spoiled("routes");
        if is_missing && self.places.keys("pools").len() > 1 {
            self.error("routes", "no route", "expected routes, since there is more than one pool");
        }
        let named = |(i, route): (usize, &Route)| (self.named(format!("routes[{i}]")), route.name.clone());
        let names: Vec<_> = config.routes.iter().enumerate().map(named).collect();
        self.duplicates("route", names);
        for (i, route) in config.routes.iter().enumerate() {
            let path = format!("routes[{i}]");
            self.said.extend(action::check(&path, route, self.places));
            self.said.extend(edits::check(&path, route));
            self.said.extend(rewrite::check(&path, route));
            self.route_listeners(&path, route, &config.process);
            self.retry(&path, route);
            self.split(&path, route);
            self.mirror(&path, route, config);
            let said = self.said.len();
            for (name, pool) in route.pools().filter_map(|name| Some((name, config.pools.get(name)?))) {
                // What is wrong beside one pool is told once.
                if self.said.len() == said {
                    self.route_timeouts(&path, route, (name, pool));
                }
            }
        }
    }

    /// Is there a pool of this name? Complains if not.
    pub(super) fn is_known_pool(&mut self, at: &str, pool: &str) -> bool {
        // The pools that are wrong by themselves are known all the same.
        let is_known = self.places.has_key("pools", pool);
        if !is_known {
            let meant = meant(pool, self.places.keys("pools"));
            self.error(at, format!("unknown pool \"{pool}\""), meant);
        }
        is_known
    }

    fn route_listeners(&mut self, path: &str, route: &Route, process: &Process) {
        let known: Vec<_> = process.listeners.iter().map(|listener| listener.address.to_string()).collect();
        if known.is_empty() || self.places.is_spoiled("process.listeners") {
            return;
        }
        for (i, listener) in route.matches.listeners.iter().map(SocketAddr::to_string).enumerate() {
            if !known.contains(&listener) {
                let found = format!("unknown listener \"{listener}\"");
                let meant = meant(&listener, known.iter().map(String::as_str));
                self.error(format!("{path}.match.listeners[{i}]"), found, meant);
            }
        }
    }

    /// Conditions that may run a request twice, where its method does not say that this is harmless (T2).
    fn retry(&mut self, path: &str, route: &Route) {
        let not_idempotent =
            route.retry.methods.iter().filter(|(method, _)| matches!(method.as_str(), "POST" | "PATCH"));
        let lists = not_idempotent.map(|(method, list)| (format!("{path}.retry.methods.{method}"), list));
        for (at_list, list) in lists.chain([(format!("{path}.retry.other"), &route.retry.other)]) {
            if list.contains(&Condition::NonIdempotent) {
                continue;
            }
            for condition in list.iter().filter(|condition| condition.may_have_been_processed()) {
                let found = format!("\"{condition}\" may run a request twice");
                let meant = "add \"non_idempotent\" to the list if that is meant";
                self.error(self.element(&at_list, *condition), found, meant);
            }
        }
    }

    /// The path of `condition` in the list at `path`.
    fn element(&self, path: &str, condition: Condition) -> String {
        let index = self.places.position(path, &condition.to_string());
        index.map_or_else(|| path.to_owned(), |i| format!("{path}[{i}]"))
    }

    fn route_timeouts(&mut self, path: &str, route: &Route, (name, pool): (&str, &Pool)) {
        let at_pool = |key: &str| format!("pools.{name}.timeouts.{key}");
        let at_route = |key: &str| format!("{path}.timeouts.{key}");
        let connect = pool.timeouts.connect;
        let read = route.timeouts.read.unwrap_or(pool.timeouts.read);
        if !self.are_sound(&[&at_pool("connect"), &at_pool("read"), &at_pool("total")]) {
            return;
        }
        if route.timeouts.read.is_some() && connect >= read {
            self.error(at_route("read"), found(read), format!("expected more than connect ({})", connect.print()));
        }
        match (route.timeouts.total, pool.timeouts.total) {
            (Some(Off::On(total)), _) if read >= total && self.are_sound(&[&at_route("read")]) => {
                self.error(at_route("total"), found(total), format!("expected more than read ({})", read.print()));
            }
            (None, Off::On(total)) if route.timeouts.read.is_some() && read >= total => {
                let meant = format!("expected less than total ({})", total.print());
                self.error(at_route("read"), found(read), meant);
            }
            _ => {}
        }
        if self.are_sound(&[&at_route("read"), &format!("{path}.retry.within")]) {
            self.timeout_condition(path, route, read);
        }
    }

    /// A time-out that comes after the last moment for a new try is never tried again (T4).
    fn timeout_condition(&mut self, path: &str, route: &Route, read: Duration) {
        let within = route.retry.within;
        let lists = [("safe".to_owned(), &route.retry.safe), ("other".to_owned(), &route.retry.other)];
        let methods = route.retry.methods.iter().map(|(method, list)| (format!("methods.{method}"), list));
        let has_timeout = |list: &IndexSet<Condition>| list.contains(&Condition::Timeout);
        for (key, _) in lists.into_iter().chain(methods).filter(|(_, list)| read >= within && has_timeout(list)) {
            let at = self.element(&format!("{path}.retry.{key}"), Condition::Timeout);
            let found = format!("\"timeout\" never fires: read is {}", read.print());
            self.warn(at, found, format!("but no try starts after {}", within.print()));
        }
    }
}

fn found(time: Duration) -> String {
    format!("found \"{}\"", time.print())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{said, with_pool};

    #[test]
    fn a_socket_has_a_path_that_can_be_bound() {
        let long = |length: usize| format!("/{}", "s".repeat(length - 1));
        let all = |length| {
            let path = long(length);
            let pool = format!(
                "health: {{ probe: off }}\n    origins: [ \"unix:{path}\", {{ address: \"unix:{path}\", name: b }} ]"
            );
            said(&with_pool(&pool).replace("process: {", &format!("process: {{ control_socket: {path},")))
        };
        assert_eq!(all(107), [""; 0]);
        let said = all(108);
        let why = "found a path of 108 bytes, expected at most 107, which is all that the system takes for a socket";
        for (line, at) in said.iter().zip([
            "2:28: process.control_socket",
            "6:16: pools.origin.origins[0]",
            "6:144: pools.origin.origins[1].address",
        ]) {
            assert_eq!(*line, format!("{at}: {why}"));
        }
        assert_eq!(said.len(), 3);
    }

    #[test]
    fn a_ring_that_takes_much_memory_is_warned_of() {
        let origins =
            |count: u32| (0..count).map(|n| format!("{{ address: o{n}, weight: 1000 }}, ")).collect::<String>();
        let warned =
            |count| said(&with_pool(&format!("health: {{ probe: off }}\n    origins: [ {} ]", origins(count))));
        assert_eq!(warned(26), [""; 0]);
        let found = "pools.origin.origins: weights of 27000 in all make a ring of 4320000 points, 65 MiB, divide all weights by ";
        assert!(warned(27)[0].contains(found), "{:?}", warned(27));
    }
}
