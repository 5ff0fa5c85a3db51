//! Every metric of the gateway: names, help and labels, all in this file.
//!
//! Label values come from bounded sets only: names of the configuration, methods, statuses and words of ours.
//! The series of an origin, pool, route or listener belong to its meters; whoever asks for the same name while
//! meters of it live gets the same meters, and the series go when the last holder does.

use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder};

use super::alive::SnapshotAlive;
use super::carried::Grows;
use super::interned::Interned;
use super::meters::{
    ANSWERS, CONNECTS, Counts, LimitMeters, ListenerMeters, MirrorMeters, OriginMeters, PoolMeters, RouteMeters,
    RouteTimes, SharedMeters, Times,
};
use super::series::{Counter, Family, Gauge, Histogram, Level, Named, Series};

/// The content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// The label of a request without route or pool, and of what is told of a pool as a whole.
pub(super) const NONE: &str = "-";

/// Pools of more origins have histograms as a whole, not of each origin (rule S1): they are most of a scrape.
const TIMED_EACH: usize = 200;

/// All metrics of one process. Cloning is cheap and gives the same metrics.
#[derive(Clone)]
pub struct Metrics(pub(super) Arc<All>);

/// The families and the meters that are alive.
pub(super) struct All {
    registry: Registry,
    /// Every family whose series only grow.
    pub(super) growing: Vec<Box<dyn Grows>>,
    generation: Level,
    pub(super) requests: Family<Counter>,
    pub(super) request_duration: Family<Histogram>,
    pub(super) attempts: Family<Counter>,
    pub(super) limited: Family<Counter>,
    pub(super) shared_errors: Family<Counter>,
    pub(super) origin_cache: Family<Counter>,
    pub(super) attempt_duration: Family<Histogram>,
    pub(super) connect_duration: Family<Histogram>,
    pub(super) retries: Family<Counter>,
    pub(super) retries_suppressed: Family<Counter>,
    pub(super) dns_answers: Family<Counter>,
    pub(super) in_flight: Family<Level>,
    pub(super) upstream_connections_total: Family<Counter>,
    pub(super) upstream_connections: Family<Level>,
    pub(super) origins: Family<Level>,
    pub(super) origin_up: Family<Level>,
    pub(super) origin_weight: Family<Gauge>,
    pub(super) ring_share: Family<Gauge>,
    pub(super) ring_info: Family<Level>,
    pub(super) keys_moved: Family<Gauge>,
    pub(super) keys_displaced: Family<Gauge>,
    pub(super) mirrored: Family<Counter>,
    pub(super) ejections: Family<Counter>,
    pub(super) pool_short: Family<Level>,
    pub(super) probes: Family<Counter>,
    pub(super) connections: Family<Level>,
    rejected: Family<Counter>,
    pub(super) buffered: Family<Level>,
    pub(super) buffers_full: Family<Counter>,
    pub(super) expiry: Family<Gauge>,
    reloads: Family<Counter>,
    snapshots: Level,
    pub(super) config_version: Level,
    pub(super) config_drift: Level,
    access_log_dropped: Counter,
    pub(super) by_route: Interned<[Box<str>; 2], RouteMeters>,
    pub(super) times_by_route: Interned<Box<str>, RouteTimes>,
    pub(super) by_limit: Interned<[Box<str>; 2], LimitMeters>,
    pub(super) by_shared: Interned<Box<str>, SharedMeters>,
    pub(super) by_mirror: Interned<[Box<str>; 2], MirrorMeters>,
    pub(super) by_pool: Interned<Box<str>, PoolMeters>,
    pub(super) by_origin: Interned<[Box<str>; 2], Counts>,
    pub(super) times_by_origin: Interned<[Box<str>; 2], Times>,
    pub(super) by_listener: Interned<Box<str>, ListenerMeters>,
}

/// Registers families one after the other.
struct Book {
    registry: Registry,
    growing: Mutex<Vec<Box<dyn Grows>>>,
}

impl Book {
    fn family<S: Series>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Result<Family<S>, prometheus::Error> {
        self.add(Named { name, help, labels, bounds: &[] })
    }

    fn add<S: Series>(&self, named: Named) -> Result<Family<S>, prometheus::Error> {
        let family = Family::new(named)?;
        self.registry.register(Box::new(family.clone()))?;
        if S::GROWS {
            self.growing.lock().push(Box::new(family.clone()));
        }
        Ok(family)
    }

