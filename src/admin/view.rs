//! What is the gateway like at this moment? One look at the snapshot in force, for `/status` and for the gauges of
//! `/metrics`, so that both tell the same and neither costs the data plane anything.

use std::time::{Duration, Instant};

use indexmap::IndexMap;

use super::certificates;
use super::recent::Pace;
use super::splits;
use super::status::{
    CacheStatus, ConfigStatus, DiscoveryStatus, KeyStatus, KeysStatus, MovingStatus, OriginStatus, PoolStatus,
    ProbeStatus, RecentStatus, RingStatus, Status, StepsStatus, WeightStatus,
};
use crate::config::pool::Panic;
use crate::health::{Address, Prober, Verdict};
use crate::lifecycle::Ledger;
use crate::observe::sample::{Away, HotKey};
use crate::observe::{OriginView, PoolView};
use crate::pool::discovery::Source;
use crate::pool::{Member, Origin, Stay};
use crate::snapshot::{Snapshot, Upstream};

impl Status {
    /// The state of everything in `snapshot`, as `prober` sees to it; `ledger`: how it came to that; `started`: when the
    /// process was.
    pub fn of(snapshot: &Snapshot, prober: &Prober, ledger: &Ledger, started: Instant, now: Instant) -> Self {
        let up = now.saturating_duration_since(started);
        let pool = |upstream: &Upstream| (upstream.tail.name.to_string(), pool(snapshot, upstream, up, now));
        Self {
            program: env!("CARGO_PKG_VERSION"),
            generation: 1,
            upgrade: None,
            uptime: up.as_secs_f64(),
            recent: RecentStatus::default(),
            config: ConfigStatus {
                version: snapshot.version(),
                digest: snapshot.digest().to_owned(),
                history: ledger.texts(),
                drift: false,
                confirm: ledger.confirm(),
            },
            probes_stretched: prober.is_stretched(),
            certificates: certificates::all(snapshot),
            splits: splits::all(snapshot),
            pools: snapshot.upstreams().iter().map(pool).collect(),
        }
    }
}

/// Sets the gauges of all that is in `snapshot`.
pub fn show(snapshot: &Snapshot, now: Instant) {
    for upstream in snapshot.upstreams() {
        let shares = upstream.pool.effective_shares();
        for (number, member) in upstream.pool.members().iter().enumerate() {
            let Some(meters) = upstream.meters.get(number) else { continue };
            let (origin, in_flight) = (member.origin(), member.origin().in_flight());
            let open = usize::try_from(origin.connections_open()).unwrap_or(usize::MAX);
            let own = origin.load().own();
            meters.show(&OriginView {
                up: origin.verdict().usable(),
                in_flight,
                active: own.min(open),
                idle: open.saturating_sub(own),
                weight: f64::from(member.weight()),
                effective: member.effective_weight(),
                share: shares.get(number).copied().unwrap_or_default(),
            });
        }
        let keys = upstream.tail.sample.summary(now);
        let words = Away::ALL.map(|(_, word)| word);
        let away: Vec<_> = words.into_iter().zip(keys.away).collect();
        upstream.tail.meters.show(&PoolView {
            states: &Verdict::ALL.map(|verdict| (verdict.as_str(), count(upstream, verdict, now))),
            short: upstream.pool.roster().is_short(),
            fingerprint: &upstream.tail.fingerprint,
            moved: upstream.moved,
            observed: keys.moved.unwrap_or(0.0),
            away: &away,
        });
    }
}

fn count(upstream: &Upstream, verdict: Verdict, now: Instant) -> usize {
    match (verdict, upstream.pool.parked()) {
        (Verdict::Parked, parked) => parked.map_or(0, |parked| parked.stays(now).count()),
        _ => upstream.pool.roster().count(verdict),
    }
}

