//! All a request may read, compiled once and never changed.
//!
//! [`Snapshot::compile`] turns a whole configuration into what the data plane needs, or says everything that is wrong
//! with it; nothing is applied in parts. What was learned of origins is taken over from the snapshot before by pool and
//! name. Requests pin the snapshot they began with and give it up when their answer's header is out ([`RouteTail`] and
//! [`PoolTail`] are what they keep), so that long streams do not keep old rings alive.

mod action;
pub mod blame;
mod carried;
mod changes;
mod files;
mod found;
pub mod guard;
mod idle;
mod limited;
mod limits;
mod mirror;
mod past;
mod route;
mod settle;
mod split;
mod store;
mod upstream;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use crate::config::{Complaint, Config, Loaded, process};
use crate::observe::access_log::Format;
use crate::observe::{Metrics, RouteMeters, SnapshotAlive};
use crate::pool::{Member, Parked, Pool, Trial};
use crate::routing::{self, Table};
use crate::tls::Tls;
use crate::traffic::{Buckets, Callers, Limits};

pub use action::{Action, Respond};
pub use carried::{Carried, Seated};
pub use changes::Changes;
pub use found::Found;
pub use limited::{Limit, RateLimit, RouteLimits};
pub use limits::ClientLimits;
pub use mirror::Mirror;
pub use route::{Route, RouteTail};
pub use settle::Settled;
pub use split::{Leg, Split};
pub use store::Store;
pub use upstream::{PoolTail, ShareChange, Upstream};

use files::both;
use idle::Idle;
use past::Past;
use settle::Before;

/// The compiled configuration.
pub struct Snapshot {
    config: Config,
    text: String,
    digest: String,
    version: u64,
    client_limits: Arc<ClientLimits>,
    request_limits: Limits,
    callers: Callers,
    tls: Tls,
    table: Table,
    routes: Vec<Route>,
    pools: Vec<Upstream>,
    /// Pools that were there until not long ago.
    gone: Vec<Parked>,
    unrouted: Arc<RouteMeters>,
    /// The counts of its rate limits.
    buckets: Buckets,
    /// While a pool is being replaced.
    before: Option<Before>,
    /// Counts this snapshot as long as anything holds it.
    _alive: SnapshotAlive,
}

impl Snapshot {
    /// Compiles `config`. `previous` is the snapshot in force: what was learned of its origins is taken over. Whose
    /// text it is says [`Snapshot::read_from`].
    ///
    /// # Errors
    /// Everything that is wrong with it, by path.
    pub fn compile(
        config: &Config,
        previous: Option<&Self>,
        metrics: &Metrics,
        now: Instant,
    ) -> Result<Self, Vec<Complaint>> {
        Self::assemble(config, previous.map_or(Past::Nothing, Past::Here), metrics, now)
    }

    /// It as it is now: files are not read again, so that a new one half of which is there is in nobody's way.
    fn brought_up(&self, config: &Config, metrics: &Metrics, now: Instant) -> Result<Self, Vec<Complaint>> {
        Self::assemble(config, Past::Current(self), metrics, now)
    }

    /// It with what clients are shown read again: a file of an origin that is wrong by now is in no renewal's way.
    ///
    /// # Errors
    /// Everything that is wrong with it, by path.
    pub fn renewed(&self, config: &Config, metrics: &Metrics, now: Instant) -> Result<Self, Vec<Complaint>> {
        Self::assemble(config, Past::Renewed(self), metrics, now)
    }

