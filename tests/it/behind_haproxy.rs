//! Does a real HAProxy with its own checks lose nothing when one of two gateways leaves, and when both are upgraded or
//! changed in turn? Rules U5 and U8, promise P8.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::rig::{self, Gateway, Origin, eventually};

const POOL: &str = "trusted_proxies: [127.0.0.1]\npools: { p: { balance: { key: \"{path}\" }, origins: $origins } }\n";

fn gateway(a: &Origin) -> Gateway {
    let setup = rig::gateway(POOL).listener("proxy_protocol: required");
    setup.process("drain", "{ lame_duck: 8s, timeout: 15s }").origins([a]).start()
}

/// Checks as they are by default: every 2 s, out after 3 that failed.
fn servers(gateways: &[&Gateway]) -> String {
    let server = |(n, gateway): (usize, &&Gateway)| {
        format!("  server g{n} {} send-proxy-v2 check port {}\n", gateway.address(), gateway.admin.port())
    };
    gateways.iter().enumerate().map(server).collect()
}

#[test]
fn u5_no_client_behind_haproxy_sees_that_one_of_two_gateways_leaves() {
    let a = rig::origin("a");
    let (mut leaving, staying) = (gateway(&a), gateway(&a));
    let section =
        format!("  mode tcp\n  balance roundrobin\n  option httpchk GET /readyz\n{}", servers(&[&leaving, &staying]));
    let haproxy = rig::haproxy(&section);
    let load = rig::load(haproxy.address).clients(25).rate(500.0).fresh_connections().start();
    load.further(1000);
    assert!([&leaving, &staying].iter().all(|gateway| !gateway.log().is_empty()), "both get their share");
    leaving.signal(Signal::SIGTERM);
    let gone = rig::within(rig::PATIENCE * 2, || (!leaving.running()).then_some(()));
    assert!(gone.is_some(), "the gateway does not leave");
    assert_eq!(leaving.exit(), 0);
    load.further(500);
    let tally = load.stop();
    tally.assert_all_good();
    assert!(haproxy.output().contains("g0 is DOWN"), "{}", haproxy.output());
}

#[test]
fn u8_haproxy_s_own_checks_are_taken_and_its_clients_are_known() {
    let a = rig::origin("a");
    let gateway = rig::gateway(POOL).listener("proxy_protocol: required").origins([&a]).start();
    let server = format!("  server g {} send-proxy-v2 check check-send-proxy inter 100ms\n", gateway.address());
    let section = format!("  mode tcp\n  option httpchk GET /checked\n  http-check expect status 200\n{server}");
    let haproxy = rig::haproxy(&section);
    assert_eq!(gateway.logged("/checked")["client"], "127.0.0.1", "LOCAL is HAProxy itself");
    let mut client = rig::Raw::connect_from([127, 0, 0, 3].into(), haproxy.address).unwrap();
    client.send("GET /client HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    assert_eq!(gateway.logged("/client")["client"], "127.0.0.3");
    eventually("it goes on checking", || {
        (gateway.log().iter().filter(|line| line["uri"] == "/checked" && line["status"] == 200).count() > 2)
            .then_some(())
    });
    assert!(!haproxy.output().contains("DOWN"), "{}", haproxy.output());
}

fn fingerprint(gateway: &Gateway) -> serde_json::Value {
    gateway.status()["pools"]["p"]["ring"]["fingerprint"].clone()
}

/// Two gateways as they stand behind one balancer that asks often, so that a drain is short.
fn two(origins: &[Origin]) -> [Gateway; 2] {
    [(); 2].map(|()| {
        let setup = rig::gateway(POOL).listener("proxy_protocol: required").origins(origins);
        setup.process("drain", "{ lame_duck: 2s, timeout: 1s }").start()
    })
}

fn in_front(gateways: &[Gateway; 2]) -> rig::Haproxy {
    let checks = "  mode tcp\n  balance roundrobin\n  option redispatch 1\n  option httpchk GET /readyz\n  default-server inter 200ms fall 2 rise 1\n";
    rig::haproxy(&format!("{checks}{}", servers(&gateways.each_ref())))
}

#[test]
fn p8_a_rolling_upgrade_and_a_rolling_change_behind_haproxy_cost_nothing_and_a_crash_what_was_answered() {
    let origins: Vec<_> = ["a", "b", "c", "d"].map(rig::origin).into();
    let mut gateways = two(&origins[..3]);
    let haproxy = in_front(&gateways);
    let kept = rig::load(haproxy.address).clients(5).rate(100.0).start();
    let fresh = rig::load(haproxy.address).clients(25).rate(400.0).fresh_connections().start();
    fresh.further(200);
    let before = fingerprint(&gateways[0]);
    for gateway in &mut gateways {
        let upgraded = gateway.upgrade(&[]);
        assert_eq!(upgraded.status.code(), Some(0), "{}", String::from_utf8_lossy(&upgraded.stderr));
        assert_eq!(gateway.exit(), 0);
        assert_eq!((gateway.status()["generation"].as_u64(), fingerprint(gateway)), (Some(2), before.clone()));
    }
    let next = POOL.replace("origins:", "slow_start: off, origins:");
    for gateway in &mut gateways {
        gateway.knows([&origins[3]]);
        gateway.change(&next);
    }
    let after = gateways.each_ref().map(fingerprint);
    assert!(after[0] == after[1] && after[0] != before, "both place alike, and otherwise than before: {after:?}");
    gateways.iter().for_each(|gateway| gateway.await_state("p", "d", "up"));
    fresh.further(200);
    let (kept, fresh) = (kept.stop(), fresh.stop());
    kept.assert_all_good();
    fresh.assert_all_good();
    assert!(!haproxy.output().contains("DOWN"), "nobody was taken out: {}", haproxy.output());
    let load = rig::load(haproxy.address).clients(25).rate(400.0).fresh_connections().start();
    load.further(100);
    gateways[1].generations().into_iter().for_each(|pid| kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap());
    eventually("it is taken out", || haproxy.output().contains("g1 is DOWN").then_some(()));
    load.further(100);
    let tally = load.stop();
    assert!(tally.by_status.keys().eq([&200]), "{:?}", tally.by_status);
    // Each client has one request at a time; who was to connect there went to the other one.
    assert!(tally.failed.len() <= 25, "{} were lost: {:?}", tally.failed.len(), tally.failed.first());
}

/// Each leaves in turn and comes back, while short connections go on.
#[test]
fn b63_no_drain_in_turn_behind_haproxy_refuses_or_resets_anybody() {
    let origins = [rig::origin("a")];
    let mut gateways = two(&origins);
    let haproxy = in_front(&gateways);
    let load = rig::load(haproxy.address).clients(32).rate(2000.0).fresh_connections().start();
    load.further(200);
    let drains = rig::rounds(2);
    for turn in 0..drains {
        let gateway = &mut gateways[turn % 2];
        gateway.signal(Signal::SIGTERM);
        assert_eq!(gateway.exit(), 0);
        gateway.start_again();
        let back = |line: &str| line.matches(&format!("g{} is UP", turn % 2)).count() > turn / 2;
        eventually("it is back", || back(&haproxy.output()).then_some(()));
    }
    let tally = load.stop();
    tally.assert_all_good();
    eprintln!("{drains} drains, {} short connections; the slowest took {:?}", tally.sent(), tally.slowest);
}
