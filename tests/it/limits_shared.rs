//! Do replicas share one limit? Redis counts for them, and when it does not, nobody fails and nobody waits.

use std::time::Duration;

use crate::rig::{self, Ask, Gateway, Origin, Redis};

fn text(redis: &Redis, limit: &str) -> String {
    format!(
        "pools: {{ p: {{ balance: {{ key: \"{{path}}\" }}, health: {{ probe: off }}, origins: $origins }} }}\n\
         routes: [ {{ name: r, pool: p, limits: {{ rate: {{ name: all, key: \"{{header:x-user}}\", {limit}, shared: {{ redis: \"{}\" }} }} }} }} ]\n",
        redis.url()
    )
}

fn two(redis: &Redis, limit: &str) -> (Origin, [Gateway; 2]) {
    let origin = rig::origin("a");
    let gateways = [0, 1].map(|_| rig::gateway(&text(redis, limit)).origins([&origin]).start());
    (origin, gateways)
}

fn by(gateway: &Gateway, user: &str) -> u16 {
    gateway.ask(&Ask::get("/").header("X-User", user)).status
}

fn errors(gateway: &Gateway) -> f64 {
    gateway.metrics().sum("moorgate_rate_shared_errors_total", &[("limit", "all")])
}

#[test]
fn two_gateways_share_one_limit_and_count_by_themselves_while_redis_is_gone() {
    let mut redis = rig::redis();
    let (_origin, gateways) = two(&redis, "rate: 1/h, burst: 9");
    let statuses: Vec<_> = (0..20).map(|n| by(&gateways[n % 2], "a")).collect();
    assert_eq!(statuses, [[200; 10], [429; 10]].concat(), "ten in all, whoever is asked");
    let answer = gateways[0].ask(&Ask::get("/told").header("X-User", "a"));
    let wait: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((3590..=3600).contains(&wait), "{answer:?}");
    assert_eq!([errors(&gateways[0]), errors(&gateways[1])], [0.0, 0.0]);
    for shown in [gateways[0].admin("GET", "/config").text(), gateways[0].output()] {
        assert!(!shown.contains(rig::PASSWORD), "{shown}");
    }
    assert!(gateways[0].admin("GET", "/config").text().contains("redis://:***@"));

    redis.kill();
    for gateway in &gateways {
        rig::eventually("it is found out", || (by(gateway, "nobody") == 200 && errors(gateway) > 0.0).then_some(()));
        let statuses: Vec<_> = (0..12).map(|_| by(gateway, "b")).collect();
        assert_eq!(statuses, [vec![200; 10], vec![429; 2]].concat(), "each by itself");
    }
    redis.start_again();
    rig::eventually("it is asked again", || {
        let before = errors(&gateways[0]);
        by(&gateways[0], "nobody");
        (errors(&gateways[0]) - before < 0.5).then_some(())
    });
    rig::eventually("by the other, too", || {
        let before = errors(&gateways[1]);
        by(&gateways[1], "nobody");
        (errors(&gateways[1]) - before < 0.5).then_some(())
    });
    let statuses: Vec<_> = (0..12).map(|n| by(&gateways[n % 2], "c")).collect();
    assert_eq!(statuses, [vec![200; 10], vec![429; 2]].concat());
}

#[test]
fn no_request_fails_and_few_wait_while_redis_dies_hangs_and_comes_back() {
    let mut redis = rig::redis();
    let (_origin, [gateway, _]) = two(&redis, "rate: 1000000/s, burst: 1000000");
    assert_eq!(by(&gateway, "a"), 200);
    let load = rig::load(gateway.address()).start();
    load.further(50);
    redis.kill();
    rig::eventually("it is gone", || (errors(&gateway) > 20.0).then_some(()));
    redis.start_again();
    load.further(100);
    redis.freeze(true);
    let before = errors(&gateway);
    rig::eventually("it hangs", || (errors(&gateway) > before + 200.0).then_some(()));
    redis.freeze(false);
    load.further(100);
    let tally = load.stop();
    assert_eq!(tally.failed, Vec::<String>::new());
    assert_eq!(tally.by_status.keys().collect::<Vec<_>>(), [&200]);
    assert!(tally.slowest < Duration::from_secs(1), "{:?}", tally.slowest);
}