    fn assemble(config: &Config, past: Past<'_>, metrics: &Metrics, now: Instant) -> Result<Self, Vec<Complaint>> {
        let previous = past.snapshot();
        let parts = Parts::compile(config, past, metrics, now);
        let (tls, Parts { table, routes, pools, buckets }) = both(past.tls(config), parts)?;
        let replaced = pools.iter().map(|upstream| &upstream.pool).filter(|pool| pool.is_replaced());
        let replaced = replaced.map(|pool| &**pool.name()).collect();
        let before = previous.and_then(|previous| Before::of(previous, replaced));
        Ok(Self {
            config: config.clone(),
            text: String::new(),
            digest: String::new(),
            version: previous.map_or(1, |previous| previous.version + 1),
            client_limits: Arc::new(ClientLimits::compile(&config.client_limits)),
            request_limits: Limits::compile(&config.client_limits),
            callers: Callers::compile(&config.trusted_proxies, &config.client_address),
            tls,
            table,
            routes,
            pools,
            gone: past.gone_without(config, now),
            unrouted: metrics.unrouted(),
            buckets,
            before,
            _alive: metrics.snapshot(),
        })
    }

    /// It was compiled from `loaded`.
    #[must_use]
    pub fn read_from(self, loaded: &Loaded) -> Self {
        Self { text: loaded.text.clone(), digest: loaded.digest.clone(), ..self }
    }

    /// It is the configuration of this number, put in force by another process.
    #[must_use]
    pub fn numbered(self, version: u64) -> Self {
        Self { version, ..self }
    }

    /// It is served by a process with the settings of `old`, whatever its file says of them.
    #[must_use]
    pub fn under_the_process_of(mut self, old: &Self) -> Self {
        self.config.process = old.config.process.clone();
        self
    }

    /// Keys that move from `old` to it are counted apart from those that stay.
    #[must_use]
    pub fn on_trial(mut self, old: &Self) -> Self {
        for upstream in &mut self.pools {
            let before = old.named(upstream.pool.name()).map(|before| &before.pool);
            let before = before.filter(|before| before.fingerprint() != upstream.pool.fingerprint());
            // Nobody else holds the tail before it is published.
            if let (Some(before), Some(tail)) = (before, Arc::get_mut(&mut upstream.tail)) {
                tail.trial = Some(Arc::new(Trial::between(before, &upstream.pool)));
            }
        }
        self
    }

    /// Guards let it take the place of `old`, with this in place of what they say, if anything.
    #[must_use]
    pub fn guarded(mut self, old: &Self, allowed: Option<f64>) -> Self {
        for upstream in &mut self.pools {
            let changes = |before: &Upstream| before.pool.fingerprint() != upstream.pool.fingerprint();
            if old.named(upstream.pool.name()).is_some_and(changes) {
                upstream.may_move = allowed.unwrap_or(0.0);
            }
        }
        self
    }

    /// It is about to take the place of `old`: what of the keys in the samples goes elsewhere is told from now on.
    pub fn replaces(&self, old: &Self) {
        for upstream in &self.pools {
            let Some(before) = old.named(&upstream.tail.name) else { continue };
            if before.tail.fingerprint != upstream.tail.fingerprint {
                upstream.tail.sample.changes(before.pool.keys_as(&upstream.pool));
            }
        }
    }

    /// To be called right before it is published; somebody goes `back` to it, or on.
    pub fn take_over(&self, back: bool, now: Instant) {
        self.pools.iter().for_each(|upstream| upstream.pool.take_over(back, now));
    }

    /// To be called when `next` is in force: origins that are in it no more are retired, and parked as they are.
    pub fn give_way_to(&self, next: &Self, now: Instant) {
        for upstream in &self.pools {
            let stay = next.named(upstream.pool.name()).map(|upstream| upstream.pool.members()).unwrap_or_default();
            let stay: HashSet<_> = stay.iter().map(|member| Arc::as_ptr(member.origin())).collect();
            let origins = upstream.pool.members().iter().map(Member::origin);
            for origin in origins.filter(|origin| !stay.contains(&Arc::as_ptr(origin))) {
                origin.health().park(now);
                origin.retire();
            }
        }
    }

    /// The configuration it was compiled from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The text of its file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// SHA-256 of that text, in hex.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// 1 for the first of a process, one more with each that was published.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What a client may cost us.
    pub fn client_limits(&self) -> &Arc<ClientLimits> {
        &self.client_limits
    }

