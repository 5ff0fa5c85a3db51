//! What a snapshot holds to count with: series of one route, pool, origin or listener, resolved at first use.
//!
//! On the way of a request counting is an index and a relaxed addition: no hashing of labels, no lock, and an
//! allocation only the very first time a series is touched. Dropping meters takes their series out of what is shown.

mod buffers;
mod limit;
mod listener;
mod mirror;
mod origin;
mod pool;
mod route;
mod spans;
mod times;
mod words;

pub use buffers::BufferMeters;
pub use limit::{LimitMeters, SharedMeters};
pub use listener::{ConnectionOpen, ListenerMeters};
pub use mirror::MirrorMeters;
pub(super) use origin::Counts;
pub use origin::{OriginMeters, OriginView};
pub use pool::{PoolMeters, PoolView};
pub use route::{RouteMeters, RouteTimes};
pub(super) use spans::SpanMeters;
pub(super) use times::{ANSWERS, CONNECTS, Times};

fn level(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::Metrics;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn metrics() -> Metrics {
        Metrics::new().unwrap()
    }

    /// The meters of the only origin of pool `p`.
    fn origin(metrics: &Metrics, name: &str) -> Arc<OriginMeters> {
        metrics.origins("p", [name]).remove(0)
    }

    fn lines(metrics: &Metrics, holding: &str) -> Vec<String> {
        let text = metrics.encode().unwrap();
        text.lines().filter(|line| line.contains(holding) && !line.starts_with('#')).map(String::from).collect()
    }

    #[test]
    fn requests_are_counted_by_route_pool_method_and_code() {
        let metrics = metrics();
        let route = metrics.route("api", Some("origin"));
        route.answered("GET", 200, MS);
        route.answered("GET", 200, MS);
        route.answered("BREW", 418, MS);
        route.answered("GET", 799, MS);
        let shown = lines(&metrics, "moorgate_requests_total");
        assert_eq!(
            shown,
            [
                "moorgate_requests_total{route=\"api\",pool=\"origin\",method=\"GET\",code=\"200\"} 2",
                "moorgate_requests_total{route=\"api\",pool=\"origin\",method=\"GET\",code=\"other\"} 1",
                "moorgate_requests_total{route=\"api\",pool=\"origin\",method=\"other\",code=\"418\"} 1",
            ]
        );
        assert_eq!(
            lines(&metrics, "moorgate_request_duration_seconds_count{route=\"api\"}")[0].split(' ').next_back(),
            Some("4")
        );
    }

    #[test]
    fn a_request_without_a_route_has_dashes_for_names() {
        let metrics = metrics();
        metrics.unrouted().answered("GET", 404, MS);
        let kept = metrics.unrouted();
        kept.answered("GET", 404, MS);
        assert_eq!(
            lines(&metrics, "moorgate_requests_total"),
            ["moorgate_requests_total{route=\"-\",pool=\"-\",method=\"GET\",code=\"404\"} 1"]
        );
    }

    #[test]
    fn series_of_a_departed_origin_go() {
        let metrics = metrics();
        let (gone, stays) = (origin(&metrics, "gone"), origin(&metrics, "stays"));
        for origin in [&gone, &stays] {
            origin.attempted("ok", MS);
            origin.opened(MS);
            origin.reused();
            origin.probed("good");
            origin.ejected("refused");
            origin.cached("hit");
            origin.show(&OriginView { up: true, ..OriginView::default() });
        }
        assert!(!lines(&metrics, "gone").is_empty());
        drop(gone);
        assert_eq!(lines(&metrics, "gone"), [""; 0]);
        assert!(lines(&metrics, "duration_seconds_count").iter().all(|line| line.contains("stays")));
        assert_eq!(
            lines(&metrics, "moorgate_attempts_total"),
            ["moorgate_attempts_total{pool=\"p\",origin=\"stays\",outcome=\"ok\"} 1"]
        );
    }

    #[test]
    fn series_held_by_a_newer_snapshot_stay() {
        let metrics = metrics();
        let old = origin(&metrics, "a");
        old.attempted("ok", MS);
        let new = origin(&metrics, "a");
        drop(old);
        new.attempted("ok", MS);
        assert_eq!(
            lines(&metrics, "moorgate_attempts_total"),
            ["moorgate_attempts_total{pool=\"p\",origin=\"a\",outcome=\"ok\"} 2"]
        );
    }

    /// The labels of every histogram of tries, for a pool of so many origins each of which was tried.
    fn timed(metrics: &Metrics, origins: usize) -> (Vec<Arc<OriginMeters>>, Vec<String>) {
        let names: Vec<String> = (0..origins).map(|number| format!("o{number}")).collect();
        let all = metrics.origins("p", names.iter().map(String::as_str));
        for origin in &all {
            origin.attempted("ok", MS);
            origin.opened(MS);
        }
        (all, lines(metrics, "duration_seconds_count"))
    }

    #[test]
    fn s1_up_to_two_hundred_origins_have_times_of_their_own_and_more_share_those_of_the_pool() {
        let metrics = metrics();
        let (few, shown) = timed(&metrics, 200);
        assert_eq!(shown.len(), 2 * 200);
        assert!(shown.contains(&"moorgate_attempt_duration_seconds_count{pool=\"p\",origin=\"o7\"} 1".to_owned()));
        let (many, shown) = timed(&metrics, 201);
        assert_eq!(shown.len(), 2 * 200 + 2);
        drop(few);
        let shared = ["attempt", "connect"]
            .map(|what| format!("moorgate_{what}_duration_seconds_count{{pool=\"p\",origin=\"-\"}} 201"));
        assert_eq!(lines(&metrics, "duration_seconds_count"), shared);
        assert!(lines(&metrics, "attempts_total").len() == 201, "everything else is told of each");
        drop(many);
        assert_eq!(lines(&metrics, "pool=\"p\""), [""; 0]);
    }

    #[test]
    fn a_route_that_goes_to_another_pool_keeps_its_times() {
        let metrics = metrics();
        let old = metrics.route("r", Some("a"));
        old.answered("GET", 200, MS);
        let new = metrics.route("r", Some("b"));
        new.answered("GET", 200, MS);
        drop(old);
        assert_eq!(lines(&metrics, "moorgate_requests_total").len(), 1);
        assert_eq!(
            lines(&metrics, "_seconds_count{route=\"r\"}"),
            ["moorgate_request_duration_seconds_count{route=\"r\"} 2"]
        );
        drop(new);
        assert_eq!(lines(&metrics, "route=\"r\""), [""; 0]);
    }

    #[test]
    fn an_unknown_outcome_is_other() {
        let metrics = metrics();
        let origin = origin(&metrics, "a");
        origin.attempted("on fire", MS);
        assert_eq!(
            lines(&metrics, "moorgate_attempts_total"),
            ["moorgate_attempts_total{pool=\"p\",origin=\"a\",outcome=\"other\"} 1"]
        );
    }

    #[test]
    fn every_error_class_of_an_attempt_has_its_own_label_and_is_documented() {
        use crate::resilience::Class::{
            self, Denied, HeaderTooLarge, Limited, MethodNotAllowed, NoOrigin, NoRoute, Saturated, UriTooLong,
        };
        let metrics = metrics();
        let origin = origin(&metrics, "a");
        let of_requests = [Denied, HeaderTooLarge, Limited, MethodNotAllowed, NoOrigin, NoRoute, Saturated, UriTooLong];
        for class in Class::ALL {
            origin.attempted(class.as_str(), MS);
            let label = format!("outcome=\"{class}\"", class = class.as_str());
            assert_eq!(lines(&metrics, &label).is_empty(), of_requests.contains(class), "{label}");
            let word = format!("`{}`", class.as_str());
            assert!(include_str!("../../../docs/observability.md").contains(&word), "{word}");
        }
    }

    #[test]
    fn a_pool_shows_one_fingerprint_and_leaves_nothing() {
        let metrics = metrics();
        let pool = metrics.pool("p");
        pool.retried("connect");
        pool.suppressed("budget");
        let states = [("up", 2), ("down", 1)];
        let view = PoolView {
            states: &states,
            short: false,
            fingerprint: "aa",
            moved: 0.0,
            observed: 0.0,
            away: &[("down", 0.5), ("ramp", 0.0)],
        };
        pool.show(&view);
        pool.show(&PoolView { short: true, fingerprint: "bb", moved: 0.25, observed: 0.2, ..view });
        assert_eq!(
            lines(&metrics, "ring_info"),
            ["moorgate_ring_info{pool=\"p\",fingerprint=\"bb\",generation=\"1\"} 1"]
        );
        assert_eq!(lines(&metrics, "moorgate_pool_short"), ["moorgate_pool_short{pool=\"p\"} 1"]);
        assert_eq!(
            lines(&metrics, "keys_moved"),
            [
                "moorgate_keys_moved_ratio{pool=\"p\",kind=\"observed\"} 0.2",
                "moorgate_keys_moved_ratio{pool=\"p\",kind=\"planned\"} 0.25",
            ]
        );
        assert_eq!(
            lines(&metrics, "keys_displaced"),
            [
                "moorgate_keys_displaced_ratio{pool=\"p\",reason=\"down\"} 0.5",
                "moorgate_keys_displaced_ratio{pool=\"p\",reason=\"ramp\"} 0",
            ]
        );
        drop(pool);
        assert_eq!(lines(&metrics, "pool=\"p\""), [""; 0]);
    }

    #[test]
    fn a_connection_counts_while_it_is_open() {
        let metrics = metrics();
        let listener = metrics.listener("0.0.0.0:80");
        let open = listener.connection();
        assert_eq!(lines(&metrics, "moorgate_connections"), ["moorgate_connections{listener=\"0.0.0.0:80\"} 1"]);
        drop(open);
        assert_eq!(lines(&metrics, "moorgate_connections"), ["moorgate_connections{listener=\"0.0.0.0:80\"} 0"]);
        drop(listener);
        assert_eq!(lines(&metrics, "moorgate_connections"), [""; 0]);
    }
}