fn pool(snapshot: &Snapshot, upstream: &Upstream, up: Duration, now: Instant) -> PoolStatus {
    let (shares, pace) = (upstream.pool.effective_shares(), Pace::of(upstream, up, now));
    let panic = snapshot.config().pools.get(&*upstream.tail.name).map(|written| written.health.panic);
    let origin = |(number, member): (usize, &Member)| {
        (member.name().to_string(), origin(member, shares.get(number).copied().unwrap_or_default(), &pace, now))
    };
    let parked = upstream.pool.parked().into_iter().flat_map(|parked| parked.stays(now));
    let parked = parked.map(|stay| (stay.origin.name().to_string(), parked_origin(stay, &pace, now)));
    PoolStatus {
        algorithm: upstream.pool.algorithm(),
        key: upstream.pool.key().map(|key| key.text().to_owned()),
        keys: keys(upstream, now),
        cache: upstream
            .cache
            .as_ref()
            .map(|_| CacheStatus { hit_ratio: upstream.hit_ratio(now), hit_ratio_before: upstream.hit_ratio_before }),
        ring: RingStatus {
            fingerprint: upstream.tail.fingerprint.to_string(),
            moved_ratio: upstream.moved,
            changed: upstream.changed.to_vec(),
        },
        panic: if panic == Some(Panic::Fail) { "fail" } else { "keep" },
        short: upstream.pool.roster().is_short(),
        rate: pace.rate(pace.all.attempts),
        error_ratio: pace.all.error_ratio,
        p50: pace.all.p50.map(|time| time.as_secs_f64()),
        p99: pace.all.p99.map(|time| time.as_secs_f64()),
        recent: StepsStatus::default(),
        discovery: upstream.found.as_ref().map(|found| discovery(&found.source, now)),
        origins: upstream.pool.members().iter().enumerate().map(origin).chain(parked).collect::<IndexMap<_, _>>(),
    }
}

/// With fewer keys for each origin shares depend on chance, and one hot key on one origin.
const FEW: u64 = 100;

/// Only when each was asked for so often are there likely no others.
const OFTEN: u64 = 5;

fn keys(upstream: &Upstream, now: Instant) -> KeysStatus {
    let summary = upstream.tail.sample.summary(now);
    let (ring, origins) = (upstream.pool.ring(), upstream.pool.members().len() as u64);
    let hot = |hot: &HotKey| KeyStatus {
        key: String::from_utf8_lossy(&hot.key).into_owned(),
        requests: hot.requests,
        share: hot.requests as f64 / summary.requests.max(1) as f64,
        owner: ring.owner(hot.hash).and_then(|owner| ring.name(owner)).map(str::to_owned),
    };
    let is_few = summary.distinct < FEW * origins && summary.requests >= OFTEN * summary.distinct.max(1);
    let warning = || {
        let distinct = summary.distinct;
        format!("{distinct} distinct keys for {origins} origins: with fewer than {FEW} for each, shares hang on chance")
    };
    KeysStatus {
        distinct: summary.distinct,
        seen_once_ratio: summary.seen_once,
        top: summary.top.iter().map(hot).collect(),
        moved_ratio: summary.moved,
        displaced: Away::ALL.map(|(_, word)| word).into_iter().zip(summary.away).collect(),
        warning: is_few.then(warning),
    }
}

fn discovery(source: &Source, now: Instant) -> DiscoveryStatus {
    let told = source.told();
    DiscoveryStatus {
        dns: source.written().dns.0.clone(),
        identity: source.written().identity.to_string(),
        answered: told.answered.map(|at| now.saturating_duration_since(at).as_secs_f64()),
        failure: told.failure,
    }
}

fn origin(member: &Member, share: f64, pace: &Pace, now: Instant) -> OriginStatus {
    let weight = WeightStatus { configured: member.weight(), effective: member.effective_weight() };
    let moving_to = member.successor().map(|to| MovingStatus {
        address: to.address.endpoint().map(|endpoint| endpoint.to_string()),
        why: to.live.report().why.to_string(),
    });
    OriginStatus {
        backup: member.is_backup(),
        weight,
        share,
        moving_to,
        ..known(member.origin(), member.address(), pace, now)
    }
}

/// An origin that gets no requests, and is not forgotten yet.
fn parked_origin(stay: &Stay, pace: &Pace, now: Instant) -> OriginStatus {
    let known = known(&stay.origin, &stay.address, pace, now);
    let left = stay.until.saturating_duration_since(now).as_secs();
    let why = format!("dropped by a reload, kept ready for {left} s; else it were {}: {}", known.state, known.why);
    let weight = WeightStatus { configured: stay.weight, effective: 0.0 };
    OriginStatus { state: Verdict::Parked.as_str(), why, weight, ..known }
}