    /// What a request's header may be.
    pub fn request_limits(&self) -> &Limits {
        &self.request_limits
    }

    /// Whose word about the client counts.
    pub fn callers(&self) -> &Callers {
        &self.callers
    }

    /// What clients that come by TLS are shown, and asked.
    pub fn tls(&self) -> &Tls {
        &self.tls
    }

    /// The route a request belongs to, by number.
    pub fn find(&self, request: &routing::Request<'_>) -> Option<usize> {
        self.table.find(request)
    }

    /// The route of this number.
    pub fn route(&self, number: usize) -> Option<&Route> {
        self.routes.get(number)
    }

    /// The pool of this number.
    pub fn upstream(&self, number: usize) -> Option<&Upstream> {
        self.pools.get(number)
    }

    /// Every pool, in the order of the file.
    pub fn upstreams(&self) -> &[Upstream] {
        &self.pools
    }

    /// The pool of this name.
    pub fn named(&self, pool: &str) -> Option<&Upstream> {
        self.pools.iter().find(|upstream| &**upstream.pool.name() == pool)
    }

    /// Origins that were there until not long ago, of pools in force and of pools that are gone.
    pub fn parked(&self) -> impl Iterator<Item = &Parked> {
        self.pools.iter().filter_map(|upstream| upstream.pool.parked()).chain(&self.gone)
    }

    /// The pools that `config` leaves out, as they are parked.
    fn gone_without(&self, config: &Config, now: Instant) -> Vec<Parked> {
        let is_left_out = |pool: &Arc<str>| !config.pools.contains_key(&**pool);
        let running = self.pools.iter().map(|upstream| &upstream.pool).filter(|pool| is_left_out(pool.name()));
        let gone = self.gone.iter().filter(|parked| is_left_out(parked.pool()) && parked.roster(now).is_some());
        running
            .filter_map(|pool| Parked::whole(pool, self.config.pools.get(&**pool.name())?, now))
            .chain(gone.cloned())
            .collect()
    }

    /// Counters of requests that no route took.
    pub fn unrouted(&self) -> &Arc<RouteMeters> {
        &self.unrouted
    }
}

struct Parts {
    table: Table,
    routes: Vec<Route>,
    pools: Vec<Upstream>,
    buckets: Buckets,
}

impl Parts {
    fn compile(config: &Config, past: Past<'_>, metrics: &Metrics, now: Instant) -> Result<Self, Vec<Complaint>> {
        let (mut complaints, previous) = (Vec::new(), past.snapshot());
        let old: HashMap<&str, &Upstream> =
            previous.iter().flat_map(|snapshot| &snapshot.pools).map(|one| (&**one.pool.name(), one)).collect();
        let (idle, mut pools) = (Idle::of(&config.process), Vec::with_capacity(config.pools.len()));
        for (name, written) in &config.pools {
            let before = old.get(name.as_str()).copied();
            let told = past.told(name);
            let found = Found::of(name, written, (before, previous), told.and_then(|told| told.found.as_ref()), now);
            let written = &*Found::section(found.as_ref(), written);
            let gone = previous.and_then(|previous| previous.gone.iter().find(|gone| **gone.pool() == **name));
            let running = before.map(|before| &before.pool);
            let compiled = match (told, gone, running) {
                (Some(told), ..) => Pool::compile_carried(name, written, &told.pool, now),
                (None, Some(gone), _) => Pool::compile_again(name, written, gone, now),
                (None, None, Some(running)) if past.stays() => Pool::compile_on(name, written, running, now),
                (None, None, running) => Pool::compile(name, written, running, now),
            };
            complaints.extend(compiled.as_ref().ok().and_then(|pool| past.takes(pool).err()));
            match compiled {
                Ok(pool) => match Upstream::compile(idle.settled(pool, written), written, before, metrics, now) {
                    Ok(upstream) => {
                        let upstream = Upstream { found, ..upstream };
                        pools.push(told.into_iter().fold(upstream, |upstream, told| told.give(upstream, now)));
                    }
                    Err(found) => complaints.push(under(name, found)),
                },
                Err(found) => complaints.extend(found.into_iter().map(|one| under(name, one))),
            }
        }
        complaints.extend(access_log(&config.process));
        let table = Table::compile(&config.routes).map_err(|found| complaints.extend(found));
        let buckets = past.buckets(now);
        let mut routes = Vec::with_capacity(config.routes.len());
        for (number, written) in config.routes.iter().enumerate() {
            match Route::compile((number, written), config, &pools, (&buckets, metrics)) {
                Ok(route) => routes.push(route),
                Err(found) => complaints.extend(found.into_iter().map(|one| route::numbered(number, one))),
            }
        }
        // A route whose pool is wrong is none, and the pool was complained of.
        match table {
            Ok(table) if complaints.is_empty() && routes.len() == config.routes.len() => {
                Ok(Self { table, routes, pools, buckets: buckets.settled() })
            }
            _ => Err(complaints),
        }
    }
}

