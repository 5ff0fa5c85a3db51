//! Does a real HAProxy with its own checks lose nothing when one of two gateways leaves? Rules U5 and U8.

use nix::sys::signal::Signal;

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