/// What is known of an origin wherever it stands.
fn known(origin: &Origin, address: &Address, pace: &Pace, now: Instant) -> OriginStatus {
    let report = origin.health().report();
    let recent = origin.tally().summary(now);
    OriginStatus {
        state: report.verdict.as_str(),
        why: report.why.to_string(),
        backup: false,
        progress: report.why.progress(),
        address: address.endpoint().map(|endpoint| endpoint.to_string()),
        moving_to: None,
        weight: WeightStatus::default(),
        share: 0.0,
        in_flight: origin.in_flight() as u64,
        requests: origin.tally().attempts(),
        rate: pace.rate(recent.attempts),
        served: pace.part(recent.attempts),
        error_ratio: recent.error_ratio,
        hit_ratio: (recent.lookups > 0).then(|| recent.hits as f64 / recent.lookups as f64),
        p50: recent.p50.map(|time| time.as_secs_f64()),
        p99: recent.p99.map(|time| time.as_secs_f64()),
        last_probe: report.last_probe.map(|(grade, at)| ProbeStatus {
            result: grade.as_str(),
            fault: grade.fault().map(|fault| fault.to_string()),
            age: now.saturating_duration_since(at).as_secs_f64(),
        }),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do to count from")]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::config;
    use crate::observe::minutes::STEP;
    use crate::observe::sample::Sighting;
    use crate::observe::{Metrics, Minutes};

    const TEXT: &str = "\
version: 1
process: { listeners: [ { address: 127.0.0.1:8080 } ] }
pools:
  origin:
    balance: { key: \"{host}{path}\" }
    origins: [ \"10.0.0.1:80\", { address: \"10.0.0.2:80\", weight: 3 }, \"b.example:81\" ]
";

    fn snapshot(metrics: &Metrics, now: Instant) -> Snapshot {
        let compile = |config: &config::Config| Snapshot::compile(config, None, metrics, now);
        let (loaded, snapshot) = config::parse_with("m.yaml", TEXT, compile).unwrap();
        snapshot.read_from(&loaded)
    }

    fn seen(snapshot: &Snapshot, started: Instant, now: Instant) -> Status {
        let ledger = Ledger::new(snapshot, [], std::time::SystemTime::UNIX_EPOCH);
        Status::of(snapshot, &Prober::new(), &ledger, started, now)
    }

    fn status() -> Value {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let snapshot = snapshot(&metrics, now);
        let status = seen(&snapshot, now, now + Duration::from_millis(1500));
        serde_json::to_value(status).unwrap()
    }

    #[test]
    fn status_says_what_is_in_force() {
        let status = status();
        assert_eq!(status["generation"], 1);
        assert_eq!(status["uptime"], 1.5);
        assert_eq!(status["config"]["version"], 1);
        assert_eq!(status["probes_stretched"], false);
        assert_eq!(status["config"]["digest"].as_str().unwrap().len(), 64);
        let pool = &status["pools"]["origin"];
        assert_eq!((&pool["algorithm"], &pool["key"]), (&json!("hash"), &json!("{host}{path}")));
        assert_eq!(pool["ring"]["fingerprint"].as_str().unwrap().len(), 16);
        assert_eq!(pool["ring"]["moved_ratio"], 0.0);
        assert_eq!((&pool["panic"], &pool["short"]), (&json!("keep"), &json!(false)));
    }

    #[test]
    fn status_says_how_every_origin_is() {
        let status = status();
        let origins = status["pools"]["origin"]["origins"].as_object().unwrap();
        assert_eq!(origins.keys().collect::<Vec<_>>(), ["10.0.0.1:80", "10.0.0.2:80", "b.example:81"]);
        let mut heavy = origins["10.0.0.2:80"].clone();
        let share = heavy["share"].take().as_f64().unwrap();
        assert!((0.4..0.8).contains(&share), "{share}");
        assert_eq!(
            heavy,
            json!({
                "state": "up", "why": "assumed up: not probed yet", "backup": false, "progress": null, "address": "10.0.0.2:80",
                "moving_to": null,
                "weight": { "configured": 3, "effective": 3.0 }, "share": null, "in_flight": 0, "requests": 0,
                "rate": 0.0, "served": null,
                "error_ratio": null, "hit_ratio": null, "p50": null, "p99": null, "last_probe": null,
            })
        );
    }

    #[test]
    fn status_says_how_fast_it_goes_and_who_really_serves() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let snapshot = snapshot(&metrics, now);
        let members = snapshot.named("origin").unwrap().pool.members();
        for (member, attempts) in members.iter().zip([30, 90]) {
            let tally = member.origin().tally();
            (0..attempts).for_each(|n| tally.record(n < 3, Some(Duration::from_millis(2)), None, now));
        }
        let pool = |up: u64| {
            let later = now + Duration::from_secs(1);
            serde_json::to_value(&seen(&snapshot, later - Duration::from_secs(up), later).pools["origin"]).unwrap()
        };
        let young = pool(10);
        assert_eq!((&young["rate"], &young["error_ratio"]), (&json!(12.0), &json!(0.05)));
        assert!((0.001..0.003).contains(&young["p99"].as_f64().unwrap()), "{young}");
        let old = pool(100);
        assert_eq!((&old["rate"], &old["origins"]["10.0.0.1:80"]["rate"]), (&json!(2.0), &json!(0.5)));
        let served = |name: &str| old["origins"][name]["served"].clone();
        let served = ["10.0.0.1:80", "10.0.0.2:80", "b.example:81"].map(served);
        assert_eq!(served, [json!(0.25), json!(0.75), json!(0.0)]);
        assert_eq!(pool(0)["rate"], json!(24.0), "never as if all had happened in no time");
    }

    #[test]
    fn status_says_how_the_last_minutes_went() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let (snapshot, minutes) = (snapshot(&metrics, now), Minutes::new(metrics.clone()));
        let route = metrics.route("r", Some("origin"));
        minutes.look(now);
        [200, 502].iter().for_each(|code| route.answered("GET", *code, Duration::ZERO));
        minutes.look(now + STEP);
        let later = now + STEP + Duration::from_secs(1);
        metrics.configuration(1, true);
        let status = serde_json::to_value(seen(&snapshot, now, later).with(&metrics, &minutes, later)).unwrap();
        let steps = json!({ "requests": [2], "errors": [1], "retries": [0], "suppressed": [0] });
        assert_eq!(status["pools"]["origin"]["recent"], steps);
        assert_eq!((&status["recent"]["step"], &status["recent"]["age"]), (&json!(5.0), &json!(1.0)));
        assert_eq!((&status["recent"]["requests"], &status["config"]["drift"]), (&json!([2]), &json!(true)));
    }

    #[test]
    fn status_says_whose_share_the_last_change_moved() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let before = snapshot(&metrics, now);
        let smaller = TEXT.replace(", \"b.example:81\"", "");
        let compile = |config: &config::Config| Snapshot::compile(config, Some(&before), &metrics, now);
        let (_, after) = config::parse_with("m.yaml", &smaller, compile).unwrap();
        let ring = serde_json::to_value(&seen(&after, now, now).pools["origin"].ring).unwrap();
        let changed = ring["changed"].as_array().unwrap();
        assert_eq!(
            (changed.len(), &changed[0]["origin"], &changed[0]["after"]),
            (3, &json!("b.example:81"), &json!(0.0))
        );
        let [gone, all] = [&changed[0]["before"], &ring["moved_ratio"]].map(|part| part.as_f64().unwrap());
        assert!((gone - all).abs() < 1e-9, "{gone} {all}");
    }

    #[test]
    fn a_name_that_is_not_resolved_has_no_address_and_no_weight() {
        let status = status();
        let named = &status["pools"]["origin"]["origins"]["b.example:81"];
        assert_eq!((&named["state"], &named["why"]), (&json!("down"), &json!("unresolved")));
        assert_eq!(named["address"], Value::Null);
        assert_eq!(named["weight"], json!({ "configured": 1, "effective": 0.0 }));
    }

    #[test]
    fn shares_of_a_pool_are_the_whole_circle() {
        let status = status();
        let origins = status["pools"]["origin"]["origins"].as_object().unwrap();
        let sum: f64 = origins.values().map(|origin| origin["share"].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn c4_who_was_dropped_is_shown_as_parked_until_it_is_forgotten() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let before = snapshot(&metrics, now);
        let smaller = TEXT.replace(", \"b.example:81\"", "");
        let compile = |config: &config::Config| Snapshot::compile(config, Some(&before), &metrics, now);
        let (_, after) = config::parse_with("m.yaml", &smaller, compile).unwrap();
        let origins = |later: u64| seen(&after, now, now + Duration::from_secs(later)).pools["origin"].origins.clone();
        let parked = &origins(0)["b.example:81"];
        assert_eq!((parked.state, parked.weight.effective, parked.share), ("parked", 0.0, 0.0));
        assert!(parked.why.contains("unresolved"), "{}", parked.why);
        assert_eq!(origins(600).len(), 2);
        show(&after, now);
        assert!(metrics.encode().unwrap().contains("moorgate_origins{pool=\"origin\",state=\"parked\"} 1"));
    }

    #[test]
    fn status_says_what_is_asked_for() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let snapshot = snapshot(&metrics, now);
        let upstream = snapshot.named("origin").unwrap();
        let origin = upstream.pool.members()[0].name();
        let see = |key: &str| {
            let (hash, target) = (crate::balance::hash(key.as_bytes()), key.as_bytes());
            let sighting = Sighting { hash, key: target, origin, away: Some(Away::Down) };
            upstream.tail.sample.see(&sighting, now, || None);
        };
        let keys = |now: Instant| serde_json::to_value(&seen(&snapshot, now, now).pools["origin"].keys).unwrap();
        assert_eq!((&keys(now)["distinct"], &keys(now)["warning"]), (&json!(0), &Value::Null));
        (0..9).for_each(|_| see("/hot"));
        see("/cold");
        let said = keys(now);
        assert_eq!((&said["distinct"], &said["seen_once_ratio"]), (&json!(2), &json!(0.5)));
        let ring = upstream.pool.ring();
        let owner = ring.owner(crate::balance::hash(b"/hot")).and_then(|owner| ring.name(owner));
        assert_eq!(said["top"][0], json!({ "key": "/hot", "requests": 9, "share": 0.9, "owner": owner }));
        assert_eq!((&said["displaced"]["down"], &said["displaced"]["ramp"]), (&json!(1.0), &json!(0.0)));
        assert_eq!(said["moved_ratio"], Value::Null);
        let warning = said["warning"].as_str().unwrap();
        assert!(warning.starts_with("2 distinct keys for 3 origins: "), "{warning}");
    }

    #[test]
    fn gauges_show_the_same() {
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let snapshot = snapshot(&metrics, now);
        show(&snapshot, now);
        let shown = metrics.encode().unwrap();
        let status = seen(&snapshot, now, now);
        let (fingerprint, pool) = (&status.pools["origin"].ring.fingerprint, "pool=\"origin\"");
        for line in [
            format!("moorgate_origin_up{{{pool},origin=\"10.0.0.2:80\"}} 1"),
            format!("moorgate_origin_up{{{pool},origin=\"b.example:81\"}} 0"),
            format!("moorgate_origin_weight{{{pool},origin=\"10.0.0.2:80\",kind=\"effective\"}} 3"),
            format!("moorgate_origins{{{pool},state=\"up\"}} 2"),
            format!("moorgate_origins{{{pool},state=\"down\"}} 1"),
            format!("moorgate_pool_short{{{pool}}} 0"),
            format!("moorgate_ring_info{{{pool},fingerprint=\"{fingerprint}\",generation=\"1\"}} 1"),
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line} in\n{shown}");
        }
    }

    #[test]
    fn a_template_of_the_access_log_is_held_to_its_variables() {
        let text = TEXT.replace("process: {", "process: { access_log: { path: stdout, format: \"{statsu}\" },");
        let (metrics, now) = (Metrics::new().unwrap(), Instant::now());
        let compile = |config: &config::Config| Snapshot::compile(config, None, &metrics, now).map(|_| ());
        let report = config::parse_with("m.yaml", &text, compile).unwrap_err();
        assert_eq!(
            report.to_string().lines().next(),
            Some("m.yaml:2:48: process.access_log.format: unknown variable {statsu}, did you mean {status}?")
        );
    }
}