/// What is wrong with the lines of the access log. They are of the process, but only a template can tell.
fn access_log(written: &process::Process) -> Option<Complaint> {
    let log = written.access_log.on()?;
    Format::compile(&log.format).err().map(|invalid| invalid.at("process.access_log.format"))
}

/// A complaint about pool `name`, whose path began at the pool.
fn under(name: &str, mut complaint: Complaint) -> Complaint {
    complaint.path = format!("pools.{name}.{}", complaint.path);
    complaint
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use super::*;
    use crate::config;

    /// The snapshot of a pool `p` of these origins, with further keys.
    fn snapshot(origins: &str, more: &str, previous: Option<&Snapshot>) -> Snapshot {
        let text = format!(
            "version: 1\nprocess: {{ listeners: [ {{ address: 0.0.0.0:80 }} ] }}\nroutes: [ {{ pool: p }} ]\npools: {{ p: {{ origins: [{origins}]{more} }} }}\n"
        );
        let loaded = config::parse("f", &text).unwrap();
        Snapshot::compile(&loaded.config, previous, &Metrics::new().unwrap(), Instant::now()).unwrap()
    }

    #[test]
    fn c4_origins_of_a_pool_that_went_come_back_with_what_is_known_of_them() {
        let both = ", protocol: h2c }, q: { origins: [x]";
        let routed = |snapshot: &Snapshot| snapshot.named("q").map(|q| Arc::clone(q.pool.members()[0].origin()));
        let first = snapshot("a", both, None);
        let known = routed(&first).unwrap();
        let second = snapshot("a", "", Some(&first));
        let third = snapshot("a, b", "", Some(&second));
        assert!(routed(&third).is_none() && third.parked().count() == 1);
        let fourth = snapshot("a, b", both, Some(&third));
        assert!(Arc::ptr_eq(&routed(&fourth).unwrap(), &known) && fourth.parked().count() == 0);
    }

    #[test]
    fn what_the_last_change_moved_is_said_until_the_next() {
        let moved = |snapshot: &Snapshot| snapshot.upstreams()[0].moved;
        let first = snapshot("a, b, c", "", None);
        assert!(moved(&first).abs() < 1e-9);
        let grown = snapshot("a, b, c, d", "", Some(&first));
        assert!((0.15..0.35).contains(&moved(&grown)), "{}", moved(&grown));
        let unrelated = snapshot("d, c, b, a", ", timeouts: { read: 5s }", Some(&grown));
        assert!((moved(&unrelated) - moved(&grown)).abs() < 1e-9, "{}", moved(&unrelated));
        let keyed = snapshot("a, b, c, d", ", balance: { key: \"{path}\" }", Some(&unrelated));
        assert!((moved(&keyed) - 1.0).abs() < 1e-9, "{}", moved(&keyed));
    }
}