    /// A metric without labels.
    fn single<S: Series>(&self, name: &'static str, help: &'static str) -> Result<S, prometheus::Error> {
        Ok(self.family::<S>(name, help, &[])?.with(&[]))
    }
}

impl Metrics {
    /// The metrics of this process, all at their start.
    pub fn new() -> Result<Self, prometheus::Error> {
        let book = Book { registry: Registry::new(), growing: Mutex::default() };
        let info: Family<Level> = book.family("moorgate_build_info", "Which build this is; always 1.", &["version"])?;
        info.with(&[env!("CARGO_PKG_VERSION")]).set(1);
        let all = All::new(book)?;
        all.generation.set(1);
        // Shown from the start: a rate needs the zero before the first one.
        for result in ["applied", "unchanged", "refused", "failed", "rolled_back", "reverted"] {
            all.reloads.with(&[result]);
        }
        Ok(Self(Arc::new(all)))
    }

    /// This is the process of that number in a line of upgrades. Said before anything is shown.
    pub fn is_generation(&self, generation: u64) {
        self.0.generation.set(i64::try_from(generation).unwrap_or(i64::MAX));
    }

    /// Which process of a line of upgrades this is.
    pub fn generation(&self) -> u64 {
        u64::try_from(self.0.generation.value()).unwrap_or_default()
    }

    /// The meters of a route and the pool it goes to; without a pool for answers of ours.
    pub fn route(&self, route: &str, pool: Option<&str>) -> Arc<RouteMeters> {
        let pool = pool.unwrap_or(NONE);
        self.0.by_route.get([route.into(), pool.into()], || RouteMeters::new(&self.0, route, pool))
    }

    /// The meters of requests no route takes; to be held as long as the process answers.
    pub fn unrouted(&self) -> Arc<RouteMeters> {
        self.route(NONE, None)
    }

    /// The meters of a pool.
    pub fn pool(&self, pool: &str) -> Arc<PoolMeters> {
        self.0.by_pool.get(pool.into(), || PoolMeters::new(&self.0, pool))
    }

    /// The meters of a pool's origins, in their order. Of more than 200 origins the times are those of the pool.
    pub fn origins<'o, O>(&self, pool: &str, origins: O) -> Vec<Arc<OriginMeters>>
    where
        O: IntoIterator<Item = &'o str, IntoIter: ExactSizeIterator>,
    {
        let (all, origins) = (&self.0, origins.into_iter());
        let each = origins.len() <= TIMED_EACH;
        let meters = |origin| {
            let timed = if each { origin } else { NONE };
            let counts = all.by_origin.get([pool.into(), origin.into()], || Counts::new(all, pool, origin));
            let times = all.times_by_origin.get([pool.into(), timed.into()], || Times::new(all, pool, timed));
            Arc::new(OriginMeters::new(counts, times))
        };
        origins.map(meters).collect()
    }

    /// The meters of a listener, by its address.
    pub fn listener(&self, address: &str) -> Arc<ListenerMeters> {
        self.0.by_listener.get(address.into(), || ListenerMeters::new(&self.0, address))
    }

    /// A client connection was closed before its first request; `reason` is a word of ours.
    pub fn connection_rejected(&self, reason: &'static str) {
        self.0.rejected.with(&[reason]).increment();
    }

    /// A reload came to this end: `applied`, `unchanged`, `refused`, `failed`, `rolled_back` or
    /// `reverted`.
    pub fn reloaded(&self, result: &'static str) {
        self.0.reloads.with(&[result]).increment();
    }

    /// Counts a snapshot for as long as the answer lives.
    pub fn snapshot(&self) -> SnapshotAlive {
        self.0.snapshots.add(1);
        SnapshotAlive(self.0.snapshots.clone())
    }

    /// So many lines of the access log were lost.
    pub fn access_log_dropped(&self, lines: u64) {
        self.0.access_log_dropped.add(lines);
    }

    /// How many were lost so far.
    pub fn access_log_lost(&self) -> u64 {
        self.0.access_log_dropped.value()
    }

    pub(super) fn all(&self) -> &Arc<All> {
        &self.0
    }

    /// All series in Prometheus' text format.
    pub fn encode(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.0.registry.gather())
    }
}

impl All {
    /// As a label.
    pub(super) fn generation(&self) -> String {
        self.generation.value().to_string()
    }

