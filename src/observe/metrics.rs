//! Every metric of the gateway: names, help and labels, all in this file.
//!
//! Label values come from bounded sets only: names of the configuration, methods, statuses and words of ours.
//! The series of an origin, pool, route or listener belong to its meters; whoever asks for the same name while
//! meters of it live gets the same meters, and the series go when the last holder does.

use std::sync::Arc;

use prometheus::{Registry, TextEncoder};

use super::alive::SnapshotAlive;
use super::book::Book;
use super::carried::Grows;
use super::interned::Interned;
use super::meters::{
    ANSWERS, CONNECTS, Counts, LimitMeters, ListenerMeters, MirrorMeters, OriginMeters, PoolMeters, RouteMeters,
    RouteTimes, SharedMeters, Times,
};
use super::series::{Counter, Family, Gauge, Histogram, Level, Named};

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
    pub(super) spans: Family<Counter>,
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

impl Metrics {
    /// The metrics of this process, all at their start.
    pub fn new() -> Result<Self, prometheus::Error> {
        Self::registered(&Book::default())
    }

    /// The same, written into `book`.
    pub(super) fn registered(book: &Book) -> Result<Self, prometheus::Error> {
        let info: Family<Level> = book.family("moorgate_build_info", "Always 1; which build this is.", &["version"])?;
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
    fn new(book: &Book) -> Result<Self, prometheus::Error> {
        Ok(Self {
            generation: book.single("moorgate_generation", "Which process of a line of upgrades this is, from 1.")?,
            requests: book.family(
                "moorgate_requests_total",
                "Requests answered. `route` and `pool` are `-` for a request no route took; `code` is what the client saw, 499 when it left before an answer.",
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
                "How an attempt ended: `ok` (an answer that went to the client, whatever its status), `status` (an answer thrown away for another try), or an error class of the access log.",
                &["pool", "origin", "outcome"],
            )?,
            limited: book.family(
                "moorgate_limited_total",
                "Requests beyond a limit of their route: turned away, or with `dry_run` only counted. `limit` is the limit's name (`rate` without one, `rate-2` for the second of a list), `concurrency`, or `body` for bodies that are too long.",
                &["route", "limit"],
            )?,
            shared_errors: book.family(
                "moorgate_rate_shared_errors_total",
                "Requests whose shared limit this process counted alone, because Redis did not answer.",
                &["limit"],
            )?,
            origin_cache: book.family(
                "moorgate_origin_cache_total",
                "Answers by what the origin said of its own cache: `hit`, `miss` or `other`. Only with `cache_status`.",
                &["pool", "origin", "result"],
            )?,
            attempt_duration: book.add(Named {
                name: "moorgate_attempt_duration_seconds",
                help: "From the start of an attempt to its end. In a pool of more than 200 origins `origin` is `-`, and this is of all of them.",
                labels: &["pool", "origin"],
                bounds: ANSWERS,
            })?,
            connect_duration: book.add(Named {
                name: "moorgate_connect_duration_seconds",
                help: "Time to a new connection. In a pool of more than 200 origins `origin` is `-`, and this is of all of them.",
                labels: &["pool", "origin"],
                bounds: CONNECTS,
            })?,
            retries: book.family(
                "moorgate_retries_total",
                "Further attempts, by what made them necessary: `connect`, `stale`, `reset`, `timeout`, `status`.",
                &["pool", "reason"],
            )?,
            retries_suppressed: book.family(
                "moorgate_retries_suppressed_total",
                "Failed attempts that ended their request although the failure is listed, by what forbade another: `budget`, `tries`, `within`, `body` (too long to replay), `method`, `no_origin` (none left to try).",
                &["pool", "reason"],
            )?,
            dns_answers: book.family(
                "moorgate_dns_answers_total",
                "Questions for the origins of a pool with `discovery`, by what they came to: `found`; `empty`, `no_name` and `failed` change nothing.",
                &["pool", "result"],
            )?,
            in_flight: book.family(
                "moorgate_in_flight",
                "Attempts under way, those of a process that is leaving counted.",
                &["pool", "origin"],
            )?,
            upstream_connections_total: book.family(
                "moorgate_upstream_connections_total",
                "`opened`: a connection was made for the attempt; `reused`: one was there already.",
                &["pool", "origin", "kind"],
            )?,
            upstream_connections: book.family(
                "moorgate_upstream_connections",
                "Open connections: `active` (an attempt is on it) or `idle`.",
                &["pool", "origin", "state"],
            )?,
            origins: book.family("moorgate_origins", "Origins by state: `joining`, `up`, `ramping` (growing into its share), `overloaded` (relieved of a part of its load), `kept` (due out, kept by the floor), `down`, `draining`, `leaving`, `parked` (dropped by a reload not long ago).", &["pool", "state"])?,
            origin_up: book.family(
                "moorgate_origin_up",
                "1 when the origin may get any request (`up`, `ramping`, `overloaded`, `kept` or `leaving`), else 0.",
                &["pool", "origin"],
            )?,
            origin_weight: book.family(
                "moorgate_origin_weight",
                "Units of weight, `configured` and `effective`: the part it may take now, 0 while it may get no requests.",
                &["pool", "origin", "kind"],
            )?,
            ring_share: book.family(
                "moorgate_ring_share",
                "The part of the hash circle that the origin takes now.",
                &["pool", "origin"],
            )?,
            ring_info: book.family(
                "moorgate_ring_info",
                "Always 1. Equal fingerprints place keys alike, on every replica.",
                &["pool", "fingerprint", "generation"],
            )?,
            keys_moved: book.family(
                "moorgate_keys_moved_ratio",
                "`planned`: the part of the circle that changed its owner when the placement of this pool last changed. `observed`: the part of the keys seen before and after that change which went to another origin; 0 without one.",
                &["pool", "kind"],
            )?,
            keys_displaced: book.family(
                "moorgate_keys_displaced_ratio",
                "The part of the recent keys that were last served elsewhere than by their owner: `down`, `overload`, `ramp`, `spill` or `drain`. A backup serves for `down`, or for `spill` where the others are full.",
                &["pool", "reason"],
            )?,
            mirrored: book.family(
                "moorgate_mirrored_total",
                "Copies of a route's requests for another pool (`mirror`): `sent` and answered, `failed`, `dropped` (too many under way), `too_large` or `unfinished` (the request's body).",
                &["route", "pool", "result"],
            )?,
            ejections: book.family(
                "moorgate_ejections_total",
                "How often the origin was taken out, by why.",
                &["pool", "origin", "reason"],
            )?,
            pool_short: book.family(
                "moorgate_pool_short",
                "1 while more origins are out than `min_healthy` allows, or some are in service that are due out.",
                &["pool"],
            )?,
            probes: book.family(
                "moorgate_probes_total",
                "Probes that ended `good`, `overloaded` or `bad`.",
                &["pool", "origin", "result"],
            )?,
            connections: book.family(
                "moorgate_connections",
                "Open client connections.",
                &["listener"],
            )?,
            rejected: book.family(
                "moorgate_connections_rejected_total",
                "Client connections refused: `h2_flood` (HTTP/2 frames without end that ask for nothing, or streams begun and reset), and before their first request `empty` (no byte of a request came), `tls_handshake` (a client that did not get through its handshake, or sent plain HTTP to a TLS port), `max_connections`, `connections_per_client`, `proxy_missing`, `proxy_untrusted`, `proxy_invalid`.",
                &["reason"],
            )?,
            buffered: book.family("moorgate_buffered_bytes", "Memory of answers on their way: `held_back` for slow clients, and `compression`.", &["kind"])?,
            buffers_full: book.family(
                "moorgate_buffers_full_total",
                "Answers that went at their client's pace (`held_back`) or plain (`compression`), because `process.max_buffered` was used up.",
                &["kind"],
            )?,
            expiry: book.family(
                "moorgate_certificate_expiry_timestamp_seconds",
                "When a certificate that clients are shown expires, in seconds since 1970; `name` is the first it is for. Of two for one name the one that ends first.",
                &["name"],
            )?,
            reloads: book.family("moorgate_reloads_total", "Reloads: `applied`, `unchanged`, `refused` or `failed`; `rolled_back`: somebody went back; `reverted`: it went back by itself.", &["result"])?,
            snapshots: book.single("moorgate_snapshots", "Compiled configurations still in use; 1 when no request is left on an older one.")?,
            config_version: book
                .single("moorgate_config_version", "How many configurations were put in force since the start.")?,
            config_drift: book
                .single("moorgate_config_drift", "1 when the file last read is not what is served.")?,
            access_log_dropped: book.single(
                "moorgate_access_log_dropped_total",
                "Access log lines that were lost.",
            )?,
            spans: book.family(
                "moorgate_spans_total",
                "Spans for a collector: `sent`, `dropped` (there was no room), `refused` (it did not want them), `unsent` (left when the process ended).",
                &["result"],
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
            registry: book.registry(),
            growing: book.growing(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(metrics: &Metrics, line: &str) -> bool {
        metrics.encode().unwrap().lines().any(|shown| shown == line)
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