    #[allow(clippy::too_many_lines, reason = "one list of all families, and nothing else")]
    fn new(book: Book) -> Result<Self, prometheus::Error> {
        Ok(Self {
            generation: book.single("moorgate_generation", "Which process of a line of upgrades this is, from 1.")?,
            requests: book.family(
                "moorgate_requests_total",
                "Requests answered, by route, pool, method and status.",
                &["route", "pool", "method", "code"],
            )?,
            request_duration: book.add(Named {
                name: "moorgate_request_duration_seconds",
                help: "From the first byte of a request to the last of its answer.",
                labels: &["route"],
                bounds: ANSWERS,
            })?,
            attempts: book.family(
                "moorgate_attempts_total",
                "Tries at an origin, by how they ended: ok, status (thrown away for another try) or an error class.",
                &["pool", "origin", "outcome"],
            )?,
            limited: book.family(
                "moorgate_limited_total",
                "Requests beyond a limit of their route: turned away, or with dry_run only counted.",
                &["route", "limit"],
            )?,
            shared_errors: book.family(
                "moorgate_rate_shared_errors_total",
                "Requests whose shared limit was counted by this process alone, because Redis did not answer.",
                &["limit"],
            )?,
            origin_cache: book.family(
                "moorgate_origin_cache_total",
                "Answers of an origin by what it said of its own cache.",
                &["pool", "origin", "result"],
            )?,
            attempt_duration: book.add(Named {
                name: "moorgate_attempt_duration_seconds",
                help: "From the start of a try to its end; of a pool of more than 200 origins as a whole.",
                labels: &["pool", "origin"],
                bounds: ANSWERS,
            })?,
            connect_duration: book.add(Named {
                name: "moorgate_connect_duration_seconds",
                help: "Time to a new connection to an origin; of a pool of more than 200 origins as a whole.",
                labels: &["pool", "origin"],
                bounds: CONNECTS,
            })?,
            retries: book.family(
                "moorgate_retries_total",
                "Further tries, by what made them necessary.",
                &["pool", "reason"],
            )?,
            retries_suppressed: book.family(
                "moorgate_retries_suppressed_total",
                "Failed tries that were not repeated although their condition is listed, by what forbade it.",
                &["pool", "reason"],
            )?,
            dns_answers: book.family(
                "moorgate_dns_answers_total",
                "Questions for the origins of a pool that ended, by what they came to.",
                &["pool", "result"],
            )?,
            in_flight: book.family(
                "moorgate_in_flight",
                "Requests an origin is working on now.",
                &["pool", "origin"],
            )?,
            upstream_connections_total: book.family(
                "moorgate_upstream_connections_total",
                "Connections to an origin that were opened, and uses of one that was there already.",
                &["pool", "origin", "kind"],
            )?,
            upstream_connections: book.family(
                "moorgate_upstream_connections",
                "Open connections to an origin, active or idle.",
                &["pool", "origin", "state"],
            )?,
            origins: book.family("moorgate_origins", "Origins of a pool by state.", &["pool", "state"])?,
            origin_up: book.family(
                "moorgate_origin_up",
                "1 when the origin may get requests (up, ramping or kept), else 0.",
                &["pool", "origin"],
            )?,
            origin_weight: book.family(
                "moorgate_origin_weight",
                "Weight of an origin, configured and effective.",
                &["pool", "origin", "kind"],
            )?,
            ring_share: book.family(
                "moorgate_ring_share",
                "Part of the hash circle an origin takes now.",
                &["pool", "origin"],
            )?,
            ring_info: book.family(
                "moorgate_ring_info",
                "The ring in force; always 1. Equal fingerprints place keys alike.",
                &["pool", "fingerprint", "generation"],
            )?,
            keys_moved: book.family(
                "moorgate_keys_moved_ratio",
                "Part of the keys that changed their origin by the last change of the pool: of the hash circle (planned), of the recent keys (observed).",
                &["pool", "kind"],
            )?,
            keys_displaced: book.family(
                "moorgate_keys_displaced_ratio",
                "Part of the recent keys that were last served elsewhere than by their owner, by why.",
                &["pool", "reason"],
            )?,
            mirrored: book.family(
                "moorgate_mirrored_total",
                "Copies of a route's requests for another pool, by what became of them.",
                &["route", "pool", "result"],
            )?,
            ejections: book.family(
                "moorgate_ejections_total",
                "How often an origin was taken out, by why.",
                &["pool", "origin", "reason"],
            )?,
            pool_short: book.family(
                "moorgate_pool_short",
                "1 when more origins are out than min_healthy allows, or some are in service that should not be, else 0.",
                &["pool"],
            )?,
            probes: book.family(
                "moorgate_probes_total",
                "Probes of an origin by result.",
                &["pool", "origin", "result"],
            )?,
            connections: book.family(
                "moorgate_connections",
                "Open client connections of a listener.",
                &["listener"],
            )?,
            rejected: book.family(
                "moorgate_connections_rejected_total",
                "Client connections closed before their first request, by why.",
                &["reason"],
            )?,
            buffered: book.family("moorgate_buffered_bytes", "Memory of answers on their way, by what for.", &["kind"])?,
            buffers_full: book.family(
                "moorgate_buffers_full_total",
                "Answers that went without, because process.max_buffered was used up, by what for.",
                &["kind"],
            )?,
            expiry: book.family(
                "moorgate_certificate_expiry_timestamp_seconds",
                "When the certificate that clients are shown for a name expires, in seconds since 1970.",
                &["name"],
            )?,
            reloads: book.family("moorgate_reloads_total", "Reloads by result.", &["result"])?,
            snapshots: book.single("moorgate_snapshots", "Compiled configurations that are still in use.")?,
            config_version: book
                .single("moorgate_config_version", "How many configurations were put in force since the start.")?,
            config_drift: book
                .single("moorgate_config_drift", "1 when the file last read is not what is served, else 0.")?,
            access_log_dropped: book.single(
                "moorgate_access_log_dropped_total",
                "Access log lines that were lost because the log could not be written.",
            )?,
            by_route: Interned::default(),
            times_by_route: Interned::default(),
            by_limit: Interned::default(),
            by_shared: Interned::default(),
            by_mirror: Interned::default(),
            by_pool: Interned::default(),
            by_origin: Interned::default(),
            times_by_origin: Interned::default(),
            by_listener: Interned::default(),
            registry: book.registry,
            growing: book.growing.into_inner(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(metrics: &Metrics, line: &str) -> bool {
        metrics.encode().unwrap().lines().any(|shown| shown == line)
    }

    /// The distinct names of metrics in a text.
    fn names(text: &'static str) -> std::collections::BTreeSet<&'static str> {
        let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        words.filter(|word| word.starts_with("moorgate_")).collect()
    }

    #[test]
    fn every_metric_is_documented_and_every_documented_metric_is_there() {
        let code = include_str!("metrics.rs").split("mod tests").next().unwrap();
        assert_eq!(names(code), names(include_str!("../../docs/metrics.md")));
        assert!(names(code).len() > 25);
    }

    #[test]
    fn what_has_no_labels_is_shown_from_the_start() {
        let metrics = Metrics::new().unwrap();
        assert!(shown(&metrics, "moorgate_generation 1"));
        assert!(shown(&metrics, "moorgate_access_log_dropped_total 0"));
        assert!(shown(&metrics, concat!("moorgate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")));
    }

    #[test]
    fn a_snapshot_counts_while_it_lives() {
        let metrics = Metrics::new().unwrap();
        let (first, _second) = (metrics.snapshot(), metrics.snapshot());
        assert!(shown(&metrics, "moorgate_snapshots 2"));
        drop(first);
        assert!(shown(&metrics, "moorgate_snapshots 1"));
    }

    #[test]
    fn reloads_and_rejected_connections_are_counted_by_word() {
        let metrics = Metrics::new().unwrap();
        metrics.reloaded("refused");
        metrics.connection_rejected("max_connections");
        metrics.configuration(7, true);
        assert!(shown(&metrics, "moorgate_reloads_total{result=\"refused\"} 1"));
        assert!(shown(&metrics, "moorgate_connections_rejected_total{reason=\"max_connections\"} 1"));
        assert!(shown(&metrics, "moorgate_config_version 7"));
        assert!(shown(&metrics, "moorgate_config_drift 1"));
    }

    #[test]
    fn meters_of_a_name_are_shared_while_held() {
        let metrics = Metrics::new().unwrap();
        let first = metrics.pool("p");
        assert!(Arc::ptr_eq(&first, &metrics.pool("p")));
        assert!(!Arc::ptr_eq(&first, &metrics.pool("q")));
    }
}
